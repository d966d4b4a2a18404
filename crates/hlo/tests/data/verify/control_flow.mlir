// finding: @main: stablehlo.if: branch 0 returns (tensor<4xf32>), branch 1 returns (tensor<4xi32>) [if C2]
func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    %y = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xi32>
    stablehlo.return %y : tensor<4xi32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.if: operand 0 must be tensor<i1>, is tensor<1xi1> [if I1]
func.func @main(%p: tensor<1xi1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<1xi1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.if: branch 0 takes 1 arguments, 0 expected [if C1]
func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.if"(%p) ({
  ^bb0(%z: tensor<4xf32>):
    stablehlo.return %z : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.if: result 0 must be tensor<4xf32>, is tensor<5xf32> [if C3]
func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<5xf32> {
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// -----

// finding: @main: stablehlo.case: operand 0 must be tensor<i32>, is tensor<i64> [case I1]
func.func @main(%i: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i64>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.while: cond must return tensor<i1>, returns (tensor<i32>) [while C1]
func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %r = "stablehlo.while"(%x) ({
  ^bb0(%a: tensor<i32>):
    stablehlo.return %a : tensor<i32>
  }, {
  ^bb0(%a: tensor<i32>):
    stablehlo.return %a : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  return %r : tensor<i32>
}

// -----

// finding: @main: stablehlo.while: operand 0 is tensor<i32>, body result 0 is tensor<f32> [while C2]
func.func @main(%x: tensor<i32>, %p: tensor<i1>) -> tensor<i32> {
  %r = "stablehlo.while"(%x) ({
  ^bb0(%a: tensor<i32>):
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<i32>):
    %f = stablehlo.convert %a : (tensor<i32>) -> tensor<f32>
    stablehlo.return %f : tensor<f32>
  }) : (tensor<i32>) -> tensor<i32>
  return %r : tensor<i32>
}

// -----

// finding: @main: stablehlo.while: operand 0 is tensor<i32>, cond argument 0 is tensor<i64> [while C1]
func.func @main(%x: tensor<i32>, %p: tensor<i1>) -> tensor<i32> {
  %r = "stablehlo.while"(%x) ({
  ^bb0(%a: tensor<i64>):
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<i32>):
    stablehlo.return %a : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  return %r : tensor<i32>
}

// -----

// finding: @main: stablehlo.get_tuple_element: index is 2, which is not in [0, 2) [get_tuple_element C1]
func.func @main(%t: tuple<tensor<f32>, tensor<i32>>) -> tensor<f32> {
  %r = "stablehlo.get_tuple_element"(%t) <{index = 2 : i32}> : (tuple<tensor<f32>, tensor<i32>>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

// finding: @main: stablehlo.get_tuple_element: result 0 must be tensor<i32>, is tensor<f32> [get_tuple_element C2]
func.func @main(%t: tuple<tensor<f32>, tensor<i32>>) -> tensor<f32> {
  %r = "stablehlo.get_tuple_element"(%t) <{index = 1 : i32}> : (tuple<tensor<f32>, tensor<i32>>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

// finding: @main: stablehlo.async_start: stablehlo.tanh cannot run in the background [async_start C2]
// finding: @main: stablehlo.async_done: result 0 must be tensor<8xf32>, is tensor<4xf32> [async_done C1]
func.func @main(%a: tensor<8xf32>) -> tensor<4xf32> {
  %f = "stablehlo.async_start"(%a) ({
  ^bb0(%x: tensor<8xf32>):
    %y = stablehlo.tanh %x : tensor<8xf32>
    stablehlo.return %y : tensor<8xf32>
  }) : (tensor<8xf32>) -> !stablehlo.future<tensor<8xf32>>
  %r = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<8xf32>>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
