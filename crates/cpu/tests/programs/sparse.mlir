// Sparse matmuls as JAX calls them, against SciPy.

func.func @csr_times_a_matrix() {
  %values = stablehlo.constant dense<[1.0, 2.0, 3.0, -4.0]> : tensor<4xf32>
  %starts = stablehlo.constant dense<[0, 1, 1, 4]> : tensor<4xi32>
  %columns = stablehlo.constant dense<[3, 0, 1, 2]> : tensor<4xi32>
  %dense = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32>
  %p = stablehlo.custom_call @cpu_csr_sparse_dense_ffi(%values, %starts, %columns, %dense) {api_version = 4 : i32} : (tensor<4xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  check.expect_eq_const %p, dense<[[7.0, 8.0], [0.0, 0.0], [-9.0, -8.0]]> : tensor<3x2xf32>
  func.return
}

func.func @csr_times_a_vector_with_values_of_no_row() {
  %values = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  %starts = stablehlo.constant dense<[0, 1, 3, 3]> : tensor<4xi64>
  %columns = stablehlo.constant dense<[0, 1, 2, 99]> : tensor<4xi64>
  %dense = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  %p = stablehlo.custom_call @cpu_csr_sparse_dense_ffi(%values, %starts, %columns, %dense) : (tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>) -> tensor<3xi64>
  check.expect_eq_const %p, dense<[1, 13, 0]> : tensor<3xi64>
  func.return
}

func.func @csr_of_integers_wraps() {
  %values = stablehlo.constant dense<[2147483647, 1]> : tensor<2xi32>
  %starts = stablehlo.constant dense<[0, 2]> : tensor<2xi32>
  %columns = stablehlo.constant dense<[0, 0]> : tensor<2xi32>
  %dense = stablehlo.constant dense<[1]> : tensor<1xi32>
  %p = stablehlo.custom_call @cpu_csr_sparse_dense_ffi(%values, %starts, %columns, %dense) : (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<1xi32>) -> tensor<1xi32>
  check.expect_eq_const %p, dense<-2147483648> : tensor<1xi32>
  func.return
}

func.func @csr_of_complex_numbers() {
  %values = stablehlo.constant dense<[(1.0, 2.0), (0.0, 1.0)]> : tensor<2xcomplex<f32>>
  %starts = stablehlo.constant dense<[0, 2]> : tensor<2xi32>
  %columns = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
  %dense = stablehlo.constant dense<[(2.0, 0.0), (0.0, 1.0)]> : tensor<2xcomplex<f32>>
  %p = stablehlo.custom_call @cpu_csr_sparse_dense_ffi(%values, %starts, %columns, %dense) : (tensor<2xcomplex<f32>>, tensor<2xi32>, tensor<2xi32>, tensor<2xcomplex<f32>>) -> tensor<1xcomplex<f32>>
  check.expect_eq_const %p, dense<(-2.0, 3.0)> : tensor<1xcomplex<f32>>
  func.return
}
