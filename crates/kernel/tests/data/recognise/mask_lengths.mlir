module @jit_g attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x256x2x64xbf16>, %arg1: tensor<2x256x2x64xbf16>, %arg2: tensor<2x256x2x64xbf16>, %arg3: tensor<2xi32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][1]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][2]"}) {
    %0 = stablehlo.reshape %arg0 : (tensor<2x256x2x64xbf16>) -> tensor<2x256x2x1x64xbf16>
    %1 = stablehlo.dot_general %0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x256x2x1x64xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x1x256xf32>
    %cst = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x256x1x256xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<2x2x256x1x256xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %4 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<2x2x256x256xi1>
    %c_0 = stablehlo.constant dense<true> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<256x256xi1>
    %6 = call @tril(%5) : (tensor<256x256xi1>) -> tensor<256x256xi1>
    %7 = stablehlo.broadcast_in_dim %6, dims = [2, 3] : (tensor<256x256xi1>) -> tensor<1x1x256x256xi1>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2, 3] : (tensor<1x1x256x256xi1>) -> tensor<2x2x256x256xi1>
    %9 = stablehlo.and %4, %8 : tensor<2x2x256x256xi1>
    %10 = stablehlo.iota dim = 0 : tensor<256xi32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [2] : (tensor<256xi32>) -> tensor<1x1x256xi32>
    %12 = stablehlo.broadcast_in_dim %arg3, dims = [0] : (tensor<2xi32>) -> tensor<2x1x1xi32>
    %13 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2] : (tensor<1x1x256xi32>) -> tensor<2x1x256xi32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<2x1x1xi32>) -> tensor<2x1x256xi32>
    %15 = stablehlo.compare LT, %13, %14, SIGNED : (tensor<2x1x256xi32>, tensor<2x1x256xi32>) -> tensor<2x1x256xi1>
    %c_1 = stablehlo.constant dense<true> : tensor<i1>
    %16 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i1>) -> tensor<2x1x256xi1>
    %17 = stablehlo.and %16, %15 : tensor<2x1x256xi1>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 2, 3] : (tensor<2x1x256xi1>) -> tensor<2x1x1x256xi1>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3] : (tensor<2x1x1x256xi1>) -> tensor<2x2x256x256xi1>
    %20 = stablehlo.and %9, %19 : tensor<2x2x256x256xi1>
    %cst_2 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %21:2 = call @_where(%20, %3, %cst_2) : (tensor<2x2x256x256xi1>, tensor<2x2x256x1x256xf32>, tensor<f32>) -> (tensor<1x2x2x256x256xf32>, tensor<1x2x2x256x256xi1>)
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %22 = stablehlo.reduce(%21#0 init: %cst_3) applies stablehlo.maximum across dimensions = [4] : (tensor<1x2x2x256x256xf32>, tensor<f32>) -> tensor<1x2x2x256xf32>
    %cst_4 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x2x2x256xf32>
    %24 = stablehlo.maximum %23, %22 : tensor<1x2x2x256xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2, 3] : (tensor<1x2x2x256xf32>) -> tensor<1x2x2x256x1xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x256x1xf32>) -> tensor<1x2x2x256x256xf32>
    %27 = stablehlo.subtract %21#0, %26 : tensor<1x2x2x256x256xf32>
    %28 = stablehlo.exponential %27 : tensor<1x2x2x256x256xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %29 = stablehlo.reduce(%28 init: %cst_5) applies stablehlo.add across dimensions = [4] : (tensor<1x2x2x256x256xf32>, tensor<f32>) -> tensor<1x2x2x256xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2, 3] : (tensor<1x2x2x256xf32>) -> tensor<1x2x2x256x1xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x256x1xf32>) -> tensor<1x2x2x256x256xf32>
    %32 = stablehlo.divide %28, %31 : tensor<1x2x2x256x256xf32>
    %33 = stablehlo.multiply %30, %30 : tensor<1x2x2x256x1xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %34 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1x2x2x256x1xf32>
    %35 = stablehlo.divide %34, %33 : tensor<1x2x2x256x1xf32>
    %36 = stablehlo.convert %32 : (tensor<1x2x2x256x256xf32>) -> tensor<1x2x2x256x256xbf16>
    %37 = stablehlo.dot_general %arg2, %36, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<1x2x2x256x256xbf16>) -> tensor<2x2x64x1x256xbf16>
    %38 = stablehlo.transpose %37, dims = [3, 0, 4, 1, 2] : (tensor<2x2x64x1x256xbf16>) -> tensor<1x2x256x2x64xbf16>
    %39 = stablehlo.transpose %38, dims = [1, 2, 3, 0, 4] : (tensor<1x2x256x2x64xbf16>) -> tensor<2x256x2x1x64xbf16>
    %40 = stablehlo.reshape %39 : (tensor<2x256x2x1x64xbf16>) -> tensor<2x256x2x64xbf16>
    %41 = stablehlo.convert %40 : (tensor<2x256x2x64xbf16>) -> tensor<2x256x2x64xf32>
    %42 = stablehlo.multiply %41, %41 : tensor<2x256x2x64xf32>
    %cst_7 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %44 = stablehlo.multiply %43, %41 : tensor<2x256x2x64xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %45 = stablehlo.reduce(%42 init: %cst_8) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x256x2x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %47 = stablehlo.multiply %46, %44 : tensor<2x256x2x64xf32>
    %48 = stablehlo.convert %47 : (tensor<2x256x2x64xf32>) -> tensor<2x256x2x64xbf16>
    %49 = stablehlo.reshape %48 : (tensor<2x256x2x64xbf16>) -> tensor<2x256x2x1x64xbf16>
    %50 = stablehlo.transpose %49, dims = [3, 0, 1, 2, 4] : (tensor<2x256x2x1x64xbf16>) -> tensor<1x2x256x2x64xbf16>
    %51 = stablehlo.transpose %50, dims = [1, 3, 4, 0, 2] : (tensor<1x2x256x2x64xbf16>) -> tensor<2x2x64x1x256xbf16>
    %52 = stablehlo.dot_general %51, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x1x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x1x256x256xbf16>
    %53 = stablehlo.transpose %52, dims = [2, 0, 1, 3, 4] : (tensor<2x2x1x256x256xbf16>) -> tensor<1x2x2x256x256xbf16>
    %54 = stablehlo.dot_general %51, %36, batching_dims = [0, 1] x [1, 2], contracting_dims = [3, 4] x [0, 3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x1x256xbf16>, tensor<1x2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %55 = stablehlo.transpose %54, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %56 = stablehlo.convert %53 : (tensor<1x2x2x256x256xbf16>) -> tensor<1x2x2x256x256xf32>
    %57 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x256x1xf32>) -> tensor<1x2x2x256x256xf32>
    %58 = stablehlo.multiply %56, %57 : tensor<1x2x2x256x256xf32>
    %59 = stablehlo.multiply %58, %28 : tensor<1x2x2x256x256xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.reduce(%59 init: %cst_10) applies stablehlo.add across dimensions = [4] : (tensor<1x2x2x256x256xf32>, tensor<f32>) -> tensor<1x2x2x256xf32>
    %61 = stablehlo.reshape %60 : (tensor<1x2x2x256xf32>) -> tensor<1x2x2x256x1xf32>
    %62 = stablehlo.negate %61 : tensor<1x2x2x256x1xf32>
    %63 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x256x1xf32>) -> tensor<1x2x2x256x256xf32>
    %64 = stablehlo.divide %56, %63 : tensor<1x2x2x256x256xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %65 = stablehlo.reduce(%62 init: %cst_11) applies stablehlo.add across dimensions = [0, 4] : (tensor<1x2x2x256x1xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [1, 2, 3] : (tensor<2x2x256xf32>) -> tensor<1x2x2x256xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2, 3] : (tensor<1x2x2x256xf32>) -> tensor<1x2x2x256x256xf32>
    %68 = stablehlo.add %64, %67 : tensor<1x2x2x256x256xf32>
    %69 = stablehlo.multiply %68, %28 : tensor<1x2x2x256x256xf32>
    %70 = call @_where_0(%21#1, %69) : (tensor<1x2x2x256x256xi1>, tensor<1x2x2x256x256xf32>) -> tensor<2x2x256x1x256xf32>
    %cst_12 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x2x256x1x256xf32>
    %72 = stablehlo.multiply %70, %71 : tensor<2x2x256x1x256xf32>
    %73 = stablehlo.dot_general %72, %0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2, 3] x [1, 3], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x2x256x1x256xf32>, tensor<2x256x2x1x64xbf16>) -> tensor<2x2x256x64xf32>
    %74 = stablehlo.transpose %73, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xf32>) -> tensor<2x256x2x64xf32>
    %75 = stablehlo.convert %74 : (tensor<2x256x2x64xf32>) -> tensor<2x256x2x64xbf16>
    %76 = stablehlo.dot_general %72, %arg1, batching_dims = [0, 1] x [0, 2], contracting_dims = [4] x [1], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x2x256x1x256xf32>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x1x64xf32>
    %77 = stablehlo.transpose %76, dims = [0, 2, 1, 3, 4] : (tensor<2x2x256x1x64xf32>) -> tensor<2x256x2x1x64xf32>
    %78 = stablehlo.convert %77 : (tensor<2x256x2x1x64xf32>) -> tensor<2x256x2x1x64xbf16>
    %79 = stablehlo.reshape %78 : (tensor<2x256x2x1x64xbf16>) -> tensor<2x256x2x64xbf16>
    return %45, %79, %75, %55 : tensor<f32>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>
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
  func.func private @_where(%arg0: tensor<2x2x256x256xi1>, %arg1: tensor<2x2x256x1x256xf32>, %arg2: tensor<f32>) -> (tensor<1x2x2x256x256xf32>, tensor<1x2x2x256x256xi1>) {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3, 4] : (tensor<2x2x256x256xi1>) -> tensor<1x2x2x256x256xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<2x2x256x256xf32>) -> tensor<1x2x2x256x256xf32>
    %3 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<2x2x256x1x256xf32>) -> tensor<1x2x2x256x256xf32>
    %4 = stablehlo.select %1, %3, %2 : tensor<1x2x2x256x256xi1>, tensor<1x2x2x256x256xf32>
    return %4, %1 : tensor<1x2x2x256x256xf32>, tensor<1x2x2x256x256xi1>
  }
  func.func private @_where_0(%arg0: tensor<1x2x2x256x256xi1>, %arg1: tensor<1x2x2x256x256xf32>) -> tensor<2x2x256x1x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x2x2x256x256xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<1x2x2x256x256xi1>, tensor<1x2x2x256x256xf32>
    %2 = stablehlo.transpose %1, dims = [1, 2, 3, 0, 4] : (tensor<1x2x2x256x256xf32>) -> tensor<2x2x256x1x256xf32>
    return %2 : tensor<2x2x256x1x256xf32>
  }
}
