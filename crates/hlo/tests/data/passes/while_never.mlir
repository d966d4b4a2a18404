func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.while(%x = %a) : tensor<4xf32>
    cond {
      %no = stablehlo.constant dense<false> : tensor<i1>
      stablehlo.return %no : tensor<i1>
    } do {
      %1 = stablehlo.tanh %x : tensor<4xf32>
      stablehlo.return %1 : tensor<4xf32>
    }
  return %0 : tensor<4xf32>
}
