module @jit_loss attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64x128xbf16> {mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg1: tensor<256x64xbf16> {mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg2: tensor<64x256xbf16> {mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg3: tensor<64x128xbf16> {mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, %arg4: tensor<4x128x64xbf16> {mhlo.sharding = "{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}"}) -> (tensor<64x128xbf16> {jax.result_info = "result[0]['k']", mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, tensor<256x64xbf16> {jax.result_info = "result[0]['o']", mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, tensor<64x256xbf16> {jax.result_info = "result[0]['q']", mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, tensor<64x128xbf16> {jax.result_info = "result[0]['v']", mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}, tensor<4x128x64xbf16> {jax.result_info = "result[1]", mhlo.sharding = "{devices=[2,1,1,4]<=[8] last_tile_dim_replicate}"}) {
    %0 = stablehlo.dot_general %arg4, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<64x256xbf16>) -> tensor<4x128x256xbf16>
    %1 = stablehlo.reshape %0 : (tensor<4x128x256xbf16>) -> tensor<4x128x4x2x32xbf16>
    %2 = stablehlo.dot_general %arg4, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<64x128xbf16>) -> tensor<4x128x128xbf16>
    %3 = stablehlo.reshape %2 : (tensor<4x128x128xbf16>) -> tensor<4x128x4x32xbf16>
    %4 = stablehlo.dot_general %arg4, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<64x128xbf16>) -> tensor<4x128x128xbf16>
    %5 = stablehlo.reshape %4 : (tensor<4x128x128xbf16>) -> tensor<4x128x4x32xbf16>
    %6 = stablehlo.custom_call @Sharding(%1) {backend_config = "", mhlo.sharding = "{devices=[2,1,4,1,1]<=[8]}"} : (tensor<4x128x4x2x32xbf16>) -> tensor<4x128x4x2x32xbf16>
    %7 = stablehlo.custom_call @SPMDFullToShardShape(%6) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<4x128x4x2x32xbf16>) -> tensor<2x128x1x2x32xbf16>
    %8 = stablehlo.custom_call @Sharding(%3) {backend_config = "", mhlo.sharding = "{devices=[2,1,4,1]<=[8]}"} : (tensor<4x128x4x32xbf16>) -> tensor<4x128x4x32xbf16>
    %9 = stablehlo.custom_call @SPMDFullToShardShape(%8) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<4x128x4x32xbf16>) -> tensor<2x128x1x32xbf16>
    %10 = stablehlo.custom_call @Sharding(%5) {backend_config = "", mhlo.sharding = "{devices=[2,1,4,1]<=[8]}"} : (tensor<4x128x4x32xbf16>) -> tensor<4x128x4x32xbf16>
    %11 = stablehlo.custom_call @SPMDFullToShardShape(%10) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<4x128x4x32xbf16>) -> tensor<2x128x1x32xbf16>
    %12 = stablehlo.transpose %7, dims = [0, 2, 3, 1, 4] : (tensor<2x128x1x2x32xbf16>) -> tensor<2x1x2x128x32xbf16>
    %13 = stablehlo.reshape %12 : (tensor<2x1x2x128x32xbf16>) -> tensor<2x2x128x32xbf16>
    %14 = stablehlo.transpose %9, dims = [0, 2, 1, 3] : (tensor<2x128x1x32xbf16>) -> tensor<2x1x128x32xbf16>
    %15 = stablehlo.transpose %11, dims = [0, 2, 1, 3] : (tensor<2x128x1x32xbf16>) -> tensor<2x1x128x32xbf16>
    %16:2 = stablehlo.composite "tpubridge.flash_attention" %13, %14, %15 {composite_attributes = {causal = true, scale = 0.176776692 : f32}, decomposition = @tpubridge.flash_attention.found.0} : (tensor<2x2x128x32xbf16>, tensor<2x1x128x32xbf16>, tensor<2x1x128x32xbf16>) -> (tensor<2x2x128x32xbf16>, tensor<2x2x1x128xf32>)
    %17 = stablehlo.reshape %16#0 : (tensor<2x2x128x32xbf16>) -> tensor<2x1x2x128x32xbf16>
    %18 = stablehlo.transpose %17, dims = [0, 1, 4, 2, 3] : (tensor<2x1x2x128x32xbf16>) -> tensor<2x1x32x2x128xbf16>
    %19 = stablehlo.reshape %16#0 : (tensor<2x2x128x32xbf16>) -> tensor<2x1x2x128x32xbf16>
    %20 = stablehlo.reshape %16#1 : (tensor<2x2x1x128xf32>) -> tensor<2x1x2x128xf32>
    %21 = stablehlo.custom_call @Sharding(%18) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<2x1x32x2x128xbf16>) -> tensor<2x1x32x2x128xbf16>
    %22 = stablehlo.custom_call @SPMDShardToFullShape(%21) {backend_config = "", mhlo.sharding = "{devices=[2,4,1,1,1]<=[8]}"} : (tensor<2x1x32x2x128xbf16>) -> tensor<4x4x32x2x128xbf16>
    %23 = stablehlo.custom_call @Sharding(%19) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<2x1x2x128x32xbf16>) -> tensor<2x1x2x128x32xbf16>
    %24 = stablehlo.custom_call @SPMDShardToFullShape(%23) {backend_config = "", mhlo.sharding = "{devices=[2,4,1,1,1]<=[8]}"} : (tensor<2x1x2x128x32xbf16>) -> tensor<4x4x2x128x32xbf16>
    %25 = stablehlo.custom_call @Sharding(%20) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<2x1x2x128xf32>) -> tensor<2x1x2x128xf32>
    %26 = stablehlo.custom_call @SPMDShardToFullShape(%25) {backend_config = "", mhlo.sharding = "{devices=[2,4,1,1]<=[8]}"} : (tensor<2x1x2x128xf32>) -> tensor<4x4x2x128xf32>
    %27 = stablehlo.transpose %22, dims = [0, 4, 1, 3, 2] : (tensor<4x4x32x2x128xbf16>) -> tensor<4x128x4x2x32xbf16>
    %28 = stablehlo.reshape %27 : (tensor<4x128x4x2x32xbf16>) -> tensor<4x128x256xbf16>
    %29 = stablehlo.dot_general %28, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<256x64xbf16>) -> tensor<4x128x64xbf16>
    %30 = stablehlo.convert %29 : (tensor<4x128x64xbf16>) -> tensor<4x128x64xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<4x128x64xf32>
    %31 = stablehlo.multiply %cst, %30 : tensor<4x128x64xf32>
    %32 = stablehlo.convert %31 : (tensor<4x128x64xf32>) -> tensor<4x128x64xbf16>
    %33 = stablehlo.dot_general %32, %28, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<4x128x256xbf16>) -> tensor<64x256xbf16>
    %34 = stablehlo.transpose %33, dims = [1, 0] : (tensor<64x256xbf16>) -> tensor<256x64xbf16>
    %35 = stablehlo.dot_general %32, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<256x64xbf16>) -> tensor<4x128x256xbf16>
    %36 = stablehlo.reshape %35 : (tensor<4x128x256xbf16>) -> tensor<4x128x4x2x32xbf16>
    %37 = stablehlo.transpose %36, dims = [0, 2, 4, 3, 1] : (tensor<4x128x4x2x32xbf16>) -> tensor<4x4x32x2x128xbf16>
    %38 = stablehlo.custom_call @Sharding(%1) {backend_config = "", mhlo.sharding = "{devices=[2,1,4,1,1]<=[8]}"} : (tensor<4x128x4x2x32xbf16>) -> tensor<4x128x4x2x32xbf16>
    %39 = stablehlo.custom_call @SPMDFullToShardShape(%38) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<4x128x4x2x32xbf16>) -> tensor<2x128x1x2x32xbf16>
    %40 = stablehlo.custom_call @Sharding(%3) {backend_config = "", mhlo.sharding = "{devices=[2,1,4,1]<=[8]}"} : (tensor<4x128x4x32xbf16>) -> tensor<4x128x4x32xbf16>
    %41 = stablehlo.custom_call @SPMDFullToShardShape(%40) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<4x128x4x32xbf16>) -> tensor<2x128x1x32xbf16>
    %42 = stablehlo.custom_call @Sharding(%5) {backend_config = "", mhlo.sharding = "{devices=[2,1,4,1]<=[8]}"} : (tensor<4x128x4x32xbf16>) -> tensor<4x128x4x32xbf16>
    %43 = stablehlo.custom_call @SPMDFullToShardShape(%42) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<4x128x4x32xbf16>) -> tensor<2x128x1x32xbf16>
    %44 = stablehlo.custom_call @Sharding(%37) {backend_config = "", mhlo.sharding = "{devices=[2,4,1,1,1]<=[8]}"} : (tensor<4x4x32x2x128xbf16>) -> tensor<4x4x32x2x128xbf16>
    %45 = stablehlo.custom_call @SPMDFullToShardShape(%44) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<4x4x32x2x128xbf16>) -> tensor<2x1x32x2x128xbf16>
    %46 = stablehlo.custom_call @Sharding(%24) {backend_config = "", mhlo.sharding = "{devices=[2,4,1,1,1]<=[8]}"} : (tensor<4x4x2x128x32xbf16>) -> tensor<4x4x2x128x32xbf16>
    %47 = stablehlo.custom_call @SPMDFullToShardShape(%46) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<4x4x2x128x32xbf16>) -> tensor<2x1x2x128x32xbf16>
    %48 = stablehlo.custom_call @Sharding(%26) {backend_config = "", mhlo.sharding = "{devices=[2,4,1,1]<=[8]}"} : (tensor<4x4x2x128xf32>) -> tensor<4x4x2x128xf32>
    %49 = stablehlo.custom_call @SPMDFullToShardShape(%48) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<4x4x2x128xf32>) -> tensor<2x1x2x128xf32>
    %50 = stablehlo.transpose %39, dims = [0, 2, 3, 1, 4] : (tensor<2x128x1x2x32xbf16>) -> tensor<2x1x2x128x32xbf16>
    %51 = stablehlo.reshape %50 : (tensor<2x1x2x128x32xbf16>) -> tensor<2x2x128x32xbf16>
    %52 = stablehlo.transpose %41, dims = [0, 2, 1, 3] : (tensor<2x128x1x32xbf16>) -> tensor<2x1x128x32xbf16>
    %53 = stablehlo.transpose %43, dims = [0, 2, 1, 3] : (tensor<2x128x1x32xbf16>) -> tensor<2x1x128x32xbf16>
    %54 = stablehlo.reshape %47 : (tensor<2x1x2x128x32xbf16>) -> tensor<2x2x128x32xbf16>
    %55 = stablehlo.reshape %49 : (tensor<2x1x2x128xf32>) -> tensor<2x2x1x128xf32>
    %56 = stablehlo.transpose %45, dims = [0, 1, 3, 4, 2] : (tensor<2x1x32x2x128xbf16>) -> tensor<2x1x2x128x32xbf16>
    %57 = stablehlo.reshape %56 : (tensor<2x1x2x128x32xbf16>) -> tensor<2x2x128x32xbf16>
    %58:3 = stablehlo.composite "tpubridge.flash_attention_backward" %51, %52, %53, %54, %55, %57 {composite_attributes = {causal = true, scale = 0.176776692 : f32}, decomposition = @tpubridge.flash_attention_backward.found.1} : (tensor<2x2x128x32xbf16>, tensor<2x1x128x32xbf16>, tensor<2x1x128x32xbf16>, tensor<2x2x128x32xbf16>, tensor<2x2x1x128xf32>, tensor<2x2x128x32xbf16>) -> (tensor<2x2x128x32xbf16>, tensor<2x1x128x32xbf16>, tensor<2x1x128x32xbf16>)
    %59 = stablehlo.transpose %58#2, dims = [0, 1, 3, 2] : (tensor<2x1x128x32xbf16>) -> tensor<2x1x32x128xbf16>
    %60 = stablehlo.reshape %58#0 : (tensor<2x2x128x32xbf16>) -> tensor<2x1x2x128x32xbf16>
    %61 = stablehlo.transpose %60, dims = [0, 1, 3, 2, 4] : (tensor<2x1x2x128x32xbf16>) -> tensor<2x1x128x2x32xbf16>
    %62 = stablehlo.custom_call @Sharding(%59) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<2x1x32x128xbf16>) -> tensor<2x1x32x128xbf16>
    %63 = stablehlo.custom_call @SPMDShardToFullShape(%62) {backend_config = "", mhlo.sharding = "{devices=[2,4,1,1]<=[8]}"} : (tensor<2x1x32x128xbf16>) -> tensor<4x4x32x128xbf16>
    %64 = stablehlo.custom_call @Sharding(%61) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<2x1x128x2x32xbf16>) -> tensor<2x1x128x2x32xbf16>
    %65 = stablehlo.custom_call @SPMDShardToFullShape(%64) {backend_config = "", mhlo.sharding = "{devices=[2,4,1,1,1]<=[8]}"} : (tensor<2x1x128x2x32xbf16>) -> tensor<4x4x128x2x32xbf16>
    %66 = stablehlo.custom_call @Sharding(%58#1) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<2x1x128x32xbf16>) -> tensor<2x1x128x32xbf16>
    %67 = stablehlo.custom_call @SPMDShardToFullShape(%66) {backend_config = "", mhlo.sharding = "{devices=[2,4,1,1]<=[8]}"} : (tensor<2x1x128x32xbf16>) -> tensor<4x4x128x32xbf16>
    %68 = stablehlo.transpose %63, dims = [0, 3, 1, 2] : (tensor<4x4x32x128xbf16>) -> tensor<4x128x4x32xbf16>
    %69 = stablehlo.transpose %65, dims = [0, 2, 1, 3, 4] : (tensor<4x4x128x2x32xbf16>) -> tensor<4x128x4x2x32xbf16>
    %70 = stablehlo.transpose %67, dims = [0, 2, 1, 3] : (tensor<4x4x128x32xbf16>) -> tensor<4x128x4x32xbf16>
    %71 = stablehlo.reshape %68 : (tensor<4x128x4x32xbf16>) -> tensor<4x128x128xbf16>
    %72 = stablehlo.dot_general %71, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<4x128x64xbf16>) -> tensor<128x64xbf16>
    %73 = stablehlo.transpose %72, dims = [1, 0] : (tensor<128x64xbf16>) -> tensor<64x128xbf16>
    %74 = stablehlo.dot_general %71, %arg3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<64x128xbf16>) -> tensor<4x128x64xbf16>
    %75 = stablehlo.reshape %70 : (tensor<4x128x4x32xbf16>) -> tensor<4x128x128xbf16>
    %76 = stablehlo.dot_general %75, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<4x128x64xbf16>) -> tensor<128x64xbf16>
    %77 = stablehlo.transpose %76, dims = [1, 0] : (tensor<128x64xbf16>) -> tensor<64x128xbf16>
    %78 = stablehlo.dot_general %75, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<64x128xbf16>) -> tensor<4x128x64xbf16>
    %79 = stablehlo.add %74, %78 : tensor<4x128x64xbf16>
    %80 = stablehlo.reshape %69 : (tensor<4x128x4x2x32xbf16>) -> tensor<4x128x256xbf16>
    %81 = stablehlo.dot_general %80, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<4x128x64xbf16>) -> tensor<256x64xbf16>
    %82 = stablehlo.transpose %81, dims = [1, 0] : (tensor<256x64xbf16>) -> tensor<64x256xbf16>
    %83 = stablehlo.dot_general %80, %arg2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<64x256xbf16>) -> tensor<4x128x64xbf16>
    %84 = stablehlo.add %79, %83 : tensor<4x128x64xbf16>
    return %77, %34, %82, %73, %84 : tensor<64x128xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<4x128x64xbf16>
  }
