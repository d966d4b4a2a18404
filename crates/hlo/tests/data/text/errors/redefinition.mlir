func.func @f(%a: tensor<f32>) {
  %a = stablehlo.negate %a : tensor<f32>
  return
}
