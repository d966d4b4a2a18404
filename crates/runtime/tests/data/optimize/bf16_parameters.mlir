// level=balanced precision=bf16 target=v5e parameters=1,2,3
// Weights that only matmuls read are taken in bf16, also where they are moved first. The bias is added in f32; %u is an input.
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %v: tensor<6x8xf32>, %u: tensor<8x6xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.add %0, %1 : tensor<4x8xf32>
  %3 = stablehlo.concatenate %v, %v, dim = 0 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<12x8xf32>
  %4 = stablehlo.dot_general %2, %3, contracting_dims = [1] x [1] : (tensor<4x8xf32>, tensor<12x8xf32>) -> tensor<4x12xf32>
  %5 = stablehlo.slice %4 [0:4, 0:6] : (tensor<4x12xf32>) -> tensor<4x6xf32>
  %6 = stablehlo.dot_general %5, %u, contracting_dims = [1] x [1] : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  return %6 : tensor<4x8xf32>
}
