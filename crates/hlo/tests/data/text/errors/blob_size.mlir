func.func @f() {
  %0 = stablehlo.constant dense<"0x00000000"> : tensor<2xi16>
  %1 = stablehlo.constant dense<"0x0000"> : tensor<2xi32>
  return
}
