func.func @main(%a: tensor<4xf32>, %n: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %i = stablehlo.constant dense<0> : tensor<4xi32>
  %0 = stablehlo.multiply %zero, %a : tensor<4xf32>
  %1 = stablehlo.multiply %n, %i : tensor<4xi32>
  return %0, %1 : tensor<4xf32>, tensor<4xi32>
}
