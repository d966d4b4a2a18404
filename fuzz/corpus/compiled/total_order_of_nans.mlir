// NaNs of both signs in 8 and 16 bits: the sign of a NaN decides, in both engines.
module {
  func.func @main() -> (tensor<4xi1>, tensor<4xi1>) {
    %0 = stablehlo.constant dense<[0x7E00, 0xFE00, 0.0, -0.0]> : tensor<4xf16>
    %1 = stablehlo.negate %0 : tensor<4xf16>
    %2 = stablehlo.compare GT, %0, %1, TOTALORDER : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xi1>
    %3 = stablehlo.constant dense<[0x7E, 0xFE, 0.0, -0.0]> : tensor<4xf8E5M2>
    %4 = stablehlo.negate %3 : tensor<4xf8E5M2>
    %5 = stablehlo.compare GT, %3, %4, TOTALORDER : (tensor<4xf8E5M2>, tensor<4xf8E5M2>) -> tensor<4xi1>
    return %2, %5 : tensor<4xi1>, tensor<4xi1>
  }
}
