// finding: @main: stablehlo.add: operand 0 dim 0 is 2, operand 1 dim 0 is 3 [add C1]
func.func @main(%a0: tensor<2xf32>, %a1: tensor<3xf32>) -> tensor<2xf32> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// finding: @main: stablehlo.add: element type of operand 0 is f32, of operand 1 is i32 [add C1]
func.func @main(%a0: tensor<2xf32>, %a1: tensor<2xi32>) -> tensor<2xf32> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// finding: none
func.func @main(%a0: tensor<?xf32>, %a1: tensor<3xf32>) -> tensor<?xf32> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<?xf32>, tensor<3xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

// finding: @main: stablehlo.add: result 0 must be tensor<2xf32>, is tensor<3xf32> [add C1]
func.func @main(%a0: tensor<2xf32>, %a1: tensor<2xf32>) -> tensor<3xf32> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// finding: @main: stablehlo.cosine: operand 0 must be a tensor of floating-point or complex or per-tensor quantized type, is tensor<2xi32> [cosine I1]
func.func @main(%a0: tensor<2xi32>) -> tensor<2xi32> {
  %r = "stablehlo.cosine"(%a0) : (tensor<2xi32>) -> tensor<2xi32>
  return %r : tensor<2xi32>
}

// -----

// finding: @main: stablehlo.not: operand 0 must be a tensor of boolean or signed integer or unsigned integer type, is tensor<2xf32> [not I1]
func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.not"(%a0) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// finding: @main: stablehlo.abs: operand 0 must be a tensor of signed integer or floating-point or complex or per-tensor quantized type, is tensor<2xui8> [abs I1]
func.func @main(%a0: tensor<2xui8>) -> tensor<2xui8> {
  %r = "stablehlo.abs"(%a0) : (tensor<2xui8>) -> tensor<2xui8>
  return %r : tensor<2xui8>
}

// -----

// finding: @main: stablehlo.abs: result 0 must be tensor<2xf32>, is tensor<2xcomplex<f32>> [abs C2]
func.func @main(%a0: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  %r = "stablehlo.abs"(%a0) : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return %r : tensor<2xcomplex<f32>>
}

// -----

// finding: @main: stablehlo.subtract: operand 0 must be a tensor of signed integer or unsigned integer or floating-point or complex or per-tensor quantized type, is tensor<i1> [subtract I1]
func.func @main(%a0: tensor<i1>, %a1: tensor<i1>) -> tensor<i1> {
  %r = "stablehlo.subtract"(%a0, %a1) : (tensor<i1>, tensor<i1>) -> tensor<i1>
  return %r : tensor<i1>
}

// -----

