// finding: @main: stablehlo.dot_general: lhs dim 1 is 8, rhs dim 0 is 16 [dot_general C10]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<16x4xf32>) -> tensor<4x4xf32> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<4x8xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// finding: @main: stablehlo.dot_general: lhs dim 0 is 2, rhs dim 0 is 3 [dot_general C9]
func.func @main(%a0: tensor<2x4x8xf32>, %a1: tensor<3x8x4xf32>) -> tensor<2x4x4xf32> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>}> : (tensor<2x4x8xf32>, tensor<3x8x4xf32>) -> tensor<2x4x4xf32>
  return %r : tensor<2x4x4xf32>
}

// -----

// finding: @main: stablehlo.dot_general: the contraction dim 1 is 4, result dim 1 is 5 [dot_general C12]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<8x4xf32>) -> tensor<4x5xf32> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}

// -----

// finding: @main: stablehlo.dot_general: 1 contracting dimensions of lhs, 0 of rhs [dot_general C2]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = []>}> : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// finding: @main: stablehlo.dot_general: 1 batching dimensions of lhs, 0 of rhs [dot_general C1]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// finding: @main: stablehlo.dot_general: 1 appears twice in lhs batching and contracting dimensions [dot_general C3]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [1], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>}> : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// finding: @main: stablehlo.dot_general: lhs_contracting_dimensions holds 2, which is not in [0, 2) [dot_general C6]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>}> : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// finding: @main: stablehlo.dot_general: rhs_contracting_dimensions holds 2, which is not in [0, 2) [dot_general C8]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [2]>}> : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// finding: @main: stablehlo.dot_general: precision_config has 3 elements [dot_general C11]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGH>, #stablehlo<precision HIGH>]}> : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// finding: @main: stablehlo.dot_general: an algorithm goes with DEFAULT precision only [dot_general C21]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGH>], algorithm = #stablehlo.dot_algorithm<lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false>}> : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// finding: @main: stablehlo.dot_general: lhs_component_count is 0 [dot_general C22]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, algorithm = #stablehlo.dot_algorithm<lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 0, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false>}> : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// finding: @main: stablehlo.dot_general: no hardware is known for 4 operations on bf16 by bf16 into f32 [dot_general I8]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, algorithm = #stablehlo.dot_algorithm<lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 4, allow_imprecise_accumulation = false>}> : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// finding: @main: stablehlo.dot: lhs dim 1 is 8, rhs dim 0 is 7 [dot]
func.func @main(%a0: tensor<4x8xf32>, %a1: tensor<7x4xf32>) -> tensor<4x4xf32> {
  %r = "stablehlo.dot"(%a0, %a1) : (tensor<4x8xf32>, tensor<7x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// finding: @main: stablehlo.cholesky: a has rank 1, at least 2 expected [cholesky C2]
func.func @main(%a0: tensor<3xf32>) -> tensor<3xf32> {
  %r = "stablehlo.cholesky"(%a0) : (tensor<3xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// finding: @main: stablehlo.cholesky: a is 3 by 4, a square expected [cholesky C3]
func.func @main(%a0: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %r = "stablehlo.cholesky"(%a0) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// finding: @main: stablehlo.cholesky: operand 0 must be a tensor of floating-point or complex or per-tensor quantized type, is tensor<3x3xi32> [cholesky I1]
func.func @main(%a0: tensor<3x3xi32>) -> tensor<3x3xi32> {
  %r = "stablehlo.cholesky"(%a0) : (tensor<3x3xi32>) -> tensor<3x3xi32>
  return %r : tensor<3x3xi32>
}

// -----

// finding: @main: stablehlo.triangular_solve: a has 3 columns, b dim 0 is 4 [triangular_solve C3]
func.func @main(%a0: tensor<3x3xf32>, %a1: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %r = "stablehlo.triangular_solve"(%a0, %a1) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<3x3xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %r : tensor<4x2xf32>
}

// -----

// finding: @main: stablehlo.triangular_solve: element type of a is f32, of b is f64 [triangular_solve C1]
func.func @main(%a0: tensor<3x3xf32>, %a1: tensor<3x2xf64>) -> tensor<3x2xf64> {
  %r = "stablehlo.triangular_solve"(%a0, %a1) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<3x3xf32>, tensor<3x2xf64>) -> tensor<3x2xf64>
  return %r : tensor<3x2xf64>
}

// -----

// finding: @main: stablehlo.triangular_solve: a has rank 2, b has rank 1 [triangular_solve C2]
func.func @main(%a0: tensor<3x3xf32>, %a1: tensor<3xf32>) -> tensor<3xf32> {
  %r = "stablehlo.triangular_solve"(%a0, %a1) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<3x3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// finding: @main: stablehlo.fft: FFT does not take tensor<8xf32> [fft C2]
func.func @main(%a0: tensor<8xf32>) -> tensor<5xcomplex<f32>> {
  %r = "stablehlo.fft"(%a0) <{fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 8>}> : (tensor<8xf32>) -> tensor<5xcomplex<f32>>
  return %r : tensor<5xcomplex<f32>>
}

// -----

// finding: @main: stablehlo.fft: result 0 must be tensor<5xcomplex<f32>>, is tensor<8xcomplex<f32>> [fft C5]
func.func @main(%a0: tensor<8xf32>) -> tensor<8xcomplex<f32>> {
  %r = "stablehlo.fft"(%a0) <{fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 8>}> : (tensor<8xf32>) -> tensor<8xcomplex<f32>>
  return %r : tensor<8xcomplex<f32>>
}

// -----

// finding: @main: stablehlo.fft: fft_length dim 0 is 9, end of the operand dim 0 is 8 [fft C4]
func.func @main(%a0: tensor<8xf32>) -> tensor<5xcomplex<f32>> {
  %r = "stablehlo.fft"(%a0) <{fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 9>}> : (tensor<8xf32>) -> tensor<5xcomplex<f32>>
  return %r : tensor<5xcomplex<f32>>
}

// -----

// finding: @main: stablehlo.fft: the last dimension is 5, 4 expected for fft_length 7 [fft C5]
func.func @main(%a0: tensor<5xcomplex<f32>>) -> tensor<9xf32> {
  %r = "stablehlo.fft"(%a0) <{fft_type = #stablehlo<fft_type IRFFT>, fft_length = array<i64: 7>}> : (tensor<5xcomplex<f32>>) -> tensor<9xf32>
  return %r : tensor<9xf32>
}

// -----

// finding: @main: stablehlo.fft: fft_length has 2 elements, the operand has rank 1 [fft C1]
func.func @main(%a0: tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>> {
  %r = "stablehlo.fft"(%a0) <{fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 1, 8>}> : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  return %r : tensor<8xcomplex<f32>>
}

// -----

// finding: @main: stablehlo.fft: fft_length has 0 elements, 1 to 3 expected [fft C3]
func.func @main(%a0: tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>> {
  %r = "stablehlo.fft"(%a0) <{fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64>}> : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  return %r : tensor<8xcomplex<f32>>
}
