func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>, %p: tensor<4xi1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %yes = stablehlo.constant dense<true> : tensor<i1>
  %0 = stablehlo.select %yes, %a, %b : tensor<i1>, tensor<4xf32>
  %1 = stablehlo.select %p, %b, %b : tensor<4xi1>, tensor<4xf32>
  %2 = stablehlo.not %p : tensor<4xi1>
  %3 = stablehlo.select %2, %a, %b : tensor<4xi1>, tensor<4xf32>
  return %0, %1, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
