// Meanings of ops that place elements.

func.func @iota_and_transpose() {
  %a = stablehlo.iota dim = 1 : tensor<2x3xi32>
  check.expect_eq_const %a, dense<[[0, 1, 2], [0, 1, 2]]> : tensor<2x3xi32>
  %b = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>
  check.expect_eq_const %b, dense<[[0, 0], [1, 1], [2, 2]]> : tensor<3x2xi32>
  %c = stablehlo.reshape %b : (tensor<3x2xi32>) -> tensor<6xi32>
  check.expect_eq_const %c, dense<[0, 0, 1, 1, 2, 2]> : tensor<6xi32>
  %d = stablehlo.reverse %c, dims = [0] : tensor<6xi32>
  check.expect_eq_const %d, dense<[2, 2, 1, 1, 0, 0]> : tensor<6xi32>
  func.return
}

func.func @broadcasts() {
  %row = stablehlo.constant dense<[[1, 2]]> : tensor<1x2xi32>
  %a = stablehlo.broadcast_in_dim %row, dims = [0, 2] : (tensor<1x2xi32>) -> tensor<2x2x2xi32>
  check.expect_eq_const %a, dense<[[[1, 2], [1, 2]], [[1, 2], [1, 2]]]> : tensor<2x2x2xi32>
  %b = "stablehlo.broadcast"(%row) {broadcast_sizes = array<i64: 2>} : (tensor<1x2xi32>) -> tensor<2x1x2xi32>
  check.expect_eq_const %b, dense<[[[1, 2]], [[1, 2]]]> : tensor<2x1x2xi32>
  func.return
}

func.func @slices_clamp_their_start() {
  %a = stablehlo.iota dim = 0 : tensor<6xi32>
  %b = stablehlo.slice %a [1:6:2] : (tensor<6xi32>) -> tensor<3xi32>
  check.expect_eq_const %b, dense<[1, 3, 5]> : tensor<3xi32>
  %far = stablehlo.constant dense<100> : tensor<i64>
  %c = stablehlo.dynamic_slice %a, %far, sizes = [2] : (tensor<6xi32>, tensor<i64>) -> tensor<2xi32>
  check.expect_eq_const %c, dense<[4, 5]> : tensor<2xi32>
  %before = stablehlo.constant dense<-7> : tensor<i64>
  %d = stablehlo.dynamic_update_slice %a, %b, %before : (tensor<6xi32>, tensor<3xi32>, tensor<i64>) -> tensor<6xi32>
  check.expect_eq_const %d, dense<[1, 3, 5, 3, 4, 5]> : tensor<6xi32>
  func.return
}

func.func @padding_adds_and_cuts() {
  %a = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %b = stablehlo.pad %a, %zero, low = [1], high = [-2], interior = [1] : (tensor<3xi32>, tensor<i32>) -> tensor<4xi32>
  check.expect_eq_const %b, dense<[0, 1, 0, 2]> : tensor<4xi32>
  %c = stablehlo.pad %a, %zero, low = [-1], high = [2], interior = [0] : (tensor<3xi32>, tensor<i32>) -> tensor<4xi32>
  check.expect_eq_const %c, dense<[2, 3, 0, 0]> : tensor<4xi32>
  func.return
}

func.func @concatenation() {
  %a = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %b = stablehlo.constant dense<[[5], [6]]> : tensor<2x1xi32>
  %none = stablehlo.constant dense<> : tensor<2x0xi32>
  %c = stablehlo.concatenate %a, %none, %b, dim = 1 : (tensor<2x2xi32>, tensor<2x0xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %c, dense<[[1, 2, 5], [3, 4, 6]]> : tensor<2x3xi32>
  func.return
}

func.func private @sized() -> tensor<?x2xi32> {
  %shape = stablehlo.constant dense<[3, 2]> : tensor<2xi64>
  %a = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<2xi64>) -> tensor<?x2xi32>
  func.return %a : tensor<?x2xi32>
}

func.func @sizes_known_only_at_run_time() {
  %a = func.call @sized() : () -> tensor<?x2xi32>
  %size = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x2xi32>) -> tensor<i32>
  check.expect_eq_const %size, dense<3> : tensor<i32>
  %flat = stablehlo.constant dense<[6]> : tensor<1xi64>
  %b = stablehlo.dynamic_reshape %a, %flat : (tensor<?x2xi32>, tensor<1xi64>) -> tensor<6xi32>
  check.expect_eq_const %b, dense<[0, 0, 1, 1, 2, 2]> : tensor<6xi32>
  %shape = stablehlo.constant dense<[2, 6]> : tensor<2xi64>
  %c = stablehlo.dynamic_broadcast_in_dim %b, %shape, dims = [1] : (tensor<6xi32>, tensor<2xi64>) -> tensor<2x6xi32>
  check.expect_eq_const %c, dense<[[0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2]]> : tensor<2x6xi32>
  %zero = stablehlo.constant dense<9> : tensor<i32>
  %one = stablehlo.constant dense<[1]> : tensor<1xi64>
  %nought = stablehlo.constant dense<[0]> : tensor<1xi64>
  %d = stablehlo.dynamic_pad %b, %zero, %one, %nought, %nought : (tensor<6xi32>, tensor<i32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<7xi32>
  check.expect_eq_const %d, dense<[9, 0, 0, 1, 1, 2, 2]> : tensor<7xi32>
  %two = stablehlo.constant dense<[2]> : tensor<1xi64>
  %e = stablehlo.real_dynamic_slice %b, %one, %flat, %two : (tensor<6xi32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi32>
  check.expect_eq_const %e, dense<[0, 1, 2]> : tensor<3xi32>
  func.return
}

func.func @a_size_can_be_set() {
  %a = stablehlo.iota dim = 0 : tensor<4xi32>
  %size = stablehlo.constant dense<2> : tensor<i32>
  %b = stablehlo.set_dimension_size %a, %size, dim = 0 : (tensor<4xi32>, tensor<i32>) -> tensor<?xi32, #stablehlo.bounds<4>>
  %got = stablehlo.get_dimension_size %b, dim = 0 : (tensor<?xi32, #stablehlo.bounds<4>>) -> tensor<i32>
  check.expect_eq_const %got, dense<2> : tensor<i32>
  func.return
}
