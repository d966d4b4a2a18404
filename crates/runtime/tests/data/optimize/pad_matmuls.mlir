// level=aggressive precision=f32 target=v6e ragged_loss=0.9
func.func @main(%x: tensor<2048x500xf32>, %w: tensor<500x2048xf32>) -> tensor<2048x2048xf32> {
  %0 = stablehlo.tanh %x : tensor<2048x500xf32>
  %1 = stablehlo.tanh %w : tensor<500x2048xf32>
  %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<2048x500xf32>, tensor<500x2048xf32>) -> tensor<2048x2048xf32>
  return %2 : tensor<2048x2048xf32>
}
