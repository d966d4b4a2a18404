module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x16x128xbf16>, %arg1: tensor<128x128xbf16>, %arg2: tensor<128xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x16x128xbf16> {jax.result_info = "result[1][0]"}, tensor<128x128xbf16> {jax.result_info = "result[1][1]"}, tensor<128xbf16> {jax.result_info = "result[1][2]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<2x16x128xbf16>) -> tensor<2x16x128xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<2x16x128xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %5 = stablehlo.divide %3, %4 : tensor<2x16x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %7 = stablehlo.add %5, %6 : tensor<2x16x1xf32>
    %8 = stablehlo.rsqrt %7 : tensor<2x16x1xf32>
    %9 = stablehlo.divide %8, %7 : tensor<2x16x1xf32>
    %cst_2 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %11 = stablehlo.multiply %10, %9 : tensor<2x16x1xf32>
    %12 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %13 = stablehlo.multiply %0, %12 : tensor<2x16x128xf32>
    %14 = stablehlo.convert %13 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %15 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<128xbf16>) -> tensor<1x1x128xbf16>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<1x1x128xbf16>) -> tensor<2x16x128xbf16>
    %17 = stablehlo.multiply %14, %16 : tensor<2x16x128xbf16>
    %18 = stablehlo.dot_general %17, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<128x128xbf16>) -> tensor<2x16x128xbf16>
    %19 = stablehlo.tanh %18 : tensor<2x16x128xbf16>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %20 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<bf16>) -> tensor<2x16x128xbf16>
    %21 = stablehlo.subtract %20, %19 : tensor<2x16x128xbf16>
    %22 = stablehlo.add %arg0, %19 : tensor<2x16x128xbf16>
    %23 = stablehlo.convert %22 : (tensor<2x16x128xbf16>) -> tensor<2x16x128xf32>
    %24 = stablehlo.multiply %23, %23 : tensor<2x16x128xf32>
    %cst_4 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %26 = stablehlo.multiply %25, %23 : tensor<2x16x128xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %27 = stablehlo.reduce(%24 init: %cst_5) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %29 = stablehlo.multiply %28, %26 : tensor<2x16x128xf32>
    %30 = stablehlo.convert %29 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %31 = stablehlo.multiply %30, %21 : tensor<2x16x128xbf16>
    %32 = stablehlo.multiply %31, %19 : tensor<2x16x128xbf16>
    %33 = stablehlo.add %31, %32 : tensor<2x16x128xbf16>
    %34 = stablehlo.dot_general %33, %17, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<2x16x128xbf16>) -> tensor<128x128xbf16>
    %35 = stablehlo.transpose %34, dims = [1, 0] : (tensor<128x128xbf16>) -> tensor<128x128xbf16>
    %36 = stablehlo.dot_general %33, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<128x128xbf16>) -> tensor<2x16x128xbf16>
    %37 = stablehlo.multiply %14, %36 : tensor<2x16x128xbf16>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %38 = stablehlo.reduce(%37 init: %cst_7) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xbf16>, tensor<bf16>) -> tensor<128xbf16>
    %39 = stablehlo.reshape %38 : (tensor<128xbf16>) -> tensor<1x1x128xbf16>
    %40 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<1x1x128xbf16>) -> tensor<2x16x128xbf16>
    %41 = stablehlo.multiply %36, %40 : tensor<2x16x128xbf16>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %42 = stablehlo.reduce(%39 init: %cst_8) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xbf16>, tensor<bf16>) -> tensor<128xbf16>
    %43 = stablehlo.convert %41 : (tensor<2x16x128xbf16>) -> tensor<2x16x128xf32>
    %44 = stablehlo.multiply %0, %43 : tensor<2x16x128xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %45 = stablehlo.reduce(%44 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %46 = stablehlo.reshape %45 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %47 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %48 = stablehlo.multiply %43, %47 : tensor<2x16x128xf32>
    %49 = stablehlo.multiply %46, %11 : tensor<2x16x1xf32>
    %cst_10 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %51 = stablehlo.divide %49, %50 : tensor<2x16x1xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %52 = stablehlo.reduce(%51 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x128xf32>
    %54 = stablehlo.multiply %0, %53 : tensor<2x16x128xf32>
    %55 = stablehlo.add %48, %54 : tensor<2x16x128xf32>
    %56 = stablehlo.multiply %53, %0 : tensor<2x16x128xf32>
    %57 = stablehlo.add %55, %56 : tensor<2x16x128xf32>
    %58 = stablehlo.convert %57 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %59 = stablehlo.add %30, %58 : tensor<2x16x128xbf16>
    return %27, %59, %35, %42 : tensor<f32>, tensor<2x16x128xbf16>, tensor<128x128xbf16>, tensor<128xbf16>
  }
}
