// A factorization of booleans is refused by the verifier: the interpreter gave integers for them.
module {
  func.func @main(%arg0: tensor<33x2xi1>, %arg1: tensor<ui8>) -> tensor<33x2xi1> {
    %0 = stablehlo.custom_call @Qr(%arg0) {has_side_effect = true} : (tensor<33x2xi1>) -> tensor<33x2xi1>
    %c = stablehlo.constant dense<false> : tensor<30x1xi1>
    %1 = stablehlo.dynamic_update_slice %0, %c, %arg1, %arg1 : (tensor<33x2xi1>, tensor<30x1xi1>, tensor<ui8>, tensor<ui8>) -> tensor<33x2xi1>
    return %1 : tensor<33x2xi1>
  }
}
