func.func @main(%a: tensor<4x1xf32>, %v: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4x1xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x1xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.reduce(%a init: %v) applies stablehlo.add across dimensions = [1] : (tensor<4x1xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.reduce(%a init: %low) applies stablehlo.maximum across dimensions = [] : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4x1xf32>
}
