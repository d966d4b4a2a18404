module @jit_loss attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg1: tensor<256x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %arg2: tensor<64x256xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg3: tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg4: tensor<4x128x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}, %arg5: tensor<4x128xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<64x128xbf16> {jax.result_info = "result[0]['k']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<256x64xbf16> {jax.result_info = "result[0]['o']", sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, tensor<64x256xbf16> {jax.result_info = "result[0]['q']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<64x128xbf16> {jax.result_info = "result[0]['v']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<4x128x64xbf16> {jax.result_info = "result[1]", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) {
    %0 = stablehlo.dot_general %arg4, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<64x256xbf16>) -> tensor<4x128x256xbf16>
    %1 = stablehlo.reshape %0 : (tensor<4x128x256xbf16>) -> tensor<4x128x4x2x32xbf16>
    %2 = stablehlo.dot_general %arg4, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<64x128xbf16>) -> tensor<4x128x128xbf16>
    %3 = stablehlo.reshape %2 : (tensor<4x128x128xbf16>) -> tensor<4x128x4x32xbf16>
    %4 = stablehlo.dot_general %arg4, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<64x128xbf16>) -> tensor<4x128x128xbf16>
    %5 = stablehlo.reshape %4 : (tensor<4x128x128xbf16>) -> tensor<4x128x4x32xbf16>
    %6 = stablehlo.dot_general %3, %1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4], precision = [DEFAULT, DEFAULT] : (tensor<4x128x4x32xbf16>, tensor<4x128x4x2x32xbf16>) -> tensor<4x4x128x128x2xbf16>
    %7 = stablehlo.transpose %6, dims = [0, 1, 4, 3, 2] : (tensor<4x4x128x128x2xbf16>) -> tensor<4x4x2x128x128xbf16>
    %8 = stablehlo.convert %7 : (tensor<4x4x2x128x128xbf16>) -> tensor<4x4x2x128x128xf32>
    %cst = stablehlo.constant dense<0.176776692> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4x2x128x128xf32>
    %10 = stablehlo.multiply %8, %9 : tensor<4x4x2x128x128xf32>
    %11 = stablehlo.iota dim = 0 : tensor<128xi32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<128xi32>) -> tensor<128x1xi32>
    %13 = stablehlo.iota dim = 0 : tensor<128xi32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [1] : (tensor<128xi32>) -> tensor<1x128xi32>
    %15 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<128x1xi32>) -> tensor<128x128xi32>
    %16 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<1x128xi32>) -> tensor<128x128xi32>
    %17 = stablehlo.compare GE, %15, %16, SIGNED : (tensor<128x128xi32>, tensor<128x128xi32>) -> tensor<128x128xi1>
    %18 = stablehlo.broadcast_in_dim %arg5, dims = [0, 3] : (tensor<4x128xi32>) -> tensor<4x1x1x128x1xi32>
    %19 = stablehlo.broadcast_in_dim %arg5, dims = [0, 4] : (tensor<4x128xi32>) -> tensor<4x1x1x1x128xi32>
    %20 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3, 4] : (tensor<4x1x1x128x1xi32>) -> tensor<4x1x1x128x128xi32>
    %21 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2, 3, 4] : (tensor<4x1x1x1x128xi32>) -> tensor<4x1x1x128x128xi32>
    %22 = stablehlo.compare EQ, %20, %21, SIGNED : (tensor<4x1x1x128x128xi32>, tensor<4x1x1x128x128xi32>) -> tensor<4x1x1x128x128xi1>
    %23 = stablehlo.broadcast_in_dim %17, dims = [3, 4] : (tensor<128x128xi1>) -> tensor<1x1x1x128x128xi1>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3, 4] : (tensor<1x1x1x128x128xi1>) -> tensor<4x1x1x128x128xi1>
    %25 = stablehlo.and %24, %22 : tensor<4x1x1x128x128xi1>
    %cst_0 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %26:2 = call @_where(%25, %10, %cst_0) : (tensor<4x1x1x128x128xi1>, tensor<4x4x2x128x128xf32>, tensor<f32>) -> (tensor<4x4x2x128x128xf32>, tensor<4x4x2x128x128xi1>)
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %27 = stablehlo.reduce(%26#0 init: %cst_1) applies stablehlo.maximum across dimensions = [4] : (tensor<4x4x2x128x128xf32>, tensor<f32>) -> tensor<4x4x2x128xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x4x2x128xf32>
    %29 = stablehlo.maximum %28, %27 : tensor<4x4x2x128xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2, 3] : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128x1xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2, 3, 4] : (tensor<4x4x2x128x1xf32>) -> tensor<4x4x2x128x128xf32>
    %32 = stablehlo.subtract %26#0, %31 : tensor<4x4x2x128x128xf32>
    %33 = stablehlo.exponential %32 : tensor<4x4x2x128x128xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %34 = stablehlo.reduce(%33 init: %cst_3) applies stablehlo.add across dimensions = [4] : (tensor<4x4x2x128x128xf32>, tensor<f32>) -> tensor<4x4x2x128xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2, 3] : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128x1xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3, 4] : (tensor<4x4x2x128x1xf32>) -> tensor<4x4x2x128x128xf32>
    %37 = stablehlo.divide %33, %36 : tensor<4x4x2x128x128xf32>
    %38 = stablehlo.multiply %35, %35 : tensor<4x4x2x128x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x4x2x128x1xf32>
    %40 = stablehlo.divide %39, %38 : tensor<4x4x2x128x1xf32>
    %41 = stablehlo.convert %37 : (tensor<4x4x2x128x128xf32>) -> tensor<4x4x2x128x128xbf16>
    %42 = stablehlo.dot_general %5, %41, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<4x128x4x32xbf16>, tensor<4x4x2x128x128xbf16>) -> tensor<4x4x32x2x128xbf16>
    %43 = stablehlo.transpose %42, dims = [0, 4, 1, 3, 2] : (tensor<4x4x32x2x128xbf16>) -> tensor<4x128x4x2x32xbf16>
    %44 = stablehlo.reshape %43 : (tensor<4x128x4x2x32xbf16>) -> tensor<4x128x256xbf16>
    %45 = stablehlo.dot_general %44, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<256x64xbf16>) -> tensor<4x128x64xbf16>
    %46 = stablehlo.convert %45 : (tensor<4x128x64xbf16>) -> tensor<4x128x64xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4x128x64xf32>
    %48 = stablehlo.multiply %47, %46 : tensor<4x128x64xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x128x64xf32>
    %50 = stablehlo.multiply %49, %48 : tensor<4x128x64xf32>
    %51 = stablehlo.convert %50 : (tensor<4x128x64xf32>) -> tensor<4x128x64xbf16>
    %52 = stablehlo.dot_general %51, %44, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<4x128x256xbf16>) -> tensor<64x256xbf16>
    %53 = stablehlo.transpose %52, dims = [1, 0] : (tensor<64x256xbf16>) -> tensor<256x64xbf16>
    %54 = stablehlo.dot_general %51, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<256x64xbf16>) -> tensor<4x128x256xbf16>
    %55 = stablehlo.reshape %54 : (tensor<4x128x256xbf16>) -> tensor<4x128x4x2x32xbf16>
    %56 = stablehlo.transpose %55, dims = [0, 2, 4, 3, 1] : (tensor<4x128x4x2x32xbf16>) -> tensor<4x4x32x2x128xbf16>
    %57 = stablehlo.dot_general %56, %5, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x4x32x2x128xbf16>, tensor<4x128x4x32xbf16>) -> tensor<4x4x2x128x128xbf16>
    %58 = stablehlo.dot_general %56, %41, batching_dims = [0, 1] x [0, 1], contracting_dims = [3, 4] x [2, 3], precision = [DEFAULT, DEFAULT] : (tensor<4x4x32x2x128xbf16>, tensor<4x4x2x128x128xbf16>) -> tensor<4x4x32x128xbf16>
    %59 = stablehlo.transpose %58, dims = [0, 3, 1, 2] : (tensor<4x4x32x128xbf16>) -> tensor<4x128x4x32xbf16>
    %60 = stablehlo.convert %57 : (tensor<4x4x2x128x128xbf16>) -> tensor<4x4x2x128x128xf32>
    %61 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3, 4] : (tensor<4x4x2x128x1xf32>) -> tensor<4x4x2x128x128xf32>
    %62 = stablehlo.multiply %60, %61 : tensor<4x4x2x128x128xf32>
    %63 = stablehlo.multiply %62, %33 : tensor<4x4x2x128x128xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %64 = stablehlo.reduce(%63 init: %cst_7) applies stablehlo.add across dimensions = [4] : (tensor<4x4x2x128x128xf32>, tensor<f32>) -> tensor<4x4x2x128xf32>
    %65 = stablehlo.reshape %64 : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128x1xf32>
    %66 = stablehlo.negate %65 : tensor<4x4x2x128x1xf32>
    %67 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3, 4] : (tensor<4x4x2x128x1xf32>) -> tensor<4x4x2x128x128xf32>
    %68 = stablehlo.divide %60, %67 : tensor<4x4x2x128x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %69 = stablehlo.reduce(%66 init: %cst_8) applies stablehlo.add across dimensions = [4] : (tensor<4x4x2x128x1xf32>, tensor<f32>) -> tensor<4x4x2x128xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2, 3] : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128x128xf32>
    %71 = stablehlo.add %68, %70 : tensor<4x4x2x128x128xf32>
    %72 = stablehlo.multiply %71, %33 : tensor<4x4x2x128x128xf32>
    %73 = call @_where_0(%26#1, %72) : (tensor<4x4x2x128x128xi1>, tensor<4x4x2x128x128xf32>) -> tensor<4x4x2x128x128xf32>
    %cst_9 = stablehlo.constant dense<0.176776692> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<4x4x2x128x128xf32>
    %75 = stablehlo.multiply %73, %74 : tensor<4x4x2x128x128xf32>
    %76 = stablehlo.convert %75 : (tensor<4x4x2x128x128xf32>) -> tensor<4x4x2x128x128xbf16>
    %77 = stablehlo.transpose %76, dims = [0, 1, 4, 3, 2] : (tensor<4x4x2x128x128xbf16>) -> tensor<4x4x128x128x2xbf16>
    %78 = stablehlo.dot_general %77, %3, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x4x128x128x2xbf16>, tensor<4x128x4x32xbf16>) -> tensor<4x4x128x2x32xbf16>
    %79 = stablehlo.transpose %78, dims = [0, 2, 1, 3, 4] : (tensor<4x4x128x2x32xbf16>) -> tensor<4x128x4x2x32xbf16>
    %80 = stablehlo.dot_general %77, %1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3, 4] x [1, 3], precision = [DEFAULT, DEFAULT] : (tensor<4x4x128x128x2xbf16>, tensor<4x128x4x2x32xbf16>) -> tensor<4x4x128x32xbf16>
    %81 = stablehlo.transpose %80, dims = [0, 2, 1, 3] : (tensor<4x4x128x32xbf16>) -> tensor<4x128x4x32xbf16>
    %82 = stablehlo.reshape %59 : (tensor<4x128x4x32xbf16>) -> tensor<4x128x128xbf16>
    %83 = stablehlo.dot_general %82, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<4x128x64xbf16>) -> tensor<128x64xbf16>
    %84 = stablehlo.transpose %83, dims = [1, 0] : (tensor<128x64xbf16>) -> tensor<64x128xbf16>
    %85 = stablehlo.dot_general %82, %arg3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<64x128xbf16>) -> tensor<4x128x64xbf16>
    %86 = stablehlo.reshape %81 : (tensor<4x128x4x32xbf16>) -> tensor<4x128x128xbf16>
    %87 = stablehlo.dot_general %86, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<4x128x64xbf16>) -> tensor<128x64xbf16>
    %88 = stablehlo.transpose %87, dims = [1, 0] : (tensor<128x64xbf16>) -> tensor<64x128xbf16>
    %89 = stablehlo.dot_general %86, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<64x128xbf16>) -> tensor<4x128x64xbf16>
    %90 = stablehlo.add %85, %89 : tensor<4x128x64xbf16>
    %91 = stablehlo.reshape %79 : (tensor<4x128x4x2x32xbf16>) -> tensor<4x128x256xbf16>
    %92 = stablehlo.dot_general %91, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<4x128x64xbf16>) -> tensor<256x64xbf16>
    %93 = stablehlo.transpose %92, dims = [1, 0] : (tensor<256x64xbf16>) -> tensor<64x256xbf16>
    %94 = stablehlo.dot_general %91, %arg2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<64x256xbf16>) -> tensor<4x128x64xbf16>
    %95 = stablehlo.add %90, %94 : tensor<4x128x64xbf16>
    return %88, %53, %93, %84, %95 : tensor<64x128xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<4x128x64xbf16>
  }
  func.func private @_where(%arg0: tensor<4x1x1x128x128xi1>, %arg1: tensor<4x4x2x128x128xf32>, %arg2: tensor<f32>) -> (tensor<4x4x2x128x128xf32>, tensor<4x4x2x128x128xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3, 4] : (tensor<4x1x1x128x128xi1>) -> tensor<4x4x2x128x128xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x4x2x128x128xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<4x4x2x128x128xi1>, tensor<4x4x2x128x128xf32>
    return %3, %1 : tensor<4x4x2x128x128xf32>, tensor<4x4x2x128x128xi1>
  }
  func.func private @_where_0(%arg0: tensor<4x4x2x128x128xi1>, %arg1: tensor<4x4x2x128x128xf32>) -> tensor<4x4x2x128x128xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4x2x128x128xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<4x4x2x128x128xi1>, tensor<4x4x2x128x128xf32>
    return %1 : tensor<4x4x2x128x128xf32>
  }
}
