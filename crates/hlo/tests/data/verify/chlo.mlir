func.func @main(%a0: tensor<4xf32>, %a1: tensor<3x1xf32>) -> tensor<3x4xf32> {
  %r = "chlo.broadcast_add"(%a0, %a1) : (tensor<4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>, %a1: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %r = "chlo.broadcast_add"(%a0, %a1) : (tensor<4xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>, %a1: tensor<3x4xf32>) -> tensor<4x4xf32> {
  %r = "chlo.broadcast_add"(%a0, %a1) : (tensor<4xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

func.func @main(%a0: tensor<3xf32>, %a1: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %r = "chlo.broadcast_add"(%a0, %a1) <{broadcast_dimensions = array<i64: 2>}> : (tensor<3xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>, %a1: tensor<4xf32>) -> tensor<4xf32> {
  %r = "chlo.broadcast_and"(%a0, %a1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xi32>) -> tensor<4xi32> {
  %r = "chlo.erf"(%a0) : (tensor<4xi32>) -> tensor<4xi32>
  return %r : tensor<4xi32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "chlo.is_inf"(%a0) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> (tensor<5xf32>, tensor<5xi32>) {
  %r:2 = "chlo.top_k"(%a0) <{k = 5 : i64}> : (tensor<4xf32>) -> (tensor<5xf32>, tensor<5xi32>)
  return %r#0, %r#1 : tensor<5xf32>, tensor<5xi32>
}
