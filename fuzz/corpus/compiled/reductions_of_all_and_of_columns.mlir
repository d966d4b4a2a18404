func.func @main(%x: tensor<16x17xui16>, %i: tensor<ui16>) -> (tensor<ui16>, tensor<17xui16>) {
  %a = stablehlo.add %x, %x : tensor<16x17xui16>
  %all = stablehlo.reduce(%x init: %i) applies stablehlo.xor across dimensions = [0, 1] : (tensor<16x17xui16>, tensor<ui16>) -> tensor<ui16>
  %columns = stablehlo.reduce(%a init: %i) applies stablehlo.multiply across dimensions = [0] : (tensor<16x17xui16>, tensor<ui16>) -> tensor<17xui16>
  func.return %all, %columns : tensor<ui16>, tensor<17xui16>
}
