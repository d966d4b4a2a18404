// level=conservative precision=bf16 target=v5e
func.func @main(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) -> tensor<4x6xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<4x6xf32>
  %two = stablehlo.constant dense<2.0> : tensor<4x6xf32>
  %one = stablehlo.multiply %half, %two : tensor<4x6xf32>
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %0 = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %2 = func.call @scale(%0, %one) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = stablehlo.add %2, %1 : tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}
func.func private @scale(%x: tensor<4x6xf32>, %by: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = stablehlo.multiply %x, %by : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
