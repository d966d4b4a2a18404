func.func @main(%a: tensor<4xf32>, %n: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %two = stablehlo.constant dense<2.0> : tensor<4xf32>
  %minus = stablehlo.constant dense<-1.0> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %i = stablehlo.constant dense<2> : tensor<4xi32>
  %0 = stablehlo.power %a, %zero : tensor<4xf32>
  %1 = stablehlo.power %a, %two : tensor<4xf32>
  %2 = stablehlo.power %a, %minus : tensor<4xf32>
  %3 = stablehlo.power %a, %half : tensor<4xf32>
  %4 = stablehlo.power %n, %i : tensor<4xi32>
  return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>
}
