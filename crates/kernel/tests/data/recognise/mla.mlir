module @jit_both attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x128x2x48xbf16>, %arg1: tensor<1x128x2x32xbf16>, %arg2: tensor<1x128x16xbf16>, %arg3: tensor<1x128x2x32xbf16>, %arg4: tensor<1x128x2x32xbf16>) -> (tensor<1x128x2x32xbf16> {jax.result_info = "result[0]"}, tensor<1x128x2x48xbf16> {jax.result_info = "result[1]"}, tensor<1x128x2x32xbf16> {jax.result_info = "result[2]"}, tensor<1x128x16xbf16> {jax.result_info = "result[3]"}, tensor<1x128x2x32xbf16> {jax.result_info = "result[4]"}) {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 3] : (tensor<1x128x16xbf16>) -> tensor<1x128x1x16xbf16>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<1x128x1x16xbf16>) -> tensor<1x128x2x16xbf16>
    %2 = stablehlo.concatenate %arg1, %1, dim = 3 : (tensor<1x128x2x32xbf16>, tensor<1x128x2x16xbf16>) -> tensor<1x128x2x48xbf16>
    %3 = stablehlo.dot_general %arg0, %2, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x128x2x48xbf16>, tensor<1x128x2x48xbf16>) -> tensor<1x2x128x128xbf16>
    %4 = stablehlo.convert %3 : (tensor<1x2x128x128xbf16>) -> tensor<1x2x128x128xf32>
    %cst = stablehlo.constant dense<0.144337565> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x2x128x128xf32>
    %6 = stablehlo.multiply %4, %5 : tensor<1x2x128x128xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %7 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<128x128xi1>
    %8 = call @tril(%7) : (tensor<128x128xi1>) -> tensor<128x128xi1>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %9:2 = call @_where(%8, %6, %cst_0) : (tensor<128x128xi1>, tensor<1x2x128x128xf32>, tensor<f32>) -> (tensor<1x2x128x128xf32>, tensor<1x2x128x128xi1>)
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.reduce(%9#0 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x128x128xf32>, tensor<f32>) -> tensor<1x2x128xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x2x128xf32>
    %12 = stablehlo.maximum %11, %10 : tensor<1x2x128xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<1x2x128xf32>) -> tensor<1x2x128x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<1x2x128x1xf32>) -> tensor<1x2x128x128xf32>
    %15 = stablehlo.subtract %9#0, %14 : tensor<1x2x128x128xf32>
    %16 = stablehlo.exponential %15 : tensor<1x2x128x128xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.reduce(%16 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<1x2x128x128xf32>, tensor<f32>) -> tensor<1x2x128xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<1x2x128xf32>) -> tensor<1x2x128x1xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3] : (tensor<1x2x128x1xf32>) -> tensor<1x2x128x128xf32>
    %20 = stablehlo.divide %16, %19 : tensor<1x2x128x128xf32>
    %21 = stablehlo.multiply %18, %18 : tensor<1x2x128x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x2x128x1xf32>
    %23 = stablehlo.divide %22, %21 : tensor<1x2x128x1xf32>
    %24 = stablehlo.convert %20 : (tensor<1x2x128x128xf32>) -> tensor<1x2x128x128xbf16>
    %25 = stablehlo.dot_general %arg3, %24, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x128x2x32xbf16>, tensor<1x2x128x128xbf16>) -> tensor<1x2x32x128xbf16>
    %26 = stablehlo.transpose %25, dims = [0, 3, 1, 2] : (tensor<1x2x32x128xbf16>) -> tensor<1x128x2x32xbf16>
    %27 = stablehlo.transpose %arg4, dims = [0, 2, 3, 1] : (tensor<1x128x2x32xbf16>) -> tensor<1x2x32x128xbf16>
    %28 = stablehlo.dot_general %27, %arg3, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x2x32x128xbf16>, tensor<1x128x2x32xbf16>) -> tensor<1x2x128x128xbf16>
    %29 = stablehlo.dot_general %27, %24, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<1x2x32x128xbf16>, tensor<1x2x128x128xbf16>) -> tensor<1x2x32x128xbf16>
    %30 = stablehlo.transpose %29, dims = [0, 3, 1, 2] : (tensor<1x2x32x128xbf16>) -> tensor<1x128x2x32xbf16>
    %31 = stablehlo.convert %28 : (tensor<1x2x128x128xbf16>) -> tensor<1x2x128x128xf32>
    %32 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3] : (tensor<1x2x128x1xf32>) -> tensor<1x2x128x128xf32>
    %33 = stablehlo.multiply %31, %32 : tensor<1x2x128x128xf32>
    %34 = stablehlo.multiply %33, %16 : tensor<1x2x128x128xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %35 = stablehlo.reduce(%34 init: %cst_5) applies stablehlo.add across dimensions = [3] : (tensor<1x2x128x128xf32>, tensor<f32>) -> tensor<1x2x128xf32>
    %36 = stablehlo.reshape %35 : (tensor<1x2x128xf32>) -> tensor<1x2x128x1xf32>
    %37 = stablehlo.negate %36 : tensor<1x2x128x1xf32>
    %38 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3] : (tensor<1x2x128x1xf32>) -> tensor<1x2x128x128xf32>
    %39 = stablehlo.divide %31, %38 : tensor<1x2x128x128xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %40 = stablehlo.reduce(%37 init: %cst_6) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x2x128x1xf32>, tensor<f32>) -> tensor<2x128xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [1, 2] : (tensor<2x128xf32>) -> tensor<1x2x128xf32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2] : (tensor<1x2x128xf32>) -> tensor<1x2x128x128xf32>
    %43 = stablehlo.add %39, %42 : tensor<1x2x128x128xf32>
    %44 = stablehlo.multiply %43, %16 : tensor<1x2x128x128xf32>
    %45 = call @_where_0(%9#1, %44) : (tensor<1x2x128x128xi1>, tensor<1x2x128x128xf32>) -> tensor<1x2x128x128xf32>
    %cst_7 = stablehlo.constant dense<0.144337565> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x2x128x128xf32>
    %47 = stablehlo.multiply %45, %46 : tensor<1x2x128x128xf32>
    %48 = stablehlo.convert %47 : (tensor<1x2x128x128xf32>) -> tensor<1x2x128x128xbf16>
    %49 = stablehlo.dot_general %48, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x2x128x128xbf16>, tensor<1x128x2x48xbf16>) -> tensor<1x2x128x48xbf16>
    %50 = stablehlo.transpose %49, dims = [0, 2, 1, 3] : (tensor<1x2x128x48xbf16>) -> tensor<1x128x2x48xbf16>
    %51 = stablehlo.dot_general %48, %2, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x2x128x128xbf16>, tensor<1x128x2x48xbf16>) -> tensor<1x2x128x48xbf16>
    %52 = stablehlo.transpose %51, dims = [0, 2, 1, 3] : (tensor<1x2x128x48xbf16>) -> tensor<1x128x2x48xbf16>
    %53 = stablehlo.slice %50 [0:1, 0:128, 0:2, 0:32] : (tensor<1x128x2x48xbf16>) -> tensor<1x128x2x32xbf16>
    %54 = stablehlo.slice %50 [0:1, 0:128, 0:2, 32:48] : (tensor<1x128x2x48xbf16>) -> tensor<1x128x2x16xbf16>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %55 = stablehlo.reduce(%54 init: %cst_8) applies stablehlo.add across dimensions = [0, 2] : (tensor<1x128x2x16xbf16>, tensor<bf16>) -> tensor<128x16xbf16>
    %56 = stablehlo.broadcast_in_dim %55, dims = [1, 3] : (tensor<128x16xbf16>) -> tensor<1x128x1x16xbf16>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %57 = stablehlo.reduce(%56 init: %cst_9) applies stablehlo.add across dimensions = [0, 2] : (tensor<1x128x1x16xbf16>, tensor<bf16>) -> tensor<128x16xbf16>
    %58 = stablehlo.broadcast_in_dim %57, dims = [1, 2] : (tensor<128x16xbf16>) -> tensor<1x128x16xbf16>
    return %26, %52, %53, %58, %30 : tensor<1x128x2x32xbf16>, tensor<1x128x2x48xbf16>, tensor<1x128x2x32xbf16>, tensor<1x128x16xbf16>, tensor<1x128x2x32xbf16>
  }
  func.func private @tril(%arg0: tensor<128x128xi1>) -> tensor<128x128xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<128x128xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<128x128xi32>
    %2 = stablehlo.add %0, %1 : tensor<128x128xi32>
    %3 = stablehlo.iota dim = 1 : tensor<128x128xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<128x128xi32>, tensor<128x128xi32>) -> tensor<128x128xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<128x128xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<128x128xi1>, tensor<128x128xi1>
    return %6 : tensor<128x128xi1>
  }
  func.func private @_where(%arg0: tensor<128x128xi1>, %arg1: tensor<1x2x128x128xf32>, %arg2: tensor<f32>) -> (tensor<1x2x128x128xf32>, tensor<1x2x128x128xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<128x128xi1>) -> tensor<1x2x128x128xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x2x128x128xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x2x128x128xi1>, tensor<1x2x128x128xf32>
    return %3, %1 : tensor<1x2x128x128xf32>, tensor<1x2x128x128xi1>
  }
  func.func private @_where_0(%arg0: tensor<1x2x128x128xi1>, %arg1: tensor<1x2x128x128xf32>) -> tensor<1x2x128x128xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x2x128x128xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<1x2x128x128xi1>, tensor<1x2x128x128xf32>
    return %1 : tensor<1x2x128x128xf32>
  }
}
