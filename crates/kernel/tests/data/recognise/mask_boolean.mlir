module @jit_g attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x256x2x64xbf16>, %arg1: tensor<2x256x2x64xbf16>, %arg2: tensor<2x256x2x64xbf16>, %arg3: tensor<2x256x256xi1>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][1]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][2]"}) {
    %0 = stablehlo.broadcast_in_dim %arg3, dims = [0, 2, 3] : (tensor<2x256x256xi1>) -> tensor<2x1x256x256xi1>
    %1 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x256xbf16>
    %2 = stablehlo.convert %1 : (tensor<2x2x256x256xbf16>) -> tensor<2x2x256x256xf32>
    %cst = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<2x2x256x256xf32>
    %cst_0 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %5:2 = call @_where(%0, %4, %cst_0) : (tensor<2x1x256x256xi1>, tensor<2x2x256x256xf32>, tensor<f32>) -> (tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>)
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %6 = stablehlo.reduce(%5#0 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x2x256xf32>
    %8 = stablehlo.maximum %7, %6 : tensor<2x2x256xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %11 = stablehlo.subtract %5#0, %10 : tensor<2x2x256x256xf32>
    %12 = stablehlo.exponential %11 : tensor<2x2x256x256xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.reduce(%12 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %16 = stablehlo.divide %12, %15 : tensor<2x2x256x256xf32>
    %17 = stablehlo.multiply %14, %14 : tensor<2x2x256x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x2x256x1xf32>
    %19 = stablehlo.divide %18, %17 : tensor<2x2x256x1xf32>
    %20 = stablehlo.convert %16 : (tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xbf16>
    %21 = stablehlo.dot_general %arg2, %20, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %22 = stablehlo.transpose %21, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %23 = stablehlo.convert %22 : (tensor<2x256x2x64xbf16>) -> tensor<2x256x2x64xf32>
    %24 = stablehlo.multiply %23, %23 : tensor<2x256x2x64xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %26 = stablehlo.multiply %25, %23 : tensor<2x256x2x64xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %27 = stablehlo.reduce(%24 init: %cst_6) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x256x2x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %29 = stablehlo.multiply %28, %26 : tensor<2x256x2x64xf32>
    %30 = stablehlo.convert %29 : (tensor<2x256x2x64xf32>) -> tensor<2x256x2x64xbf16>
    %31 = stablehlo.transpose %30, dims = [0, 2, 3, 1] : (tensor<2x256x2x64xbf16>) -> tensor<2x2x64x256xbf16>
    %32 = stablehlo.dot_general %31, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x256xbf16>
    %33 = stablehlo.dot_general %31, %20, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x256xbf16>, tensor<2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %34 = stablehlo.transpose %33, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %35 = stablehlo.convert %32 : (tensor<2x2x256x256xbf16>) -> tensor<2x2x256x256xf32>
    %36 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %37 = stablehlo.multiply %35, %36 : tensor<2x2x256x256xf32>
    %38 = stablehlo.multiply %37, %12 : tensor<2x2x256x256xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %39 = stablehlo.reduce(%38 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %40 = stablehlo.reshape %39 : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %41 = stablehlo.negate %40 : tensor<2x2x256x1xf32>
    %42 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %43 = stablehlo.divide %35, %42 : tensor<2x2x256x256xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %44 = stablehlo.reduce(%41 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x1xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x256xf32>
    %46 = stablehlo.add %43, %45 : tensor<2x2x256x256xf32>
    %47 = stablehlo.multiply %46, %12 : tensor<2x2x256x256xf32>
    %48 = call @_where_0(%5#1, %47) : (tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xf32>
    %cst_10 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %50 = stablehlo.multiply %48, %49 : tensor<2x2x256x256xf32>
    %51 = stablehlo.convert %50 : (tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xbf16>
    %52 = stablehlo.dot_general %51, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x256x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x64xbf16>
    %53 = stablehlo.transpose %52, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xbf16>) -> tensor<2x256x2x64xbf16>
    %54 = stablehlo.dot_general %51, %arg1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x256x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x64xbf16>
    %55 = stablehlo.transpose %54, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xbf16>) -> tensor<2x256x2x64xbf16>
    return %27, %55, %53, %34 : tensor<f32>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>
  }
  func.func private @_where(%arg0: tensor<2x1x256x256xi1>, %arg1: tensor<2x2x256x256xf32>, %arg2: tensor<f32>) -> (tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3] : (tensor<2x1x256x256xi1>) -> tensor<2x2x256x256xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>
    return %3, %1 : tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>
  }
  func.func private @_where_0(%arg0: tensor<2x2x256x256xi1>, %arg1: tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>
    return %1 : tensor<2x2x256x256xf32>
  }
}
