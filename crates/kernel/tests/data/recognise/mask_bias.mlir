module @jit_g attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x256x2x64xbf16>, %arg1: tensor<2x256x2x64xbf16>, %arg2: tensor<2x256x2x64xbf16>, %arg3: tensor<1x2x256x256xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][1]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][2]"}) {
    %c = stablehlo.constant dense<true> : tensor<i1>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<256x256xi1>
    %1 = call @tril(%0) : (tensor<256x256xi1>) -> tensor<256x256xi1>
    %2 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x256xbf16>
    %3 = stablehlo.convert %2 : (tensor<2x2x256x256xbf16>) -> tensor<2x2x256x256xf32>
    %cst = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<2x2x256x256xf32>
    %6 = stablehlo.convert %arg3 : (tensor<1x2x256x256xbf16>) -> tensor<1x2x256x256xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x2x256x256xf32>) -> tensor<2x2x256x256xf32>
    %8 = stablehlo.add %5, %7 : tensor<2x2x256x256xf32>
    %cst_0 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %9:2 = call @_where(%1, %8, %cst_0) : (tensor<256x256xi1>, tensor<2x2x256x256xf32>, tensor<f32>) -> (tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>)
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.reduce(%9#0 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x2x256xf32>
    %12 = stablehlo.maximum %11, %10 : tensor<2x2x256xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %15 = stablehlo.subtract %9#0, %14 : tensor<2x2x256x256xf32>
    %16 = stablehlo.exponential %15 : tensor<2x2x256x256xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.reduce(%16 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %20 = stablehlo.divide %16, %19 : tensor<2x2x256x256xf32>
    %21 = stablehlo.multiply %18, %18 : tensor<2x2x256x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x2x256x1xf32>
    %23 = stablehlo.divide %22, %21 : tensor<2x2x256x1xf32>
    %24 = stablehlo.convert %20 : (tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xbf16>
    %25 = stablehlo.dot_general %arg2, %24, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %26 = stablehlo.transpose %25, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %27 = stablehlo.convert %26 : (tensor<2x256x2x64xbf16>) -> tensor<2x256x2x64xf32>
    %28 = stablehlo.multiply %27, %27 : tensor<2x256x2x64xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %30 = stablehlo.multiply %29, %27 : tensor<2x256x2x64xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %31 = stablehlo.reduce(%28 init: %cst_6) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x256x2x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %33 = stablehlo.multiply %32, %30 : tensor<2x256x2x64xf32>
    %34 = stablehlo.convert %33 : (tensor<2x256x2x64xf32>) -> tensor<2x256x2x64xbf16>
    %35 = stablehlo.transpose %34, dims = [0, 2, 3, 1] : (tensor<2x256x2x64xbf16>) -> tensor<2x2x64x256xbf16>
    %36 = stablehlo.dot_general %35, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x256xbf16>
    %37 = stablehlo.dot_general %35, %24, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x256xbf16>, tensor<2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %38 = stablehlo.transpose %37, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %39 = stablehlo.convert %36 : (tensor<2x2x256x256xbf16>) -> tensor<2x2x256x256xf32>
    %40 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %41 = stablehlo.multiply %39, %40 : tensor<2x2x256x256xf32>
    %42 = stablehlo.multiply %41, %16 : tensor<2x2x256x256xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %43 = stablehlo.reduce(%42 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %44 = stablehlo.reshape %43 : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %45 = stablehlo.negate %44 : tensor<2x2x256x1xf32>
    %46 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %47 = stablehlo.divide %39, %46 : tensor<2x2x256x256xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.reduce(%45 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x1xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x256xf32>
    %50 = stablehlo.add %47, %49 : tensor<2x2x256x256xf32>
    %51 = stablehlo.multiply %50, %16 : tensor<2x2x256x256xf32>
    %52 = call @_where_0(%9#1, %51) : (tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xf32>
    %cst_10 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %54 = stablehlo.multiply %52, %53 : tensor<2x2x256x256xf32>
    %55 = stablehlo.convert %54 : (tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xbf16>
    %56 = stablehlo.dot_general %55, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x256x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x64xbf16>
    %57 = stablehlo.transpose %56, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xbf16>) -> tensor<2x256x2x64xbf16>
    %58 = stablehlo.dot_general %55, %arg1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x256x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x64xbf16>
    %59 = stablehlo.transpose %58, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xbf16>) -> tensor<2x256x2x64xbf16>
    return %31, %59, %57, %38 : tensor<f32>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>
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
  func.func private @_where(%arg0: tensor<256x256xi1>, %arg1: tensor<2x2x256x256xf32>, %arg2: tensor<f32>) -> (tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<256x256xi1>) -> tensor<2x2x256x256xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>
    return %3, %1 : tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>
  }
  func.func private @_where_0(%arg0: tensor<2x2x256x256xi1>, %arg1: tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>
    return %1 : tensor<2x2x256x256xf32>
  }
}
