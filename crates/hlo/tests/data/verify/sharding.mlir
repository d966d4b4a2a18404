// finding: @main: sdy.sharding_constraint: the mesh has no axis "z" [sdy sharding]
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %r = sdy.sharding_constraint %a <@mesh, [{"x"}, {"z"}]> : tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// finding: @main: sdy.sharding_constraint: 1 dimension shardings for tensor<8x8xf32> [sdy sharding]
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %r = sdy.sharding_constraint %a <@mesh, [{"x"}]> : tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// finding: @main: sdy.sharding_constraint: axis "x" is used twice [sdy sharding]
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %r = sdy.sharding_constraint %a <@mesh, [{"x"}, {"x"}]> : tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// finding: @main: sdy.sharding_constraint: mesh @other is not in the module [sdy sharding]
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %r = sdy.sharding_constraint %a <@other, [{}, {}]> : tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// finding: @main: func.func: argument 0: "y":(3)2 is not a part of an axis of size 4 [sdy sharding]
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y":(3)2}, {}]>}) {
  return
}

// -----

// finding: @main: sdy.manual_computation: operands 0 is tensor<4x8xf32> on each shard, but tensor<8x8xf32> in the body [sdy manual_computation]
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%s: tensor<8x8xf32>) {
    sdy.return %s : tensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// finding: none
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%s: tensor<4x8xf32>) {
    sdy.return %s : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// finding: @: sdy.mesh: axis "x" appears twice [sdy mesh]
sdy.mesh @mesh = <["x"=2, "x"=4]>
func.func @main() {
  return
}

// -----

// finding: @: sdy.mesh: device id -1 is negative [sdy mesh]
sdy.mesh @mesh = <["x"=2], device_ids=[1, -1]>
func.func @main() {
  return
}
