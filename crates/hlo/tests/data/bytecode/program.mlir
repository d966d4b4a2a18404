module @program attributes {mhlo.num_partitions = 2 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32> {jax.buffer_donor = true, mhlo.sharding = "{replicated}"}, %arg1: tensor<2x1xi32>, %arg2: tensor<i1>, %arg3: tensor<i32>) -> (tensor<4x8xf32> {jax.result_info = "out"}, tensor<i32>) {
    %cst = stablehlo.constant dense<[-1.000000e+00, 1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00, 5.000000e+00, 6.000000e+00, 7.000000e+00]> : tensor<8xf32>
    %c = stablehlo.constant dense<[true, false, true, true, false, false, true, false, true]> : tensor<9xi1>
    %c_0 = stablehlo.constant dense<true> : tensor<20xi1>
    %cst_1 = stablehlo.constant dense<(1.500000e+00,-2.000000e+00)> : tensor<2xcomplex<f32>>
    %cst_2 = stablehlo.constant dense<[1.500000e+00, -2.000000e+00, 2.500000e-01]> : tensor<3xbf16>
    %c_3 = stablehlo.constant dense<[-8, 7, 3]> : tensor<3xi4>
    %c_4 = stablehlo.constant dense<18446744073709551615> : tensor<2xui64>
    %cst_5 = stablehlo.constant dense<> : tensor<0x3xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
    %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [1] x [1], precision = [HIGH, HIGHEST] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.reshape %arg0 : (tensor<4x8xf32>) -> tensor<1x4x8x1xf32>
    %cst_7 = stablehlo.constant dense<5.000000e-01> : tensor<3x3x1x2xf32>
    %3 = stablehlo.convolution(%2, %cst_7) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[1, 1], [0, 2]], rhs_dilate = [1, 2], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x8x1xf32>, tensor<3x3x1x2xf32>) -> tensor<1x2x6x2xf32>
    %4 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 8>}> : (tensor<4x8xf32>, tensor<2x1xi32>) -> tensor<2x8xf32>
    %5 = "stablehlo.scatter"(%arg0, %arg1, %4) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %16 = stablehlo.add %arg4, %arg5 : tensor<f32>
      stablehlo.return %16 : tensor<f32>
    }) : (tensor<4x8xf32>, tensor<2x1xi32>, tensor<2x8xf32>) -> tensor<4x8xf32>
    %6 = stablehlo.reduce(%5 init: %cst_6) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
    %7:2 = stablehlo.while(%iterArg = %arg3, %iterArg_8 = %5) : tensor<i32>, tensor<4x8xf32>
    cond {
      %c_9 = stablehlo.constant dense<10> : tensor<i32>
      %16 = stablehlo.compare LT, %iterArg, %c_9, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %16 : tensor<i1>
    } do {
      %c_9 = stablehlo.constant dense<1> : tensor<i32>
      %16 = stablehlo.add %iterArg, %c_9 : tensor<i32>
      %17 = "stablehlo.if"(%arg2) ({
        %18 = stablehlo.tanh %iterArg_8 : tensor<4x8xf32>
        stablehlo.return %18 : tensor<4x8xf32>
      }, {
        stablehlo.return %arg0 : tensor<4x8xf32>
      }) : (tensor<i1>) -> tensor<4x8xf32>
      stablehlo.return %16, %17 : tensor<i32>, tensor<4x8xf32>
    }
    %8 = "stablehlo.all_reduce"(%7#1) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %16 = stablehlo.add %arg4, %arg5 : tensor<f32>
      stablehlo.return %16 : tensor<f32>
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %9:2 = "stablehlo.sort"(%arg0, %5) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>, %arg6: tensor<f32>, %arg7: tensor<f32>):
      %16 = stablehlo.compare GT, %arg4, %arg5, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %16 : tensor<i1>
    }) : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    %10 = stablehlo.custom_call @target(%8) {api_version = 2 : i32, backend_config = "opaque\00\FF", mhlo.frontend_attributes = {a = "b"}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %11 = stablehlo.slice %10 [0:4:2, 1:8:3] : (tensor<4x8xf32>) -> tensor<2x3xf32>
    %12 = stablehlo.pad %11, %cst_6, low = [1, 0], high = [1, 2], interior = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x7xf32>
    %13 = call @helper(%9#0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %14 = stablehlo.create_token : !stablehlo.token
    %15 = stablehlo.tuple %13, %14 : tuple<tensor<4x8xf32>, !stablehlo.token>
    return %13, %7#0 : tensor<4x8xf32>, tensor<i32>
  }
  func.func private @helper(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.uniform_quantize %arg0 : (tensor<4x8xf32>) -> tensor<4x8x!quant.uniform<i8:f32, 5.000000e-01:3>>
    %1 = stablehlo.uniform_dequantize %0 : (tensor<4x8x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4x8xf32>
    %2 = stablehlo.exponential %1 : tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
  func.func private @bounded(%arg0: tensor<?x8xf32, #stablehlo.bounds<4, ?>>) -> tensor<?x8xf32, #stablehlo.bounds<4, ?>> {
    return %arg0 : tensor<?x8xf32, #stablehlo.bounds<4, ?>>
  }
}
