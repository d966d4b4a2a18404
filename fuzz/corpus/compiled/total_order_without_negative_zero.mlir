// A type whose only NaN has no sign, and whose zero has none: what is negated stays equal, fused or not.
module {
  func.func @main() -> (tensor<4xi1>, tensor<4xi1>) {
    %0 = stablehlo.constant dense<[0.0, 0x80, 0.5, -0.5]> : tensor<4xf8E4M3B11FNUZ>
    %1 = stablehlo.negate %0 : tensor<4xf8E4M3B11FNUZ>
    %2 = stablehlo.compare GT, %0, %1, TOTALORDER : (tensor<4xf8E4M3B11FNUZ>, tensor<4xf8E4M3B11FNUZ>) -> tensor<4xi1>
    %3 = stablehlo.compare EQ, %0, %1, TOTALORDER : (tensor<4xf8E4M3B11FNUZ>, tensor<4xf8E4M3B11FNUZ>) -> tensor<4xi1>
    return %2, %3 : tensor<4xi1>, tensor<4xi1>
  }
}
