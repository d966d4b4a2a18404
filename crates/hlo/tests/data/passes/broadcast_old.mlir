func.func @main(%a: tensor<3xf32>) -> tensor<2x4x3xf32> {
  %0 = stablehlo.broadcast %a, sizes = [2, 4] : (tensor<3xf32>) -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}
