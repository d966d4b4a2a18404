func.func @main(%a: tensor<4xf32>, %w: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:4 = stablehlo.while(%i = %zero, %x = %a, %v = %w, %end = %n) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
    cond {
      %1 = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.multiply %x, %v : tensor<4xf32>
      stablehlo.return %1, %2, %v, %end : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
    }
  return %0#1, %0#2 : tensor<4xf32>, tensor<4xf32>
}
