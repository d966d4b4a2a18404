// partitioned
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = sdy.sharding_constraint %a <@mesh, [{"x"}]> : tensor<4xf32>
  %1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = "{replicated}"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "builtin.unrealized_conversion_cast"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = stablehlo.tanh %2 {mhlo.sharding = "{replicated}"} : tensor<4xf32>
  return %3 : tensor<4xf32>
}
