// Meanings of elementwise ops at their edges.

func.func @integers_wrap() {
  %a = stablehlo.constant dense<[127, -128, 100]> : tensor<3xi8>
  %b = stablehlo.constant dense<[1, -1, 3]> : tensor<3xi8>
  %sum = stablehlo.add %a, %b : tensor<3xi8>
  check.expect_eq_const %sum, dense<[-128, 127, 103]> : tensor<3xi8>
  %product = stablehlo.multiply %a, %b : tensor<3xi8>
  check.expect_eq_const %product, dense<[127, -128, 44]> : tensor<3xi8>
  %quotient = stablehlo.divide %a, %b : tensor<3xi8>
  check.expect_eq_const %quotient, dense<[127, -128, 33]> : tensor<3xi8>
  %rest = stablehlo.remainder %a, %b : tensor<3xi8>
  check.expect_eq_const %rest, dense<[0, 0, 1]> : tensor<3xi8>
  %abs = stablehlo.abs %a : tensor<3xi8>
  check.expect_eq_const %abs, dense<[127, -128, 100]> : tensor<3xi8>
  %neg = stablehlo.negate %a : tensor<3xi8>
  check.expect_eq_const %neg, dense<[-127, -128, -100]> : tensor<3xi8>
  func.return
}

func.func @division_by_zero_gives_all_bits_set() {
  %a = stablehlo.constant dense<[5, 0]> : tensor<2xui8>
  %zero = stablehlo.constant dense<0> : tensor<2xui8>
  %quotient = stablehlo.divide %a, %zero : tensor<2xui8>
  check.expect_eq_const %quotient, dense<255> : tensor<2xui8>
  %rest = stablehlo.remainder %a, %zero : tensor<2xui8>
  check.expect_eq_const %rest, dense<[5, 0]> : tensor<2xui8>
  func.return
}

func.func @narrow_integers() {
  %a = stablehlo.constant dense<[7, -8, 3]> : tensor<3xi4>
  %sum = stablehlo.add %a, %a : tensor<3xi4>
  check.expect_eq_const %sum, dense<[-2, 0, 6]> : tensor<3xi4>
  %bits = stablehlo.popcnt %a : tensor<3xi4>
  check.expect_eq_const %bits, dense<[3, 1, 2]> : tensor<3xi4>
  %zeros = stablehlo.count_leading_zeros %a : tensor<3xi4>
  check.expect_eq_const %zeros, dense<[1, 0, 2]> : tensor<3xi4>
  func.return
}

func.func @shifts() {
  %a = stablehlo.constant dense<[-16, 16, 1]> : tensor<3xi32>
  %by = stablehlo.constant dense<[2, 40, -1]> : tensor<3xi32>
  %left = stablehlo.shift_left %a, %by : tensor<3xi32>
  check.expect_eq_const %left, dense<[-64, 0, 0]> : tensor<3xi32>
  %arithmetic = stablehlo.shift_right_arithmetic %a, %by : tensor<3xi32>
  check.expect_eq_const %arithmetic, dense<[-4, 0, 0]> : tensor<3xi32>
  %logical = stablehlo.shift_right_logical %a, %by : tensor<3xi32>
  check.expect_eq_const %logical, dense<[1073741820, 0, 0]> : tensor<3xi32>
  func.return
}

func.func @booleans_add_as_or() {
  %a = stablehlo.constant dense<[false, false, true, true]> : tensor<4xi1>
  %b = stablehlo.constant dense<[false, true, false, true]> : tensor<4xi1>
  %sum = stablehlo.add %a, %b : tensor<4xi1>
  check.expect_eq_const %sum, dense<[false, true, true, true]> : tensor<4xi1>
  %product = stablehlo.multiply %a, %b : tensor<4xi1>
  check.expect_eq_const %product, dense<[false, false, false, true]> : tensor<4xi1>
  %xor = stablehlo.xor %a, %b : tensor<4xi1>
  check.expect_eq_const %xor, dense<[false, true, true, false]> : tensor<4xi1>
  %not = stablehlo.not %a : tensor<4xi1>
  check.expect_eq_const %not, dense<[true, true, false, false]> : tensor<4xi1>
  func.return
}

