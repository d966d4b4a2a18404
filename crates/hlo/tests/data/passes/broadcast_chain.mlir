func.func @main(%a: tensor<3xf32>, %m: tensor<2x3xf32>) -> (tensor<3xf32>, tensor<1x3xf32>, tensor<5x2x3xf32>, tensor<2x3x4xf32>, tensor<3x2xf32>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<3xf32>) -> tensor<3xf32>
  %1 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
  %2 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [1, 2] : (tensor<2x3xf32>) -> tensor<5x2x3xf32>
  %4 = stablehlo.reshape %m : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
  %6 = stablehlo.broadcast_in_dim %m, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0, %1, %3, %5, %6 : tensor<3xf32>, tensor<1x3xf32>, tensor<5x2x3xf32>, tensor<2x3x4xf32>, tensor<3x2xf32>
}
