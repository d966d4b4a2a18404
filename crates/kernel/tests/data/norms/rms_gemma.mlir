module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x16x128xbf16>, %arg1: tensor<128x128xbf16>, %arg2: tensor<128xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x16x128xbf16> {jax.result_info = "result[1][0]"}, tensor<128x128xbf16> {jax.result_info = "result[1][1]"}, tensor<128xf32> {jax.result_info = "result[1][2]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<2x16x128xbf16>) -> tensor<2x16x128xf32>
    %1 = chlo.square %0 : tensor<2x16x128xf32> -> tensor<2x16x128xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %3 = stablehlo.multiply %2, %0 : tensor<2x16x128xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%1 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_1 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %7 = stablehlo.divide %5, %6 : tensor<2x16x1xf32>
    %cst_2 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %9 = stablehlo.add %7, %8 : tensor<2x16x1xf32>
    %10 = stablehlo.rsqrt %9 : tensor<2x16x1xf32>
    %11 = stablehlo.divide %10, %9 : tensor<2x16x1xf32>
    %cst_3 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %13 = stablehlo.multiply %12, %11 : tensor<2x16x1xf32>
    %14 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %15 = stablehlo.multiply %0, %14 : tensor<2x16x128xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %17 = stablehlo.add %16, %arg2 : tensor<128xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %20 = stablehlo.multiply %15, %19 : tensor<2x16x128xf32>
    %21 = stablehlo.convert %20 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %22 = stablehlo.dot_general %21, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<128x128xbf16>) -> tensor<2x16x128xbf16>
    %23 = stablehlo.tanh %22 : tensor<2x16x128xbf16>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %24 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<bf16>) -> tensor<2x16x128xbf16>
    %25 = stablehlo.subtract %24, %23 : tensor<2x16x128xbf16>
    %26 = stablehlo.add %arg0, %23 : tensor<2x16x128xbf16>
    %27 = stablehlo.convert %26 : (tensor<2x16x128xbf16>) -> tensor<2x16x128xf32>
    %28 = stablehlo.multiply %27, %27 : tensor<2x16x128xf32>
    %cst_6 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %30 = stablehlo.multiply %29, %27 : tensor<2x16x128xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %31 = stablehlo.reduce(%28 init: %cst_7) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %33 = stablehlo.multiply %32, %30 : tensor<2x16x128xf32>
    %34 = stablehlo.convert %33 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %35 = stablehlo.multiply %34, %25 : tensor<2x16x128xbf16>
    %36 = stablehlo.multiply %35, %23 : tensor<2x16x128xbf16>
    %37 = stablehlo.add %35, %36 : tensor<2x16x128xbf16>
    %38 = stablehlo.dot_general %37, %21, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<2x16x128xbf16>) -> tensor<128x128xbf16>
    %39 = stablehlo.transpose %38, dims = [1, 0] : (tensor<128x128xbf16>) -> tensor<128x128xbf16>
    %40 = stablehlo.dot_general %37, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<128x128xbf16>) -> tensor<2x16x128xbf16>
    %41 = stablehlo.convert %40 : (tensor<2x16x128xbf16>) -> tensor<2x16x128xf32>
    %42 = stablehlo.multiply %15, %41 : tensor<2x16x128xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %43 = stablehlo.reduce(%42 init: %cst_9) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<128xf32>
    %44 = stablehlo.reshape %43 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %45 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %46 = stablehlo.multiply %41, %45 : tensor<2x16x128xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %47 = stablehlo.reduce(%44 init: %cst_10) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xf32>, tensor<f32>) -> tensor<128xf32>
    %48 = stablehlo.multiply %0, %46 : tensor<2x16x128xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.reduce(%48 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %50 = stablehlo.reshape %49 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %51 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %52 = stablehlo.multiply %46, %51 : tensor<2x16x128xf32>
    %53 = stablehlo.multiply %50, %13 : tensor<2x16x1xf32>
    %cst_12 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %55 = stablehlo.divide %53, %54 : tensor<2x16x1xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %56 = stablehlo.reduce(%55 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x128xf32>
    %58 = stablehlo.multiply %57, %3 : tensor<2x16x128xf32>
    %59 = stablehlo.add %52, %58 : tensor<2x16x128xf32>
    %60 = stablehlo.convert %59 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %61 = stablehlo.add %34, %60 : tensor<2x16x128xbf16>
    return %31, %61, %39, %47 : tensor<f32>, tensor<2x16x128xbf16>, tensor<128x128xbf16>, tensor<128xf32>
  }
}
