module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x256x4x64xbf16>, %arg1: tensor<1x256x2x64xbf16>, %arg2: tensor<1x256x2x64xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<1x256x4x64xbf16> {jax.result_info = "result[1][0]"}, tensor<1x256x2x64xbf16> {jax.result_info = "result[1][1]"}, tensor<1x256x2x64xbf16> {jax.result_info = "result[1][2]"}) {
    %0 = stablehlo.reshape %arg0 : (tensor<1x256x4x64xbf16>) -> tensor<1x256x2x2x64xbf16>
    %1 = stablehlo.dot_general %0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<1x256x2x2x64xbf16>, tensor<1x256x2x64xbf16>) -> tensor<1x2x256x2x256xf32>
    %cst = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x2x256x2x256xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<1x2x256x2x256xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %4 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<1x2x256x256xi1>
    %c_0 = stablehlo.constant dense<true> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<256x256xi1>
    %6 = call @tril(%5) : (tensor<256x256xi1>) -> tensor<256x256xi1>
    %7 = stablehlo.broadcast_in_dim %6, dims = [2, 3] : (tensor<256x256xi1>) -> tensor<1x1x256x256xi1>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2, 3] : (tensor<1x1x256x256xi1>) -> tensor<1x2x256x256xi1>
    %9 = stablehlo.and %4, %8 : tensor<1x2x256x256xi1>
    %cst_1 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %10:2 = call @_where(%9, %3, %cst_1) : (tensor<1x2x256x256xi1>, tensor<1x2x256x2x256xf32>, tensor<f32>) -> (tensor<2x1x2x256x256xf32>, tensor<2x1x2x256x256xi1>)
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %11 = stablehlo.reduce(%10#0 init: %cst_2) applies stablehlo.maximum across dimensions = [4] : (tensor<2x1x2x256x256xf32>, tensor<f32>) -> tensor<2x1x2x256xf32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x1x2x256xf32>
    %13 = stablehlo.maximum %12, %11 : tensor<2x1x2x256xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<2x1x2x256xf32>) -> tensor<2x1x2x256x1xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3, 4] : (tensor<2x1x2x256x1xf32>) -> tensor<2x1x2x256x256xf32>
    %16 = stablehlo.subtract %10#0, %15 : tensor<2x1x2x256x256xf32>
    %17 = stablehlo.exponential %16 : tensor<2x1x2x256x256xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %18 = stablehlo.reduce(%17 init: %cst_4) applies stablehlo.add across dimensions = [4] : (tensor<2x1x2x256x256xf32>, tensor<f32>) -> tensor<2x1x2x256xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3] : (tensor<2x1x2x256xf32>) -> tensor<2x1x2x256x1xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2, 3, 4] : (tensor<2x1x2x256x1xf32>) -> tensor<2x1x2x256x256xf32>
    %21 = stablehlo.divide %17, %20 : tensor<2x1x2x256x256xf32>
    %22 = stablehlo.multiply %19, %19 : tensor<2x1x2x256x1xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x1x2x256x1xf32>
    %24 = stablehlo.divide %23, %22 : tensor<2x1x2x256x1xf32>
    %25 = stablehlo.convert %21 : (tensor<2x1x2x256x256xf32>) -> tensor<2x1x2x256x256xbf16>
    %26 = stablehlo.dot_general %arg2, %25, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<1x256x2x64xbf16>, tensor<2x1x2x256x256xbf16>) -> tensor<1x2x64x2x256xbf16>
    %27 = stablehlo.transpose %26, dims = [3, 0, 4, 1, 2] : (tensor<1x2x64x2x256xbf16>) -> tensor<2x1x256x2x64xbf16>
    %28 = stablehlo.transpose %27, dims = [1, 2, 3, 0, 4] : (tensor<2x1x256x2x64xbf16>) -> tensor<1x256x2x2x64xbf16>
    %29 = stablehlo.reshape %28 : (tensor<1x256x2x2x64xbf16>) -> tensor<1x256x4x64xbf16>
    %30 = stablehlo.convert %29 : (tensor<1x256x4x64xbf16>) -> tensor<1x256x4x64xf32>
    %31 = stablehlo.multiply %30, %30 : tensor<1x256x4x64xf32>
    %cst_6 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1x256x4x64xf32>
    %33 = stablehlo.multiply %32, %30 : tensor<1x256x4x64xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %34 = stablehlo.reduce(%31 init: %cst_7) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<1x256x4x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x256x4x64xf32>
    %36 = stablehlo.multiply %35, %33 : tensor<1x256x4x64xf32>
    %37 = stablehlo.convert %36 : (tensor<1x256x4x64xf32>) -> tensor<1x256x4x64xbf16>
    %38 = stablehlo.reshape %37 : (tensor<1x256x4x64xbf16>) -> tensor<1x256x2x2x64xbf16>
    %39 = stablehlo.transpose %38, dims = [3, 0, 1, 2, 4] : (tensor<1x256x2x2x64xbf16>) -> tensor<2x1x256x2x64xbf16>
    %40 = stablehlo.transpose %39, dims = [1, 3, 4, 0, 2] : (tensor<2x1x256x2x64xbf16>) -> tensor<1x2x64x2x256xbf16>
    %41 = stablehlo.dot_general %40, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x2x64x2x256xbf16>, tensor<1x256x2x64xbf16>) -> tensor<1x2x2x256x256xbf16>
    %42 = stablehlo.transpose %41, dims = [2, 0, 1, 3, 4] : (tensor<1x2x2x256x256xbf16>) -> tensor<2x1x2x256x256xbf16>
    %43 = stablehlo.dot_general %40, %25, batching_dims = [0, 1] x [1, 2], contracting_dims = [3, 4] x [0, 3], precision = [DEFAULT, DEFAULT] : (tensor<1x2x64x2x256xbf16>, tensor<2x1x2x256x256xbf16>) -> tensor<1x2x64x256xbf16>
    %44 = stablehlo.transpose %43, dims = [0, 3, 1, 2] : (tensor<1x2x64x256xbf16>) -> tensor<1x256x2x64xbf16>
    %45 = stablehlo.convert %42 : (tensor<2x1x2x256x256xbf16>) -> tensor<2x1x2x256x256xf32>
    %46 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2, 3, 4] : (tensor<2x1x2x256x1xf32>) -> tensor<2x1x2x256x256xf32>
    %47 = stablehlo.multiply %45, %46 : tensor<2x1x2x256x256xf32>
    %48 = stablehlo.multiply %47, %17 : tensor<2x1x2x256x256xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.reduce(%48 init: %cst_9) applies stablehlo.add across dimensions = [4] : (tensor<2x1x2x256x256xf32>, tensor<f32>) -> tensor<2x1x2x256xf32>
    %50 = stablehlo.reshape %49 : (tensor<2x1x2x256xf32>) -> tensor<2x1x2x256x1xf32>
    %51 = stablehlo.negate %50 : tensor<2x1x2x256x1xf32>
    %52 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2, 3, 4] : (tensor<2x1x2x256x1xf32>) -> tensor<2x1x2x256x256xf32>
    %53 = stablehlo.divide %45, %52 : tensor<2x1x2x256x256xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %54 = stablehlo.reduce(%51 init: %cst_10) applies stablehlo.add across dimensions = [1, 4] : (tensor<2x1x2x256x1xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 2, 3] : (tensor<2x2x256xf32>) -> tensor<2x1x2x256xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2, 3] : (tensor<2x1x2x256xf32>) -> tensor<2x1x2x256x256xf32>
    %57 = stablehlo.add %53, %56 : tensor<2x1x2x256x256xf32>
    %58 = stablehlo.multiply %57, %17 : tensor<2x1x2x256x256xf32>
    %59 = call @_where_0(%10#1, %58) : (tensor<2x1x2x256x256xi1>, tensor<2x1x2x256x256xf32>) -> tensor<1x2x256x2x256xf32>
    %cst_11 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1x2x256x2x256xf32>
    %61 = stablehlo.multiply %59, %60 : tensor<1x2x256x2x256xf32>
    %62 = stablehlo.dot_general %61, %0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2, 3] x [1, 3], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<1x2x256x2x256xf32>, tensor<1x256x2x2x64xbf16>) -> tensor<1x2x256x64xf32>
    %63 = stablehlo.transpose %62, dims = [0, 2, 1, 3] : (tensor<1x2x256x64xf32>) -> tensor<1x256x2x64xf32>
    %64 = stablehlo.convert %63 : (tensor<1x256x2x64xf32>) -> tensor<1x256x2x64xbf16>
    %65 = stablehlo.dot_general %61, %arg1, batching_dims = [0, 1] x [0, 2], contracting_dims = [4] x [1], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<1x2x256x2x256xf32>, tensor<1x256x2x64xbf16>) -> tensor<1x2x256x2x64xf32>
    %66 = stablehlo.transpose %65, dims = [0, 2, 1, 3, 4] : (tensor<1x2x256x2x64xf32>) -> tensor<1x256x2x2x64xf32>
    %67 = stablehlo.convert %66 : (tensor<1x256x2x2x64xf32>) -> tensor<1x256x2x2x64xbf16>
    %68 = stablehlo.reshape %67 : (tensor<1x256x2x2x64xbf16>) -> tensor<1x256x4x64xbf16>
    return %34, %68, %64, %44 : tensor<f32>, tensor<1x256x4x64xbf16>, tensor<1x256x2x64xbf16>, tensor<1x256x2x64xbf16>
  }
  func.func private @tril(%arg0: tensor<256x256xi1>) -> tensor<256x256xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<256x256xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<256x256xi32>
    %2 = stablehlo.add %0, %1 : tensor<256x256xi32>
    %3 = stablehlo.iota dim = 1 : tensor<256x256xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<256x256xi32>, tensor<256x256xi32>) -> tensor<256x256xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<256x256xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<256x256xi1>, tensor<256x256xi1>
    return %6 : tensor<256x256xi1>
  }
  func.func private @_where(%arg0: tensor<1x2x256x256xi1>, %arg1: tensor<1x2x256x2x256xf32>, %arg2: tensor<f32>) -> (tensor<2x1x2x256x256xf32>, tensor<2x1x2x256x256xi1>) {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x2x256x256xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3, 4] : (tensor<1x2x256x256xi1>) -> tensor<2x1x2x256x256xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<1x2x256x256xf32>) -> tensor<2x1x2x256x256xf32>
    %3 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<1x2x256x2x256xf32>) -> tensor<2x1x2x256x256xf32>
    %4 = stablehlo.select %1, %3, %2 : tensor<2x1x2x256x256xi1>, tensor<2x1x2x256x256xf32>
    return %4, %1 : tensor<2x1x2x256x256xf32>, tensor<2x1x2x256x256xi1>
  }
  func.func private @_where_0(%arg0: tensor<2x1x2x256x256xi1>, %arg1: tensor<2x1x2x256x256xf32>) -> tensor<1x2x256x2x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x1x2x256x256xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<2x1x2x256x256xi1>, tensor<2x1x2x256x256xf32>
    %2 = stablehlo.transpose %1, dims = [1, 2, 3, 0, 4] : (tensor<2x1x2x256x256xf32>) -> tensor<1x2x256x2x256xf32>
    return %2 : tensor<1x2x256x2x256xf32>
  }
}
