module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x16x128xbf16>, %arg1: tensor<3x128x128xbf16>, %arg2: tensor<3x128xf32>, %arg3: tensor<3x128xf32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x16x128xbf16> {jax.result_info = "result[1][0]"}, tensor<3x128x128xbf16> {jax.result_info = "result[1][1]"}, tensor<3x128xf32> {jax.result_info = "result[1][2]"}, tensor<3x128xf32> {jax.result_info = "result[1][3]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<3x2x16x128xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:6 = stablehlo.while(%iterArg = %arg1, %iterArg_7 = %arg2, %iterArg_8 = %arg3, %iterArg_9 = %c, %iterArg_10 = %arg0, %iterArg_11 = %0) : tensor<3x128x128xbf16>, tensor<3x128xf32>, tensor<3x128xf32>, tensor<i32>, tensor<2x16x128xbf16>, tensor<3x2x16x128xbf16>
    cond {
      %c_12 = stablehlo.constant dense<3> : tensor<i32>
      %14 = stablehlo.compare LT, %iterArg_9, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %14 : tensor<i1>
    } do {
      %14 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_9) : (tensor<3x128x128xbf16>, tensor<i32>) -> tensor<128x128xbf16>
      %15 = func.call @dynamic_index_in_dim_0(%iterArg_7, %iterArg_9) : (tensor<3x128xf32>, tensor<i32>) -> tensor<128xf32>
      %16 = func.call @dynamic_index_in_dim_0(%iterArg_8, %iterArg_9) : (tensor<3x128xf32>, tensor<i32>) -> tensor<128xf32>
      %17:2 = func.call @closed_call(%iterArg_10, %14, %15, %16) : (tensor<2x16x128xbf16>, tensor<128x128xbf16>, tensor<128xf32>, tensor<128xf32>) -> (tensor<2x16x128xbf16>, tensor<2x16x128xbf16>)
      %18 = func.call @dynamic_update_index_in_dim(%iterArg_11, %17#1, %iterArg_9) : (tensor<3x2x16x128xbf16>, tensor<2x16x128xbf16>, tensor<i32>) -> tensor<3x2x16x128xbf16>
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %19 = stablehlo.add %iterArg_9, %c_12 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_7, %iterArg_8, %19, %17#0, %18 : tensor<3x128x128xbf16>, tensor<3x128xf32>, tensor<3x128xf32>, tensor<i32>, tensor<2x16x128xbf16>, tensor<3x2x16x128xbf16>
    }
    %2 = stablehlo.convert %1#4 : (tensor<2x16x128xbf16>) -> tensor<2x16x128xf32>
    %3 = stablehlo.multiply %2, %2 : tensor<2x16x128xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %5 = stablehlo.multiply %4, %2 : tensor<2x16x128xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%3 init: %cst_1) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %8 = stablehlo.multiply %7, %5 : tensor<2x16x128xf32>
    %9 = stablehlo.convert %8 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %10 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<bf16>) -> tensor<3x128x128xbf16>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<3x128xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<3x128xf32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %13:9 = stablehlo.while(%iterArg = %1#5, %iterArg_7 = %arg1, %iterArg_8 = %arg2, %iterArg_9 = %arg3, %iterArg_10 = %c_6, %iterArg_11 = %9, %iterArg_12 = %10, %iterArg_13 = %11, %iterArg_14 = %12) : tensor<3x2x16x128xbf16>, tensor<3x128x128xbf16>, tensor<3x128xf32>, tensor<3x128xf32>, tensor<i32>, tensor<2x16x128xbf16>, tensor<3x128x128xbf16>, tensor<3x128xf32>, tensor<3x128xf32>
    cond {
      %c_15 = stablehlo.constant dense<3> : tensor<i32>
      %14 = stablehlo.compare LT, %iterArg_10, %c_15, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %14 : tensor<i1>
    } do {
      %c_15 = stablehlo.constant dense<3> : tensor<i32>
      %14 = stablehlo.subtract %c_15, %iterArg_10 : tensor<i32>
      %c_16 = stablehlo.constant dense<1> : tensor<i32>
      %15 = stablehlo.subtract %14, %c_16 : tensor<i32>
      %16 = func.call @dynamic_index_in_dim_1(%iterArg, %15) : (tensor<3x2x16x128xbf16>, tensor<i32>) -> tensor<2x16x128xbf16>
      %17 = func.call @dynamic_index_in_dim(%iterArg_7, %15) : (tensor<3x128x128xbf16>, tensor<i32>) -> tensor<128x128xbf16>
      %18 = func.call @dynamic_index_in_dim_0(%iterArg_8, %15) : (tensor<3x128xf32>, tensor<i32>) -> tensor<128xf32>
      %19 = func.call @dynamic_index_in_dim_0(%iterArg_9, %15) : (tensor<3x128xf32>, tensor<i32>) -> tensor<128xf32>
      %20:4 = func.call @closed_call_2(%iterArg_11, %16, %17, %18, %19) : (tensor<2x16x128xbf16>, tensor<2x16x128xbf16>, tensor<128x128xbf16>, tensor<128xf32>, tensor<128xf32>) -> (tensor<2x16x128xbf16>, tensor<128x128xbf16>, tensor<128xf32>, tensor<128xf32>)
      %21 = func.call @dynamic_update_index_in_dim_3(%iterArg_12, %20#1, %15) : (tensor<3x128x128xbf16>, tensor<128x128xbf16>, tensor<i32>) -> tensor<3x128x128xbf16>
      %22 = func.call @dynamic_update_index_in_dim_4(%iterArg_13, %20#2, %15) : (tensor<3x128xf32>, tensor<128xf32>, tensor<i32>) -> tensor<3x128xf32>
      %23 = func.call @dynamic_update_index_in_dim_4(%iterArg_14, %20#3, %15) : (tensor<3x128xf32>, tensor<128xf32>, tensor<i32>) -> tensor<3x128xf32>
      %c_17 = stablehlo.constant dense<1> : tensor<i32>
      %24 = stablehlo.add %iterArg_10, %c_17 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_7, %iterArg_8, %iterArg_9, %24, %20#0, %21, %22, %23 : tensor<3x2x16x128xbf16>, tensor<3x128x128xbf16>, tensor<3x128xf32>, tensor<3x128xf32>, tensor<i32>, tensor<2x16x128xbf16>, tensor<3x128x128xbf16>, tensor<3x128xf32>, tensor<3x128xf32>
    }
    return %6, %13#5, %13#6, %13#7, %13#8 : tensor<f32>, tensor<2x16x128xbf16>, tensor<3x128x128xbf16>, tensor<3x128xf32>, tensor<3x128xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<3x128x128xbf16>, %arg1: tensor<i32>) -> tensor<128x128xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 128, 128] : (tensor<3x128x128xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x128xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x128x128xbf16>) -> tensor<128x128xbf16>
    return %1 : tensor<128x128xbf16>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<3x128xf32>, %arg1: tensor<i32>) -> tensor<128xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 128] : (tensor<3x128xf32>, tensor<i32>, tensor<i32>) -> tensor<1x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x128xf32>) -> tensor<128xf32>
    return %1 : tensor<128xf32>
  }
  func.func private @closed_call(%arg0: tensor<2x16x128xbf16>, %arg1: tensor<128x128xbf16>, %arg2: tensor<128xf32>, %arg3: tensor<128xf32>) -> (tensor<2x16x128xbf16>, tensor<2x16x128xbf16>) {
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
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_2 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %11 = stablehlo.divide %9, %10 : tensor<2x16x1xf32>
    %12 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %13 = stablehlo.subtract %0, %12 : tensor<2x16x128xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %15 = stablehlo.add %11, %14 : tensor<2x16x1xf32>
    %16 = stablehlo.rsqrt %15 : tensor<2x16x1xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %18 = stablehlo.multiply %13, %17 : tensor<2x16x128xf32>
    %19 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %21 = stablehlo.multiply %18, %20 : tensor<2x16x128xf32>
    %22 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %24 = stablehlo.add %21, %23 : tensor<2x16x128xf32>
    %25 = stablehlo.convert %24 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %26 = stablehlo.dot_general %25, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<128x128xbf16>) -> tensor<2x16x128xbf16>
    %27 = stablehlo.tanh %26 : tensor<2x16x128xbf16>
    %28 = stablehlo.add %arg0, %27 : tensor<2x16x128xbf16>
    return %28, %arg0 : tensor<2x16x128xbf16>, tensor<2x16x128xbf16>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<3x2x16x128xbf16>, %arg1: tensor<2x16x128xbf16>, %arg2: tensor<i32>) -> tensor<3x2x16x128xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<2x16x128xbf16>) -> tensor<1x2x16x128xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<3x2x16x128xbf16>, tensor<1x2x16x128xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x2x16x128xbf16>
    return %1 : tensor<3x2x16x128xbf16>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<3x2x16x128xbf16>, %arg1: tensor<i32>) -> tensor<2x16x128xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 2, 16, 128] : (tensor<3x2x16x128xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x16x128xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x2x16x128xbf16>) -> tensor<2x16x128xbf16>
    return %1 : tensor<2x16x128xbf16>
  }
  func.func private @closed_call_2(%arg0: tensor<2x16x128xbf16>, %arg1: tensor<2x16x128xbf16>, %arg2: tensor<128x128xbf16>, %arg3: tensor<128xf32>, %arg4: tensor<128xf32>) -> (tensor<2x16x128xbf16>, tensor<128x128xbf16>, tensor<128xf32>, tensor<128xf32>) {
    %0:5 = stablehlo.optimization_barrier %arg1, %arg2, %arg3, %arg4, %arg0 : tensor<2x16x128xbf16>, tensor<128x128xbf16>, tensor<128xf32>, tensor<128xf32>, tensor<2x16x128xbf16>
    %1 = stablehlo.convert %0#0 : (tensor<2x16x128xbf16>) -> tensor<2x16x128xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %5 = stablehlo.divide %3, %4 : tensor<2x16x1xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %7 = stablehlo.subtract %1, %6 : tensor<2x16x128xf32>
    %8 = stablehlo.multiply %7, %7 : tensor<2x16x128xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x128xf32>
    %10 = stablehlo.multiply %9, %7 : tensor<2x16x128xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.reduce(%8 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_3 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %14 = stablehlo.divide %12, %13 : tensor<2x16x1xf32>
    %15 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %16 = stablehlo.subtract %1, %15 : tensor<2x16x128xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %18 = stablehlo.add %14, %17 : tensor<2x16x1xf32>
    %19 = stablehlo.rsqrt %18 : tensor<2x16x1xf32>
    %20 = stablehlo.divide %19, %18 : tensor<2x16x1xf32>
    %cst_5 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %22 = stablehlo.multiply %21, %20 : tensor<2x16x1xf32>
    %23 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %24 = stablehlo.multiply %16, %23 : tensor<2x16x128xf32>
    %25 = stablehlo.broadcast_in_dim %0#2, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %27 = stablehlo.multiply %24, %26 : tensor<2x16x128xf32>
    %28 = stablehlo.broadcast_in_dim %0#3, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %30 = stablehlo.add %27, %29 : tensor<2x16x128xf32>
    %31 = stablehlo.convert %30 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %32 = stablehlo.dot_general %31, %0#1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<128x128xbf16>) -> tensor<2x16x128xbf16>
    %33 = stablehlo.tanh %32 : tensor<2x16x128xbf16>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %34 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<bf16>) -> tensor<2x16x128xbf16>
    %35 = stablehlo.subtract %34, %33 : tensor<2x16x128xbf16>
    %36 = stablehlo.multiply %0#4, %35 : tensor<2x16x128xbf16>
    %37 = stablehlo.multiply %36, %33 : tensor<2x16x128xbf16>
    %38 = stablehlo.add %36, %37 : tensor<2x16x128xbf16>
    %39 = stablehlo.dot_general %38, %31, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<2x16x128xbf16>) -> tensor<128x128xbf16>
    %40 = stablehlo.transpose %39, dims = [1, 0] : (tensor<128x128xbf16>) -> tensor<128x128xbf16>
    %41 = stablehlo.dot_general %38, %0#1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xbf16>, tensor<128x128xbf16>) -> tensor<2x16x128xbf16>
    %42 = stablehlo.convert %41 : (tensor<2x16x128xbf16>) -> tensor<2x16x128xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %43 = stablehlo.reduce(%42 init: %cst_7) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<128xf32>
    %44 = stablehlo.reshape %43 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %45 = stablehlo.reduce(%44 init: %cst_8) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xf32>, tensor<f32>) -> tensor<128xf32>
    %46 = stablehlo.multiply %24, %42 : tensor<2x16x128xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %47 = stablehlo.reduce(%46 init: %cst_9) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<128xf32>
    %48 = stablehlo.reshape %47 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %49 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x16x128xf32>
    %50 = stablehlo.multiply %42, %49 : tensor<2x16x128xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %51 = stablehlo.reduce(%48 init: %cst_10) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xf32>, tensor<f32>) -> tensor<128xf32>
    %52 = stablehlo.multiply %16, %50 : tensor<2x16x128xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %53 = stablehlo.reduce(%52 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %54 = stablehlo.reshape %53 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %55 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x128xf32>
    %56 = stablehlo.multiply %50, %55 : tensor<2x16x128xf32>
    %57 = stablehlo.multiply %54, %22 : tensor<2x16x1xf32>
    %58 = stablehlo.negate %56 : tensor<2x16x128xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = stablehlo.reduce(%58 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %60 = stablehlo.reshape %59 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_13 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %62 = stablehlo.divide %57, %61 : tensor<2x16x1xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %63 = stablehlo.reduce(%62 init: %cst_14) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x128xf32>
    %65 = stablehlo.multiply %64, %10 : tensor<2x16x128xf32>
    %66 = stablehlo.negate %65 : tensor<2x16x128xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %67 = stablehlo.reduce(%66 init: %cst_15) applies stablehlo.add across dimensions = [2] : (tensor<2x16x128xf32>, tensor<f32>) -> tensor<2x16xf32>
    %68 = stablehlo.reshape %67 : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %69 = stablehlo.add %56, %65 : tensor<2x16x128xf32>
    %70 = stablehlo.add %60, %68 : tensor<2x16x1xf32>
    %cst_16 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %72 = stablehlo.divide %70, %71 : tensor<2x16x1xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %73 = stablehlo.reduce(%72 init: %cst_17) applies stablehlo.add across dimensions = [2] : (tensor<2x16x1xf32>, tensor<f32>) -> tensor<2x16xf32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x128xf32>
    %75 = stablehlo.add %69, %74 : tensor<2x16x128xf32>
    %76 = stablehlo.convert %75 : (tensor<2x16x128xf32>) -> tensor<2x16x128xbf16>
    %77 = stablehlo.add %0#4, %76 : tensor<2x16x128xbf16>
    return %77, %40, %51, %45 : tensor<2x16x128xbf16>, tensor<128x128xbf16>, tensor<128xf32>, tensor<128xf32>
  }
  func.func private @dynamic_update_index_in_dim_3(%arg0: tensor<3x128x128xbf16>, %arg1: tensor<128x128xbf16>, %arg2: tensor<i32>) -> tensor<3x128x128xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<128x128xbf16>) -> tensor<1x128x128xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x128x128xbf16>, tensor<1x128x128xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x128x128xbf16>
    return %1 : tensor<3x128x128xbf16>
  }
  func.func private @dynamic_update_index_in_dim_4(%arg0: tensor<3x128xf32>, %arg1: tensor<128xf32>, %arg2: tensor<i32>) -> tensor<3x128xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<128xf32>) -> tensor<1x128xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<3x128xf32>, tensor<1x128xf32>, tensor<i32>, tensor<i32>) -> tensor<3x128xf32>
    return %1 : tensor<3x128xf32>
  }
}
