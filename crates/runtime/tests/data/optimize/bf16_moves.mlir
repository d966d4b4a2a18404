// level=balanced precision=bf16 target=v5e
// What only moves or picks elements on the way to a matmul moves half as many bytes; the bias is still added in f32.
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %v: tensor<4x2xf32>) -> tensor<2x4x2xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4x8xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.add %0, %1 : tensor<4x8xf32>
  %3 = stablehlo.maximum %2, %zero : tensor<4x8xf32>
  %4 = stablehlo.reshape %3 : (tensor<4x8xf32>) -> tensor<4x4x2xf32>
  %5 = stablehlo.dot_general %4, %v, contracting_dims = [1] x [0] : (tensor<4x4x2xf32>, tensor<4x2xf32>) -> tensor<4x2x2xf32>
  %6 = stablehlo.reshape %5 : (tensor<4x2x2xf32>) -> tensor<2x4x2xf32>
  return %6 : tensor<2x4x2xf32>
}
