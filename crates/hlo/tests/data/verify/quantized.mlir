func.func @main(%a0: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %a1: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @main(%a0: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, %a1: tensor<2x!quant.uniform<i16:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x!quant.uniform<i16:f32, 0.5:3>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  return %r : tensor<2x!quant.uniform<i8:f32, 0.5:3>>
}

// -----

func.func @main(%a0: tensor<2x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>> {
  %r = "stablehlo.tanh"(%a0) : (tensor<2x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>
  return %r : tensor<2x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>
}

// -----

func.func @main(%a0: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf64> {
  %r = "stablehlo.uniform_dequantize"(%a0) : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf64>
  return %r : tensor<2xf64>
}

// -----

func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.uniform_dequantize"(%a0) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @main(%a0: tensor<2xf64>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>> {
  %r = "stablehlo.uniform_quantize"(%a0) : (tensor<2xf64>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  return %r : tensor<2x!quant.uniform<i8:f32, 0.5:3>>
}

// -----

func.func @main(%a0: tensor<3x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>) -> tensor<2x3x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>> {
  %r = "stablehlo.transpose"(%a0) <{permutation = array<i64: 1, 0>}> : (tensor<3x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>) -> tensor<2x3x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>
  return %r : tensor<2x3x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>
}

// -----

func.func @main(%a0: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.25:3>> {
  %r = "stablehlo.reshape"(%a0) : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.25:3>>
  return %r : tensor<1x2x!quant.uniform<i8:f32, 0.25:3>>
}

// -----

func.func @main(%a0: tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>, %a1: tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5:3>> {
  %r = "stablehlo.dot_general"(%a0, %a1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>, tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
  return %r : tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
}

// -----

func.func @main(%x: tensor<2x!quant.uniform<i8:f32:1, {0.5:3, 0.25:0}>>) {
  return
}

// -----

func.func @main(%x: tensor<3x!quant.uniform<i8:f32:0, {0.5:3, 0.25:0}>>) {
  return
}

// -----

func.func @main(%x: tensor<3x!quant.uniform<i8:f16, 100000.0>>) {
  return
}
