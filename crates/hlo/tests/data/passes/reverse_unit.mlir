func.func @main(%a: tensor<4x1xf32>) -> (tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>) {
  %0 = stablehlo.reverse %a, dims = [1] : tensor<4x1xf32>
  %1 = stablehlo.reverse %a, dims = [0, 1] : tensor<4x1xf32>
  %2 = stablehlo.reverse %1, dims = [0] : tensor<4x1xf32>
  return %0, %1, %2 : tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>
}
