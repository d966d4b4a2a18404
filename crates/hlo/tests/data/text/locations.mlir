#loc1 = loc("x")
module @m {
  func.func @main(%arg0: tensor<f32> loc("x"), %arg1: tensor<f32> loc(#loc1)) -> tensor<f32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<f32> loc(#loc4)
    %v = stablehlo.broadcast %0, sizes = [2] : (tensor<f32>) -> tensor<2xf32> loc("b"("c.py":1:1))
    %1 = stablehlo.reduce(%v init: %0) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32> loc(#loc5)
    return %1 : tensor<f32> loc(unknown)
  } loc(#loc2)
} loc(unknown)
#loc2 = loc("model.py":10:2 to :14)
#loc3 = loc("model.py":11:2 to 12:4)
#loc4 = loc("add"(#loc3))
#loc5 = loc(callsite(fused<"meta">[#loc2, "y"] at #loc4))
