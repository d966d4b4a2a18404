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
    %16 = call @argmax(%12) : (tensor<2x64x4xf32>) -> tensor<2x64xi32>
    %17 = call @_one_hot(%16) : (tensor<2x64xi32>) -> tensor<2x64x4xf32>
    %18 = stablehlo.multiply %12, %17 : tensor<2x64x4xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.reduce(%18 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %20 = call @cumsum(%17) : (tensor<2x64x4xf32>) -> tensor<2x64x4xf32>
    %21 = stablehlo.multiply %20, %17 : tensor<2x64x4xf32>
    %cst_4 = stablehlo.constant dense<1.800000e+01> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x64x4xf32>
    %23 = stablehlo.compare LE, %21, %22, FLOAT : (tensor<2x64x4xf32>, tensor<2x64x4xf32>) -> tensor<2x64x4xi1>
    %24 = stablehlo.convert %23 : (tensor<2x64x4xi1>) -> tensor<2x64x4xf32>
    %25 = stablehlo.multiply %17, %24 : tensor<2x64x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.reduce(%25 init: %cst_5) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %27 = stablehlo.multiply %19, %26 : tensor<2x64xf32>
    %28 = stablehlo.multiply %21, %25 : tensor<2x64x4xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %29 = stablehlo.reduce(%28 init: %cst_6) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %30 = stablehlo.convert %29 : (tensor<2x64xf32>) -> tensor<2x64xi32>
    %c = stablehlo.constant dense<1> : tensor<i32>
    %31 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x64xi32>
    %32 = stablehlo.subtract %30, %31 : tensor<2x64xi32>
    %33 = stablehlo.multiply %27, %26 : tensor<2x64xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1x1xf32>
    %35 = call @_one_hot(%16) : (tensor<2x64xi32>) -> tensor<2x64x4xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<2x64x4xf32>) -> tensor<2x64x4x1xf32>
    %37 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2, 3] : (tensor<2x64x1x1xf32>) -> tensor<2x64x4x1xf32>
    %38 = stablehlo.multiply %37, %36 : tensor<2x64x4x1xf32>
    %39 = call @_one_hot_1(%32) : (tensor<2x64xi32>) -> tensor<2x64x18xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 3] : (tensor<2x64x18xf32>) -> tensor<2x64x1x18xf32>
    %41 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2, 3] : (tensor<2x64x4x1xf32>) -> tensor<2x64x4x18xf32>
    %42 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3] : (tensor<2x64x1x18xf32>) -> tensor<2x64x4x18xf32>
    %43 = stablehlo.multiply %41, %42 : tensor<2x64x4x18xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %44 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x64x4x18xf32>
    %45 = stablehlo.compare NE, %43, %44, FLOAT : (tensor<2x64x4x18xf32>, tensor<2x64x4x18xf32>) -> tensor<2x64x4x18xi1>
    %46 = stablehlo.convert %45 : tensor<2x64x4x18xi1>
    %47 = stablehlo.convert %46 : (tensor<2x64x4x18xi1>) -> tensor<2x64x4x18xbf16>
    %48 = stablehlo.dot_general %47, %arg4, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x18xbf16>, tensor<2x64x128xbf16>) -> tensor<2x4x18x128xbf16>
    %49 = stablehlo.transpose %48, dims = [1, 0, 2, 3] : (tensor<2x4x18x128xbf16>) -> tensor<4x2x18x128xbf16>
    %50 = stablehlo.dot_general %49, %arg1, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x128xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x18x256xbf16>
    %51:3 = call @silu(%50) : (tensor<4x2x18x256xbf16>) -> (tensor<4x2x18x256xbf16>, tensor<4x2x18x256xbf16>, tensor<4x2x18x256xbf16>)
    %52 = stablehlo.dot_general %49, %arg3, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x128xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x18x256xbf16>
    %53 = stablehlo.multiply %51#0, %52 : tensor<4x2x18x256xbf16>
    %54 = stablehlo.dot_general %53, %arg2, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x256xbf16>, tensor<4x256x128xbf16>) -> tensor<4x2x18x128xbf16>
    %55 = stablehlo.convert %43 : (tensor<2x64x4x18xf32>) -> tensor<2x64x4x18xbf16>
    %56 = stablehlo.dot_general %55, %54, batching_dims = [0] x [1], contracting_dims = [3, 2] x [2, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x18xbf16>, tensor<4x2x18x128xbf16>) -> tensor<2x64x128xbf16>
    %57 = stablehlo.add %arg4, %56 : tensor<2x64x128xbf16>
    %58 = stablehlo.dot_general %arg5, %55, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<2x64x4x18xbf16>) -> tensor<2x128x4x18xbf16>
    %59 = stablehlo.transpose %58, dims = [2, 0, 3, 1] : (tensor<2x128x4x18xbf16>) -> tensor<4x2x18x128xbf16>
    %60 = stablehlo.dot_general %arg5, %54, batching_dims = [0] x [1], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<4x2x18x128xbf16>) -> tensor<2x64x4x18xbf16>
    %61 = stablehlo.convert %60 : (tensor<2x64x4x18xbf16>) -> tensor<2x64x4x18xf32>
    %62 = stablehlo.dot_general %59, %53, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x128xbf16>, tensor<4x2x18x256xbf16>) -> tensor<4x128x256xbf16>
    %63 = stablehlo.transpose %62, dims = [0, 2, 1] : (tensor<4x128x256xbf16>) -> tensor<4x256x128xbf16>
    %64 = stablehlo.dot_general %59, %arg2, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x128xbf16>, tensor<4x256x128xbf16>) -> tensor<4x2x18x256xbf16>
    %65 = stablehlo.multiply %51#0, %64 : tensor<4x2x18x256xbf16>
    %66 = stablehlo.multiply %64, %52 : tensor<4x2x18x256xbf16>
    %67 = stablehlo.dot_general %65, %49, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x256xbf16>, tensor<4x2x18x128xbf16>) -> tensor<4x256x128xbf16>
    %68 = stablehlo.transpose %67, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %69 = stablehlo.dot_general %65, %arg3, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x256xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x18x128xbf16>
    %70 = call @silu_2(%51#1, %51#2, %50, %66) : (tensor<4x2x18x256xbf16>, tensor<4x2x18x256xbf16>, tensor<4x2x18x256xbf16>, tensor<4x2x18x256xbf16>) -> tensor<4x2x18x256xbf16>
    %71 = stablehlo.dot_general %70, %49, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x256xbf16>, tensor<4x2x18x128xbf16>) -> tensor<4x256x128xbf16>
    %72 = stablehlo.transpose %71, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %73 = stablehlo.dot_general %70, %arg1, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x18x256xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x18x128xbf16>
    %74 = stablehlo.add %69, %73 : tensor<4x2x18x128xbf16>
    %75 = stablehlo.transpose %74, dims = [1, 0, 2, 3] : (tensor<4x2x18x128xbf16>) -> tensor<2x4x18x128xbf16>
    %76 = stablehlo.dot_general %75, %47, batching_dims = [0] x [0], contracting_dims = [1, 2] x [2, 3], precision = [DEFAULT, DEFAULT] : (tensor<2x4x18x128xbf16>, tensor<2x64x4x18xbf16>) -> tensor<2x128x64xbf16>
    %77 = stablehlo.transpose %76, dims = [0, 2, 1] : (tensor<2x128x64xbf16>) -> tensor<2x64x128xbf16>
    %78 = stablehlo.add %arg5, %77 : tensor<2x64x128xbf16>
    %79 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3] : (tensor<2x64x1x18xf32>) -> tensor<2x64x4x18xf32>
    %80 = stablehlo.multiply %61, %79 : tensor<2x64x4x18xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %81 = stablehlo.reduce(%80 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<2x64x4x18xf32>, tensor<f32>) -> tensor<2x64x4xf32>
    %82 = stablehlo.reshape %81 : (tensor<2x64x4xf32>) -> tensor<2x64x4x1xf32>
    %83 = stablehlo.multiply %82, %36 : tensor<2x64x4x1xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %84 = stablehlo.reduce(%83 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4x1xf32>, tensor<f32>) -> tensor<2x64x1xf32>
    %85 = stablehlo.reshape %84 : (tensor<2x64x1xf32>) -> tensor<2x64x1x1xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %86 = stablehlo.reduce(%85 init: %cst_10) applies stablehlo.add across dimensions = [2, 3] : (tensor<2x64x1x1xf32>, tensor<f32>) -> tensor<2x64xf32>
    %87 = stablehlo.multiply %86, %26 : tensor<2x64xf32>
    %88 = stablehlo.multiply %87, %26 : tensor<2x64xf32>
    %89 = stablehlo.broadcast_in_dim %88, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x4xf32>
    %90 = stablehlo.multiply %89, %17 : tensor<2x64x4xf32>
    %91 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x4xf32>
    %92 = stablehlo.multiply %90, %91 : tensor<2x64x4xf32>
    %93 = stablehlo.multiply %92, %8 : tensor<2x64x4xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %94 = stablehlo.reduce(%93 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %95 = stablehlo.reshape %94 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %96 = stablehlo.negate %95 : tensor<2x64x1xf32>
    %97 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x4xf32>
    %98 = stablehlo.divide %90, %97 : tensor<2x64x4xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %99 = stablehlo.reduce(%96 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<2x64x1xf32>, tensor<f32>) -> tensor<2x64xf32>
    %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x4xf32>
    %101 = stablehlo.add %98, %100 : tensor<2x64x4xf32>
    %102 = stablehlo.multiply %101, %8 : tensor<2x64x4xf32>
    %103 = stablehlo.convert %102 : (tensor<2x64x4xf32>) -> tensor<2x64x4xbf16>
    %104 = stablehlo.dot_general %103, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4xbf16>, tensor<2x64x128xbf16>) -> tensor<4x128xbf16>
    %105 = stablehlo.transpose %104, dims = [1, 0] : (tensor<4x128xbf16>) -> tensor<128x4xbf16>
    %106 = stablehlo.dot_general %103, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4xbf16>, tensor<128x4xbf16>) -> tensor<2x64x128xbf16>
    %107 = stablehlo.add %78, %106 : tensor<2x64x128xbf16>
    return %57, %105, %72, %63, %68, %107 : tensor<2x64x128xbf16>, tensor<128x4xbf16>, tensor<4x128x256xbf16>, tensor<4x256x128xbf16>, tensor<4x128x256xbf16>, tensor<2x64x128xbf16>
  }
  func.func private @argmax(%arg0: tensor<2x64x4xf32>) -> tensor<2x64xi32> {
    %0 = stablehlo.iota dim = 2 : tensor<2x64x4xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [2] : (tensor<2x64x4xf32>, tensor<2x64x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x64xf32>, tensor<2x64xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    return %1#1 : tensor<2x64xi32>
  }
  func.func private @_one_hot(%arg0: tensor<2x64xi32>) -> tensor<2x64x4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<2x64xi32>) -> tensor<2x64x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x4xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<2x64x1xi32>) -> tensor<2x64x4xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x4xi32>) -> tensor<2x64x4xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<2x64x4xi32>, tensor<2x64x4xi32>) -> tensor<2x64x4xi1>
    %5 = stablehlo.convert %4 : (tensor<2x64x4xi1>) -> tensor<2x64x4xf32>
    return %5 : tensor<2x64x4xf32>
  }
  func.func private @cumsum(%arg0: tensor<2x64x4xf32>) -> tensor<2x64x4xf32> {
    %0 = call @cumsum_0(%arg0) : (tensor<2x64x4xf32>) -> tensor<2x64x4xf32>
    return %0 : tensor<2x64x4xf32>
  }
  func.func private @cumsum_0(%arg0: tensor<2x64x4xf32>) -> tensor<2x64x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [63, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 64, 1>, window_strides = array<i64: 1, 1, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64x4xf32>
    return %1 : tensor<2x64x4xf32>
  }
  func.func private @_one_hot_1(%arg0: tensor<2x64xi32>) -> tensor<2x64x18xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<2x64xi32>) -> tensor<2x64x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x18xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<2x64x1xi32>) -> tensor<2x64x18xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x18xi32>) -> tensor<2x64x18xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<2x64x18xi32>, tensor<2x64x18xi32>) -> tensor<2x64x18xi1>
    %5 = stablehlo.convert %4 : (tensor<2x64x18xi1>) -> tensor<2x64x18xf32>
    return %5 : tensor<2x64x18xf32>
  }
  func.func private @silu(%arg0: tensor<4x2x18x256xbf16>) -> (tensor<4x2x18x256xbf16>, tensor<4x2x18x256xbf16>, tensor<4x2x18x256xbf16>) {
    %0 = stablehlo.negate %arg0 : tensor<4x2x18x256xbf16>
    %1 = stablehlo.exponential %0 : tensor<4x2x18x256xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<4x2x18x256xbf16>
    %3 = stablehlo.add %2, %1 : tensor<4x2x18x256xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<4x2x18x256xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<4x2x18x256xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<4x2x18x256xbf16>
    %7 = stablehlo.subtract %6, %5 : tensor<4x2x18x256xbf16>
    %8 = stablehlo.multiply %5, %7 : tensor<4x2x18x256xbf16>
    %9 = stablehlo.multiply %arg0, %5 : tensor<4x2x18x256xbf16>
    return %9, %8, %5 : tensor<4x2x18x256xbf16>, tensor<4x2x18x256xbf16>, tensor<4x2x18x256xbf16>
  }
  func.func private @silu_2(%arg0: tensor<4x2x18x256xbf16>, %arg1: tensor<4x2x18x256xbf16>, %arg2: tensor<4x2x18x256xbf16>, %arg3: tensor<4x2x18x256xbf16>) -> tensor<4x2x18x256xbf16> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<4x2x18x256xbf16>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<4x2x18x256xbf16>
    %2 = stablehlo.multiply %0, %arg0 : tensor<4x2x18x256xbf16>
    %3 = stablehlo.add %1, %2 : tensor<4x2x18x256xbf16>
    return %3 : tensor<4x2x18x256xbf16>
  }
}
