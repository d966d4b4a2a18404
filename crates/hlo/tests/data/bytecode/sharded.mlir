module @sharded {
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func public @main(%arg0: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {?}]>}) -> (tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model":(1)2}p1]>}) {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"data", ?}, {}], replicated={"model"}> : tensor<16x8xf32>
    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data"} (%arg1: tensor<8x8xf32>) {
      %2 = stablehlo.negate %arg1 : tensor<8x8xf32>
      %3 = stablehlo.add %2, %arg1 : tensor<8x8xf32>
      sdy.return %3 : tensor<8x8xf32>
    } : (tensor<16x8xf32>) -> tensor<16x8xf32>
    return %1 : tensor<16x8xf32>
  }
}
