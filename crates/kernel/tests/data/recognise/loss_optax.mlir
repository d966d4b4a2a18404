module @jit_optax attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x128x64xbf16>, %arg1: tensor<384x64xf32>, %arg2: tensor<2x128xi32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x128x64xbf16> {jax.result_info = "result[1][0]"}, tensor<384x64xf32> {jax.result_info = "result[1][1]"}) {
    %0 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<384x64xf32>) -> tensor<64x384xf32>
    %1 = stablehlo.convert %0 : (tensor<64x384xf32>) -> tensor<64x384xbf16>
    %2 = stablehlo.dot_general %arg0, %1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x128x64xbf16>, tensor<64x384xbf16>) -> tensor<2x128x384xbf16>
    %3 = stablehlo.convert %2 : (tensor<2x128x384xbf16>) -> tensor<2x128x384xf32>
    %4 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1] : (tensor<2x128xi32>) -> tensor<2x128x1xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %5 = stablehlo.reduce(%3 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<2x128x384xf32>, tensor<f32>) -> tensor<2x128xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<2x128xf32>) -> tensor<2x128x1xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2] : (tensor<2x128x1xf32>) -> tensor<2x128x384xf32>
    %8 = stablehlo.subtract %3, %7 : tensor<2x128x384xf32>
    %9:2 = call @take_along_axis(%8, %4) : (tensor<2x128x384xf32>, tensor<2x128x1xi32>) -> (tensor<2x128x1xf32>, tensor<2x128x1x1xi32>)
    %10 = stablehlo.reshape %9#0 : (tensor<2x128x1xf32>) -> tensor<2x128xf32>
    %11 = stablehlo.exponential %8 : tensor<2x128x384xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %12 = stablehlo.reduce(%11 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<2x128x384xf32>, tensor<f32>) -> tensor<2x128xf32>
    %13 = stablehlo.log %12 : tensor<2x128xf32>
    %14 = stablehlo.subtract %13, %10 : tensor<2x128xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%14 init: %cst_1) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_2 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %16 = stablehlo.divide %15, %cst_2 : tensor<f32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_4 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %17 = stablehlo.divide %cst_3, %cst_4 : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [] : (tensor<f32>) -> tensor<2x128xf32>
    %19 = stablehlo.negate %18 : tensor<2x128xf32>
    %20 = stablehlo.divide %18, %12 : tensor<2x128xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1] : (tensor<2x128xf32>) -> tensor<2x128x384xf32>
    %22 = stablehlo.multiply %21, %11 : tensor<2x128x384xf32>
    %23 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<2x128xf32>) -> tensor<2x128x1xf32>
    %24 = call @take_along_axis_0(%9#1, %23) : (tensor<2x128x1x1xi32>, tensor<2x128x1xf32>) -> tensor<2x128x384xf32>
    %25 = stablehlo.add %22, %24 : tensor<2x128x384xf32>
    %26 = stablehlo.convert %25 : (tensor<2x128x384xf32>) -> tensor<2x128x384xbf16>
    %27 = stablehlo.dot_general %26, %arg0, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x128x384xbf16>, tensor<2x128x64xbf16>) -> tensor<384x64xbf16>
    %28 = stablehlo.transpose %27, dims = [1, 0] : (tensor<384x64xbf16>) -> tensor<64x384xbf16>
    %29 = stablehlo.dot_general %26, %1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x128x384xbf16>, tensor<64x384xbf16>) -> tensor<2x128x64xbf16>
    %30 = stablehlo.convert %28 : (tensor<64x384xbf16>) -> tensor<64x384xf32>
    %31 = stablehlo.transpose %30, dims = [1, 0] : (tensor<64x384xf32>) -> tensor<384x64xf32>
    return %16, %29, %31 : tensor<f32>, tensor<2x128x64xbf16>, tensor<384x64xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<2x128x384xf32>, %arg1: tensor<2x128x1xi32>) -> (tensor<2x128x1xf32>, tensor<2x128x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x128x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<2x128x1xi32>, tensor<2x128x1xi32>) -> tensor<2x128x1xi1>
    %c_0 = stablehlo.constant dense<384> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x128x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<2x128x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<2x128x1xi1>, tensor<2x128x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<2x128x1xi32>) -> tensor<2x128x1x1xi32>
    %c_1 = stablehlo.constant dense<383> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<2x128x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<2x128x1x1xi32>, tensor<2x128x1x1xi32>) -> tensor<2x128x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<2x128x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<2x128x1x1xi32>, tensor<2x128x1x1xi32>) -> tensor<2x128x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<2x128x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<2x128x1x1xi1>, tensor<i1>) -> tensor<2x128x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<2x128x384xf32>, tensor<2x128x1x1xi32>) -> tensor<2x128x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x128x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<2x128x1xi1>, tensor<2x128x1xf32>
    return %15, %5 : tensor<2x128x1xf32>, tensor<2x128x1x1xi32>
  }
  func.func private @take_along_axis_0(%arg0: tensor<2x128x1x1xi32>, %arg1: tensor<2x128x1xf32>) -> tensor<2x128x384xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x128x384xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2x128x384xf32>, tensor<2x128x1x1xi32>, tensor<2x128x1xf32>) -> tensor<2x128x384xf32>
    return %1 : tensor<2x128x384xf32>
  }
}
