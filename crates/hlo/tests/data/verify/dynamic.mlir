func.func @main(%a0: tensor<?xf32>, %a1: tensor<2xi32>) -> tensor<?xf32> {
  %r = "stablehlo.dynamic_reshape"(%a0, %a1) : (tensor<?xf32>, tensor<2xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

func.func @main(%a0: tensor<?xf32>, %a1: tensor<?xi32>) -> tensor<?x?xf32> {
  %r = "stablehlo.dynamic_broadcast_in_dim"(%a0, %a1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<?xf32>, tensor<?xi32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

func.func @main(%a0: tensor<?xf32>, %a1: tensor<2xi32>) -> tensor<?x?xf32> {
  %r = "stablehlo.dynamic_broadcast_in_dim"(%a0, %a1) <{broadcast_dimensions = array<i64: 1>, known_expanding_dimensions = array<i64: 0>, known_nonexpanding_dimensions = array<i64: 0>}> : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

func.func @main(%a0: tensor<3xf32>, %a1: tensor<2xi32>) -> tensor<2x4xf32> {
  %r = "stablehlo.dynamic_broadcast_in_dim"(%a0, %a1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>, tensor<2xi32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// -----

func.func @main(%x: tensor<6xf32>) -> tensor<?x?xf32> {
  %s = stablehlo.constant dense<[2, 4]> : tensor<2xi32>
  %r = stablehlo.dynamic_reshape %x, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

func.func @main(%a0: tensor<2xi32>) -> tensor<?xf32> {
  %r = "stablehlo.dynamic_iota"(%a0) <{iota_dimension = 0 : i64}> : (tensor<2xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

func.func @main(%a0: tensor<2xi32>) -> tensor<?x?xf32> {
  %r = "stablehlo.dynamic_iota"(%a0) <{iota_dimension = 2 : i64}> : (tensor<2xi32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

func.func @main(%a0: tensor<?xf32>, %a1: tensor<f32>, %a2: tensor<2xi32>, %a3: tensor<2xi32>, %a4: tensor<2xi32>) -> tensor<?xf32> {
  %r = "stablehlo.dynamic_pad"(%a0, %a1, %a2, %a3, %a4) : (tensor<?xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

func.func @main(%a0: tensor<?xf32>, %a1: tensor<2xi32>, %a2: tensor<2xi32>, %a3: tensor<2xi32>) -> tensor<?xf32> {
  %r = "stablehlo.real_dynamic_slice"(%a0, %a1, %a2, %a3) : (tensor<?xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

func.func @main(%a0: tensor<?xf32, #stablehlo.bounds<4>>, %a1: tensor<5xf32>) -> tensor<5xf32> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<?xf32, #stablehlo.bounds<4>>, tensor<5xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// -----

func.func @main(%a0: tensor<i32>, %a1: tensor<i32>, %a2: tensor<2xi64>) -> tensor<?x?xi32> {
  %r = "stablehlo.rng"(%a0, %a1, %a2) <{rng_distribution = #stablehlo<rng_distribution NORMAL>}> : (tensor<i32>, tensor<i32>, tensor<2xi64>) -> tensor<?x?xi32>
  return %r : tensor<?x?xi32>
}

// -----

func.func @main(%a0: tensor<3xui64>) -> (tensor<3xui64>, tensor<4xui32>) {
  %r:2 = "stablehlo.rng_bit_generator"(%a0) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<3xui64>) -> (tensor<3xui64>, tensor<4xui32>)
  return %r#0, %r#1 : tensor<3xui64>, tensor<4xui32>
}

// -----

func.func @main(%a0: tensor<2xui64>) -> (tensor<3xui64>, tensor<4xui32>) {
  %r:2 = "stablehlo.rng_bit_generator"(%a0) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<2xui64>) -> (tensor<3xui64>, tensor<4xui32>)
  return %r#0, %r#1 : tensor<3xui64>, tensor<4xui32>
}

// -----

func.func @main(%a0: tensor<2x3xf32>, %a1: tensor<3xf32>, %a2: tensor<2xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %r:3 = "stablehlo.batch_norm_training"(%a0, %a1, %a2) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %r#0, %r#1, %r#2 : tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

func.func @main(%a0: tensor<2x3xf32>, %a1: tensor<3xf32>, %a2: tensor<3xf32>, %a3: tensor<3xf32>, %a4: tensor<3xf32>) -> tensor<2x3xf32> {
  %r = "stablehlo.batch_norm_inference"(%a0, %a1, %a2, %a3, %a4) <{epsilon = 0.1 : f32, feature_index = 2 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

func.func @main(%a0: tensor<2x3xf32>, %a1: tensor<3xf32>, %a2: tensor<3xf32>, %a3: tensor<3xf32>, %a4: tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %r:3 = "stablehlo.batch_norm_grad"(%a0, %a1, %a2, %a3, %a4) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %r#0, %r#1, %r#2 : tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>
}
