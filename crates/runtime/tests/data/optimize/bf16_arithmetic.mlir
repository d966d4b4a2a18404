// level=aggressive precision=bf16 target=v5e
// Bias and activation between two matmuls go to bf16; the norm before the first one keeps f32, up to the matmul.
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %v: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %eighth = stablehlo.constant dense<0.125> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4x8xf32>
  %s = stablehlo.multiply %x, %x : tensor<4x8xf32>
  %m = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %n = stablehlo.multiply %m, %eighth : tensor<4xf32>
  %r = stablehlo.rsqrt %n : tensor<4xf32>
  %rb = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %normed = stablehlo.multiply %x, %rb : tensor<4x8xf32>
  %0 = stablehlo.dot_general %normed, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.add %0, %1 : tensor<4x8xf32>
  %3 = stablehlo.tanh %2 : tensor<4x8xf32>
  %4 = stablehlo.multiply %3, %half : tensor<4x8xf32>
  %5 = stablehlo.dot_general %4, %v, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %5 : tensor<4x2xf32>
}
