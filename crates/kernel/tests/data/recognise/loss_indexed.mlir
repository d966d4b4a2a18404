module @jit_indexed attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x128x64xbf16>, %arg1: tensor<384x64xf32>, %arg2: tensor<2x128xi32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x128x64xbf16> {jax.result_info = "result[1][0]"}, tensor<384x64xf32> {jax.result_info = "result[1][1]"}) {
    %0 = stablehlo.convert %arg1 : (tensor<384x64xf32>) -> tensor<384x64xbf16>
    %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x128x64xbf16>, tensor<384x64xbf16>) -> tensor<2x128x384xbf16>
    %2 = stablehlo.reshape %1 : (tensor<2x128x384xbf16>) -> tensor<256x384xbf16>
    %3 = stablehlo.convert %2 : (tensor<256x384xbf16>) -> tensor<256x384xf32>
    %4:3 = call @log_softmax(%3) : (tensor<256x384xf32>) -> (tensor<256x384xf32>, tensor<256x384xf32>, tensor<256x1xf32>)
    %5 = stablehlo.iota dim = 0 : tensor<256xi32>
    %6 = stablehlo.reshape %arg2 : (tensor<2x128xi32>) -> tensor<256xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<256xi32>
    %8 = stablehlo.compare LT, %5, %7, SIGNED : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi1>
    %c_0 = stablehlo.constant dense<256> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<256xi32>
    %10 = stablehlo.add %5, %9 : tensor<256xi32>
    %11 = stablehlo.select %8, %10, %5 : tensor<256xi1>, tensor<256xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %12 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<256xi32>
    %13 = stablehlo.compare LT, %6, %12, SIGNED : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi1>
    %c_2 = stablehlo.constant dense<384> : tensor<i32>
    %14 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<256xi32>
    %15 = stablehlo.add %6, %14 : tensor<256xi32>
    %16 = stablehlo.select %13, %15, %6 : tensor<256xi1>, tensor<256xi32>
    %17 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<256xi32>) -> tensor<256x1xi32>
    %18 = stablehlo.broadcast_in_dim %16, dims = [0] : (tensor<256xi32>) -> tensor<256x1xi32>
    %19 = stablehlo.concatenate %17, %18, dim = 1 : (tensor<256x1xi32>, tensor<256x1xi32>) -> tensor<256x2xi32>
    %20 = "stablehlo.gather"(%4#0, %19) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<256x384xf32>, tensor<256x2xi32>) -> tensor<256xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<256xf32>, tensor<f32>) -> tensor<f32>
    %cst_3 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %22 = stablehlo.divide %21, %cst_3 : tensor<f32>
    %23 = stablehlo.negate %22 : tensor<f32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %24 = stablehlo.negate %cst_4 : tensor<f32>
    %cst_5 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %25 = stablehlo.divide %24, %cst_5 : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<256x384xf32>
    %28 = "stablehlo.scatter"(%27, %19, %26) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %35 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %35 : tensor<f32>
    }) : (tensor<256x384xf32>, tensor<256x2xi32>, tensor<256xf32>) -> tensor<256x384xf32>
    %29 = call @log_softmax_0(%4#1, %4#2, %28) : (tensor<256x384xf32>, tensor<256x1xf32>, tensor<256x384xf32>) -> tensor<256x384xf32>
    %30 = stablehlo.convert %29 : (tensor<256x384xf32>) -> tensor<256x384xbf16>
    %31 = stablehlo.reshape %30 : (tensor<256x384xbf16>) -> tensor<2x128x384xbf16>
    %32 = stablehlo.dot_general %31, %arg0, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x128x384xbf16>, tensor<2x128x64xbf16>) -> tensor<384x64xbf16>
    %33 = stablehlo.dot_general %31, %0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x128x384xbf16>, tensor<384x64xbf16>) -> tensor<2x128x64xbf16>
    %34 = stablehlo.convert %32 : (tensor<384x64xbf16>) -> tensor<384x64xf32>
    return %23, %33, %34 : tensor<f32>, tensor<2x128x64xbf16>, tensor<384x64xf32>
  }
  func.func private @log_softmax(%arg0: tensor<256x384xf32>) -> (tensor<256x384xf32>, tensor<256x384xf32>, tensor<256x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<256x384xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<256xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<256xf32>) -> tensor<256x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<256x1xf32>) -> tensor<256x384xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<256x384xf32>
    %6 = stablehlo.exponential %5 : tensor<256x384xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<256x384xf32>, tensor<f32>) -> tensor<256xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<256xf32>) -> tensor<256x1xf32>
    %9 = stablehlo.log %8 : tensor<256x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<256x1xf32>) -> tensor<256x384xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<256x384xf32>
    return %11, %6, %8 : tensor<256x384xf32>, tensor<256x384xf32>, tensor<256x1xf32>
  }
  func.func private @log_softmax_0(%arg0: tensor<256x384xf32>, %arg1: tensor<256x1xf32>, %arg2: tensor<256x384xf32>) -> tensor<256x384xf32> {
    %0 = stablehlo.negate %arg2 : tensor<256x384xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<256x384xf32>, tensor<f32>) -> tensor<256xf32>
    %2 = stablehlo.reshape %1 : (tensor<256xf32>) -> tensor<256x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<256x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<256x1xf32>, tensor<f32>) -> tensor<256xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<256xf32>) -> tensor<256x384xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<256x384xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<256x384xf32>
    return %7 : tensor<256x384xf32>
  }
}
