module @jit_g attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x256x2x64xbf16>, %arg1: tensor<2x256x2x64xbf16>, %arg2: tensor<2x256x2x64xbf16>, %arg3: tensor<2x256xi32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][1]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][2]"}) {
    %0 = stablehlo.broadcast_in_dim %arg3, dims = [0, 3] : (tensor<2x256xi32>) -> tensor<2x1x1x256xi32>
    %1 = stablehlo.convert %0 : (tensor<2x1x1x256xi32>) -> tensor<2x1x1x256xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x1x1x256xf32>
    %3 = stablehlo.subtract %2, %1 : tensor<2x1x1x256xf32>
    %cst_0 = stablehlo.constant dense<-1.000000e+04> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x1x1x256xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<2x1x1x256xf32>
    %6 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x256xbf16>
    %7 = stablehlo.convert %6 : (tensor<2x2x256x256xbf16>) -> tensor<2x2x256x256xf32>
    %cst_1 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %9 = stablehlo.multiply %7, %8 : tensor<2x2x256x256xf32>
    %10 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2, 3] : (tensor<2x1x1x256xf32>) -> tensor<2x2x256x256xf32>
    %11 = stablehlo.add %9, %10 : tensor<2x2x256x256xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %12 = stablehlo.reduce(%11 init: %cst_2) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x2x256xf32>
    %14 = stablehlo.maximum %13, %12 : tensor<2x2x256xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %17 = stablehlo.subtract %11, %16 : tensor<2x2x256x256xf32>
    %18 = stablehlo.exponential %17 : tensor<2x2x256x256xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.reduce(%18 init: %cst_4) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %22 = stablehlo.divide %18, %21 : tensor<2x2x256x256xf32>
    %23 = stablehlo.multiply %20, %20 : tensor<2x2x256x1xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x2x256x1xf32>
    %25 = stablehlo.divide %24, %23 : tensor<2x2x256x1xf32>
    %26 = stablehlo.convert %22 : (tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xbf16>
    %27 = stablehlo.dot_general %arg2, %26, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %28 = stablehlo.transpose %27, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %29 = stablehlo.convert %28 : (tensor<2x256x2x64xbf16>) -> tensor<2x256x2x64xf32>
    %30 = stablehlo.multiply %29, %29 : tensor<2x256x2x64xf32>
    %cst_6 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %32 = stablehlo.multiply %31, %29 : tensor<2x256x2x64xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %33 = stablehlo.reduce(%30 init: %cst_7) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x256x2x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %34 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %35 = stablehlo.multiply %34, %32 : tensor<2x256x2x64xf32>
    %36 = stablehlo.convert %35 : (tensor<2x256x2x64xf32>) -> tensor<2x256x2x64xbf16>
    %37 = stablehlo.transpose %36, dims = [0, 2, 3, 1] : (tensor<2x256x2x64xbf16>) -> tensor<2x2x64x256xbf16>
    %38 = stablehlo.dot_general %37, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x256xbf16>
    %39 = stablehlo.dot_general %37, %26, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x256xbf16>, tensor<2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %40 = stablehlo.transpose %39, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %41 = stablehlo.convert %38 : (tensor<2x2x256x256xbf16>) -> tensor<2x2x256x256xf32>
    %42 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %43 = stablehlo.multiply %41, %42 : tensor<2x2x256x256xf32>
    %44 = stablehlo.multiply %43, %18 : tensor<2x2x256x256xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %45 = stablehlo.reduce(%44 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %46 = stablehlo.reshape %45 : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %47 = stablehlo.negate %46 : tensor<2x2x256x1xf32>
    %48 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %49 = stablehlo.divide %41, %48 : tensor<2x2x256x256xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %50 = stablehlo.reduce(%47 init: %cst_10) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x1xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x256xf32>
    %52 = stablehlo.add %49, %51 : tensor<2x2x256x256xf32>
    %53 = stablehlo.multiply %52, %18 : tensor<2x2x256x256xf32>
    %cst_11 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %55 = stablehlo.multiply %53, %54 : tensor<2x2x256x256xf32>
    %56 = stablehlo.convert %55 : (tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xbf16>
    %57 = stablehlo.dot_general %56, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x256x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x64xbf16>
    %58 = stablehlo.transpose %57, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xbf16>) -> tensor<2x256x2x64xbf16>
    %59 = stablehlo.dot_general %56, %arg1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x256x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x64xbf16>
    %60 = stablehlo.transpose %59, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xbf16>) -> tensor<2x256x2x64xbf16>
    return %33, %60, %58, %40 : tensor<f32>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>
  }
}
