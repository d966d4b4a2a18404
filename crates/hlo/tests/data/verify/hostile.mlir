// finding: @main: stablehlo.scatter: input 0 has elements f64, which do not promote to f32 [scatter C23]
func.func @main(%x: tensor<8xf64>, %i: tensor<1x1xi32>, %u: tensor<1xf64>) -> tensor<8xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<8xf64>, tensor<1x1xi32>, tensor<1xf64>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.scatter: element type of input 0 is f32, of update 0 is f64 [scatter C6]
func.func @main(%x: tensor<8xf32>, %i: tensor<1x1xi32>, %u: tensor<1xf64>) -> tensor<8xf64> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    stablehlo.return %b : tensor<f64>
  }) : (tensor<8xf32>, tensor<1x1xi32>, tensor<1xf64>) -> tensor<8xf64>
  return %0 : tensor<8xf64>
}

// -----

// finding: none
func.func @main(%x: tensor<8xf32>, %i: tensor<1x1xi32>, %u: tensor<1xf32>) -> tensor<8xf64> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    stablehlo.return %b : tensor<f64>
  }) : (tensor<8xf32>, tensor<1x1xi32>, tensor<1xf32>) -> tensor<8xf64>
  return %0 : tensor<8xf64>
}

// -----

// finding: @main: stablehlo.scatter: input 0 has elements i32, which do not promote to i8 [scatter C23]
func.func @main(%x: tensor<8xi32>, %i: tensor<1x1xi32>, %u: tensor<1xi32>) -> tensor<8xi8> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i8>, %b: tensor<i8>):
    stablehlo.return %b : tensor<i8>
  }) : (tensor<8xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<8xi8>
  return %0 : tensor<8xi8>
}

// -----

// finding: @main: stablehlo.scatter: input 0 has elements f32, which do not promote to i32 [scatter C23]
func.func @main(%x: tensor<8xf32>, %i: tensor<1x1xi32>, %u: tensor<1xf32>) -> tensor<8xi32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    stablehlo.return %b : tensor<i32>
  }) : (tensor<8xf32>, tensor<1x1xi32>, tensor<1xf32>) -> tensor<8xi32>
  return %0 : tensor<8xi32>
}

// -----

// finding: @main: stablehlo.scatter: input 0 has elements complex<f64>, which do not promote to complex<f32> [scatter C23]
func.func @main(%x: tensor<8xcomplex<f64>>, %i: tensor<1x1xi32>, %u: tensor<1xcomplex<f64>>) -> tensor<8xcomplex<f32>> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):
    stablehlo.return %b : tensor<complex<f32>>
  }) : (tensor<8xcomplex<f64>>, tensor<1x1xi32>, tensor<1xcomplex<f64>>) -> tensor<8xcomplex<f32>>
  return %0 : tensor<8xcomplex<f32>>
}

// -----

