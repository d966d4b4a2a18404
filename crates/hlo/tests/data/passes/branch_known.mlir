func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %no = stablehlo.constant dense<false> : tensor<i1>
  %far = stablehlo.constant dense<-3> : tensor<i32>
  %0 = "stablehlo.if"(%no) ({
    stablehlo.return %a : tensor<4xf32>
  }, {
    %2 = stablehlo.tanh %a : tensor<4xf32>
    stablehlo.return %2 : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %1 = "stablehlo.case"(%far) ({
    stablehlo.return %a : tensor<4xf32>
  }, {
    %2 = stablehlo.negate %0 : tensor<4xf32>
    %3 = stablehlo.negate %2 : tensor<4xf32>
    stablehlo.return %3 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
