module @jit_both attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<128x4xbf16>, %arg1: tensor<4x128x256xbf16>, %arg2: tensor<4x256x128xbf16>, %arg3: tensor<2x64x128xbf16>, %arg4: tensor<2x64x128xbf16>) -> (tensor<2x64x128xbf16> {jax.result_info = "result[0]"}, tensor<128x4xbf16> {jax.result_info = "result[1]['gate']"}, tensor<4x128x256xbf16> {jax.result_info = "result[1]['w1']"}, tensor<4x256x128xbf16> {jax.result_info = "result[1]['w2']"}, tensor<4x128x256xbf16> {jax.result_info = "result[1]['w3']"}, tensor<2x64x128xbf16> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.reshape %arg3 : (tensor<2x64x128xbf16>) -> tensor<128x128xbf16>
    %1 = stablehlo.dot_general %0, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x128xbf16>, tensor<128x4xbf16>) -> tensor<128x4xbf16>
    %2 = stablehlo.convert %1 : (tensor<128x4xbf16>) -> tensor<128x4xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %3 = stablehlo.reduce(%2 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<128x4xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %5 = stablehlo.maximum %4, %3 : tensor<128xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<128xf32>) -> tensor<128x1xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<128x1xf32>) -> tensor<128x4xf32>
    %8 = stablehlo.subtract %2, %7 : tensor<128x4xf32>
    %9 = stablehlo.exponential %8 : tensor<128x4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<128x4xf32>, tensor<f32>) -> tensor<128xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<128xf32>) -> tensor<128x1xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<128x1xf32>) -> tensor<128x4xf32>
    %13 = stablehlo.divide %9, %12 : tensor<128x4xf32>
    %14 = stablehlo.multiply %11, %11 : tensor<128x1xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<128x1xf32>
    %16 = stablehlo.divide %15, %14 : tensor<128x1xf32>
    %values, %indices = chlo.top_k(%13, k = 2) : tensor<128x4xf32> -> (tensor<128x2xf32>, tensor<128x2xi32>)
    %17 = stablehlo.reshape %indices : (tensor<128x2xi32>) -> tensor<128x2x1xi32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %18 = stablehlo.reduce(%values init: %cst_3) applies stablehlo.add across dimensions = [1] : (tensor<128x2xf32>, tensor<f32>) -> tensor<128xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0] : (tensor<128xf32>) -> tensor<128x1xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<128x1xf32>) -> tensor<128x2xf32>
    %21 = stablehlo.divide %values, %20 : tensor<128x2xf32>
    %22 = stablehlo.multiply %19, %19 : tensor<128x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<128x1xf32>
    %24 = stablehlo.divide %23, %22 : tensor<128x1xf32>
    %25 = call @_one_hot(%indices) : (tensor<128x2xi32>) -> tensor<128x2x4xf32>
    %26 = stablehlo.reshape %25 : (tensor<128x2x4xf32>) -> tensor<256x4xf32>
    %27 = call @cumsum(%26) : (tensor<256x4xf32>) -> tensor<256x4xf32>
    %28 = stablehlo.reshape %27 : (tensor<256x4xf32>) -> tensor<128x2x4xf32>
    %29 = stablehlo.multiply %28, %25 : tensor<128x2x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%29 init: %cst_5) applies stablehlo.add across dimensions = [2] : (tensor<128x2x4xf32>, tensor<f32>) -> tensor<128x2xf32>
    %31 = stablehlo.convert %30 : (tensor<128x2xf32>) -> tensor<128x2xi32>
    %c = stablehlo.constant dense<1> : tensor<i32>
    %32 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<128x2xi32>
    %33 = stablehlo.subtract %31, %32 : tensor<128x2xi32>
    %34 = call @_one_hot_1(%33) : (tensor<128x2xi32>) -> tensor<128x2x56xbf16>
    %35 = stablehlo.convert %25 : (tensor<128x2x4xf32>) -> tensor<128x2x4xbf16>
    %36 = stablehlo.dot_general %35, %34, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<128x2x4xbf16>, tensor<128x2x56xbf16>) -> tensor<128x4x56xbf16>
    %37 = stablehlo.convert %21 : (tensor<128x2xf32>) -> tensor<128x2xbf16>
    %38 = stablehlo.convert %25 : (tensor<128x2x4xf32>) -> tensor<128x2x4xbf16>
    %39 = stablehlo.dot_general %37, %38, batching_dims = [0, 1] x [0, 1], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<128x2xbf16>, tensor<128x2x4xbf16>) -> tensor<128x2x4xbf16>
    %40 = stablehlo.dot_general %39, %34, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<128x2x4xbf16>, tensor<128x2x56xbf16>) -> tensor<128x4x56xbf16>
    %41 = stablehlo.dot_general %36, %0, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x4x56xbf16>, tensor<128x128xbf16>) -> tensor<4x56x128xbf16>
    %42 = stablehlo.dot_general %41, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x56x128xbf16>, tensor<4x128x256xbf16>) -> tensor<4x56x256xbf16>
    %43 = stablehlo.multiply %42, %42 : tensor<4x56x256xbf16>
    %44 = stablehlo.multiply %43, %42 : tensor<4x56x256xbf16>
    %45 = stablehlo.multiply %42, %42 : tensor<4x56x256xbf16>
    %cst_6 = stablehlo.constant dense<3.000000e+00> : tensor<bf16>
    %46 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<bf16>) -> tensor<4x56x256xbf16>
    %47 = stablehlo.multiply %46, %45 : tensor<4x56x256xbf16>
    %cst_7 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %48 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<bf16>) -> tensor<4x56x256xbf16>
    %49 = stablehlo.multiply %48, %44 : tensor<4x56x256xbf16>
    %50 = stablehlo.add %42, %49 : tensor<4x56x256xbf16>
    %cst_8 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %51 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<bf16>) -> tensor<4x56x256xbf16>
    %52 = stablehlo.multiply %51, %50 : tensor<4x56x256xbf16>
    %53 = stablehlo.tanh %52 : tensor<4x56x256xbf16>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %54 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<bf16>) -> tensor<4x56x256xbf16>
    %55 = stablehlo.subtract %54, %53 : tensor<4x56x256xbf16>
    %cst_10 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %56 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<bf16>) -> tensor<4x56x256xbf16>
    %57 = stablehlo.add %56, %53 : tensor<4x56x256xbf16>
    %cst_11 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %58 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<bf16>) -> tensor<4x56x256xbf16>
    %59 = stablehlo.multiply %58, %57 : tensor<4x56x256xbf16>
    %60 = stablehlo.multiply %42, %59 : tensor<4x56x256xbf16>
    %61 = stablehlo.dot_general %60, %arg2, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x56x256xbf16>, tensor<4x256x128xbf16>) -> tensor<4x56x128xbf16>
    %62 = stablehlo.dot_general %40, %61, contracting_dims = [2, 1] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<128x4x56xbf16>, tensor<4x56x128xbf16>) -> tensor<128x128xbf16>
    %63 = stablehlo.reshape %62 : (tensor<128x128xbf16>) -> tensor<2x64x128xbf16>
    %64 = stablehlo.add %arg3, %63 : tensor<2x64x128xbf16>
    %65 = stablehlo.reshape %arg4 : (tensor<2x64x128xbf16>) -> tensor<128x128xbf16>
    %66 = stablehlo.dot_general %65, %40, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x128xbf16>, tensor<128x4x56xbf16>) -> tensor<128x4x56xbf16>
    %67 = stablehlo.transpose %66, dims = [1, 2, 0] : (tensor<128x4x56xbf16>) -> tensor<4x56x128xbf16>
    %68 = stablehlo.dot_general %65, %61, contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<128x128xbf16>, tensor<4x56x128xbf16>) -> tensor<128x4x56xbf16>
    %69 = stablehlo.dot_general %67, %60, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x56x128xbf16>, tensor<4x56x256xbf16>) -> tensor<4x128x256xbf16>
    %70 = stablehlo.transpose %69, dims = [0, 2, 1] : (tensor<4x128x256xbf16>) -> tensor<4x256x128xbf16>
    %71 = stablehlo.dot_general %67, %arg2, batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x56x128xbf16>, tensor<4x256x128xbf16>) -> tensor<4x56x256xbf16>
    %72 = stablehlo.multiply %42, %71 : tensor<4x56x256xbf16>
    %73 = stablehlo.multiply %71, %59 : tensor<4x56x256xbf16>
    %cst_12 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %74 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<bf16>) -> tensor<4x56x256xbf16>
    %75 = stablehlo.multiply %74, %72 : tensor<4x56x256xbf16>
    %76 = stablehlo.multiply %75, %55 : tensor<4x56x256xbf16>
    %77 = stablehlo.multiply %76, %53 : tensor<4x56x256xbf16>
    %78 = stablehlo.add %76, %77 : tensor<4x56x256xbf16>
    %cst_13 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %79 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<bf16>) -> tensor<4x56x256xbf16>
    %80 = stablehlo.multiply %79, %78 : tensor<4x56x256xbf16>
    %81 = stablehlo.add %73, %80 : tensor<4x56x256xbf16>
    %cst_14 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %82 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<bf16>) -> tensor<4x56x256xbf16>
    %83 = stablehlo.multiply %82, %80 : tensor<4x56x256xbf16>
    %84 = stablehlo.multiply %83, %47 : tensor<4x56x256xbf16>
    %85 = stablehlo.add %81, %84 : tensor<4x56x256xbf16>
    %86 = stablehlo.dot_general %85, %41, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x56x256xbf16>, tensor<4x56x128xbf16>) -> tensor<4x256x128xbf16>
    %87 = stablehlo.transpose %86, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %88 = stablehlo.dot_general %85, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x56x256xbf16>, tensor<4x128x256xbf16>) -> tensor<4x56x128xbf16>
    %89 = stablehlo.dot_general %88, %36, contracting_dims = [0, 1] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x56x128xbf16>, tensor<128x4x56xbf16>) -> tensor<128x128xbf16>
    %90 = stablehlo.transpose %89, dims = [1, 0] : (tensor<128x128xbf16>) -> tensor<128x128xbf16>
    %91 = stablehlo.dot_general %68, %34, batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<128x4x56xbf16>, tensor<128x2x56xbf16>) -> tensor<128x4x2xbf16>
    %92 = stablehlo.transpose %91, dims = [0, 2, 1] : (tensor<128x4x2xbf16>) -> tensor<128x2x4xbf16>
    %93 = stablehlo.dot_general %92, %38, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<128x2x4xbf16>, tensor<128x2x4xbf16>) -> tensor<128x2xbf16>
    %94 = stablehlo.convert %93 : (tensor<128x2xbf16>) -> tensor<128x2xf32>
    %95 = stablehlo.broadcast_in_dim %24, dims = [0, 1] : (tensor<128x1xf32>) -> tensor<128x2xf32>
    %96 = stablehlo.multiply %94, %95 : tensor<128x2xf32>
    %97 = stablehlo.multiply %96, %values : tensor<128x2xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %98 = stablehlo.reduce(%97 init: %cst_15) applies stablehlo.add across dimensions = [1] : (tensor<128x2xf32>, tensor<f32>) -> tensor<128xf32>
    %99 = stablehlo.reshape %98 : (tensor<128xf32>) -> tensor<128x1xf32>
    %100 = stablehlo.negate %99 : tensor<128x1xf32>
    %101 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<128x1xf32>) -> tensor<128x2xf32>
    %102 = stablehlo.divide %94, %101 : tensor<128x2xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %103 = stablehlo.reduce(%100 init: %cst_16) applies stablehlo.add across dimensions = [1] : (tensor<128x1xf32>, tensor<f32>) -> tensor<128xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0] : (tensor<128xf32>) -> tensor<128x2xf32>
    %105 = stablehlo.add %102, %104 : tensor<128x2xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %106 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<128x4xf32>
    %107 = "stablehlo.scatter"(%106, %17, %105) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %128 = stablehlo.add %arg5, %arg6 : tensor<f32>
      stablehlo.return %128 : tensor<f32>
    }) : (tensor<128x4xf32>, tensor<128x2x1xi32>, tensor<128x2xf32>) -> tensor<128x4xf32>
    %108 = stablehlo.broadcast_in_dim %16, dims = [0, 1] : (tensor<128x1xf32>) -> tensor<128x4xf32>
    %109 = stablehlo.multiply %107, %108 : tensor<128x4xf32>
    %110 = stablehlo.multiply %109, %9 : tensor<128x4xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %111 = stablehlo.reduce(%110 init: %cst_18) applies stablehlo.add across dimensions = [1] : (tensor<128x4xf32>, tensor<f32>) -> tensor<128xf32>
    %112 = stablehlo.reshape %111 : (tensor<128xf32>) -> tensor<128x1xf32>
    %113 = stablehlo.negate %112 : tensor<128x1xf32>
    %114 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<128x1xf32>) -> tensor<128x4xf32>
    %115 = stablehlo.divide %107, %114 : tensor<128x4xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %116 = stablehlo.reduce(%113 init: %cst_19) applies stablehlo.add across dimensions = [1] : (tensor<128x1xf32>, tensor<f32>) -> tensor<128xf32>
    %117 = stablehlo.broadcast_in_dim %116, dims = [0] : (tensor<128xf32>) -> tensor<128x4xf32>
    %118 = stablehlo.add %115, %117 : tensor<128x4xf32>
    %119 = stablehlo.multiply %118, %9 : tensor<128x4xf32>
    %120 = stablehlo.convert %119 : (tensor<128x4xf32>) -> tensor<128x4xbf16>
    %121 = stablehlo.dot_general %120, %0, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x4xbf16>, tensor<128x128xbf16>) -> tensor<4x128xbf16>
    %122 = stablehlo.transpose %121, dims = [1, 0] : (tensor<4x128xbf16>) -> tensor<128x4xbf16>
    %123 = stablehlo.dot_general %120, %arg0, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<128x4xbf16>, tensor<128x4xbf16>) -> tensor<128x128xbf16>
    %124 = stablehlo.add %90, %123 : tensor<128x128xbf16>
    %125 = stablehlo.reshape %124 : (tensor<128x128xbf16>) -> tensor<2x64x128xbf16>
    %126 = stablehlo.add %arg4, %125 : tensor<2x64x128xbf16>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %127 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<bf16>) -> tensor<4x128x256xbf16>
    return %64, %122, %87, %70, %127, %126 : tensor<2x64x128xbf16>, tensor<128x4xbf16>, tensor<4x128x256xbf16>, tensor<4x256x128xbf16>, tensor<4x128x256xbf16>, tensor<2x64x128xbf16>
  }
  func.func private @_one_hot(%arg0: tensor<128x2xi32>) -> tensor<128x2x4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<128x2xi32>) -> tensor<128x2x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x4xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<128x2x1xi32>) -> tensor<128x2x4xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x4xi32>) -> tensor<128x2x4xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<128x2x4xi32>, tensor<128x2x4xi32>) -> tensor<128x2x4xi1>
    %5 = stablehlo.convert %4 : (tensor<128x2x4xi1>) -> tensor<128x2x4xf32>
    return %5 : tensor<128x2x4xf32>
  }
  func.func private @cumsum(%arg0: tensor<256x4xf32>) -> tensor<256x4xf32> {
    %0 = call @cumsum_0(%arg0) : (tensor<256x4xf32>) -> tensor<256x4xf32>
    return %0 : tensor<256x4xf32>
  }
  func.func private @cumsum_0(%arg0: tensor<256x4xf32>) -> tensor<256x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1>, padding = dense<[[255, 0], [0, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 256, 1>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<256x4xf32>, tensor<f32>) -> tensor<256x4xf32>
    return %1 : tensor<256x4xf32>
  }
  func.func private @_one_hot_1(%arg0: tensor<128x2xi32>) -> tensor<128x2x56xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<128x2xi32>) -> tensor<128x2x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x56xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<128x2x1xi32>) -> tensor<128x2x56xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x56xi32>) -> tensor<128x2x56xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<128x2x56xi32>, tensor<128x2x56xi32>) -> tensor<128x2x56xi1>
    %5 = stablehlo.convert %4 : (tensor<128x2x56xi1>) -> tensor<128x2x56xbf16>
    return %5 : tensor<128x2x56xbf16>
  }
}
