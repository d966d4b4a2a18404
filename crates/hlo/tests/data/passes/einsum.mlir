func.func @main(%a: tensor<5x2x3xf32>, %b: tensor<3x5x4xf32>) -> (tensor<4x5x2xf32>, tensor<5x2x4xf32>) {
  %0 = stablehlo.einsum %a, %b, config = "bik,kbj->jbi" : (tensor<5x2x3xf32>, tensor<3x5x4xf32>) -> tensor<4x5x2xf32>
  %1 = stablehlo.einsum %a, %b, config = "bik,kbj->bij" : (tensor<5x2x3xf32>, tensor<3x5x4xf32>) -> tensor<5x2x4xf32>
  return %0, %1 : tensor<4x5x2xf32>, tensor<5x2x4xf32>
}
