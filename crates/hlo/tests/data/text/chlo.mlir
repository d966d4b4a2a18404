func.func @main(%arg0: tensor<4x8xf32>, %arg1: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = chlo.erf %arg0 : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = chlo.broadcast_add %0, %arg1 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %2 = chlo.broadcast_compare %0, %1 {comparison_direction = #chlo<comparison_direction LT>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %values, %indices = chlo.top_k(%1, k = 2) : tensor<4x8xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %outputs, %carries = chlo.scan(%arg0) inits (%arg1) dimension=0 {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %4 = stablehlo.add %a, %b : tensor<8xf32>
    stablehlo.return %4, %4 : tensor<8xf32>, tensor<8xf32>
  } : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  return %outputs : tensor<4x8xf32>
}
