func.func @main(%a: tensor<4x5xf32>, %n: tensor<i32>) -> (tensor<2x2xf32>, tensor<4x5xf32>, tensor<4x2xf32>, tensor<4x2xf32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %far = stablehlo.constant dense<9> : tensor<i32>
  %0 = stablehlo.dynamic_slice %a, %one, %far, sizes = [2, 2] : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
  %1 = stablehlo.dynamic_slice %a, %n, %n, sizes = [4, 5] : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<4x5xf32>
  %2 = stablehlo.dynamic_slice %a, %n, %one, sizes = [4, 2] : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
  %3 = stablehlo.dynamic_slice %a, %one, %n, sizes = [4, 2] : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
  return %0, %1, %2, %3 : tensor<2x2xf32>, tensor<4x5xf32>, tensor<4x2xf32>, tensor<4x2xf32>
}
