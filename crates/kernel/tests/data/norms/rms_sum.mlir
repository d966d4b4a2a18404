module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x16x128xf32>, %arg1: tensor<128x128xf32>, %arg2: tensor<128xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x16x128xf32> {jax.result_info = "result[1][0]"}, tensor<128x128xf32> {jax.result_info = "result[1][1]"}, tensor<128xf32> {jax.result_info = "result[1][2]"}) {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<2x16x128xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %2 = stablehlo.multiply %1, %arg0 : tensor<2x16x128xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.reduce(%0 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-5> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %6 = stablehlo.add %4, %5 : tensor<2x16x1xf32>
    %7 = stablehlo.sqrt %6 : tensor<2x16x1xf32>
    %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %9 = stablehlo.divide %8, %7 : tensor<2x16x1xf32>
    %10 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %11 = stablehlo.divide %arg0, %10 : tensor<2x16x128xf32>
    %12 = stablehlo.multiply %7, %7 : tensor<2x16x1xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %14 = stablehlo.divide %13, %12 : tensor<2x16x1xf32>
    %15 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %17 = stablehlo.multiply %11, %16 : tensor<2x16x128xf32>
    %18 = stablehlo.dot_general %17, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xf32>, tensor<128x128xf32>) -> tensor<2x16x128xf32>
    %19 = stablehlo.tanh %18 : tensor<2x16x128xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %21 = stablehlo.subtract %20, %19 : tensor<2x16x128xf32>
    %22 = stablehlo.add %arg0, %19 : tensor<2x16x128xf32>
    %23 = stablehlo.multiply %22, %22 : tensor<2x16x128xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %25 = stablehlo.multiply %24, %22 : tensor<2x16x128xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.reduce(%23 init: %cst_6) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %28 = stablehlo.multiply %27, %25 : tensor<2x16x128xf32>
    %29 = stablehlo.multiply %28, %21 : tensor<2x16x128xf32>
    %30 = stablehlo.multiply %29, %19 : tensor<2x16x128xf32>
    %31 = stablehlo.add %29, %30 : tensor<2x16x128xf32>
    %32 = stablehlo.dot_general %31, %17, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xf32>, tensor<2x16x128xf32>) -> tensor<128x128xf32>
    %33 = stablehlo.transpose %32, dims = [1, 0] : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %34 = stablehlo.dot_general %31, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xf32>, tensor<128x128xf32>) -> tensor<2x16x128xf32>
    %35 = stablehlo.multiply %11, %34 : tensor<2x16x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %36 = stablehlo.reduce(%35 init: %cst_8) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<128xf32>
    %37 = stablehlo.reshape %36 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %38 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %39 = stablehlo.multiply %34, %38 : tensor<2x16x128xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %40 = stablehlo.reduce(%37 init: %cst_9) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xf32>, tensor<f32>) -> tensor<128xf32>
    %41 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %42 = stablehlo.multiply %39, %41 : tensor<2x16x128xf32>
    %43 = stablehlo.multiply %42, %arg0 : tensor<2x16x128xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %44 = stablehlo.reduce(%43 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %45 = stablehlo.reshape %44 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %46 = stablehlo.negate %45 : tensor<2x16x1xf32>
    %47 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %48 = stablehlo.divide %39, %47 : tensor<2x16x128xf32>
    %49 = stablehlo.add %28, %48 : tensor<2x16x128xf32>
    %50 = stablehlo.multiply %46, %9 : tensor<2x16x1xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %51 = stablehlo.reduce(%50 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x128xf32>
    %53 = stablehlo.multiply %52, %2 : tensor<2x16x128xf32>
    %54 = stablehlo.add %49, %53 : tensor<2x16x128xf32>
    return %26, %54, %33, %40 : tensor<f32>, tensor<2x16x128xf32>, tensor<128x128xf32>, tensor<128xf32>
  }
}
