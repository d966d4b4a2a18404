func.func @main(%a: tensor<4x5xf32>, %i: tensor<1xi32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %0 = "stablehlo.gather"(%a, %two) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 0>, slice_sizes = array<i64: 1, 5>}> : (tensor<4x5xf32>, tensor<1xi32>) -> tensor<5xf32>
  %1 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 0>, slice_sizes = array<i64: 1, 5>}> : (tensor<4x5xf32>, tensor<1xi32>) -> tensor<5xf32>
  return %0, %1 : tensor<5xf32>, tensor<5xf32>
}
