module @jit_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<512x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg1: tensor<1024x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %arg2: tensor<512x1001xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg3: tensor<512x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg4: tensor<1024x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %arg5: tensor<512x1001xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg6: tensor<64x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %arg7: tensor<64xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}) -> (tensor<512x1024xf32> {jax.result_info = "result[0]['a']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<1024x512xf32> {jax.result_info = "result[0]['b']", sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, tensor<512x1001xf32> {jax.result_info = "result[0]['head']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<512x1024xf32> {jax.result_info = "result[1]['a']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<1024x512xf32> {jax.result_info = "result[1]['b']", sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, tensor<512x1001xf32> {jax.result_info = "result[1]['head']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<f32> {jax.result_info = "result[2]", sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %0 = stablehlo.dot_general %arg6, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x512xf32>, tensor<512x1024xf32>) -> tensor<64x1024xf32>
    %1 = stablehlo.tanh %0 : tensor<64x1024xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x1024xf32>
    %3 = stablehlo.subtract %2, %1 : tensor<64x1024xf32>
    %4 = stablehlo.dot_general %1, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x1024xf32>, tensor<1024x512xf32>) -> tensor<64x512xf32>
    %5 = stablehlo.dot_general %4, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x512xf32>, tensor<512x1001xf32>) -> tensor<64x1001xf32>
    %6 = stablehlo.broadcast_in_dim %arg7, dims = [0] : (tensor<64xi32>) -> tensor<64x1xi32>
    %7:2 = call @take_along_axis(%5, %6) : (tensor<64x1001xf32>, tensor<64x1xi32>) -> (tensor<64x1xf32>, tensor<64x1x1xi32>)
    %8 = stablehlo.reshape %7#0 : (tensor<64x1xf32>) -> tensor<64xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %9 = stablehlo.reduce(%5 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<64x1001xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %11 = stablehlo.maximum %10, %9 : tensor<64xf32>
    %12 = stablehlo.is_finite %11 : (tensor<64xf32>) -> tensor<64xi1>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %14 = stablehlo.select %12, %11, %13 : tensor<64xi1>, tensor<64xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0] : (tensor<64xf32>) -> tensor<64x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<64x1xf32>) -> tensor<64x1001xf32>
    %17 = stablehlo.subtract %5, %16 : tensor<64x1001xf32>
    %18 = stablehlo.exponential %17 : tensor<64x1001xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.reduce(%18 init: %cst_3) applies stablehlo.add across dimensions = [1] : (tensor<64x1001xf32>, tensor<f32>) -> tensor<64xf32>
    %20 = stablehlo.abs %19 : tensor<64xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %22 = stablehlo.compare GE, %19, %21, FLOAT : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xi1>
    %23 = stablehlo.log %20 : tensor<64xf32>
    %24 = stablehlo.add %23, %14 : tensor<64xf32>
    %25 = stablehlo.subtract %24, %8 : tensor<64xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.reduce(%25 init: %cst_5) applies stablehlo.add across dimensions = [0] : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
    %cst_6 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %27 = stablehlo.divide %26, %cst_6 : tensor<f32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_8 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %28 = stablehlo.divide %cst_7, %cst_8 : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %30 = stablehlo.negate %29 : tensor<64xf32>
    %31 = stablehlo.divide %29, %20 : tensor<64xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %33 = stablehlo.select %22, %32, %31 : tensor<64xi1>, tensor<64xf32>
    %34 = stablehlo.select %22, %31, %32 : tensor<64xi1>, tensor<64xf32>
    %35 = stablehlo.negate %33 : tensor<64xf32>
    %36 = stablehlo.add %34, %35 : tensor<64xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0] : (tensor<64xf32>) -> tensor<64x1001xf32>
    %38 = stablehlo.multiply %37, %18 : tensor<64x1001xf32>
    %39 = stablehlo.broadcast_in_dim %30, dims = [0] : (tensor<64xf32>) -> tensor<64x1xf32>
    %40 = call @take_along_axis_0(%7#1, %39) : (tensor<64x1x1xi32>, tensor<64x1xf32>) -> tensor<64x1001xf32>
    %41 = stablehlo.add %38, %40 : tensor<64x1001xf32>
    %42 = stablehlo.dot_general %41, %4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x1001xf32>, tensor<64x512xf32>) -> tensor<1001x512xf32>
    %43 = stablehlo.transpose %42, dims = [1, 0] : (tensor<1001x512xf32>) -> tensor<512x1001xf32>
    %44 = stablehlo.dot_general %41, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<64x1001xf32>, tensor<512x1001xf32>) -> tensor<64x512xf32>
    %45 = stablehlo.dot_general %44, %1, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x512xf32>, tensor<64x1024xf32>) -> tensor<512x1024xf32>
    %46 = stablehlo.transpose %45, dims = [1, 0] : (tensor<512x1024xf32>) -> tensor<1024x512xf32>
    %47 = stablehlo.dot_general %44, %arg1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<64x512xf32>, tensor<1024x512xf32>) -> tensor<64x1024xf32>
    %48 = stablehlo.multiply %47, %3 : tensor<64x1024xf32>
    %49 = stablehlo.multiply %48, %1 : tensor<64x1024xf32>
    %50 = stablehlo.add %48, %49 : tensor<64x1024xf32>
    %51 = stablehlo.dot_general %50, %arg6, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x1024xf32>, tensor<64x512xf32>) -> tensor<1024x512xf32>
    %52 = stablehlo.transpose %51, dims = [1, 0] : (tensor<1024x512xf32>) -> tensor<512x1024xf32>
    %cst_10 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<512x1024xf32>
    %54 = stablehlo.multiply %53, %arg3 : tensor<512x1024xf32>
    %55 = stablehlo.add %54, %52 : tensor<512x1024xf32>
    %cst_11 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1024x512xf32>
    %57 = stablehlo.multiply %56, %arg4 : tensor<1024x512xf32>
    %58 = stablehlo.add %57, %46 : tensor<1024x512xf32>
    %cst_12 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<512x1001xf32>
    %60 = stablehlo.multiply %59, %arg5 : tensor<512x1001xf32>
    %61 = stablehlo.add %60, %43 : tensor<512x1001xf32>
    %62 = stablehlo.subtract %arg0, %55 : tensor<512x1024xf32>
    %63 = stablehlo.subtract %arg1, %58 : tensor<1024x512xf32>
    %64 = stablehlo.subtract %arg2, %61 : tensor<512x1001xf32>
    return %62, %63, %64, %55, %58, %61, %27 : tensor<512x1024xf32>, tensor<1024x512xf32>, tensor<512x1001xf32>, tensor<512x1024xf32>, tensor<1024x512xf32>, tensor<512x1001xf32>, tensor<f32>
  }
  func.func private @take_along_axis(%arg0: tensor<64x1001xf32>, %arg1: tensor<64x1xi32>) -> (tensor<64x1xf32>, tensor<64x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<64x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<64x1xi32>, tensor<64x1xi32>) -> tensor<64x1xi1>
    %c_0 = stablehlo.constant dense<1001> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<64x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<64x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<64x1xi1>, tensor<64x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<64x1xi32>) -> tensor<64x1x1xi32>
    %c_1 = stablehlo.constant dense<1000> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<64x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<64x1x1xi32>, tensor<64x1x1xi32>) -> tensor<64x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<64x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<64x1x1xi32>, tensor<64x1x1xi32>) -> tensor<64x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<64x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [2] : (tensor<64x1x1xi1>, tensor<i1>) -> tensor<64x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<64x1001xf32>, tensor<64x1x1xi32>) -> tensor<64x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<64x1xi1>, tensor<64x1xf32>
    return %15, %5 : tensor<64x1xf32>, tensor<64x1x1xi32>
  }
  func.func private @take_along_axis_0(%arg0: tensor<64x1x1xi32>, %arg1: tensor<64x1xf32>) -> tensor<64x1001xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x1001xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<64x1001xf32>, tensor<64x1x1xi32>, tensor<64x1xf32>) -> tensor<64x1001xf32>
    return %1 : tensor<64x1001xf32>
  }
}
