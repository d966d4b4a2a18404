module @jit_g attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x256x2x64xbf16>, %arg1: tensor<2x256x2x64xbf16>, %arg2: tensor<2x256x2x64xbf16>, %arg3: tensor<2x256xi32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][1]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][2]"}) {
    %0 = stablehlo.broadcast_in_dim %arg3, dims = [0, 3] : (tensor<2x256xi32>) -> tensor<2x1x1x256xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x1x1x256xi32>
    %2 = stablehlo.compare GT, %0, %1, SIGNED : (tensor<2x1x1x256xi32>, tensor<2x1x1x256xi32>) -> tensor<2x1x1x256xi1>
    %c_0 = stablehlo.constant dense<true> : tensor<i1>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<256x256xi1>
    %4 = call @tril(%3) : (tensor<256x256xi1>) -> tensor<256x256xi1>
    %5 = stablehlo.broadcast_in_dim %4, dims = [2, 3] : (tensor<256x256xi1>) -> tensor<1x1x256x256xi1>
    %6 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2, 3] : (tensor<2x1x1x256xi1>) -> tensor<2x1x256x256xi1>
    %7 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2, 3] : (tensor<1x1x256x256xi1>) -> tensor<2x1x256x256xi1>
    %8 = stablehlo.and %6, %7 : tensor<2x1x256x256xi1>
    %9 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x256xbf16>
    %10 = stablehlo.convert %9 : (tensor<2x2x256x256xbf16>) -> tensor<2x2x256x256xf32>
    %cst = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %12 = stablehlo.multiply %10, %11 : tensor<2x2x256x256xf32>
    %cst_1 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %13:2 = call @_where(%8, %12, %cst_1) : (tensor<2x1x256x256xi1>, tensor<2x2x256x256xf32>, tensor<f32>) -> (tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>)
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %14 = stablehlo.reduce(%13#0 init: %cst_2) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x2x256xf32>
    %16 = stablehlo.maximum %15, %14 : tensor<2x2x256xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %19 = stablehlo.subtract %13#0, %18 : tensor<2x2x256x256xf32>
    %20 = stablehlo.exponential %19 : tensor<2x2x256x256xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst_4) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %24 = stablehlo.divide %20, %23 : tensor<2x2x256x256xf32>
    %25 = stablehlo.multiply %22, %22 : tensor<2x2x256x1xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x2x256x1xf32>
    %27 = stablehlo.divide %26, %25 : tensor<2x2x256x1xf32>
    %28 = stablehlo.convert %24 : (tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xbf16>
    %29 = stablehlo.dot_general %arg2, %28, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %30 = stablehlo.transpose %29, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %31 = stablehlo.convert %30 : (tensor<2x256x2x64xbf16>) -> tensor<2x256x2x64xf32>
    %32 = stablehlo.multiply %31, %31 : tensor<2x256x2x64xf32>
    %cst_6 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %34 = stablehlo.multiply %33, %31 : tensor<2x256x2x64xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %35 = stablehlo.reduce(%32 init: %cst_7) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x256x2x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %37 = stablehlo.multiply %36, %34 : tensor<2x256x2x64xf32>
    %38 = stablehlo.convert %37 : (tensor<2x256x2x64xf32>) -> tensor<2x256x2x64xbf16>
    %39 = stablehlo.transpose %38, dims = [0, 2, 3, 1] : (tensor<2x256x2x64xbf16>) -> tensor<2x2x64x256xbf16>
    %40 = stablehlo.dot_general %39, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x256xbf16>
    %41 = stablehlo.dot_general %39, %28, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x256xbf16>, tensor<2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %42 = stablehlo.transpose %41, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %43 = stablehlo.convert %40 : (tensor<2x2x256x256xbf16>) -> tensor<2x2x256x256xf32>
    %44 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %45 = stablehlo.multiply %43, %44 : tensor<2x2x256x256xf32>
    %46 = stablehlo.multiply %45, %20 : tensor<2x2x256x256xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %47 = stablehlo.reduce(%46 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %48 = stablehlo.reshape %47 : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %49 = stablehlo.negate %48 : tensor<2x2x256x1xf32>
    %50 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %51 = stablehlo.divide %43, %50 : tensor<2x2x256x256xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %52 = stablehlo.reduce(%49 init: %cst_10) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x1xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x256xf32>
    %54 = stablehlo.add %51, %53 : tensor<2x2x256x256xf32>
    %55 = stablehlo.multiply %54, %20 : tensor<2x2x256x256xf32>
    %56 = call @_where_0(%13#1, %55) : (tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xf32>
    %cst_11 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %58 = stablehlo.multiply %56, %57 : tensor<2x2x256x256xf32>
    %59 = stablehlo.convert %58 : (tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xbf16>
    %60 = stablehlo.dot_general %59, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x256x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x64xbf16>
    %61 = stablehlo.transpose %60, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xbf16>) -> tensor<2x256x2x64xbf16>
    %62 = stablehlo.dot_general %59, %arg1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x256x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x64xbf16>
    %63 = stablehlo.transpose %62, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xbf16>) -> tensor<2x256x2x64xbf16>
    return %35, %63, %61, %42 : tensor<f32>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>
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
  func.func private @_where(%arg0: tensor<2x1x256x256xi1>, %arg1: tensor<2x2x256x256xf32>, %arg2: tensor<f32>) -> (tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>) {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3] : (tensor<2x1x256x256xi1>) -> tensor<2x2x256x256xi1>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %2 = stablehlo.select %0, %arg1, %1 : tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>
    return %2, %0 : tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>
  }
  func.func private @_where_0(%arg0: tensor<2x2x256x256xi1>, %arg1: tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>
    return %1 : tensor<2x2x256x256xf32>
  }
}
