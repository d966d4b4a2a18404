// finding: @main: stablehlo.add: result 0 must be tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>, is tensor<2xf32> [add C1]
func.func @main(%a0: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %a1: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// finding: @main: stablehlo.add: storage types of lhs, rhs and result are i8, i16 and i8 [add C3]
func.func @main(%a0: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %a1: tensor<2x!quant.uniform<i16:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i16:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  return %r : tensor<2x!quant.uniform<i8:f32, 0.5:3>>
}

// -----

// finding: @main: stablehlo.tanh: operand 0 must be a tensor of floating-point or complex or per-tensor quantized type, is tensor<2x2x!quant.uniform<i8:f32:1, {5.000000e-01:3, 2.500000e-01}>> [tanh I1]
func.func @main(%a0: tensor<2x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>> {
  %r = "stablehlo.tanh"(%a0) : (tensor<2x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>
  return %r : tensor<2x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>
}

// -----

// finding: @main: stablehlo.uniform_dequantize: result 0 must be tensor<2xf32>, is tensor<2xf64> [uniform_dequantize C2]
func.func @main(%a0: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf64> {
  %r = "stablehlo.uniform_dequantize"(%a0) : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf64>
  return %r : tensor<2xf64>
}

// -----

// finding: @main: stablehlo.uniform_dequantize: the operand must be quantized, is tensor<2xf32> [uniform_dequantize I1]
func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.uniform_dequantize"(%a0) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// finding: @main: stablehlo.uniform_quantize: the operand tensor<2xf64> and the result tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>> express different types [uniform_quantize C2]
func.func @main(%a0: tensor<2xf64>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>> {
  %r = "stablehlo.uniform_quantize"(%a0) : (tensor<2xf64>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  return %r : tensor<2x!quant.uniform<i8:f32, 0.5:3>>
}

// -----

// finding: @main: func.func: result 0: quantized dimension 1 is 3 and there are 2 scales [quantized type]
// finding: @main: stablehlo.transpose: result 0: quantized dimension 1 is 3 and there are 2 scales [quantized type]
func.func @main(%a0: tensor<3x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>) -> tensor<2x3x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>> {
  %r = "stablehlo.transpose"(%a0) <{permutation = array<i64: 1, 0>}> : (tensor<3x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>) -> tensor<2x3x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>
  return %r : tensor<2x3x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>
}

// -----

// finding: @main: stablehlo.reshape: scales or zero points of operand and result differ [reshape C1]
func.func @main(%a0: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.25:3>> {
  %r = "stablehlo.reshape"(%a0) : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.25:3>>
  return %r : tensor<1x2x!quant.uniform<i8:f32, 0.25:3>>
}

// -----

// finding: @main: stablehlo.dot_general: zero points of rhs must be 0, are [3] [dot_general C15]
func.func @main(%a0: tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>, %a1: tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5:3>> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
  return %r : tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
}

// -----

// finding: @main: func.func: argument 0: quantized dimension 1 of a tensor of rank 1 [quantized type]
func.func @main(%x: tensor<2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>) {
  return
}

// -----

// finding: @main: func.func: argument 0: quantized dimension 0 is 3 and there are 2 scales [quantized type]
func.func @main(%x: tensor<3x!quant.uniform<i8:f32:0, {0.5:3, 0.25:0}>>) {
  return
}

// -----

// finding: @main: func.func: argument 0: scale 100000 does not fit f16 [quantized type]
func.func @main(%x: tensor<3x!quant.uniform<i8:f16, 100000.0>>) {
  return
}
