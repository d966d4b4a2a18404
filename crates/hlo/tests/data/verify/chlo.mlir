// finding: none
func.func @main(%a0: tensor<4xf32>, %a1: tensor<3x1xf32>) -> tensor<3x4xf32> {
  %r = "chlo.broadcast_add"(%a0, %a1) : (tensor<4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: chlo.broadcast_add: dim 1 of the result would be 4 and 5
func.func @main(%a0: tensor<4xf32>, %a1: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %r = "chlo.broadcast_add"(%a0, %a1) : (tensor<4xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}

// -----

// finding: @main: chlo.broadcast_add: result 0 must be tensor<3x4xf32>, is tensor<4x4xf32> [chlo.broadcast_add]
func.func @main(%a0: tensor<4xf32>, %a1: tensor<3x4xf32>) -> tensor<4x4xf32> {
  %r = "chlo.broadcast_add"(%a0, %a1) : (tensor<4xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// finding: @main: chlo.broadcast_add: broadcast_dimensions holds 2, which is not in [0, 2)
func.func @main(%a0: tensor<3xf32>, %a1: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %r = "chlo.broadcast_add"(%a0, %a1) <{broadcast_dimensions = array<i64: 2>}> : (tensor<3xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: chlo.broadcast_and: operand 0 must be a tensor of boolean or signed integer or unsigned integer type, is tensor<4xf32>
func.func @main(%a0: tensor<4xf32>, %a1: tensor<4xf32>) -> tensor<4xf32> {
  %r = "chlo.broadcast_and"(%a0, %a1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: chlo.erf: operand 0 must be a tensor of floating-point type, is tensor<4xi32> [chlo.erf]
func.func @main(%a0: tensor<4xi32>) -> tensor<4xi32> {
  %r = "chlo.erf"(%a0) : (tensor<4xi32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}

// -----

// finding: @main: chlo.is_inf: result 0 must be tensor<4xi1>, is tensor<4xf32> [chlo.is_inf]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "chlo.is_inf"(%a0) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: chlo.top_k: k is 5, the last dimension is 4 [chlo.top_k]
func.func @main(%a0: tensor<4xf32>) -> (tensor<5xf32>, tensor<5xi32>) {
  %r:2 = "chlo.top_k"(%a0) <{k = 5 : i64}> : (tensor<4xf32>) -> (tensor<5xf32>, tensor<5xi32>)
  return %r#0, %r#1 : tensor<5xf32>, tensor<5xi32>
}
