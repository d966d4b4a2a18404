// Indexed access and windows in their less common forms.

func.func @torch_index_select_with_a_batch_dimension() {
  %c1 = stablehlo.constant dense<[[[24, 83, 94, 38], [47, 5, 79, 63], [87, 32, 42, 74]], [[66, 88, 98, 30], [17, 68, 64, 60], [78, 17, 39, 35]]]> : tensor<2x3x4xi32>
  %c2 = stablehlo.constant dense<[[2, 0], [1, 1]]> : tensor<2x2xi32>
  %r = "stablehlo.torch_index_select"(%c1, %c2) {dim = 2 : i64, batch_dims = 1 : i64} : (tensor<2x3x4xi32>, tensor<2x2xi32>) -> tensor<2x3x2xi32>
  check.expect_eq_const %r, dense<[[[94, 24], [79, 47], [42, 87]], [[88, 88], [68, 68], [17, 17]]]> : tensor<2x3x2xi32>
  func.return
}

func.func @scatter_of_two_tensors_by_a_region() {
  %c1 = stablehlo.constant dense<[0, 0, 0, 0]> : tensor<4xi32>
  %c2 = stablehlo.constant dense<[10, 10, 10, 10]> : tensor<4xi32>
  %c3 = stablehlo.constant dense<[[1], [1], [7]]> : tensor<3x1xi32>
  %c4 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %c5 = stablehlo.constant dense<[5, 6, 7]> : tensor<3xi32>
  %r:2 = "stablehlo.scatter"(%c1, %c2, %c3, %c4, %c5) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %s = stablehlo.add %a, %c : tensor<i32>
    %t = stablehlo.subtract %b, %d : tensor<i32>
    stablehlo.return %s, %t : tensor<i32>, tensor<i32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<4xi32>, tensor<4xi32>, tensor<3x1xi32>, tensor<3xi32>, tensor<3xi32>) -> (tensor<4xi32>, tensor<4xi32>)
  check.expect_eq_const %r#0, dense<[0, 3, 0, 0]> : tensor<4xi32>
  check.expect_eq_const %r#1, dense<[10, -1, 10, 10]> : tensor<4xi32>
  func.return
}

func.func @padding_of_reduce_window_takes_the_initial_value() {
  %c1 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %c2 = stablehlo.constant dense<100> : tensor<i32>
  %r = "stablehlo.reduce_window"(%c1, %c2) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) {window_dimensions = array<i64: 2>, padding = dense<[[1, 0]]> : tensor<1x2xi64>, base_dilations = array<i64: 2>} : (tensor<3xi32>, tensor<i32>) -> tensor<5xi32>
  check.expect_eq_const %r, dense<[201, 201, 202, 202, 203]> : tensor<5xi32>
  func.return
}
