module @jit_g attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x256x256xbf16>, %arg1: tensor<256x768xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<1x256x256xbf16> {jax.result_info = "result[1][0]"}, tensor<256x768xbf16> {jax.result_info = "result[1][1]"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x256x256xbf16>, tensor<256x768xbf16>) -> tensor<1x256x768xbf16>
    %1 = stablehlo.slice %0 [0:1, 0:256, 0:256] : (tensor<1x256x768xbf16>) -> tensor<1x256x256xbf16>
    %2 = stablehlo.slice %0 [0:1, 0:256, 256:512] : (tensor<1x256x768xbf16>) -> tensor<1x256x256xbf16>
    %3 = stablehlo.slice %0 [0:1, 0:256, 512:768] : (tensor<1x256x768xbf16>) -> tensor<1x256x256xbf16>
    %4 = stablehlo.reshape %1 : (tensor<1x256x256xbf16>) -> tensor<1x256x4x64xbf16>
    %5 = stablehlo.transpose %4, dims = [0, 2, 1, 3] : (tensor<1x256x4x64xbf16>) -> tensor<1x4x256x64xbf16>
    %6 = stablehlo.reshape %2 : (tensor<1x256x256xbf16>) -> tensor<1x256x4x64xbf16>
    %7 = stablehlo.transpose %6, dims = [0, 2, 1, 3] : (tensor<1x256x4x64xbf16>) -> tensor<1x4x256x64xbf16>
    %8 = stablehlo.reshape %3 : (tensor<1x256x256xbf16>) -> tensor<1x256x4x64xbf16>
    %9 = stablehlo.transpose %8, dims = [0, 2, 1, 3] : (tensor<1x256x4x64xbf16>) -> tensor<1x4x256x64xbf16>
    %10 = stablehlo.transpose %7, dims = [0, 1, 3, 2] : (tensor<1x4x256x64xbf16>) -> tensor<1x4x64x256xbf16>
    %11 = stablehlo.reshape %5 : (tensor<1x4x256x64xbf16>) -> tensor<4x256x64xbf16>
    %12 = stablehlo.reshape %10 : (tensor<1x4x64x256xbf16>) -> tensor<4x64x256xbf16>
    %13 = stablehlo.dot_general %11, %12, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x256x64xbf16>, tensor<4x64x256xbf16>) -> tensor<4x256x256xbf16>
    %14 = stablehlo.broadcast_in_dim %13, dims = [1, 2, 3] : (tensor<4x256x256xbf16>) -> tensor<1x4x256x256xbf16>
    %cst = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %15 = stablehlo.sqrt %cst : tensor<f32>
    %16 = stablehlo.convert %15 : (tensor<f32>) -> tensor<bf16>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<bf16>) -> tensor<1x4x256x256xbf16>
    %18 = stablehlo.divide %14, %17 : tensor<1x4x256x256xbf16>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %19 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<256x256xi1>
    %20 = call @tril(%19) : (tensor<256x256xi1>) -> tensor<256x256xi1>
    %cst_0 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %21:2 = call @_where(%20, %18, %cst_0) : (tensor<256x256xi1>, tensor<1x4x256x256xbf16>, tensor<f32>) -> (tensor<1x4x256x256xbf16>, tensor<1x4x256x256xi1>)
    %22 = stablehlo.convert %21#0 : (tensor<1x4x256x256xbf16>) -> tensor<1x4x256x256xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %23 = stablehlo.reduce(%22 init: %cst_1) applies stablehlo.maximum across dimensions = [3] : (tensor<1x4x256x256xf32>, tensor<f32>) -> tensor<1x4x256xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x4x256xf32>
    %25 = stablehlo.maximum %24, %23 : tensor<1x4x256xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<1x4x256xf32>) -> tensor<1x4x256x1xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<1x4x256x1xf32>) -> tensor<1x4x256x256xf32>
    %28 = stablehlo.subtract %22, %27 : tensor<1x4x256x256xf32>
    %29 = stablehlo.exponential %28 : tensor<1x4x256x256xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%29 init: %cst_3) applies stablehlo.add across dimensions = [3] : (tensor<1x4x256x256xf32>, tensor<f32>) -> tensor<1x4x256xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2] : (tensor<1x4x256xf32>) -> tensor<1x4x256x1xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2, 3] : (tensor<1x4x256x1xf32>) -> tensor<1x4x256x256xf32>
    %33 = stablehlo.divide %29, %32 : tensor<1x4x256x256xf32>
    %34 = stablehlo.multiply %31, %31 : tensor<1x4x256x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x4x256x1xf32>
    %36 = stablehlo.divide %35, %34 : tensor<1x4x256x1xf32>
    %37 = stablehlo.convert %33 : (tensor<1x4x256x256xf32>) -> tensor<1x4x256x256xbf16>
    %38 = stablehlo.reshape %37 : (tensor<1x4x256x256xbf16>) -> tensor<4x256x256xbf16>
    %39 = stablehlo.reshape %9 : (tensor<1x4x256x64xbf16>) -> tensor<4x256x64xbf16>
    %40 = stablehlo.dot_general %38, %39, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x256x256xbf16>, tensor<4x256x64xbf16>) -> tensor<4x256x64xbf16>
    %41 = stablehlo.broadcast_in_dim %40, dims = [1, 2, 3] : (tensor<4x256x64xbf16>) -> tensor<1x4x256x64xbf16>
    %42 = stablehlo.transpose %41, dims = [0, 2, 1, 3] : (tensor<1x4x256x64xbf16>) -> tensor<1x256x4x64xbf16>
    %43 = stablehlo.reshape %42 : (tensor<1x256x4x64xbf16>) -> tensor<1x256x256xbf16>
    %44 = stablehlo.convert %43 : (tensor<1x256x256xbf16>) -> tensor<1x256x256xf32>
    %45 = stablehlo.multiply %44, %44 : tensor<1x256x256xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1x256x256xf32>
    %47 = stablehlo.multiply %46, %44 : tensor<1x256x256xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.reduce(%45 init: %cst_6) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x256x256xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x256x256xf32>
    %50 = stablehlo.multiply %49, %47 : tensor<1x256x256xf32>
    %51 = stablehlo.convert %50 : (tensor<1x256x256xf32>) -> tensor<1x256x256xbf16>
    %52 = stablehlo.reshape %51 : (tensor<1x256x256xbf16>) -> tensor<1x256x4x64xbf16>
    %53 = stablehlo.transpose %52, dims = [0, 2, 1, 3] : (tensor<1x256x4x64xbf16>) -> tensor<1x4x256x64xbf16>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %54 = stablehlo.reduce(%53 init: %cst_8) applies stablehlo.add across dimensions = [0] : (tensor<1x4x256x64xbf16>, tensor<bf16>) -> tensor<4x256x64xbf16>
    %55 = stablehlo.dot_general %54, %38, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x256x64xbf16>, tensor<4x256x256xbf16>) -> tensor<4x64x256xbf16>
    %56 = stablehlo.transpose %55, dims = [0, 2, 1] : (tensor<4x64x256xbf16>) -> tensor<4x256x64xbf16>
    %57 = stablehlo.dot_general %54, %39, batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x256x64xbf16>, tensor<4x256x64xbf16>) -> tensor<4x256x256xbf16>
    %58 = stablehlo.broadcast_in_dim %56, dims = [1, 2, 3] : (tensor<4x256x64xbf16>) -> tensor<1x4x256x64xbf16>
    %59 = stablehlo.broadcast_in_dim %57, dims = [1, 2, 3] : (tensor<4x256x256xbf16>) -> tensor<1x4x256x256xbf16>
    %60 = stablehlo.convert %59 : (tensor<1x4x256x256xbf16>) -> tensor<1x4x256x256xf32>
    %61 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2, 3] : (tensor<1x4x256x1xf32>) -> tensor<1x4x256x256xf32>
    %62 = stablehlo.multiply %60, %61 : tensor<1x4x256x256xf32>
    %63 = stablehlo.multiply %62, %29 : tensor<1x4x256x256xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %64 = stablehlo.reduce(%63 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<1x4x256x256xf32>, tensor<f32>) -> tensor<1x4x256xf32>
    %65 = stablehlo.reshape %64 : (tensor<1x4x256xf32>) -> tensor<1x4x256x1xf32>
    %66 = stablehlo.negate %65 : tensor<1x4x256x1xf32>
    %67 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2, 3] : (tensor<1x4x256x1xf32>) -> tensor<1x4x256x256xf32>
    %68 = stablehlo.divide %60, %67 : tensor<1x4x256x256xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %69 = stablehlo.reduce(%66 init: %cst_10) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x4x256x1xf32>, tensor<f32>) -> tensor<4x256xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [1, 2] : (tensor<4x256xf32>) -> tensor<1x4x256xf32>
    %71 = stablehlo.broadcast_in_dim %70, dims = [0, 1, 2] : (tensor<1x4x256xf32>) -> tensor<1x4x256x256xf32>
    %72 = stablehlo.add %68, %71 : tensor<1x4x256x256xf32>
    %73 = stablehlo.multiply %72, %29 : tensor<1x4x256x256xf32>
    %74 = stablehlo.convert %73 : (tensor<1x4x256x256xf32>) -> tensor<1x4x256x256xbf16>
    %75 = call @_where_0(%21#1, %74) : (tensor<1x4x256x256xi1>, tensor<1x4x256x256xbf16>) -> tensor<1x4x256x256xbf16>
    %76 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<bf16>) -> tensor<1x4x256x256xbf16>
    %77 = stablehlo.divide %75, %76 : tensor<1x4x256x256xbf16>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %78 = stablehlo.reduce(%77 init: %cst_11) applies stablehlo.add across dimensions = [0] : (tensor<1x4x256x256xbf16>, tensor<bf16>) -> tensor<4x256x256xbf16>
    %79 = stablehlo.dot_general %78, %11, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x256x256xbf16>, tensor<4x256x64xbf16>) -> tensor<4x256x64xbf16>
    %80 = stablehlo.transpose %79, dims = [0, 2, 1] : (tensor<4x256x64xbf16>) -> tensor<4x64x256xbf16>
    %81 = stablehlo.dot_general %78, %12, batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x256x256xbf16>, tensor<4x64x256xbf16>) -> tensor<4x256x64xbf16>
    %82 = stablehlo.broadcast_in_dim %80, dims = [1, 2, 3] : (tensor<4x64x256xbf16>) -> tensor<1x4x64x256xbf16>
    %83 = stablehlo.broadcast_in_dim %81, dims = [1, 2, 3] : (tensor<4x256x64xbf16>) -> tensor<1x4x256x64xbf16>
    %84 = stablehlo.transpose %82, dims = [0, 1, 3, 2] : (tensor<1x4x64x256xbf16>) -> tensor<1x4x256x64xbf16>
    %85 = stablehlo.transpose %58, dims = [0, 2, 1, 3] : (tensor<1x4x256x64xbf16>) -> tensor<1x256x4x64xbf16>
    %86 = stablehlo.reshape %85 : (tensor<1x256x4x64xbf16>) -> tensor<1x256x256xbf16>
    %87 = stablehlo.transpose %84, dims = [0, 2, 1, 3] : (tensor<1x4x256x64xbf16>) -> tensor<1x256x4x64xbf16>
    %88 = stablehlo.reshape %87 : (tensor<1x256x4x64xbf16>) -> tensor<1x256x256xbf16>
    %89 = stablehlo.transpose %83, dims = [0, 2, 1, 3] : (tensor<1x4x256x64xbf16>) -> tensor<1x256x4x64xbf16>
    %90 = stablehlo.reshape %89 : (tensor<1x256x4x64xbf16>) -> tensor<1x256x256xbf16>
    %91 = stablehlo.concatenate %90, %88, %86, dim = 2 : (tensor<1x256x256xbf16>, tensor<1x256x256xbf16>, tensor<1x256x256xbf16>) -> tensor<1x256x768xbf16>
    %92 = stablehlo.dot_general %91, %arg0, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x768xbf16>, tensor<1x256x256xbf16>) -> tensor<768x256xbf16>
    %93 = stablehlo.transpose %92, dims = [1, 0] : (tensor<768x256xbf16>) -> tensor<256x768xbf16>
    %94 = stablehlo.dot_general %91, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x768xbf16>, tensor<256x768xbf16>) -> tensor<1x256x256xbf16>
    return %48, %94, %93 : tensor<f32>, tensor<1x256x256xbf16>, tensor<256x768xbf16>
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
  func.func private @_where(%arg0: tensor<256x256xi1>, %arg1: tensor<1x4x256x256xbf16>, %arg2: tensor<f32>) -> (tensor<1x4x256x256xbf16>, tensor<1x4x256x256xi1>) {
    %0 = stablehlo.convert %arg2 : (tensor<f32>) -> tensor<bf16>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<256x256xi1>) -> tensor<1x4x256x256xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<bf16>) -> tensor<1x4x256x256xbf16>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x4x256x256xi1>, tensor<1x4x256x256xbf16>
    return %3, %1 : tensor<1x4x256x256xbf16>, tensor<1x4x256x256xi1>
  }
  func.func private @_where_0(%arg0: tensor<1x4x256x256xi1>, %arg1: tensor<1x4x256x256xbf16>) -> tensor<1x4x256x256xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<1x4x256x256xbf16>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<1x4x256x256xi1>, tensor<1x4x256x256xbf16>
    return %1 : tensor<1x4x256x256xbf16>
  }
}
