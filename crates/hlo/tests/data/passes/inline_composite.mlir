func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>, tensor<2xi32>) {
  %0 = stablehlo.composite "my.op" %a {decomposition = @decomposed} : (tensor<4xf32>) -> tensor<4xf32>
  %1:2 = stablehlo.composite "chlo.top_k" %0 {composite_attributes = {k = 2 : i64}, decomposition = @top_k} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0, %1#0, %1#1 : tensor<4xf32>, tensor<2xf32>, tensor<2xi32>
}
func.func private @decomposed(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @top_k(%a: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0:2 = chlo.top_k(%a, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}
