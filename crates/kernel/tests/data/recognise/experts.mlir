// The two best of four experts, as JAX writes it: every expert runs on every token, weights are one-hot vectors of `top_k`.
module @jit_mixture {
  func.func public @main(%x: tensor<1x256x128xbf16>, %gate: tensor<128x4xbf16>, %w1: tensor<4x128x256xbf16>, %w3: tensor<4x128x256xbf16>, %w2: tensor<4x256x128xbf16>) -> tensor<1x256x128xbf16> {
    %0 = stablehlo.dot_general %x, %gate, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<128x4xbf16>) -> tensor<1x256x4xbf16>
    %1 = stablehlo.convert %0 : (tensor<1x256x4xbf16>) -> tensor<1x256x4xf32>
    %2 = stablehlo.exponential %1 : tensor<1x256x4xf32>
    %values, %indices = chlo.top_k(%2, k = 2) : tensor<1x256x4xf32> -> (tensor<1x256x2xf32>, tensor<1x256x2xi32>)
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.reduce(%values init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<1x256x2xf32>, tensor<f32>) -> tensor<1x256xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<1x256xf32>) -> tensor<1x256x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<1x256x1xf32>) -> tensor<1x256x2xf32>
    %6 = stablehlo.divide %values, %5 : tensor<1x256x2xf32>
    %7 = stablehlo.convert %6 : (tensor<1x256x2xf32>) -> tensor<1x256x2xbf16>
    %8 = call @_one_hot(%indices) : (tensor<1x256x2xi32>) -> tensor<1x256x2x4xbf16>
    %9 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x256x2xbf16>) -> tensor<1x256x2x1xbf16>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<1x256x2x1xbf16>) -> tensor<1x256x2x4xbf16>
    %11 = stablehlo.multiply %8, %10 : tensor<1x256x2x4xbf16>
    %12 = stablehlo.convert %11 : (tensor<1x256x2x4xbf16>) -> tensor<1x256x2x4xf32>
    %13 = stablehlo.reduce(%12 init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<1x256x2x4xf32>, tensor<f32>) -> tensor<1x256x4xf32>
    %14 = stablehlo.convert %13 : (tensor<1x256x4xf32>) -> tensor<1x256x4xbf16>
    %15 = stablehlo.dot_general %x, %w1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<4x128x256xbf16>) -> tensor<1x256x4x256xbf16>
    %16 = stablehlo.logistic %15 : tensor<1x256x4x256xbf16>
    %one = stablehlo.constant dense<2.000000e+00> : tensor<bf16>
    %17 = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<bf16>) -> tensor<1x256x4x256xbf16>
    %18 = stablehlo.multiply %16, %17 : tensor<1x256x4x256xbf16>
    %19 = stablehlo.dot_general %x, %w3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x256x128xbf16>, tensor<4x128x256xbf16>) -> tensor<1x256x4x256xbf16>
    %20 = stablehlo.multiply %18, %19 : tensor<1x256x4x256xbf16>
    %21 = stablehlo.dot_general %w2, %20, batching_dims = [0] x [2], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x256x128xbf16>, tensor<1x256x4x256xbf16>) -> tensor<4x128x1x256xbf16>
    %22 = stablehlo.dot_general %14, %21, batching_dims = [0, 1] x [2, 3], contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x256x4xbf16>, tensor<4x128x1x256xbf16>) -> tensor<1x256x128xbf16>
    return %22 : tensor<1x256x128xbf16>
  }
  func.func private @_one_hot(%arg0: tensor<1x256x2xi32>) -> tensor<1x256x2x4xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2] : (tensor<1x256x2xi32>) -> tensor<1x256x2x1xi32>
    %1 = stablehlo.iota dim = 3 : tensor<1x1x1x4xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<1x256x2x1xi32>) -> tensor<1x256x2x4xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x4xi32>) -> tensor<1x256x2x4xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<1x256x2x4xi32>, tensor<1x256x2x4xi32>) -> tensor<1x256x2x4xi1>
    %5 = stablehlo.convert %4 : (tensor<1x256x2x4xi1>) -> tensor<1x256x2x4xbf16>
    return %5 : tensor<1x256x2x4xbf16>
  }
}
