// Collectives over grids of processes.

func.func @sum(%x: tensor<1xi64>) -> tensor<1xi64> {
  %0 = "stablehlo.cross-replica-sum"(%x) {replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<1xi64>) -> tensor<1xi64>
  return %0 : tensor<1xi64>
}

func.func @cross_replica_sum() {
  %0 = stablehlo.constant dense<1> : tensor<1xi64>
  %1 = stablehlo.constant dense<2> : tensor<1xi64>
  %2 = stablehlo.constant dense<4> : tensor<1xi64>
  %3 = stablehlo.constant dense<8> : tensor<1xi64>
  %r:4 = "interpreter.run_parallel"(%0, %1, %2, %3) {programs = [[@sum], [@sum], [@sum], [@sum]]}
    : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>)
  check.expect_eq_const %r#0, dense<5> : tensor<1xi64>
  check.expect_eq_const %r#1, dense<10> : tensor<1xi64>
  check.expect_eq_const %r#2, dense<5> : tensor<1xi64>
  check.expect_eq_const %r#3, dense<10> : tensor<1xi64>
  func.return
}

func.func @gather_along_an_axis(%x: tensor<1xi64>) -> tensor<2xi64> {
  %0 = "stablehlo.all_gather"(%x) {
    all_gather_dim = 0 : i64,
    replica_groups = #stablehlo.replica_group_mesh_axes<
      mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>, #stablehlo.mesh_axis<name = "y", size = 2>]>,
      axes = [#stablehlo.axis_ref<name = "x">]>
  } : (tensor<1xi64>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}

func.func @groups_of_a_mesh() {
  %0 = stablehlo.constant dense<1> : tensor<1xi64>
  %1 = stablehlo.constant dense<2> : tensor<1xi64>
  %2 = stablehlo.constant dense<4> : tensor<1xi64>
  %3 = stablehlo.constant dense<8> : tensor<1xi64>
  %r:4 = "interpreter.run_parallel"(%0, %1, %2, %3) {
    programs = [[@gather_along_an_axis], [@gather_along_an_axis], [@gather_along_an_axis], [@gather_along_an_axis]]
  } : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> (tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>)
  check.expect_eq_const %r#0, dense<[1, 4]> : tensor<2xi64>
  check.expect_eq_const %r#1, dense<[2, 8]> : tensor<2xi64>
  check.expect_eq_const %r#2, dense<[1, 4]> : tensor<2xi64>
  check.expect_eq_const %r#3, dense<[2, 8]> : tensor<2xi64>
  func.return
}
