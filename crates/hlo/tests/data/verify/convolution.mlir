// finding: none
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: the window's result dim 1 is 6, result dim 1 is 8 [convolution C25]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x8x8x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x8x8x16xf32>
  return %r : tensor<1x8x8x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: lhs has rank 4, rhs has rank 3 [convolution C1]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x8x8x4xf32>, tensor<3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: kernel input feature dimension is 5, input feature dimension is 4 in 1 groups [convolution C14]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x5x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x8x8x4xf32>, tensor<3x3x5x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: input feature dimension is 4, not a multiple of 3 [convolution C11]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 3 : i64, batch_group_count = 1 : i64}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: kernel output feature dimension is 15, not a multiple of 2 [convolution C16]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x2x15xf32>) -> tensor<1x6x6x15xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 2 : i64, batch_group_count = 1 : i64}> : (tensor<1x8x8x4xf32>, tensor<3x3x2x15xf32>) -> tensor<1x6x6x15xf32>
  return %r : tensor<1x6x6x15xf32>
}

// -----

// finding: @main: stablehlo.convolution: input batch dimension is 3, not a multiple of 2 [convolution C10]
func.func @main(%a0: tensor<3x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 2 : i64}> : (tensor<3x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: kernel output feature dimension is 15, not a multiple of 2 [convolution C15]
func.func @main(%a0: tensor<2x8x8x4xf32>, %a1: tensor<3x3x4x15xf32>) -> tensor<1x6x6x15xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 2 : i64}> : (tensor<2x8x8x4xf32>, tensor<3x3x4x15xf32>) -> tensor<1x6x6x15xf32>
  return %r : tensor<1x6x6x15xf32>
}

// -----

// finding: @main: stablehlo.convolution: feature_group_count is 2 and batch_group_count is 2; one of them must be 1 [convolution C23]
func.func @main(%a0: tensor<2x8x8x4xf32>, %a1: tensor<3x3x2x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 2 : i64, batch_group_count = 2 : i64}> : (tensor<2x8x8x4xf32>, tensor<3x3x2x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: feature_group_count is 0 [convolution C21]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 0 : i64, batch_group_count = 1 : i64}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: batch_group_count is 0 [convolution C22]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 0 : i64}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: window_strides has 1 elements, 2 expected [convolution C2]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64, window_strides = array<i64: 2>}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: window_strides holds 0, which is not positive [convolution C3]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64, window_strides = array<i64: 0, 1>}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: padding has shape [3, 2], [2, 2] expected [convolution C4]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64, padding = dense<1> : tensor<3x2xi64>}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: lhs_dilation has 1 elements, 2 expected [convolution C5]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64, lhs_dilation = array<i64: 2>}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: rhs_dilation holds -1, which is not positive [convolution C8]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64, rhs_dilation = array<i64: 1, -1>}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: window_reversal has 1 elements, 2 expected [convolution C9]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64, window_reversal = array<i1: true>}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: element type of lhs is f32, of rhs is i32 [convolution C27]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xi32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xi32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: precision_config has 3 elements, 2 expected [convolution C24]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGH>, #stablehlo<precision HIGH>]}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}

// -----

// finding: @main: stablehlo.convolution: window_strides has 1 elements, 2 expected [convolution C2]
func.func @main(%a0: tensor<1x8x8x4xf32>, %a1: tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32> {
  %r = "stablehlo.convolution"(%a0, %a1) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64, window_strides = array<i64: 1>}> : (tensor<1x8x8x4xf32>, tensor<3x3x4x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}
