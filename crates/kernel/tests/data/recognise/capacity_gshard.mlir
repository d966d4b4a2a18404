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
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x64x4xf32>
    %21 = stablehlo.subtract %20, %17 : tensor<2x64x4xf32>
    %22 = stablehlo.multiply %12, %21 : tensor<2x64x4xf32>
    %23 = call @argmax(%22) : (tensor<2x64x4xf32>) -> tensor<2x64xi32>
    %24 = call @_one_hot(%23) : (tensor<2x64xi32>) -> tensor<2x64x4xf32>
    %25 = stablehlo.multiply %22, %24 : tensor<2x64x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.reduce(%25 init: %cst_5) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %27 = stablehlo.add %19, %26 : tensor<2x64xf32>
    %cst_6 = stablehlo.constant dense<9.99999971E-10> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %29 = stablehlo.add %27, %28 : tensor<2x64xf32>
    %30 = stablehlo.divide %19, %29 : tensor<2x64xf32>
    %31 = stablehlo.multiply %29, %29 : tensor<2x64xf32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %33 = stablehlo.divide %32, %31 : tensor<2x64xf32>
    %34 = stablehlo.divide %26, %29 : tensor<2x64xf32>
    %35 = stablehlo.multiply %29, %29 : tensor<2x64xf32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %37 = stablehlo.divide %36, %35 : tensor<2x64xf32>
    %38 = call @cumsum(%17) : (tensor<2x64x4xf32>) -> tensor<2x64x4xf32>
    %39 = stablehlo.subtract %38, %17 : tensor<2x64x4xf32>
    %cst_9 = stablehlo.constant dense<3.000000e+01> : tensor<f32>
    %40 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x64x4xf32>
    %41 = stablehlo.compare LT, %39, %40, FLOAT : (tensor<2x64x4xf32>, tensor<2x64x4xf32>) -> tensor<2x64x4xi1>
    %42 = stablehlo.convert %41 : (tensor<2x64x4xi1>) -> tensor<2x64x4xf32>
    %43 = stablehlo.multiply %17, %42 : tensor<2x64x4xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %44 = stablehlo.reduce(%43 init: %cst_10) applies stablehlo.add across dimensions = [1] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 2] : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %46 = stablehlo.reduce(%43 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %47 = stablehlo.multiply %39, %43 : tensor<2x64x4xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.reduce(%47 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %49 = call @cumsum(%24) : (tensor<2x64x4xf32>) -> tensor<2x64x4xf32>
    %50 = stablehlo.subtract %49, %24 : tensor<2x64x4xf32>
    %51 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2] : (tensor<2x1x4xf32>) -> tensor<2x64x4xf32>
    %52 = stablehlo.add %50, %51 : tensor<2x64x4xf32>
    %cst_13 = stablehlo.constant dense<3.000000e+01> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x64x4xf32>
    %54 = stablehlo.compare LT, %52, %53, FLOAT : (tensor<2x64x4xf32>, tensor<2x64x4xf32>) -> tensor<2x64x4xi1>
    %55 = stablehlo.convert %54 : (tensor<2x64x4xi1>) -> tensor<2x64x4xf32>
    %56 = stablehlo.multiply %24, %55 : tensor<2x64x4xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %57 = stablehlo.reduce(%56 init: %cst_14) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %58 = stablehlo.multiply %52, %56 : tensor<2x64x4xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = stablehlo.reduce(%58 init: %cst_15) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %60 = stablehlo.multiply %30, %46 : tensor<2x64xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x4xf32>
    %63 = stablehlo.multiply %62, %43 : tensor<2x64x4xf32>
    %64 = stablehlo.convert %48 : (tensor<2x64xf32>) -> tensor<2x64xi32>
    %65 = call @_one_hot_1(%64) : (tensor<2x64xi32>) -> tensor<2x64x30xf32>
    %66 = stablehlo.dot_general %63, %65, batching_dims = [0, 1] x [0, 1], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4xf32>, tensor<2x64x30xf32>) -> tensor<2x64x4x30xf32>
    %67 = stablehlo.multiply %34, %57 : tensor<2x64xf32>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x4xf32>
    %70 = stablehlo.multiply %69, %56 : tensor<2x64x4xf32>
    %71 = stablehlo.convert %59 : (tensor<2x64xf32>) -> tensor<2x64xi32>
    %72 = call @_one_hot_1(%71) : (tensor<2x64xi32>) -> tensor<2x64x30xf32>
    %73 = stablehlo.dot_general %70, %72, batching_dims = [0, 1] x [0, 1], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4xf32>, tensor<2x64x30xf32>) -> tensor<2x64x4x30xf32>
    %74 = stablehlo.add %66, %73 : tensor<2x64x4x30xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x64x4x30xf32>
    %76 = stablehlo.compare NE, %74, %75, FLOAT : (tensor<2x64x4x30xf32>, tensor<2x64x4x30xf32>) -> tensor<2x64x4x30xi1>
    %77 = stablehlo.convert %76 : tensor<2x64x4x30xi1>
    %78 = stablehlo.convert %77 : (tensor<2x64x4x30xi1>) -> tensor<2x64x4x30xbf16>
    %79 = stablehlo.dot_general %78, %arg4, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x30xbf16>, tensor<2x64x128xbf16>) -> tensor<2x4x30x128xbf16>
    %80 = stablehlo.transpose %79, dims = [1, 0, 2, 3] : (tensor<2x4x30x128xbf16>) -> tensor<4x2x30x128xbf16>
    %81 = stablehlo.dot_general %80, %arg1, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x2x30x128xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x30x256xbf16>
    %82:3 = call @silu(%81) : (tensor<4x2x30x256xbf16>) -> (tensor<4x2x30x256xbf16>, tensor<4x2x30x256xbf16>, tensor<4x2x30x256xbf16>)
    %83 = stablehlo.dot_general %80, %arg3, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x2x30x128xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x30x256xbf16>
    %84 = stablehlo.multiply %82#0, %83 : tensor<4x2x30x256xbf16>
    %85 = stablehlo.dot_general %84, %arg2, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x2x30x256xbf16>, tensor<4x256x128xbf16>) -> tensor<4x2x30x128xbf16>
    %86 = stablehlo.convert %74 : (tensor<2x64x4x30xf32>) -> tensor<2x64x4x30xbf16>
    %87 = stablehlo.dot_general %86, %85, batching_dims = [0] x [1], contracting_dims = [3, 2] x [2, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x30xbf16>, tensor<4x2x30x128xbf16>) -> tensor<2x64x128xbf16>
    %88 = stablehlo.add %arg4, %87 : tensor<2x64x128xbf16>
    %89 = stablehlo.dot_general %arg5, %86, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<2x64x4x30xbf16>) -> tensor<2x128x4x30xbf16>
    %90 = stablehlo.transpose %89, dims = [2, 0, 3, 1] : (tensor<2x128x4x30xbf16>) -> tensor<4x2x30x128xbf16>
    %91 = stablehlo.dot_general %arg5, %85, batching_dims = [0] x [1], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<4x2x30x128xbf16>) -> tensor<2x64x4x30xbf16>
    %92 = stablehlo.convert %91 : (tensor<2x64x4x30xbf16>) -> tensor<2x64x4x30xf32>
    %93 = stablehlo.dot_general %90, %84, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x30x128xbf16>, tensor<4x2x30x256xbf16>) -> tensor<4x128x256xbf16>
    %94 = stablehlo.transpose %93, dims = [0, 2, 1] : (tensor<4x128x256xbf16>) -> tensor<4x256x128xbf16>
    %95 = stablehlo.dot_general %90, %arg2, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x30x128xbf16>, tensor<4x256x128xbf16>) -> tensor<4x2x30x256xbf16>
    %96 = stablehlo.multiply %82#0, %95 : tensor<4x2x30x256xbf16>
    %97 = stablehlo.multiply %95, %83 : tensor<4x2x30x256xbf16>
    %98 = stablehlo.dot_general %96, %80, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x30x256xbf16>, tensor<4x2x30x128xbf16>) -> tensor<4x256x128xbf16>
    %99 = stablehlo.transpose %98, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %100 = stablehlo.dot_general %96, %arg3, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x30x256xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x30x128xbf16>
    %101 = call @silu_2(%82#1, %82#2, %81, %97) : (tensor<4x2x30x256xbf16>, tensor<4x2x30x256xbf16>, tensor<4x2x30x256xbf16>, tensor<4x2x30x256xbf16>) -> tensor<4x2x30x256xbf16>
    %102 = stablehlo.dot_general %101, %80, batching_dims = [0] x [0], contracting_dims = [1, 2] x [1, 2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x30x256xbf16>, tensor<4x2x30x128xbf16>) -> tensor<4x256x128xbf16>
    %103 = stablehlo.transpose %102, dims = [0, 2, 1] : (tensor<4x256x128xbf16>) -> tensor<4x128x256xbf16>
    %104 = stablehlo.dot_general %101, %arg1, batching_dims = [0] x [0], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x30x256xbf16>, tensor<4x128x256xbf16>) -> tensor<4x2x30x128xbf16>
    %105 = stablehlo.add %100, %104 : tensor<4x2x30x128xbf16>
    %106 = stablehlo.transpose %105, dims = [1, 0, 2, 3] : (tensor<4x2x30x128xbf16>) -> tensor<2x4x30x128xbf16>
    %107 = stablehlo.dot_general %106, %78, batching_dims = [0] x [0], contracting_dims = [1, 2] x [2, 3], precision = [DEFAULT, DEFAULT] : (tensor<2x4x30x128xbf16>, tensor<2x64x4x30xbf16>) -> tensor<2x128x64xbf16>
    %108 = stablehlo.transpose %107, dims = [0, 2, 1] : (tensor<2x128x64xbf16>) -> tensor<2x64x128xbf16>
    %109 = stablehlo.add %arg5, %108 : tensor<2x64x128xbf16>
    %110 = stablehlo.dot_general %92, %72, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x30xf32>, tensor<2x64x30xf32>) -> tensor<2x64x4xf32>
    %111 = stablehlo.multiply %110, %56 : tensor<2x64x4xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %112 = stablehlo.reduce(%111 init: %cst_17) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %113 = stablehlo.reshape %112 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %114 = stablehlo.reduce(%113 init: %cst_18) applies stablehlo.add across dimensions = [2] : (tensor<2x64x1xf32>, tensor<f32>) -> tensor<2x64xf32>
    %115 = stablehlo.multiply %114, %57 : tensor<2x64xf32>
    %116 = stablehlo.dot_general %92, %65, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x30xf32>, tensor<2x64x30xf32>) -> tensor<2x64x4xf32>
    %117 = stablehlo.multiply %116, %43 : tensor<2x64x4xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %118 = stablehlo.reduce(%117 init: %cst_19) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %119 = stablehlo.reshape %118 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %120 = stablehlo.reduce(%119 init: %cst_20) applies stablehlo.add across dimensions = [2] : (tensor<2x64x1xf32>, tensor<f32>) -> tensor<2x64xf32>
    %121 = stablehlo.multiply %120, %46 : tensor<2x64xf32>
    %122 = stablehlo.multiply %115, %37 : tensor<2x64xf32>
    %123 = stablehlo.multiply %122, %26 : tensor<2x64xf32>
    %124 = stablehlo.negate %123 : tensor<2x64xf32>
    %125 = stablehlo.divide %115, %29 : tensor<2x64xf32>
    %126 = stablehlo.multiply %121, %33 : tensor<2x64xf32>
    %127 = stablehlo.multiply %126, %19 : tensor<2x64xf32>
    %128 = stablehlo.negate %127 : tensor<2x64xf32>
    %129 = stablehlo.add %124, %128 : tensor<2x64xf32>
    %130 = stablehlo.divide %121, %29 : tensor<2x64xf32>
    %131 = stablehlo.add %130, %129 : tensor<2x64xf32>
    %132 = stablehlo.add %125, %129 : tensor<2x64xf32>
    %133 = stablehlo.broadcast_in_dim %132, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x4xf32>
    %134 = stablehlo.multiply %133, %24 : tensor<2x64x4xf32>
    %135 = stablehlo.multiply %134, %21 : tensor<2x64x4xf32>
    %136 = stablehlo.broadcast_in_dim %131, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x4xf32>
    %137 = stablehlo.multiply %136, %17 : tensor<2x64x4xf32>
    %138 = stablehlo.add %135, %137 : tensor<2x64x4xf32>
    %139 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x4xf32>
    %140 = stablehlo.multiply %138, %139 : tensor<2x64x4xf32>
    %141 = stablehlo.multiply %140, %8 : tensor<2x64x4xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %142 = stablehlo.reduce(%141 init: %cst_21) applies stablehlo.add across dimensions = [2] : (tensor<2x64x4xf32>, tensor<f32>) -> tensor<2x64xf32>
    %143 = stablehlo.reshape %142 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %144 = stablehlo.negate %143 : tensor<2x64x1xf32>
    %145 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x4xf32>
    %146 = stablehlo.divide %138, %145 : tensor<2x64x4xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %147 = stablehlo.reduce(%144 init: %cst_22) applies stablehlo.add across dimensions = [2] : (tensor<2x64x1xf32>, tensor<f32>) -> tensor<2x64xf32>
    %148 = stablehlo.broadcast_in_dim %147, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x4xf32>
    %149 = stablehlo.add %146, %148 : tensor<2x64x4xf32>
    %150 = stablehlo.multiply %149, %8 : tensor<2x64x4xf32>
    %151 = stablehlo.convert %150 : (tensor<2x64x4xf32>) -> tensor<2x64x4xbf16>
    %152 = stablehlo.dot_general %151, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4xbf16>, tensor<2x64x128xbf16>) -> tensor<4x128xbf16>
    %153 = stablehlo.transpose %152, dims = [1, 0] : (tensor<4x128xbf16>) -> tensor<128x4xbf16>
    %154 = stablehlo.dot_general %151, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4xbf16>, tensor<128x4xbf16>) -> tensor<2x64x128xbf16>
    %155 = stablehlo.add %109, %154 : tensor<2x64x128xbf16>
    return %88, %153, %103, %94, %99, %155 : tensor<2x64x128xbf16>, tensor<128x4xbf16>, tensor<4x128x256xbf16>, tensor<4x256x128xbf16>, tensor<4x128x256xbf16>, tensor<2x64x128xbf16>
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
  func.func private @_one_hot_1(%arg0: tensor<2x64xi32>) -> tensor<2x64x30xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<2x64xi32>) -> tensor<2x64x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x30xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<2x64x1xi32>) -> tensor<2x64x30xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x30xi32>) -> tensor<2x64x30xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<2x64x30xi32>, tensor<2x64x30xi32>) -> tensor<2x64x30xi1>
    %5 = stablehlo.convert %4 : (tensor<2x64x30xi1>) -> tensor<2x64x30xf32>
    return %5 : tensor<2x64x30xf32>
  }
  func.func private @silu(%arg0: tensor<4x2x30x256xbf16>) -> (tensor<4x2x30x256xbf16>, tensor<4x2x30x256xbf16>, tensor<4x2x30x256xbf16>) {
    %0 = stablehlo.negate %arg0 : tensor<4x2x30x256xbf16>
    %1 = stablehlo.exponential %0 : tensor<4x2x30x256xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<4x2x30x256xbf16>
    %3 = stablehlo.add %2, %1 : tensor<4x2x30x256xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<4x2x30x256xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<4x2x30x256xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<4x2x30x256xbf16>
    %7 = stablehlo.subtract %6, %5 : tensor<4x2x30x256xbf16>
    %8 = stablehlo.multiply %5, %7 : tensor<4x2x30x256xbf16>
    %9 = stablehlo.multiply %arg0, %5 : tensor<4x2x30x256xbf16>
    return %9, %8, %5 : tensor<4x2x30x256xbf16>, tensor<4x2x30x256xbf16>, tensor<4x2x30x256xbf16>
  }
  func.func private @silu_2(%arg0: tensor<4x2x30x256xbf16>, %arg1: tensor<4x2x30x256xbf16>, %arg2: tensor<4x2x30x256xbf16>, %arg3: tensor<4x2x30x256xbf16>) -> tensor<4x2x30x256xbf16> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<4x2x30x256xbf16>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<4x2x30x256xbf16>
    %2 = stablehlo.multiply %0, %arg0 : tensor<4x2x30x256xbf16>
    %3 = stablehlo.add %1, %2 : tensor<4x2x30x256xbf16>
    return %3 : tensor<4x2x30x256xbf16>
  }
}
