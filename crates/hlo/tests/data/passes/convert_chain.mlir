func.func @main(%a: tensor<4xbf16>, %b: tensor<4xf32>, %n: tensor<4xi32>) -> (tensor<4xbf16>, tensor<4xf64>, tensor<4xf32>, tensor<4xi8>, tensor<4xi8>) {
  %0 = stablehlo.convert %a : (tensor<4xbf16>) -> tensor<4xf32>
  %1 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xbf16>
  %2 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xf64>
  %3 = stablehlo.convert %b : (tensor<4xf32>) -> tensor<4xbf16>
  %4 = stablehlo.convert %3 : (tensor<4xbf16>) -> tensor<4xf32>
  %5 = stablehlo.convert %n : (tensor<4xi32>) -> tensor<4xi64>
  %6 = stablehlo.convert %5 : (tensor<4xi64>) -> tensor<4xi8>
  %7 = stablehlo.convert %n : (tensor<4xi32>) -> tensor<4xf64>
  %8 = stablehlo.convert %7 : (tensor<4xf64>) -> tensor<4xi8>
  return %1, %2, %4, %6, %8 : tensor<4xbf16>, tensor<4xf64>, tensor<4xf32>, tensor<4xi8>, tensor<4xi8>
}
