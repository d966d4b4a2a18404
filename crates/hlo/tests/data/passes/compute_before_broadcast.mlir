func.func @main(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %two = stablehlo.constant dense<2.0> : tensor<4x4xf32>
  %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<4x4xf32>
  %3 = stablehlo.multiply %2, %two : tensor<4x4xf32>
  %4 = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<4xf32>) -> tensor<4x4xf32>
  %5 = stablehlo.rsqrt %4 : tensor<4x4xf32>
  %6 = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<4xf32>) -> tensor<4x4xf32>
  %7 = stablehlo.add %4, %6 : tensor<4x4xf32>
  return %3, %5, %7 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
