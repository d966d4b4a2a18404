module @jit_loss attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<128x4xbf16> {mhlo.sharding = "{replicated}"}, %arg1: tensor<4x128x512xbf16> {mhlo.sharding = "{devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg2: tensor<4x512x128xbf16> {mhlo.sharding = "{devices=[1,4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg3: tensor<4x128x512xbf16> {mhlo.sharding = "{devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg4: tensor<4x64x128xbf16> {mhlo.sharding = "{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}"}) -> (tensor<f32> {jax.result_info = "result[0]", mhlo.sharding = "{replicated}"}, tensor<128x4xbf16> {jax.result_info = "result[1][0][0]['gate']", mhlo.sharding = "{replicated}"}, tensor<4x128x512xbf16> {jax.result_info = "result[1][0][0]['w1']", mhlo.sharding = "{devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, tensor<4x512x128xbf16> {jax.result_info = "result[1][0][0]['w2']", mhlo.sharding = "{devices=[1,4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, tensor<4x128x512xbf16> {jax.result_info = "result[1][0][0]['w3']", mhlo.sharding = "{devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, tensor<4x64x128xbf16> {jax.result_info = "result[1][1]", mhlo.sharding = "{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}"}) {
    %0 = stablehlo.dot_general %arg4, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<128x4xbf16>) -> tensor<4x64x4xbf16>
    %1 = stablehlo.convert %0 : (tensor<4x64x4xbf16>) -> tensor<4x64x4xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<4x64x4xf32>, tensor<f32>) -> tensor<4x64xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %4 = stablehlo.maximum %3, %2 : tensor<4x64xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x4xf32>
    %7 = stablehlo.subtract %1, %6 : tensor<4x64x4xf32>
    %8 = stablehlo.exponential %7 : tensor<4x64x4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<4x64x4xf32>, tensor<f32>) -> tensor<4x64xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x4xf32>
    %12 = stablehlo.divide %8, %11 : tensor<4x64x4xf32>
    %13 = stablehlo.multiply %10, %10 : tensor<4x64x1xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %15 = stablehlo.divide %14, %13 : tensor<4x64x1xf32>
    %values, %indices = chlo.top_k(%12, k = 2) : tensor<4x64x4xf32> -> (tensor<4x64x2xf32>, tensor<4x64x2xi32>)
    %16 = stablehlo.reshape %indices : (tensor<4x64x2xi32>) -> tensor<4x64x2x1xi32>
    %17 = call @_one_hot(%indices) : (tensor<4x64x2xi32>) -> tensor<4x64x2x4xf32>
    %18 = stablehlo.broadcast_in_dim %values, dims = [0, 1, 2] : (tensor<4x64x2xf32>) -> tensor<4x64x2x1xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3] : (tensor<4x64x2x1xf32>) -> tensor<4x64x2x4xf32>
    %20 = stablehlo.multiply %17, %19 : tensor<4x64x2x4xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<4x64x2x4xf32>, tensor<f32>) -> tensor<4x64x4xf32>
    %22 = call @_one_hot_0(%indices) : (tensor<4x64x2xi32>) -> tensor<4x64x2x4xi32>
    %23 = stablehlo.reshape %22 : (tensor<4x64x2x4xi32>) -> tensor<4x128x4xi32>
    %24 = call @cumsum(%23) : (tensor<4x128x4xi32>) -> tensor<4x128x4xi32>
    %25 = stablehlo.reshape %24 : (tensor<4x128x4xi32>) -> tensor<4x64x2x4xi32>
    %26 = stablehlo.multiply %22, %25 : tensor<4x64x2x4xi32>
    %c = stablehlo.constant dense<40> : tensor<i32>
    %27 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x64x2x4xi32>
    %28 = stablehlo.compare LE, %26, %27, SIGNED : (tensor<4x64x2x4xi32>, tensor<4x64x2x4xi32>) -> tensor<4x64x2x4xi1>
    %29 = stablehlo.convert %28 : (tensor<4x64x2x4xi1>) -> tensor<4x64x2x4xi32>
    %30 = stablehlo.multiply %22, %29 : tensor<4x64x2x4xi32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %31 = stablehlo.reduce(%30 init: %c_4) applies stablehlo.add across dimensions = [2] : (tensor<4x64x2x4xi32>, tensor<i32>) -> tensor<4x64x4xi32>
    %32 = stablehlo.convert %31 : (tensor<4x64x4xi32>) -> tensor<4x64x4xf32>
    %33 = stablehlo.multiply %21, %32 : tensor<4x64x4xf32>
    %34 = stablehlo.multiply %26, %30 : tensor<4x64x2x4xi32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %35 = stablehlo.reduce(%34 init: %c_5) applies stablehlo.add across dimensions = [2] : (tensor<4x64x2x4xi32>, tensor<i32>) -> tensor<4x64x4xi32>
    %36 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<4x64x4xf32>) -> tensor<4x64x4x1xf32>
    %37 = call @_one_hot_2(%35) : (tensor<4x64x4xi32>) -> tensor<4x64x4x41xi32>
    %38 = stablehlo.convert %37 : (tensor<4x64x4x41xi32>) -> tensor<4x64x4x41xf32>
    %39 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2, 3] : (tensor<4x64x4x1xf32>) -> tensor<4x64x4x41xf32>
    %40 = stablehlo.multiply %39, %38 : tensor<4x64x4x41xf32>
    %41 = stablehlo.slice %40 [0:4, 0:64, 0:4, 1:41] : (tensor<4x64x4x41xf32>) -> tensor<4x64x4x40xf32>
    %42 = stablehlo.convert %41 : (tensor<4x64x4x40xf32>) -> tensor<4x64x4x40xbf16>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %43 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<bf16>) -> tensor<4x64x4x40xbf16>
    %44 = stablehlo.compare NE, %42, %43, FLOAT : (tensor<4x64x4x40xbf16>, tensor<4x64x4x40xbf16>) -> tensor<4x64x4x40xi1>
    %45 = stablehlo.convert %44 : tensor<4x64x4x40xi1>
    %46 = stablehlo.convert %45 : (tensor<4x64x4x40xi1>) -> tensor<4x64x4x40xbf16>
    %47 = stablehlo.dot_general %46, %arg4, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x40xbf16>, tensor<4x64x128xbf16>) -> tensor<4x4x40x128xbf16>
    %48 = stablehlo.transpose %47, dims = [1, 0, 2, 3] : (tensor<4x4x40x128xbf16>) -> tensor<4x4x40x128xbf16>
    %49 = stablehlo.dot_general %48, %arg1, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x4x40x128xbf16>, tensor<4x128x512xbf16>) -> tensor<4x4x40x512xbf16>
    %50:3 = call @silu(%49) : (tensor<4x4x40x512xbf16>) -> (tensor<4x4x40x512xbf16>, tensor<4x4x40x512xbf16>, tensor<4x4x40x512xbf16>)
    %51 = stablehlo.dot_general %48, %arg3, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x4x40x128xbf16>, tensor<4x128x512xbf16>) -> tensor<4x4x40x512xbf16>
    %52 = stablehlo.multiply %50#0, %51 : tensor<4x4x40x512xbf16>
    %53 = stablehlo.dot_general %52, %arg2, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x4x40x512xbf16>, tensor<4x512x128xbf16>) -> tensor<4x4x40x128xbf16>
    %54 = stablehlo.dot_general %42, %53, batching_dims = [0] x [1], contracting_dims = [3, 2] x [2, 0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x40xbf16>, tensor<4x4x40x128xbf16>) -> tensor<4x64x128xbf16>
    %55 = stablehlo.add %arg4, %54 : tensor<4x64x128xbf16>
    %56 = stablehlo.convert %55 : (tensor<4x64x128xbf16>) -> tensor<4x64x128xf32>
    %57 = stablehlo.multiply %56, %56 : tensor<4x64x128xf32>
    %cst_7 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %58 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %59 = stablehlo.multiply %58, %56 : tensor<4x64x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.reduce(%57 init: %cst_8) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_9 = stablehlo.constant dense<3.276800e+04> : tensor<f32>
    %61 = stablehlo.divide %60, %cst_9 : tensor<f32>
    %cst_10 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_11 = stablehlo.constant dense<3.276800e+04> : tensor<f32>
    %62 = stablehlo.divide %cst_10, %cst_11 : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %64 = stablehlo.multiply %63, %59 : tensor<4x64x128xf32>
    %65 = stablehlo.convert %64 : (tensor<4x64x128xf32>) -> tensor<4x64x128xbf16>
    %66 = stablehlo.dot_general %65, %42, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x64x4x40xbf16>) -> tensor<4x128x4x40xbf16>
    %67 = stablehlo.transpose %66, dims = [2, 0, 3, 1] : (tensor<4x128x4x40xbf16>) -> tensor<4x4x40x128xbf16>
    %68 = stablehlo.dot_general %65, %53, batching_dims = [0] x [1], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x4x40x128xbf16>) -> tensor<4x64x4x40xbf16>
    %69 = stablehlo.dot_general %67, %52, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x4x40x128xbf16>, tensor<4x4x40x512xbf16>) -> tensor<4x128x512xbf16>
    %70 = stablehlo.transpose %69, dims = [0, 2, 1] : (tensor<4x128x512xbf16>) -> tensor<4x512x128xbf16>
    %71 = stablehlo.dot_general %67, %arg2, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x4x40x128xbf16>, tensor<4x512x128xbf16>) -> tensor<4x4x40x512xbf16>
    %72 = stablehlo.multiply %50#0, %71 : tensor<4x4x40x512xbf16>
    %73 = stablehlo.multiply %71, %51 : tensor<4x4x40x512xbf16>
    %74 = stablehlo.dot_general %72, %48, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x4x40x512xbf16>, tensor<4x4x40x128xbf16>) -> tensor<4x512x128xbf16>
    %75 = stablehlo.transpose %74, dims = [0, 2, 1] : (tensor<4x512x128xbf16>) -> tensor<4x128x512xbf16>
    %76 = stablehlo.dot_general %72, %arg3, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x4x40x512xbf16>, tensor<4x128x512xbf16>) -> tensor<4x4x40x128xbf16>
    %77 = call @silu_3(%50#1, %50#2, %49, %73) : (tensor<4x4x40x512xbf16>, tensor<4x4x40x512xbf16>, tensor<4x4x40x512xbf16>, tensor<4x4x40x512xbf16>) -> tensor<4x4x40x512xbf16>
    %78 = stablehlo.dot_general %77, %48, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x4x40x512xbf16>, tensor<4x4x40x128xbf16>) -> tensor<4x512x128xbf16>
    %79 = stablehlo.transpose %78, dims = [0, 2, 1] : (tensor<4x512x128xbf16>) -> tensor<4x128x512xbf16>
    %80 = stablehlo.dot_general %77, %arg1, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x4x40x512xbf16>, tensor<4x128x512xbf16>) -> tensor<4x4x40x128xbf16>
    %81 = stablehlo.add %76, %80 : tensor<4x4x40x128xbf16>
    %82 = stablehlo.transpose %81, dims = [1, 0, 2, 3] : (tensor<4x4x40x128xbf16>) -> tensor<4x4x40x128xbf16>
    %83 = stablehlo.dot_general %82, %46, batching_dims = [0] x [0], contracting_dims = [1, 2] x [2, 3], precision = [DEFAULT, DEFAULT] : (tensor<4x4x40x128xbf16>, tensor<4x64x4x40xbf16>) -> tensor<4x128x64xbf16>
    %84 = stablehlo.transpose %83, dims = [0, 2, 1] : (tensor<4x128x64xbf16>) -> tensor<4x64x128xbf16>
    %85 = stablehlo.add %65, %84 : tensor<4x64x128xbf16>
    %86 = stablehlo.convert %68 : (tensor<4x64x4x40xbf16>) -> tensor<4x64x4x40xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %87 = stablehlo.pad %86, %cst_12, low = [0, 0, 0, 1], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<4x64x4x40xf32>, tensor<f32>) -> tensor<4x64x4x41xf32>
    %88 = stablehlo.multiply %87, %38 : tensor<4x64x4x41xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %89 = stablehlo.reduce(%88 init: %cst_13) applies stablehlo.add across dimensions = [3] : (tensor<4x64x4x41xf32>, tensor<f32>) -> tensor<4x64x4xf32>
    %90 = stablehlo.reshape %89 : (tensor<4x64x4xf32>) -> tensor<4x64x4x1xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %91 = stablehlo.reduce(%90 init: %cst_14) applies stablehlo.add across dimensions = [3] : (tensor<4x64x4x1xf32>, tensor<f32>) -> tensor<4x64x4xf32>
    %92 = stablehlo.multiply %91, %32 : tensor<4x64x4xf32>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1, 3] : (tensor<4x64x4xf32>) -> tensor<4x64x2x4xf32>
    %94 = stablehlo.multiply %17, %93 : tensor<4x64x2x4xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %95 = stablehlo.reduce(%94 init: %cst_15) applies stablehlo.add across dimensions = [3] : (tensor<4x64x2x4xf32>, tensor<f32>) -> tensor<4x64x2xf32>
    %96 = stablehlo.reshape %95 : (tensor<4x64x2xf32>) -> tensor<4x64x2x1xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %97 = stablehlo.reduce(%96 init: %cst_16) applies stablehlo.add across dimensions = [3] : (tensor<4x64x2x1xf32>, tensor<f32>) -> tensor<4x64x2xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %98 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<4x64x4xf32>
    %99 = "stablehlo.scatter"(%98, %16, %97) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %117 = stablehlo.add %arg5, %arg6 : tensor<f32>
      stablehlo.return %117 : tensor<f32>
    }) : (tensor<4x64x4xf32>, tensor<4x64x2x1xi32>, tensor<4x64x2xf32>) -> tensor<4x64x4xf32>
    %100 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x4xf32>
    %101 = stablehlo.multiply %99, %100 : tensor<4x64x4xf32>
    %102 = stablehlo.multiply %101, %8 : tensor<4x64x4xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %103 = stablehlo.reduce(%102 init: %cst_18) applies stablehlo.add across dimensions = [2] : (tensor<4x64x4xf32>, tensor<f32>) -> tensor<4x64xf32>
    %104 = stablehlo.reshape %103 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %105 = stablehlo.negate %104 : tensor<4x64x1xf32>
    %106 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x4xf32>
    %107 = stablehlo.divide %99, %106 : tensor<4x64x4xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %108 = stablehlo.reduce(%105 init: %cst_19) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %109 = stablehlo.broadcast_in_dim %108, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x4xf32>
    %110 = stablehlo.add %107, %109 : tensor<4x64x4xf32>
    %111 = stablehlo.multiply %110, %8 : tensor<4x64x4xf32>
    %112 = stablehlo.convert %111 : (tensor<4x64x4xf32>) -> tensor<4x64x4xbf16>
    %113 = stablehlo.dot_general %112, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4xbf16>, tensor<4x64x128xbf16>) -> tensor<4x128xbf16>
    %114 = stablehlo.transpose %113, dims = [1, 0] : (tensor<4x128xbf16>) -> tensor<128x4xbf16>
    %115 = stablehlo.dot_general %112, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4xbf16>, tensor<128x4xbf16>) -> tensor<4x64x128xbf16>
    %116 = stablehlo.add %85, %115 : tensor<4x64x128xbf16>
    return %61, %114, %79, %70, %75, %116 : tensor<f32>, tensor<128x4xbf16>, tensor<4x128x512xbf16>, tensor<4x512x128xbf16>, tensor<4x128x512xbf16>, tensor<4x64x128xbf16>
  }
  func.func private @_one_hot(%arg0: tensor<4x64x2xi32>) -> tensor<4x64x2x4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<4x64x2xi32>) -> tensor<4x64x2x1xi32>
    %1 = stablehlo.iota dim = 3 : tensor<1x1x1x4xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<4x64x2x1xi32>) -> tensor<4x64x2x4xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x4xi32>) -> tensor<4x64x2x4xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<4x64x2x4xi32>, tensor<4x64x2x4xi32>) -> tensor<4x64x2x4xi1>
    %5 = stablehlo.convert %4 : (tensor<4x64x2x4xi1>) -> tensor<4x64x2x4xf32>
    return %5 : tensor<4x64x2x4xf32>
  }
  func.func private @_one_hot_0(%arg0: tensor<4x64x2xi32>) -> tensor<4x64x2x4xi32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<4x64x2xi32>) -> tensor<4x64x2x1xi32>
    %1 = stablehlo.iota dim = 3 : tensor<1x1x1x4xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<4x64x2x1xi32>) -> tensor<4x64x2x4xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x4xi32>) -> tensor<4x64x2x4xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<4x64x2x4xi32>, tensor<4x64x2x4xi32>) -> tensor<4x64x2x4xi1>
    %5 = stablehlo.convert %4 : (tensor<4x64x2x4xi1>) -> tensor<4x64x2x4xi32>
    return %5 : tensor<4x64x2x4xi32>
  }
  func.func private @cumsum(%arg0: tensor<4x128x4xi32>) -> tensor<4x128x4xi32> {
    %0 = call @cumsum_1(%arg0) : (tensor<4x128x4xi32>) -> tensor<4x128x4xi32>
    return %0 : tensor<4x128x4xi32>
  }
  func.func private @cumsum_1(%arg0: tensor<4x128x4xi32>) -> tensor<4x128x4xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<i32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [127, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 128, 1>, window_strides = array<i64: 1, 1, 1>}> ({
    ^bb0(%arg1: tensor<i32>, %arg2: tensor<i32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<i32>
      stablehlo.return %2 : tensor<i32>
    }) : (tensor<4x128x4xi32>, tensor<i32>) -> tensor<4x128x4xi32>
    return %1 : tensor<4x128x4xi32>
  }
  func.func private @_one_hot_2(%arg0: tensor<4x64x4xi32>) -> tensor<4x64x4x41xi32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<4x64x4xi32>) -> tensor<4x64x4x1xi32>
    %1 = stablehlo.iota dim = 3 : tensor<1x1x1x41xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<4x64x4x1xi32>) -> tensor<4x64x4x41xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x41xi32>) -> tensor<4x64x4x41xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<4x64x4x41xi32>, tensor<4x64x4x41xi32>) -> tensor<4x64x4x41xi1>
    %5 = stablehlo.convert %4 : (tensor<4x64x4x41xi1>) -> tensor<4x64x4x41xi32>
    return %5 : tensor<4x64x4x41xi32>
  }
  func.func private @silu(%arg0: tensor<4x4x40x512xbf16>) -> (tensor<4x4x40x512xbf16>, tensor<4x4x40x512xbf16>, tensor<4x4x40x512xbf16>) {
    %0 = stablehlo.negate %arg0 : tensor<4x4x40x512xbf16>
    %1 = stablehlo.exponential %0 : tensor<4x4x40x512xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<4x4x40x512xbf16>
    %3 = stablehlo.add %2, %1 : tensor<4x4x40x512xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<4x4x40x512xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<4x4x40x512xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<4x4x40x512xbf16>
    %7 = stablehlo.subtract %6, %5 : tensor<4x4x40x512xbf16>
    %8 = stablehlo.multiply %5, %7 : tensor<4x4x40x512xbf16>
    %9 = stablehlo.multiply %arg0, %5 : tensor<4x4x40x512xbf16>
    return %9, %8, %5 : tensor<4x4x40x512xbf16>, tensor<4x4x40x512xbf16>, tensor<4x4x40x512xbf16>
  }
  func.func private @silu_3(%arg0: tensor<4x4x40x512xbf16>, %arg1: tensor<4x4x40x512xbf16>, %arg2: tensor<4x4x40x512xbf16>, %arg3: tensor<4x4x40x512xbf16>) -> tensor<4x4x40x512xbf16> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<4x4x40x512xbf16>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<4x4x40x512xbf16>
    %2 = stablehlo.multiply %0, %arg0 : tensor<4x4x40x512xbf16>
    %3 = stablehlo.add %1, %2 : tensor<4x4x40x512xbf16>
    return %3 : tensor<4x4x40x512xbf16>
  }
}
