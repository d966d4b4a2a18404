// approximate
func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0 = stablehlo.sqrt %a : tensor<4xf32>
  %1 = stablehlo.divide %one, %0 : tensor<4xf32>
  %2 = stablehlo.rsqrt %a : tensor<4xf32>
  %3 = stablehlo.divide %one, %2 : tensor<4xf32>
  return %1, %3 : tensor<4xf32>, tensor<4xf32>
}
