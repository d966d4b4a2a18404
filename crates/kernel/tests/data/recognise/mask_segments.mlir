module @jit_g attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x256x2x64xbf16>, %arg1: tensor<2x256x2x64xbf16>, %arg2: tensor<2x256x2x64xbf16>, %arg3: tensor<2x256xi32>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][0]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][1]"}, tensor<2x256x2x64xbf16> {jax.result_info = "result[1][2]"}) {
    %0 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1] : (tensor<2x256xi32>) -> tensor<2x256x1xi32>
    %1 = stablehlo.broadcast_in_dim %arg3, dims = [0, 2] : (tensor<2x256xi32>) -> tensor<2x1x256xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<2x256x1xi32>) -> tensor<2x256x256xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<2x1x256xi32>) -> tensor<2x256x256xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<2x256x256xi32>, tensor<2x256x256xi32>) -> tensor<2x256x256xi1>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<256x256xi1>
    %6 = call @tril(%5) : (tensor<256x256xi1>) -> tensor<256x256xi1>
    %7 = stablehlo.broadcast_in_dim %6, dims = [1, 2] : (tensor<256x256xi1>) -> tensor<1x256x256xi1>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x256x256xi1>) -> tensor<2x256x256xi1>
    %9 = stablehlo.and %4, %8 : tensor<2x256x256xi1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 2, 3] : (tensor<2x256x256xi1>) -> tensor<2x1x256x256xi1>
    %11 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x256xbf16>
    %12 = stablehlo.convert %11 : (tensor<2x2x256x256xbf16>) -> tensor<2x2x256x256xf32>
    %cst = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %14 = stablehlo.multiply %12, %13 : tensor<2x2x256x256xf32>
    %cst_0 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %15:2 = call @_where(%10, %14, %cst_0) : (tensor<2x1x256x256xi1>, tensor<2x2x256x256xf32>, tensor<f32>) -> (tensor<2x2x256x256xf32>, tensor<2x2x256x256xi1>)
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %16 = stablehlo.reduce(%15#0 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x2x256xf32>
    %18 = stablehlo.maximum %17, %16 : tensor<2x2x256xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %21 = stablehlo.subtract %15#0, %20 : tensor<2x2x256x256xf32>
    %22 = stablehlo.exponential %21 : tensor<2x2x256x256xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %23 = stablehlo.reduce(%22 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %26 = stablehlo.divide %22, %25 : tensor<2x2x256x256xf32>
    %27 = stablehlo.multiply %24, %24 : tensor<2x2x256x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x2x256x1xf32>
    %29 = stablehlo.divide %28, %27 : tensor<2x2x256x1xf32>
    %30 = stablehlo.convert %26 : (tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xbf16>
    %31 = stablehlo.dot_general %arg2, %30, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x256x2x64xbf16>, tensor<2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %32 = stablehlo.transpose %31, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %33 = stablehlo.convert %32 : (tensor<2x256x2x64xbf16>) -> tensor<2x256x2x64xf32>
    %34 = stablehlo.multiply %33, %33 : tensor<2x256x2x64xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %36 = stablehlo.multiply %35, %33 : tensor<2x256x2x64xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %37 = stablehlo.reduce(%34 init: %cst_6) applies stablehlo.add across dimensions = [0, 1, 2, 3] : (tensor<2x256x2x64xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %38 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x256x2x64xf32>
    %39 = stablehlo.multiply %38, %36 : tensor<2x256x2x64xf32>
    %40 = stablehlo.convert %39 : (tensor<2x256x2x64xf32>) -> tensor<2x256x2x64xbf16>
    %41 = stablehlo.transpose %40, dims = [0, 2, 3, 1] : (tensor<2x256x2x64xbf16>) -> tensor<2x2x64x256xbf16>
    %42 = stablehlo.dot_general %41, %arg2, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x256xbf16>
    %43 = stablehlo.dot_general %41, %30, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x2x64x256xbf16>, tensor<2x2x256x256xbf16>) -> tensor<2x2x64x256xbf16>
    %44 = stablehlo.transpose %43, dims = [0, 3, 1, 2] : (tensor<2x2x64x256xbf16>) -> tensor<2x256x2x64xbf16>
    %45 = stablehlo.convert %42 : (tensor<2x2x256x256xbf16>) -> tensor<2x2x256x256xf32>
    %46 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %47 = stablehlo.multiply %45, %46 : tensor<2x2x256x256xf32>
    %48 = stablehlo.multiply %47, %22 : tensor<2x2x256x256xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.reduce(%48 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x256xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %50 = stablehlo.reshape %49 : (tensor<2x2x256xf32>) -> tensor<2x2x256x1xf32>
    %51 = stablehlo.negate %50 : tensor<2x2x256x1xf32>
    %52 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2, 3] : (tensor<2x2x256x1xf32>) -> tensor<2x2x256x256xf32>
    %53 = stablehlo.divide %45, %52 : tensor<2x2x256x256xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %54 = stablehlo.reduce(%51 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<2x2x256x1xf32>, tensor<f32>) -> tensor<2x2x256xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2] : (tensor<2x2x256xf32>) -> tensor<2x2x256x256xf32>
    %56 = stablehlo.add %53, %55 : tensor<2x2x256x256xf32>
    %57 = stablehlo.multiply %56, %22 : tensor<2x2x256x256xf32>
    %58 = call @_where_0(%15#1, %57) : (tensor<2x2x256x256xi1>, tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xf32>
    %cst_10 = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x2x256x256xf32>
    %60 = stablehlo.multiply %58, %59 : tensor<2x2x256x256xf32>
    %61 = stablehlo.convert %60 : (tensor<2x2x256x256xf32>) -> tensor<2x2x256x256xbf16>
    %62 = stablehlo.dot_general %61, %arg0, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x256x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x64xbf16>
    %63 = stablehlo.transpose %62, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xbf16>) -> tensor<2x256x2x64xbf16>
    %64 = stablehlo.dot_general %61, %arg1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x2x256x256xbf16>, tensor<2x256x2x64xbf16>) -> tensor<2x2x256x64xbf16>
    %65 = stablehlo.transpose %64, dims = [0, 2, 1, 3] : (tensor<2x2x256x64xbf16>) -> tensor<2x256x2x64xbf16>
    return %37, %65, %63, %44 : tensor<f32>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>, tensor<2x256x2x64xbf16>
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
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3] : (tensor<2x1x256x256xi1>) -> tensor<2x2x256x256xi1>
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
