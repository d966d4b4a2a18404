func.func @main(%a: tensor<12x3xf32>) -> (tensor<12x3xf32>, tensor<2x2xf32>, tensor<0x3xf32>) {
  %0 = stablehlo.slice %a [0:12, 0:3] : (tensor<12x3xf32>) -> tensor<12x3xf32>
  %1 = stablehlo.slice %a [1:12:2, 0:3] : (tensor<12x3xf32>) -> tensor<6x3xf32>
  %2 = stablehlo.slice %1 [1:5:3, 1:3] : (tensor<6x3xf32>) -> tensor<2x2xf32>
  %3 = stablehlo.slice %1 [6:6, 0:3] : (tensor<6x3xf32>) -> tensor<0x3xf32>
  return %0, %2, %3 : tensor<12x3xf32>, tensor<2x2xf32>, tensor<0x3xf32>
}