func.func @every_step_is_rounded() {
  %big = stablehlo.constant dense<2048.0> : tensor<f16>
  %one = stablehlo.constant dense<1.0> : tensor<f16>
  %sum = stablehlo.add %big, %one : tensor<f16>
  check.expect_eq_const %sum, dense<2048.0> : tensor<f16>
  %third = stablehlo.constant dense<3.0> : tensor<bf16>
  %unit = stablehlo.constant dense<1.0> : tensor<bf16>
  %quotient = stablehlo.divide %unit, %third : tensor<bf16>
  check.expect_eq_const %quotient, dense<0.333984375> : tensor<bf16>
  func.return
}

func.func @nan_and_signed_zero() {
  %a = stablehlo.constant dense<[0x7FC00000, 1.0, -0.0, 0.0]> : tensor<4xf32>
  %b = stablehlo.constant dense<[1.0, 0x7FC00000, 0.0, -0.0]> : tensor<4xf32>
  %max = stablehlo.maximum %a, %b : tensor<4xf32>
  %bits = stablehlo.bitcast_convert %max : (tensor<4xf32>) -> tensor<4xi32>
  %zeros = stablehlo.slice %bits [2:4] : (tensor<4xi32>) -> tensor<2xi32>
  check.expect_eq_const %zeros, dense<0> : tensor<2xi32>
  %finite = stablehlo.is_finite %max : (tensor<4xf32>) -> tensor<4xi1>
  check.expect_eq_const %finite, dense<[false, false, true, true]> : tensor<4xi1>
  %eq = stablehlo.compare EQ, %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  check.expect_eq_const %eq, dense<[false, true, true, true]> : tensor<4xi1>
  %total = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  check.expect_eq_const %total, dense<[false, true, true, false]> : tensor<4xi1>
  %sign = stablehlo.sign %b : tensor<4xf32>
  check.expect_eq_const %sign, dense<[1.0, 0x7FC00000, 0.0, 0.0]> : tensor<4xf32>
  func.return
}

func.func @rounding() {
  %a = stablehlo.constant dense<[-2.5, -0.5, 0.5, 1.5, 2.5]> : tensor<5xf64>
  %even = stablehlo.round_nearest_even %a : tensor<5xf64>
  check.expect_eq_const %even, dense<[-2.0, 0.0, 0.0, 2.0, 2.0]> : tensor<5xf64>
  %afz = stablehlo.round_nearest_afz %a : tensor<5xf64>
  check.expect_eq_const %afz, dense<[-3.0, -1.0, 1.0, 2.0, 3.0]> : tensor<5xf64>
  %floor = stablehlo.floor %a : tensor<5xf64>
  check.expect_eq_const %floor, dense<[-3.0, -1.0, 0.0, 1.0, 2.0]> : tensor<5xf64>
  %ceil = stablehlo.ceil %a : tensor<5xf64>
  check.expect_eq_const %ceil, dense<[-2.0, 0.0, 1.0, 2.0, 3.0]> : tensor<5xf64>
  func.return
}

func.func @conversions() {
  %a = stablehlo.constant dense<[3.9, -3.9, 1.0e10, 0x7FC00000]> : tensor<4xf32>
  %i32 = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xi32>
  check.expect_eq_const %i32, dense<[3, -3, 2147483647, 0]> : tensor<4xi32>
  %i1 = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xi1>
  check.expect_eq_const %i1, dense<true> : tensor<4xi1>
  %ui8 = stablehlo.convert %i32 : (tensor<4xi32>) -> tensor<4xui8>
  check.expect_eq_const %ui8, dense<[3, 253, 255, 0]> : tensor<4xui8>
  %c = stablehlo.constant dense<(1.5, 2.0)> : tensor<complex<f32>>
  %real = stablehlo.convert %c : (tensor<complex<f32>>) -> tensor<f64>
  check.expect_eq_const %real, dense<1.5> : tensor<f64>
  %f8 = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
  %back = stablehlo.convert %f8 : (tensor<4xf8E4M3FN>) -> tensor<4xf32>
  check.expect_eq_const %back, dense<[4.0, -4.0, 0x7FC00000, 0x7FC00000]> : tensor<4xf32>
  func.return
}

