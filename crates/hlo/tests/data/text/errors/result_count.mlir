func.func @f(%a: tensor<f32>) {
  %0:2 = stablehlo.negate %a : tensor<f32>
  return
}
