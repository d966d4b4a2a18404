module @jit_loss attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<64x1024xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg1: tensor<8x128x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}, %arg2: tensor<8x128xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<f32> {jax.result_info = "result[0]", sdy.sharding = #sdy.sharding<@mesh, []>}, tensor<64x1024xbf16> {jax.result_info = "result[1][0]", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<8x128x64xbf16> {jax.result_info = "result[1][1]", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x128x64xbf16>, tensor<64x1024xbf16>) -> tensor<8x128x1024xbf16>
    %1 = stablehlo.convert %0 : (tensor<8x128x1024xbf16>) -> tensor<8x128x1024xf32>
    %2 = stablehlo.slice %1 [0:8, 0:127, 0:1024] : (tensor<8x128x1024xf32>) -> tensor<8x127x1024xf32>
    %3 = stablehlo.slice %arg2 [0:8, 1:128] : (tensor<8x128xi32>) -> tensor<8x127xi32>
    %4 = call @_one_hot(%3) : (tensor<8x127xi32>) -> tensor<8x127x1024xf32>
    %5 = stablehlo.multiply %2, %4 : tensor<8x127x1024xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%5 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<8x127x1024xf32>, tensor<f32>) -> tensor<8x127xf32>
    %c = stablehlo.constant dense<3> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8x127xi32>
    %8 = stablehlo.compare GT, %3, %7, SIGNED : (tensor<8x127xi32>, tensor<8x127xi32>) -> tensor<8x127xi1>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %9 = stablehlo.reduce(%2 init: %cst_0) applies stablehlo.maximum across dimensions = [2] : (tensor<8x127x1024xf32>, tensor<f32>) -> tensor<8x127xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x127xf32>
    %11 = stablehlo.maximum %10, %9 : tensor<8x127xf32>
    %12 = stablehlo.is_finite %11 : (tensor<8x127xf32>) -> tensor<8x127xi1>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x127xf32>
    %14 = stablehlo.select %12, %11, %13 : tensor<8x127xi1>, tensor<8x127xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<8x127xf32>) -> tensor<8x127x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<8x127x1xf32>) -> tensor<8x127x1024xf32>
    %17 = stablehlo.subtract %2, %16 : tensor<8x127x1024xf32>
    %18 = stablehlo.exponential %17 : tensor<8x127x1024xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.reduce(%18 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<8x127x1024xf32>, tensor<f32>) -> tensor<8x127xf32>
    %20 = stablehlo.abs %19 : tensor<8x127xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8x127xf32>
    %22 = stablehlo.compare GE, %19, %21, FLOAT : (tensor<8x127xf32>, tensor<8x127xf32>) -> tensor<8x127xi1>
    %23 = stablehlo.log %20 : tensor<8x127xf32>
    %24 = stablehlo.add %23, %14 : tensor<8x127xf32>
    %25 = stablehlo.subtract %24, %6 : tensor<8x127xf32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %26 = call @_where(%8, %25, %c_5) : (tensor<8x127xi1>, tensor<8x127xf32>, tensor<i32>) -> tensor<8x127xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %27 = stablehlo.reduce(%26 init: %cst_6) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x127xf32>, tensor<f32>) -> tensor<f32>
    %cst_7 = stablehlo.constant dense<1.016000e+03> : tensor<f32>
    %28 = stablehlo.divide %27, %cst_7 : tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_9 = stablehlo.constant dense<1.016000e+03> : tensor<f32>
    %29 = stablehlo.divide %cst_8, %cst_9 : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [] : (tensor<f32>) -> tensor<8x127xf32>
    %31 = call @_where_0(%8, %30) : (tensor<8x127xi1>, tensor<8x127xf32>) -> tensor<8x127xf32>
    %32 = stablehlo.negate %31 : tensor<8x127xf32>
    %33 = stablehlo.divide %31, %20 : tensor<8x127xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %34 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<8x127xf32>
    %35 = stablehlo.select %22, %34, %33 : tensor<8x127xi1>, tensor<8x127xf32>
    %36 = stablehlo.select %22, %33, %34 : tensor<8x127xi1>, tensor<8x127xf32>
    %37 = stablehlo.negate %35 : tensor<8x127xf32>
    %38 = stablehlo.add %36, %37 : tensor<8x127xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1] : (tensor<8x127xf32>) -> tensor<8x127x1024xf32>
    %40 = stablehlo.multiply %39, %18 : tensor<8x127x1024xf32>
    %41 = stablehlo.broadcast_in_dim %32, dims = [0, 1] : (tensor<8x127xf32>) -> tensor<8x127x1024xf32>
    %42 = stablehlo.multiply %41, %4 : tensor<8x127x1024xf32>
    %43 = stablehlo.add %40, %42 : tensor<8x127x1024xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %44 = stablehlo.pad %43, %cst_11, low = [0, 0, 0], high = [0, 1, 0], interior = [0, 0, 0] : (tensor<8x127x1024xf32>, tensor<f32>) -> tensor<8x128x1024xf32>
    %45 = stablehlo.convert %44 : (tensor<8x128x1024xf32>) -> tensor<8x128x1024xbf16>
    %46 = stablehlo.dot_general %45, %arg1, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<8x128x1024xbf16>, tensor<8x128x64xbf16>) -> tensor<1024x64xbf16>
    %47 = stablehlo.transpose %46, dims = [1, 0] : (tensor<1024x64xbf16>) -> tensor<64x1024xbf16>
    %48 = stablehlo.dot_general %45, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x128x1024xbf16>, tensor<64x1024xbf16>) -> tensor<8x128x64xbf16>
    return %28, %47, %48 : tensor<f32>, tensor<64x1024xbf16>, tensor<8x128x64xbf16>
  }
  func.func private @_one_hot(%arg0: tensor<8x127xi32>) -> tensor<8x127x1024xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<8x127xi32>) -> tensor<8x127x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x1024xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<8x127x1xi32>) -> tensor<8x127x1024xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x1024xi32>) -> tensor<8x127x1024xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<8x127x1024xi32>, tensor<8x127x1024xi32>) -> tensor<8x127x1024xi1>
    %5 = stablehlo.convert %4 : (tensor<8x127x1024xi1>) -> tensor<8x127x1024xf32>
    return %5 : tensor<8x127x1024xf32>
  }
  func.func private @_where(%arg0: tensor<8x127xi1>, %arg1: tensor<8x127xf32>, %arg2: tensor<i32>) -> tensor<8x127xf32> {
    %0 = stablehlo.convert %arg2 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x127xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<8x127xi1>, tensor<8x127xf32>
    return %2 : tensor<8x127xf32>
  }
  func.func private @_where_0(%arg0: tensor<8x127xi1>, %arg1: tensor<8x127xf32>) -> tensor<8x127xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x127xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<8x127xi1>, tensor<8x127xf32>
    return %1 : tensor<8x127xf32>
  }
}
