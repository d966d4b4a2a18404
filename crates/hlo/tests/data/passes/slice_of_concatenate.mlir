func.func @main(%a: tensor<4xf32>, %b: tensor<6xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<6xf32>, tensor<3xf32>) {
  %0 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<4xf32>, tensor<6xf32>) -> tensor<10xf32>
  %1 = stablehlo.slice %0 [1:3] : (tensor<10xf32>) -> tensor<2xf32>
  %2 = stablehlo.slice %0 [5:9:3] : (tensor<10xf32>) -> tensor<2xf32>
  %3 = stablehlo.slice %0 [4:10] : (tensor<10xf32>) -> tensor<6xf32>
  %4 = stablehlo.slice %0 [3:6] : (tensor<10xf32>) -> tensor<3xf32>
  return %1, %2, %3, %4 : tensor<2xf32>, tensor<2xf32>, tensor<6xf32>, tensor<3xf32>
}
