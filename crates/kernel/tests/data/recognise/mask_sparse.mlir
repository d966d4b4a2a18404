module @jit_g attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x256x2x64xbf16>, %arg1: tensor<2x256x2x64xbf16>, %arg2: tensor<2x256x2x64xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][1]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][2]"}) {
    %0 = stablehlo.iota dim = 0 : tensor<256xi32>
    %c = stablehlo.constant dense<64> : tensor<i32>
    %1 = call @floor_divide(%0, %c) : (tensor<256xi32>, tensor<i32>) -> tensor<256xi32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<256xi32>) -> tensor<256x1xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<256xi32>) -> tensor<1x256xi32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<256x1xi32>) -> tensor<256x256xi32>
    %5 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<1x256xi32>) -> tensor<256x256xi32>
    %6 = stablehlo.compare EQ, %4, %5, SIGNED : (tensor<256x256xi32>, tensor<256x256xi32>) -> tensor<256x256xi1>
    %7 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<256xi32>) -> tensor<1x256xi32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %8 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<1x256xi32>
    %9 = stablehlo.compare EQ, %7, %8, SIGNED : (tensor<1x256xi32>, tensor<1x256xi32>) -> tensor<1x256xi1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x256xi1>) -> tensor<256x256xi1>
    %11 = stablehlo.or %6, %10 : tensor<256x256xi1>
    %12 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x256xbf16>
    %13 = stablehlo.convert %12 : (tensor<2x2x256x256xbf16>) -> tensor<2x2x256x256xf32>
    %cst = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %15 = stablehlo.multiply %13, %14 : tensor<2x2x256x256xf32>
    %cst_1 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %16:2 = call @_where_0(%11, %15, %cst_1) : (tensor<256x256xi1>, tensor<2x2x256x256xf32>, tensor<f32>) -> (tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>)
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %17 = stablehlo.reduce(%16#0 init: %cst_2) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x2x256xf32>
    %19 = stablehlo.maximum %18, %17 : tensor<2x2x256xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %22 = stablehlo.subtract %16#0, %21 : tensor<2x2x256x256xf32>
    %23 = stablehlo.exponential %22 : tensor<2x2x256x256xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %24 = stablehlo.reduce(%23 init: %cst_4) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %27 = stablehlo.divide %23, %26 : tensor<2x2x256x256xf32>
    %28 = stablehlo.multiply %25, %25 : tensor<2x2x256x1xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x2x256x1xf32>
    %30 = stablehlo.divide %29, %28 : tensor<2x2x256x1xf32>
    %31 = stablehlo.convert %27 : (tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xbf16>
    %32 = stablehlo.dot_general %arg2, %31, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %33 = stablehlo.transpose %32, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %34 = stablehlo.convert %33 : (tensor<2x256x2x64xbf16>) -> tensor<2x256x2x64xf32>
    %35 = stablehlo.multiply %34, %34 : tensor<2x256x2x64xf32>
    %cst_6 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %37 = stablehlo.multiply %36, %34 : tensor<2x256x2x64xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %38 = stablehlo.reduce(%35 init: %cst_7) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x256x2x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %40 = stablehlo.multiply %39, %37 : tensor<2x256x2x64xf32>
    %41 = stablehlo.convert %40 : (tensor<2x256x2x64xf32>) -> tensor<2x256x2x64xbf16>
    %42 = stablehlo.transpose %41, dims = [0, 2, 3, 1] : (tensor<2x256x2x64xbf16>) -> tensor<2x2x64x256xbf16>
    %43 = stablehlo.dot_general %42, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x256xbf16>
    %44 = stablehlo.dot_general %42, %31, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x256xbf16>, tensor<2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %45 = stablehlo.transpose %44, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %46 = stablehlo.convert %43 : (tensor<2x2x256x256xbf16>) -> tensor<2x2x256x256xf32>
    %47 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %48 = stablehlo.multiply %46, %47 : tensor<2x2x256x256xf32>
    %49 = stablehlo.multiply %48, %23 : tensor<2x2x256x256xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %50 = stablehlo.reduce(%49 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %51 = stablehlo.reshape %50 : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %52 = stablehlo.negate %51 : tensor<2x2x256x1xf32>
    %53 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %54 = stablehlo.divide %46, %53 : tensor<2x2x256x256xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %55 = stablehlo.reduce(%52 init: %cst_10) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x1xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x256xf32>
    %57 = stablehlo.add %54, %56 : tensor<2x2x256x256xf32>
    %58 = stablehlo.multiply %57, %23 : tensor<2x2x256x256xf32>
    %59 = call @_where_1(%16#1, %58) : (tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xf32>
    %cst_11 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %61 = stablehlo.multiply %59, %60 : tensor<2x2x256x256xf32>
    %62 = stablehlo.convert %61 : (tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xbf16>
    %63 = stablehlo.dot_general %62, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x256x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x64xbf16>
    %64 = stablehlo.transpose %63, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xbf16>) -> tensor<2x256x2x64xbf16>
    %65 = stablehlo.dot_general %62, %arg1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x256x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x64xbf16>
    %66 = stablehlo.transpose %65, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xbf16>) -> tensor<2x256x2x64xbf16>
    return %38, %66, %64, %45 : tensor<f32>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>
  }
  func.func private @floor_divide(%arg0: tensor<256xi32>, %arg1: tensor<i32>) -> tensor<256xi32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<256xi32>
    %2 = stablehlo.divide %arg0, %1 : tensor<256xi32>
    %3 = stablehlo.sign %arg0 : tensor<256xi32>
    %4 = stablehlo.sign %0 : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i32>) -> tensor<256xi32>
    %6 = stablehlo.compare NE, %3, %5, SIGNED : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi1>
    %7 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<256xi32>
    %8 = stablehlo.remainder %arg0, %7 : tensor<256xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<256xi32>
    %10 = stablehlo.compare NE, %8, %9, SIGNED : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi1>
    %11 = stablehlo.and %6, %10 : tensor<256xi1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %12 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<256xi32>
    %13 = stablehlo.subtract %2, %12 : tensor<256xi32>
    %14 = call @_where(%11, %13, %2) : (tensor<256xi1>, tensor<256xi32>, tensor<256xi32>) -> tensor<256xi32>
    return %14 : tensor<256xi32>
  }
  func.func private @_where(%arg0: tensor<256xi1>, %arg1: tensor<256xi32>, %arg2: tensor<256xi32>) -> tensor<256xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<256xi1>, tensor<256xi32>
    return %0 : tensor<256xi32>
  }
  func.func private @_where_0(%arg0: tensor<256x256xi1>, %arg1: tensor<2x2x256x256xf32>, %arg2: tensor<f32>) -> (tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<256x256xi1>) -> tensor<2x2x256x256xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>
    return %3, %1 : tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>
  }
  func.func private @_where_1(%arg0: tensor<2x2x256x256xi1>, %arg1: tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>
    return %1 : tensor<2x2x256x256xf32>
  }
}
