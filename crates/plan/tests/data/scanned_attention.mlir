// Gradients of scanned attention with grouped queries, as JAX writes it: the forward loop saves weights for the backward loop.
module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x256xbf16>, %arg1: tensor<1x128x256xbf16>) -> (tensor<2x256xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.iota dim = 0 : tensor<128xi32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<128xi32>) -> tensor<128x1xi32>
    %2 = stablehlo.iota dim = 0 : tensor<128xi32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<128xi32>) -> tensor<1x128xi32>
    %4 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<128x1xi32>) -> tensor<128x128xi32>
    %5 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<1x128xi32>) -> tensor<128x128xi32>
    %6 = stablehlo.compare GE, %4, %5, SIGNED : (tensor<128x128xi32>, tensor<128x128xi32>) -> tensor<128x128xi1>
    %cst = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %7:2 = call @_where(%6, %cst) : (tensor<128x128xi1>, tensor<f32>) -> (tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>)
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<2x1x1x256xbf16>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<2x1x128x256xbf16>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<bf16>) -> tensor<2x1x128x2x2x64xbf16>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %11 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<bf16>) -> tensor<2x1x128x2x64xbf16>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x1x2x2x128x128xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x1x2x2x128x1xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x1x2x2x128x1xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %15 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<bf16>) -> tensor<2x1x2x2x128x128xbf16>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %16 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<bf16>) -> tensor<2x1x128x2x64xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %17:14 = stablehlo.while(%iterArg = %arg0, %iterArg_14 = %7#0, %iterArg_15 = %7#1, %iterArg_16 = %c, %iterArg_17 = %arg1, %iterArg_18 = %8, %iterArg_19 = %9, %iterArg_20 = %10, %iterArg_21 = %11, %iterArg_22 = %12, %iterArg_23 = %13, %iterArg_24 = %14, %iterArg_25 = %15, %iterArg_26 = %16) : tensor<2x256xbf16>, tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>, tensor<i32>, tensor<1x128x256xbf16>, tensor<2x1x1x256xbf16>, tensor<2x1x128x256xbf16>, tensor<2x1x128x2x2x64xbf16>, tensor<2x1x128x2x64xbf16>, tensor<2x1x2x2x128x128xf32>, tensor<2x1x2x2x128x1xf32>, tensor<2x1x2x2x128x1xf32>, tensor<2x1x2x2x128x128xbf16>, tensor<2x1x128x2x64xbf16>
    cond {
      %c_27 = stablehlo.constant dense<2> : tensor<i32>
      %27 = stablehlo.compare LT, %iterArg_16, %c_27, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %27 : tensor<i1>
    } do {
      %27 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_16) : (tensor<2x256xbf16>, tensor<i32>) -> tensor<256xbf16>
      %28:10 = func.call @closed_call(%iterArg_14, %iterArg_15, %iterArg_17, %27) : (tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>, tensor<1x128x256xbf16>, tensor<256xbf16>) -> (tensor<1x128x256xbf16>, tensor<1x1x256xbf16>, tensor<1x128x256xbf16>, tensor<1x128x2x2x64xbf16>, tensor<1x128x2x64xbf16>, tensor<1x2x2x128x128xf32>, tensor<1x2x2x128x1xf32>, tensor<1x2x2x128x1xf32>, tensor<1x2x2x128x128xbf16>, tensor<1x128x2x64xbf16>)
      %29 = func.call @dynamic_update_index_in_dim(%iterArg_18, %28#1, %iterArg_16) : (tensor<2x1x1x256xbf16>, tensor<1x1x256xbf16>, tensor<i32>) -> tensor<2x1x1x256xbf16>
      %30 = func.call @dynamic_update_index_in_dim_1(%iterArg_19, %28#2, %iterArg_16) : (tensor<2x1x128x256xbf16>, tensor<1x128x256xbf16>, tensor<i32>) -> tensor<2x1x128x256xbf16>
      %31 = func.call @dynamic_update_index_in_dim_2(%iterArg_20, %28#3, %iterArg_16) : (tensor<2x1x128x2x2x64xbf16>, tensor<1x128x2x2x64xbf16>, tensor<i32>) -> tensor<2x1x128x2x2x64xbf16>
      %32 = func.call @dynamic_update_index_in_dim_3(%iterArg_21, %28#4, %iterArg_16) : (tensor<2x1x128x2x64xbf16>, tensor<1x128x2x64xbf16>, tensor<i32>) -> tensor<2x1x128x2x64xbf16>
      %33 = func.call @dynamic_update_index_in_dim_4(%iterArg_22, %28#5, %iterArg_16) : (tensor<2x1x2x2x128x128xf32>, tensor<1x2x2x128x128xf32>, tensor<i32>) -> tensor<2x1x2x2x128x128xf32>
      %34 = func.call @dynamic_update_index_in_dim_5(%iterArg_23, %28#6, %iterArg_16) : (tensor<2x1x2x2x128x1xf32>, tensor<1x2x2x128x1xf32>, tensor<i32>) -> tensor<2x1x2x2x128x1xf32>
      %35 = func.call @dynamic_update_index_in_dim_5(%iterArg_24, %28#7, %iterArg_16) : (tensor<2x1x2x2x128x1xf32>, tensor<1x2x2x128x1xf32>, tensor<i32>) -> tensor<2x1x2x2x128x1xf32>
      %36 = func.call @dynamic_update_index_in_dim_6(%iterArg_25, %28#8, %iterArg_16) : (tensor<2x1x2x2x128x128xbf16>, tensor<1x2x2x128x128xbf16>, tensor<i32>) -> tensor<2x1x2x2x128x128xbf16>
      %37 = func.call @dynamic_update_index_in_dim_3(%iterArg_26, %28#9, %iterArg_16) : (tensor<2x1x128x2x64xbf16>, tensor<1x128x2x64xbf16>, tensor<i32>) -> tensor<2x1x128x2x64xbf16>
      %c_27 = stablehlo.constant dense<1> : tensor<i32>
      %38 = stablehlo.add %iterArg_16, %c_27 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_14, %iterArg_15, %38, %28#0, %29, %30, %31, %32, %33, %34, %35, %36, %37 : tensor<2x256xbf16>, tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>, tensor<i32>, tensor<1x128x256xbf16>, tensor<2x1x1x256xbf16>, tensor<2x1x128x256xbf16>, tensor<2x1x128x2x2x64xbf16>, tensor<2x1x128x2x64xbf16>, tensor<2x1x2x2x128x128xf32>, tensor<2x1x2x2x128x1xf32>, tensor<2x1x2x2x128x1xf32>, tensor<2x1x2x2x128x128xbf16>, tensor<2x1x128x2x64xbf16>
    }
    %18 = stablehlo.convert %17#4 : (tensor<1x128x256xbf16>) -> tensor<1x128x256xf32>
    %cst_9 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1x128x256xf32>
    %20 = stablehlo.multiply %19, %18 : tensor<1x128x256xf32>
    %cst_10 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_11 = stablehlo.constant dense<3.276800e+04> : tensor<f32>
    %21 = stablehlo.divide %cst_10, %cst_11 : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [] : (tensor<f32>) -> tensor<1x128x256xf32>
    %23 = stablehlo.multiply %22, %20 : tensor<1x128x256xf32>
    %24 = stablehlo.convert %23 : (tensor<1x128x256xf32>) -> tensor<1x128x256xbf16>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %25 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<bf16>) -> tensor<2x256xbf16>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %26:13 = stablehlo.while(%iterArg = %17#5, %iterArg_14 = %17#6, %iterArg_15 = %17#7, %iterArg_16 = %17#8, %iterArg_17 = %17#9, %iterArg_18 = %17#10, %iterArg_19 = %17#11, %iterArg_20 = %17#12, %iterArg_21 = %17#13, %iterArg_22 = %7#0, %iterArg_23 = %c_13, %iterArg_24 = %24, %iterArg_25 = %25) : tensor<2x1x1x256xbf16>, tensor<2x1x128x256xbf16>, tensor<2x1x128x2x2x64xbf16>, tensor<2x1x128x2x64xbf16>, tensor<2x1x2x2x128x128xf32>, tensor<2x1x2x2x128x1xf32>, tensor<2x1x2x2x128x1xf32>, tensor<2x1x2x2x128x128xbf16>, tensor<2x1x128x2x64xbf16>, tensor<1x2x2x128x128xi1>, tensor<i32>, tensor<1x128x256xbf16>, tensor<2x256xbf16>
    cond {
      %c_26 = stablehlo.constant dense<2> : tensor<i32>
      %27 = stablehlo.compare LT, %iterArg_23, %c_26, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %27 : tensor<i1>
    } do {
      %c_26 = stablehlo.constant dense<2> : tensor<i32>
      %27 = stablehlo.subtract %c_26, %iterArg_23 : tensor<i32>
      %c_27 = stablehlo.constant dense<1> : tensor<i32>
      %28 = stablehlo.subtract %27, %c_27 : tensor<i32>
      %29 = func.call @dynamic_index_in_dim_7(%iterArg, %28) : (tensor<2x1x1x256xbf16>, tensor<i32>) -> tensor<1x1x256xbf16>
      %30 = func.call @dynamic_index_in_dim_8(%iterArg_14, %28) : (tensor<2x1x128x256xbf16>, tensor<i32>) -> tensor<1x128x256xbf16>
      %31 = func.call @dynamic_index_in_dim_9(%iterArg_15, %28) : (tensor<2x1x128x2x2x64xbf16>, tensor<i32>) -> tensor<1x128x2x2x64xbf16>
      %32 = func.call @dynamic_index_in_dim_10(%iterArg_16, %28) : (tensor<2x1x128x2x64xbf16>, tensor<i32>) -> tensor<1x128x2x64xbf16>
      %33 = func.call @dynamic_index_in_dim_11(%iterArg_17, %28) : (tensor<2x1x2x2x128x128xf32>, tensor<i32>) -> tensor<1x2x2x128x128xf32>
      %34 = func.call @dynamic_index_in_dim_12(%iterArg_18, %28) : (tensor<2x1x2x2x128x1xf32>, tensor<i32>) -> tensor<1x2x2x128x1xf32>
      %35 = func.call @dynamic_index_in_dim_12(%iterArg_19, %28) : (tensor<2x1x2x2x128x1xf32>, tensor<i32>) -> tensor<1x2x2x128x1xf32>
      %36 = func.call @dynamic_index_in_dim_13(%iterArg_20, %28) : (tensor<2x1x2x2x128x128xbf16>, tensor<i32>) -> tensor<1x2x2x128x128xbf16>
      %37 = func.call @dynamic_index_in_dim_10(%iterArg_21, %28) : (tensor<2x1x128x2x64xbf16>, tensor<i32>) -> tensor<1x128x2x64xbf16>
      %38:2 = func.call @closed_call_14(%iterArg_22, %iterArg_24, %29, %30, %31, %32, %33, %34, %35, %36, %37) : (tensor<1x2x2x128x128xi1>, tensor<1x128x256xbf16>, tensor<1x1x256xbf16>, tensor<1x128x256xbf16>, tensor<1x128x2x2x64xbf16>, tensor<1x128x2x64xbf16>, tensor<1x2x2x128x128xf32>, tensor<1x2x2x128x1xf32>, tensor<1x2x2x128x1xf32>, tensor<1x2x2x128x128xbf16>, tensor<1x128x2x64xbf16>) -> (tensor<1x128x256xbf16>, tensor<256xbf16>)
      %39 = func.call @dynamic_update_index_in_dim_16(%iterArg_25, %38#1, %28) : (tensor<2x256xbf16>, tensor<256xbf16>, tensor<i32>) -> tensor<2x256xbf16>
      %c_28 = stablehlo.constant dense<1> : tensor<i32>
      %40 = stablehlo.add %iterArg_23, %c_28 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_14, %iterArg_15, %iterArg_16, %iterArg_17, %iterArg_18, %iterArg_19, %iterArg_20, %iterArg_21, %iterArg_22, %40, %38#0, %39 : tensor<2x1x1x256xbf16>, tensor<2x1x128x256xbf16>, tensor<2x1x128x2x2x64xbf16>, tensor<2x1x128x2x64xbf16>, tensor<2x1x2x2x128x128xf32>, tensor<2x1x2x2x128x1xf32>, tensor<2x1x2x2x128x1xf32>, tensor<2x1x2x2x128x128xbf16>, tensor<2x1x128x2x64xbf16>, tensor<1x2x2x128x128xi1>, tensor<i32>, tensor<1x128x256xbf16>, tensor<2x256xbf16>
    }
    return %26#12 : tensor<2x256xbf16>
  }
  func.func private @_where(%arg0: tensor<128x128xi1>, %arg1: tensor<f32>) -> (tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>) {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [3, 4] : (tensor<128x128xi1>) -> tensor<1x2x2x128x128xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x128xf32>
    return %1, %2 : tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<2x256xbf16>, %arg1: tensor<i32>) -> tensor<256xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 256] : (tensor<2x256xbf16>, tensor<i32>, tensor<i32>) -> tensor<1x256xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x256xbf16>) -> tensor<256xbf16>
    return %1 : tensor<256xbf16>
  }
  func.func private @closed_call(%arg0: tensor<1x2x2x128x128xi1>, %arg1: tensor<1x2x2x128x128xf32>, %arg2: tensor<1x128x256xbf16>, %arg3: tensor<256xbf16>) -> (tensor<1x128x256xbf16>, tensor<1x1x256xbf16>, tensor<1x128x256xbf16>, tensor<1x128x2x2x64xbf16>, tensor<1x128x2x64xbf16>, tensor<1x2x2x128x128xf32>, tensor<1x2x2x128x1xf32>, tensor<1x2x2x128x1xf32>, tensor<1x2x2x128x128xbf16>, tensor<1x128x2x64xbf16>) {
    %0 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<256xbf16>) -> tensor<1x1x256xbf16>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<1x1x256xbf16>) -> tensor<1x128x256xbf16>
    %2 = stablehlo.multiply %arg2, %1 : tensor<1x128x256xbf16>
    %3 = stablehlo.reshape %2 : (tensor<1x128x256xbf16>) -> tensor<1x128x2x2x64xbf16>
    %4 = stablehlo.slice %2 [0:1, 0:128, 0:128] : (tensor<1x128x256xbf16>) -> tensor<1x128x128xbf16>
    %5 = stablehlo.reshape %4 : (tensor<1x128x128xbf16>) -> tensor<1x128x2x64xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<1x128x2x64xbf16>
    %7 = stablehlo.add %5, %6 : tensor<1x128x2x64xbf16>
    %8 = stablehlo.dot_general %7, %3, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4], precision = [DEFAULT, DEFAULT] : (tensor<1x128x2x64xbf16>, tensor<1x128x2x2x64xbf16>) -> tensor<1x2x128x128x2xbf16>
    %9 = stablehlo.transpose %8, dims = [0, 1, 4, 3, 2] : (tensor<1x2x128x128x2xbf16>) -> tensor<1x2x2x128x128xbf16>
    %10 = stablehlo.convert %9 : (tensor<1x2x2x128x128xbf16>) -> tensor<1x2x2x128x128xf32>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x128xf32>
    %12 = stablehlo.divide %10, %11 : tensor<1x2x2x128x128xf32>
    %13 = call @_where_0(%12, %arg0, %arg1) : (tensor<1x2x2x128x128xf32>, tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>) -> tensor<1x2x2x128x128xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %14 = stablehlo.reduce(%13 init: %cst_1) applies stablehlo.maximum across dimensions = [4] : (tensor<1x2x2x128x128xf32>, tensor<f32>) -> tensor<1x2x2x128xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x2x2x128xf32>
    %16 = stablehlo.maximum %15, %14 : tensor<1x2x2x128xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3] : (tensor<1x2x2x128xf32>) -> tensor<1x2x2x128x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x128x1xf32>) -> tensor<1x2x2x128x128xf32>
    %19 = stablehlo.subtract %13, %18 : tensor<1x2x2x128x128xf32>
    %20 = stablehlo.exponential %19 : tensor<1x2x2x128x128xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst_3) applies stablehlo.add across dimensions = [4] : (tensor<1x2x2x128x128xf32>, tensor<f32>) -> tensor<1x2x2x128xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2, 3] : (tensor<1x2x2x128xf32>) -> tensor<1x2x2x128x1xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x128x1xf32>) -> tensor<1x2x2x128x128xf32>
    %24 = stablehlo.divide %20, %23 : tensor<1x2x2x128x128xf32>
    %25 = stablehlo.multiply %22, %22 : tensor<1x2x2x128x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x1xf32>
    %27 = stablehlo.divide %26, %25 : tensor<1x2x2x128x1xf32>
    %28 = stablehlo.convert %24 : (tensor<1x2x2x128x128xf32>) -> tensor<1x2x2x128x128xbf16>
    %29 = stablehlo.dot_general %5, %28, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<1x128x2x64xbf16>, tensor<1x2x2x128x128xbf16>) -> tensor<1x2x64x2x128xbf16>
    %30 = stablehlo.transpose %29, dims = [0, 4, 1, 3, 2] : (tensor<1x2x64x2x128xbf16>) -> tensor<1x128x2x2x64xbf16>
    %31 = stablehlo.reshape %30 : (tensor<1x128x2x2x64xbf16>) -> tensor<1x128x256xbf16>
    %32 = stablehlo.add %arg2, %31 : tensor<1x128x256xbf16>
    return %32, %0, %arg2, %3, %7, %20, %22, %27, %28, %5 : tensor<1x128x256xbf16>, tensor<1x1x256xbf16>, tensor<1x128x256xbf16>, tensor<1x128x2x2x64xbf16>, tensor<1x128x2x64xbf16>, tensor<1x2x2x128x128xf32>, tensor<1x2x2x128x1xf32>, tensor<1x2x2x128x1xf32>, tensor<1x2x2x128x128xbf16>, tensor<1x128x2x64xbf16>
  }
  func.func private @_where_0(%arg0: tensor<1x2x2x128x128xf32>, %arg1: tensor<1x2x2x128x128xi1>, %arg2: tensor<1x2x2x128x128xf32>) -> tensor<1x2x2x128x128xf32> {
    %0 = stablehlo.select %arg1, %arg0, %arg2 : tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>
    return %0 : tensor<1x2x2x128x128xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<2x1x1x256xbf16>, %arg1: tensor<1x1x256xbf16>, %arg2: tensor<i32>) -> tensor<2x1x1x256xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<1x1x256xbf16>) -> tensor<1x1x1x256xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<2x1x1x256xbf16>, tensor<1x1x1x256xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x1x256xbf16>
    return %1 : tensor<2x1x1x256xbf16>
  }
  func.func private @dynamic_update_index_in_dim_1(%arg0: tensor<2x1x128x256xbf16>, %arg1: tensor<1x128x256xbf16>, %arg2: tensor<i32>) -> tensor<2x1x128x256xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<1x128x256xbf16>) -> tensor<1x1x128x256xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<2x1x128x256xbf16>, tensor<1x1x128x256xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x128x256xbf16>
    return %1 : tensor<2x1x128x256xbf16>
  }
  func.func private @dynamic_update_index_in_dim_2(%arg0: tensor<2x1x128x2x2x64xbf16>, %arg1: tensor<1x128x2x2x64xbf16>, %arg2: tensor<i32>) -> tensor<2x1x128x2x2x64xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4, 5] : (tensor<1x128x2x2x64xbf16>) -> tensor<1x1x128x2x2x64xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2, %c_3 : (tensor<2x1x128x2x2x64xbf16>, tensor<1x1x128x2x2x64xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x128x2x2x64xbf16>
    return %1 : tensor<2x1x128x2x2x64xbf16>
  }
  func.func private @dynamic_update_index_in_dim_3(%arg0: tensor<2x1x128x2x64xbf16>, %arg1: tensor<1x128x2x64xbf16>, %arg2: tensor<i32>) -> tensor<2x1x128x2x64xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4] : (tensor<1x128x2x64xbf16>) -> tensor<1x1x128x2x64xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2 : (tensor<2x1x128x2x64xbf16>, tensor<1x1x128x2x64xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x128x2x64xbf16>
    return %1 : tensor<2x1x128x2x64xbf16>
  }
  func.func private @dynamic_update_index_in_dim_4(%arg0: tensor<2x1x2x2x128x128xf32>, %arg1: tensor<1x2x2x128x128xf32>, %arg2: tensor<i32>) -> tensor<2x1x2x2x128x128xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4, 5] : (tensor<1x2x2x128x128xf32>) -> tensor<1x1x2x2x128x128xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2, %c_3 : (tensor<2x1x2x2x128x128xf32>, tensor<1x1x2x2x128x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x2x2x128x128xf32>
    return %1 : tensor<2x1x2x2x128x128xf32>
  }
  func.func private @dynamic_update_index_in_dim_5(%arg0: tensor<2x1x2x2x128x1xf32>, %arg1: tensor<1x2x2x128x1xf32>, %arg2: tensor<i32>) -> tensor<2x1x2x2x128x1xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4, 5] : (tensor<1x2x2x128x1xf32>) -> tensor<1x1x2x2x128x1xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2, %c_3 : (tensor<2x1x2x2x128x1xf32>, tensor<1x1x2x2x128x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x2x2x128x1xf32>
    return %1 : tensor<2x1x2x2x128x1xf32>
  }
  func.func private @dynamic_update_index_in_dim_6(%arg0: tensor<2x1x2x2x128x128xbf16>, %arg1: tensor<1x2x2x128x128xbf16>, %arg2: tensor<i32>) -> tensor<2x1x2x2x128x128xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3, 4, 5] : (tensor<1x2x2x128x128xbf16>) -> tensor<1x1x2x2x128x128xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1, %c_2, %c_3 : (tensor<2x1x2x2x128x128xbf16>, tensor<1x1x2x2x128x128xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x2x2x128x128xbf16>
    return %1 : tensor<2x1x2x2x128x128xbf16>
  }
  func.func private @dynamic_index_in_dim_7(%arg0: tensor<2x1x1x256xbf16>, %arg1: tensor<i32>) -> tensor<1x1x256xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 1, 1, 256] : (tensor<2x1x1x256xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x1x256xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x1x1x256xbf16>) -> tensor<1x1x256xbf16>
    return %1 : tensor<1x1x256xbf16>
  }
  func.func private @dynamic_index_in_dim_8(%arg0: tensor<2x1x128x256xbf16>, %arg1: tensor<i32>) -> tensor<1x128x256xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 1, 128, 256] : (tensor<2x1x128x256xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x128x256xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x1x128x256xbf16>) -> tensor<1x128x256xbf16>
    return %1 : tensor<1x128x256xbf16>
  }
  func.func private @dynamic_index_in_dim_9(%arg0: tensor<2x1x128x2x2x64xbf16>, %arg1: tensor<i32>) -> tensor<1x128x2x2x64xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, %c_3, sizes = [1, 1, 128, 2, 2, 64] : (tensor<2x1x128x2x2x64xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x128x2x2x64xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x1x128x2x2x64xbf16>) -> tensor<1x128x2x2x64xbf16>
    return %1 : tensor<1x128x2x2x64xbf16>
  }
  func.func private @dynamic_index_in_dim_10(%arg0: tensor<2x1x128x2x64xbf16>, %arg1: tensor<i32>) -> tensor<1x128x2x64xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, sizes = [1, 1, 128, 2, 64] : (tensor<2x1x128x2x64xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x128x2x64xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x1x128x2x64xbf16>) -> tensor<1x128x2x64xbf16>
    return %1 : tensor<1x128x2x64xbf16>
  }
  func.func private @dynamic_index_in_dim_11(%arg0: tensor<2x1x2x2x128x128xf32>, %arg1: tensor<i32>) -> tensor<1x2x2x128x128xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, %c_3, sizes = [1, 1, 2, 2, 128, 128] : (tensor<2x1x2x2x128x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x2x2x128x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1x2x2x128x128xf32>) -> tensor<1x2x2x128x128xf32>
    return %1 : tensor<1x2x2x128x128xf32>
  }
  func.func private @dynamic_index_in_dim_12(%arg0: tensor<2x1x2x2x128x1xf32>, %arg1: tensor<i32>) -> tensor<1x2x2x128x1xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, %c_3, sizes = [1, 1, 2, 2, 128, 1] : (tensor<2x1x2x2x128x1xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x2x2x128x1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1x2x2x128x1xf32>) -> tensor<1x2x2x128x1xf32>
    return %1 : tensor<1x2x2x128x1xf32>
  }
  func.func private @dynamic_index_in_dim_13(%arg0: tensor<2x1x2x2x128x128xbf16>, %arg1: tensor<i32>) -> tensor<1x2x2x128x128xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, %c_2, %c_3, sizes = [1, 1, 2, 2, 128, 128] : (tensor<2x1x2x2x128x128xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x2x2x128x128xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x1x2x2x128x128xbf16>) -> tensor<1x2x2x128x128xbf16>
    return %1 : tensor<1x2x2x128x128xbf16>
  }
  func.func private @closed_call_14(%arg0: tensor<1x2x2x128x128xi1>, %arg1: tensor<1x128x256xbf16>, %arg2: tensor<1x1x256xbf16>, %arg3: tensor<1x128x256xbf16>, %arg4: tensor<1x128x2x2x64xbf16>, %arg5: tensor<1x128x2x64xbf16>, %arg6: tensor<1x2x2x128x128xf32>, %arg7: tensor<1x2x2x128x1xf32>, %arg8: tensor<1x2x2x128x1xf32>, %arg9: tensor<1x2x2x128x128xbf16>, %arg10: tensor<1x128x2x64xbf16>) -> (tensor<1x128x256xbf16>, tensor<256xbf16>) {
    %0 = stablehlo.reshape %arg1 : (tensor<1x128x256xbf16>) -> tensor<1x128x2x2x64xbf16>
    %1 = stablehlo.transpose %0, dims = [0, 2, 4, 3, 1] : (tensor<1x128x2x2x64xbf16>) -> tensor<1x2x64x2x128xbf16>
    %2 = stablehlo.dot_general %1, %arg10, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x2x64x2x128xbf16>, tensor<1x128x2x64xbf16>) -> tensor<1x2x2x128x128xbf16>
    %3 = stablehlo.dot_general %1, %arg9, batching_dims = [0, 1] x [0, 1], contracting_dims = [3, 4] x [2, 3], precision = [DEFAULT, DEFAULT] : (tensor<1x2x64x2x128xbf16>, tensor<1x2x2x128x128xbf16>) -> tensor<1x2x64x128xbf16>
    %4 = stablehlo.transpose %3, dims = [0, 3, 1, 2] : (tensor<1x2x64x128xbf16>) -> tensor<1x128x2x64xbf16>
    %5 = stablehlo.convert %2 : (tensor<1x2x2x128x128xbf16>) -> tensor<1x2x2x128x128xf32>
    %6 = stablehlo.broadcast_in_dim %arg8, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x128x1xf32>) -> tensor<1x2x2x128x128xf32>
    %7 = stablehlo.multiply %5, %6 : tensor<1x2x2x128x128xf32>
    %8 = stablehlo.multiply %7, %arg6 : tensor<1x2x2x128x128xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst) applies stablehlo.add across dimensions = [4] : (tensor<1x2x2x128x128xf32>, tensor<f32>) -> tensor<1x2x2x128xf32>
    %10 = stablehlo.reshape %9 : (tensor<1x2x2x128xf32>) -> tensor<1x2x2x128x1xf32>
    %11 = stablehlo.negate %10 : tensor<1x2x2x128x1xf32>
    %12 = stablehlo.broadcast_in_dim %arg7, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x128x1xf32>) -> tensor<1x2x2x128x128xf32>
    %13 = stablehlo.divide %5, %12 : tensor<1x2x2x128x128xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.reduce(%11 init: %cst_0) applies stablehlo.add across dimensions = [0, 4] : (tensor<1x2x2x128x1xf32>, tensor<f32>) -> tensor<2x2x128xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [1, 2, 3] : (tensor<2x2x128xf32>) -> tensor<1x2x2x128xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<1x2x2x128xf32>) -> tensor<1x2x2x128x128xf32>
    %17 = stablehlo.add %13, %16 : tensor<1x2x2x128x128xf32>
    %18 = stablehlo.multiply %17, %arg6 : tensor<1x2x2x128x128xf32>
    %19 = call @_where_15(%arg0, %18) : (tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>) -> tensor<1x2x2x128x128xf32>
    %cst_1 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x128xf32>
    %21 = stablehlo.divide %19, %20 : tensor<1x2x2x128x128xf32>
    %22 = stablehlo.convert %21 : (tensor<1x2x2x128x128xf32>) -> tensor<1x2x2x128x128xbf16>
    %23 = stablehlo.transpose %22, dims = [0, 1, 4, 3, 2] : (tensor<1x2x2x128x128xbf16>) -> tensor<1x2x128x128x2xbf16>
    %24 = stablehlo.dot_general %23, %arg5, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x2x128x128x2xbf16>, tensor<1x128x2x64xbf16>) -> tensor<1x2x128x2x64xbf16>
    %25 = stablehlo.transpose %24, dims = [0, 2, 1, 3, 4] : (tensor<1x2x128x2x64xbf16>) -> tensor<1x128x2x2x64xbf16>
    %26 = stablehlo.dot_general %23, %arg4, batching_dims = [0, 1] x [0, 2], contracting_dims = [3, 4] x [1, 3], precision = [DEFAULT, DEFAULT] : (tensor<1x2x128x128x2xbf16>, tensor<1x128x2x2x64xbf16>) -> tensor<1x2x128x64xbf16>
    %27 = stablehlo.transpose %26, dims = [0, 2, 1, 3] : (tensor<1x2x128x64xbf16>) -> tensor<1x128x2x64xbf16>
    %28 = stablehlo.add %4, %27 : tensor<1x128x2x64xbf16>
    %29 = stablehlo.reshape %28 : (tensor<1x128x2x64xbf16>) -> tensor<1x128x128xbf16>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %30 = stablehlo.pad %29, %cst_2, low = [0, 0, 0], high = [0, 0, 128], interior = [0, 0, 0] : (tensor<1x128x128xbf16>, tensor<bf16>) -> tensor<1x128x256xbf16>
    %31 = stablehlo.reshape %25 : (tensor<1x128x2x2x64xbf16>) -> tensor<1x128x256xbf16>
    %32 = stablehlo.add %30, %31 : tensor<1x128x256xbf16>
    %33 = stablehlo.multiply %arg3, %32 : tensor<1x128x256xbf16>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %34 = stablehlo.reduce(%33 init: %cst_3) applies stablehlo.add across dimensions = [1] : (tensor<1x128x256xbf16>, tensor<bf16>) -> tensor<1x256xbf16>
    %35 = stablehlo.reshape %34 : (tensor<1x256xbf16>) -> tensor<1x1x256xbf16>
    %36 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2] : (tensor<1x1x256xbf16>) -> tensor<1x128x256xbf16>
    %37 = stablehlo.multiply %32, %36 : tensor<1x128x256xbf16>
    %38 = stablehlo.add %arg1, %37 : tensor<1x128x256xbf16>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %39 = stablehlo.reduce(%35 init: %cst_4) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x256xbf16>, tensor<bf16>) -> tensor<256xbf16>
    return %38, %39 : tensor<1x128x256xbf16>, tensor<256xbf16>
  }
  func.func private @_where_15(%arg0: tensor<1x2x2x128x128xi1>, %arg1: tensor<1x2x2x128x128xf32>) -> tensor<1x2x2x128x128xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x2x2x128x128xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<1x2x2x128x128xi1>, tensor<1x2x2x128x128xf32>
    return %1 : tensor<1x2x2x128x128xf32>
  }
  func.func private @dynamic_update_index_in_dim_16(%arg0: tensor<2x256xbf16>, %arg1: tensor<256xbf16>, %arg2: tensor<i32>) -> tensor<2x256xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<256xbf16>) -> tensor<1x256xbf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<2x256xbf16>, tensor<1x256xbf16>, tensor<i32>, tensor<i32>) -> tensor<2x256xbf16>
    return %1 : tensor<2x256xbf16>
  }
}

