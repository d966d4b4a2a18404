// b=3: f32[b,4] f32[4,3]
module @jit_gradient attributes {jax.uses_shape_polymorphism = true, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<?x4xf32>, %arg1: tensor<4x3xf32>) -> (tensor<4x3xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %1 = stablehlo.compare GE, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%1, %0) {api_version = 2 : i32, error_message = "Input shapes do not match the polymorphic shapes specification. Expected value >= 1 for dimension variable 'b'. Using the following polymorphic shapes specifications: args[0].shape = (b, 4). Obtained dimension variables: 'b' = {0} from specification 'b' for dimension args[0].shape[0] (= {0}), . Please see https://docs.jax.dev/en/latest/export/shape_poly.html#shape-assertion-errors for more details.", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    %2 = call @_wrapped_jax_export_main(%0, %arg0, %arg1) : (tensor<i32>, tensor<?x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    return %2 : tensor<4x3xf32>
  }
  func.func private @_wrapped_jax_export_main(%arg0: tensor<i32> {jax.global_constant = "b"}, %arg1: tensor<?x4xf32>, %arg2: tensor<4x3xf32>) -> (tensor<4x3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_2 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %cst_3 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %c = stablehlo.constant dense<3> : tensor<1xi32>
    %c_4 = stablehlo.constant dense<3> : tensor<i32>
    %cst_5 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %0 = stablehlo.dot_general %arg1, %arg2, contracting_dims = [1] x [0] : (tensor<?x4xf32>, tensor<4x3xf32>) -> tensor<?x3xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<?x3xf32>
    %2 = stablehlo.multiply %1, %0 : tensor<?x3xf32>
    %3 = stablehlo.multiply %0, %0 : tensor<?x3xf32>
    %4 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %5 = stablehlo.concatenate %4, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %6 = stablehlo.dynamic_broadcast_in_dim %cst_5, %5, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %7 = stablehlo.multiply %6, %3 : tensor<?x3xf32>
    %8 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %9 = stablehlo.concatenate %8, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %10 = stablehlo.dynamic_broadcast_in_dim %cst_3, %9, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %11 = stablehlo.multiply %10, %2 : tensor<?x3xf32>
    %12 = stablehlo.add %0, %11 : tensor<?x3xf32>
    %13 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %14 = stablehlo.concatenate %13, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %15 = stablehlo.dynamic_broadcast_in_dim %cst_2, %14, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %16 = stablehlo.multiply %15, %12 : tensor<?x3xf32>
    %17 = stablehlo.tanh %16 : tensor<?x3xf32>
    %18 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %19 = stablehlo.concatenate %18, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %20 = stablehlo.dynamic_broadcast_in_dim %cst_1, %19, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %21 = stablehlo.subtract %20, %17 : tensor<?x3xf32>
    %22 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %23 = stablehlo.concatenate %22, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %24 = stablehlo.dynamic_broadcast_in_dim %cst_1, %23, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %25 = stablehlo.add %24, %17 : tensor<?x3xf32>
    %26 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %27 = stablehlo.concatenate %26, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %28 = stablehlo.dynamic_broadcast_in_dim %cst_0, %27, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %29 = stablehlo.multiply %28, %25 : tensor<?x3xf32>
    %30 = stablehlo.multiply %0, %29 : tensor<?x3xf32>
    %31 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %32 = stablehlo.concatenate %31, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %33 = stablehlo.dynamic_broadcast_in_dim %cst, %32, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %34 = stablehlo.multiply %33, %30 : tensor<?x3xf32>
    %35 = stablehlo.convert %arg0 : tensor<i32>
    %36 = stablehlo.multiply %35, %c_4 : tensor<i32>
    %37 = stablehlo.convert %36 : (tensor<i32>) -> tensor<f32>
    %38 = stablehlo.divide %cst_1, %37 : tensor<f32>
    %39 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %40 = stablehlo.concatenate %39, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %41 = stablehlo.dynamic_broadcast_in_dim %38, %40, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %42 = stablehlo.multiply %41, %34 : tensor<?x3xf32>
    %43 = stablehlo.multiply %0, %42 : tensor<?x3xf32>
    %44 = stablehlo.multiply %42, %29 : tensor<?x3xf32>
    %45 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %46 = stablehlo.concatenate %45, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %47 = stablehlo.dynamic_broadcast_in_dim %cst_0, %46, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %48 = stablehlo.multiply %47, %43 : tensor<?x3xf32>
    %49 = stablehlo.multiply %48, %21 : tensor<?x3xf32>
    %50 = stablehlo.multiply %49, %17 : tensor<?x3xf32>
    %51 = stablehlo.add %49, %50 : tensor<?x3xf32>
    %52 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %53 = stablehlo.concatenate %52, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %54 = stablehlo.dynamic_broadcast_in_dim %cst_2, %53, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %55 = stablehlo.multiply %54, %51 : tensor<?x3xf32>
    %56 = stablehlo.add %44, %55 : tensor<?x3xf32>
    %57 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %58 = stablehlo.concatenate %57, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %59 = stablehlo.dynamic_broadcast_in_dim %cst_3, %58, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
    %60 = stablehlo.multiply %59, %55 : tensor<?x3xf32>
    %61 = stablehlo.multiply %60, %7 : tensor<?x3xf32>
    %62 = stablehlo.add %56, %61 : tensor<?x3xf32>
    %63 = stablehlo.dot_general %62, %arg1, contracting_dims = [0] x [0] : (tensor<?x3xf32>, tensor<?x4xf32>) -> tensor<3x4xf32>
    %64 = stablehlo.transpose %63, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>
    return %64 : tensor<4x3xf32>
  }
}
