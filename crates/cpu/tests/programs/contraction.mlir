// Contractions whose results are known exactly or to the last digits.

func.func @dot_takes_the_last_and_the_first_dimension() {
  %c1 = stablehlo.constant dense<[[1.0, 4.0, 1.0], [-4.0, -4.0, -3.0]]> : tensor<2x3xf32>
  %c2 = stablehlo.constant dense<[[3.0, 2.0], [-2.0, 0.0], [1.0, -2.0]]> : tensor<3x2xf32>
  %r = stablehlo.dot %c1, %c2 : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  check.expect_eq_const %r, dense<[[-4.0, 0.0], [-7.0, -2.0]]> : tensor<2x2xf32>
  func.return
}

func.func @einsum_with_ellipsis() {
  %c1 = stablehlo.constant dense<[[[0.0, -2.0, 0.0], [3.0, 3.0, -3.0]], [[3.0, -4.0, 2.0], [3.0, 2.0, -3.0]]]> : tensor<2x2x3xf32>
  %c2 = stablehlo.constant dense<[[[-4.0, -3.0], [4.0, 4.0], [-1.0, 4.0]], [[3.0, -1.0], [2.0, 1.0], [-3.0, -1.0]]]> : tensor<2x3x2xf32>
  %r = stablehlo.einsum %c1, %c2, config = "...ij,...jk->...ik" : (tensor<2x2x3xf32>, tensor<2x3x2xf32>) -> tensor<2x2x2xf32>
  check.expect_eq_const %r, dense<[[[-8.0, -8.0], [3.0, -9.0]], [[-5.0, -9.0], [22.0, 2.0]]]> : tensor<2x2x2xf32>
  func.return
}

func.func @unary_einsum_sums_a_diagonal() {
  %c1 = stablehlo.constant dense<[[[0.0, 4.0], [-3.0, 0.0], [-4.0, -1.0]], [[-2.0, -4.0], [0.0, -2.0], [3.0, 3.0]], [[4.0, 2.0], [-1.0, 3.0], [3.0, 0.0]]]> : tensor<3x3x2xf32>
  %r = "stablehlo.unary_einsum"(%c1) {einsum_config = "iik->k"} : (tensor<3x3x2xf32>) -> tensor<2xf32>
  check.expect_eq_const %r, dense<[3.0, 2.0]> : tensor<2xf32>
  func.return
}

func.func @algorithms_round_or_split_their_operands() {
  %c1 = stablehlo.constant dense<[[1.001000047e+00, 3.141592741e+00]]> : tensor<1x2xf32>
  %c2 = stablehlo.constant dense<[[1.003000021e+00], [2.718281746e+00]]> : tensor<2x1xf32>
  %r1 = stablehlo.dot_general %c1, %c2, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  check.expect_almost_eq_const %r1, dense<[[9.538574219e+00]]> : tensor<1x1xf32>
  %r6 = stablehlo.dot_general %c1, %c2, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 6, allow_imprecise_accumulation = false> : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  check.expect_almost_eq_const %r6, dense<[[9.543737411e+00]]> : tensor<1x1xf32>
  %r9 = stablehlo.dot_general %c1, %c2, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 9, allow_imprecise_accumulation = false> : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  check.expect_almost_eq_const %r9, dense<[[9.543737411e+00]]> : tensor<1x1xf32>
  %t3 = stablehlo.dot_general %c1, %c2, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false> : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  check.expect_almost_eq_const %t3, dense<[[9.543737411e+00]]> : tensor<1x1xf32>
  func.return
}

func.func @ragged_rows_meet_their_own_group() {
  %c1 = stablehlo.constant dense<[[1.0, -1.0], [2.0, 4.0], [-4.0, -2.0], [3.0, 3.0], [3.0, -1.0]]> : tensor<5x2xf32>
  %c2 = stablehlo.constant dense<[[[-4.0, 4.0], [3.0, 3.0]], [[-3.0, -3.0], [-1.0, -4.0]], [[4.0, 2.0], [0.0, 1.0]]]> : tensor<3x2x2xf32>
  %c3 = stablehlo.constant dense<[2, 0, 2]> : tensor<3xi64>
  %r = "chlo.ragged_dot"(%c1, %c2, %c3) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>} : (tensor<5x2xf32>, tensor<3x2x2xf32>, tensor<3xi64>) -> tensor<5x2xf32>
  check.expect_eq_const %r, dense<[[-7.0, 1.0], [4.0, 20.0], [-16.0, -10.0], [12.0, 9.0], [0.0, 0.0]]> : tensor<5x2xf32>
  func.return
}

func.func @ragged_contraction_gives_one_matmul_for_each_group() {
  %c1 = stablehlo.constant dense<[[2.0, -2.0, 1.0, 3.0, 4.0], [0.0, 0.0, 3.0, 3.0, 0.0]]> : tensor<2x5xf32>
  %c2 = stablehlo.constant dense<[[-4.0, -2.0, -4.0], [3.0, -3.0, 3.0], [4.0, 0.0, -4.0], [-3.0, 4.0, -2.0], [-1.0, -3.0, -2.0]]> : tensor<5x3xf32>
  %c3 = stablehlo.constant dense<[2, 0, 2]> : tensor<3xi64>
  %r = "chlo.ragged_dot"(%c1, %c2, %c3) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [1]>} : (tensor<2x5xf32>, tensor<5x3xf32>, tensor<3xi64>) -> tensor<3x2x3xf32>
  check.expect_eq_const %r, dense<[[[-14.0, 2.0, -14.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [[-5.0, 12.0, -10.0], [3.0, 12.0, -18.0]]]> : tensor<3x2x3xf32>
  func.return
}
