// Factorizations as ops and as the custom calls of JAX, against numpy.

func.func @cholesky_of_either_triangle() {
  %c1 = stablehlo.constant dense<[[[4.0, 1.0, 2.0], [1.0, 5.0, 3.0], [2.0, 3.0, 6.0]], [[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [1.0, 1.0, 4.0]]]> : tensor<2x3x3xf64>
  %l = stablehlo.cholesky %c1, lower = true : tensor<2x3x3xf64>
  check.expect_almost_eq_const %l, dense<[[[2.0, 0.0, 0.0], [5.000000000e-01, 2.179449472e+00, 0.0], [1.0, 1.147078669e+00, 1.919429740e+00]], [[1.414213562e+00, 0.0, 0.0], [0.0, 1.732050808e+00, 0.0], [7.071067812e-01, 5.773502692e-01, 1.779513042e+00]]]> : tensor<2x3x3xf64>
  %u = stablehlo.cholesky %c1 : tensor<2x3x3xf64>
  check.expect_almost_eq_const %u, dense<[[[2.0, 5.000000000e-01, 1.0], [0.0, 2.179449472e+00, 1.147078669e+00], [0.0, 0.0, 1.919429740e+00]], [[1.414213562e+00, 0.0, 7.071067812e-01], [0.0, 1.732050808e+00, 5.773502692e-01], [0.0, 0.0, 1.779513042e+00]]]> : tensor<2x3x3xf64>
  func.return
}

func.func @cholesky_call_of_a_matrix_that_is_not_positive() {
  %c1 = stablehlo.constant dense<[[1.0, 0.0], [0.0, -1.0]]> : tensor<2x2xf64>
  %p:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%c1) {mhlo.backend_config = {uplo = 76 : ui8}} : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<i32>)
  check.expect_eq_const %p#1, dense<2> : tensor<i32>
  func.return
}

func.func @lu_call() {
  %c1 = stablehlo.constant dense<[[4.0, 1.0, 2.0], [1.0, 5.0, 3.0], [2.0, 3.0, 6.0]]> : tensor<3x3xf64>
  %p:3 = stablehlo.custom_call @LuDecomposition(%c1) : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xi32>, tensor<3xi32>)
  check.expect_almost_eq_const %p#0, dense<[[4.0, 1.0, 2.0], [2.500000000e-01, 4.750000000e+00, 2.500000000e+00], [5.000000000e-01, 5.263157895e-01, 3.684210526e+00]]> : tensor<3x3xf64>
  check.expect_eq_const %p#2, dense<[0, 1, 2]> : tensor<3xi32>
  func.return
}

func.func @eigh_call() {
  %c1 = stablehlo.constant dense<[[[4.0, 1.0, 2.0], [1.0, 5.0, 3.0], [2.0, 3.0, 6.0]], [[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [1.0, 1.0, 4.0]]]> : tensor<2x3x3xf64>
  %p:2 = stablehlo.custom_call @Eigh(%c1) {backend_config = "1,1,100,1e-6"} : (tensor<2x3x3xf64>) -> (tensor<2x3x3xf64>, tensor<2x3xf64>)
  check.expect_almost_eq_const %p#1, dense<[[2.194397167e+00, 3.386770157e+00, 9.418832676e+00], [1.467911114e+00, 2.652703645e+00, 4.879385242e+00]]> : tensor<2x3xf64>
  func.return
}

func.func @qr_calls() {
  %c1 = stablehlo.constant dense<[[4.0, 1.0], [1.0, 5.0], [2.0, 3.0]]> : tensor<3x2xf64>
  %p:2 = stablehlo.custom_call @Qr(%c1) : (tensor<3x2xf64>) -> (tensor<3x2xf64>, tensor<2xf64>)
  %q = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%p#0, %p#1) : (tensor<3x2xf64>, tensor<2xf64>) -> tensor<3x2xf64>
  check.expect_almost_eq_const %q, dense<[[-8.728715609e-01, 3.768511732e-01], [-2.182178902e-01, -8.696565535e-01], [-4.364357805e-01, -3.188740696e-01]]> : tensor<3x2xf64>
  func.return
}

func.func @svd_call() {
  %c1 = stablehlo.constant dense<[[4.0, 1.0], [1.0, 5.0], [2.0, 3.0]]> : tensor<3x2xf64>
  %p:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%c1) {mhlo.backend_config = {mode = 78 : ui8}} : (tensor<3x2xf64>) -> (tensor<3x2xf64>, tensor<2xf64>, tensor<3x3xf64>, tensor<2x2xf64>, tensor<i32>)
  check.expect_almost_eq_const %p#1, dense<[6.674799275e+00, 3.383349619e+00]> : tensor<2xf64>
  func.return
}
