func.func @main(%p: tensor<4xi1>, %n: tensor<4xui4>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xui4>, tensor<4xui4>) {
  %yes = stablehlo.constant dense<true> : tensor<4xi1>
  %no = stablehlo.constant dense<false> : tensor<4xi1>
  %set = stablehlo.constant dense<15> : tensor<4xui4>
  %0 = stablehlo.and %p, %yes : tensor<4xi1>
  %1 = stablehlo.and %no, %p : tensor<4xi1>
  %2 = stablehlo.or %p, %yes : tensor<4xi1>
  %3 = stablehlo.xor %p, %yes : tensor<4xi1>
  %4 = stablehlo.or %n, %set : tensor<4xui4>
  %5 = stablehlo.and %n, %set : tensor<4xui4>
  return %0, %1, %2, %3, %4, %5 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xui4>, tensor<4xui4>
}
