module @jit_loss attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=4]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg1: tensor<256x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %arg2: tensor<64x256xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg3: tensor<64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg4: tensor<4x128x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> (tensor<64x128xbf16> {jax.result_info = "result[0]['k']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<256x64xbf16> {jax.result_info = "result[0]['o']", sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, tensor<64x256xbf16> {jax.result_info = "result[0]['q']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<64x128xbf16> {jax.result_info = "result[0]['v']", sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, tensor<4x128x64xbf16> {jax.result_info = "result[1]", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) {
    %0 = stablehlo.dot_general %arg4, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<64x256xbf16>) -> tensor<4x128x256xbf16>
    %1 = stablehlo.reshape %0 : (tensor<4x128x256xbf16>) -> tensor<4x128x4x2x32xbf16>
    %2 = stablehlo.dot_general %arg4, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<64x128xbf16>) -> tensor<4x128x128xbf16>
    %3 = stablehlo.reshape %2 : (tensor<4x128x128xbf16>) -> tensor<4x128x4x32xbf16>
    %4 = stablehlo.dot_general %arg4, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<64x128xbf16>) -> tensor<4x128x128xbf16>
    %5 = stablehlo.reshape %4 : (tensor<4x128x128xbf16>) -> tensor<4x128x4x32xbf16>
    %6:3 = sdy.manual_computation(%1, %3, %5) in_shardings=[<@mesh, [{"data"}, {}, {"model"}, {}, {}]>, <@mesh, [{"data"}, {}, {"model"}, {}]>, <@mesh, [{"data"}, {}, {"model"}, {}]>] out_shardings=[<@mesh, [{"data"}, {"model"}, {}, {}, {}]>, <@mesh, [{"data"}, {"model"}, {}, {}, {}]>, <@mesh, [{"data"}, {"model"}, {}, {}]>] manual_axes={"data", "model"} (%arg5: tensor<2x128x1x2x32xbf16>, %arg6: tensor<2x128x1x32xbf16>, %arg7: tensor<2x128x1x32xbf16>) {
      %36 = stablehlo.transpose %arg5, dims = [0, 2, 3, 1, 4] : (tensor<2x128x1x2x32xbf16>) -> tensor<2x1x2x128x32xbf16>
      %37 = stablehlo.reshape %36 : (tensor<2x1x2x128x32xbf16>) -> tensor<2x2x128x32xbf16>
      %38 = stablehlo.transpose %arg6, dims = [0, 2, 1, 3] : (tensor<2x128x1x32xbf16>) -> tensor<2x1x128x32xbf16>
      %39 = stablehlo.transpose %arg7, dims = [0, 2, 1, 3] : (tensor<2x128x1x32xbf16>) -> tensor<2x1x128x32xbf16>
      %40:2 = stablehlo.composite "tpubridge.flash_attention" %37, %38, %39 {composite_attributes = {causal = true, scale = 0.176776692 : f32}, decomposition = @tpubridge.flash_attention.found.0} : (tensor<2x2x128x32xbf16>, tensor<2x1x128x32xbf16>, tensor<2x1x128x32xbf16>) -> (tensor<2x2x128x32xbf16>, tensor<2x2x1x128xf32>)
      %41 = stablehlo.reshape %40#0 : (tensor<2x2x128x32xbf16>) -> tensor<2x1x2x128x32xbf16>
      %42 = stablehlo.transpose %41, dims = [0, 1, 4, 2, 3] : (tensor<2x1x2x128x32xbf16>) -> tensor<2x1x32x2x128xbf16>
      %43 = stablehlo.reshape %40#0 : (tensor<2x2x128x32xbf16>) -> tensor<2x1x2x128x32xbf16>
      %44 = stablehlo.reshape %40#1 : (tensor<2x2x1x128xf32>) -> tensor<2x1x2x128xf32>
      sdy.return %42, %43, %44 : tensor<2x1x32x2x128xbf16>, tensor<2x1x2x128x32xbf16>, tensor<2x1x2x128xf32>
    } : (tensor<4x128x4x2x32xbf16>, tensor<4x128x4x32xbf16>, tensor<4x128x4x32xbf16>) -> (tensor<4x4x32x2x128xbf16>, tensor<4x4x2x128x32xbf16>, tensor<4x4x2x128xf32>)
    %7 = stablehlo.transpose %6#0, dims = [0, 4, 1, 3, 2] : (tensor<4x4x32x2x128xbf16>) -> tensor<4x128x4x2x32xbf16>
    %8 = stablehlo.reshape %7 : (tensor<4x128x4x2x32xbf16>) -> tensor<4x128x256xbf16>
    %9 = stablehlo.dot_general %8, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<256x64xbf16>) -> tensor<4x128x64xbf16>
    %10 = stablehlo.convert %9 : (tensor<4x128x64xbf16>) -> tensor<4x128x64xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<4x128x64xf32>
    %11 = stablehlo.multiply %cst, %10 : tensor<4x128x64xf32>
    %12 = stablehlo.convert %11 : (tensor<4x128x64xf32>) -> tensor<4x128x64xbf16>
    %13 = stablehlo.dot_general %12, %8, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<4x128x256xbf16>) -> tensor<64x256xbf16>
    %14 = stablehlo.transpose %13, dims = [1, 0] : (tensor<64x256xbf16>) -> tensor<256x64xbf16>
    %15 = stablehlo.dot_general %12, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xbf16>, tensor<256x64xbf16>) -> tensor<4x128x256xbf16>
    %16 = stablehlo.reshape %15 : (tensor<4x128x256xbf16>) -> tensor<4x128x4x2x32xbf16>
    %17 = stablehlo.transpose %16, dims = [0, 2, 4, 3, 1] : (tensor<4x128x4x2x32xbf16>) -> tensor<4x4x32x2x128xbf16>
    %18:3 = sdy.manual_computation(%1, %3, %5, %17, %6#1, %6#2) in_shardings=[<@mesh, [{"data"}, {}, {"model"}, {}, {}]>, <@mesh, [{"data"}, {}, {"model"}, {}]>, <@mesh, [{"data"}, {}, {"model"}, {}]>, <@mesh, [{"data"}, {"model"}, {}, {}, {}]>, <@mesh, [{"data"}, {"model"}, {}, {}, {}]>, <@mesh, [{"data"}, {"model"}, {}, {}]>] out_shardings=[<@mesh, [{"data"}, {"model"}, {}, {}]>, <@mesh, [{"data"}, {"model"}, {}, {}, {}]>, <@mesh, [{"data"}, {"model"}, {}, {}]>] manual_axes={"data", "model"} (%arg5: tensor<2x128x1x2x32xbf16>, %arg6: tensor<2x128x1x32xbf16>, %arg7: tensor<2x128x1x32xbf16>, %arg8: tensor<2x1x32x2x128xbf16>, %arg9: tensor<2x1x2x128x32xbf16>, %arg10: tensor<2x1x2x128xf32>) {
      %36 = stablehlo.transpose %arg5, dims = [0, 2, 3, 1, 4] : (tensor<2x128x1x2x32xbf16>) -> tensor<2x1x2x128x32xbf16>
      %37 = stablehlo.reshape %36 : (tensor<2x1x2x128x32xbf16>) -> tensor<2x2x128x32xbf16>
      %38 = stablehlo.transpose %arg6, dims = [0, 2, 1, 3] : (tensor<2x128x1x32xbf16>) -> tensor<2x1x128x32xbf16>
      %39 = stablehlo.transpose %arg7, dims = [0, 2, 1, 3] : (tensor<2x128x1x32xbf16>) -> tensor<2x1x128x32xbf16>
      %40 = stablehlo.reshape %arg9 : (tensor<2x1x2x128x32xbf16>) -> tensor<2x2x128x32xbf16>
      %41 = stablehlo.reshape %arg10 : (tensor<2x1x2x128xf32>) -> tensor<2x2x1x128xf32>
      %42 = stablehlo.transpose %arg8, dims = [0, 1, 3, 4, 2] : (tensor<2x1x32x2x128xbf16>) -> tensor<2x1x2x128x32xbf16>
      %43 = stablehlo.reshape %42 : (tensor<2x1x2x128x32xbf16>) -> tensor<2x2x128x32xbf16>
      %44:3 = stablehlo.composite "tpubridge.flash_attention_backward" %37, %38, %39, %40, %41, %43 {composite_attributes = {causal = true, scale = 0.176776692 : f32}, decomposition = @tpubridge.flash_attention_backward.found.1} : (tensor<2x2x128x32xbf16>, tensor<2x1x128x32xbf16>, tensor<2x1x128x32xbf16>, tensor<2x2x128x32xbf16>, tensor<2x2x1x128xf32>, tensor<2x2x128x32xbf16>) -> (tensor<2x2x128x32xbf16>, tensor<2x1x128x32xbf16>, tensor<2x1x128x32xbf16>)
      %45 = stablehlo.transpose %44#2, dims = [0, 1, 3, 2] : (tensor<2x1x128x32xbf16>) -> tensor<2x1x32x128xbf16>
      %46 = stablehlo.reshape %44#0 : (tensor<2x2x128x32xbf16>) -> tensor<2x1x2x128x32xbf16>
      %47 = stablehlo.transpose %46, dims = [0, 1, 3, 2, 4] : (tensor<2x1x2x128x32xbf16>) -> tensor<2x1x128x2x32xbf16>
      sdy.return %45, %47, %44#1 : tensor<2x1x32x128xbf16>, tensor<2x1x128x2x32xbf16>, tensor<2x1x128x32xbf16>
    } : (tensor<4x128x4x2x32xbf16>, tensor<4x128x4x32xbf16>, tensor<4x128x4x32xbf16>, tensor<4x4x32x2x128xbf16>, tensor<4x4x2x128x32xbf16>, tensor<4x4x2x128xf32>) -> (tensor<4x4x32x128xbf16>, tensor<4x4x128x2x32xbf16>, tensor<4x4x128x32xbf16>)
    %19 = stablehlo.transpose %18#0, dims = [0, 3, 1, 2] : (tensor<4x4x32x128xbf16>) -> tensor<4x128x4x32xbf16>
    %20 = stablehlo.transpose %18#1, dims = [0, 2, 1, 3, 4] : (tensor<4x4x128x2x32xbf16>) -> tensor<4x128x4x2x32xbf16>
    %21 = stablehlo.transpose %18#2, dims = [0, 2, 1, 3] : (tensor<4x4x128x32xbf16>) -> tensor<4x128x4x32xbf16>
    %22 = stablehlo.reshape %19 : (tensor<4x128x4x32xbf16>) -> tensor<4x128x128xbf16>
    %23 = stablehlo.dot_general %22, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<4x128x64xbf16>) -> tensor<128x64xbf16>
    %24 = stablehlo.transpose %23, dims = [1, 0] : (tensor<128x64xbf16>) -> tensor<64x128xbf16>
    %25 = stablehlo.dot_general %22, %arg3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<64x128xbf16>) -> tensor<4x128x64xbf16>
    %26 = stablehlo.reshape %21 : (tensor<4x128x4x32xbf16>) -> tensor<4x128x128xbf16>
    %27 = stablehlo.dot_general %26, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<4x128x64xbf16>) -> tensor<128x64xbf16>
    %28 = stablehlo.transpose %27, dims = [1, 0] : (tensor<128x64xbf16>) -> tensor<64x128xbf16>
    %29 = stablehlo.dot_general %26, %arg0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xbf16>, tensor<64x128xbf16>) -> tensor<4x128x64xbf16>
    %30 = stablehlo.add %25, %29 : tensor<4x128x64xbf16>
    %31 = stablehlo.reshape %20 : (tensor<4x128x4x2x32xbf16>) -> tensor<4x128x256xbf16>
    %32 = stablehlo.dot_general %31, %arg4, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<4x128x64xbf16>) -> tensor<256x64xbf16>
    %33 = stablehlo.transpose %32, dims = [1, 0] : (tensor<256x64xbf16>) -> tensor<64x256xbf16>
    %34 = stablehlo.dot_general %31, %arg2, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x256xbf16>, tensor<64x256xbf16>) -> tensor<4x128x64xbf16>
    %35 = stablehlo.add %30, %34 : tensor<4x128x64xbf16>
    return %28, %14, %33, %24, %35 : tensor<64x128xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>, tensor<64x128xbf16>, tensor<4x128x64xbf16>
  }
