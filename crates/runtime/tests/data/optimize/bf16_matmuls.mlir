// level=balanced precision=mixed target=v5e
// The softmax between the matmuls keeps f32; so does the matmul that asks for it.
func.func @main(%q: tensor<4x8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %x: tensor<1x6x6x2xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>, tensor<1x4x4x2xf32>) {
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %kernel = stablehlo.constant dense<0.1> : tensor<3x3x2x2xf32>
  %0 = stablehlo.dot_general %q, %k, contracting_dims = [1] x [1] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %1 = stablehlo.reduce(%0 init: %least) applies stablehlo.maximum across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<4xf32>) -> tensor<4x4xf32>
  %3 = stablehlo.subtract %0, %2 : tensor<4x4xf32>
  %4 = stablehlo.exponential %3 : tensor<4x4xf32>
  %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<4xf32>) -> tensor<4x4xf32>
  %7 = stablehlo.divide %4, %6 : tensor<4x4xf32>
  %8 = stablehlo.dot_general %7, %v, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %9 = stablehlo.dot_general %q, %k, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %10 = stablehlo.convolution(%x, %kernel) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x6x6x2xf32>, tensor<3x3x2x2xf32>) -> tensor<1x4x4x2xf32>
  return %8, %9, %10 : tensor<4x8xf32>, tensor<4x4xf32>, tensor<1x4x4x2xf32>
}
