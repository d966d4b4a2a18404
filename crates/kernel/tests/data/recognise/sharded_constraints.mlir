module @jit_loss attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg1: tensor<256x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %arg2: tensor<64x256xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg3: tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg4: tensor<4x128x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> (tensor<64x128xbf16> {jax.result_info = "result[0]['k']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<256x64xbf16> {jax.result_info = "result[0]['o']", sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, tensor<64x256xbf16> {jax.result_info = "result[0]['q']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<64x128xbf16> {jax.result_info = "result[0]['v']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<4x128x64xbf16> {jax.result_info = "result[1]", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) {
    %0 = stablehlo.dot_general %arg4, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<64x256xbf16>) -> tensor<4x128x256xbf16>
    %1 = stablehlo.reshape %0 : (tensor<4x128x256xbf16>) -> tensor<4x128x4x2x32xbf16>
    %2 = stablehlo.dot_general %arg4, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<64x128xbf16>) -> tensor<4x128x128xbf16>
    %3 = stablehlo.reshape %2 : (tensor<4x128x128xbf16>) -> tensor<4x128x4x32xbf16>
    %4 = stablehlo.dot_general %arg4, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<64x128xbf16>) -> tensor<4x128x128xbf16>
    %5 = stablehlo.reshape %4 : (tensor<4x128x128xbf16>) -> tensor<4x128x4x32xbf16>
    %6 = sdy.sharding_constraint %1 <@mesh, [{"data"}, {}, {"model"}, {}, {}]> : tensor<4x128x4x2x32xbf16>
    %7 = stablehlo.dot_general %3, %6, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4], precision = [DEFAULT, DEFAULT] : (tensor<4x128x4x32xbf16>, tensor<4x128x4x2x32xbf16>) -> tensor<4x4x128x128x2xbf16>
    %8 = stablehlo.transpose %7, dims = [0, 1, 4, 3, 2] : (tensor<4x4x128x128x2xbf16>) -> tensor<4x4x2x128x128xbf16>
    %9 = stablehlo.convert %8 : (tensor<4x4x2x128x128xbf16>) -> tensor<4x4x2x128x128xf32>
    %cst = stablehlo.constant dense<0.176776692> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4x2x128x128xf32>
    %11 = stablehlo.multiply %9, %10 : tensor<4x4x2x128x128xf32>
    %12 = stablehlo.iota dim = 0 : tensor<128xi32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<128xi32>) -> tensor<128x1xi32>
    %14 = stablehlo.iota dim = 0 : tensor<128xi32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [1] : (tensor<128xi32>) -> tensor<1x128xi32>
    %16 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<128x1xi32>) -> tensor<128x128xi32>
    %17 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<1x128xi32>) -> tensor<128x128xi32>
    %18 = stablehlo.compare GE, %16, %17, SIGNED : (tensor<128x128xi32>, tensor<128x128xi32>) -> tensor<128x128xi1>
    %cst_0 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %19:2 = call @_where(%18, %11, %cst_0) : (tensor<128x128xi1>, tensor<4x4x2x128x128xf32>, tensor<f32>) -> (tensor<4x4x2x128x128xf32>, tensor<4x4x2x128x128xi1>)
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %20 = stablehlo.reduce(%19#0 init: %cst_1) applies stablehlo.maximum across dimensions = [4] : (tensor<4x4x2x128x128xf32>, tensor<f32>) -> tensor<4x4x2x128xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x4x2x128xf32>
    %22 = stablehlo.maximum %21, %20 : tensor<4x4x2x128xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2, 3] : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128x1xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3, 4] : (tensor<4x4x2x128x1xf32>) -> tensor<4x4x2x128x128xf32>
    %25 = stablehlo.subtract %19#0, %24 : tensor<4x4x2x128x128xf32>
    %26 = stablehlo.exponential %25 : tensor<4x4x2x128x128xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %27 = stablehlo.reduce(%26 init: %cst_3) applies stablehlo.add across dimensions = [4] : (tensor<4x4x2x128x128xf32>, tensor<f32>) -> tensor<4x4x2x128xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2, 3] : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128x1xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2, 3, 4] : (tensor<4x4x2x128x1xf32>) -> tensor<4x4x2x128x128xf32>
    %30 = stablehlo.divide %26, %29 : tensor<4x4x2x128x128xf32>
    %31 = stablehlo.multiply %28, %28 : tensor<4x4x2x128x1xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x4x2x128x1xf32>
    %33 = stablehlo.divide %32, %31 : tensor<4x4x2x128x1xf32>
    %34 = stablehlo.convert %30 : (tensor<4x4x2x128x128xf32>) -> tensor<4x4x2x128x128xbf16>
    %35 = sdy.sharding_constraint %34 <@mesh, [{"data"}, {"model"}, {}, {}, {}]> : tensor<4x4x2x128x128xbf16>
    %36 = stablehlo.dot_general %5, %35, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<4x128x4x32xbf16>, tensor<4x4x2x128x128xbf16>) -> tensor<4x4x32x2x128xbf16>
    %37 = stablehlo.transpose %36, dims = [0, 4, 1, 3, 2] : (tensor<4x4x32x2x128xbf16>) -> tensor<4x128x4x2x32xbf16>
    %38 = stablehlo.reshape %37 : (tensor<4x128x4x2x32xbf16>) -> tensor<4x128x256xbf16>
    %39 = stablehlo.dot_general %38, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<256x64xbf16>) -> tensor<4x128x64xbf16>
    %40 = stablehlo.convert %39 : (tensor<4x128x64xbf16>) -> tensor<4x128x64xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4x128x64xf32>
    %42 = stablehlo.multiply %41, %40 : tensor<4x128x64xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x128x64xf32>
    %44 = stablehlo.multiply %43, %42 : tensor<4x128x64xf32>
    %45 = stablehlo.convert %44 : (tensor<4x128x64xf32>) -> tensor<4x128x64xbf16>
    %46 = stablehlo.dot_general %45, %38, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<4x128x256xbf16>) -> tensor<64x256xbf16>
    %47 = stablehlo.transpose %46, dims = [1, 0] : (tensor<64x256xbf16>) -> tensor<256x64xbf16>
    %48 = stablehlo.dot_general %45, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<256x64xbf16>) -> tensor<4x128x256xbf16>
    %49 = stablehlo.reshape %48 : (tensor<4x128x256xbf16>) -> tensor<4x128x4x2x32xbf16>
    %50 = stablehlo.transpose %49, dims = [0, 2, 4, 3, 1] : (tensor<4x128x4x2x32xbf16>) -> tensor<4x4x32x2x128xbf16>
    %51 = stablehlo.dot_general %50, %5, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x4x32x2x128xbf16>, tensor<4x128x4x32xbf16>) -> tensor<4x4x2x128x128xbf16>
    %52 = stablehlo.dot_general %50, %35, batching_dims = [0, 1] x [0, 1], contracting_dims = [3, 4] x [2, 3], precision = [DEFAULT, DEFAULT] : (tensor<4x4x32x2x128xbf16>, tensor<4x4x2x128x128xbf16>) -> tensor<4x4x32x128xbf16>
    %53 = stablehlo.transpose %52, dims = [0, 3, 1, 2] : (tensor<4x4x32x128xbf16>) -> tensor<4x128x4x32xbf16>
    %54 = sdy.sharding_constraint %51 <@mesh, [{"data"}, {"model"}, {}, {}, {}]> : tensor<4x4x2x128x128xbf16>
    %55 = stablehlo.convert %54 : (tensor<4x4x2x128x128xbf16>) -> tensor<4x4x2x128x128xf32>
    %56 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2, 3, 4] : (tensor<4x4x2x128x1xf32>) -> tensor<4x4x2x128x128xf32>
    %57 = stablehlo.multiply %55, %56 : tensor<4x4x2x128x128xf32>
    %58 = stablehlo.multiply %57, %26 : tensor<4x4x2x128x128xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = stablehlo.reduce(%58 init: %cst_7) applies stablehlo.add across dimensions = [4] : (tensor<4x4x2x128x128xf32>, tensor<f32>) -> tensor<4x4x2x128xf32>
    %60 = stablehlo.reshape %59 : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128x1xf32>
    %61 = stablehlo.negate %60 : tensor<4x4x2x128x1xf32>
    %62 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2, 3, 4] : (tensor<4x4x2x128x1xf32>) -> tensor<4x4x2x128x128xf32>
    %63 = stablehlo.divide %55, %62 : tensor<4x4x2x128x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %64 = stablehlo.reduce(%61 init: %cst_8) applies stablehlo.add across dimensions = [4] : (tensor<4x4x2x128x1xf32>, tensor<f32>) -> tensor<4x4x2x128xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2, 3] : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128x128xf32>
    %66 = stablehlo.add %63, %65 : tensor<4x4x2x128x128xf32>
    %67 = stablehlo.multiply %66, %26 : tensor<4x4x2x128x128xf32>
    %68 = call @_where_0(%19#1, %67) : (tensor<4x4x2x128x128xi1>, tensor<4x4x2x128x128xf32>) -> tensor<4x4x2x128x128xf32>
    %cst_9 = stablehlo.constant dense<0.176776692> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<4x4x2x128x128xf32>
    %70 = stablehlo.multiply %68, %69 : tensor<4x4x2x128x128xf32>
    %71 = stablehlo.convert %70 : (tensor<4x4x2x128x128xf32>) -> tensor<4x4x2x128x128xbf16>
    %72 = stablehlo.transpose %71, dims = [0, 1, 4, 3, 2] : (tensor<4x4x2x128x128xbf16>) -> tensor<4x4x128x128x2xbf16>
    %73 = stablehlo.dot_general %72, %3, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x4x128x128x2xbf16>, tensor<4x128x4x32xbf16>) -> tensor<4x4x128x2x32xbf16>
    %74 = stablehlo.transpose %73, dims = [0, 2, 1, 3, 4] : (tensor<4x4x128x2x32xbf16>) -> tensor<4x128x4x2x32xbf16>
    %75 = stablehlo.dot_general %72, %6, batching_dims = [0, 1] x [0, 2], contracting_dims = [3, 4] x [1, 3], precision = [DEFAULT, DEFAULT] : (tensor<4x4x128x128x2xbf16>, tensor<4x128x4x2x32xbf16>) -> tensor<4x4x128x32xbf16>
    %76 = stablehlo.transpose %75, dims = [0, 2, 1, 3] : (tensor<4x4x128x32xbf16>) -> tensor<4x128x4x32xbf16>
    %77 = sdy.sharding_constraint %74 <@mesh, [{"data"}, {}, {"model"}, {}, {}]> : tensor<4x128x4x2x32xbf16>
    %78 = stablehlo.reshape %53 : (tensor<4x128x4x32xbf16>) -> tensor<4x128x128xbf16>
    %79 = stablehlo.dot_general %78, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<4x128x64xbf16>) -> tensor<128x64xbf16>
    %80 = stablehlo.transpose %79, dims = [1, 0] : (tensor<128x64xbf16>) -> tensor<64x128xbf16>
    %81 = stablehlo.dot_general %78, %arg3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<64x128xbf16>) -> tensor<4x128x64xbf16>
    %82 = stablehlo.reshape %76 : (tensor<4x128x4x32xbf16>) -> tensor<4x128x128xbf16>
    %83 = stablehlo.dot_general %82, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<4x128x64xbf16>) -> tensor<128x64xbf16>
    %84 = stablehlo.transpose %83, dims = [1, 0] : (tensor<128x64xbf16>) -> tensor<64x128xbf16>
    %85 = stablehlo.dot_general %82, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<64x128xbf16>) -> tensor<4x128x64xbf16>
    %86 = stablehlo.add %81, %85 : tensor<4x128x64xbf16>
    %87 = stablehlo.reshape %77 : (tensor<4x128x4x2x32xbf16>) -> tensor<4x128x256xbf16>
    %88 = stablehlo.dot_general %87, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<4x128x64xbf16>) -> tensor<256x64xbf16>
    %89 = stablehlo.transpose %88, dims = [1, 0] : (tensor<256x64xbf16>) -> tensor<64x256xbf16>
    %90 = stablehlo.dot_general %87, %arg2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<64x256xbf16>) -> tensor<4x128x64xbf16>
    %91 = stablehlo.add %86, %90 : tensor<4x128x64xbf16>
    return %84, %47, %89, %80, %91 : tensor<64x128xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<4x128x64xbf16>
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
