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
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.reduce(%values init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<4x64x2xf32>, tensor<f32>) -> tensor<4x64xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x2xf32>
    %20 = stablehlo.divide %values, %19 : tensor<4x64x2xf32>
    %21 = stablehlo.multiply %18, %18 : tensor<4x64x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %23 = stablehlo.divide %22, %21 : tensor<4x64x1xf32>
    %24 = stablehlo.convert %20 : (tensor<4x64x2xf32>) -> tensor<4x64x2xbf16>
    %25 = call @_one_hot(%indices) : (tensor<4x64x2xi32>) -> tensor<4x64x2x4xbf16>
    %26 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<4x64x2xbf16>) -> tensor<4x64x2x1xbf16>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<4x64x2x1xbf16>) -> tensor<4x64x2x4xbf16>
    %28 = stablehlo.multiply %25, %27 : tensor<4x64x2x4xbf16>
    %29 = stablehlo.convert %28 : (tensor<4x64x2x4xbf16>) -> tensor<4x64x2x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%29 init: %cst_5) applies stablehlo.add across dimensions = [2] : (tensor<4x64x2x4xf32>, tensor<f32>) -> tensor<4x64x4xf32>
    %31 = stablehlo.convert %30 : (tensor<4x64x4xf32>) -> tensor<4x64x4xbf16>
    %32 = stablehlo.dot_general %arg4, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x128x512xbf16>) -> tensor<4x64x4x512xbf16>
    %33:3 = call @silu(%32) : (tensor<4x64x4x512xbf16>) -> (tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>)
    %34 = stablehlo.dot_general %arg4, %arg3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x128x512xbf16>) -> tensor<4x64x4x512xbf16>
    %35 = stablehlo.multiply %33#0, %34 : tensor<4x64x4x512xbf16>
    %36 = stablehlo.dot_general %arg2, %35, batching_dims = [0] x [2], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x512x128xbf16>, tensor<4x64x4x512xbf16>) -> tensor<4x128x4x64xbf16>
    %37 = stablehlo.dot_general %31, %36, batching_dims = [0, 1] x [2, 3], contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4xbf16>, tensor<4x128x4x64xbf16>) -> tensor<4x64x128xbf16>
    %38 = stablehlo.add %arg4, %37 : tensor<4x64x128xbf16>
    %39 = stablehlo.convert %38 : (tensor<4x64x128xbf16>) -> tensor<4x64x128xf32>
    %40 = stablehlo.multiply %39, %39 : tensor<4x64x128xf32>
    %cst_6 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %42 = stablehlo.multiply %41, %39 : tensor<4x64x128xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %43 = stablehlo.reduce(%40 init: %cst_7) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_8 = stablehlo.constant dense<3.276800e+04> : tensor<f32>
    %44 = stablehlo.divide %43, %cst_8 : tensor<f32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_10 = stablehlo.constant dense<3.276800e+04> : tensor<f32>
    %45 = stablehlo.divide %cst_9, %cst_10 : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %47 = stablehlo.multiply %46, %42 : tensor<4x64x128xf32>
    %48 = stablehlo.convert %47 : (tensor<4x64x128xf32>) -> tensor<4x64x128xbf16>
    %49 = stablehlo.dot_general %48, %31, batching_dims = [0, 1] x [0, 1], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x64x4xbf16>) -> tensor<4x64x128x4xbf16>
    %50 = stablehlo.transpose %49, dims = [3, 2, 0, 1] : (tensor<4x64x128x4xbf16>) -> tensor<4x128x4x64xbf16>
    %51 = stablehlo.dot_general %48, %36, batching_dims = [0, 1] x [2, 3], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x128x4x64xbf16>) -> tensor<4x64x4xbf16>
    %52 = stablehlo.dot_general %50, %arg2, batching_dims = [0] x [0], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x128x4x64xbf16>, tensor<4x512x128xbf16>) -> tensor<4x4x64x512xbf16>
    %53 = stablehlo.transpose %52, dims = [1, 2, 0, 3] : (tensor<4x4x64x512xbf16>) -> tensor<4x64x4x512xbf16>
    %54 = stablehlo.dot_general %50, %35, batching_dims = [0] x [2], contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x4x64xbf16>, tensor<4x64x4x512xbf16>) -> tensor<4x128x512xbf16>
    %55 = stablehlo.transpose %54, dims = [0, 2, 1] : (tensor<4x128x512xbf16>) -> tensor<4x512x128xbf16>
    %56 = stablehlo.multiply %33#0, %53 : tensor<4x64x4x512xbf16>
    %57 = stablehlo.multiply %53, %34 : tensor<4x64x4x512xbf16>
    %58 = stablehlo.dot_general %56, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x512xbf16>, tensor<4x64x128xbf16>) -> tensor<4x512x128xbf16>
    %59 = stablehlo.transpose %58, dims = [0, 2, 1] : (tensor<4x512x128xbf16>) -> tensor<4x128x512xbf16>
    %60 = stablehlo.dot_general %56, %arg3, contracting_dims = [2, 3] x [0, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x512xbf16>, tensor<4x128x512xbf16>) -> tensor<4x64x128xbf16>
    %61 = stablehlo.add %48, %60 : tensor<4x64x128xbf16>
    %62 = call @silu_0(%33#1, %33#2, %32, %57) : (tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>) -> tensor<4x64x4x512xbf16>
    %63 = stablehlo.dot_general %62, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x512xbf16>, tensor<4x64x128xbf16>) -> tensor<4x512x128xbf16>
    %64 = stablehlo.transpose %63, dims = [0, 2, 1] : (tensor<4x512x128xbf16>) -> tensor<4x128x512xbf16>
    %65 = stablehlo.dot_general %62, %arg1, contracting_dims = [2, 3] x [0, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x512xbf16>, tensor<4x128x512xbf16>) -> tensor<4x64x128xbf16>
    %66 = stablehlo.add %61, %65 : tensor<4x64x128xbf16>
    %67 = stablehlo.convert %51 : (tensor<4x64x4xbf16>) -> tensor<4x64x4xf32>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 3] : (tensor<4x64x4xf32>) -> tensor<4x64x2x4xf32>
    %69 = stablehlo.convert %68 : (tensor<4x64x2x4xf32>) -> tensor<4x64x2x4xbf16>
    %70 = stablehlo.multiply %25, %69 : tensor<4x64x2x4xbf16>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %71 = stablehlo.reduce(%70 init: %cst_11) applies stablehlo.add across dimensions = [3] : (tensor<4x64x2x4xbf16>, tensor<bf16>) -> tensor<4x64x2xbf16>
    %72 = stablehlo.reshape %71 : (tensor<4x64x2xbf16>) -> tensor<4x64x2x1xbf16>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %73 = stablehlo.reduce(%72 init: %cst_12) applies stablehlo.add across dimensions = [3] : (tensor<4x64x2x1xbf16>, tensor<bf16>) -> tensor<4x64x2xbf16>
    %74 = stablehlo.convert %73 : (tensor<4x64x2xbf16>) -> tensor<4x64x2xf32>
    %75 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x2xf32>
    %76 = stablehlo.multiply %74, %75 : tensor<4x64x2xf32>
    %77 = stablehlo.multiply %76, %values : tensor<4x64x2xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %78 = stablehlo.reduce(%77 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<4x64x2xf32>, tensor<f32>) -> tensor<4x64xf32>
    %79 = stablehlo.reshape %78 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %80 = stablehlo.negate %79 : tensor<4x64x1xf32>
    %81 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x2xf32>
    %82 = stablehlo.divide %74, %81 : tensor<4x64x2xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %83 = stablehlo.reduce(%80 init: %cst_14) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x2xf32>
    %85 = stablehlo.add %82, %84 : tensor<4x64x2xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %86 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<4x64x4xf32>
    %87 = "stablehlo.scatter"(%86, %16, %85) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %105 = stablehlo.add %arg5, %arg6 : tensor<f32>
      stablehlo.return %105 : tensor<f32>
    }) : (tensor<4x64x4xf32>, tensor<4x64x2x1xi32>, tensor<4x64x2xf32>) -> tensor<4x64x4xf32>
    %88 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x4xf32>
    %89 = stablehlo.multiply %87, %88 : tensor<4x64x4xf32>
    %90 = stablehlo.multiply %89, %8 : tensor<4x64x4xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %91 = stablehlo.reduce(%90 init: %cst_16) applies stablehlo.add across dimensions = [2] : (tensor<4x64x4xf32>, tensor<f32>) -> tensor<4x64xf32>
    %92 = stablehlo.reshape %91 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %93 = stablehlo.negate %92 : tensor<4x64x1xf32>
    %94 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x4xf32>
    %95 = stablehlo.divide %87, %94 : tensor<4x64x4xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %96 = stablehlo.reduce(%93 init: %cst_17) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x4xf32>
    %98 = stablehlo.add %95, %97 : tensor<4x64x4xf32>
    %99 = stablehlo.multiply %98, %8 : tensor<4x64x4xf32>
    %100 = stablehlo.convert %99 : (tensor<4x64x4xf32>) -> tensor<4x64x4xbf16>
    %101 = stablehlo.dot_general %100, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4xbf16>, tensor<4x64x128xbf16>) -> tensor<4x128xbf16>
    %102 = stablehlo.transpose %101, dims = [1, 0] : (tensor<4x128xbf16>) -> tensor<128x4xbf16>
    %103 = stablehlo.dot_general %100, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4xbf16>, tensor<128x4xbf16>) -> tensor<4x64x128xbf16>
    %104 = stablehlo.add %66, %103 : tensor<4x64x128xbf16>
    return %44, %102, %64, %55, %59, %104 : tensor<f32>, tensor<128x4xbf16>, tensor<4x128x512xbf16>, tensor<4x512x128xbf16>, tensor<4x128x512xbf16>, tensor<4x64x128xbf16>
  }
  func.func private @_one_hot(%arg0: tensor<4x64x2xi32>) -> tensor<4x64x2x4xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<4x64x2xi32>) -> tensor<4x64x2x1xi32>
    %1 = stablehlo.iota dim = 3 : tensor<1x1x1x4xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<4x64x2x1xi32>) -> tensor<4x64x2x4xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x4xi32>) -> tensor<4x64x2x4xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<4x64x2x4xi32>, tensor<4x64x2x4xi32>) -> tensor<4x64x2x4xi1>
    %5 = stablehlo.convert %4 : (tensor<4x64x2x4xi1>) -> tensor<4x64x2x4xbf16>
    return %5 : tensor<4x64x2x4xbf16>
  }
  func.func private @silu(%arg0: tensor<4x64x4x512xbf16>) -> (tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>) {
    %0 = stablehlo.negate %arg0 : tensor<4x64x4x512xbf16>
    %1 = stablehlo.exponential %0 : tensor<4x64x4x512xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<4x64x4x512xbf16>
    %3 = stablehlo.add %2, %1 : tensor<4x64x4x512xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<4x64x4x512xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<4x64x4x512xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<4x64x4x512xbf16>
    %7 = stablehlo.subtract %6, %5 : tensor<4x64x4x512xbf16>
    %8 = stablehlo.multiply %5, %7 : tensor<4x64x4x512xbf16>
    %9 = stablehlo.multiply %arg0, %5 : tensor<4x64x4x512xbf16>
    return %9, %8, %5 : tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>
  }
  func.func private @silu_0(%arg0: tensor<4x64x4x512xbf16>, %arg1: tensor<4x64x4x512xbf16>, %arg2: tensor<4x64x4x512xbf16>, %arg3: tensor<4x64x4x512xbf16>) -> tensor<4x64x4x512xbf16> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<4x64x4x512xbf16>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<4x64x4x512xbf16>
    %2 = stablehlo.multiply %0, %arg0 : tensor<4x64x4x512xbf16>
    %3 = stablehlo.add %1, %2 : tensor<4x64x4x512xbf16>
    return %3 : tensor<4x64x4x512xbf16>
  }
}
