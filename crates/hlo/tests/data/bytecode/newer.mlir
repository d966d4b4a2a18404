module @newer {
  func.func public @main(%arg0: tensor<4x8xf32>, %arg1: tensor<8x4xf32>, %arg2: tensor<2x3xi2>) -> tensor<4x4xf32> {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %1 = stablehlo.exponential %0 {result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4x4xf32>
    %2 = stablehlo.composite "my.op" %1 {composite_attributes = {n = 1 : i64, s = "t"}, decomposition = @body, version = 2 : i32} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %cst = stablehlo.constant dense<[5.000000e-01, 6.000000e+00]> : tensor<2xf4E2M1FN>
    %cst_0 = stablehlo.constant dense<[5.000000e-01, -4.480000e+02]> : tensor<2xf8E4M3FN>
    %c = stablehlo.constant dense<[[1, -2, 0], [-1, 1, 0]]> : tensor<2x3xi2>
    return %2 : tensor<4x4xf32>
  }
  func.func private @body(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}
