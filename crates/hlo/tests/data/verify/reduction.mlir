// finding: @main: stablehlo.reduce: dimensions holds 2, which is not in [0, 2) [reduce C4]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>) -> tensor<4xf32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reduce: 1 appears twice in dimensions [reduce C5]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>) -> tensor<4xf32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 1, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reduce: result 0 must be tensor<4xf32>, is tensor<8xf32> [reduce C7]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>) -> tensor<8xf32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.reduce: element type of input 0 is f32, of init value 0 is i32 [reduce C2]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<i32>) -> tensor<4xf32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<i32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reduce: input 0 has elements f32, which do not promote to i32 [reduce C6]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>) -> tensor<4xi32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %s = stablehlo.add %x, %y : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}

// -----

// finding: @main: stablehlo.reduce: operand 0 dim 1 is 8, operand 1 dim 1 is 9 [reduce C1]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<4x9xf32>, %a2: tensor<f32>, %a3: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r:2 = "stablehlo.reduce"(%a0, %a1, %a2, %a3) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %z: tensor<f32>, %w: tensor<f32>):
    stablehlo.return %x, %y : tensor<f32>, tensor<f32>
  }) : (tensor<4x8xf32>, tensor<4x9xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reduce: the body takes 1 arguments, 2 expected [reduce C6]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>) -> tensor<4xf32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reduce: the body returns 2 values, 1 expected [reduce C6]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>) -> tensor<4xf32> {
  %r = "stablehlo.reduce"(%a0, %a1) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x, %y : tensor<f32>, tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reduce: 3 operands, as many inputs as init values expected [reduce C3]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<f32>, %a2: tensor<f32>) -> tensor<4xf32> {
  %r = "stablehlo.reduce"(%a0, %a1, %a2) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: result 0 must be tensor<6xf32>, is tensor<8xf32> [reduce_window C15]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<8xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: window_dimensions has 2 elements, 1 expected [reduce_window C4]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3, 3>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: window dim 0 is 0, which is not positive [reduce_window C5]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: window_strides has 2 elements, 1 expected [reduce_window C6]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: window_strides holds -1, which is not positive [reduce_window C7]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>, window_strides = array<i64: -1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: base_dilations holds 0, which is not positive [reduce_window C9]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>, base_dilations = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: window_dilations holds 0, which is not positive [reduce_window C11]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>, window_dilations = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: padding has shape [2, 2], [1, 2] expected [reduce_window C12]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>, padding = dense<1> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: element type of input 0 is f32, of init value 0 is i32 [reduce_window C3]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<i32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 3>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<i32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: the window over dim 0 overflows 64 bits [reduce_window C15]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<f32>) -> tensor<6xf32> {
  %r = "stablehlo.reduce_window"(%a0, %a1) <{window_dimensions = array<i64: 9223372036854775807>, window_dilations = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// finding: @main: stablehlo.select_and_scatter: the windows dim 0 is 4, source dim 0 is 5 [select_and_scatter C2]
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

// finding: @main: stablehlo.select_and_scatter: result 0 must be tensor<8xf32>, is tensor<9xf32> [select_and_scatter C11]
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

// finding: @main: stablehlo.select_and_scatter: window_dimensions has 2 elements, 1 expected [select_and_scatter C4]
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
