func.func @main(%a: tensor<3xf32>) -> tensor<2x4x3xf32> {
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<3xf32>) -> tensor<2x3x4xf32>
  %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  return %1 : tensor<2x4x3xf32>
}
