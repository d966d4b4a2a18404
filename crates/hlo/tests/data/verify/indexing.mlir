// finding: none
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>) -> tensor<3x4xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: stablehlo.gather: result 0 must be tensor<3x4xf32>, is tensor<3x5xf32> [gather C22]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>) -> tensor<3x5xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}

// -----

// finding: @main: stablehlo.gather: the operand has rank 2, offset, collapsed and batching dimensions are 1 [gather C1]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>) -> tensor<3x4xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: stablehlo.gather: index_vector_dim is 3, which is not in [0, 2] [gather C2]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>) -> tensor<3x4xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 3>, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: stablehlo.gather: start_index_map has 1 elements, index vectors have 2 [gather C3]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x2xi32>) -> tensor<3x4xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x2xi32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: stablehlo.gather: offset_dims holds 5, which is not in [0, 2) [gather C5]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>) -> tensor<3x4xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [5], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: stablehlo.gather: collapsed_slice_dims holds 2, which is not in [0, 2) [gather C8]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>) -> tensor<3x4xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [2], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: stablehlo.gather: start_index_map holds 2, which is not in [0, 2) [gather C19]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>) -> tensor<3x4xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [2], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: stablehlo.gather: slice_sizes[0] is 2, at most 1 expected [gather C9]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>) -> tensor<3x4xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2, 4>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: stablehlo.gather: slice_sizes[1] is 5, operand dim 1 is 4 [gather C21]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>) -> tensor<3x4xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: stablehlo.gather: slice_sizes has 1 elements, 2 expected [gather C20]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>) -> tensor<3x4xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<8x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: stablehlo.gather: operand 1 must be a tensor of signed integer or unsigned integer type, is tensor<3x1xf32> [gather I2]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xf32>) -> tensor<3x4xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: stablehlo.gather: index dim 0 is 2, operand dim 0 is 3 [gather C17]
func.func @main(%a0: tensor<3x8x4xf32>, %a1: tensor<2x1xi32>) -> tensor<2x4xf32> {
  %r = "stablehlo.gather"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1, 4>}> : (tensor<3x8x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// -----

// finding: none
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>, %a2: tensor<3x4xf32>) -> tensor<8x4xf32> {
  %r = "stablehlo.scatter"(%a0, %a1, %a2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// finding: @main: stablehlo.scatter: update dim 1 is 5, above input dim 1, which is 4 [scatter C4]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>, %a2: tensor<3x5xf32>) -> tensor<8x4xf32> {
  %r = "stablehlo.scatter"(%a0, %a1, %a2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x4xf32>, tensor<3x1xi32>, tensor<3x5xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// finding: @main: stablehlo.scatter: update dim 0 is 2, index dim 0 is 3 [scatter C4]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>, %a2: tensor<2x4xf32>) -> tensor<8x4xf32> {
  %r = "stablehlo.scatter"(%a0, %a1, %a2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x4xf32>, tensor<3x1xi32>, tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// finding: @main: stablehlo.scatter: inputs have rank 2, window, inserted and batching dimensions are 1 [scatter C2]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>, %a2: tensor<3x4xf32>) -> tensor<8x4xf32> {
  %r = "stablehlo.scatter"(%a0, %a1, %a2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// finding: @main: stablehlo.scatter: index_vector_dim is 4, which is not in [0, 2] [scatter C22]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>, %a2: tensor<3x4xf32>) -> tensor<8x4xf32> {
  %r = "stablehlo.scatter"(%a0, %a1, %a2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 4>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// finding: @main: stablehlo.scatter: scatter_dims_to_operand_dims has 1 elements, index vectors have 2 [scatter C19]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x2xi32>, %a2: tensor<3x4xf32>) -> tensor<8x4xf32> {
  %r = "stablehlo.scatter"(%a0, %a1, %a2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x4xf32>, tensor<3x2xi32>, tensor<3x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// finding: @main: stablehlo.scatter: result 0 must be tensor<8x4xf32>, is tensor<8x5xf32> [scatter C24]
func.func @main(%a0: tensor<8x4xf32>, %a1: tensor<3x1xi32>, %a2: tensor<3x4xf32>) -> tensor<8x5xf32> {
  %r = "stablehlo.scatter"(%a0, %a1, %a2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<8x5xf32>
  return %r : tensor<8x5xf32>
}
