func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>) -> tensor<4xf32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>) -> tensor<4xf32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 1, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>) -> tensor<8xf32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<i32>) -> tensor<4xf32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<i32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>) -> tensor<4xi32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %s = stablehlo.add %x, %y : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}

// -----

func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<4x9xf32>, %a2: tensor<f32>, %a3: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r:2 = "stablehlo.reduce"(%a0, %a1, %a2, %a3) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %z: tensor<f32>, %w: tensor<f32>):
    stablehlo.return %x, %y : tensor<f32>, tensor<f32>
  }) : (tensor<4x8xf32>, tensor<4x9xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>) -> tensor<4xf32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>) -> tensor<4xf32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x, %y : tensor<f32>, tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>, %a2: tensor<f32>) -> tensor<4xf32> {
  %r = "stablehlo.reduce"(%a0, %a1, %a2) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<8xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3, 3>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>, window_strides = array<i64: -1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>, base_dilations = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>, window_dilations = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>, padding = dense<1> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<i32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<i32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 9223372036854775807>, window_dilations = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<5xf32>, %a2: tensor<f32>) -> tensor<8xf32> {
  %r = "stablehlo.select_and_scatter"(%a0, %a1, %a2) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<5xf32>, tensor<f32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<4xf32>, %a2: tensor<f32>) -> tensor<9xf32> {
  %r = "stablehlo.select_and_scatter"(%a0, %a1, %a2) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<4xf32>, tensor<f32>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<4xf32>, %a2: tensor<f32>) -> tensor<8xf32> {
  %r = "stablehlo.select_and_scatter"(%a0, %a1, %a2) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<4xf32>, tensor<f32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
