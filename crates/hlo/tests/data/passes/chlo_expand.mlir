func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>) {
  %0 = chlo.square %a : tensor<4xf32> -> tensor<4xf32>
  %1 = chlo.is_inf %a : tensor<4xf32> -> tensor<4xi1>
  %2 = chlo.is_neg_inf %a : tensor<4xf32> -> tensor<4xi1>
  %3 = "chlo.constant_like"(%a) {value = 3.2 : f32} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>
}