// finding: @main: stablehlo.reduce: input 0 has elements f64, which do not promote to f32 [reduce C6]
func.func @main(%x: tensor<4x8xf64>, %z: tensor<f64>) -> tensor<4xf32> {
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xf64>, tensor<f64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reduce: input 0 has elements f32, which do not promote to bf16 [reduce C6]
func.func @main(%x: tensor<4x8xf32>, %z: tensor<f32>) -> tensor<4xbf16> {
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %s = stablehlo.add %a, %b : tensor<bf16>
    stablehlo.return %s : tensor<bf16>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

// finding: none
func.func @main(%x: tensor<4x8xbf16>, %z: tensor<bf16>) -> tensor<4xf32> {
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xbf16>, tensor<bf16>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reduce: input 0 has elements i8, which do not promote to f32 [reduce C6]
func.func @main(%x: tensor<4x8xi8>, %z: tensor<i8>) -> tensor<4xf32> {
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x8xi8>, tensor<i8>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reduce: the body's result 0 is tensor<4xf32>, a scalar expected [reduce C6]
func.func @main(%x: tensor<4x8xf32>, %z: tensor<f32>) -> tensor<4xf32> {
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %s = stablehlo.add %a, %b : tensor<4xf32>
    stablehlo.return %s : tensor<4xf32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: input 0 has elements f64, which do not promote to f32 [reduce_window C13]
func.func @main(%x: tensor<8xf64>, %z: tensor<f64>) -> tensor<7xf32> {
  %0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 2>, padding = dense<[[0, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf64>, tensor<f64>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: window dim 0 is -9223372036854775808, which is not positive [reduce_window C5]
func.func @main(%x: tensor<8xf32>, %z: tensor<f32>) -> tensor<7xf32> {
  %0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: -9223372036854775808>, padding = dense<[[0, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: result 0 must be tensor<0xf32>, is tensor<7xf32> [reduce_window C15]
func.func @main(%x: tensor<8xf32>, %z: tensor<f32>) -> tensor<7xf32> {
  %0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 2>, padding = dense<[[-9223372036854775808, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// finding: @main: stablehlo.reduce_window: the window over dim 0 overflows 64 bits [reduce_window C15]
func.func @main(%x: tensor<8xf32>, %z: tensor<f32>) -> tensor<7xf32> {
  %0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 2>, padding = dense<[[9223372036854775807, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// finding: @main: stablehlo.select_and_scatter: input 0 has elements f64, which do not promote to f32 [select_and_scatter C10]
func.func @main(%x: tensor<8xf64>, %s: tensor<7xf64>, %z: tensor<f64>) -> tensor<8xf32> {
  %0 = "stablehlo.select_and_scatter"(%x, %s, %z) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<8xf64>, tensor<7xf64>, tensor<f64>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.select_and_scatter: element type of operand is f32, of source is f64 [select_and_scatter C1]
func.func @main(%x: tensor<8xf32>, %s: tensor<7xf64>, %z: tensor<f32>) -> tensor<8xf32> {
  %0 = "stablehlo.select_and_scatter"(%x, %s, %z) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<8xf32>, tensor<7xf64>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.select_and_scatter: window dim 0 is -9223372036854775808, which is not positive [select_and_scatter C5]
func.func @main(%x: tensor<8xf32>, %s: tensor<7xf32>, %z: tensor<f32>) -> tensor<8xf32> {
  %0 = "stablehlo.select_and_scatter"(%x, %s, %z) <{window_dimensions = array<i64: -9223372036854775808>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<8xf32>, tensor<7xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.all_reduce: input 0 has elements f64, which do not promote to f32 [all_reduce C5]
func.func @main(%x: tensor<8xf64>) -> tensor<8xf32> {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<8xf64>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.reduce_scatter: input 0 has elements f64, which do not promote to f32 [reduce_scatter C7]
func.func @main(%x: tensor<8xf64>) -> tensor<8xf32> {
  %0 = "stablehlo.reduce_scatter"(%x) <{scatter_dimension = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<8xf64>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.pad: dim 0 is 0; padded by -9223372036854775808, 0 and 0 between elements it is negative or beyond 64 bits [pad C4]
func.func @main(%x: tensor<0xf32>, %z: tensor<f32>) -> tensor<1000xf32> {
  %0 = "stablehlo.pad"(%x, %z) <{edge_padding_low = array<i64: -9223372036854775808>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: 0>}> : (tensor<0xf32>, tensor<f32>) -> tensor<1000xf32>
  return %0 : tensor<1000xf32>
}

// -----

// finding: @main: stablehlo.pad: dim 0 is 4; padded by 9223372036854775807, 9223372036854775807 and 9223372036854775807 between elements it is negative or beyond 64 bits [pad C4]
func.func @main(%x: tensor<4xf32>, %z: tensor<f32>) -> tensor<1000xf32> {
  %0 = "stablehlo.pad"(%x, %z) <{edge_padding_low = array<i64: 9223372036854775807>, edge_padding_high = array<i64: 9223372036854775807>, interior_padding = array<i64: 9223372036854775807>}> : (tensor<4xf32>, tensor<f32>) -> tensor<1000xf32>
  return %0 : tensor<1000xf32>
}

// -----

// finding: @main: stablehlo.slice: dim 0 is 8, its slice is 0 to -9223372036854775808 [slice C3]
func.func @main(%x: tensor<8xf32>) -> tensor<1000xf32> {
  %0 = "stablehlo.slice"(%x) <{start_indices = array<i64: 0>, limit_indices = array<i64: -9223372036854775808>, strides = array<i64: 1>}> : (tensor<8xf32>) -> tensor<1000xf32>
  return %0 : tensor<1000xf32>
}

// -----

// finding: @main: stablehlo.slice: dim 0 is 8, its slice is -9223372036854775808 to 4 [slice C3]
func.func @main(%x: tensor<8xf32>) -> tensor<1000xf32> {
  %0 = "stablehlo.slice"(%x) <{start_indices = array<i64: -9223372036854775808>, limit_indices = array<i64: 4>, strides = array<i64: 1>}> : (tensor<8xf32>) -> tensor<1000xf32>
  return %0 : tensor<1000xf32>
}

// -----

// finding: @main: stablehlo.dynamic_slice: slice_sizes[0] is -9223372036854775808, operand dim 0 is 8 [dynamic_slice C4]
func.func @main(%x: tensor<8xf32>, %i: tensor<i32>) -> tensor<1000xf32> {
  %0 = "stablehlo.dynamic_slice"(%x, %i) <{slice_sizes = array<i64: -9223372036854775808>}> : (tensor<8xf32>, tensor<i32>) -> tensor<1000xf32>
  return %0 : tensor<1000xf32>
}

// -----

// finding: @main: stablehlo.broadcast: broadcast_sizes holds -9223372036854775808 [broadcast]
func.func @main(%x: tensor<8xf32>) -> tensor<1000x8xf32> {
  %0 = "stablehlo.broadcast"(%x) <{broadcast_sizes = array<i64: -9223372036854775808>}> : (tensor<8xf32>) -> tensor<1000x8xf32>
  return %0 : tensor<1000x8xf32>
}

// -----

// finding: @main: stablehlo.gather: slice_sizes[0] is -9223372036854775808 [gather C21]
func.func @main(%x: tensor<8xf32>, %i: tensor<1x1xi32>) -> tensor<1x1000xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: -9223372036854775808>}> : (tensor<8xf32>, tensor<1x1xi32>) -> tensor<1x1000xf32>
  return %0 : tensor<1x1000xf32>
}

// -----

// finding: @main: stablehlo.fft: fft_length holds -9223372036854775808 [fft C4]
func.func @main(%x: tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>> {
  %0 = "stablehlo.fft"(%x) <{fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: -9223372036854775808>}> : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  return %0 : tensor<8xcomplex<f32>>
}

// -----

// finding: @main: stablehlo.fft: fft_length dim 0 is 4096, end of the operand dim 0 is 8 [fft C4]
func.func @main(%x: tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>> {
  %0 = "stablehlo.fft"(%x) <{fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 4096>}> : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  return %0 : tensor<8xcomplex<f32>>
}

// -----

// finding: @main: stablehlo.fft: fft_length holds -9223372036854775808 [fft C4]
func.func @main(%x: tensor<8xf32>) -> tensor<5xcomplex<f32>> {
  %0 = "stablehlo.fft"(%x) <{fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: -9223372036854775808>}> : (tensor<8xf32>) -> tensor<5xcomplex<f32>>
  return %0 : tensor<5xcomplex<f32>>
}

// -----

// finding: @main: chlo.top_k: k is -9223372036854775808, the last dimension is 8 [chlo.top_k]
func.func @main(%x: tensor<8xf32>) -> (tensor<9xf32>, tensor<9xi32>) {
  %0:2 = "chlo.top_k"(%x) <{k = -9223372036854775808 : i64}> : (tensor<8xf32>) -> (tensor<9xf32>, tensor<9xi32>)
  return %0#0, %0#1 : tensor<9xf32>, tensor<9xi32>
}

// -----

// finding: @main: stablehlo.dynamic_gather: slice_sizes[0] is -9223372036854775808 [dynamic_gather C12]
func.func @main(%x: tensor<8xf32>, %i: tensor<1x1xi32>) -> tensor<1x1000xf32> {
  %s = stablehlo.constant dense<-9223372036854775808> : tensor<1xi64>
  %0 = "stablehlo.dynamic_gather"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>}> : (tensor<8xf32>, tensor<1x1xi32>, tensor<1xi64>) -> tensor<1x1000xf32>
  return %0 : tensor<1x1000xf32>
}

// -----

// finding: @main: stablehlo.rng: shape[0] is -9223372036854775808 [rng C3]
func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<1000xf32> {
  %s = stablehlo.constant dense<-9223372036854775808> : tensor<1xi64>
  %0 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<1000xf32>
  return %0 : tensor<1000xf32>
}

// -----

// finding: @main: stablehlo.dynamic_pad: operand dim 0 is 0, padded negative or beyond 64 bits, result dim 0 is 1000 [dynamic_pad C4]
func.func @main(%x: tensor<0xf32>, %z: tensor<f32>) -> tensor<1000xf32> {
  %l = stablehlo.constant dense<-9223372036854775808> : tensor<1xi64>
  %h = stablehlo.constant dense<0> : tensor<1xi64>
  %0 = stablehlo.dynamic_pad %x, %z, %l, %h, %h : (tensor<0xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<1000xf32>
  return %0 : tensor<1000xf32>
}

// -----

// finding: @main: stablehlo.convolution: the window over dim 0 overflows 64 bits [convolution C25]
func.func @main(%x: tensor<1x4x4x1xf32>, %k: tensor<3x3x1x1xf32>) -> tensor<1x1000x1000x1xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[-9223372036854775808, -9223372036854775808], [-9223372036854775808, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x4x1xf32>, tensor<3x3x1x1xf32>) -> tensor<1x1000x1000x1xf32>
  return %0 : tensor<1x1000x1000x1xf32>
}

// -----

// finding: @main: stablehlo.dot_general: lhs is tensor<4x4xcomplex<f32>>, rhs is tensor<4x4xcomplex<f32>>, the result is tensor<4x4xf32>: all must be complex or none [dot_general C13]
func.func @main(%x: tensor<4x4xcomplex<f32>>, %y: tensor<4x4xcomplex<f32>>) -> tensor<4x4xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x4xcomplex<f32>>, tensor<4x4xcomplex<f32>>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// finding: @main: stablehlo.dot: lhs is tensor<4x4xf32>, rhs is tensor<4x4xcomplex<f32>>, the result is tensor<4x4xcomplex<f32>>: all must be complex or none [dot]
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>> {
  %0 = stablehlo.dot %x, %y : (tensor<4x4xf32>, tensor<4x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>
  return %0 : tensor<4x4xcomplex<f32>>
}

// -----

// finding: @main: stablehlo.einsum: the summation dim 0 is 4, result dim 0 is 60 [einsum]
func.func @main(%x: tensor<4x5xf32>, %y: tensor<5x6xf32>) -> tensor<60x60xf32> {
  %0 = stablehlo.einsum %x, %y, config = "ab,bc->ac" : (tensor<4x5xf32>, tensor<5x6xf32>) -> tensor<60x60xf32>
  return %0 : tensor<60x60xf32>
}

// -----

// finding: @main: stablehlo.unary_einsum: the summation dim 0 is 5, result dim 0 is 40 [unary_einsum]
func.func @main(%x: tensor<4x5xf32>) -> tensor<40x50xf32> {
  %0 = stablehlo.unary_einsum %x, config = "ab->ba" : (tensor<4x5xf32>) -> tensor<40x50xf32>
  return %0 : tensor<40x50xf32>
}

// -----

// finding: @main: stablehlo.torch_index_select: the selection dim 1 is 5, result dim 1 is 500 [torch_index_select]
func.func @main(%x: tensor<4x5xf32>, %i: tensor<2xi32>) -> tensor<2x500xf32> {
  %0 = "stablehlo.torch_index_select"(%x, %i) <{dim = 0 : i64, batch_dims = 0 : i64}> : (tensor<4x5xf32>, tensor<2xi32>) -> tensor<2x500xf32>
  return %0 : tensor<2x500xf32>
}

// -----

// finding: @main: stablehlo.rng_bit_generator: initial_state is tensor<2x2xui64>, a vector of ui64 expected [rng_bit_generator I2]
func.func @main(%s: tensor<2x2xui64>) -> (tensor<2x2xui64>, tensor<4xui32>) {
  %0:2 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2x2xui64>) -> (tensor<2x2xui64>, tensor<4xui32>)
  return %0#0, %0#1 : tensor<2x2xui64>, tensor<4xui32>
}

// -----

// finding: @main: stablehlo.rng_bit_generator: initial_state is tensor<1xi8>, a vector of ui64 expected [rng_bit_generator I2]
func.func @main(%s: tensor<1xi8>) -> (tensor<1xi8>, tensor<4xui32>) {
  %0:2 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<1xi8>) -> (tensor<1xi8>, tensor<4xui32>)
  return %0#0, %0#1 : tensor<1xi8>, tensor<4xui32>
}

// -----

// finding: @main: chlo.scan: the body returns tensor<2xf32> for carry 0, which is tensor<8xf32> [chlo.scan]
func.func @main(%x: tensor<4xf32>, %c: tensor<8xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %0:2 = "chlo.scan"(%x, %c) <{dimension = 0 : i64, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%e: tensor<f32>, %d: tensor<8xf32>):
    %n = stablehlo.constant dense<0.0> : tensor<2xf32>
    stablehlo.return %e, %n : tensor<f32>, tensor<2xf32>
  }) : (tensor<4xf32>, tensor<8xf32>) -> (tensor<4xf32>, tensor<2xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<2xf32>
}

// -----

// finding: @main: chlo.scan: scan_dim_size is -9223372036854775808 [chlo.scan]
func.func @main(%c: tensor<f32>) -> (tensor<1000xf32>, tensor<f32>) {
  %0:2 = "chlo.scan"(%c) <{dimension = 0 : i64, scan_dim_size = -9223372036854775808 : i64, operandSegmentSizes = array<i32: 0, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%d: tensor<f32>):
    stablehlo.return %d, %d : tensor<f32>, tensor<f32>
  }) : (tensor<f32>) -> (tensor<1000xf32>, tensor<f32>)
  return %0#0, %0#1 : tensor<1000xf32>, tensor<f32>
}

// -----

// finding: @main: stablehlo.custom_call: operand 0 is tensor<4xf32>, result 0 is tensor<4000xf32> [custom_call annotation]
func.func @main(%x: tensor<4xf32>) -> tensor<4000xf32> {
  %0 = stablehlo.custom_call @Sharding(%x) : (tensor<4xf32>) -> tensor<4000xf32>
  return %0 : tensor<4000xf32>
}

// -----

// finding: @main: stablehlo.custom_call: operand 0 is tensor<4xf32>, result 0 is tensor<4000xf32> [custom_call annotation]
func.func @main(%x: tensor<4xf32>) -> tensor<4000xf32> {
  %0 = stablehlo.custom_call @annotate_device_placement(%x) : (tensor<4xf32>) -> tensor<4000xf32>
  return %0 : tensor<4000xf32>
}

// -----

// finding: @main: stablehlo.custom_call: operand 0 is tensor<4xf32>, result 0 is tensor<4000xf32> [custom_call annotation]
func.func @main(%x: tensor<4xf32>) -> tensor<4000xf32> {
  %0 = stablehlo.custom_call @LayoutConstraint(%x) : (tensor<4xf32>) -> tensor<4000xf32>
  return %0 : tensor<4000xf32>
}

// -----

// finding: @main: stablehlo.custom_call: operand 0 is tensor<4xf32>, result 0 is tensor<4000xf32> [custom_call annotation]
func.func @main(%x: tensor<4xf32>) -> tensor<4000xf32> {
  %0 = stablehlo.custom_call @MoveToHost(%x) : (tensor<4xf32>) -> tensor<4000xf32>
  return %0 : tensor<4000xf32>
}

// -----

// finding: @main: stablehlo.custom_call: element type of operand is f32, of result is f64 [custom_call annotation]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf64> {
  %0 = stablehlo.custom_call @SPMDFullToShardShape(%x) : (tensor<4xf32>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}

// -----

// finding: @main: builtin.unrealized_conversion_cast: operand 0 is tensor<4xf32>, result 0 is tensor<4000xf32>; a cast between tensors keeps the type
func.func @main(%x: tensor<4xf32>) -> tensor<4000xf32> {
  %0 = "builtin.unrealized_conversion_cast"(%x) : (tensor<4xf32>) -> tensor<4000xf32>
  return %0 : tensor<4000xf32>
}

// -----

// finding: @main: interpreter.run_parallel: @other takes (tensor<4xf32>) and returns (tensor<4000xf32>), which its part of operands (tensor<4xf32>) and results (tensor<4xf32>) is not [interpreter.run_parallel]
module {
  func.func private @other(%x: tensor<4xf32>) -> tensor<4000xf32>
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "interpreter.run_parallel"(%x) {programs = [[@other]]} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// finding: @main: stablehlo.custom_call: @Qr takes a real or complex matrix, not tensor<3x3xi1> [custom_call factorization]
func.func @main(%x: tensor<3x3xi1>) -> tensor<3x3xi1> {
  %0 = stablehlo.custom_call @Qr(%x) : (tensor<3x3xi1>) -> tensor<3x3xi1>
  return %0 : tensor<3x3xi1>
}

// -----

// finding: @main: stablehlo.custom_call: @lapack_sgetrf_ffi takes and gives numbers, not tensor<3xi1> [custom_call factorization]
func.func @main(%x: tensor<3x3xf32>) -> tensor<3xi1> {
  %0:2 = stablehlo.custom_call @lapack_sgetrf_ffi(%x) : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xi1>)
  return %0#1 : tensor<3xi1>
}
