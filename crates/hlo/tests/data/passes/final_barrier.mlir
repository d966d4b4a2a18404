func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.optimization_barrier %a : tensor<4xf32>
  %1 = stablehlo.tanh %0 : tensor<4xf32>
  %2:2 = stablehlo.optimization_barrier %1, %a : tensor<4xf32>, tensor<4xf32>
  return %2#0, %2#1 : tensor<4xf32>, tensor<4xf32>
}
