func.func @main(%x: tensor<8192xf64>, %i: tensor<1x1xi32>, %u: tensor<1xf64>) -> tensor<8192xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<8192xf64>, tensor<1x1xi32>, tensor<1xf64>) -> tensor<8192xf32>
  return %0 : tensor<8192xf32>
}
