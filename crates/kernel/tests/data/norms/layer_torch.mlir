module @main {
  func.func public @main(%arg0: tensor<128xf32> {tpubridge.name = "inputs.b_1"}, %arg1: tensor<128x128xf32> {tpubridge.name = "inputs.u_1"}, %arg2: tensor<128xf32> {tpubridge.name = "inputs.w_1"}, %arg3: tensor<2x16x128xf32> {tpubridge.name = "inputs.x_1"}) -> (tensor<2x16x128xf32> {tpubridge.name = "outputs.0"}, tensor<128xf32> {tpubridge.name = "outputs.1"}, tensor<128xf32> {tpubridge.name = "outputs.2"}, tensor<128x128xf32> {tpubridge.name = "outputs.3"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg3 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %2 = stablehlo.divide %0, %1 : tensor<2x16xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %5 = stablehlo.subtract %arg3, %4 : tensor<2x16x128xf32>
    %6 = stablehlo.multiply %5, %5 : tensor<2x16x128xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_2 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %9 = stablehlo.divide %7, %8 : tensor<2x16xf32>
    %10 = stablehlo.reshape %9 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %12 = stablehlo.add %10, %11 : tensor<2x16x1xf32>
    %13 = stablehlo.rsqrt %12 : tensor<2x16x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %15 = stablehlo.multiply %5, %14 : tensor<2x16x128xf32>
    %16 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<128xf32>) -> tensor<2x16x128xf32>
    %17 = stablehlo.multiply %15, %16 : tensor<2x16x128xf32>
    %18 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<128xf32>) -> tensor<2x16x128xf32>
    %19 = stablehlo.add %17, %18 : tensor<2x16x128xf32>
    %20 = stablehlo.reshape %19 : (tensor<2x16x128xf32>) -> tensor<32x128xf32>
    %21 = stablehlo.dot_general %20, %arg1, contracting_dims = [1] x [0] : (tensor<32x128xf32>, tensor<128x128xf32>) -> tensor<32x128xf32>
    %22 = stablehlo.reshape %21 : (tensor<32x128xf32>) -> tensor<2x16x128xf32>
    %23 = stablehlo.tanh %22 : tensor<2x16x128xf32>
    %24 = stablehlo.add %arg3, %23 : tensor<2x16x128xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %27 = stablehlo.multiply %24, %26 : tensor<2x16x128xf32>
    %28 = stablehlo.multiply %25, %27 : tensor<2x16x128xf32>
    %29 = stablehlo.multiply %23, %23 : tensor<2x16x128xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %31 = stablehlo.subtract %30, %29 : tensor<2x16x128xf32>
    %32 = stablehlo.multiply %28, %31 : tensor<2x16x128xf32>
    %33 = stablehlo.reshape %32 : (tensor<2x16x128xf32>) -> tensor<32x128xf32>
    %34 = stablehlo.transpose %20, dims = [1, 0] : (tensor<32x128xf32>) -> tensor<128x32xf32>
    %35 = stablehlo.dot_general %34, %33, contracting_dims = [1] x [0] : (tensor<128x32xf32>, tensor<32x128xf32>) -> tensor<128x128xf32>
    %36 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<128x128xf32>) -> tensor<128x128xf32>
    %37 = stablehlo.dot_general %33, %36, contracting_dims = [1] x [0] : (tensor<32x128xf32>, tensor<128x128xf32>) -> tensor<32x128xf32>
    %38 = stablehlo.reshape %37 : (tensor<32x128xf32>) -> tensor<2x16x128xf32>
    %39 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %40 = stablehlo.subtract %arg3, %39 : tensor<2x16x128xf32>
    %41 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %42 = stablehlo.multiply %40, %41 : tensor<2x16x128xf32>
    %43 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<128xf32>) -> tensor<2x16x128xf32>
    %44 = stablehlo.multiply %38, %43 : tensor<2x16x128xf32>
    %cst_7 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %46 = stablehlo.multiply %44, %45 : tensor<2x16x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %47 = stablehlo.reduce(%44 init: %cst_8) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %48 = stablehlo.reshape %47 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %49 = stablehlo.multiply %44, %42 : tensor<2x16x128xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %50 = stablehlo.reduce(%49 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %51 = stablehlo.reshape %50 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %53 = stablehlo.multiply %42, %52 : tensor<2x16x128xf32>
    %54 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %55 = stablehlo.subtract %46, %54 : tensor<2x16x128xf32>
    %56 = stablehlo.subtract %55, %53 : tensor<2x16x128xf32>
    %cst_10 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %58 = stablehlo.divide %13, %57 : tensor<2x16x1xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %60 = stablehlo.multiply %59, %56 : tensor<2x16x128xf32>
    %61 = stablehlo.multiply %38, %42 : tensor<2x16x128xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %62 = stablehlo.reduce(%61 init: %cst_11) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %63 = stablehlo.reduce(%38 init: %cst_12) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<128xf32>
    %64 = stablehlo.add %28, %60 : tensor<2x16x128xf32>
    return %64, %62, %63, %35 : tensor<2x16x128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128x128xf32>
  }
}
