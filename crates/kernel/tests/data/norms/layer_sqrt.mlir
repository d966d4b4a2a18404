module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x16x128xf32>, %arg1: tensor<128x128xf32>, %arg2: tensor<128xf32>, %arg3: tensor<128xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x16x128xf32> {jax.result_info = "result[1][0]"}, tensor<128x128xf32> {jax.result_info = "result[1][1]"}, tensor<128xf32> {jax.result_info = "result[1][2]"}, tensor<128xf32> {jax.result_info = "result[1][3]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<2x16x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x16x128xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %6:4 = call @_var(%arg0, %c) : (tensor<2x16x128xf32>, tensor<i32>) -> (tensor<2x16x1xf32>, tensor<2x16x128xf32>, tensor<f32>, tensor<i1>)
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %8 = stablehlo.add %6#0, %7 : tensor<2x16x1xf32>
    %9 = stablehlo.sqrt %8 : tensor<2x16x1xf32>
    %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %11 = stablehlo.divide %10, %9 : tensor<2x16x1xf32>
    %12 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %13 = stablehlo.divide %5, %12 : tensor<2x16x128xf32>
    %14 = stablehlo.multiply %9, %9 : tensor<2x16x1xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %16 = stablehlo.divide %15, %14 : tensor<2x16x1xf32>
    %17 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %19 = stablehlo.multiply %13, %18 : tensor<2x16x128xf32>
    %20 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %22 = stablehlo.add %19, %21 : tensor<2x16x128xf32>
    %23 = stablehlo.dot_general %22, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xf32>, tensor<128x128xf32>) -> tensor<2x16x128xf32>
    %24 = stablehlo.tanh %23 : tensor<2x16x128xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %26 = stablehlo.subtract %25, %24 : tensor<2x16x128xf32>
    %27 = stablehlo.add %arg0, %24 : tensor<2x16x128xf32>
    %28 = stablehlo.multiply %27, %27 : tensor<2x16x128xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %30 = stablehlo.multiply %29, %27 : tensor<2x16x128xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %31 = stablehlo.reduce(%28 init: %cst_6) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %33 = stablehlo.multiply %32, %30 : tensor<2x16x128xf32>
    %34 = stablehlo.multiply %33, %26 : tensor<2x16x128xf32>
    %35 = stablehlo.multiply %34, %24 : tensor<2x16x128xf32>
    %36 = stablehlo.add %34, %35 : tensor<2x16x128xf32>
    %37 = stablehlo.dot_general %36, %22, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xf32>, tensor<2x16x128xf32>) -> tensor<128x128xf32>
    %38 = stablehlo.transpose %37, dims = [1, 0] : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %39 = stablehlo.dot_general %36, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xf32>, tensor<128x128xf32>) -> tensor<2x16x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %40 = stablehlo.reduce(%39 init: %cst_8) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<128xf32>
    %41 = stablehlo.reshape %40 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %42 = stablehlo.reduce(%41 init: %cst_9) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xf32>, tensor<f32>) -> tensor<128xf32>
    %43 = stablehlo.multiply %13, %39 : tensor<2x16x128xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %44 = stablehlo.reduce(%43 init: %cst_10) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<128xf32>
    %45 = stablehlo.reshape %44 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %46 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %47 = stablehlo.multiply %39, %46 : tensor<2x16x128xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.reduce(%45 init: %cst_11) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xf32>, tensor<f32>) -> tensor<128xf32>
    %49 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %50 = stablehlo.multiply %47, %49 : tensor<2x16x128xf32>
    %51 = stablehlo.multiply %50, %5 : tensor<2x16x128xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %52 = stablehlo.reduce(%51 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %53 = stablehlo.reshape %52 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %54 = stablehlo.negate %53 : tensor<2x16x1xf32>
    %55 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %56 = stablehlo.divide %47, %55 : tensor<2x16x128xf32>
    %57 = stablehlo.multiply %54, %11 : tensor<2x16x1xf32>
    %58 = call @_var_0(%6#1, %6#2, %6#3, %57) : (tensor<2x16x128xf32>, tensor<f32>, tensor<i1>, tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %59 = stablehlo.add %33, %58 : tensor<2x16x128xf32>
    %60 = stablehlo.negate %56 : tensor<2x16x128xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.reduce(%60 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %62 = stablehlo.reshape %61 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %63 = stablehlo.add %59, %56 : tensor<2x16x128xf32>
    %cst_14 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %65 = stablehlo.divide %62, %64 : tensor<2x16x1xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %66 = stablehlo.reduce(%65 init: %cst_15) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x128xf32>
    %68 = stablehlo.add %63, %67 : tensor<2x16x128xf32>
    return %31, %68, %38, %48, %42 : tensor<f32>, tensor<2x16x128xf32>, tensor<128x128xf32>, tensor<128xf32>, tensor<128xf32>
  }
  func.func private @_var(%arg0: tensor<2x16x128xf32>, %arg1: tensor<i32>) -> (tensor<2x16x1xf32>, tensor<2x16x128xf32>, tensor<f32>, tensor<i1>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<2x16x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x16x128xf32>
    %6 = chlo.square %5 : tensor<2x16x128xf32> -> tensor<2x16x128xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %8 = stablehlo.multiply %7, %5 : tensor<2x16x128xf32>
    %9 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %10 = stablehlo.subtract %cst_2, %9 : tensor<f32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.reduce(%6 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %13 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %14 = stablehlo.divide %12, %13 : tensor<2x16x1xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.compare GT, %10, %cst_4, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %cst_5 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %16 = call @_where(%15, %14, %cst_5) : (tensor<i1>, tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16x1xf32>
    return %16, %8, %10, %15 : tensor<2x16x1xf32>, tensor<2x16x128xf32>, tensor<f32>, tensor<i1>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<2x16x1xf32>, %arg2: tensor<f32>) -> tensor<2x16x1xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<2x16x1xf32>
    return %2 : tensor<2x16x1xf32>
  }
  func.func private @_var_0(%arg0: tensor<2x16x128xf32>, %arg1: tensor<f32>, %arg2: tensor<i1>, %arg3: tensor<2x16x1xf32>) -> tensor<2x16x128xf32> {
    %0 = call @_where_1(%arg2, %arg3) : (tensor<i1>, tensor<2x16x1xf32>) -> tensor<2x16x1xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %2 = stablehlo.divide %0, %1 : tensor<2x16x1xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.reduce(%2 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x128xf32>
    %5 = stablehlo.multiply %4, %arg0 : tensor<2x16x128xf32>
    %6 = stablehlo.negate %5 : tensor<2x16x128xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %8 = stablehlo.reshape %7 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_1 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %10 = stablehlo.divide %8, %9 : tensor<2x16x1xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.reduce(%10 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x128xf32>
    %13 = stablehlo.add %5, %12 : tensor<2x16x128xf32>
    return %13 : tensor<2x16x128xf32>
  }
  func.func private @_where_1(%arg0: tensor<i1>, %arg1: tensor<2x16x1xf32>) -> tensor<2x16x1xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<i1>, tensor<2x16x1xf32>
    return %1 : tensor<2x16x1xf32>
  }
}
