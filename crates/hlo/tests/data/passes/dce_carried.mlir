func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>, %n: tensor<i32>, %p: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:3 = stablehlo.while(%i = %zero, %x = %a, %unread = %b) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
    cond {
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.tanh %x : tensor<4xf32>
      %3 = stablehlo.add %unread, %x : tensor<4xf32>
      stablehlo.return %1, %2, %3 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
    }
  %4:2 = "stablehlo.if"(%p) ({
    %5 = stablehlo.sine %a : tensor<4xf32>
    stablehlo.return %5, %a : tensor<4xf32>, tensor<4xf32>
  }, {
    %5 = stablehlo.cosine %a : tensor<4xf32>
    stablehlo.return %5, %b : tensor<4xf32>, tensor<4xf32>
  }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#1, %4#1 : tensor<4xf32>, tensor<4xf32>
}
