// Padding of the smallest i64, whose absolute value is no i64.
module {
  func.func @main(%arg0: tensor<3x0x2xui8>, %arg1: tensor<4x2x4xui8>) -> tensor<3x0x4xui8> {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[-9223372036854775808, 2]], lhs_dilate = [3], rhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x0x2xui8>, tensor<4x2x4xui8>) -> tensor<3x0x4xui8>
    return %0 : tensor<3x0x4xui8>
  }
}
