func.func @main(%arg0: tensor<ui16>, %arg1: tensor<5x2xf64>, %arg2: tensor<16x17xui16>, %arg3: tensor<ui16>) -> (tensor<ui16>, tensor<ui16>, tensor<17xui16>, tensor<ui16>) {
  %v1 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1] : (tensor<16x17xui16>) -> tensor<16x17xui16>
  %v2 = stablehlo.constant dense<1> : tensor<ui16>
  %v3 = stablehlo.constant dense<5> : tensor<ui16>
  %v4 = stablehlo.clamp %v2, %arg2, %v3 : (tensor<ui16>, tensor<16x17xui16>, tensor<ui16>) -> tensor<16x17xui16>
  %v5 = stablehlo.add %v4, %v4 : tensor<16x17xui16>
  %v6 = stablehlo.divide %v5, %v5 : tensor<16x17xui16>
  %v7 = stablehlo.reduce(%v4 init: %arg3) applies stablehlo.xor across dimensions = [0, 1] : (tensor<16x17xui16>, tensor<ui16>) -> tensor<ui16>
  %v8 = "stablehlo.reduce_window"(%v5, %arg0) <{window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>, base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 1, 1>, padding = dense<[[2, 2], [1, 2]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<ui16>, %y: tensor<ui16>):
    %z = stablehlo.maximum %x, %y : tensor<ui16>
    stablehlo.return %z : tensor<ui16>
  }) : (tensor<16x17xui16>, tensor<ui16>) -> tensor<17x20xui16>
  %v9 = stablehlo.concatenate %v1, %v4, dim = 0 : (tensor<16x17xui16>, tensor<16x17xui16>) -> tensor<32x17xui16>
  %v10 = stablehlo.constant dense<1> : tensor<ui16>
  %v11 = stablehlo.reduce(%v5 init: %v10) applies stablehlo.multiply across dimensions = [0] : (tensor<16x17xui16>, tensor<ui16>) -> tensor<17xui16>
  func.return %v7, %v7, %v11, %v7 : tensor<ui16>, tensor<ui16>, tensor<17xui16>, tensor<ui16>
}
