module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x256x128xbf16>, %arg1: tensor<128x4xbf16>, %arg2: tensor<4x128x256xbf16>, %arg3: tensor<4x256x128xbf16>, %arg4: tensor<4x128x256xbf16>) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<1x256x128xbf16> {jax.result_info = "result[1][0]"}, tensor<128x4xbf16> {jax.result_info = "result[1][1]['gate']"}, tensor<4x128x256xbf16> {jax.result_info = "result[1][1]['w1']"}, tensor<4x256x128xbf16> {jax.result_info = "result[1][1]['w2']"}, tensor<4x128x256xbf16> {jax.result_info = "result[1][1]['w3']"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<128x4xbf16>) -> tensor<1x256x4xbf16>
    %1 = stablehlo.convert %0 : (tensor<1x256x4xbf16>) -> tensor<1x256x4xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<1x256x4xf32>, tensor<f32>) -> tensor<1x256xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x256xf32>
    %4 = stablehlo.maximum %3, %2 : tensor<1x256xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<1x256xf32>) -> tensor<1x256x1xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x4xf32>
    %7 = stablehlo.subtract %1, %6 : tensor<1x256x4xf32>
    %8 = stablehlo.exponential %7 : tensor<1x256x4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<1x256x4xf32>, tensor<f32>) -> tensor<1x256xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<1x256xf32>) -> tensor<1x256x1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x4xf32>
    %12 = stablehlo.divide %8, %11 : tensor<1x256x4xf32>
    %13 = stablehlo.multiply %10, %10 : tensor<1x256x1xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x256x1xf32>
    %15 = stablehlo.divide %14, %13 : tensor<1x256x1xf32>
    %values, %indices = chlo.top_k(%12, k = 2) : tensor<1x256x4xf32> -> (tensor<1x256x2xf32>, tensor<1x256x2xi32>)
    %16 = stablehlo.reshape %indices : (tensor<1x256x2xi32>) -> tensor<1x256x2x1xi32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.reduce(%values init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<1x256x2xf32>, tensor<f32>) -> tensor<1x256xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<1x256xf32>) -> tensor<1x256x1xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x2xf32>
    %20 = stablehlo.divide %values, %19 : tensor<1x256x2xf32>
    %21 = stablehlo.multiply %18, %18 : tensor<1x256x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x256x1xf32>
    %23 = stablehlo.divide %22, %21 : tensor<1x256x1xf32>
    %24 = stablehlo.convert %20 : (tensor<1x256x2xf32>) -> tensor<1x256x2xbf16>
    %25 = call @_one_hot(%indices) : (tensor<1x256x2xi32>) -> tensor<1x256x2x4xbf16>
    %26 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<1x256x2xbf16>) -> tensor<1x256x2x1xbf16>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<1x256x2x1xbf16>) -> tensor<1x256x2x4xbf16>
    %28 = stablehlo.multiply %25, %27 : tensor<1x256x2x4xbf16>
    %29 = stablehlo.convert %28 : (tensor<1x256x2x4xbf16>) -> tensor<1x256x2x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%29 init: %cst_5) applies stablehlo.add across dimensions = [2] : (tensor<1x256x2x4xf32>, tensor<f32>) -> tensor<1x256x4xf32>
    %31 = stablehlo.convert %30 : (tensor<1x256x4xf32>) -> tensor<1x256x4xbf16>
    %32 = stablehlo.dot_general %arg0, %arg2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<4x128x256xbf16>) -> tensor<1x256x4x256xbf16>
    %33:3 = call @silu(%32) : (tensor<1x256x4x256xbf16>) -> (tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>)
    %34 = stablehlo.dot_general %arg0, %arg4, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<4x128x256xbf16>) -> tensor<1x256x4x256xbf16>
    %35 = stablehlo.multiply %33#0, %34 : tensor<1x256x4x256xbf16>
    %36 = stablehlo.dot_general %arg3, %35, batching_dims = [0] x [2], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x256x128xbf16>, tensor<1x256x4x256xbf16>) -> tensor<4x128x1x256xbf16>
    %37 = stablehlo.dot_general %31, %36, batching_dims = [0, 1] x [2, 3], contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4xbf16>, tensor<4x128x1x256xbf16>) -> tensor<1x256x128xbf16>
    %38 = stablehlo.add %arg0, %37 : tensor<1x256x128xbf16>
    %39 = stablehlo.convert %38 : (tensor<1x256x128xbf16>) -> tensor<1x256x128xf32>
    %40 = stablehlo.multiply %39, %39 : tensor<1x256x128xf32>
    %cst_6 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1x256x128xf32>
    %42 = stablehlo.multiply %41, %39 : tensor<1x256x128xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %43 = stablehlo.reduce(%40 init: %cst_7) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x256x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %44 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x256x128xf32>
    %45 = stablehlo.multiply %44, %42 : tensor<1x256x128xf32>
    %46 = stablehlo.convert %45 : (tensor<1x256x128xf32>) -> tensor<1x256x128xbf16>
    %47 = stablehlo.dot_general %46, %31, batching_dims = [0, 1] x [0, 1], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<1x256x4xbf16>) -> tensor<1x256x128x4xbf16>
    %48 = stablehlo.transpose %47, dims = [3, 2, 0, 1] : (tensor<1x256x128x4xbf16>) -> tensor<4x128x1x256xbf16>
    %49 = stablehlo.dot_general %46, %36, batching_dims = [0, 1] x [2, 3], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<4x128x1x256xbf16>) -> tensor<1x256x4xbf16>
    %50 = stablehlo.dot_general %48, %arg3, batching_dims = [0] x [0], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x128x1x256xbf16>, tensor<4x256x128xbf16>) -> tensor<4x1x256x256xbf16>
    %51 = stablehlo.transpose %50, dims = [1, 2, 0, 3] : (tensor<4x1x256x256xbf16>) -> tensor<1x256x4x256xbf16>
    %52 = stablehlo.dot_general %48, %35, batching_dims = [0] x [2], contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x1x256xbf16>, tensor<1x256x4x256xbf16>) -> tensor<4x128x256xbf16>
    %53 = stablehlo.transpose %52, dims = [0, 2, 1] : (tensor<4x128x256xbf16>) -> tensor<4x256x128xbf16>
    %54 = stablehlo.multiply %33#0, %51 : tensor<1x256x4x256xbf16>
    %55 = stablehlo.multiply %51, %34 : tensor<1x256x4x256xbf16>
    %56 = stablehlo.dot_general %54, %arg0, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4x256xbf16>, tensor<1x256x128xbf16>) -> tensor<4x256x128xbf16>
    %57 = stablehlo.transpose %56, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %58 = stablehlo.dot_general %54, %arg4, contracting_dims = [2, 3] x [0, 2], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4x256xbf16>, tensor<4x128x256xbf16>) -> tensor<1x256x128xbf16>
    %59 = stablehlo.add %46, %58 : tensor<1x256x128xbf16>
    %60 = call @silu_0(%33#1, %33#2, %32, %55) : (tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>) -> tensor<1x256x4x256xbf16>
    %61 = stablehlo.dot_general %60, %arg0, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4x256xbf16>, tensor<1x256x128xbf16>) -> tensor<4x256x128xbf16>
    %62 = stablehlo.transpose %61, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %63 = stablehlo.dot_general %60, %arg2, contracting_dims = [2, 3] x [0, 2], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4x256xbf16>, tensor<4x128x256xbf16>) -> tensor<1x256x128xbf16>
    %64 = stablehlo.add %59, %63 : tensor<1x256x128xbf16>
    %65 = stablehlo.convert %49 : (tensor<1x256x4xbf16>) -> tensor<1x256x4xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 3] : (tensor<1x256x4xf32>) -> tensor<1x256x2x4xf32>
    %67 = stablehlo.convert %66 : (tensor<1x256x2x4xf32>) -> tensor<1x256x2x4xbf16>
    %68 = stablehlo.multiply %25, %67 : tensor<1x256x2x4xbf16>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %69 = stablehlo.reduce(%68 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<1x256x2x4xbf16>, tensor<bf16>) -> tensor<1x256x2xbf16>
    %70 = stablehlo.reshape %69 : (tensor<1x256x2xbf16>) -> tensor<1x256x2x1xbf16>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %71 = stablehlo.reduce(%70 init: %cst_10) applies stablehlo.add across dimensions = [0, 3] : (tensor<1x256x2x1xbf16>, tensor<bf16>) -> tensor<256x2xbf16>
    %72 = stablehlo.broadcast_in_dim %71, dims = [1, 2] : (tensor<256x2xbf16>) -> tensor<1x256x2xbf16>
    %73 = stablehlo.convert %72 : (tensor<1x256x2xbf16>) -> tensor<1x256x2xf32>
    %74 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x2xf32>
    %75 = stablehlo.multiply %73, %74 : tensor<1x256x2xf32>
    %76 = stablehlo.multiply %75, %values : tensor<1x256x2xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %77 = stablehlo.reduce(%76 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<1x256x2xf32>, tensor<f32>) -> tensor<1x256xf32>
    %78 = stablehlo.reshape %77 : (tensor<1x256xf32>) -> tensor<1x256x1xf32>
    %79 = stablehlo.negate %78 : tensor<1x256x1xf32>
    %80 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x2xf32>
    %81 = stablehlo.divide %73, %80 : tensor<1x256x2xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %82 = stablehlo.reduce(%79 init: %cst_12) applies stablehlo.add across dimensions = [0, 2] : (tensor<1x256x1xf32>, tensor<f32>) -> tensor<256xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [1] : (tensor<256xf32>) -> tensor<1x256xf32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0, 1] : (tensor<1x256xf32>) -> tensor<1x256x2xf32>
    %85 = stablehlo.add %81, %84 : tensor<1x256x2xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %86 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x256x4xf32>
    %87 = "stablehlo.scatter"(%86, %16, %85) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %106 = stablehlo.add %arg5, %arg6 : tensor<f32>
      stablehlo.return %106 : tensor<f32>
    }) : (tensor<1x256x4xf32>, tensor<1x256x2x1xi32>, tensor<1x256x2xf32>) -> tensor<1x256x4xf32>
    %88 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x4xf32>
    %89 = stablehlo.multiply %87, %88 : tensor<1x256x4xf32>
    %90 = stablehlo.multiply %89, %8 : tensor<1x256x4xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %91 = stablehlo.reduce(%90 init: %cst_14) applies stablehlo.add across dimensions = [2] : (tensor<1x256x4xf32>, tensor<f32>) -> tensor<1x256xf32>
    %92 = stablehlo.reshape %91 : (tensor<1x256xf32>) -> tensor<1x256x1xf32>
    %93 = stablehlo.negate %92 : tensor<1x256x1xf32>
    %94 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x4xf32>
    %95 = stablehlo.divide %87, %94 : tensor<1x256x4xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %96 = stablehlo.reduce(%93 init: %cst_15) applies stablehlo.add across dimensions = [0, 2] : (tensor<1x256x1xf32>, tensor<f32>) -> tensor<256xf32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [1] : (tensor<256xf32>) -> tensor<1x256xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1] : (tensor<1x256xf32>) -> tensor<1x256x4xf32>
    %99 = stablehlo.add %95, %98 : tensor<1x256x4xf32>
    %100 = stablehlo.multiply %99, %8 : tensor<1x256x4xf32>
    %101 = stablehlo.convert %100 : (tensor<1x256x4xf32>) -> tensor<1x256x4xbf16>
    %102 = stablehlo.dot_general %101, %arg0, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4xbf16>, tensor<1x256x128xbf16>) -> tensor<4x128xbf16>
    %103 = stablehlo.transpose %102, dims = [1, 0] : (tensor<4x128xbf16>) -> tensor<128x4xbf16>
    %104 = stablehlo.dot_general %101, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4xbf16>, tensor<128x4xbf16>) -> tensor<1x256x128xbf16>
    %105 = stablehlo.add %64, %104 : tensor<1x256x128xbf16>
    return %43, %105, %103, %62, %53, %57 : tensor<f32>, tensor<1x256x128xbf16>, tensor<128x4xbf16>, tensor<4x128x256xbf16>, tensor<4x256x128xbf16>, tensor<4x128x256xbf16>
  }
  func.func private @_one_hot(%arg0: tensor<1x256x2xi32>) -> tensor<1x256x2x4xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<1x256x2xi32>) -> tensor<1x256x2x1xi32>
    %1 = stablehlo.iota dim = 3 : tensor<1x1x1x4xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<1x256x2x1xi32>) -> tensor<1x256x2x4xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x4xi32>) -> tensor<1x256x2x4xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<1x256x2x4xi32>, tensor<1x256x2x4xi32>) -> tensor<1x256x2x4xi1>
    %5 = stablehlo.convert %4 : (tensor<1x256x2x4xi1>) -> tensor<1x256x2x4xbf16>
    return %5 : tensor<1x256x2x4xbf16>
  }
  func.func private @silu(%arg0: tensor<1x256x4x256xbf16>) -> (tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>) {
    %0 = stablehlo.negate %arg0 : tensor<1x256x4x256xbf16>
    %1 = stablehlo.exponential %0 : tensor<1x256x4x256xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<1x256x4x256xbf16>
    %3 = stablehlo.add %2, %1 : tensor<1x256x4x256xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<1x256x4x256xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<1x256x4x256xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<1x256x4x256xbf16>
    %7 = stablehlo.subtract %6, %5 : tensor<1x256x4x256xbf16>
    %8 = stablehlo.multiply %5, %7 : tensor<1x256x4x256xbf16>
    %9 = stablehlo.multiply %arg0, %5 : tensor<1x256x4x256xbf16>
    return %9, %8, %5 : tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>, tensor<1x256x4x256xbf16>
  }
  func.func private @silu_0(%arg0: tensor<1x256x4x256xbf16>, %arg1: tensor<1x256x4x256xbf16>, %arg2: tensor<1x256x4x256xbf16>, %arg3: tensor<1x256x4x256xbf16>) -> tensor<1x256x4x256xbf16> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<1x256x4x256xbf16>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<1x256x4x256xbf16>
    %2 = stablehlo.multiply %0, %arg0 : tensor<1x256x4x256xbf16>
    %3 = stablehlo.add %1, %2 : tensor<1x256x4x256xbf16>
    return %3 : tensor<1x256x4x256xbf16>
  }
}
