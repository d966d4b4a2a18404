func.func @f(%arg0: tensor<f32>) {
  %0 = arith.addf %arg0, %arg0 : tensor<f32>
  return
}
