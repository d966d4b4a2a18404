func.func @main(%a: tensor<4xf32>, %n: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {
  %0 = stablehlo.maximum %a, %a : tensor<4xf32>
  %1 = stablehlo.subtract %a, %a : tensor<4xf32>
  %2 = stablehlo.subtract %n, %n : tensor<4xi32>
  %3 = stablehlo.and %n, %n : tensor<4xi32>
  %4 = stablehlo.xor %n, %n : tensor<4xi32>
  return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>
}
