func.func @f(%a: tensor<4xf32>, %b: tensor<4xi32>) {
  %0 = stablehlo.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}
