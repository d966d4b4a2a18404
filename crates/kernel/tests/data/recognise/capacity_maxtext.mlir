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
    %16 = call @_one_hot(%indices) : (tensor<2x64x2xi32>) -> tensor<2x64x2x4xi32>
    %17 = stablehlo.reshape %16 : (tensor<2x64x2x4xi32>) -> tensor<2x128x4xi32>
    %18 = call @cumsum(%17) : (tensor<2x128x4xi32>) -> tensor<2x128x4xi32>
    %19 = stablehlo.reshape %18 : (tensor<2x128x4xi32>) -> tensor<2x64x2x4xi32>
    %c = stablehlo.constant dense<28> : tensor<i32>
    %20 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x64x2x4xi32>
    %21 = stablehlo.compare LE, %19, %20, SIGNED : (tensor<2x64x2x4xi32>, tensor<2x64x2x4xi32>) -> tensor<2x64x2x4xi1>
    %22 = stablehlo.convert %21 : (tensor<2x64x2x4xi1>) -> tensor<2x64x2x4xi32>
    %23 = stablehlo.multiply %16, %22 : tensor<2x64x2x4xi32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %24 = stablehlo.reduce(%23 init: %c_3) applies stablehlo.add across dimensions = [2] : (tensor<2x64x2x4xi32>, tensor<i32>) -> tensor<2x64x4xi32>
    %25 = stablehlo.convert %24 : (tensor<2x64x4xi32>) -> tensor<2x64x4xf32>
    %26 = stablehlo.multiply %12, %25 : tensor<2x64x4xf32>
    %27 = stablehlo.multiply %17, %18 : tensor<2x128x4xi32>
    %28 = stablehlo.reshape %27 : (tensor<2x128x4xi32>) -> tensor<2x64x2x4xi32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %29 = stablehlo.reduce(%28 init: %c_4) applies stablehlo.add across dimensions = [2] : (tensor<2x64x2x4xi32>, tensor<i32>) -> tensor<2x64x4xi32>
    %30 = stablehlo.multiply %29, %24 : tensor<2x64x4xi32>
    %31 = call @_one_hot_1(%30) : (tensor<2x64x4xi32>) -> tensor<2x64x4x29xi32>
    %32 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2] : (tensor<2x64x4xf32>) -> tensor<2x64x4x1xf32>
    %33 = stablehlo.convert %31 : (tensor<2x64x4x29xi32>) -> tensor<2x64x4x29xf32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2, 3] : (tensor<2x64x4x1xf32>) -> tensor<2x64x4x29xf32>
    %35 = stablehlo.multiply %34, %33 : tensor<2x64x4x29xf32>
    %36 = stablehlo.slice %35 [0:2, 0:64, 0:4, 1:29] : (tensor<2x64x4x29xf32>) -> tensor<2x64x4x28xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x64x4x28xf32>
    %38 = stablehlo.compare NE, %36, %37, FLOAT : (tensor<2x64x4x28xf32>, tensor<2x64x4x28xf32>) -> tensor<2x64x4x28xi1>
    %39 = stablehlo.convert %38 : tensor<2x64x4x28xi1>
    %40 = stablehlo.convert %39 : (tensor<2x64x4x28xi1>) -> tensor<2x64x4x28xbf16>
    %41 = stablehlo.dot_general %40, %arg4, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x28xbf16>, tensor<2x64x128xbf16>) -> tensor<2x4x28x128xbf16>
    %42 = stablehlo.transpose %41, dims = [1, 0, 2, 3] : (tensor<2x4x28x128xbf16>) -> tensor<4x2x28x128xbf16>
    %43 = stablehlo.dot_general %42, %arg1, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x128xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x28x256xbf16>
    %44:3 = call @silu(%43) : (tensor<4x2x28x256xbf16>) -> (tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>)
    %45 = stablehlo.dot_general %42, %arg3, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x128xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x28x256xbf16>
    %46 = stablehlo.multiply %44#0, %45 : tensor<4x2x28x256xbf16>
    %47 = stablehlo.dot_general %46, %arg2, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x256xbf16>, tensor<4x256x128xbf16>) -> tensor<4x2x28x128xbf16>
    %48 = stablehlo.convert %36 : (tensor<2x64x4x28xf32>) -> tensor<2x64x4x28xbf16>
    %49 = stablehlo.dot_general %48, %47, batching_dims = [0] x [1], contracting_dims = [3, 2] x [2, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x28xbf16>, tensor<4x2x28x128xbf16>) -> tensor<2x64x128xbf16>
    %50 = stablehlo.add %arg4, %49 : tensor<2x64x128xbf16>
    %51 = stablehlo.dot_general %arg5, %48, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<2x64x4x28xbf16>) -> tensor<2x128x4x28xbf16>
    %52 = stablehlo.transpose %51, dims = [2, 0, 3, 1] : (tensor<2x128x4x28xbf16>) -> tensor<4x2x28x128xbf16>
    %53 = stablehlo.dot_general %arg5, %47, batching_dims = [0] x [1], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<4x2x28x128xbf16>) -> tensor<2x64x4x28xbf16>
    %54 = stablehlo.convert %53 : (tensor<2x64x4x28xbf16>) -> tensor<2x64x4x28xf32>
    %55 = stablehlo.dot_general %52, %46, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x128xbf16>, tensor<4x2x28x256xbf16>) -> tensor<4x128x256xbf16>
    %56 = stablehlo.transpose %55, dims = [0, 2, 1] : (tensor<4x128x256xbf16>) -> tensor<4x256x128xbf16>
    %57 = stablehlo.dot_general %52, %arg2, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x128xbf16>, tensor<4x256x128xbf16>) -> tensor<4x2x28x256xbf16>
    %58 = stablehlo.multiply %44#0, %57 : tensor<4x2x28x256xbf16>
    %59 = stablehlo.multiply %57, %45 : tensor<4x2x28x256xbf16>
    %60 = stablehlo.dot_general %58, %42, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x256xbf16>, tensor<4x2x28x128xbf16>) -> tensor<4x256x128xbf16>
    %61 = stablehlo.transpose %60, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %62 = stablehlo.dot_general %58, %arg3, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x256xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x28x128xbf16>
    %63 = call @silu_2(%44#1, %44#2, %43, %59) : (tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>, tensor<4x2x28x256xbf16>) -> tensor<4x2x28x256xbf16>
    %64 = stablehlo.dot_general %63, %42, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x256xbf16>, tensor<4x2x28x128xbf16>) -> tensor<4x256x128xbf16>
    %65 = stablehlo.transpose %64, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %66 = stablehlo.dot_general %63, %arg1, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x28x256xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x28x128xbf16>
    %67 = stablehlo.add %62, %66 : tensor<4x2x28x128xbf16>
    %68 = stablehlo.transpose %67, dims = [1, 0, 2, 3] : (tensor<4x2x28x128xbf16>) -> tensor<2x4x28x128xbf16>
    %69 = stablehlo.dot_general %68, %40, batching_dims = [0] x [0], contracting_dims = [1, 2] x [2, 3], precision = [DEFAULT, DEFAULT] : (tensor<2x4x28x128xbf16>, tensor<2x64x4x28xbf16>) -> tensor<2x128x64xbf16>
    %70 = stablehlo.transpose %69, dims = [0, 2, 1] : (tensor<2x128x64xbf16>) -> tensor<2x64x128xbf16>
    %71 = stablehlo.add %arg5, %70 : tensor<2x64x128xbf16>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %72 = stablehlo.pad %54, %cst_6, low = [0, 0, 0, 1], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<2x64x4x28xf32>, tensor<f32>) -> tensor<2x64x4x29xf32>
    %73 = stablehlo.multiply %72, %33 : tensor<2x64x4x29xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %74 = stablehlo.reduce(%73 init: %cst_7) applies stablehlo.add across dimensions = [3] : (tensor<2x64x4x29xf32>, tensor<f32>) -> tensor<2x64x4xf32>
    %75 = stablehlo.reshape %74 : (tensor<2x64x4xf32>) -> tensor<2x64x4x1xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %76 = stablehlo.reduce(%75 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<2x64x4x1xf32>, tensor<f32>) -> tensor<2x64x4xf32>
    %77 = stablehlo.multiply %76, %25 : tensor<2x64x4xf32>
    %78 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x4xf32>
    %79 = stablehlo.multiply %77, %78 : tensor<2x64x4xf32>
    %80 = stablehlo.multiply %79, %8 : tensor<2x64x4xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %81 = stablehlo.reduce(%80 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %82 = stablehlo.reshape %81 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %83 = stablehlo.negate %82 : tensor<2x64x1xf32>
    %84 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x4xf32>
    %85 = stablehlo.divide %77, %84 : tensor<2x64x4xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %86 = stablehlo.reduce(%83 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<2x64x1xf32>, tensor<f32>) -> tensor<2x64xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x4xf32>
    %88 = stablehlo.add %85, %87 : tensor<2x64x4xf32>
    %89 = stablehlo.multiply %88, %8 : tensor<2x64x4xf32>
    %90 = stablehlo.convert %89 : (tensor<2x64x4xf32>) -> tensor<2x64x4xbf16>
    %91 = stablehlo.dot_general %90, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4xbf16>, tensor<2x64x128xbf16>) -> tensor<4x128xbf16>
    %92 = stablehlo.transpose %91, dims = [1, 0] : (tensor<4x128xbf16>) -> tensor<128x4xbf16>
    %93 = stablehlo.dot_general %90, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4xbf16>, tensor<128x4xbf16>) -> tensor<2x64x128xbf16>
    %94 = stablehlo.add %71, %93 : tensor<2x64x128xbf16>
    return %50, %92, %65, %56, %61, %94 : tensor<2x64x128xbf16>, tensor<128x4xbf16>, tensor<4x128x256xbf16>, tensor<4x256x128xbf16>, tensor<4x128x256xbf16>, tensor<2x64x128xbf16>
  }
  func.func private @_one_hot(%arg0: tensor<2x64x2xi32>) -> tensor<2x64x2x4xi32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<2x64x2xi32>) -> tensor<2x64x2x1xi32>
    %1 = stablehlo.iota dim = 3 : tensor<1x1x1x4xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<2x64x2x1xi32>) -> tensor<2x64x2x4xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x4xi32>) -> tensor<2x64x2x4xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<2x64x2x4xi32>, tensor<2x64x2x4xi32>) -> tensor<2x64x2x4xi1>
    %5 = stablehlo.convert %4 : (tensor<2x64x2x4xi1>) -> tensor<2x64x2x4xi32>
    return %5 : tensor<2x64x2x4xi32>
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
  func.func private @_one_hot_1(%arg0: tensor<2x64x4xi32>) -> tensor<2x64x4x29xi32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<2x64x4xi32>) -> tensor<2x64x4x1xi32>
    %1 = stablehlo.iota dim = 3 : tensor<1x1x1x29xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<2x64x4x1xi32>) -> tensor<2x64x4x29xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x29xi32>) -> tensor<2x64x4x29xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<2x64x4x29xi32>, tensor<2x64x4x29xi32>) -> tensor<2x64x4x29xi1>
    %5 = stablehlo.convert %4 : (tensor<2x64x4x29xi1>) -> tensor<2x64x4x29xi32>
    return %5 : tensor<2x64x4x29xi32>
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
