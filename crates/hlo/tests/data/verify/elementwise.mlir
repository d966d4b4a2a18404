func.func @main(%a0: tensor<2xf32>, %a1: tensor<3xf32>) -> tensor<2xf32> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @main(%a0: tensor<2xf32>, %a1: tensor<2xi32>) -> tensor<2xf32> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @main(%a0: tensor<?xf32>, %a1: tensor<3xf32>) -> tensor<?xf32> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<?xf32>, tensor<3xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// -----

func.func @main(%a0: tensor<2xf32>, %a1: tensor<2xf32>) -> tensor<3xf32> {
  %r = "stablehlo.add"(%a0, %a1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @main(%a0: tensor<2xi32>) -> tensor<2xi32> {
  %r = "stablehlo.cosine"(%a0) : (tensor<2xi32>) -> tensor<2xi32>
  return %r : tensor<2xi32>
}

// -----

func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.not"(%a0) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @main(%a0: tensor<2xui8>) -> tensor<2xui8> {
  %r = "stablehlo.abs"(%a0) : (tensor<2xui8>) -> tensor<2xui8>
  return %r : tensor<2xui8>
}

// -----

func.func @main(%a0: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  %r = "stablehlo.abs"(%a0) : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return %r : tensor<2xcomplex<f32>>
}

// -----

func.func @main(%a0: tensor<i1>, %a1: tensor<i1>) -> tensor<i1> {
  %r = "stablehlo.subtract"(%a0, %a1) : (tensor<i1>, tensor<i1>) -> tensor<i1>
  return %r : tensor<i1>
}

// -----

func.func @main(%a0: tensor<2xf32>, %a1: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.shift_left"(%a0, %a1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @main(%a0: tensor<2xf32>) -> tensor<2xi8> {
  %r = "stablehlo.is_finite"(%a0) : (tensor<2xf32>) -> tensor<2xi8>
  return %r : tensor<2xi8>
}

// -----

func.func @main(%a0: tensor<2xf32>, %a1: tensor<2xf64>) -> tensor<2xcomplex<f32>> {
  %r = "stablehlo.complex"(%a0, %a1) : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xcomplex<f32>>
  return %r : tensor<2xcomplex<f32>>
}

// -----

func.func @main(%a0: tensor<2xbf16>, %a1: tensor<2xbf16>) -> tensor<2xcomplex<f32>> {
  %r = "stablehlo.complex"(%a0, %a1) : (tensor<2xbf16>, tensor<2xbf16>) -> tensor<2xcomplex<f32>>
  return %r : tensor<2xcomplex<f32>>
}

// -----

func.func @main(%a0: tensor<2xf32>, %a1: tensor<2xi32>) -> tensor<2xi1> {
  %r = "stablehlo.compare"(%a0, %a1) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}

// -----

func.func @main(%a0: tensor<2xi32>, %a1: tensor<2xi32>) -> tensor<2xi1> {
  %r = "stablehlo.compare"(%a0, %a1) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}

// -----

func.func @main(%a0: tensor<2xf32>) -> tensor<3xi32> {
  %r = "stablehlo.convert"(%a0) : (tensor<2xf32>) -> tensor<3xi32>
  return %r : tensor<3xi32>
}

// -----

func.func @main(%a0: tensor<2xf32>, %a1: tensor<3xf32>, %a2: tensor<f32>) -> tensor<3xf32> {
  %r = "stablehlo.clamp"(%a0, %a1, %a2) : (tensor<2xf32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @main(%a0: tensor<f32>, %a1: tensor<3xf32>, %a2: tensor<f64>) -> tensor<3xf32> {
  %r = "stablehlo.clamp"(%a0, %a1, %a2) : (tensor<f32>, tensor<3xf32>, tensor<f64>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @main(%a0: tensor<2xi1>, %a1: tensor<3xf32>, %a2: tensor<3xf32>) -> tensor<3xf32> {
  %r = "stablehlo.select"(%a0, %a1, %a2) : (tensor<2xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @main(%a0: tensor<i1>, %a1: tensor<3xf32>, %a2: tensor<3xf64>) -> tensor<3xf32> {
  %r = "stablehlo.select"(%a0, %a1, %a2) : (tensor<i1>, tensor<3xf32>, tensor<3xf64>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @main(%a0: tensor<i8>, %a1: tensor<3xf32>, %a2: tensor<3xf32>) -> tensor<3xf32> {
  %r = "stablehlo.select"(%a0, %a1, %a2) : (tensor<i8>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4x3xi8> {
  %r = "stablehlo.bitcast_convert"(%a0) : (tensor<4xf32>) -> tensor<4x3xi8>
  return %r : tensor<4x3xi8>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xi8> {
  %r = "stablehlo.bitcast_convert"(%a0) : (tensor<4xf32>) -> tensor<4xi8>
  return %r : tensor<4xi8>
}

// -----

func.func @main(%a0: tensor<2xcomplex<f32>>) -> tensor<2xf64> {
  %r = "stablehlo.bitcast_convert"(%a0) : (tensor<2xcomplex<f32>>) -> tensor<2xf64>
  return %r : tensor<2xf64>
}

// -----

func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.reduce_precision"(%a0) <{exponent_bits = 0 : i32, mantissa_bits = 3 : i32}> : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.reduce_precision"(%a0) <{exponent_bits = 4 : i32, mantissa_bits = -1 : i32}> : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.map"(%a0) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @main(%a0: tensor<2xf32>) -> tensor<2xf32> {
  %r = "stablehlo.map"(%a0) <{dimensions = array<i64: 0>}> ({
  ^bb0(%x: tensor<i32>):
    stablehlo.return %x : tensor<i32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
