// Meanings of CHLO ops and of quantized arithmetic.

func.func @special_functions() {
  %a = stablehlo.constant dense<[0.5, -0.25, 0.0]> : tensor<3xf64>
  %erf = chlo.erf %a : tensor<3xf64> -> tensor<3xf64>
  check.expect_almost_eq_const %erf, dense<[0.52049987781304654, -0.27632639016823693, 0.0]> : tensor<3xf64>, tolerance = 1.0e-15
  %back = chlo.erf_inv %erf : tensor<3xf64> -> tensor<3xf64>
  check.expect_almost_eq_const %back, dense<[0.5, -0.25, 0.0]> : tensor<3xf64>, tolerance = 1.0e-15
  %sinh = chlo.sinh %a : tensor<3xf64> -> tensor<3xf64>
  %asinh = chlo.asinh %sinh : tensor<3xf64> -> tensor<3xf64>
  check.expect_almost_eq_const %asinh, dense<[0.5, -0.25, 0.0]> : tensor<3xf64>, tolerance = 1.0e-15
  func.return
}

func.func @gamma_functions() {
  %a = stablehlo.constant dense<[5.0, 0.5]> : tensor<2xf64>
  %lgamma = chlo.lgamma %a : tensor<2xf64> -> tensor<2xf64>
  check.expect_almost_eq_const %lgamma, dense<[3.1780538303479458, 0.57236494292470008]> : tensor<2xf64>, tolerance = 1.0e-13
  %digamma = chlo.digamma %a : tensor<2xf64> -> tensor<2xf64>
  check.expect_almost_eq_const %digamma, dense<[1.5061176684318004, -1.9635100260214235]> : tensor<2xf64>, tolerance = 1.0e-13
  %one = stablehlo.constant dense<1.0> : tensor<2xf64>
  %trigamma = chlo.polygamma %one, %a : tensor<2xf64>, tensor<2xf64> -> tensor<2xf64>
  check.expect_almost_eq_const %trigamma, dense<[0.22132295573711533, 4.9348022005446793]> : tensor<2xf64>, tolerance = 1.0e-12
  func.return
}

func.func @broadcasting_ops() {
  %a = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi32>
  %b = stablehlo.constant dense<[10, 20]> : tensor<2xi32>
  %sum = chlo.broadcast_add %a, %b : (tensor<2x1xi32>, tensor<2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %sum, dense<[[11, 21], [12, 22]]> : tensor<2x2xi32>
  %along = chlo.broadcast_multiply %sum, %b {broadcast_dimensions = array<i64: 0>} : (tensor<2x2xi32>, tensor<2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %along, dense<[[110, 210], [240, 440]]> : tensor<2x2xi32>
  func.return
}

func.func @top_k_keeps_the_order_of_equals() {
  %a = stablehlo.constant dense<[[1.0, 3.0, 3.0, 2.0], [0x7FC00000, 0.0, -1.0, 5.0]]> : tensor<2x4xf32>
  %values, %indices = chlo.top_k(%a, k = 2) : tensor<2x4xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)
  check.expect_eq_const %values, dense<[[3.0, 3.0], [0x7FC00000, 5.0]]> : tensor<2x2xf32>
  check.expect_eq_const %indices, dense<[[1, 2], [0, 3]]> : tensor<2x2xi32>
  func.return
}

func.func @neighbours() {
  %a = stablehlo.constant dense<[1.0, 0.0]> : tensor<2xbf16>
  %b = stablehlo.constant dense<[2.0, -1.0]> : tensor<2xbf16>
  %next = chlo.next_after %a, %b : tensor<2xbf16>, tensor<2xbf16> -> tensor<2xbf16>
  %bits = stablehlo.bitcast_convert %next : (tensor<2xbf16>) -> tensor<2xui16>
  check.expect_eq_const %bits, dense<[16257, 32769]> : tensor<2xui16>
  func.return
}

func.func @quantized_arithmetic_goes_through_reals() {
  %a = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %q = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:10>>
  %sum = stablehlo.add %q, %q : tensor<2x!quant.uniform<i8:f32, 0.5:10>>
  %stored = stablehlo.bitcast_convert %sum : (tensor<2x!quant.uniform<i8:f32, 0.5:10>>) -> tensor<2xi8>
  check.expect_eq_const %stored, dense<[14, 18]> : tensor<2xi8>
  %real = stablehlo.uniform_dequantize %sum : (tensor<2x!quant.uniform<i8:f32, 0.5:10>>) -> tensor<2xf32>
  check.expect_eq_const %real, dense<[2.0, 4.0]> : tensor<2xf32>
  func.return
}
