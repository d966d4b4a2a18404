// finding: @main: stablehlo.dynamic_reshape: output_shape has 2 elements, the result has rank 1 [dynamic_reshape C4]
func.func @main(%a0: tensor<?xf32>, %a1: tensor<2xi32>) -> tensor<?xf32> {
  %r = "stablehlo.dynamic_reshape"(%a0, %a1) : (tensor<?xf32>, tensor<2xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

// finding: @main: stablehlo.dynamic_broadcast_in_dim: operand 1 must have a known number of elements [dynamic_broadcast_in_dim I2]
func.func @main(%a0: tensor<?xf32>, %a1: tensor<?xi32>) -> tensor<?x?xf32> {
  %r = "stablehlo.dynamic_broadcast_in_dim"(%a0, %a1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<?xf32>, tensor<?xi32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

// finding: @main: stablehlo.dynamic_broadcast_in_dim: 0 appears twice in known expanding and nonexpanding dimensions [dynamic_broadcast_in_dim C8]
func.func @main(%a0: tensor<?xf32>, %a1: tensor<2xi32>) -> tensor<?x?xf32> {
  %r = "stablehlo.dynamic_broadcast_in_dim"(%a0, %a1) <{broadcast_dimensions = array<i64: 1>, known_expanding_dimensions = array<i64: 0>, known_nonexpanding_dimensions = array<i64: 0>}> : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

// finding: @main: stablehlo.dynamic_broadcast_in_dim: operand dim 0 is 3, neither 1 nor result dim 1, which is 4 [dynamic_broadcast_in_dim C5]
func.func @main(%a0: tensor<3xf32>, %a1: tensor<2xi32>) -> tensor<2x4xf32> {
  %r = "stablehlo.dynamic_broadcast_in_dim"(%a0, %a1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>, tensor<2xi32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// -----

// finding: @main: stablehlo.dynamic_reshape: the operand has 6 elements, the result has 8 [dynamic_reshape C2]
func.func @main(%x: tensor<6xf32>) -> tensor<?x?xf32> {
  %s = stablehlo.constant dense<[2, 4]> : tensor<2xi32>
  %r = stablehlo.dynamic_reshape %x, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

// finding: @main: stablehlo.dynamic_iota: output_shape has 2 elements, the result has rank 1 [dynamic_iota C2]
func.func @main(%a0: tensor<2xi32>) -> tensor<?xf32> {
  %r = "stablehlo.dynamic_iota"(%a0) <{iota_dimension = 0 : i64}> : (tensor<2xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

// finding: @main: stablehlo.dynamic_iota: iota_dimension is 2, which is not in [0, 2) [dynamic_iota C1]
func.func @main(%a0: tensor<2xi32>) -> tensor<?x?xf32> {
  %r = "stablehlo.dynamic_iota"(%a0) <{iota_dimension = 2 : i64}> : (tensor<2xi32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

// finding: @main: stablehlo.dynamic_pad: operand 2 has 2 elements, the operand has rank 1 [dynamic_pad C2]
func.func @main(%a0: tensor<?xf32>, %a1: tensor<f32>, %a2: tensor<2xi32>, %a3: tensor<2xi32>, %a4: tensor<2xi32>) -> tensor<?xf32> {
  %r = "stablehlo.dynamic_pad"(%a0, %a1, %a2, %a3, %a4) : (tensor<?xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

// finding: @main: stablehlo.real_dynamic_slice: operand 1 has 2 elements, the operand has rank 1 [real_dynamic_slice]
func.func @main(%a0: tensor<?xf32>, %a1: tensor<2xi32>, %a2: tensor<2xi32>, %a3: tensor<2xi32>) -> tensor<?xf32> {
  %r = "stablehlo.real_dynamic_slice"(%a0, %a1, %a2, %a3) : (tensor<?xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

// finding: @main: stablehlo.add: dim 0 is 5, above its bound 4 [add C1]
func.func @main(%a0: tensor<?xf32, #stablehlo.bounds<4>>, %a1: tensor<5xf32>) -> tensor<5xf32> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<?xf32, #stablehlo.bounds<4>>, tensor<5xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// -----

// finding: @main: stablehlo.rng: operand 0 must be a tensor of floating-point type, is tensor<i32> [rng C2]
func.func @main(%a0: tensor<i32>, %a1: tensor<i32>, %a2: tensor<2xi64>) -> tensor<?x?xi32> {
  %r = "stablehlo.rng"(%a0, %a1, %a2) <{rng_distribution = #stablehlo<rng_distribution NORMAL>}> : (tensor<i32>, tensor<i32>, tensor<2xi64>) -> tensor<?x?xi32>
  return %r : tensor<?x?xi32>
}

// -----

// finding: @main: stablehlo.rng_bit_generator: the state has 3 words, which THREE_FRY does not take [rng_bit_generator C2]
func.func @main(%a0: tensor<3xui64>) -> (tensor<3xui64>, tensor<4xui32>) {
  %r:2 = "stablehlo.rng_bit_generator"(%a0) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<3xui64>) -> (tensor<3xui64>, tensor<4xui32>)
  return %r#0, %r#1 : tensor<3xui64>, tensor<4xui32>
}

// -----

// finding: @main: stablehlo.rng_bit_generator: initial_state is tensor<2xui64>, output_state is tensor<3xui64> [rng_bit_generator C1]
func.func @main(%a0: tensor<2xui64>) -> (tensor<3xui64>, tensor<4xui32>) {
  %r:2 = "stablehlo.rng_bit_generator"(%a0) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<2xui64>) -> (tensor<3xui64>, tensor<4xui32>)
  return %r#0, %r#1 : tensor<3xui64>, tensor<4xui32>
}

// -----

// finding: @main: stablehlo.batch_norm_training: operand 2 has 2 elements, dim 1 of the operand is 3 [batch_norm_training C4]
func.func @main(%a0: tensor<2x3xf32>, %a1: tensor<3xf32>, %a2: tensor<2xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %r:3 = "stablehlo.batch_norm_training"(%a0, %a1, %a2) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %r#0, %r#1, %r#2 : tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// finding: @main: stablehlo.batch_norm_inference: feature_index is 2, which is not in [0, 2) [batch_norm_inference C1]
func.func @main(%a0: tensor<2x3xf32>, %a1: tensor<3xf32>, %a2: tensor<3xf32>, %a3: tensor<3xf32>, %a4: tensor<3xf32>) -> tensor<2x3xf32> {
  %r = "stablehlo.batch_norm_inference"(%a0, %a1, %a2, %a3, %a4) <{epsilon = 0.1 : f32, feature_index = 2 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// finding: @main: stablehlo.batch_norm_grad: operand dim 1 is 3, operand 4 dim 1 is 4 [batch_norm_grad C3]
func.func @main(%a0: tensor<2x3xf32>, %a1: tensor<3xf32>, %a2: tensor<3xf32>, %a3: tensor<3xf32>, %a4: tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %r:3 = "stablehlo.batch_norm_grad"(%a0, %a1, %a2, %a3, %a4) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %r#0, %r#1, %r#2 : tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>
}
