module @jit_logsumexp attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x128x64xbf16>, %arg1: tensor<64x384xf32>, %arg2: tensor<2x128xi32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x128x64xbf16> {jax.result_info = "result[1][0]"}, tensor<64x384xf32> {jax.result_info = "result[1][1]"}) {
    %0 = stablehlo.convert %arg1 : (tensor<64x384xf32>) -> tensor<64x384xbf16>
    %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x128x64xbf16>, tensor<64x384xbf16>) -> tensor<2x128x384xbf16>
    %2 = stablehlo.convert %1 : (tensor<2x128x384xbf16>) -> tensor<2x128x384xf32>
    %3 = stablehlo.slice %2 [0:2, 0:127, 0:384] : (tensor<2x128x384xf32>) -> tensor<2x127x384xf32>
    %4 = stablehlo.slice %arg2 [0:2, 1:128] : (tensor<2x128xi32>) -> tensor<2x127xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %5 = stablehlo.reduce(%3 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<2x127x384xf32>, tensor<f32>) -> tensor<2x127xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x127xf32>
    %7 = stablehlo.maximum %6, %5 : tensor<2x127xf32>
    %8 = stablehlo.is_finite %7 : (tensor<2x127xf32>) -> tensor<2x127xi1>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x127xf32>
    %10 = stablehlo.select %8, %7, %9 : tensor<2x127xi1>, tensor<2x127xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<2x127xf32>) -> tensor<2x127x1xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2] : (tensor<2x127x1xf32>) -> tensor<2x127x384xf32>
    %13 = stablehlo.subtract %3, %12 : tensor<2x127x384xf32>
    %14 = stablehlo.exponential %13 : tensor<2x127x384xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%14 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x127x384xf32>, tensor<f32>) -> tensor<2x127xf32>
    %16 = stablehlo.abs %15 : tensor<2x127xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x127xf32>
    %18 = stablehlo.compare GE, %15, %17, FLOAT : (tensor<2x127xf32>, tensor<2x127xf32>) -> tensor<2x127xi1>
    %19 = stablehlo.log %16 : tensor<2x127xf32>
    %20 = stablehlo.add %19, %10 : tensor<2x127xf32>
    %21 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x127xi32>) -> tensor<2x127x1xi32>
    %22:2 = call @take_along_axis(%3, %21) : (tensor<2x127x384xf32>, tensor<2x127x1xi32>) -> (tensor<2x127x1xf32>, tensor<2x127x1x1xi32>)
    %23 = stablehlo.reshape %22#0 : (tensor<2x127x1xf32>) -> tensor<2x127xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %24 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x127xi32>
    %25 = stablehlo.compare NE, %4, %24, SIGNED : (tensor<2x127xi32>, tensor<2x127xi32>) -> tensor<2x127xi1>
    %26 = stablehlo.convert %25 : (tensor<2x127xi1>) -> tensor<2x127xf32>
    %27 = stablehlo.subtract %20, %23 : tensor<2x127xf32>
    %28 = stablehlo.multiply %20, %20 : tensor<2x127xf32>
    %cst_4 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x127xf32>
    %30 = stablehlo.multiply %29, %20 : tensor<2x127xf32>
    %cst_5 = stablehlo.constant dense<9.99999974E-5> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x127xf32>
    %32 = stablehlo.multiply %31, %28 : tensor<2x127xf32>
    %33 = stablehlo.add %27, %32 : tensor<2x127xf32>
    %34 = stablehlo.multiply %33, %26 : tensor<2x127xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %35 = stablehlo.reduce(%34 init: %cst_6) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x127xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %36 = stablehlo.reduce(%26 init: %cst_7) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x127xf32>, tensor<f32>) -> tensor<f32>
    %37 = stablehlo.divide %35, %36 : tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %38 = stablehlo.divide %cst_8, %36 : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [] : (tensor<f32>) -> tensor<2x127xf32>
    %40 = stablehlo.multiply %39, %26 : tensor<2x127xf32>
    %cst_9 = stablehlo.constant dense<9.99999974E-5> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x127xf32>
    %42 = stablehlo.multiply %41, %40 : tensor<2x127xf32>
    %43 = stablehlo.multiply %42, %30 : tensor<2x127xf32>
    %44 = stablehlo.negate %40 : tensor<2x127xf32>
    %45 = stablehlo.add %43, %40 : tensor<2x127xf32>
    %46 = stablehlo.broadcast_in_dim %44, dims = [0, 1] : (tensor<2x127xf32>) -> tensor<2x127x1xf32>
    %47 = call @take_along_axis_0(%22#1, %46) : (tensor<2x127x1x1xi32>, tensor<2x127x1xf32>) -> tensor<2x127x384xf32>
    %48 = stablehlo.divide %45, %16 : tensor<2x127xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x127xf32>
    %50 = stablehlo.select %18, %49, %48 : tensor<2x127xi1>, tensor<2x127xf32>
    %51 = stablehlo.select %18, %48, %49 : tensor<2x127xi1>, tensor<2x127xf32>
    %52 = stablehlo.negate %50 : tensor<2x127xf32>
    %53 = stablehlo.add %51, %52 : tensor<2x127xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1] : (tensor<2x127xf32>) -> tensor<2x127x384xf32>
    %55 = stablehlo.multiply %54, %14 : tensor<2x127x384xf32>
    %56 = stablehlo.add %47, %55 : tensor<2x127x384xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %57 = stablehlo.pad %56, %cst_11, low = [0, 0, 0], high = [0, 1, 0], interior = [0, 0, 0] : (tensor<2x127x384xf32>, tensor<f32>) -> tensor<2x128x384xf32>
    %58 = stablehlo.convert %57 : (tensor<2x128x384xf32>) -> tensor<2x128x384xbf16>
    %59 = stablehlo.dot_general %58, %arg0, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x128x384xbf16>, tensor<2x128x64xbf16>) -> tensor<384x64xbf16>
    %60 = stablehlo.transpose %59, dims = [1, 0] : (tensor<384x64xbf16>) -> tensor<64x384xbf16>
    %61 = stablehlo.dot_general %58, %0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x128x384xbf16>, tensor<64x384xbf16>) -> tensor<2x128x64xbf16>
    %62 = stablehlo.convert %60 : (tensor<64x384xbf16>) -> tensor<64x384xf32>
    return %37, %61, %62 : tensor<f32>, tensor<2x128x64xbf16>, tensor<64x384xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<2x127x384xf32>, %arg1: tensor<2x127x1xi32>) -> (tensor<2x127x1xf32>, tensor<2x127x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x127x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<2x127x1xi32>, tensor<2x127x1xi32>) -> tensor<2x127x1xi1>
    %c_0 = stablehlo.constant dense<384> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x127x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<2x127x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<2x127x1xi1>, tensor<2x127x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<2x127x1xi32>) -> tensor<2x127x1x1xi32>
    %c_1 = stablehlo.constant dense<383> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<2x127x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<2x127x1x1xi32>, tensor<2x127x1x1xi32>) -> tensor<2x127x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<2x127x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<2x127x1x1xi32>, tensor<2x127x1x1xi32>) -> tensor<2x127x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<2x127x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<2x127x1x1xi1>, tensor<i1>) -> tensor<2x127x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<2x127x384xf32>, tensor<2x127x1x1xi32>) -> tensor<2x127x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x127x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<2x127x1xi1>, tensor<2x127x1xf32>
    return %15, %5 : tensor<2x127x1xf32>, tensor<2x127x1x1xi32>
  }
  func.func private @take_along_axis_0(%arg0: tensor<2x127x1x1xi32>, %arg1: tensor<2x127x1xf32>) -> tensor<2x127x384xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x127x384xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2x127x384xf32>, tensor<2x127x1x1xi32>, tensor<2x127x1xf32>) -> tensor<2x127x384xf32>
    return %1 : tensor<2x127x384xf32>
  }
}
