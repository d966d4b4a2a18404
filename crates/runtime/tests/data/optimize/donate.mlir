// level=conservative precision=f32 target=v5e donate=0,1,3
// The first two become the results of their type, the last one fits none.
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<2xi32>) -> (tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.add %a, %c : tensor<4xf32>
  %1 = stablehlo.subtract %b, %c : tensor<4xf32>
  return %0, %zero, %1, %b : tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>
}
