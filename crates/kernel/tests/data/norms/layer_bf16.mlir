module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x16x128xbf16>, %arg1: tensor<128x128xbf16>, %arg2: tensor<128xf32>, %arg3: tensor<128xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x16x128xbf16> {jax.result_info = "result[1][0]"}, tensor<128x128xbf16> {jax.result_info = "result[1][1]"}, tensor<128xf32> {jax.result_info = "result[1][2]"}, tensor<128xf32> {jax.result_info = "result[1][3]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<2x16x128xbf16>) -> tensor<2x16x128xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<2x16x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<2x16x128xf32>
    %7 = stablehlo.multiply %6, %6 : tensor<2x16x128xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %9 = stablehlo.multiply %8, %6 : tensor<2x16x128xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%7 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_3 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %13 = stablehlo.divide %11, %12 : tensor<2x16x1xf32>
    %14 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %15 = stablehlo.subtract %0, %14 : tensor<2x16x128xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %17 = stablehlo.add %13, %16 : tensor<2x16x1xf32>
    %18 = stablehlo.rsqrt %17 : tensor<2x16x1xf32>
    %19 = stablehlo.divide %18, %17 : tensor<2x16x1xf32>
    %cst_5 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %21 = stablehlo.multiply %20, %19 : tensor<2x16x1xf32>
    %22 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %23 = stablehlo.multiply %15, %22 : tensor<2x16x128xf32>
    %24 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %26 = stablehlo.multiply %23, %25 : tensor<2x16x128xf32>
    %27 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %29 = stablehlo.add %26, %28 : tensor<2x16x128xf32>
    %30 = stablehlo.convert %29 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %31 = stablehlo.dot_general %30, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<128x128xbf16>) -> tensor<2x16x128xbf16>
    %32 = stablehlo.tanh %31 : tensor<2x16x128xbf16>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %33 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<bf16>) -> tensor<2x16x128xbf16>
    %34 = stablehlo.subtract %33, %32 : tensor<2x16x128xbf16>
    %35 = stablehlo.add %arg0, %32 : tensor<2x16x128xbf16>
    %36 = stablehlo.convert %35 : (tensor<2x16x128xbf16>) -> tensor<2x16x128xf32>
    %37 = stablehlo.multiply %36, %36 : tensor<2x16x128xf32>
    %cst_7 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %38 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %39 = stablehlo.multiply %38, %36 : tensor<2x16x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %40 = stablehlo.reduce(%37 init: %cst_8) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %42 = stablehlo.multiply %41, %39 : tensor<2x16x128xf32>
    %43 = stablehlo.convert %42 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %44 = stablehlo.multiply %43, %34 : tensor<2x16x128xbf16>
    %45 = stablehlo.multiply %44, %32 : tensor<2x16x128xbf16>
    %46 = stablehlo.add %44, %45 : tensor<2x16x128xbf16>
    %47 = stablehlo.dot_general %46, %30, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<2x16x128xbf16>) -> tensor<128x128xbf16>
    %48 = stablehlo.transpose %47, dims = [1, 0] : (tensor<128x128xbf16>) -> tensor<128x128xbf16>
    %49 = stablehlo.dot_general %46, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<128x128xbf16>) -> tensor<2x16x128xbf16>
    %50 = stablehlo.convert %49 : (tensor<2x16x128xbf16>) -> tensor<2x16x128xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %51 = stablehlo.reduce(%50 init: %cst_10) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<128xf32>
    %52 = stablehlo.reshape %51 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %53 = stablehlo.reduce(%52 init: %cst_11) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xf32>, tensor<f32>) -> tensor<128xf32>
    %54 = stablehlo.multiply %23, %50 : tensor<2x16x128xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %55 = stablehlo.reduce(%54 init: %cst_12) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<128xf32>
    %56 = stablehlo.reshape %55 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %57 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %58 = stablehlo.multiply %50, %57 : tensor<2x16x128xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = stablehlo.reduce(%56 init: %cst_13) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xf32>, tensor<f32>) -> tensor<128xf32>
    %60 = stablehlo.multiply %15, %58 : tensor<2x16x128xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.reduce(%60 init: %cst_14) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %62 = stablehlo.reshape %61 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %63 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %64 = stablehlo.multiply %58, %63 : tensor<2x16x128xf32>
    %65 = stablehlo.multiply %62, %21 : tensor<2x16x1xf32>
    %66 = stablehlo.negate %64 : tensor<2x16x128xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %67 = stablehlo.reduce(%66 init: %cst_15) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %68 = stablehlo.reshape %67 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_16 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %70 = stablehlo.divide %65, %69 : tensor<2x16x1xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %71 = stablehlo.reduce(%70 init: %cst_17) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x128xf32>
    %73 = stablehlo.multiply %72, %9 : tensor<2x16x128xf32>
    %74 = stablehlo.negate %73 : tensor<2x16x128xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %75 = stablehlo.reduce(%74 init: %cst_18) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %76 = stablehlo.reshape %75 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %77 = stablehlo.add %64, %73 : tensor<2x16x128xf32>
    %78 = stablehlo.add %68, %76 : tensor<2x16x1xf32>
    %cst_19 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %80 = stablehlo.divide %78, %79 : tensor<2x16x1xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %81 = stablehlo.reduce(%80 init: %cst_20) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x128xf32>
    %83 = stablehlo.add %77, %82 : tensor<2x16x128xf32>
    %84 = stablehlo.convert %83 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %85 = stablehlo.add %43, %84 : tensor<2x16x128xbf16>
    return %40, %85, %48, %59, %53 : tensor<f32>, tensor<2x16x128xbf16>, tensor<128x128xbf16>, tensor<128xf32>, tensor<128xf32>
  }
}
