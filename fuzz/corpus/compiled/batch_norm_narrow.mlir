// Normalization of numbers with few digits: how it rounds inside is left open.
module {
  func.func @main(%arg0: tensor<4xbf16>) -> tensor<9x4xbf16> {
    %cst = stablehlo.constant dense<2.500000e+2> : tensor<9x4xbf16>
    %output, %mean, %var = "stablehlo.batch_norm_training"(%cst, %arg0, %arg0) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<9x4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> (tensor<9x4xbf16>, tensor<4xbf16>, tensor<4xbf16>)
    return %output : tensor<9x4xbf16>
  }
}