// finding: @main: stablehlo.shift_left: operand 0 must be a tensor of signed integer or unsigned integer type, is tensor<2xf32> [shift_left I1]
func.func @main(%a0: tensor<2xf32>, %a1: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.shift_left"(%a0, %a1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// finding: @main: stablehlo.is_finite: result 0 must be tensor<2xi1>, is tensor<2xi8> [is_finite C1]
func.func @main(%a0: tensor<2xf32>) -> tensor<2xi8> {
  %r = "stablehlo.is_finite"(%a0) : (tensor<2xf32>) -> tensor<2xi8>
  return %r : tensor<2xi8>
}

// -----

// finding: @main: stablehlo.complex: element type of lhs is f32, of rhs is f64 [complex C1]
func.func @main(%a0: tensor<2xf32>, %a1: tensor<2xf64>) -> tensor<2xcomplex<f32>> {
  %r = "stablehlo.complex"(%a0, %a1) : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xcomplex<f32>>
  return %r : tensor<2xcomplex<f32>>
}

// -----

// finding: @main: stablehlo.complex: operand 0 must be a tensor of f32 or f64, is tensor<2xbf16> [complex I1]
func.func @main(%a0: tensor<2xbf16>, %a1: tensor<2xbf16>) -> tensor<2xcomplex<f32>> {
  %r = "stablehlo.complex"(%a0, %a1) : (tensor<2xbf16>, tensor<2xbf16>) -> tensor<2xcomplex<f32>>
  return %r : tensor<2xcomplex<f32>>
}

// -----

// finding: @main: stablehlo.compare: element type of lhs is f32, of rhs is i32 [compare C1]
func.func @main(%a0: tensor<2xf32>, %a1: tensor<2xi32>) -> tensor<2xi1> {
  %r = "stablehlo.compare"(%a0, %a1) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}

// -----

// finding: @main: stablehlo.compare: compare_type does not go with elements of type i32 [compare C3]
func.func @main(%a0: tensor<2xi32>, %a1: tensor<2xi32>) -> tensor<2xi1> {
  %r = "stablehlo.compare"(%a0, %a1) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}

// -----

// finding: @main: stablehlo.convert: operand dim 0 is 2, result dim 0 is 3 [convert C1]
func.func @main(%a0: tensor<2xf32>) -> tensor<3xi32> {
  %r = "stablehlo.convert"(%a0) : (tensor<2xf32>) -> tensor<3xi32>
  return %r : tensor<3xi32>
}

// -----

// finding: @main: stablehlo.clamp: min dim 0 is 2, operand dim 0 is 3 [clamp C1]
func.func @main(%a0: tensor<2xf32>, %a1: tensor<3xf32>, %a2: tensor<f32>) -> tensor<3xf32> {
  %r = "stablehlo.clamp"(%a0, %a1, %a2) : (tensor<2xf32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// finding: @main: stablehlo.clamp: element type of max is f64, of operand is f32 [clamp C3]
func.func @main(%a0: tensor<f32>, %a1: tensor<3xf32>, %a2: tensor<f64>) -> tensor<3xf32> {
  %r = "stablehlo.clamp"(%a0, %a1, %a2) : (tensor<f32>, tensor<3xf32>, tensor<f64>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// finding: @main: stablehlo.select: pred dim 0 is 2, on_true dim 0 is 3 [select C1]
func.func @main(%a0: tensor<2xi1>, %a1: tensor<3xf32>, %a2: tensor<3xf32>) -> tensor<3xf32> {
  %r = "stablehlo.select"(%a0, %a1, %a2) : (tensor<2xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// finding: @main: stablehlo.select: element type of on_true is f32, of on_false is f64 [select C2]
func.func @main(%a0: tensor<i1>, %a1: tensor<3xf32>, %a2: tensor<3xf64>) -> tensor<3xf32> {
  %r = "stablehlo.select"(%a0, %a1, %a2) : (tensor<i1>, tensor<3xf32>, tensor<3xf64>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// finding: @main: stablehlo.select: operand 0 must be a tensor of boolean type, is tensor<i8> [select I1]
func.func @main(%a0: tensor<i8>, %a1: tensor<3xf32>, %a2: tensor<3xf32>) -> tensor<3xf32> {
  %r = "stablehlo.select"(%a0, %a1, %a2) : (tensor<i8>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// finding: @main: stablehlo.bitcast_convert: the last dimension is 3, but 32-bit elements are made of 8-bit ones [bitcast_convert C1]
func.func @main(%a0: tensor<4xf32>) -> tensor<4x3xi8> {
  %r = "stablehlo.bitcast_convert"(%a0) : (tensor<4xf32>) -> tensor<4x3xi8>
  return %r : tensor<4x3xi8>
}

// -----

// finding: @main: stablehlo.bitcast_convert: the side with 8-bit elements has rank 1, 2 expected [bitcast_convert C1]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xi8> {
  %r = "stablehlo.bitcast_convert"(%a0) : (tensor<4xf32>) -> tensor<4xi8>
  return %r : tensor<4xi8>
}

// -----

// finding: @main: stablehlo.bitcast_convert: operand is tensor<2xcomplex<f32>>, result is tensor<2xf64>: both must be complex or neither [bitcast_convert C2]
func.func @main(%a0: tensor<2xcomplex<f32>>) -> tensor<2xf64> {
  %r = "stablehlo.bitcast_convert"(%a0) : (tensor<2xcomplex<f32>>) -> tensor<2xf64>
  return %r : tensor<2xf64>
}

// -----

// finding: @main: stablehlo.reduce_precision: exponent_bits is 0 [reduce_precision C2]
func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.reduce_precision"(%a0) <{exponent_bits = 0 : i32, mantissa_bits = 3 : i32}> : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// finding: @main: stablehlo.reduce_precision: mantissa_bits is -1 [reduce_precision C3]
func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.reduce_precision"(%a0) <{exponent_bits = 4 : i32, mantissa_bits = -1 : i32}> : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// finding: @main: stablehlo.map: dimensions are [1], every dimension of rank 1 in order expected [map C3]
func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.map"(%a0) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// finding: @main: stablehlo.map: the computation's argument 0 is tensor<i32>, tensor<f32> expected [map C4]
func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.map"(%a0) <{dimensions = array<i64: 0>}> ({
  ^bb0(%x: tensor<i32>):
    stablehlo.return %x : tensor<i32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
