func.func @f(%a: tensor<f32>) {
  %0 = stablehlo.compare LESS, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return
}
