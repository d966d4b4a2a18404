module {
  func.func private @d(%x: tensor<4096x8xf32>) -> (tensor<8xi8>, tensor<1xi32>) {
    %a = stablehlo.constant dense<0> : tensor<8xi8>
    %b = stablehlo.constant dense<0> : tensor<1xi32>
    return %a, %b : tensor<8xi8>, tensor<1xi32>
  }
  func.func @main(%x: tensor<4096x8xf32>) -> (tensor<8xi8>, tensor<1xi32>) {
    %0:2 = stablehlo.composite "chlo.top_k" %x {decomposition = @d} : (tensor<4096x8xf32>) -> (tensor<8xi8>, tensor<1xi32>)
    return %0#0, %0#1 : tensor<8xi8>, tensor<1xi32>
  }
}
