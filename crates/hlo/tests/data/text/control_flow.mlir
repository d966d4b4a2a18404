func.func @main(%arg0: tensor<i32>, %arg1: tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>) {
  %c = stablehlo.constant dense<10> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %arg0, %x = %arg1) : tensor<i32>, tensor<4xf32> attributes {note = "loop"}
  cond {
    %1 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = func.call @body(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %2, %1 : tensor<i32>, tensor<4xf32>
  }
  %p = stablehlo.compare EQ, %0#0, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %3 = "stablehlo.if"(%p) ({
    stablehlo.return %0#1 : tensor<4xf32>
  }, {
    %4 = stablehlo.negate %0#1 : tensor<4xf32>
    stablehlo.return %4 : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %n = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %5:2 = stablehlo.reduce(%3 init: %n), (%3 init: %n) across dimensions = [0] : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%d: tensor<f32>, %e: tensor<f32>) {
    %6 = stablehlo.maximum %a, %b : tensor<f32>
    %7 = stablehlo.minimum %d, %e : tensor<f32>
    stablehlo.return %6, %7 : tensor<f32>, tensor<f32>
  }
  return %0#0, %3 : tensor<i32>, tensor<4xf32>
}
func.func private @body(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
