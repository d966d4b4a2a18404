// One step of training: a network with one hidden layer learns the sine of its input, by gradient descent.
module @fit_sine {
  func.func @main(
      %w1: tensor<1x64xf32> {tpubridge.name = "w1", tf.aliasing_output = 0 : i32},
      %b1: tensor<64xf32> {tpubridge.name = "b1", tf.aliasing_output = 1 : i32},
      %w2: tensor<64x1xf32> {tpubridge.name = "w2", tf.aliasing_output = 2 : i32},
      %b2: tensor<1xf32> {tpubridge.name = "b2", tf.aliasing_output = 3 : i32},
      %x: tensor<256x1xf32> {tpubridge.name = "x"})
      -> (tensor<1x64xf32>, tensor<64xf32>, tensor<64x1xf32>, tensor<1xf32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %y = stablehlo.sine %x : tensor<256x1xf32>

    // Forward.
    %xw = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<256x1xf32>, tensor<1x64xf32>) -> tensor<256x64xf32>
    %b1s = stablehlo.broadcast_in_dim %b1, dims = [1] : (tensor<64xf32>) -> tensor<256x64xf32>
    %z = stablehlo.add %xw, %b1s : tensor<256x64xf32>
    %h = stablehlo.tanh %z : tensor<256x64xf32>
    %hw = stablehlo.dot_general %h, %w2, contracting_dims = [1] x [0] : (tensor<256x64xf32>, tensor<64x1xf32>) -> tensor<256x1xf32>
    %b2s = stablehlo.broadcast_in_dim %b2, dims = [1] : (tensor<1xf32>) -> tensor<256x1xf32>
    %p = stablehlo.add %hw, %b2s : tensor<256x1xf32>
    %e = stablehlo.subtract %p, %y : tensor<256x1xf32>
    %e2 = stablehlo.multiply %e, %e : tensor<256x1xf32>
    %sum = stablehlo.reduce(%e2 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<256x1xf32>, tensor<f32>) -> tensor<f32>
    %n = stablehlo.constant dense<256.0> : tensor<f32>
    %loss = stablehlo.divide %sum, %n : tensor<f32>

    // Backward.
    %c = stablehlo.constant dense<0.0078125> : tensor<256x1xf32>
    %dp = stablehlo.multiply %e, %c : tensor<256x1xf32>
    %dw2 = stablehlo.dot_general %h, %dp, contracting_dims = [0] x [0] : (tensor<256x64xf32>, tensor<256x1xf32>) -> tensor<64x1xf32>
    %db2 = stablehlo.reduce(%dp init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<256x1xf32>, tensor<f32>) -> tensor<1xf32>
    %dh = stablehlo.dot_general %dp, %w2, contracting_dims = [1] x [1] : (tensor<256x1xf32>, tensor<64x1xf32>) -> tensor<256x64xf32>
    %h2 = stablehlo.multiply %h, %h : tensor<256x64xf32>
    %ones = stablehlo.constant dense<1.0> : tensor<256x64xf32>
    %slope = stablehlo.subtract %ones, %h2 : tensor<256x64xf32>
    %dz = stablehlo.multiply %dh, %slope : tensor<256x64xf32>
    %dw1 = stablehlo.dot_general %x, %dz, contracting_dims = [0] x [0] : (tensor<256x1xf32>, tensor<256x64xf32>) -> tensor<1x64xf32>
    %db1 = stablehlo.reduce(%dz init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<256x64xf32>, tensor<f32>) -> tensor<64xf32>

    // Descent.
    %rw1 = stablehlo.constant dense<0.05> : tensor<1x64xf32>
    %rb1 = stablehlo.constant dense<0.05> : tensor<64xf32>
    %rw2 = stablehlo.constant dense<0.05> : tensor<64x1xf32>
    %rb2 = stablehlo.constant dense<0.05> : tensor<1xf32>
    %sw1 = stablehlo.multiply %dw1, %rw1 : tensor<1x64xf32>
    %sb1 = stablehlo.multiply %db1, %rb1 : tensor<64xf32>
    %sw2 = stablehlo.multiply %dw2, %rw2 : tensor<64x1xf32>
    %sb2 = stablehlo.multiply %db2, %rb2 : tensor<1xf32>
    %nw1 = stablehlo.subtract %w1, %sw1 : tensor<1x64xf32>
    %nb1 = stablehlo.subtract %b1, %sb1 : tensor<64xf32>
    %nw2 = stablehlo.subtract %w2, %sw2 : tensor<64x1xf32>
    %nb2 = stablehlo.subtract %b2, %sb2 : tensor<1xf32>
    return %nw1, %nb1, %nw2, %nb2, %loss : tensor<1x64xf32>, tensor<64xf32>, tensor<64x1xf32>, tensor<1xf32>, tensor<f32>
  }
}
