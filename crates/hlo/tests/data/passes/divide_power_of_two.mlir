func.func @main(%a: tensor<4xf32>, %h: tensor<4xf16>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf16>) {
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %three = stablehlo.constant dense<3.0> : tensor<4xf32>
  %huge = stablehlo.constant dense<32768.0> : tensor<4xf16>
  %0 = stablehlo.divide %a, %eight : tensor<4xf32>
  %1 = stablehlo.divide %a, %three : tensor<4xf32>
  %2 = stablehlo.divide %h, %huge : tensor<4xf16>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf16>
}
