module @jit_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<512x1024xf32> {mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg1: tensor<1024x512xf32> {mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg2: tensor<512x1024xf32> {mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg3: tensor<1024x512xf32> {mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg4: tensor<64x512xf32> {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"}) -> (tensor<512x1024xf32> {jax.result_info = "result[0]['a']", mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, tensor<1024x512xf32> {jax.result_info = "result[0]['b']", mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, tensor<512x1024xf32> {jax.result_info = "result[1]['a']", mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, tensor<1024x512xf32> {jax.result_info = "result[1]['b']", mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}) {
    %0 = stablehlo.dot_general %arg4, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x512xf32>, tensor<512x1024xf32>) -> tensor<64x1024xf32>
    %1 = stablehlo.custom_call @Sharding(%0) {backend_config = "", mhlo.sharding = "{devices=[2,4]<=[8]}"} : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
    %2 = stablehlo.tanh %1 : tensor<64x1024xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x1024xf32>
    %4 = stablehlo.subtract %3, %2 : tensor<64x1024xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<3.276800e+04> : tensor<f32>
    %5 = stablehlo.divide %cst_0, %cst_1 : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<64x512xf32>
    %7 = stablehlo.dot_general %6, %2, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x512xf32>, tensor<64x1024xf32>) -> tensor<512x1024xf32>
    %8 = stablehlo.transpose %7, dims = [1, 0] : (tensor<512x1024xf32>) -> tensor<1024x512xf32>
    %9 = stablehlo.dot_general %6, %arg1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<64x512xf32>, tensor<1024x512xf32>) -> tensor<64x1024xf32>
    %10 = stablehlo.multiply %9, %4 : tensor<64x1024xf32>
    %11 = stablehlo.multiply %10, %2 : tensor<64x1024xf32>
    %12 = stablehlo.add %10, %11 : tensor<64x1024xf32>
    %13 = stablehlo.custom_call @Sharding(%12) {backend_config = "", mhlo.sharding = "{devices=[2,4]<=[8]}"} : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
    %14 = stablehlo.dot_general %13, %arg4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x1024xf32>, tensor<64x512xf32>) -> tensor<1024x512xf32>
    %15 = stablehlo.transpose %14, dims = [1, 0] : (tensor<1024x512xf32>) -> tensor<512x1024xf32>
    %cst_2 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<512x1024xf32>
    %17 = stablehlo.multiply %arg2, %16 : tensor<512x1024xf32>
    %18 = stablehlo.add %17, %15 : tensor<512x1024xf32>
    %cst_3 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1024x512xf32>
    %20 = stablehlo.multiply %arg3, %19 : tensor<1024x512xf32>
    %21 = stablehlo.add %20, %8 : tensor<1024x512xf32>
    %22 = stablehlo.subtract %arg0, %18 : tensor<512x1024xf32>
    %23 = stablehlo.subtract %arg1, %21 : tensor<1024x512xf32>
    return %22, %23, %18, %21 : tensor<512x1024xf32>, tensor<1024x512xf32>, tensor<512x1024xf32>, tensor<1024x512xf32>
  }
}
