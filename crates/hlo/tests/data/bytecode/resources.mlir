module {
  func.func @f() -> (tensor<4xf32>, tensor<3xi8>) {
    %cst = stablehlo.constant dense_resource<big> : tensor<4xf32>
    %c = stablehlo.constant dense_resource<small> : tensor<3xi8>
    return %cst, %c : tensor<4xf32>, tensor<3xi8>
  }
}

{-#
  dialect_resources: {
    builtin: {
      big: "0x040000000000803F000000400000404000008040",
      small: "0x08000000010203"
    }
  }
#-}
