module @jit_loss attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<128x4xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg1: tensor<4x128x512xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"model"}]>}, %arg2: tensor<4x512x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>}, %arg3: tensor<4x128x512xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"model"}]>}, %arg4: tensor<128x4xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg5: tensor<4x128x512xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"model"}]>}, %arg6: tensor<4x512x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>}, %arg7: tensor<4x128x512xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"model"}]>}, %arg8: tensor<4x64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> (tensor<f32> {jax.result_info = "result[0]", sdy.sharding = #sdy.sharding<@mesh, []>}, tensor<128x4xbf16> {jax.result_info = "result[1][0][0]['gate']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<4x128x512xbf16> {jax.result_info = "result[1][0][0]['w1']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"model"}]>}, tensor<4x512x128xbf16> {jax.result_info = "result[1][0][0]['w2']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>}, tensor<4x128x512xbf16> {jax.result_info = "result[1][0][0]['w3']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"model"}]>}, tensor<128x4xbf16> {jax.result_info = "result[1][0][1]['gate']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<4x128x512xbf16> {jax.result_info = "result[1][0][1]['w1']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"model"}]>}, tensor<4x512x128xbf16> {jax.result_info = "result[1][0][1]['w2']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>}, tensor<4x128x512xbf16> {jax.result_info = "result[1][0][1]['w3']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"model"}]>}, tensor<4x64x128xbf16> {jax.result_info = "result[1][1]", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) {
    %0 = stablehlo.dot_general %arg8, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<128x4xbf16>) -> tensor<4x64x4xbf16>
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
    %32 = stablehlo.dot_general %arg8, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x128x512xbf16>) -> tensor<4x64x4x512xbf16>
    %33:3 = call @silu(%32) : (tensor<4x64x4x512xbf16>) -> (tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>)
    %34 = stablehlo.dot_general %arg8, %arg3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x128x512xbf16>) -> tensor<4x64x4x512xbf16>
    %35 = stablehlo.multiply %33#0, %34 : tensor<4x64x4x512xbf16>
    %36 = stablehlo.dot_general %arg2, %35, batching_dims = [0] x [2], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x512x128xbf16>, tensor<4x64x4x512xbf16>) -> tensor<4x128x4x64xbf16>
    %37 = stablehlo.dot_general %31, %36, batching_dims = [0, 1] x [2, 3], contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4xbf16>, tensor<4x128x4x64xbf16>) -> tensor<4x64x128xbf16>
    %38 = stablehlo.add %arg8, %37 : tensor<4x64x128xbf16>
    %39 = stablehlo.dot_general %38, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<128x4xbf16>) -> tensor<4x64x4xbf16>
    %40 = stablehlo.convert %39 : (tensor<4x64x4xbf16>) -> tensor<4x64x4xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %41 = stablehlo.reduce(%40 init: %cst_6) applies stablehlo.maximum across dimensions = [2] : (tensor<4x64x4xf32>, tensor<f32>) -> tensor<4x64xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %43 = stablehlo.maximum %42, %41 : tensor<4x64xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x4xf32>
    %46 = stablehlo.subtract %40, %45 : tensor<4x64x4xf32>
    %47 = stablehlo.exponential %46 : tensor<4x64x4xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.reduce(%47 init: %cst_8) applies stablehlo.add across dimensions = [2] : (tensor<4x64x4xf32>, tensor<f32>) -> tensor<4x64xf32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x4xf32>
    %51 = stablehlo.divide %47, %50 : tensor<4x64x4xf32>
    %52 = stablehlo.multiply %49, %49 : tensor<4x64x1xf32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %54 = stablehlo.divide %53, %52 : tensor<4x64x1xf32>
    %values_10, %indices_11 = chlo.top_k(%51, k = 2) : tensor<4x64x4xf32> -> (tensor<4x64x2xf32>, tensor<4x64x2xi32>)
    %55 = stablehlo.reshape %indices_11 : (tensor<4x64x2xi32>) -> tensor<4x64x2x1xi32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %56 = stablehlo.reduce(%values_10 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<4x64x2xf32>, tensor<f32>) -> tensor<4x64xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x2xf32>
    %59 = stablehlo.divide %values_10, %58 : tensor<4x64x2xf32>
    %60 = stablehlo.multiply %57, %57 : tensor<4x64x1xf32>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %62 = stablehlo.divide %61, %60 : tensor<4x64x1xf32>
    %63 = stablehlo.convert %59 : (tensor<4x64x2xf32>) -> tensor<4x64x2xbf16>
    %64 = call @_one_hot(%indices_11) : (tensor<4x64x2xi32>) -> tensor<4x64x2x4xbf16>
    %65 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2] : (tensor<4x64x2xbf16>) -> tensor<4x64x2x1xbf16>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<4x64x2x1xbf16>) -> tensor<4x64x2x4xbf16>
    %67 = stablehlo.multiply %64, %66 : tensor<4x64x2x4xbf16>
    %68 = stablehlo.convert %67 : (tensor<4x64x2x4xbf16>) -> tensor<4x64x2x4xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %69 = stablehlo.reduce(%68 init: %cst_14) applies stablehlo.add across dimensions = [2] : (tensor<4x64x2x4xf32>, tensor<f32>) -> tensor<4x64x4xf32>
    %70 = stablehlo.convert %69 : (tensor<4x64x4xf32>) -> tensor<4x64x4xbf16>
    %71 = stablehlo.dot_general %38, %arg5, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x128x512xbf16>) -> tensor<4x64x4x512xbf16>
    %72:3 = call @silu(%71) : (tensor<4x64x4x512xbf16>) -> (tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>)
    %73 = stablehlo.dot_general %38, %arg7, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x128x512xbf16>) -> tensor<4x64x4x512xbf16>
    %74 = stablehlo.multiply %72#0, %73 : tensor<4x64x4x512xbf16>
    %75 = stablehlo.dot_general %arg6, %74, batching_dims = [0] x [2], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x512x128xbf16>, tensor<4x64x4x512xbf16>) -> tensor<4x128x4x64xbf16>
    %76 = stablehlo.dot_general %70, %75, batching_dims = [0, 1] x [2, 3], contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4xbf16>, tensor<4x128x4x64xbf16>) -> tensor<4x64x128xbf16>
    %77 = stablehlo.add %38, %76 : tensor<4x64x128xbf16>
    %78 = stablehlo.convert %77 : (tensor<4x64x128xbf16>) -> tensor<4x64x128xf32>
    %79 = stablehlo.multiply %78, %78 : tensor<4x64x128xf32>
    %cst_15 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %80 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %81 = stablehlo.multiply %80, %78 : tensor<4x64x128xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %82 = stablehlo.reduce(%79 init: %cst_16) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_17 = stablehlo.constant dense<3.276800e+04> : tensor<f32>
    %83 = stablehlo.divide %82, %cst_17 : tensor<f32>
    %cst_18 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_19 = stablehlo.constant dense<3.276800e+04> : tensor<f32>
    %84 = stablehlo.divide %cst_18, %cst_19 : tensor<f32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %86 = stablehlo.multiply %85, %81 : tensor<4x64x128xf32>
    %87 = stablehlo.convert %86 : (tensor<4x64x128xf32>) -> tensor<4x64x128xbf16>
    %88 = stablehlo.dot_general %87, %70, batching_dims = [0, 1] x [0, 1], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x64x4xbf16>) -> tensor<4x64x128x4xbf16>
    %89 = stablehlo.transpose %88, dims = [3, 2, 0, 1] : (tensor<4x64x128x4xbf16>) -> tensor<4x128x4x64xbf16>
    %90 = stablehlo.dot_general %87, %75, batching_dims = [0, 1] x [2, 3], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x128x4x64xbf16>) -> tensor<4x64x4xbf16>
    %91 = stablehlo.dot_general %89, %arg6, batching_dims = [0] x [0], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x128x4x64xbf16>, tensor<4x512x128xbf16>) -> tensor<4x4x64x512xbf16>
    %92 = stablehlo.transpose %91, dims = [1, 2, 0, 3] : (tensor<4x4x64x512xbf16>) -> tensor<4x64x4x512xbf16>
    %93 = stablehlo.dot_general %89, %74, batching_dims = [0] x [2], contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x4x64xbf16>, tensor<4x64x4x512xbf16>) -> tensor<4x128x512xbf16>
    %94 = stablehlo.transpose %93, dims = [0, 2, 1] : (tensor<4x128x512xbf16>) -> tensor<4x512x128xbf16>
    %95 = stablehlo.multiply %72#0, %92 : tensor<4x64x4x512xbf16>
    %96 = stablehlo.multiply %92, %73 : tensor<4x64x4x512xbf16>
    %97 = stablehlo.dot_general %95, %38, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x512xbf16>, tensor<4x64x128xbf16>) -> tensor<4x512x128xbf16>
    %98 = stablehlo.transpose %97, dims = [0, 2, 1] : (tensor<4x512x128xbf16>) -> tensor<4x128x512xbf16>
    %99 = stablehlo.dot_general %95, %arg7, contracting_dims = [2, 3] x [0, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x512xbf16>, tensor<4x128x512xbf16>) -> tensor<4x64x128xbf16>
    %100 = stablehlo.add %87, %99 : tensor<4x64x128xbf16>
    %101 = call @silu_0(%72#1, %72#2, %71, %96) : (tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>) -> tensor<4x64x4x512xbf16>
    %102 = stablehlo.dot_general %101, %38, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x512xbf16>, tensor<4x64x128xbf16>) -> tensor<4x512x128xbf16>
    %103 = stablehlo.transpose %102, dims = [0, 2, 1] : (tensor<4x512x128xbf16>) -> tensor<4x128x512xbf16>
    %104 = stablehlo.dot_general %101, %arg5, contracting_dims = [2, 3] x [0, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x512xbf16>, tensor<4x128x512xbf16>) -> tensor<4x64x128xbf16>
    %105 = stablehlo.add %100, %104 : tensor<4x64x128xbf16>
    %106 = stablehlo.convert %90 : (tensor<4x64x4xbf16>) -> tensor<4x64x4xf32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [0, 1, 3] : (tensor<4x64x4xf32>) -> tensor<4x64x2x4xf32>
    %108 = stablehlo.convert %107 : (tensor<4x64x2x4xf32>) -> tensor<4x64x2x4xbf16>
    %109 = stablehlo.multiply %64, %108 : tensor<4x64x2x4xbf16>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %110 = stablehlo.reduce(%109 init: %cst_20) applies stablehlo.add across dimensions = [3] : (tensor<4x64x2x4xbf16>, tensor<bf16>) -> tensor<4x64x2xbf16>
    %111 = stablehlo.reshape %110 : (tensor<4x64x2xbf16>) -> tensor<4x64x2x1xbf16>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %112 = stablehlo.reduce(%111 init: %cst_21) applies stablehlo.add across dimensions = [3] : (tensor<4x64x2x1xbf16>, tensor<bf16>) -> tensor<4x64x2xbf16>
    %113 = stablehlo.convert %112 : (tensor<4x64x2xbf16>) -> tensor<4x64x2xf32>
    %114 = stablehlo.broadcast_in_dim %62, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x2xf32>
    %115 = stablehlo.multiply %113, %114 : tensor<4x64x2xf32>
    %116 = stablehlo.multiply %115, %values_10 : tensor<4x64x2xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %117 = stablehlo.reduce(%116 init: %cst_22) applies stablehlo.add across dimensions = [2] : (tensor<4x64x2xf32>, tensor<f32>) -> tensor<4x64xf32>
    %118 = stablehlo.reshape %117 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %119 = stablehlo.negate %118 : tensor<4x64x1xf32>
    %120 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x2xf32>
    %121 = stablehlo.divide %113, %120 : tensor<4x64x2xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %122 = stablehlo.reduce(%119 init: %cst_23) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %123 = stablehlo.broadcast_in_dim %122, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x2xf32>
    %124 = stablehlo.add %121, %123 : tensor<4x64x2xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %125 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<4x64x4xf32>
    %126 = "stablehlo.scatter"(%125, %55, %124) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
      %200 = stablehlo.add %arg9, %arg10 : tensor<f32>
      stablehlo.return %200 : tensor<f32>
    }) : (tensor<4x64x4xf32>, tensor<4x64x2x1xi32>, tensor<4x64x2xf32>) -> tensor<4x64x4xf32>
    %127 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x4xf32>
    %128 = stablehlo.multiply %126, %127 : tensor<4x64x4xf32>
    %129 = stablehlo.multiply %128, %47 : tensor<4x64x4xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %130 = stablehlo.reduce(%129 init: %cst_25) applies stablehlo.add across dimensions = [2] : (tensor<4x64x4xf32>, tensor<f32>) -> tensor<4x64xf32>
    %131 = stablehlo.reshape %130 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %132 = stablehlo.negate %131 : tensor<4x64x1xf32>
    %133 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x4xf32>
    %134 = stablehlo.divide %126, %133 : tensor<4x64x4xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %135 = stablehlo.reduce(%132 init: %cst_26) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %136 = stablehlo.broadcast_in_dim %135, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x4xf32>
    %137 = stablehlo.add %134, %136 : tensor<4x64x4xf32>
    %138 = stablehlo.multiply %137, %47 : tensor<4x64x4xf32>
    %139 = stablehlo.convert %138 : (tensor<4x64x4xf32>) -> tensor<4x64x4xbf16>
    %140 = stablehlo.dot_general %139, %38, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4xbf16>, tensor<4x64x128xbf16>) -> tensor<4x128xbf16>
    %141 = stablehlo.transpose %140, dims = [1, 0] : (tensor<4x128xbf16>) -> tensor<128x4xbf16>
    %142 = stablehlo.dot_general %139, %arg4, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4xbf16>, tensor<128x4xbf16>) -> tensor<4x64x128xbf16>
    %143 = stablehlo.add %105, %142 : tensor<4x64x128xbf16>
    %144 = stablehlo.dot_general %143, %31, batching_dims = [0, 1] x [0, 1], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x64x4xbf16>) -> tensor<4x64x128x4xbf16>
    %145 = stablehlo.transpose %144, dims = [3, 2, 0, 1] : (tensor<4x64x128x4xbf16>) -> tensor<4x128x4x64xbf16>
    %146 = stablehlo.dot_general %143, %36, batching_dims = [0, 1] x [2, 3], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x128x4x64xbf16>) -> tensor<4x64x4xbf16>
    %147 = stablehlo.dot_general %145, %arg2, batching_dims = [0] x [0], contracting_dims = [1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x128x4x64xbf16>, tensor<4x512x128xbf16>) -> tensor<4x4x64x512xbf16>
    %148 = stablehlo.transpose %147, dims = [1, 2, 0, 3] : (tensor<4x4x64x512xbf16>) -> tensor<4x64x4x512xbf16>
    %149 = stablehlo.dot_general %145, %35, batching_dims = [0] x [2], contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x4x64xbf16>, tensor<4x64x4x512xbf16>) -> tensor<4x128x512xbf16>
    %150 = stablehlo.transpose %149, dims = [0, 2, 1] : (tensor<4x128x512xbf16>) -> tensor<4x512x128xbf16>
    %151 = stablehlo.multiply %33#0, %148 : tensor<4x64x4x512xbf16>
    %152 = stablehlo.multiply %148, %34 : tensor<4x64x4x512xbf16>
    %153 = stablehlo.dot_general %151, %arg8, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x512xbf16>, tensor<4x64x128xbf16>) -> tensor<4x512x128xbf16>
    %154 = stablehlo.transpose %153, dims = [0, 2, 1] : (tensor<4x512x128xbf16>) -> tensor<4x128x512xbf16>
    %155 = stablehlo.dot_general %151, %arg3, contracting_dims = [2, 3] x [0, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x512xbf16>, tensor<4x128x512xbf16>) -> tensor<4x64x128xbf16>
    %156 = stablehlo.add %143, %155 : tensor<4x64x128xbf16>
    %157 = call @silu_0(%33#1, %33#2, %32, %152) : (tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>, tensor<4x64x4x512xbf16>) -> tensor<4x64x4x512xbf16>
    %158 = stablehlo.dot_general %157, %arg8, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x512xbf16>, tensor<4x64x128xbf16>) -> tensor<4x512x128xbf16>
    %159 = stablehlo.transpose %158, dims = [0, 2, 1] : (tensor<4x512x128xbf16>) -> tensor<4x128x512xbf16>
    %160 = stablehlo.dot_general %157, %arg1, contracting_dims = [2, 3] x [0, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4x512xbf16>, tensor<4x128x512xbf16>) -> tensor<4x64x128xbf16>
    %161 = stablehlo.add %156, %160 : tensor<4x64x128xbf16>
    %162 = stablehlo.convert %146 : (tensor<4x64x4xbf16>) -> tensor<4x64x4xf32>
    %163 = stablehlo.broadcast_in_dim %162, dims = [0, 1, 3] : (tensor<4x64x4xf32>) -> tensor<4x64x2x4xf32>
    %164 = stablehlo.convert %163 : (tensor<4x64x2x4xf32>) -> tensor<4x64x2x4xbf16>
    %165 = stablehlo.multiply %25, %164 : tensor<4x64x2x4xbf16>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %166 = stablehlo.reduce(%165 init: %cst_27) applies stablehlo.add across dimensions = [3] : (tensor<4x64x2x4xbf16>, tensor<bf16>) -> tensor<4x64x2xbf16>
    %167 = stablehlo.reshape %166 : (tensor<4x64x2xbf16>) -> tensor<4x64x2x1xbf16>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %168 = stablehlo.reduce(%167 init: %cst_28) applies stablehlo.add across dimensions = [3] : (tensor<4x64x2x1xbf16>, tensor<bf16>) -> tensor<4x64x2xbf16>
    %169 = stablehlo.convert %168 : (tensor<4x64x2xbf16>) -> tensor<4x64x2xf32>
    %170 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x2xf32>
    %171 = stablehlo.multiply %169, %170 : tensor<4x64x2xf32>
    %172 = stablehlo.multiply %171, %values : tensor<4x64x2xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %173 = stablehlo.reduce(%172 init: %cst_29) applies stablehlo.add across dimensions = [2] : (tensor<4x64x2xf32>, tensor<f32>) -> tensor<4x64xf32>
    %174 = stablehlo.reshape %173 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %175 = stablehlo.negate %174 : tensor<4x64x1xf32>
    %176 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x2xf32>
    %177 = stablehlo.divide %169, %176 : tensor<4x64x2xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %178 = stablehlo.reduce(%175 init: %cst_30) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %179 = stablehlo.broadcast_in_dim %178, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x2xf32>
    %180 = stablehlo.add %177, %179 : tensor<4x64x2xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %181 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<4x64x4xf32>
    %182 = "stablehlo.scatter"(%181, %16, %180) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
      %200 = stablehlo.add %arg9, %arg10 : tensor<f32>
      stablehlo.return %200 : tensor<f32>
    }) : (tensor<4x64x4xf32>, tensor<4x64x2x1xi32>, tensor<4x64x2xf32>) -> tensor<4x64x4xf32>
    %183 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x4xf32>
    %184 = stablehlo.multiply %182, %183 : tensor<4x64x4xf32>
    %185 = stablehlo.multiply %184, %8 : tensor<4x64x4xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %186 = stablehlo.reduce(%185 init: %cst_32) applies stablehlo.add across dimensions = [2] : (tensor<4x64x4xf32>, tensor<f32>) -> tensor<4x64xf32>
    %187 = stablehlo.reshape %186 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %188 = stablehlo.negate %187 : tensor<4x64x1xf32>
    %189 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x4xf32>
    %190 = stablehlo.divide %182, %189 : tensor<4x64x4xf32>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %191 = stablehlo.reduce(%188 init: %cst_33) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %192 = stablehlo.broadcast_in_dim %191, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x4xf32>
    %193 = stablehlo.add %190, %192 : tensor<4x64x4xf32>
    %194 = stablehlo.multiply %193, %8 : tensor<4x64x4xf32>
    %195 = stablehlo.convert %194 : (tensor<4x64x4xf32>) -> tensor<4x64x4xbf16>
    %196 = stablehlo.dot_general %195, %arg8, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4xbf16>, tensor<4x64x128xbf16>) -> tensor<4x128xbf16>
    %197 = stablehlo.transpose %196, dims = [1, 0] : (tensor<4x128xbf16>) -> tensor<128x4xbf16>
    %198 = stablehlo.dot_general %195, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x4xbf16>, tensor<128x4xbf16>) -> tensor<4x64x128xbf16>
    %199 = stablehlo.add %161, %198 : tensor<4x64x128xbf16>
    return %83, %197, %159, %150, %154, %141, %103, %94, %98, %199 : tensor<f32>, tensor<128x4xbf16>, tensor<4x128x512xbf16>, tensor<4x512x128xbf16>, tensor<4x128x512xbf16>, tensor<128x4xbf16>, tensor<4x128x512xbf16>, tensor<4x512x128xbf16>, tensor<4x128x512xbf16>, tensor<4x64x128xbf16>
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
