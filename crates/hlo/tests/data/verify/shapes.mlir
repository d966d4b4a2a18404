func.func @main(%a0: tensor<3xf32>) -> tensor<2x4xf32> {
  %r = "stablehlo.broadcast_in_dim"(%a0) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// -----

func.func @main(%a0: tensor<3xf32>) -> tensor<2x3xf32> {
  %r = "stablehlo.broadcast_in_dim"(%a0) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

func.func @main(%a0: tensor<3xf32>) -> tensor<2x3xf32> {
  %r = "stablehlo.broadcast_in_dim"(%a0) <{broadcast_dimensions = array<i64: 2>}> : (tensor<3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

func.func @main(%a0: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %r = "stablehlo.broadcast_in_dim"(%a0) <{broadcast_dimensions = array<i64: 1, 1>}> : (tensor<3x3xf32>) -> tensor<3x3xf32>
  return %r : tensor<3x3xf32>
}

// -----

func.func @main(%a0: tensor<3xf32>) -> tensor<3xi32> {
  %r = "stablehlo.broadcast_in_dim"(%a0) <{broadcast_dimensions = array<i64: 0>}> : (tensor<3xf32>) -> tensor<3xi32>
  return %r : tensor<3xi32>
}

// -----

func.func @main(%a0: tensor<3xf32>) -> tensor<2x4xf32> {
  %r = "stablehlo.broadcast"(%a0) <{broadcast_sizes = array<i64: 2>}> : (tensor<3xf32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// -----

func.func @main(%a0: tensor<2x3xf32>) -> tensor<7xf32> {
  %r = "stablehlo.reshape"(%a0) : (tensor<2x3xf32>) -> tensor<7xf32>
  return %r : tensor<7xf32>
}

// -----

func.func @main(%a0: tensor<2x3xf32>) -> tensor<?xf32> {
  %r = "stablehlo.reshape"(%a0) : (tensor<2x3xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

func.func @main(%a0: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %r = "stablehlo.transpose"(%a0) <{permutation = array<i64: 1>}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// -----

func.func @main(%a0: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %r = "stablehlo.transpose"(%a0) <{permutation = array<i64: 1, 1>}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// -----

func.func @main(%a0: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = "stablehlo.transpose"(%a0) <{permutation = array<i64: 1, 0>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

func.func @main(%a0: tensor<2x3xf32>, %a1: tensor<2x4xf32>) -> tensor<2x6xf32> {
  %r = "stablehlo.concatenate"(%a0, %a1) <{dimension = 1 : i64}> : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x6xf32>
  return %r : tensor<2x6xf32>
}

// -----

func.func @main(%a0: tensor<2x3xf32>, %a1: tensor<1x3xf32>) -> tensor<2x6xf32> {
  %r = "stablehlo.concatenate"(%a0, %a1) <{dimension = 1 : i64}> : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x6xf32>
  return %r : tensor<2x6xf32>
}

// -----

func.func @main(%a0: tensor<2x3xf32>, %a1: tensor<2x3xi32>) -> tensor<2x6xf32> {
  %r = "stablehlo.concatenate"(%a0, %a1) <{dimension = 1 : i64}> : (tensor<2x3xf32>, tensor<2x3xi32>) -> tensor<2x6xf32>
  return %r : tensor<2x6xf32>
}

// -----

func.func @main(%a0: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = "stablehlo.concatenate"(%a0) <{dimension = 2 : i64}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

func.func @main() -> tensor<0xf32> {
  %r = "stablehlo.concatenate"() <{dimension = 0 : i64}> : () -> tensor<0xf32>
  return %r : tensor<0xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>) -> tensor<4xf32> {
  %r = "stablehlo.slice"(%a0) <{start_indices = array<i64: 0>, limit_indices = array<i64: 9>, strides = array<i64: 2>}> : (tensor<8xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>) -> tensor<4xf32> {
  %r = "stablehlo.slice"(%a0) <{start_indices = array<i64: 5>, limit_indices = array<i64: 4>, strides = array<i64: 2>}> : (tensor<8xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>) -> tensor<4xf32> {
  %r = "stablehlo.slice"(%a0) <{start_indices = array<i64: 0>, limit_indices = array<i64: 8>, strides = array<i64: 0>}> : (tensor<8xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>) -> tensor<3xf32> {
  %r = "stablehlo.slice"(%a0) <{start_indices = array<i64: 0>, limit_indices = array<i64: 8>, strides = array<i64: 2>}> : (tensor<8xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>) -> tensor<4xf32> {
  %r = "stablehlo.slice"(%a0) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 8>, strides = array<i64: 2>}> : (tensor<8xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<i32>) -> tensor<9xf32> {
  %r = "stablehlo.dynamic_slice"(%a0, %a1) <{slice_sizes = array<i64: 9>}> : (tensor<8xf32>, tensor<i32>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

func.func @main(%a0: tensor<8x8xf32>, %a1: tensor<i32>) -> tensor<8x8xf32> {
  %r = "stablehlo.dynamic_slice"(%a0, %a1) <{slice_sizes = array<i64: 8, 8>}> : (tensor<8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

func.func @main(%a0: tensor<8x8xf32>, %a1: tensor<i32>, %a2: tensor<i64>) -> tensor<8x8xf32> {
  %r = "stablehlo.dynamic_slice"(%a0, %a1, %a2) <{slice_sizes = array<i64: 8, 8>}> : (tensor<8x8xf32>, tensor<i32>, tensor<i64>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<1xi32>) -> tensor<8xf32> {
  %r = "stablehlo.dynamic_slice"(%a0, %a1) <{slice_sizes = array<i64: 8>}> : (tensor<8xf32>, tensor<1xi32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<9xf32>, %a2: tensor<i32>) -> tensor<8xf32> {
  %r = "stablehlo.dynamic_update_slice"(%a0, %a1, %a2) : (tensor<8xf32>, tensor<9xf32>, tensor<i32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<2x2xf32>, %a2: tensor<i32>) -> tensor<8xf32> {
  %r = "stablehlo.dynamic_update_slice"(%a0, %a1, %a2) : (tensor<8xf32>, tensor<2x2xf32>, tensor<i32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<2xf64>, %a2: tensor<i32>) -> tensor<8xf32> {
  %r = "stablehlo.dynamic_update_slice"(%a0, %a1, %a2) : (tensor<8xf32>, tensor<2xf64>, tensor<i32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

func.func @main(%a0: tensor<8xf32>, %a1: tensor<2xf32>) -> tensor<8xf32> {
  %r = "stablehlo.dynamic_update_slice"(%a0, %a1) : (tensor<8xf32>, tensor<2xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>, %a1: tensor<f32>) -> tensor<9xf32> {
  %r = "stablehlo.pad"(%a0, %a1) <{edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 1>}> : (tensor<4xf32>, tensor<f32>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>, %a1: tensor<f64>) -> tensor<9xf32> {
  %r = "stablehlo.pad"(%a0, %a1) <{edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 1>}> : (tensor<4xf32>, tensor<f64>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>, %a1: tensor<f32>) -> tensor<9xf32> {
  %r = "stablehlo.pad"(%a0, %a1) <{edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: -1>}> : (tensor<4xf32>, tensor<f32>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>, %a1: tensor<f32>) -> tensor<9xf32> {
  %r = "stablehlo.pad"(%a0, %a1) <{edge_padding_low = array<i64: 1, 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 1>}> : (tensor<4xf32>, tensor<f32>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>, %a1: tensor<1xf32>) -> tensor<6xf32> {
  %r = "stablehlo.pad"(%a0, %a1) <{edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 0>}> : (tensor<4xf32>, tensor<1xf32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.reverse"(%a0) <{dimensions = array<i64: 1>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.reverse"(%a0) <{dimensions = array<i64: 0, 0>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main() -> tensor<4xf32> {
  %r = stablehlo.iota dim = 1 : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main() -> tensor<4xi1> {
  %r = stablehlo.iota dim = 0 : tensor<4xi1>
  return %r : tensor<4xi1>
}

// -----

func.func @main() -> tensor<4xf32> {
  %r = "stablehlo.constant"() <{value = dense<0.0> : tensor<3xf32>}> : () -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<i32> {
  %r = "stablehlo.get_dimension_size"(%a0) <{dimension = 1 : i64}> : (tensor<4xf32>) -> tensor<i32>
  return %r : tensor<i32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<i64> {
  %r = "stablehlo.get_dimension_size"(%a0) <{dimension = 0 : i64}> : (tensor<4xf32>) -> tensor<i64>
  return %r : tensor<i64>
}

// -----

func.func @main(%a0: tensor<4xf32>, %a1: tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<5>> {
  %r = "stablehlo.set_dimension_size"(%a0, %a1) <{dimension = 0 : i64}> : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<5>>
  return %r : tensor<?xf32, #stablehlo.bounds<5>>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.sort"(%a0) <{dimension = 1 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.sort"(%a0) <{dimension = 0 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>, %a1: tensor<5xf32>) -> (tensor<4xf32>, tensor<5xf32>) {
  %r:2 = "stablehlo.sort"(%a0, %a1) <{dimension = 0 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %z: tensor<f32>, %w: tensor<f32>):
    %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<4xf32>, tensor<5xf32>) -> (tensor<4xf32>, tensor<5xf32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<5xf32>
}
