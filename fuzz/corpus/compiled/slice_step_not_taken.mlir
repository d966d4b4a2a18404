// A step of the largest i64 that is not taken: strides overflowed.
module {
  func.func @main(%arg0: tensor<2x3xf32>) -> tensor<1x2xf32> {
    %0 = stablehlo.slice %arg0 [0:1:9223372036854775807, 0:3:2] : (tensor<2x3xf32>) -> tensor<1x2xf32>
    %1 = stablehlo.add %0, %0 : tensor<1x2xf32>
    return %1 : tensor<1x2xf32>
  }
}
