func.func @main(%a: tensor<2x3x4xf32>, %b: tensor<2x1x4xf32>) -> (tensor<4x2x3xf32>, tensor<2x3x4xf32>, tensor<1x2x4xf32>) {
  %0 = stablehlo.transpose %a, dims = [1, 0, 2] : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %1 = stablehlo.transpose %0, dims = [2, 1, 0] : (tensor<3x2x4xf32>) -> tensor<4x2x3xf32>
  %2 = stablehlo.transpose %0, dims = [1, 0, 2] : (tensor<3x2x4xf32>) -> tensor<2x3x4xf32>
  %3 = stablehlo.transpose %b, dims = [1, 0, 2] : (tensor<2x1x4xf32>) -> tensor<1x2x4xf32>
  return %1, %2, %3 : tensor<4x2x3xf32>, tensor<2x3x4xf32>, tensor<1x2x4xf32>
}
