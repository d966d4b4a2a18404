module @jit_loss2 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x256x128xbf16>, %arg1: tensor<2x128x4xbf16>, %arg2: tensor<2x4x128x256xbf16>, %arg3: tensor<2x4x256x128xbf16>, %arg4: tensor<2x4x128x256xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<1x256x128xbf16> {jax.result_info = "result[1][0]"}, tensor<2x128x4xbf16> {jax.result_info = "result[1][1]['gate']"}, tensor<2x4x128x256xbf16> {jax.result_info = "result[1][1]['w1']"}, tensor<2x4x256x128xbf16> {jax.result_info = "result[1][1]['w2']"}, tensor<2x4x128x256xbf16> {jax.result_info = "result[1][1]['w3']"}) {
    %0 = call @_one_hot() : () -> tensor<1x1x1x4xi32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<2x1x256x128xbf16>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x1x256x4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x1x256x1xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x1x256x1xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x1x256x2x1xi32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x1x256x1xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x1x256x2xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x1x256x1xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %9 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<bf16>) -> tensor<2x1x256x2x4xbf16>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %10 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<bf16>) -> tensor<2x1x256x4x256xbf16>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %11 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<bf16>) -> tensor<2x1x256x4x256xbf16>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %12 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<bf16>) -> tensor<2x1x256x4x256xbf16>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %13 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<bf16>) -> tensor<2x1x256x4x256xbf16>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %14 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<bf16>) -> tensor<2x1x256x4x256xbf16>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %15 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<bf16>) -> tensor<2x1x256x4x256xbf16>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %16 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<bf16>) -> tensor<2x4x128x1x256xbf16>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %17 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<bf16>) -> tensor<2x1x256x4xbf16>
    %c_15 = stablehlo.constant dense<0> : tensor<i32>
    %18:24 = stablehlo.while(%iterArg = %arg1, %iterArg_24 = %arg2, %iterArg_25 = %arg3, %iterArg_26 = %arg4, %iterArg_27 = %0, %iterArg_28 = %c_15, %iterArg_29 = %arg0, %iterArg_30 = %1, %iterArg_31 = %2, %iterArg_32 = %3, %iterArg_33 = %4, %iterArg_34 = %5, %iterArg_35 = %6, %iterArg_36 = %7, %iterArg_37 = %8, %iterArg_38 = %9, %iterArg_39 = %10, %iterArg_40 = %11, %iterArg_41 = %12, %iterArg_42 = %13, %iterArg_43 = %14, %iterArg_44 = %15, %iterArg_45 = %16, %iterArg_46 = %17) : tensor<2x128x4xbf16>, tensor<2x4x128x256xbf16>, tensor<2x4x256x128xbf16>, tensor<2x4x128x256xbf16>, tensor<1x1x1x4xi32>, tensor<i32>, tensor<1x256x128xbf16>, tensor<2x1x256x128xbf16>, tensor<2x1x256x4xf32>, tensor<2x1x256x1xf32>, tensor<2x1x256x1xf32>, tensor<2x1x256x2x1xi32>, tensor<2x1x256x1xf32>, tensor<2x1x256x2xf32>, tensor<2x1x256x1xf32>, tensor<2x1x256x2x4xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x4x128x1x256xbf16>, tensor<2x1x256x4xbf16>
    cond {
      %c_47 = stablehlo.constant dense<2> : tensor<i32>
      %32 = stablehlo.compare LT, %iterArg_28, %c_47, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %32 : tensor<i1>
    } do {
      %32 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_28) : (tensor<2x128x4xbf16>, tensor<i32>) -> tensor<128x4xbf16>
      %33 = func.call @dynamic_index_in_dim_0(%iterArg_24, %iterArg_28) : (tensor<2x4x128x256xbf16>, tensor<i32>) -> tensor<4x128x256xbf16>
      %34 = func.call @dynamic_index_in_dim_1(%iterArg_25, %iterArg_28) : (tensor<2x4x256x128xbf16>, tensor<i32>) -> tensor<4x256x128xbf16>
      %35 = func.call @dynamic_index_in_dim_0(%iterArg_26, %iterArg_28) : (tensor<2x4x128x256xbf16>, tensor<i32>) -> tensor<4x128x256xbf16>
      %36:18 = func.call @closed_call(%iterArg_27, %iterArg_29, %32, %33, %34, %35) : (tensor<1x1x1x4xi32>, tensor<1x256x128xbf16>, tensor<128x4xbf16>, tensor<4x128x256xbf16>, tensor<4x256x128xbf16>, tensor<4x128x256xbf16>) -> (tensor<1x256x128xbf16>, tensor<1x256x128xbf16>, tensor<1x256x4xf32>, tensor<1x256x1xf32>, tensor<1x256x1xf32>, tensor<1x256x2x1xi32>, tensor<1x256x1xf32>, tensor<1x256x2xf32>, tensor<1x256x1xf32>, tensor<1x256x2x4xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<4x128x1x256xbf16>, tensor<1x256x4xbf16>)
      %37 = func.call @dynamic_update_index_in_dim(%iterArg_30, %36#1, %iterArg_28) : (tensor<2x1x256x128xbf16>, tensor<1x256x128xbf16>, tensor<i32>) -> tensor<2x1x256x128xbf16>
      %38 = func.call @dynamic_update_index_in_dim_3(%iterArg_31, %36#2, %iterArg_28) : (tensor<2x1x256x4xf32>, tensor<1x256x4xf32>, tensor<i32>) -> tensor<2x1x256x4xf32>
      %39 = func.call @dynamic_update_index_in_dim_4(%iterArg_32, %36#3, %iterArg_28) : (tensor<2x1x256x1xf32>, tensor<1x256x1xf32>, tensor<i32>) -> tensor<2x1x256x1xf32>
      %40 = func.call @dynamic_update_index_in_dim_4(%iterArg_33, %36#4, %iterArg_28) : (tensor<2x1x256x1xf32>, tensor<1x256x1xf32>, tensor<i32>) -> tensor<2x1x256x1xf32>
      %41 = func.call @dynamic_update_index_in_dim_5(%iterArg_34, %36#5, %iterArg_28) : (tensor<2x1x256x2x1xi32>, tensor<1x256x2x1xi32>, tensor<i32>) -> tensor<2x1x256x2x1xi32>
      %42 = func.call @dynamic_update_index_in_dim_4(%iterArg_35, %36#6, %iterArg_28) : (tensor<2x1x256x1xf32>, tensor<1x256x1xf32>, tensor<i32>) -> tensor<2x1x256x1xf32>
      %43 = func.call @dynamic_update_index_in_dim_6(%iterArg_36, %36#7, %iterArg_28) : (tensor<2x1x256x2xf32>, tensor<1x256x2xf32>, tensor<i32>) -> tensor<2x1x256x2xf32>
      %44 = func.call @dynamic_update_index_in_dim_4(%iterArg_37, %36#8, %iterArg_28) : (tensor<2x1x256x1xf32>, tensor<1x256x1xf32>, tensor<i32>) -> tensor<2x1x256x1xf32>
      %45 = func.call @dynamic_update_index_in_dim_7(%iterArg_38, %36#9, %iterArg_28) : (tensor<2x1x256x2x4xbf16>, tensor<1x256x2x4xbf16>, tensor<i32>) -> tensor<2x1x256x2x4xbf16>
      %46 = func.call @dynamic_update_index_in_dim_8(%iterArg_39, %36#10, %iterArg_28) : (tensor<2x1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<i32>) -> tensor<2x1x256x4x256xbf16>
      %47 = func.call @dynamic_update_index_in_dim_8(%iterArg_40, %36#11, %iterArg_28) : (tensor<2x1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<i32>) -> tensor<2x1x256x4x256xbf16>
      %48 = func.call @dynamic_update_index_in_dim_8(%iterArg_41, %36#12, %iterArg_28) : (tensor<2x1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<i32>) -> tensor<2x1x256x4x256xbf16>
      %49 = func.call @dynamic_update_index_in_dim_8(%iterArg_42, %36#13, %iterArg_28) : (tensor<2x1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<i32>) -> tensor<2x1x256x4x256xbf16>
      %50 = func.call @dynamic_update_index_in_dim_8(%iterArg_43, %36#14, %iterArg_28) : (tensor<2x1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<i32>) -> tensor<2x1x256x4x256xbf16>
      %51 = func.call @dynamic_update_index_in_dim_8(%iterArg_44, %36#15, %iterArg_28) : (tensor<2x1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<i32>) -> tensor<2x1x256x4x256xbf16>
      %52 = func.call @dynamic_update_index_in_dim_9(%iterArg_45, %36#16, %iterArg_28) : (tensor<2x4x128x1x256xbf16>, tensor<4x128x1x256xbf16>, tensor<i32>) -> tensor<2x4x128x1x256xbf16>
      %53 = func.call @dynamic_update_index_in_dim_10(%iterArg_46, %36#17, %iterArg_28) : (tensor<2x1x256x4xbf16>, tensor<1x256x4xbf16>, tensor<i32>) -> tensor<2x1x256x4xbf16>
      %c_47 = stablehlo.constant dense<1> : tensor<i32>
      %54 = stablehlo.add %iterArg_28, %c_47 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_24, %iterArg_25, %iterArg_26, %iterArg_27, %54, %36#0, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53 : tensor<2x128x4xbf16>, tensor<2x4x128x256xbf16>, tensor<2x4x256x128xbf16>, tensor<2x4x128x256xbf16>, tensor<1x1x1x4xi32>, tensor<i32>, tensor<1x256x128xbf16>, tensor<2x1x256x128xbf16>, tensor<2x1x256x4xf32>, tensor<2x1x256x1xf32>, tensor<2x1x256x1xf32>, tensor<2x1x256x2x1xi32>, tensor<2x1x256x1xf32>, tensor<2x1x256x2xf32>, tensor<2x1x256x1xf32>, tensor<2x1x256x2x4xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x4x128x1x256xbf16>, tensor<2x1x256x4xbf16>
    }
    %19 = stablehlo.convert %18#6 : (tensor<1x256x128xbf16>) -> tensor<1x256x128xf32>
    %20 = stablehlo.multiply %19, %19 : tensor<1x256x128xf32>
    %cst_16 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<1x256x128xf32>
    %22 = stablehlo.multiply %21, %19 : tensor<1x256x128xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %23 = stablehlo.reduce(%20 init: %cst_17) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x256x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_18 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<1x256x128xf32>
    %25 = stablehlo.multiply %24, %22 : tensor<1x256x128xf32>
    %26 = stablehlo.convert %25 : (tensor<1x256x128xf32>) -> tensor<1x256x128xbf16>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %27 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<bf16>) -> tensor<2x128x4xbf16>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %28 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<bf16>) -> tensor<2x4x128x256xbf16>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %29 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<bf16>) -> tensor<2x4x256x128xbf16>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %30 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<bf16>) -> tensor<2x4x128x256xbf16>
    %c_23 = stablehlo.constant dense<0> : tensor<i32>
    %31:27 = stablehlo.while(%iterArg = %arg1, %iterArg_24 = %18#7, %iterArg_25 = %18#8, %iterArg_26 = %18#9, %iterArg_27 = %18#10, %iterArg_28 = %18#11, %iterArg_29 = %18#12, %iterArg_30 = %18#13, %iterArg_31 = %18#14, %iterArg_32 = %18#15, %iterArg_33 = %arg2, %iterArg_34 = %18#16, %iterArg_35 = %18#17, %iterArg_36 = %18#18, %iterArg_37 = %arg4, %iterArg_38 = %18#19, %iterArg_39 = %18#20, %iterArg_40 = %18#21, %iterArg_41 = %arg3, %iterArg_42 = %18#22, %iterArg_43 = %18#23, %iterArg_44 = %c_23, %iterArg_45 = %26, %iterArg_46 = %27, %iterArg_47 = %28, %iterArg_48 = %29, %iterArg_49 = %30) : tensor<2x128x4xbf16>, tensor<2x1x256x128xbf16>, tensor<2x1x256x4xf32>, tensor<2x1x256x1xf32>, tensor<2x1x256x1xf32>, tensor<2x1x256x2x1xi32>, tensor<2x1x256x1xf32>, tensor<2x1x256x2xf32>, tensor<2x1x256x1xf32>, tensor<2x1x256x2x4xbf16>, tensor<2x4x128x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x4x128x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x4x256x128xbf16>, tensor<2x4x128x1x256xbf16>, tensor<2x1x256x4xbf16>, tensor<i32>, tensor<1x256x128xbf16>, tensor<2x128x4xbf16>, tensor<2x4x128x256xbf16>, tensor<2x4x256x128xbf16>, tensor<2x4x128x256xbf16>
    cond {
      %c_50 = stablehlo.constant dense<2> : tensor<i32>
      %32 = stablehlo.compare LT, %iterArg_44, %c_50, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %32 : tensor<i1>
    } do {
      %c_50 = stablehlo.constant dense<2> : tensor<i32>
      %32 = stablehlo.subtract %c_50, %iterArg_44 : tensor<i32>
      %c_51 = stablehlo.constant dense<1> : tensor<i32>
      %33 = stablehlo.subtract %32, %c_51 : tensor<i32>
      %34 = func.call @dynamic_index_in_dim(%iterArg, %33) : (tensor<2x128x4xbf16>, tensor<i32>) -> tensor<128x4xbf16>
      %35 = func.call @dynamic_index_in_dim_11(%iterArg_24, %33) : (tensor<2x1x256x128xbf16>, tensor<i32>) -> tensor<1x256x128xbf16>
      %36 = func.call @dynamic_index_in_dim_12(%iterArg_25, %33) : (tensor<2x1x256x4xf32>, tensor<i32>) -> tensor<1x256x4xf32>
      %37 = func.call @dynamic_index_in_dim_13(%iterArg_26, %33) : (tensor<2x1x256x1xf32>, tensor<i32>) -> tensor<1x256x1xf32>
      %38 = func.call @dynamic_index_in_dim_13(%iterArg_27, %33) : (tensor<2x1x256x1xf32>, tensor<i32>) -> tensor<1x256x1xf32>
      %39 = func.call @dynamic_index_in_dim_14(%iterArg_28, %33) : (tensor<2x1x256x2x1xi32>, tensor<i32>) -> tensor<1x256x2x1xi32>
      %40 = func.call @dynamic_index_in_dim_13(%iterArg_29, %33) : (tensor<2x1x256x1xf32>, tensor<i32>) -> tensor<1x256x1xf32>
      %41 = func.call @dynamic_index_in_dim_15(%iterArg_30, %33) : (tensor<2x1x256x2xf32>, tensor<i32>) -> tensor<1x256x2xf32>
      %42 = func.call @dynamic_index_in_dim_13(%iterArg_31, %33) : (tensor<2x1x256x1xf32>, tensor<i32>) -> tensor<1x256x1xf32>
      %43 = func.call @dynamic_index_in_dim_16(%iterArg_32, %33) : (tensor<2x1x256x2x4xbf16>, tensor<i32>) -> tensor<1x256x2x4xbf16>
      %44 = func.call @dynamic_index_in_dim_0(%iterArg_33, %33) : (tensor<2x4x128x256xbf16>, tensor<i32>) -> tensor<4x128x256xbf16>
      %45 = func.call @dynamic_index_in_dim_17(%iterArg_34, %33) : (tensor<2x1x256x4x256xbf16>, tensor<i32>) -> tensor<1x256x4x256xbf16>
      %46 = func.call @dynamic_index_in_dim_17(%iterArg_35, %33) : (tensor<2x1x256x4x256xbf16>, tensor<i32>) -> tensor<1x256x4x256xbf16>
      %47 = func.call @dynamic_index_in_dim_17(%iterArg_36, %33) : (tensor<2x1x256x4x256xbf16>, tensor<i32>) -> tensor<1x256x4x256xbf16>
      %48 = func.call @dynamic_index_in_dim_0(%iterArg_37, %33) : (tensor<2x4x128x256xbf16>, tensor<i32>) -> tensor<4x128x256xbf16>
      %49 = func.call @dynamic_index_in_dim_17(%iterArg_38, %33) : (tensor<2x1x256x4x256xbf16>, tensor<i32>) -> tensor<1x256x4x256xbf16>
      %50 = func.call @dynamic_index_in_dim_17(%iterArg_39, %33) : (tensor<2x1x256x4x256xbf16>, tensor<i32>) -> tensor<1x256x4x256xbf16>
      %51 = func.call @dynamic_index_in_dim_17(%iterArg_40, %33) : (tensor<2x1x256x4x256xbf16>, tensor<i32>) -> tensor<1x256x4x256xbf16>
      %52 = func.call @dynamic_index_in_dim_1(%iterArg_41, %33) : (tensor<2x4x256x128xbf16>, tensor<i32>) -> tensor<4x256x128xbf16>
      %53 = func.call @dynamic_index_in_dim_18(%iterArg_42, %33) : (tensor<2x4x128x1x256xbf16>, tensor<i32>) -> tensor<4x128x1x256xbf16>
      %54 = func.call @dynamic_index_in_dim_19(%iterArg_43, %33) : (tensor<2x1x256x4xbf16>, tensor<i32>) -> tensor<1x256x4xbf16>
      %55:5 = func.call @closed_call_20(%iterArg_45, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54) : (tensor<1x256x128xbf16>, tensor<128x4xbf16>, tensor<1x256x128xbf16>, tensor<1x256x4xf32>, tensor<1x256x1xf32>, tensor<1x256x1xf32>, tensor<1x256x2x1xi32>, tensor<1x256x1xf32>, tensor<1x256x2xf32>, tensor<1x256x1xf32>, tensor<1x256x2x4xbf16>, tensor<4x128x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<4x128x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<4x256x128xbf16>, tensor<4x128x1x256xbf16>, tensor<1x256x4xbf16>) -> (tensor<1x256x128xbf16>, tensor<128x4xbf16>, tensor<4x128x256xbf16>, tensor<4x256x128xbf16>, tensor<4x128x256xbf16>)
      %56 = func.call @dynamic_update_index_in_dim_22(%iterArg_46, %55#1, %33) : (tensor<2x128x4xbf16>, tensor<128x4xbf16>, tensor<i32>) -> tensor<2x128x4xbf16>
      %57 = func.call @dynamic_update_index_in_dim_23(%iterArg_47, %55#2, %33) : (tensor<2x4x128x256xbf16>, tensor<4x128x256xbf16>, tensor<i32>) -> tensor<2x4x128x256xbf16>
      %58 = func.call @dynamic_update_index_in_dim_24(%iterArg_48, %55#3, %33) : (tensor<2x4x256x128xbf16>, tensor<4x256x128xbf16>, tensor<i32>) -> tensor<2x4x256x128xbf16>
      %59 = func.call @dynamic_update_index_in_dim_23(%iterArg_49, %55#4, %33) : (tensor<2x4x128x256xbf16>, tensor<4x128x256xbf16>, tensor<i32>) -> tensor<2x4x128x256xbf16>
      %c_52 = stablehlo.constant dense<1> : tensor<i32>
      %60 = stablehlo.add %iterArg_44, %c_52 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_24, %iterArg_25, %iterArg_26, %iterArg_27, %iterArg_28, %iterArg_29, %iterArg_30, %iterArg_31, %iterArg_32, %iterArg_33, %iterArg_34, %iterArg_35, %iterArg_36, %iterArg_37, %iterArg_38, %iterArg_39, %iterArg_40, %iterArg_41, %iterArg_42, %iterArg_43, %60, %55#0, %56, %57, %58, %59 : tensor<2x128x4xbf16>, tensor<2x1x256x128xbf16>, tensor<2x1x256x4xf32>, tensor<2x1x256x1xf32>, tensor<2x1x256x1xf32>, tensor<2x1x256x2x1xi32>, tensor<2x1x256x1xf32>, tensor<2x1x256x2xf32>, tensor<2x1x256x1xf32>, tensor<2x1x256x2x4xbf16>, tensor<2x4x128x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x4x128x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x1x256x4x256xbf16>, tensor<2x4x256x128xbf16>, tensor<2x4x128x1x256xbf16>, tensor<2x1x256x4xbf16>, tensor<i32>, tensor<1x256x128xbf16>, tensor<2x128x4xbf16>, tensor<2x4x128x256xbf16>, tensor<2x4x256x128xbf16>, tensor<2x4x128x256xbf16>
    }
    return %23, %31#22, %31#23, %31#24, %31#25, %31#26 : tensor<f32>, tensor<1x256x128xbf16>, tensor<2x128x4xbf16>, tensor<2x4x128x256xbf16>, tensor<2x4x256x128xbf16>, tensor<2x4x128x256xbf16>
  }
  func.func private @_one_hot() -> tensor<1x1x1x4xi32> {
    %0 = stablehlo.iota dim = 3 : tensor<1x1x1x4xi32>
    return %0 : tensor<1x1x1x4xi32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<2x128x4xbf16>, %arg1: tensor<i32>) -> tensor<128x4xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 128, 4] : (tensor<2x128x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x4xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x128x4xbf16>) -> tensor<128x4xbf16>
    return %1 : tensor<128x4xbf16>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<2x4x128x256xbf16>, %arg1: tensor<i32>) -> tensor<4x128x256xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 4, 128, 256] : (tensor<2x4x128x256xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x128x256xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x4x128x256xbf16>) -> tensor<4x128x256xbf16>
    return %1 : tensor<4x128x256xbf16>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<2x4x256x128xbf16>, %arg1: tensor<i32>) -> tensor<4x256x128xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 4, 256, 128] : (tensor<2x4x256x128xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x256x128xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x4x256x128xbf16>) -> tensor<4x256x128xbf16>
    return %1 : tensor<4x256x128xbf16>
  }
  func.func private @closed_call(%arg0: tensor<1x1x1x4xi32>, %arg1: tensor<1x256x128xbf16>, %arg2: tensor<128x4xbf16>, %arg3: tensor<4x128x256xbf16>, %arg4: tensor<4x256x128xbf16>, %arg5: tensor<4x128x256xbf16>) -> (tensor<1x256x128xbf16>, tensor<1x256x128xbf16>, tensor<1x256x4xf32>, tensor<1x256x1xf32>, tensor<1x256x1xf32>, tensor<1x256x2x1xi32>, tensor<1x256x1xf32>, tensor<1x256x2xf32>, tensor<1x256x1xf32>, tensor<1x256x2x4xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<4x128x1x256xbf16>, tensor<1x256x4xbf16>) {
    %0 = stablehlo.dot_general %arg1, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<128x4xbf16>) -> tensor<1x256x4xbf16>
    %1 = stablehlo.convert %0 : (tensor<1x256x4xbf16>) -> tensor<1x256x4xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<1x256x4xf32>, tensor<f32>) -> tensor<1x256xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x256xf32>
    %4 = stablehlo.maximum %3, %2 : tensor<1x256xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<1x256xf32>) -> tensor<1x256x1xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x4xf32>
    %7 = stablehlo.subtract %1, %6 : tensor<1x256x4xf32>
    %8 = stablehlo.exponential %7 : tensor<1x256x4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<1x256x4xf32>, tensor<f32>) -> tensor<1x256xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x256xf32>) -> tensor<1x256x1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x4xf32>
    %12 = stablehlo.divide %8, %11 : tensor<1x256x4xf32>
    %13 = stablehlo.multiply %10, %10 : tensor<1x256x1xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x256x1xf32>
    %15 = stablehlo.divide %14, %13 : tensor<1x256x1xf32>
    %values, %indices = chlo.top_k(%12, k = 2) : tensor<1x256x4xf32> -> (tensor<1x256x2xf32>, tensor<1x256x2xi32>)
    %16 = stablehlo.reshape %indices : (tensor<1x256x2xi32>) -> tensor<1x256x2x1xi32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.reduce(%values init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<1x256x2xf32>, tensor<f32>) -> tensor<1x256xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<1x256xf32>) -> tensor<1x256x1xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x2xf32>
    %20 = stablehlo.divide %values, %19 : tensor<1x256x2xf32>
    %21 = stablehlo.multiply %18, %18 : tensor<1x256x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x256x1xf32>
    %23 = stablehlo.divide %22, %21 : tensor<1x256x1xf32>
    %24 = stablehlo.convert %20 : (tensor<1x256x2xf32>) -> tensor<1x256x2xbf16>
    %25 = call @_one_hot_2(%indices, %arg0) : (tensor<1x256x2xi32>, tensor<1x1x1x4xi32>) -> tensor<1x256x2x4xbf16>
    %26 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<1x256x2xbf16>) -> tensor<1x256x2x1xbf16>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<1x256x2x1xbf16>) -> tensor<1x256x2x4xbf16>
    %28 = stablehlo.multiply %25, %27 : tensor<1x256x2x4xbf16>
    %29 = stablehlo.convert %28 : (tensor<1x256x2x4xbf16>) -> tensor<1x256x2x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%29 init: %cst_5) applies stablehlo.add across dimensions = [2] : (tensor<1x256x2x4xf32>, tensor<f32>) -> tensor<1x256x4xf32>
    %31 = stablehlo.convert %30 : (tensor<1x256x4xf32>) -> tensor<1x256x4xbf16>
    %32 = stablehlo.dot_general %arg1, %arg3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<4x128x256xbf16>) -> tensor<1x256x4x256xbf16>
    %33:3 = call @silu(%32) : (tensor<1x256x4x256xbf16>) -> (tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>)
    %34 = stablehlo.dot_general %arg1, %arg5, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<4x128x256xbf16>) -> tensor<1x256x4x256xbf16>
    %35 = stablehlo.multiply %33#0, %34 : tensor<1x256x4x256xbf16>
    %36 = stablehlo.dot_general %arg4, %35, batching_dims = [0] x [2], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x256x128xbf16>, tensor<1x256x4x256xbf16>) -> tensor<4x128x1x256xbf16>
    %37 = stablehlo.dot_general %31, %36, batching_dims = [0, 1] x [2, 3], contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4xbf16>, tensor<4x128x1x256xbf16>) -> tensor<1x256x128xbf16>
    %38 = stablehlo.add %arg1, %37 : tensor<1x256x128xbf16>
    return %38, %arg1, %8, %10, %15, %16, %18, %values, %23, %25, %33#1, %33#2, %32, %34, %33#0, %35, %36, %31 : tensor<1x256x128xbf16>, tensor<1x256x128xbf16>, tensor<1x256x4xf32>, tensor<1x256x1xf32>, tensor<1x256x1xf32>, tensor<1x256x2x1xi32>, tensor<1x256x1xf32>, tensor<1x256x2xf32>, tensor<1x256x1xf32>, tensor<1x256x2x4xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<4x128x1x256xbf16>, tensor<1x256x4xbf16>
  }
  func.func private @_one_hot_2(%arg0: tensor<1x256x2xi32>, %arg1: tensor<1x1x1x4xi32>) -> tensor<1x256x2x4xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<1x256x2xi32>) -> tensor<1x256x2x1xi32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<1x256x2x1xi32>) -> tensor<1x256x2x4xi32>
    %2 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2, 3] : (tensor<1x1x1x4xi32>) -> tensor<1x256x2x4xi32>
    %3 = stablehlo.compare EQ, %1, %2, SIGNED : (tensor<1x256x2x4xi32>, tensor<1x256x2x4xi32>) -> tensor<1x256x2x4xi1>
    %4 = stablehlo.convert %3 : (tensor<1x256x2x4xi1>) -> tensor<1x256x2x4xbf16>
    return %4 : tensor<1x256x2x4xbf16>
  }
  func.func private @silu(%arg0: tensor<1x256x4x256xbf16>) -> (tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>) {
    %0 = stablehlo.negate %arg0 : tensor<1x256x4x256xbf16>
    %1 = stablehlo.exponential %0 : tensor<1x256x4x256xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<1x256x4x256xbf16>
    %3 = stablehlo.add %2, %1 : tensor<1x256x4x256xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<1x256x4x256xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<1x256x4x256xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<1x256x4x256xbf16>
    %7 = stablehlo.subtract %6, %5 : tensor<1x256x4x256xbf16>
    %8 = stablehlo.multiply %5, %7 : tensor<1x256x4x256xbf16>
    %9 = stablehlo.multiply %arg0, %5 : tensor<1x256x4x256xbf16>
    return %9, %8, %5 : tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<2x1x256x128xbf16>, %arg1: tensor<1x256x128xbf16>, %arg2: tensor<i32>) -> tensor<2x1x256x128xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<1x256x128xbf16>) -> tensor<1x1x256x128xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<2x1x256x128xbf16>, tensor<1x1x256x128xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x256x128xbf16>
    return %1 : tensor<2x1x256x128xbf16>
  }
  func.func private @dynamic_update_index_in_dim_3(%arg0: tensor<2x1x256x4xf32>, %arg1: tensor<1x256x4xf32>, %arg2: tensor<i32>) -> tensor<2x1x256x4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<1x256x4xf32>) -> tensor<1x1x256x4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<2x1x256x4xf32>, tensor<1x1x256x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x256x4xf32>
    return %1 : tensor<2x1x256x4xf32>
  }
  func.func private @dynamic_update_index_in_dim_4(%arg0: tensor<2x1x256x1xf32>, %arg1: tensor<1x256x1xf32>, %arg2: tensor<i32>) -> tensor<2x1x256x1xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<1x256x1xf32>) -> tensor<1x1x256x1xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<2x1x256x1xf32>, tensor<1x1x256x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x256x1xf32>
    return %1 : tensor<2x1x256x1xf32>
  }
  func.func private @dynamic_update_index_in_dim_5(%arg0: tensor<2x1x256x2x1xi32>, %arg1: tensor<1x256x2x1xi32>, %arg2: tensor<i32>) -> tensor<2x1x256x2x1xi32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4] : (tensor<1x256x2x1xi32>) -> tensor<1x1x256x2x1xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2 : (tensor<2x1x256x2x1xi32>, tensor<1x1x256x2x1xi32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x256x2x1xi32>
    return %1 : tensor<2x1x256x2x1xi32>
  }
  func.func private @dynamic_update_index_in_dim_6(%arg0: tensor<2x1x256x2xf32>, %arg1: tensor<1x256x2xf32>, %arg2: tensor<i32>) -> tensor<2x1x256x2xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<1x256x2xf32>) -> tensor<1x1x256x2xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<2x1x256x2xf32>, tensor<1x1x256x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x256x2xf32>
    return %1 : tensor<2x1x256x2xf32>
  }
  func.func private @dynamic_update_index_in_dim_7(%arg0: tensor<2x1x256x2x4xbf16>, %arg1: tensor<1x256x2x4xbf16>, %arg2: tensor<i32>) -> tensor<2x1x256x2x4xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4] : (tensor<1x256x2x4xbf16>) -> tensor<1x1x256x2x4xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2 : (tensor<2x1x256x2x4xbf16>, tensor<1x1x256x2x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x256x2x4xbf16>
    return %1 : tensor<2x1x256x2x4xbf16>
  }
  func.func private @dynamic_update_index_in_dim_8(%arg0: tensor<2x1x256x4x256xbf16>, %arg1: tensor<1x256x4x256xbf16>, %arg2: tensor<i32>) -> tensor<2x1x256x4x256xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4] : (tensor<1x256x4x256xbf16>) -> tensor<1x1x256x4x256xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2 : (tensor<2x1x256x4x256xbf16>, tensor<1x1x256x4x256xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x256x4x256xbf16>
    return %1 : tensor<2x1x256x4x256xbf16>
  }
  func.func private @dynamic_update_index_in_dim_9(%arg0: tensor<2x4x128x1x256xbf16>, %arg1: tensor<4x128x1x256xbf16>, %arg2: tensor<i32>) -> tensor<2x4x128x1x256xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4] : (tensor<4x128x1x256xbf16>) -> tensor<1x4x128x1x256xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2 : (tensor<2x4x128x1x256xbf16>, tensor<1x4x128x1x256xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x4x128x1x256xbf16>
    return %1 : tensor<2x4x128x1x256xbf16>
  }
  func.func private @dynamic_update_index_in_dim_10(%arg0: tensor<2x1x256x4xbf16>, %arg1: tensor<1x256x4xbf16>, %arg2: tensor<i32>) -> tensor<2x1x256x4xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<1x256x4xbf16>) -> tensor<1x1x256x4xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<2x1x256x4xbf16>, tensor<1x1x256x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x256x4xbf16>
    return %1 : tensor<2x1x256x4xbf16>
  }
  func.func private @dynamic_index_in_dim_11(%arg0: tensor<2x1x256x128xbf16>, %arg1: tensor<i32>) -> tensor<1x256x128xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 1, 256, 128] : (tensor<2x1x256x128xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x256x128xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x1x256x128xbf16>) -> tensor<1x256x128xbf16>
    return %1 : tensor<1x256x128xbf16>
  }
  func.func private @dynamic_index_in_dim_12(%arg0: tensor<2x1x256x4xf32>, %arg1: tensor<i32>) -> tensor<1x256x4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 1, 256, 4] : (tensor<2x1x256x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x256x4xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1x256x4xf32>) -> tensor<1x256x4xf32>
    return %1 : tensor<1x256x4xf32>
  }
  func.func private @dynamic_index_in_dim_13(%arg0: tensor<2x1x256x1xf32>, %arg1: tensor<i32>) -> tensor<1x256x1xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 1, 256, 1] : (tensor<2x1x256x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x256x1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1x256x1xf32>) -> tensor<1x256x1xf32>
    return %1 : tensor<1x256x1xf32>
  }
  func.func private @dynamic_index_in_dim_14(%arg0: tensor<2x1x256x2x1xi32>, %arg1: tensor<i32>) -> tensor<1x256x2x1xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, sizes = [1, 1, 256, 2, 1] : (tensor<2x1x256x2x1xi32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x256x2x1xi32>
    %1 = stablehlo.reshape %0 : (tensor<1x1x256x2x1xi32>) -> tensor<1x256x2x1xi32>
    return %1 : tensor<1x256x2x1xi32>
  }
  func.func private @dynamic_index_in_dim_15(%arg0: tensor<2x1x256x2xf32>, %arg1: tensor<i32>) -> tensor<1x256x2xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 1, 256, 2] : (tensor<2x1x256x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x256x2xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1x256x2xf32>) -> tensor<1x256x2xf32>
    return %1 : tensor<1x256x2xf32>
  }
  func.func private @dynamic_index_in_dim_16(%arg0: tensor<2x1x256x2x4xbf16>, %arg1: tensor<i32>) -> tensor<1x256x2x4xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, sizes = [1, 1, 256, 2, 4] : (tensor<2x1x256x2x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x256x2x4xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x1x256x2x4xbf16>) -> tensor<1x256x2x4xbf16>
    return %1 : tensor<1x256x2x4xbf16>
  }
  func.func private @dynamic_index_in_dim_17(%arg0: tensor<2x1x256x4x256xbf16>, %arg1: tensor<i32>) -> tensor<1x256x4x256xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, sizes = [1, 1, 256, 4, 256] : (tensor<2x1x256x4x256xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x256x4x256xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x1x256x4x256xbf16>) -> tensor<1x256x4x256xbf16>
    return %1 : tensor<1x256x4x256xbf16>
  }
  func.func private @dynamic_index_in_dim_18(%arg0: tensor<2x4x128x1x256xbf16>, %arg1: tensor<i32>) -> tensor<4x128x1x256xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, sizes = [1, 4, 128, 1, 256] : (tensor<2x4x128x1x256xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x128x1x256xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x4x128x1x256xbf16>) -> tensor<4x128x1x256xbf16>
    return %1 : tensor<4x128x1x256xbf16>
  }
  func.func private @dynamic_index_in_dim_19(%arg0: tensor<2x1x256x4xbf16>, %arg1: tensor<i32>) -> tensor<1x256x4xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 1, 256, 4] : (tensor<2x1x256x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x256x4xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x1x256x4xbf16>) -> tensor<1x256x4xbf16>
    return %1 : tensor<1x256x4xbf16>
  }
  func.func private @closed_call_20(%arg0: tensor<1x256x128xbf16>, %arg1: tensor<128x4xbf16>, %arg2: tensor<1x256x128xbf16>, %arg3: tensor<1x256x4xf32>, %arg4: tensor<1x256x1xf32>, %arg5: tensor<1x256x1xf32>, %arg6: tensor<1x256x2x1xi32>, %arg7: tensor<1x256x1xf32>, %arg8: tensor<1x256x2xf32>, %arg9: tensor<1x256x1xf32>, %arg10: tensor<1x256x2x4xbf16>, %arg11: tensor<4x128x256xbf16>, %arg12: tensor<1x256x4x256xbf16>, %arg13: tensor<1x256x4x256xbf16>, %arg14: tensor<1x256x4x256xbf16>, %arg15: tensor<4x128x256xbf16>, %arg16: tensor<1x256x4x256xbf16>, %arg17: tensor<1x256x4x256xbf16>, %arg18: tensor<1x256x4x256xbf16>, %arg19: tensor<4x256x128xbf16>, %arg20: tensor<4x128x1x256xbf16>, %arg21: tensor<1x256x4xbf16>) -> (tensor<1x256x128xbf16>, tensor<128x4xbf16>, tensor<4x128x256xbf16>, tensor<4x256x128xbf16>, tensor<4x128x256xbf16>) {
    %0 = stablehlo.dot_general %arg0, %arg21, batching_dims = [0, 1] x [0, 1], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<1x256x4xbf16>) -> tensor<1x256x128x4xbf16>
    %1 = stablehlo.transpose %0, dims = [3, 2, 0, 1] : (tensor<1x256x128x4xbf16>) -> tensor<4x128x1x256xbf16>
    %2 = stablehlo.dot_general %arg0, %arg20, batching_dims = [0, 1] x [2, 3], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<4x128x1x256xbf16>) -> tensor<1x256x4xbf16>
    %3 = stablehlo.dot_general %1, %arg19, batching_dims = [0] x [0], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x128x1x256xbf16>, tensor<4x256x128xbf16>) -> tensor<4x1x256x256xbf16>
    %4 = stablehlo.transpose %3, dims = [1, 2, 0, 3] : (tensor<4x1x256x256xbf16>) -> tensor<1x256x4x256xbf16>
    %5 = stablehlo.dot_general %1, %arg18, batching_dims = [0] x [2], contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x1x256xbf16>, tensor<1x256x4x256xbf16>) -> tensor<4x128x256xbf16>
    %6 = stablehlo.transpose %5, dims = [0, 2, 1] : (tensor<4x128x256xbf16>) -> tensor<4x256x128xbf16>
    %7 = stablehlo.multiply %arg17, %4 : tensor<1x256x4x256xbf16>
    %8 = stablehlo.multiply %4, %arg16 : tensor<1x256x4x256xbf16>
    %9 = stablehlo.dot_general %7, %arg2, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4x256xbf16>, tensor<1x256x128xbf16>) -> tensor<4x256x128xbf16>
    %10 = stablehlo.transpose %9, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %11 = stablehlo.dot_general %7, %arg15, contracting_dims = [2, 3] x [0, 2], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4x256xbf16>, tensor<4x128x256xbf16>) -> tensor<1x256x128xbf16>
    %12 = stablehlo.add %arg0, %11 : tensor<1x256x128xbf16>
    %13 = call @silu_21(%arg12, %arg13, %arg14, %8) : (tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>) -> tensor<1x256x4x256xbf16>
    %14 = stablehlo.dot_general %13, %arg2, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4x256xbf16>, tensor<1x256x128xbf16>) -> tensor<4x256x128xbf16>
    %15 = stablehlo.transpose %14, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %16 = stablehlo.dot_general %13, %arg11, contracting_dims = [2, 3] x [0, 2], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4x256xbf16>, tensor<4x128x256xbf16>) -> tensor<1x256x128xbf16>
    %17 = stablehlo.add %12, %16 : tensor<1x256x128xbf16>
    %18 = stablehlo.convert %2 : (tensor<1x256x4xbf16>) -> tensor<1x256x4xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 3] : (tensor<1x256x4xf32>) -> tensor<1x256x2x4xf32>
    %20 = stablehlo.convert %19 : (tensor<1x256x2x4xf32>) -> tensor<1x256x2x4xbf16>
    %21 = stablehlo.multiply %arg10, %20 : tensor<1x256x2x4xbf16>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %22 = stablehlo.reduce(%21 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<1x256x2x4xbf16>, tensor<bf16>) -> tensor<1x256x2xbf16>
    %23 = stablehlo.reshape %22 : (tensor<1x256x2xbf16>) -> tensor<1x256x2x1xbf16>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %24 = stablehlo.reduce(%23 init: %cst_0) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x256x2x1xbf16>, tensor<bf16>) -> tensor<256x2xbf16>
    %25 = stablehlo.broadcast_in_dim %24, dims = [1, 2] : (tensor<256x2xbf16>) -> tensor<1x256x2xbf16>
    %26 = stablehlo.convert %25 : (tensor<1x256x2xbf16>) -> tensor<1x256x2xf32>
    %27 = stablehlo.broadcast_in_dim %arg9, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x2xf32>
    %28 = stablehlo.multiply %26, %27 : tensor<1x256x2xf32>
    %29 = stablehlo.multiply %28, %arg8 : tensor<1x256x2xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%29 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<1x256x2xf32>, tensor<f32>) -> tensor<1x256xf32>
    %31 = stablehlo.reshape %30 : (tensor<1x256xf32>) -> tensor<1x256x1xf32>
    %32 = stablehlo.negate %31 : tensor<1x256x1xf32>
    %33 = stablehlo.broadcast_in_dim %arg7, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x2xf32>
    %34 = stablehlo.divide %26, %33 : tensor<1x256x2xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %35 = stablehlo.reduce(%32 init: %cst_2) applies stablehlo.add across dimensions = [0, 2] : (tensor<1x256x1xf32>, tensor<f32>) -> tensor<256xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [1] : (tensor<256xf32>) -> tensor<1x256xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 1] : (tensor<1x256xf32>) -> tensor<1x256x2xf32>
    %38 = stablehlo.add %34, %37 : tensor<1x256x2xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x256x4xf32>
    %40 = "stablehlo.scatter"(%39, %arg6, %38) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg22: tensor<f32>, %arg23: tensor<f32>):
      %59 = stablehlo.add %arg22, %arg23 : tensor<f32>
      stablehlo.return %59 : tensor<f32>
    }) : (tensor<1x256x4xf32>, tensor<1x256x2x1xi32>, tensor<1x256x2xf32>) -> tensor<1x256x4xf32>
    %41 = stablehlo.broadcast_in_dim %arg5, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x4xf32>
    %42 = stablehlo.multiply %40, %41 : tensor<1x256x4xf32>
    %43 = stablehlo.multiply %42, %arg3 : tensor<1x256x4xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %44 = stablehlo.reduce(%43 init: %cst_4) applies stablehlo.add across dimensions = [2] : (tensor<1x256x4xf32>, tensor<f32>) -> tensor<1x256xf32>
    %45 = stablehlo.reshape %44 : (tensor<1x256xf32>) -> tensor<1x256x1xf32>
    %46 = stablehlo.negate %45 : tensor<1x256x1xf32>
    %47 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x4xf32>
    %48 = stablehlo.divide %40, %47 : tensor<1x256x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.reduce(%46 init: %cst_5) applies stablehlo.add across dimensions = [0, 2] : (tensor<1x256x1xf32>, tensor<f32>) -> tensor<256xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [1] : (tensor<256xf32>) -> tensor<1x256xf32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1] : (tensor<1x256xf32>) -> tensor<1x256x4xf32>
    %52 = stablehlo.add %48, %51 : tensor<1x256x4xf32>
    %53 = stablehlo.multiply %52, %arg3 : tensor<1x256x4xf32>
    %54 = stablehlo.convert %53 : (tensor<1x256x4xf32>) -> tensor<1x256x4xbf16>
    %55 = stablehlo.dot_general %54, %arg2, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4xbf16>, tensor<1x256x128xbf16>) -> tensor<4x128xbf16>
    %56 = stablehlo.transpose %55, dims = [1, 0] : (tensor<4x128xbf16>) -> tensor<128x4xbf16>
    %57 = stablehlo.dot_general %54, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4xbf16>, tensor<128x4xbf16>) -> tensor<1x256x128xbf16>
    %58 = stablehlo.add %17, %57 : tensor<1x256x128xbf16>
    return %58, %56, %15, %6, %10 : tensor<1x256x128xbf16>, tensor<128x4xbf16>, tensor<4x128x256xbf16>, tensor<4x256x128xbf16>, tensor<4x128x256xbf16>
  }
  func.func private @silu_21(%arg0: tensor<1x256x4x256xbf16>, %arg1: tensor<1x256x4x256xbf16>, %arg2: tensor<1x256x4x256xbf16>, %arg3: tensor<1x256x4x256xbf16>) -> tensor<1x256x4x256xbf16> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<1x256x4x256xbf16>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<1x256x4x256xbf16>
    %2 = stablehlo.multiply %0, %arg0 : tensor<1x256x4x256xbf16>
    %3 = stablehlo.add %1, %2 : tensor<1x256x4x256xbf16>
    return %3 : tensor<1x256x4x256xbf16>
  }
  func.func private @dynamic_update_index_in_dim_22(%arg0: tensor<2x128x4xbf16>, %arg1: tensor<128x4xbf16>, %arg2: tensor<i32>) -> tensor<2x128x4xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<128x4xbf16>) -> tensor<1x128x4xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<2x128x4xbf16>, tensor<1x128x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x128x4xbf16>
    return %1 : tensor<2x128x4xbf16>
  }
  func.func private @dynamic_update_index_in_dim_23(%arg0: tensor<2x4x128x256xbf16>, %arg1: tensor<4x128x256xbf16>, %arg2: tensor<i32>) -> tensor<2x4x128x256xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<4x128x256xbf16>) -> tensor<1x4x128x256xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<2x4x128x256xbf16>, tensor<1x4x128x256xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x4x128x256xbf16>
    return %1 : tensor<2x4x128x256xbf16>
  }
  func.func private @dynamic_update_index_in_dim_24(%arg0: tensor<2x4x256x128xbf16>, %arg1: tensor<4x256x128xbf16>, %arg2: tensor<i32>) -> tensor<2x4x256x128xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<4x256x128xbf16>) -> tensor<1x4x256x128xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<2x4x256x128xbf16>, tensor<1x4x256x128xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x4x256x128xbf16>
    return %1 : tensor<2x4x256x128xbf16>
  }
}
