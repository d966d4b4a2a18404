func.func @f() {
  %0 = stablehlo.negate %1 : tensor<f32>
  return
}
