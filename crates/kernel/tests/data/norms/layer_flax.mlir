module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x16x128xf32>, %arg1: tensor<128x128xf32>, %arg2: tensor<128xf32>, %arg3: tensor<128xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x16x128xf32> {jax.result_info = "result[1][0]"}, tensor<128x128xf32> {jax.result_info = "result[1][1]"}, tensor<128xf32> {jax.result_info = "result[1][2]"}, tensor<128xf32> {jax.result_info = "result[1][3]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %2 = stablehlo.divide %0, %1 : tensor<2x16xf32>
    %3 = chlo.square %arg0 : tensor<2x16x128xf32> -> tensor<2x16x128xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %5 = stablehlo.multiply %4, %arg0 : tensor<2x16x128xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%3 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_3 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %8 = stablehlo.divide %6, %7 : tensor<2x16xf32>
    %9 = chlo.square %2 : tensor<2x16xf32> -> tensor<2x16xf32>
    %cst_4 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %11 = stablehlo.multiply %10, %2 : tensor<2x16xf32>
    %12 = stablehlo.subtract %8, %9 : tensor<2x16xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %14 = stablehlo.maximum %13, %12 : tensor<2x16xf32>
    %15 = stablehlo.compare EQ, %12, %14, FLOAT : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xi1>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %18 = stablehlo.select %15, %16, %17 : tensor<2x16xi1>, tensor<2x16xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %20 = stablehlo.compare EQ, %19, %14, FLOAT : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xi1>
    %cst_9 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %cst_10 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %23 = stablehlo.select %20, %21, %22 : tensor<2x16xi1>, tensor<2x16xf32>
    %24 = stablehlo.divide %18, %23 : tensor<2x16xf32>
    %25 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %27 = stablehlo.subtract %arg0, %26 : tensor<2x16x128xf32>
    %28 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_11 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %30 = stablehlo.add %28, %29 : tensor<2x16x1xf32>
    %31 = stablehlo.rsqrt %30 : tensor<2x16x1xf32>
    %32 = stablehlo.divide %31, %30 : tensor<2x16x1xf32>
    %cst_12 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %34 = stablehlo.multiply %33, %32 : tensor<2x16x1xf32>
    %35 = stablehlo.reshape %arg2 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %36 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %37 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %38 = stablehlo.multiply %36, %37 : tensor<2x16x128xf32>
    %39 = stablehlo.multiply %27, %38 : tensor<2x16x128xf32>
    %40 = stablehlo.reshape %arg3 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %42 = stablehlo.add %39, %41 : tensor<2x16x128xf32>
    %43 = stablehlo.dot_general %42, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xf32>, tensor<128x128xf32>) -> tensor<2x16x128xf32>
    %44 = stablehlo.tanh %43 : tensor<2x16x128xf32>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %46 = stablehlo.subtract %45, %44 : tensor<2x16x128xf32>
    %47 = stablehlo.add %arg0, %44 : tensor<2x16x128xf32>
    %48 = stablehlo.multiply %47, %47 : tensor<2x16x128xf32>
    %cst_14 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %50 = stablehlo.multiply %49, %47 : tensor<2x16x128xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %51 = stablehlo.reduce(%48 init: %cst_15) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %52 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %53 = stablehlo.multiply %52, %50 : tensor<2x16x128xf32>
    %54 = stablehlo.multiply %53, %46 : tensor<2x16x128xf32>
    %55 = stablehlo.multiply %54, %44 : tensor<2x16x128xf32>
    %56 = stablehlo.add %54, %55 : tensor<2x16x128xf32>
    %57 = stablehlo.dot_general %56, %42, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xf32>, tensor<2x16x128xf32>) -> tensor<128x128xf32>
    %58 = stablehlo.transpose %57, dims = [1, 0] : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %59 = stablehlo.dot_general %56, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xf32>, tensor<128x128xf32>) -> tensor<2x16x128xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.reduce(%59 init: %cst_17) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<128xf32>
    %61 = stablehlo.reshape %60 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %62 = stablehlo.reshape %61 : (tensor<1x1x128xf32>) -> tensor<128xf32>
    %63 = stablehlo.multiply %27, %59 : tensor<2x16x128xf32>
    %64 = stablehlo.multiply %59, %38 : tensor<2x16x128xf32>
    %65 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %66 = stablehlo.multiply %65, %63 : tensor<2x16x128xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %67 = stablehlo.reduce(%66 init: %cst_18) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<128xf32>
    %68 = stablehlo.reshape %67 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %69 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %70 = stablehlo.multiply %63, %69 : tensor<2x16x128xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %71 = stablehlo.reduce(%70 init: %cst_19) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %72 = stablehlo.reshape %71 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %73 = stablehlo.reshape %68 : (tensor<1x1x128xf32>) -> tensor<128xf32>
    %74 = stablehlo.multiply %72, %34 : tensor<2x16x1xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %75 = stablehlo.reduce(%74 init: %cst_20) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %76 = stablehlo.negate %64 : tensor<2x16x128xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %77 = stablehlo.reduce(%76 init: %cst_21) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %78 = stablehlo.reshape %77 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %79 = stablehlo.add %53, %64 : tensor<2x16x128xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %80 = stablehlo.reduce(%78 init: %cst_22) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %81 = stablehlo.multiply %75, %24 : tensor<2x16xf32>
    %82 = stablehlo.negate %81 : tensor<2x16xf32>
    %83 = stablehlo.multiply %82, %11 : tensor<2x16xf32>
    %84 = stablehlo.add %80, %83 : tensor<2x16xf32>
    %cst_23 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %85 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %86 = stablehlo.divide %81, %85 : tensor<2x16xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x128xf32>
    %88 = stablehlo.multiply %87, %5 : tensor<2x16x128xf32>
    %89 = stablehlo.add %79, %88 : tensor<2x16x128xf32>
    %cst_24 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %91 = stablehlo.divide %84, %90 : tensor<2x16xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x128xf32>
    %93 = stablehlo.add %89, %92 : tensor<2x16x128xf32>
    return %51, %93, %58, %73, %62 : tensor<f32>, tensor<2x16x128xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>
  }
}
