func.func @main(%a: tensor<4xf32>, %n: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>) {
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %i = stablehlo.constant dense<1> : tensor<4xi32>
  %0 = stablehlo.multiply %one, %a : tensor<4xf32>
  %1 = stablehlo.divide %a, %one : tensor<4xf32>
  %2 = stablehlo.divide %one, %a : tensor<4xf32>
  %3 = stablehlo.multiply %n, %i : tensor<4xi32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>
}