func.func @bits_regroup() {
  %a = stablehlo.constant dense<0x3F800000> : tensor<ui32>
  %bytes = stablehlo.bitcast_convert %a : (tensor<ui32>) -> tensor<4xui8>
  check.expect_eq_const %bytes, dense<[0, 0, 128, 63]> : tensor<4xui8>
  %float = stablehlo.bitcast_convert %bytes : (tensor<4xui8>) -> tensor<f32>
  check.expect_eq_const %float, dense<1.0> : tensor<f32>
  %nibbles = stablehlo.bitcast_convert %bytes : (tensor<4xui8>) -> tensor<4x2xui4>
  check.expect_eq_const %nibbles, dense<[[0, 0], [0, 0], [0, 8], [15, 3]]> : tensor<4x2xui4>
  func.return
}

func.func @precision_is_reduced() {
  %a = stablehlo.constant dense<[3.1415927, 70000.0, 1.0e-6, 1.0]> : tensor<4xf32>
  %reduced = stablehlo.reduce_precision %a, format = e5m2 : tensor<4xf32>
  check.expect_eq_const %reduced, dense<[3.0, 0x7F800000, 0.0, 1.0]> : tensor<4xf32>
  func.return
}

func.func @powers() {
  %base = stablehlo.constant dense<[-1, 2, 0, 3]> : tensor<4xi64>
  %exponent = stablehlo.constant dense<[-3, -1, 0, 4]> : tensor<4xi64>
  %power = stablehlo.power %base, %exponent : tensor<4xi64>
  check.expect_eq_const %power, dense<[-1, 0, 1, 81]> : tensor<4xi64>
  func.return
}

func.func @complex_numbers() {
  %re = stablehlo.constant dense<[3.0, 0.0]> : tensor<2xf32>
  %im = stablehlo.constant dense<[4.0, -1.0]> : tensor<2xf32>
  %z = stablehlo.complex %re, %im : tensor<2xcomplex<f32>>
  %abs = stablehlo.abs %z : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  check.expect_eq_const %abs, dense<[5.0, 1.0]> : tensor<2xf32>
  %square = stablehlo.multiply %z, %z : tensor<2xcomplex<f32>>
  check.expect_eq_const %square, dense<[(-7.0, 24.0), (-1.0, 0.0)]> : tensor<2xcomplex<f32>>
  %root = stablehlo.sqrt %square : tensor<2xcomplex<f32>>
  check.expect_almost_eq_const %root, dense<[(3.0, 4.0), (0.0, -1.0)]> : tensor<2xcomplex<f32>>
  %quotient = stablehlo.divide %square, %z : tensor<2xcomplex<f32>>
  check.expect_almost_eq_const %quotient, dense<[(3.0, 4.0), (0.0, -1.0)]> : tensor<2xcomplex<f32>>
  %log = stablehlo.log %z : tensor<2xcomplex<f32>>
  %exp = stablehlo.exponential %log : tensor<2xcomplex<f32>>
  check.expect_almost_eq_const %exp, dense<[(3.0, 4.0), (0.0, -1.0)]> : tensor<2xcomplex<f32>>
  func.return
}

func.func @selection() {
  %on = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %b = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
  %each = stablehlo.select %on, %a, %b : tensor<2xi1>, tensor<2xi32>
  check.expect_eq_const %each, dense<[1, 4]> : tensor<2xi32>
  %off = stablehlo.constant dense<false> : tensor<i1>
  %all = stablehlo.select %off, %a, %b : tensor<i1>, tensor<2xi32>
  check.expect_eq_const %all, dense<[3, 4]> : tensor<2xi32>
  %low = stablehlo.constant dense<2> : tensor<i32>
  %high = stablehlo.constant dense<3> : tensor<i32>
  %clamped = stablehlo.clamp %low, %a, %high : (tensor<i32>, tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  check.expect_eq_const %clamped, dense<2> : tensor<2xi32>
  func.return
}
