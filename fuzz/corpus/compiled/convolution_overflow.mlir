func.func @main(%x: tensor<1x1x1x16xf32>, %w: tensor<1x2x16x4xf32>) -> tensor<1x2x1x4xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [274877906943, 1], pad = [[0, 274877906943], [0, 4194303]], rhs_dilate = [1, 4194303]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x1x16xf32>, tensor<1x2x16x4xf32>) -> tensor<1x2x1x4xf32>
  return %0 : tensor<1x2x1x4xf32>
}
