// finding: @main: stablehlo.broadcast_in_dim: operand dim 0 is 3, neither 1 nor result dim 1, which is 4 [broadcast_in_dim C5]
func.func @main(%a0: tensor<3xf32>) -> tensor<2x4xf32> {
  %r = "stablehlo.broadcast_in_dim"(%a0) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// -----

// finding: @main: stablehlo.broadcast_in_dim: broadcast_dimensions has 2 elements, 1 expected [broadcast_in_dim C2]
func.func @main(%a0: tensor<3xf32>) -> tensor<2x3xf32> {
  %r = "stablehlo.broadcast_in_dim"(%a0) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// finding: @main: stablehlo.broadcast_in_dim: broadcast_dimensions holds 2, which is not in [0, 2) [broadcast_in_dim C3]
func.func @main(%a0: tensor<3xf32>) -> tensor<2x3xf32> {
  %r = "stablehlo.broadcast_in_dim"(%a0) <{broadcast_dimensions = array<i64: 2>}> : (tensor<3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// finding: @main: stablehlo.broadcast_in_dim: 1 appears twice in broadcast_dimensions [broadcast_in_dim C4]
func.func @main(%a0: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %r = "stablehlo.broadcast_in_dim"(%a0) <{broadcast_dimensions = array<i64: 1, 1>}> : (tensor<3x3xf32>) -> tensor<3x3xf32>
  return %r : tensor<3x3xf32>
}

// -----

// finding: @main: stablehlo.broadcast_in_dim: element type of operand is f32, of result is i32 [broadcast_in_dim C1]
func.func @main(%a0: tensor<3xf32>) -> tensor<3xi32> {
  %r = "stablehlo.broadcast_in_dim"(%a0) <{broadcast_dimensions = array<i64: 0>}> : (tensor<3xf32>) -> tensor<3xi32>
  return %r : tensor<3xi32>
}

// -----

// finding: @main: stablehlo.broadcast: result 0 must be tensor<2x3xf32>, is tensor<2x4xf32> [broadcast]
func.func @main(%a0: tensor<3xf32>) -> tensor<2x4xf32> {
  %r = "stablehlo.broadcast"(%a0) <{broadcast_sizes = array<i64: 2>}> : (tensor<3xf32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// -----

// finding: @main: stablehlo.reshape: the operand has 6 elements, the result has 7 [reshape C2]
func.func @main(%a0: tensor<2x3xf32>) -> tensor<7xf32> {
  %r = "stablehlo.reshape"(%a0) : (tensor<2x3xf32>) -> tensor<7xf32>
  return %r : tensor<7xf32>
}

// -----

// finding: @main: stablehlo.reshape: result dim 0 is neither known nor bounded [reshape O1]
func.func @main(%a0: tensor<2x3xf32>) -> tensor<?xf32> {
  %r = "stablehlo.reshape"(%a0) : (tensor<2x3xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

// finding: @main: stablehlo.transpose: permutation has 1 elements, 2 expected [transpose C2]
func.func @main(%a0: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %r = "stablehlo.transpose"(%a0) <{permutation = array<i64: 1>}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// -----

// finding: @main: stablehlo.transpose: 1 appears twice in permutation [transpose C2]
func.func @main(%a0: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %r = "stablehlo.transpose"(%a0) <{permutation = array<i64: 1, 1>}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// -----

// finding: @main: stablehlo.transpose: result 0 must be tensor<3x2xf32>, is tensor<2x3xf32> [transpose C3]
func.func @main(%a0: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = "stablehlo.transpose"(%a0) <{permutation = array<i64: 1, 0>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// finding: @main: stablehlo.concatenate: result 0 must be tensor<2x7xf32>, is tensor<2x6xf32> [concatenate C6]
func.func @main(%a0: tensor<2x3xf32>, %a1: tensor<2x4xf32>) -> tensor<2x6xf32> {
  %r = "stablehlo.concatenate"(%a0, %a1) <{dimension = 1 : i64}> : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x6xf32>
  return %r : tensor<2x6xf32>
}

// -----

// finding: @main: stablehlo.concatenate: dim 0 is 2 here and 1 there [concatenate C2]
func.func @main(%a0: tensor<2x3xf32>, %a1: tensor<1x3xf32>) -> tensor<2x6xf32> {
  %r = "stablehlo.concatenate"(%a0, %a1) <{dimension = 1 : i64}> : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x6xf32>
  return %r : tensor<2x6xf32>
}

// -----

// finding: @main: stablehlo.concatenate: element type of operand 0 is f32, of operand 1 is i32 [concatenate C1]
func.func @main(%a0: tensor<2x3xf32>, %a1: tensor<2x3xi32>) -> tensor<2x6xf32> {
  %r = "stablehlo.concatenate"(%a0, %a1) <{dimension = 1 : i64}> : (tensor<2x3xf32>, tensor<2x3xi32>) -> tensor<2x6xf32>
  return %r : tensor<2x6xf32>
}

// -----

// finding: @main: stablehlo.concatenate: dimension is 2, which is not in [0, 2) [concatenate C4]
func.func @main(%a0: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = "stablehlo.concatenate"(%a0) <{dimension = 2 : i64}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// finding: @main: stablehlo.concatenate: there must be at least one operand [concatenate C3]
func.func @main() -> tensor<0xf32> {
  %r = "stablehlo.concatenate"() <{dimension = 0 : i64}> : () -> tensor<0xf32>
  return %r : tensor<0xf32>
}

// -----

// finding: @main: stablehlo.slice: dim 0 is 8, its slice is 0 to 9 [slice C3]
func.func @main(%a0: tensor<8xf32>) -> tensor<4xf32> {
  %r = "stablehlo.slice"(%a0) <{start_indices = array<i64: 0>, limit_indices = array<i64: 9>, strides = array<i64: 2>}> : (tensor<8xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.slice: dim 0 is 8, its slice is 5 to 4 [slice C3]
func.func @main(%a0: tensor<8xf32>) -> tensor<4xf32> {
  %r = "stablehlo.slice"(%a0) <{start_indices = array<i64: 5>, limit_indices = array<i64: 4>, strides = array<i64: 2>}> : (tensor<8xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.slice: strides[0] is 0 [slice C4]
func.func @main(%a0: tensor<8xf32>) -> tensor<4xf32> {
  %r = "stablehlo.slice"(%a0) <{start_indices = array<i64: 0>, limit_indices = array<i64: 8>, strides = array<i64: 0>}> : (tensor<8xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.slice: result 0 must be tensor<4xf32>, is tensor<3xf32> [slice C5]
func.func @main(%a0: tensor<8xf32>) -> tensor<3xf32> {
  %r = "stablehlo.slice"(%a0) <{start_indices = array<i64: 0>, limit_indices = array<i64: 8>, strides = array<i64: 2>}> : (tensor<8xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// finding: @main: stablehlo.slice: start_indices has 2 elements, 1 expected [slice C2]
func.func @main(%a0: tensor<8xf32>) -> tensor<4xf32> {
  %r = "stablehlo.slice"(%a0) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 8>, strides = array<i64: 2>}> : (tensor<8xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.dynamic_slice: slice_sizes[0] is 9, operand dim 0 is 8 [dynamic_slice C4]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<i32>) -> tensor<9xf32> {
  %r = "stablehlo.dynamic_slice"(%a0, %a1) <{slice_sizes = array<i64: 9>}> : (tensor<8xf32>, tensor<i32>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

// finding: @main: stablehlo.dynamic_slice: start_indices has 1 elements, 2 expected [dynamic_slice C2]
func.func @main(%a0: tensor<8x8xf32>, %a1: tensor<i32>) -> tensor<8x8xf32> {
  %r = "stablehlo.dynamic_slice"(%a0, %a1) <{slice_sizes = array<i64: 8, 8>}> : (tensor<8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// finding: @main: stablehlo.dynamic_slice: element type of index 0 is i32, of index 1 is i64 [dynamic_slice C3]
func.func @main(%a0: tensor<8x8xf32>, %a1: tensor<i32>, %a2: tensor<i64>) -> tensor<8x8xf32> {
  %r = "stablehlo.dynamic_slice"(%a0, %a1, %a2) <{slice_sizes = array<i64: 8, 8>}> : (tensor<8x8xf32>, tensor<i32>, tensor<i64>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// finding: @main: stablehlo.dynamic_slice: operand 1 must be a 0-dimensional tensor, is tensor<1xi32> [dynamic_slice I2]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<1xi32>) -> tensor<8xf32> {
  %r = "stablehlo.dynamic_slice"(%a0, %a1) <{slice_sizes = array<i64: 8>}> : (tensor<8xf32>, tensor<1xi32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.dynamic_update_slice: update dim 0 is 9, operand dim 0 is 8 [dynamic_update_slice C6]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<9xf32>, %a2: tensor<i32>) -> tensor<8xf32> {
  %r = "stablehlo.dynamic_update_slice"(%a0, %a1, %a2) : (tensor<8xf32>, tensor<9xf32>, tensor<i32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.dynamic_update_slice: the operand has rank 1, the update has rank 2 [dynamic_update_slice C3]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<2x2xf32>, %a2: tensor<i32>) -> tensor<8xf32> {
  %r = "stablehlo.dynamic_update_slice"(%a0, %a1, %a2) : (tensor<8xf32>, tensor<2x2xf32>, tensor<i32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.dynamic_update_slice: element type of operand is f32, of update is f64 [dynamic_update_slice C2]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<2xf64>, %a2: tensor<i32>) -> tensor<8xf32> {
  %r = "stablehlo.dynamic_update_slice"(%a0, %a1, %a2) : (tensor<8xf32>, tensor<2xf64>, tensor<i32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.dynamic_update_slice: start_indices has 0 elements, 1 expected [dynamic_update_slice C4]
func.func @main(%a0: tensor<8xf32>, %a1: tensor<2xf32>) -> tensor<8xf32> {
  %r = "stablehlo.dynamic_update_slice"(%a0, %a1) : (tensor<8xf32>, tensor<2xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// finding: none
func.func @main(%a0: tensor<4xf32>, %a1: tensor<f32>) -> tensor<9xf32> {
  %r = "stablehlo.pad"(%a0, %a1) <{edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 1>}> : (tensor<4xf32>, tensor<f32>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

// finding: @main: stablehlo.pad: element type of operand is f32, of padding_value is f64 [pad C1]
func.func @main(%a0: tensor<4xf32>, %a1: tensor<f64>) -> tensor<9xf32> {
  %r = "stablehlo.pad"(%a0, %a1) <{edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 1>}> : (tensor<4xf32>, tensor<f64>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

// finding: @main: stablehlo.pad: interior_padding[0] is -1 [pad C3]
func.func @main(%a0: tensor<4xf32>, %a1: tensor<f32>) -> tensor<9xf32> {
  %r = "stablehlo.pad"(%a0, %a1) <{edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: -1>}> : (tensor<4xf32>, tensor<f32>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

// finding: @main: stablehlo.pad: edge_padding_low has 2 elements, 1 expected [pad C2]
func.func @main(%a0: tensor<4xf32>, %a1: tensor<f32>) -> tensor<9xf32> {
  %r = "stablehlo.pad"(%a0, %a1) <{edge_padding_low = array<i64: 1, 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 1>}> : (tensor<4xf32>, tensor<f32>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

// finding: @main: stablehlo.pad: operand 1 must be a 0-dimensional tensor, is tensor<1xf32> [pad I2]
func.func @main(%a0: tensor<4xf32>, %a1: tensor<1xf32>) -> tensor<6xf32> {
  %r = "stablehlo.pad"(%a0, %a1) <{edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 0>}> : (tensor<4xf32>, tensor<1xf32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// finding: @main: stablehlo.reverse: dimensions holds 1, which is not in [0, 1) [reverse C3]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.reverse"(%a0) <{dimensions = array<i64: 1>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reverse: 0 appears twice in dimensions [reverse C2]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.reverse"(%a0) <{dimensions = array<i64: 0, 0>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.iota: iota_dimension is 1, which is not in [0, 1) [iota C1]
func.func @main() -> tensor<4xf32> {
  %r = stablehlo.iota dim = 1 : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.iota: result 0 must be a tensor of signed integer or unsigned integer or floating-point or complex or per-tensor quantized type, is tensor<4xi1> [iota O1]
func.func @main() -> tensor<4xi1> {
  %r = stablehlo.iota dim = 0 : tensor<4xi1>
  return %r : tensor<4xi1>
}

// -----

// finding: @main: stablehlo.constant: result 0 must be tensor<3xf32>, is tensor<4xf32> [constant C1]
func.func @main() -> tensor<4xf32> {
  %r = "stablehlo.constant"() <{value = dense<0.0> : tensor<3xf32>}> : () -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.get_dimension_size: dimension is 1, which is not in [0, 1) [get_dimension_size C1]
func.func @main(%a0: tensor<4xf32>) -> tensor<i32> {
  %r = "stablehlo.get_dimension_size"(%a0) <{dimension = 1 : i64}> : (tensor<4xf32>) -> tensor<i32>
  return %r : tensor<i32>
}

// -----

// finding: @main: stablehlo.get_dimension_size: result 0 must be tensor<i32>, is tensor<i64> [get_dimension_size O1]
func.func @main(%a0: tensor<4xf32>) -> tensor<i64> {
  %r = "stablehlo.get_dimension_size"(%a0) <{dimension = 0 : i64}> : (tensor<4xf32>) -> tensor<i64>
  return %r : tensor<i64>
}

// -----

// finding: none
func.func @main(%a0: tensor<4xf32>, %a1: tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<5>> {
  %r = "stablehlo.set_dimension_size"(%a0, %a1) <{dimension = 0 : i64}> : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<5>>
  return %r : tensor<?xf32, #stablehlo.bounds<5>>
}

// -----

// finding: @main: stablehlo.sort: dimension is 1, which is not in [-1, 1) [sort C4]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.sort"(%a0) <{dimension = 1 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.sort: the comparator returns (tensor<f32>), tensor<i1> expected [sort C5]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.sort"(%a0) <{dimension = 0 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.sort: operand 0 dim 0 is 4, operand 1 dim 0 is 5 [sort C3]
func.func @main(%a0: tensor<4xf32>, %a1: tensor<5xf32>) -> (tensor<4xf32>, tensor<5xf32>) {
  %r:2 = "stablehlo.sort"(%a0, %a1) <{dimension = 0 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %z: tensor<f32>, %w: tensor<f32>):
    %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<4xf32>, tensor<5xf32>) -> (tensor<4xf32>, tensor<5xf32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<5xf32>
}
