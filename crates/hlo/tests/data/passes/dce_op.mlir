func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %a : tensor<4xf32>
  %1 = stablehlo.custom_call @dropped(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = stablehlo.custom_call @kept(%0) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = call @unread(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %5 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %5 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
func.func private @unread(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
