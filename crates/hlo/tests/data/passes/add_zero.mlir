func.func @main(%a: tensor<4xf32>, %n: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xi32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %minus = stablehlo.constant dense<-0.0> : tensor<4xf32>
  %i = stablehlo.constant dense<0> : tensor<4xi32>
  %0 = stablehlo.add %a, %zero : tensor<4xf32>
  %1 = stablehlo.add %minus, %a : tensor<4xf32>
  %2 = stablehlo.subtract %a, %zero : tensor<4xf32>
  %3 = stablehlo.add %i, %n : tensor<4xi32>
  %4 = stablehlo.subtract %n, %i : tensor<4xi32>
  return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xi32>
}
