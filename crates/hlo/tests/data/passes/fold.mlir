func.func @main() -> (tensor<4xi32>, tensor<2x2xi32>, tensor<4xi32>, tensor<2x3xf32>, tensor<3x4xi32>) {
  %0 = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %1 = stablehlo.constant dense<3> : tensor<4xi32>
  %2 = stablehlo.add %0, %1 : tensor<4xi32>
  %3 = stablehlo.reshape %2 : (tensor<4xi32>) -> tensor<2x2xi32>
  %4 = stablehlo.iota dim = 0 : tensor<4xi32>
  %5 = stablehlo.multiply %4, %1 : tensor<4xi32>
  %6 = stablehlo.constant dense<0.5> : tensor<f32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %8 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<4xi32>) -> tensor<3x4xi32>
  return %4, %3, %5, %7, %8 : tensor<4xi32>, tensor<2x2xi32>, tensor<4xi32>, tensor<2x3xf32>, tensor<3x4xi32>
}
