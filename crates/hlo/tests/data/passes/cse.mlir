func.func @main(%a: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<4xf32>) {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  %1 = stablehlo.tanh %a : tensor<4xf32>
  %2 = stablehlo.add %0, %1 : tensor<4xf32>
  %3 = stablehlo.optimization_barrier %a : tensor<4xf32>
  %4 = stablehlo.tanh %3 : tensor<4xf32>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %d = stablehlo.constant dense<0.0> : tensor<f32>
  %5 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %6 = stablehlo.reduce(%a init: %d) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %7 = "stablehlo.case"(%n) ({
    %8 = stablehlo.tanh %a : tensor<4xf32>
    stablehlo.return %8 : tensor<4xf32>
  }, {
    %8 = stablehlo.negate %a : tensor<4xf32>
    stablehlo.return %8 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  %9 = stablehlo.add %4, %7 : tensor<4xf32>
  %10 = stablehlo.negate %a : tensor<4xf32>
  return %2, %4, %9, %5, %6, %10 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<4xf32>
}
