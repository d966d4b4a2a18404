// b=3: i32[] f32[b,4]
module @jit_branch attributes {jax.uses_shape_polymorphism = true, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<?x4xf32>) -> (tensor<?x4xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.get_dimension_size %arg1, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %1 = stablehlo.compare GE, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%1, %0) {api_version = 2 : i32, error_message = "Input shapes do not match the polymorphic shapes specification. Expected value >= 1 for dimension variable 'b'. Using the following polymorphic shapes specifications: args[1].shape = (b, 4). Obtained dimension variables: 'b' = {0} from specification 'b' for dimension args[1].shape[0] (= {0}), . Please see https://docs.jax.dev/en/latest/export/shape_poly.html#shape-assertion-errors for more details.", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    %2 = call @_wrapped_jax_export_main(%0, %arg0, %arg1) : (tensor<i32>, tensor<i32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    return %2 : tensor<?x4xf32>
  }
  func.func private @_wrapped_jax_export_main(%arg0: tensor<i32> {jax.global_constant = "b"}, %arg1: tensor<i32>, %arg2: tensor<?x4xf32>) -> (tensor<?x4xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<4> : tensor<1xi32>
    %c_1 = stablehlo.constant dense<-1> : tensor<i32>
    %c_2 = stablehlo.constant dense<1> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare GT, %arg1, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %1 = stablehlo.convert %0 : (tensor<i1>) -> tensor<i32>
    %2 = "stablehlo.case"(%1) ({
      %3 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<1xi32>
      %4 = "stablehlo.gather"(%arg2, %3) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0]>, indices_are_sorted = true, slice_sizes = array<i64: 1, 4>}> : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<1x4xf32>
      %5 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<1xi32>
      %6 = stablehlo.convert %arg0 : tensor<i32>
      %7 = stablehlo.add %6, %c_1 : tensor<i32>
      %8 = stablehlo.reshape %7 : (tensor<i32>) -> tensor<1xi32>
      %9 = stablehlo.concatenate %8, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %10 = "stablehlo.dynamic_gather"(%arg2, %5, %9) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0]>, indices_are_sorted = true}> : (tensor<?x4xf32>, tensor<1xi32>, tensor<2xi32>) -> tensor<?x4xf32>
      %11 = stablehlo.convert %arg0 : tensor<i32>
      %12 = stablehlo.add %11, %c_1 : tensor<i32>
      %13 = stablehlo.reshape %12 : (tensor<i32>) -> tensor<1xi32>
      %14 = stablehlo.concatenate %13, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %15 = stablehlo.dynamic_broadcast_in_dim %cst_0, %14, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
      %16 = stablehlo.multiply %10, %15 : tensor<?x4xf32>
      %17 = stablehlo.concatenate %4, %16, dim = 0 : (tensor<1x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
      stablehlo.return %17 : tensor<?x4xf32>
    }, {
      %3 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
      %4 = stablehlo.concatenate %3, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %5 = stablehlo.dynamic_broadcast_in_dim %cst, %4, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
      %6 = stablehlo.multiply %arg2, %5 : tensor<?x4xf32>
      stablehlo.return %6 : tensor<?x4xf32>
    }) : (tensor<i32>) -> tensor<?x4xf32>
    return %2 : tensor<?x4xf32>
  }
}
