module @jit_both attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<128x4xbf16>, %arg1: tensor<4x128x256xbf16>, %arg2: tensor<4x256x128xbf16>, %arg3: tensor<4x128x256xbf16>, %arg4: tensor<2x64x128xbf16>, %arg5: tensor<2x64x128xbf16>) -> (tensor<2x64x128xbf16> {jax.result_info = "result[0]"}, tensor<128x4xbf16> {jax.result_info = "result[1]['gate']"}, tensor<4x128x256xbf16> {jax.result_info = "result[1]['w1']"}, tensor<4x256x128xbf16> {jax.result_info = "result[1]['w2']"}, tensor<4x128x256xbf16> {jax.result_info = "result[1]['w3']"}, tensor<2x64x128xbf16> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.dot_general %arg4, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<128x4xbf16>) -> tensor<2x64x4xbf16>
    %1 = stablehlo.convert %0 : (tensor<2x64x4xbf16>) -> tensor<2x64x4xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %4 = stablehlo.maximum %3, %2 : tensor<2x64xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x4xf32>
    %7 = stablehlo.subtract %1, %6 : tensor<2x64x4xf32>
    %8 = stablehlo.exponential %7 : tensor<2x64x4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x4xf32>
    %12 = stablehlo.divide %8, %11 : tensor<2x64x4xf32>
    %13 = stablehlo.multiply %10, %10 : tensor<2x64x1xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %15 = stablehlo.divide %14, %13 : tensor<2x64x1xf32>
    %values, %indices = chlo.top_k(%12, k = 2) : tensor<2x64x4xf32> -> (tensor<2x64x2xf32>, tensor<2x64x2xi32>)
    %16 = stablehlo.transpose %indices, dims = [0, 2, 1] : (tensor<2x64x2xi32>) -> tensor<2x2x64xi32>
    %17 = stablehlo.reshape %16 : (tensor<2x2x64xi32>) -> tensor<2x128xi32>
    %18 = call @_one_hot(%17) : (tensor<2x128xi32>) -> tensor<2x128x4xi32>
    %19 = call @cumsum(%18) : (tensor<2x128x4xi32>) -> tensor<2x128x4xi32>
    %20 = stablehlo.multiply %19, %18 : tensor<2x128x4xi32>
    %21 = stablehlo.convert %20 : (tensor<2x128x4xi32>) -> tensor<2x128x4xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x128x4xf32>
    %23 = stablehlo.subtract %21, %22 : tensor<2x128x4xf32>
    %24 = stablehlo.reshape %23 : (tensor<2x128x4xf32>) -> tensor<2x2x64x4xf32>
    %25 = stablehlo.transpose %24, dims = [0, 2, 1, 3] : (tensor<2x2x64x4xf32>) -> tensor<2x64x2x4xf32>
    %26 = stablehlo.convert %25 : tensor<2x64x2x4xf32>
    %cst_4 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %27 = stablehlo.reduce(%26 init: %cst_4) applies stablehlo.maximum across dimensions = [2] : (tensor<2x64x2x4xf32>, tensor<f32>) -> tensor<2x64x4xf32>
    %28 = call @_one_hot_1(%27) : (tensor<2x64x4xf32>) -> tensor<2x64x4x28xi1>
    %29 = stablehlo.convert %12 : tensor<2x64x4xf32>
    %30 = stablehlo.convert %28 : (tensor<2x64x4x28xi1>) -> tensor<2x64x4x28xf32>
    %31 = stablehlo.dot_general %29, %30, batching_dims = [0, 1, 2] x [0, 1, 2], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4xf32>, tensor<2x64x4x28xf32>) -> tensor<2x64x4x28xf32>
    %32 = stablehlo.convert %28 : (tensor<2x64x4x28xi1>) -> tensor<2x64x4x28xbf16>
    %33 = stablehlo.dot_general %32, %arg4, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x28xbf16>, tensor<2x64x128xbf16>) -> tensor<2x4x28x128xbf16>
    %34 = stablehlo.transpose %33, dims = [1, 0, 2, 3] : (tensor<2x4x28x128xbf16>) -> tensor<4x2x28x128xbf16>
    %35 = stablehlo.dot_general %34, %arg1, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x128xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x28x256xbf16>
    %36:3 = call @silu(%35) : (tensor<4x2x28x256xbf16>) -> (tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>)
    %37 = stablehlo.dot_general %34, %arg3, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x128xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x28x256xbf16>
    %38 = stablehlo.multiply %36#0, %37 : tensor<4x2x28x256xbf16>
    %39 = stablehlo.dot_general %38, %arg2, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x256xbf16>, tensor<4x256x128xbf16>) -> tensor<4x2x28x128xbf16>
    %40 = stablehlo.convert %31 : (tensor<2x64x4x28xf32>) -> tensor<2x64x4x28xbf16>
    %41 = stablehlo.dot_general %40, %39, batching_dims = [0] x [1], contracting_dims = [3, 2] x [2, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x28xbf16>, tensor<4x2x28x128xbf16>) -> tensor<2x64x128xbf16>
    %42 = stablehlo.add %arg4, %41 : tensor<2x64x128xbf16>
    %43 = stablehlo.dot_general %arg5, %40, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<2x64x4x28xbf16>) -> tensor<2x128x4x28xbf16>
    %44 = stablehlo.transpose %43, dims = [2, 0, 3, 1] : (tensor<2x128x4x28xbf16>) -> tensor<4x2x28x128xbf16>
    %45 = stablehlo.dot_general %arg5, %39, batching_dims = [0] x [1], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<4x2x28x128xbf16>) -> tensor<2x64x4x28xbf16>
    %46 = stablehlo.convert %45 : (tensor<2x64x4x28xbf16>) -> tensor<2x64x4x28xf32>
    %47 = stablehlo.dot_general %44, %38, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x128xbf16>, tensor<4x2x28x256xbf16>) -> tensor<4x128x256xbf16>
    %48 = stablehlo.transpose %47, dims = [0, 2, 1] : (tensor<4x128x256xbf16>) -> tensor<4x256x128xbf16>
    %49 = stablehlo.dot_general %44, %arg2, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x128xbf16>, tensor<4x256x128xbf16>) -> tensor<4x2x28x256xbf16>
    %50 = stablehlo.multiply %36#0, %49 : tensor<4x2x28x256xbf16>
    %51 = stablehlo.multiply %49, %37 : tensor<4x2x28x256xbf16>
    %52 = stablehlo.dot_general %50, %34, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x256xbf16>, tensor<4x2x28x128xbf16>) -> tensor<4x256x128xbf16>
    %53 = stablehlo.transpose %52, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %54 = stablehlo.dot_general %50, %arg3, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x256xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x28x128xbf16>
    %55 = call @silu_2(%36#1, %36#2, %35, %51) : (tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>) -> tensor<4x2x28x256xbf16>
    %56 = stablehlo.dot_general %55, %34, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x256xbf16>, tensor<4x2x28x128xbf16>) -> tensor<4x256x128xbf16>
    %57 = stablehlo.transpose %56, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %58 = stablehlo.dot_general %55, %arg1, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x256xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x28x128xbf16>
    %59 = stablehlo.add %54, %58 : tensor<4x2x28x128xbf16>
    %60 = stablehlo.transpose %59, dims = [1, 0, 2, 3] : (tensor<4x2x28x128xbf16>) -> tensor<2x4x28x128xbf16>
    %61 = stablehlo.dot_general %60, %32, batching_dims = [0] x [0], contracting_dims = [1, 2] x [2, 3], precision = [DEFAULT, DEFAULT] : (tensor<2x4x28x128xbf16>, tensor<2x64x4x28xbf16>) -> tensor<2x128x64xbf16>
    %62 = stablehlo.transpose %61, dims = [0, 2, 1] : (tensor<2x128x64xbf16>) -> tensor<2x64x128xbf16>
    %63 = stablehlo.add %arg5, %62 : tensor<2x64x128xbf16>
    %64 = stablehlo.convert %46 : tensor<2x64x4x28xf32>
    %65 = stablehlo.convert %28 : (tensor<2x64x4x28xi1>) -> tensor<2x64x4x28xf32>
    %66 = stablehlo.dot_general %64, %65, batching_dims = [0, 1, 2] x [0, 1, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x28xf32>, tensor<2x64x4x28xf32>) -> tensor<2x64x4xf32>
    %67 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x4xf32>
    %68 = stablehlo.multiply %66, %67 : tensor<2x64x4xf32>
    %69 = stablehlo.multiply %68, %8 : tensor<2x64x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %70 = stablehlo.reduce(%69 init: %cst_5) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %71 = stablehlo.reshape %70 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %72 = stablehlo.negate %71 : tensor<2x64x1xf32>
    %73 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x4xf32>
    %74 = stablehlo.divide %66, %73 : tensor<2x64x4xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %75 = stablehlo.reduce(%72 init: %cst_6) applies stablehlo.add across dimensions = [2] : (tensor<2x64x1xf32>, tensor<f32>) -> tensor<2x64xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x4xf32>
    %77 = stablehlo.add %74, %76 : tensor<2x64x4xf32>
    %78 = stablehlo.multiply %77, %8 : tensor<2x64x4xf32>
    %79 = stablehlo.convert %78 : (tensor<2x64x4xf32>) -> tensor<2x64x4xbf16>
    %80 = stablehlo.dot_general %79, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4xbf16>, tensor<2x64x128xbf16>) -> tensor<4x128xbf16>
    %81 = stablehlo.transpose %80, dims = [1, 0] : (tensor<4x128xbf16>) -> tensor<128x4xbf16>
    %82 = stablehlo.dot_general %79, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4xbf16>, tensor<128x4xbf16>) -> tensor<2x64x128xbf16>
    %83 = stablehlo.add %63, %82 : tensor<2x64x128xbf16>
    return %42, %81, %57, %48, %53, %83 : tensor<2x64x128xbf16>, tensor<128x4xbf16>, tensor<4x128x256xbf16>, tensor<4x256x128xbf16>, tensor<4x128x256xbf16>, tensor<2x64x128xbf16>
  }
  func.func private @_one_hot(%arg0: tensor<2x128xi32>) -> tensor<2x128x4xi32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<2x128xi32>) -> tensor<2x128x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x4xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<2x128x1xi32>) -> tensor<2x128x4xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x4xi32>) -> tensor<2x128x4xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<2x128x4xi32>, tensor<2x128x4xi32>) -> tensor<2x128x4xi1>
    %5 = stablehlo.convert %4 : (tensor<2x128x4xi1>) -> tensor<2x128x4xi32>
    return %5 : tensor<2x128x4xi32>
  }
  func.func private @cumsum(%arg0: tensor<2x128x4xi32>) -> tensor<2x128x4xi32> {
    %0 = call @cumsum_0(%arg0) : (tensor<2x128x4xi32>) -> tensor<2x128x4xi32>
    return %0 : tensor<2x128x4xi32>
  }
  func.func private @cumsum_0(%arg0: tensor<2x128x4xi32>) -> tensor<2x128x4xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<i32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [127, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 128, 1>, window_strides = array<i64: 1, 1, 1>}> ({
    ^bb0(%arg1: tensor<i32>, %arg2: tensor<i32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<i32>
      stablehlo.return %2 : tensor<i32>
    }) : (tensor<2x128x4xi32>, tensor<i32>) -> tensor<2x128x4xi32>
    return %1 : tensor<2x128x4xi32>
  }
  func.func private @_one_hot_1(%arg0: tensor<2x64x4xf32>) -> tensor<2x64x4x28xi1> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<2x64x4xf32>) -> tensor<2x64x4x1xf32>
    %1 = stablehlo.iota dim = 3 : tensor<1x1x1x28xf32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<2x64x4x1xf32>) -> tensor<2x64x4x28xf32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x28xf32>) -> tensor<2x64x4x28xf32>
    %4 = stablehlo.compare EQ, %2, %3, FLOAT : (tensor<2x64x4x28xf32>, tensor<2x64x4x28xf32>) -> tensor<2x64x4x28xi1>
    return %4 : tensor<2x64x4x28xi1>
  }
  func.func private @silu(%arg0: tensor<4x2x28x256xbf16>) -> (tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>) {
    %0 = stablehlo.negate %arg0 : tensor<4x2x28x256xbf16>
    %1 = stablehlo.exponential %0 : tensor<4x2x28x256xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<4x2x28x256xbf16>
    %3 = stablehlo.add %2, %1 : tensor<4x2x28x256xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<4x2x28x256xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<4x2x28x256xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<4x2x28x256xbf16>
    %7 = stablehlo.subtract %6, %5 : tensor<4x2x28x256xbf16>
    %8 = stablehlo.multiply %5, %7 : tensor<4x2x28x256xbf16>
    %9 = stablehlo.multiply %arg0, %5 : tensor<4x2x28x256xbf16>
    return %9, %8, %5 : tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>
  }
  func.func private @silu_2(%arg0: tensor<4x2x28x256xbf16>, %arg1: tensor<4x2x28x256xbf16>, %arg2: tensor<4x2x28x256xbf16>, %arg3: tensor<4x2x28x256xbf16>) -> tensor<4x2x28x256xbf16> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<4x2x28x256xbf16>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<4x2x28x256xbf16>
    %2 = stablehlo.multiply %0, %arg0 : tensor<4x2x28x256xbf16>
    %3 = stablehlo.add %1, %2 : tensor<4x2x28x256xbf16>
    return %3 : tensor<4x2x28x256xbf16>
  }
}
