func.func @main(%a: tensor<8x2x3xf32>, %b: tensor<4x3x8xf32>, %c: tensor<5x6x7xf32>, %d: tensor<7xf32>) -> (tensor<8x2x4xf32>, tensor<6x5xf32>) {
  %0 = stablehlo.transpose %b, dims = [2, 1, 0] : (tensor<4x3x8xf32>) -> tensor<8x3x4xf32>
  %1 = stablehlo.dot_general %a, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<8x2x3xf32>, tensor<8x3x4xf32>) -> tensor<8x2x4xf32>
  %2 = stablehlo.transpose %c, dims = [1, 0, 2] : (tensor<5x6x7xf32>) -> tensor<6x5x7xf32>
  %3 = stablehlo.dot_general %2, %d, contracting_dims = [2] x [0] : (tensor<6x5x7xf32>, tensor<7xf32>) -> tensor<6x5xf32>
  return %1, %3 : tensor<8x2x4xf32>, tensor<6x5xf32>
}
