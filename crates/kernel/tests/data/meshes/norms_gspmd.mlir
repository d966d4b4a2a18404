module @jit_norms attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<128xf32> {mhlo.sharding = "{replicated}"}, %arg1: tensor<128x128xbf16> {mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg2: tensor<128xbf16> {mhlo.sharding = "{replicated}"}, %arg3: tensor<128xf32> {mhlo.sharding = "{replicated}"}, %arg4: tensor<128x128xbf16> {mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg5: tensor<4x64x128xbf16> {mhlo.sharding = "{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}"}) -> (tensor<f32> {jax.result_info = "result[0]", mhlo.sharding = "{replicated}"}, tensor<128xf32> {jax.result_info = "result[1][0]['bias']", mhlo.sharding = "{replicated}"}, tensor<128x128xbf16> {jax.result_info = "result[1][0]['first']", mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, tensor<128xbf16> {jax.result_info = "result[1][0]['rms']", mhlo.sharding = "{replicated}"}, tensor<128xf32> {jax.result_info = "result[1][0]['scale']", mhlo.sharding = "{replicated}"}, tensor<128x128xbf16> {jax.result_info = "result[1][0]['second']", mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, tensor<4x64x128xbf16> {jax.result_info = "result[1][1]", mhlo.sharding = "{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}"}) {
    %0 = stablehlo.convert %arg5 : (tensor<4x64x128xbf16>) -> tensor<4x64x128xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<4x64x128xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %5 = stablehlo.divide %3, %4 : tensor<4x64x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %7 = stablehlo.add %5, %6 : tensor<4x64x1xf32>
    %8 = stablehlo.rsqrt %7 : tensor<4x64x1xf32>
    %9 = stablehlo.divide %8, %7 : tensor<4x64x1xf32>
    %cst_2 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %11 = stablehlo.multiply %10, %9 : tensor<4x64x1xf32>
    %12 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %13 = stablehlo.multiply %0, %12 : tensor<4x64x128xf32>
    %14 = stablehlo.convert %13 : (tensor<4x64x128xf32>) -> tensor<4x64x128xbf16>
    %15 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<128xbf16>) -> tensor<1x1x128xbf16>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<1x1x128xbf16>) -> tensor<4x64x128xbf16>
    %17 = stablehlo.multiply %14, %16 : tensor<4x64x128xbf16>
    %18 = stablehlo.dot_general %17, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<128x128xbf16>) -> tensor<4x64x128xbf16>
    %19 = stablehlo.add %arg5, %18 : tensor<4x64x128xbf16>
    %20 = stablehlo.convert %19 : (tensor<4x64x128xbf16>) -> tensor<4x64x128xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_4 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %24 = stablehlo.divide %22, %23 : tensor<4x64x1xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %26 = stablehlo.subtract %20, %25 : tensor<4x64x128xf32>
    %27 = stablehlo.multiply %26, %26 : tensor<4x64x128xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %29 = stablehlo.multiply %28, %26 : tensor<4x64x128xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%27 init: %cst_6) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_7 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %33 = stablehlo.divide %31, %32 : tensor<4x64x1xf32>
    %34 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %35 = stablehlo.subtract %20, %34 : tensor<4x64x128xf32>
    %cst_8 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %37 = stablehlo.add %33, %36 : tensor<4x64x1xf32>
    %38 = stablehlo.rsqrt %37 : tensor<4x64x1xf32>
    %39 = stablehlo.divide %38, %37 : tensor<4x64x1xf32>
    %cst_9 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %40 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %41 = stablehlo.multiply %40, %39 : tensor<4x64x1xf32>
    %42 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %43 = stablehlo.multiply %35, %42 : tensor<4x64x128xf32>
    %44 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<4x64x128xf32>
    %46 = stablehlo.multiply %43, %45 : tensor<4x64x128xf32>
    %47 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<4x64x128xf32>
    %49 = stablehlo.add %46, %48 : tensor<4x64x128xf32>
    %50 = stablehlo.convert %49 : (tensor<4x64x128xf32>) -> tensor<4x64x128xbf16>
    %51 = stablehlo.dot_general %50, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<128x128xbf16>) -> tensor<4x64x128xbf16>
    %52 = stablehlo.add %19, %51 : tensor<4x64x128xbf16>
    %53 = stablehlo.convert %52 : (tensor<4x64x128xbf16>) -> tensor<4x64x128xf32>
    %54 = stablehlo.multiply %53, %53 : tensor<4x64x128xf32>
    %cst_10 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %56 = stablehlo.multiply %55, %53 : tensor<4x64x128xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %57 = stablehlo.reduce(%54 init: %cst_11) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<f32>
    %cst_12 = stablehlo.constant dense<3.276800e+04> : tensor<f32>
    %58 = stablehlo.divide %57, %cst_12 : tensor<f32>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_14 = stablehlo.constant dense<3.276800e+04> : tensor<f32>
    %59 = stablehlo.divide %cst_13, %cst_14 : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [] : (tensor<f32>) -> tensor<4x64x128xf32>
    %61 = stablehlo.multiply %60, %56 : tensor<4x64x128xf32>
    %62 = stablehlo.convert %61 : (tensor<4x64x128xf32>) -> tensor<4x64x128xbf16>
    %63 = stablehlo.dot_general %62, %50, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x64x128xbf16>) -> tensor<128x128xbf16>
    %64 = stablehlo.transpose %63, dims = [1, 0] : (tensor<128x128xbf16>) -> tensor<128x128xbf16>
    %65 = stablehlo.dot_general %62, %arg4, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<128x128xbf16>) -> tensor<4x64x128xbf16>
    %66 = stablehlo.convert %65 : (tensor<4x64x128xbf16>) -> tensor<4x64x128xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %67 = stablehlo.reduce(%66 init: %cst_15) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<128xf32>
    %68 = stablehlo.reshape %67 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %69 = stablehlo.reduce(%68 init: %cst_16) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xf32>, tensor<f32>) -> tensor<128xf32>
    %70 = stablehlo.multiply %43, %66 : tensor<4x64x128xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %71 = stablehlo.reduce(%70 init: %cst_17) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<128xf32>
    %72 = stablehlo.reshape %71 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %73 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<4x64x128xf32>
    %74 = stablehlo.multiply %66, %73 : tensor<4x64x128xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %75 = stablehlo.reduce(%72 init: %cst_18) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xf32>, tensor<f32>) -> tensor<128xf32>
    %76 = stablehlo.multiply %35, %74 : tensor<4x64x128xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %77 = stablehlo.reduce(%76 init: %cst_19) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %78 = stablehlo.reshape %77 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %79 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %80 = stablehlo.multiply %74, %79 : tensor<4x64x128xf32>
    %81 = stablehlo.multiply %78, %41 : tensor<4x64x1xf32>
    %82 = stablehlo.negate %80 : tensor<4x64x128xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %83 = stablehlo.reduce(%82 init: %cst_20) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %84 = stablehlo.reshape %83 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %cst_21 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %85 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %86 = stablehlo.divide %81, %85 : tensor<4x64x1xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %87 = stablehlo.reduce(%86 init: %cst_22) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %88 = stablehlo.broadcast_in_dim %87, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x128xf32>
    %89 = stablehlo.multiply %88, %29 : tensor<4x64x128xf32>
    %90 = stablehlo.negate %89 : tensor<4x64x128xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %91 = stablehlo.reduce(%90 init: %cst_23) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %92 = stablehlo.reshape %91 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %93 = stablehlo.add %80, %89 : tensor<4x64x128xf32>
    %94 = stablehlo.add %84, %92 : tensor<4x64x1xf32>
    %cst_24 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %96 = stablehlo.divide %94, %95 : tensor<4x64x1xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %97 = stablehlo.reduce(%96 init: %cst_25) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x128xf32>
    %99 = stablehlo.add %93, %98 : tensor<4x64x128xf32>
    %100 = stablehlo.convert %99 : (tensor<4x64x128xf32>) -> tensor<4x64x128xbf16>
    %101 = stablehlo.add %62, %100 : tensor<4x64x128xbf16>
    %102 = stablehlo.dot_general %101, %17, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<4x64x128xbf16>) -> tensor<128x128xbf16>
    %103 = stablehlo.transpose %102, dims = [1, 0] : (tensor<128x128xbf16>) -> tensor<128x128xbf16>
    %104 = stablehlo.dot_general %101, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x64x128xbf16>, tensor<128x128xbf16>) -> tensor<4x64x128xbf16>
    %105 = stablehlo.multiply %14, %104 : tensor<4x64x128xbf16>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %106 = stablehlo.reduce(%105 init: %cst_26) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x64x128xbf16>, tensor<bf16>) -> tensor<128xbf16>
    %107 = stablehlo.reshape %106 : (tensor<128xbf16>) -> tensor<1x1x128xbf16>
    %108 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<1x1x128xbf16>) -> tensor<4x64x128xbf16>
    %109 = stablehlo.multiply %104, %108 : tensor<4x64x128xbf16>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %110 = stablehlo.reduce(%107 init: %cst_27) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x128xbf16>, tensor<bf16>) -> tensor<128xbf16>
    %111 = stablehlo.convert %109 : (tensor<4x64x128xbf16>) -> tensor<4x64x128xf32>
    %112 = stablehlo.multiply %0, %111 : tensor<4x64x128xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %113 = stablehlo.reduce(%112 init: %cst_28) applies stablehlo.add across dimensions = [2] : (tensor<4x64x128xf32>, tensor<f32>) -> tensor<4x64xf32>
    %114 = stablehlo.reshape %113 : (tensor<4x64xf32>) -> tensor<4x64x1xf32>
    %115 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<4x64x1xf32>) -> tensor<4x64x128xf32>
    %116 = stablehlo.multiply %111, %115 : tensor<4x64x128xf32>
    %117 = stablehlo.multiply %114, %11 : tensor<4x64x1xf32>
    %cst_29 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %118 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<4x64x1xf32>
    %119 = stablehlo.divide %117, %118 : tensor<4x64x1xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %120 = stablehlo.reduce(%119 init: %cst_30) applies stablehlo.add across dimensions = [2] : (tensor<4x64x1xf32>, tensor<f32>) -> tensor<4x64xf32>
    %121 = stablehlo.broadcast_in_dim %120, dims = [0, 1] : (tensor<4x64xf32>) -> tensor<4x64x128xf32>
    %122 = stablehlo.multiply %0, %121 : tensor<4x64x128xf32>
    %123 = stablehlo.add %116, %122 : tensor<4x64x128xf32>
    %124 = stablehlo.multiply %121, %0 : tensor<4x64x128xf32>
    %125 = stablehlo.add %123, %124 : tensor<4x64x128xf32>
    %126 = stablehlo.convert %125 : (tensor<4x64x128xf32>) -> tensor<4x64x128xbf16>
    %127 = stablehlo.add %101, %126 : tensor<4x64x128xbf16>
    return %58, %69, %103, %110, %75, %64, %127 : tensor<f32>, tensor<128xf32>, tensor<128x128xbf16>, tensor<128xbf16>, tensor<128xf32>, tensor<128x128xbf16>, tensor<4x64x128xbf16>
  }
}
