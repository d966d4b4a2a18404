module @jit_both attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x128x4x32xbf16>, %arg1: tensor<1x128x2x32xbf16>, %arg2: tensor<1x128x2x32xbf16>, %arg3: tensor<1x128x4x32xbf16>) -> (tensor<1x128x4x32xbf16> {jax.result_info = "result[0]"}, tensor<1x128x4x32xbf16> {jax.result_info = "result[1]"}, tensor<1x128x2x32xbf16> {jax.result_info = "result[2]"}, tensor<1x128x2x32xbf16> {jax.result_info = "result[3]"}) {
    %0 = stablehlo.reshape %arg0 : (tensor<1x128x4x32xbf16>) -> tensor<1x128x2x2x32xbf16>
    %cst = stablehlo.constant dense<1.767580e-01> : tensor<bf16>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<1x128x2x2x32xbf16>
    %2 = stablehlo.multiply %0, %1 : tensor<1x128x2x2x32xbf16>
    %3 = stablehlo.dot_general %arg1, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4], precision = [DEFAULT, DEFAULT] : (tensor<1x128x2x32xbf16>, tensor<1x128x2x2x32xbf16>) -> tensor<1x2x128x128x2xf32>
    %4 = stablehlo.transpose %3, dims = [0, 1, 4, 3, 2] : (tensor<1x2x128x128x2xf32>) -> tensor<1x2x2x128x128xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x128xf32>
    %6 = stablehlo.divide %4, %5 : tensor<1x2x2x128x128xf32>
    %7 = stablehlo.tanh %6 : tensor<1x2x2x128x128xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x128xf32>
    %9 = stablehlo.subtract %8, %7 : tensor<1x2x2x128x128xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x128xf32>
    %11 = stablehlo.multiply %7, %10 : tensor<1x2x2x128x128xf32>
    %12 = stablehlo.iota dim = 0 : tensor<128xi32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<128xi32>) -> tensor<128x1xi32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [1] : (tensor<128xi32>) -> tensor<1x128xi32>
    %15 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<128x1xi32>) -> tensor<128x128xi32>
    %16 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<1x128xi32>) -> tensor<128x128xi32>
    %17 = stablehlo.compare GE, %15, %16, SIGNED : (tensor<128x128xi32>, tensor<128x128xi32>) -> tensor<128x128xi1>
    %18 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<128xi32>) -> tensor<128x1xi32>
    %19 = stablehlo.broadcast_in_dim %12, dims = [1] : (tensor<128xi32>) -> tensor<1x128xi32>
    %20 = stablehlo.broadcast_in_dim %18, dims = [0, 1] : (tensor<128x1xi32>) -> tensor<128x128xi32>
    %21 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<1x128xi32>) -> tensor<128x128xi32>
    %22 = stablehlo.subtract %20, %21 : tensor<128x128xi32>
    %c = stablehlo.constant dense<40> : tensor<i32>
    %23 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<128x128xi32>
    %24 = stablehlo.compare LT, %22, %23, SIGNED : (tensor<128x128xi32>, tensor<128x128xi32>) -> tensor<128x128xi1>
    %25 = stablehlo.and %17, %24 : tensor<128x128xi1>
    %cst_3 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %26:2 = call @_where(%25, %11, %cst_3) : (tensor<128x128xi1>, tensor<1x2x2x128x128xf32>, tensor<f32>) -> (tensor<1x2x2x128x128xf32>, tensor<1x2x2x128x128xi1>)
    %cst_4 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %27 = stablehlo.reduce(%26#0 init: %cst_4) applies stablehlo.maximum across dimensions = [4] : (tensor<1x2x2x128x128xf32>, tensor<f32>) -> tensor<1x2x2x128xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1x2x2x128xf32>
    %29 = stablehlo.maximum %28, %27 : tensor<1x2x2x128xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2, 3] : (tensor<1x2x2x128xf32>) -> tensor<1x2x2x128x1xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x128x1xf32>) -> tensor<1x2x2x128x128xf32>
    %32 = stablehlo.subtract %26#0, %31 : tensor<1x2x2x128x128xf32>
    %33 = stablehlo.exponential %32 : tensor<1x2x2x128x128xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %34 = stablehlo.reduce(%33 init: %cst_6) applies stablehlo.add across dimensions = [4] : (tensor<1x2x2x128x128xf32>, tensor<f32>) -> tensor<1x2x2x128xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2, 3] : (tensor<1x2x2x128xf32>) -> tensor<1x2x2x128x1xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x128x1xf32>) -> tensor<1x2x2x128x128xf32>
    %37 = stablehlo.divide %33, %36 : tensor<1x2x2x128x128xf32>
    %38 = stablehlo.multiply %35, %35 : tensor<1x2x2x128x1xf32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x1xf32>
    %40 = stablehlo.divide %39, %38 : tensor<1x2x2x128x1xf32>
    %41 = stablehlo.convert %37 : (tensor<1x2x2x128x128xf32>) -> tensor<1x2x2x128x128xbf16>
    %42 = stablehlo.dot_general %arg2, %41, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<1x128x2x32xbf16>, tensor<1x2x2x128x128xbf16>) -> tensor<1x2x32x2x128xbf16>
    %43 = stablehlo.transpose %42, dims = [0, 4, 1, 3, 2] : (tensor<1x2x32x2x128xbf16>) -> tensor<1x128x2x2x32xbf16>
    %44 = stablehlo.reshape %43 : (tensor<1x128x2x2x32xbf16>) -> tensor<1x128x4x32xbf16>
    %45 = stablehlo.reshape %arg3 : (tensor<1x128x4x32xbf16>) -> tensor<1x128x2x2x32xbf16>
    %46 = stablehlo.transpose %45, dims = [0, 2, 4, 3, 1] : (tensor<1x128x2x2x32xbf16>) -> tensor<1x2x32x2x128xbf16>
    %47 = stablehlo.dot_general %46, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x2x32x2x128xbf16>, tensor<1x128x2x32xbf16>) -> tensor<1x2x2x128x128xbf16>
    %48 = stablehlo.dot_general %46, %41, batching_dims = [0, 1] x [0, 1], contracting_dims = [3, 4] x [2, 3], precision = [DEFAULT, DEFAULT] : (tensor<1x2x32x2x128xbf16>, tensor<1x2x2x128x128xbf16>) -> tensor<1x2x32x128xbf16>
    %49 = stablehlo.transpose %48, dims = [0, 3, 1, 2] : (tensor<1x2x32x128xbf16>) -> tensor<1x128x2x32xbf16>
    %50 = stablehlo.convert %47 : (tensor<1x2x2x128x128xbf16>) -> tensor<1x2x2x128x128xf32>
    %51 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x128x1xf32>) -> tensor<1x2x2x128x128xf32>
    %52 = stablehlo.multiply %50, %51 : tensor<1x2x2x128x128xf32>
    %53 = stablehlo.multiply %52, %33 : tensor<1x2x2x128x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %54 = stablehlo.reduce(%53 init: %cst_8) applies stablehlo.add across dimensions = [4] : (tensor<1x2x2x128x128xf32>, tensor<f32>) -> tensor<1x2x2x128xf32>
    %55 = stablehlo.reshape %54 : (tensor<1x2x2x128xf32>) -> tensor<1x2x2x128x1xf32>
    %56 = stablehlo.negate %55 : tensor<1x2x2x128x1xf32>
    %57 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x128x1xf32>) -> tensor<1x2x2x128x128xf32>
    %58 = stablehlo.divide %50, %57 : tensor<1x2x2x128x128xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = stablehlo.reduce(%56 init: %cst_9) applies stablehlo.add across dimensions = [0, 4] : (tensor<1x2x2x128x1xf32>, tensor<f32>) -> tensor<2x2x128xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [1, 2, 3] : (tensor<2x2x128xf32>) -> tensor<1x2x2x128xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2, 3] : (tensor<1x2x2x128xf32>) -> tensor<1x2x2x128x128xf32>
    %62 = stablehlo.add %58, %61 : tensor<1x2x2x128x128xf32>
    %63 = stablehlo.multiply %62, %33 : tensor<1x2x2x128x128xf32>
    %64 = call @_where_0(%26#1, %63) : (tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>) -> tensor<1x2x2x128x128xf32>
    %cst_10 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x128xf32>
    %66 = stablehlo.multiply %64, %65 : tensor<1x2x2x128x128xf32>
    %67 = stablehlo.multiply %66, %9 : tensor<1x2x2x128x128xf32>
    %68 = stablehlo.multiply %67, %7 : tensor<1x2x2x128x128xf32>
    %69 = stablehlo.add %67, %68 : tensor<1x2x2x128x128xf32>
    %cst_11 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x128xf32>
    %71 = stablehlo.divide %69, %70 : tensor<1x2x2x128x128xf32>
    %72 = stablehlo.transpose %71, dims = [0, 1, 4, 3, 2] : (tensor<1x2x2x128x128xf32>) -> tensor<1x2x128x128x2xf32>
    %73 = stablehlo.convert %72 : tensor<1x2x128x128x2xf32>
    %74 = stablehlo.convert %arg1 : (tensor<1x128x2x32xbf16>) -> tensor<1x128x2x32xf32>
    %75 = stablehlo.dot_general %73, %74, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x2x128x128x2xf32>, tensor<1x128x2x32xf32>) -> tensor<1x2x128x2x32xf32>
    %76 = stablehlo.transpose %75, dims = [0, 2, 1, 3, 4] : (tensor<1x2x128x2x32xf32>) -> tensor<1x128x2x2x32xf32>
    %77 = stablehlo.convert %76 : (tensor<1x128x2x2x32xf32>) -> tensor<1x128x2x2x32xbf16>
    %78 = stablehlo.convert %72 : tensor<1x2x128x128x2xf32>
    %79 = stablehlo.convert %2 : (tensor<1x128x2x2x32xbf16>) -> tensor<1x128x2x2x32xf32>
    %80 = stablehlo.dot_general %78, %79, batching_dims = [0, 1] x [0, 2], contracting_dims = [3, 4] x [1, 3], precision = [DEFAULT, DEFAULT] : (tensor<1x2x128x128x2xf32>, tensor<1x128x2x2x32xf32>) -> tensor<1x2x128x32xf32>
    %81 = stablehlo.transpose %80, dims = [0, 2, 1, 3] : (tensor<1x2x128x32xf32>) -> tensor<1x128x2x32xf32>
    %82 = stablehlo.convert %81 : (tensor<1x128x2x32xf32>) -> tensor<1x128x2x32xbf16>
    %cst_12 = stablehlo.constant dense<1.767580e-01> : tensor<bf16>
    %83 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<bf16>) -> tensor<1x128x2x2x32xbf16>
    %84 = stablehlo.multiply %77, %83 : tensor<1x128x2x2x32xbf16>
    %85 = stablehlo.reshape %84 : (tensor<1x128x2x2x32xbf16>) -> tensor<1x128x4x32xbf16>
    return %44, %85, %82, %49 : tensor<1x128x4x32xbf16>, tensor<1x128x4x32xbf16>, tensor<1x128x2x32xbf16>, tensor<1x128x2x32xbf16>
  }
  func.func private @_where(%arg0: tensor<128x128xi1>, %arg1: tensor<1x2x2x128x128xf32>, %arg2: tensor<f32>) -> (tensor<1x2x2x128x128xf32>, tensor<1x2x2x128x128xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [3, 4] : (tensor<128x128xi1>) -> tensor<1x2x2x128x128xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x128xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>
    return %3, %1 : tensor<1x2x2x128x128xf32>, tensor<1x2x2x128x128xi1>
  }
  func.func private @_where_0(%arg0: tensor<1x2x2x128x128xi1>, %arg1: tensor<1x2x2x128x128xf32>) -> tensor<1x2x2x128x128xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x128xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>
    return %1 : tensor<1x2x2x128x128xf32>
  }
}
