module @jit_loss attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg1: tensor<256x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %arg2: tensor<64x256xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg3: tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg4: tensor<4x128x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", "model"}, {}]>}) -> (tensor<64x128xbf16> {jax.result_info = "result[0]['k']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<256x64xbf16> {jax.result_info = "result[0]['o']", sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, tensor<64x256xbf16> {jax.result_info = "result[0]['q']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<64x128xbf16> {jax.result_info = "result[0]['v']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<4x128x64xbf16> {jax.result_info = "result[1]", sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", "model"}, {}]>}) {
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
    %cst_0 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %18:2 = call @_where(%17, %10, %cst_0) : (tensor<128x128xi1>, tensor<4x4x2x128x128xf32>, tensor<f32>) -> (tensor<4x4x2x128x128xf32>, tensor<4x4x2x128x128xi1>)
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %19 = stablehlo.reduce(%18#0 init: %cst_1) applies stablehlo.maximum across dimensions = [4] : (tensor<4x4x2x128x128xf32>, tensor<f32>) -> tensor<4x4x2x128xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x4x2x128xf32>
    %21 = stablehlo.maximum %20, %19 : tensor<4x4x2x128xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2, 3] : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128x1xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2, 3, 4] : (tensor<4x4x2x128x1xf32>) -> tensor<4x4x2x128x128xf32>
    %24 = stablehlo.subtract %18#0, %23 : tensor<4x4x2x128x128xf32>
    %25 = stablehlo.exponential %24 : tensor<4x4x2x128x128xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.reduce(%25 init: %cst_3) applies stablehlo.add across dimensions = [4] : (tensor<4x4x2x128x128xf32>, tensor<f32>) -> tensor<4x4x2x128xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128x1xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2, 3, 4] : (tensor<4x4x2x128x1xf32>) -> tensor<4x4x2x128x128xf32>
    %29 = stablehlo.divide %25, %28 : tensor<4x4x2x128x128xf32>
    %30 = stablehlo.multiply %27, %27 : tensor<4x4x2x128x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x4x2x128x1xf32>
    %32 = stablehlo.divide %31, %30 : tensor<4x4x2x128x1xf32>
    %33 = stablehlo.convert %29 : (tensor<4x4x2x128x128xf32>) -> tensor<4x4x2x128x128xbf16>
    %34 = stablehlo.dot_general %5, %33, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<4x128x4x32xbf16>, tensor<4x4x2x128x128xbf16>) -> tensor<4x4x32x2x128xbf16>
    %35 = stablehlo.transpose %34, dims = [0, 4, 1, 3, 2] : (tensor<4x4x32x2x128xbf16>) -> tensor<4x128x4x2x32xbf16>
    %36 = stablehlo.reshape %35 : (tensor<4x128x4x2x32xbf16>) -> tensor<4x128x256xbf16>
    %37 = stablehlo.dot_general %36, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<256x64xbf16>) -> tensor<4x128x64xbf16>
    %38 = stablehlo.convert %37 : (tensor<4x128x64xbf16>) -> tensor<4x128x64xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4x128x64xf32>
    %40 = stablehlo.multiply %39, %38 : tensor<4x128x64xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x128x64xf32>
    %42 = stablehlo.multiply %41, %40 : tensor<4x128x64xf32>
    %43 = stablehlo.convert %42 : (tensor<4x128x64xf32>) -> tensor<4x128x64xbf16>
    %44 = stablehlo.dot_general %43, %36, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<4x128x256xbf16>) -> tensor<64x256xbf16>
    %45 = stablehlo.transpose %44, dims = [1, 0] : (tensor<64x256xbf16>) -> tensor<256x64xbf16>
    %46 = stablehlo.dot_general %43, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<256x64xbf16>) -> tensor<4x128x256xbf16>
    %47 = stablehlo.reshape %46 : (tensor<4x128x256xbf16>) -> tensor<4x128x4x2x32xbf16>
    %48 = stablehlo.transpose %47, dims = [0, 2, 4, 3, 1] : (tensor<4x128x4x2x32xbf16>) -> tensor<4x4x32x2x128xbf16>
    %49 = stablehlo.dot_general %48, %5, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x4x32x2x128xbf16>, tensor<4x128x4x32xbf16>) -> tensor<4x4x2x128x128xbf16>
    %50 = stablehlo.dot_general %48, %33, batching_dims = [0, 1] x [0, 1], contracting_dims = [3, 4] x [2, 3], precision = [DEFAULT, DEFAULT] : (tensor<4x4x32x2x128xbf16>, tensor<4x4x2x128x128xbf16>) -> tensor<4x4x32x128xbf16>
    %51 = stablehlo.transpose %50, dims = [0, 3, 1, 2] : (tensor<4x4x32x128xbf16>) -> tensor<4x128x4x32xbf16>
    %52 = stablehlo.convert %49 : (tensor<4x4x2x128x128xbf16>) -> tensor<4x4x2x128x128xf32>
    %53 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2, 3, 4] : (tensor<4x4x2x128x1xf32>) -> tensor<4x4x2x128x128xf32>
    %54 = stablehlo.multiply %52, %53 : tensor<4x4x2x128x128xf32>
    %55 = stablehlo.multiply %54, %25 : tensor<4x4x2x128x128xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %56 = stablehlo.reduce(%55 init: %cst_7) applies stablehlo.add across dimensions = [4] : (tensor<4x4x2x128x128xf32>, tensor<f32>) -> tensor<4x4x2x128xf32>
    %57 = stablehlo.reshape %56 : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128x1xf32>
    %58 = stablehlo.negate %57 : tensor<4x4x2x128x1xf32>
    %59 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2, 3, 4] : (tensor<4x4x2x128x1xf32>) -> tensor<4x4x2x128x128xf32>
    %60 = stablehlo.divide %52, %59 : tensor<4x4x2x128x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.reduce(%58 init: %cst_8) applies stablehlo.add across dimensions = [4] : (tensor<4x4x2x128x1xf32>, tensor<f32>) -> tensor<4x4x2x128xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3] : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128x128xf32>
    %63 = stablehlo.add %60, %62 : tensor<4x4x2x128x128xf32>
    %64 = stablehlo.multiply %63, %25 : tensor<4x4x2x128x128xf32>
    %65 = call @_where_0(%18#1, %64) : (tensor<4x4x2x128x128xi1>, tensor<4x4x2x128x128xf32>) -> tensor<4x4x2x128x128xf32>
    %cst_9 = stablehlo.constant dense<0.176776692> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<4x4x2x128x128xf32>
    %67 = stablehlo.multiply %65, %66 : tensor<4x4x2x128x128xf32>
    %68 = stablehlo.convert %67 : (tensor<4x4x2x128x128xf32>) -> tensor<4x4x2x128x128xbf16>
    %69 = stablehlo.transpose %68, dims = [0, 1, 4, 3, 2] : (tensor<4x4x2x128x128xbf16>) -> tensor<4x4x128x128x2xbf16>
    %70 = stablehlo.dot_general %69, %3, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x4x128x128x2xbf16>, tensor<4x128x4x32xbf16>) -> tensor<4x4x128x2x32xbf16>
    %71 = stablehlo.transpose %70, dims = [0, 2, 1, 3, 4] : (tensor<4x4x128x2x32xbf16>) -> tensor<4x128x4x2x32xbf16>
    %72 = stablehlo.dot_general %69, %1, batching_dims = [0, 1] x [0, 2], contracting_dims = [3, 4] x [1, 3], precision = [DEFAULT, DEFAULT] : (tensor<4x4x128x128x2xbf16>, tensor<4x128x4x2x32xbf16>) -> tensor<4x4x128x32xbf16>
    %73 = stablehlo.transpose %72, dims = [0, 2, 1, 3] : (tensor<4x4x128x32xbf16>) -> tensor<4x128x4x32xbf16>
    %74 = stablehlo.reshape %51 : (tensor<4x128x4x32xbf16>) -> tensor<4x128x128xbf16>
    %75 = stablehlo.dot_general %74, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<4x128x64xbf16>) -> tensor<128x64xbf16>
    %76 = stablehlo.transpose %75, dims = [1, 0] : (tensor<128x64xbf16>) -> tensor<64x128xbf16>
    %77 = stablehlo.dot_general %74, %arg3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<64x128xbf16>) -> tensor<4x128x64xbf16>
    %78 = stablehlo.reshape %73 : (tensor<4x128x4x32xbf16>) -> tensor<4x128x128xbf16>
    %79 = stablehlo.dot_general %78, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<4x128x64xbf16>) -> tensor<128x64xbf16>
    %80 = stablehlo.transpose %79, dims = [1, 0] : (tensor<128x64xbf16>) -> tensor<64x128xbf16>
    %81 = stablehlo.dot_general %78, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<64x128xbf16>) -> tensor<4x128x64xbf16>
    %82 = stablehlo.add %77, %81 : tensor<4x128x64xbf16>
    %83 = stablehlo.reshape %71 : (tensor<4x128x4x2x32xbf16>) -> tensor<4x128x256xbf16>
    %84 = stablehlo.dot_general %83, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<4x128x64xbf16>) -> tensor<256x64xbf16>
    %85 = stablehlo.transpose %84, dims = [1, 0] : (tensor<256x64xbf16>) -> tensor<64x256xbf16>
    %86 = stablehlo.dot_general %83, %arg2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<64x256xbf16>) -> tensor<4x128x64xbf16>
    %87 = stablehlo.add %82, %86 : tensor<4x128x64xbf16>
    return %80, %45, %85, %76, %87 : tensor<64x128xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<4x128x64xbf16>
  }
  func.func private @_where(%arg0: tensor<128x128xi1>, %arg1: tensor<4x4x2x128x128xf32>, %arg2: tensor<f32>) -> (tensor<4x4x2x128x128xf32>, tensor<4x4x2x128x128xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [3, 4] : (tensor<128x128xi1>) -> tensor<4x4x2x128x128xi1>
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
