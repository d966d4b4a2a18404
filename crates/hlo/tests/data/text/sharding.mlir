module @jit_f {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  sdy.mesh @one = <[], device_ids=[0]> {note}
  sdy.mesh @shuffled = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}p1, {"y":(1)2}], replicated={"z"}, unreduced={"w"}>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<mesh<["a"=2]>, [{}, {?}]>}) {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%arg0: tensor<2x4xf32>) {
      %5 = stablehlo.add %arg0, %arg0 : tensor<2x4xf32>
      sdy.return %5 : tensor<2x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = stablehlo.multiply %1, %1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {?}]>]>} : tensor<8x4xf32>
    %3 = sdy.named_computation<"part">(%2) in_shardings=[<@mesh, [{}, {}]>] (%arg1: tensor<8x4xf32>) {
      sdy.return %arg1 : tensor<8x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    sdy.sharding_group %3 group_id=7 : tensor<8x4xf32>
    %4 = sdy.propagation_barrier %3 allowed_direction=FORWARD : tensor<8x4xf32>
    %6 = sdy.all_gather [{"x"}, {}] %4 out_sharding=<@mesh, [{}, {}]> : tensor<8x4xf32>
    %7 = sdy.all_to_all [{"x"}: 0->1] %6 out_sharding=<@mesh, [{}, {"x"}]> : tensor<8x4xf32>
    return %7 : tensor<8x4xf32>
  }
}
