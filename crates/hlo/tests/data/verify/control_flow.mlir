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

func.func @main(%p: tensor<1xi1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<1xi1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

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

func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<5xf32> {
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// -----

func.func @main(%i: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i64>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

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

func.func @main(%t: tuple<tensor<f32>, tensor<i32>>) -> tensor<f32> {
  %r = "stablehlo.get_tuple_element"(%t) <{index = 2 : i32}> : (tuple<tensor<f32>, tensor<i32>>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

func.func @main(%t: tuple<tensor<f32>, tensor<i32>>) -> tensor<f32> {
  %r = "stablehlo.get_tuple_element"(%t) <{index = 1 : i32}> : (tuple<tensor<f32>, tensor<i32>>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

func.func @main(%a: tensor<8xf32>) -> tensor<4xf32> {
  %f = "stablehlo.async_start"(%a) ({
  ^bb0(%x: tensor<8xf32>):
    %y = stablehlo.tanh %x : tensor<8xf32>
    stablehlo.return %y : tensor<8xf32>
  }) : (tensor<8xf32>) -> !stablehlo.future<tensor<8xf32>>
  %r = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<8xf32>>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
