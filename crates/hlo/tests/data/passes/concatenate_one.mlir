func.func @main(%a: tensor<4xf32>, %e: tensor<0xf32>, %b: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<6xf32>) {
  %0 = stablehlo.concatenate %a, dim = 0 : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.concatenate %e, %a, dim = 0 : (tensor<0xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = stablehlo.concatenate %b, %e, %a, dim = 0 : (tensor<2xf32>, tensor<0xf32>, tensor<4xf32>) -> tensor<6xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<6xf32>
}
