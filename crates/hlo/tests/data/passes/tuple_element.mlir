func.func @main(%a: tensor<4xf32>, %b: tensor<2xi32>) -> tensor<2xi32> {
  %0 = stablehlo.tuple %a, %b : tuple<tensor<4xf32>, tensor<2xi32>>
  %1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<4xf32>, tensor<2xi32>>) -> tensor<2xi32>
  return %1 : tensor<2xi32>
}
