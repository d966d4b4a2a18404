// A composite named after an op, with that op's types and another decomposition: the op, in both engines, as on XLA.
module {
  func.func private @f0(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = chlo.cosh %arg0 : tensor<2xf32> -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.composite "chlo.erf" %arg0 {decomposition = @f0, version = 1 : i32} : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
