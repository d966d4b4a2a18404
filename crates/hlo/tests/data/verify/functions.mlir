// finding: @main: func.call: there is no function @other [func.call]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = call @other(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: func.call: result 0 must be tensor<5xf32>, is tensor<4xf32> [func.call]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = call @other(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func private @other(%x: tensor<5xf32>) -> tensor<5xf32> {
  return %x : tensor<5xf32>
}

// -----

// finding: @main: func.return: returns (tensor<4xf32>), the signature says (tensor<5xf32>)
func.func @main(%x: tensor<4xf32>) -> tensor<5xf32> {
  return %x : tensor<4xf32>
}

// -----

// finding: @main: func.func: calls @main, which calls it in turn
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @b: func.func: calls @main, which calls it in turn
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = call @b(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func private @b(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: func.func: a function without a body must be private
func.func @main()

// -----

// finding: @main: stablehlo.composite: "bad" is not a namespaced op name such as "space.op" [composite C1]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.composite "bad" %x {decomposition = @d} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func private @d(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.composite: there is no function @d [composite C2]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.composite "good.one" %x {decomposition = @d} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.custom_call: API version 4 takes a dictionary as backend_config [custom_call I4]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.custom_call @f(%x) {api_version = 4 : i32, backend_config = "text"} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.custom_call: layout of operand 0 is no permutation of 2 dimensions [custom_call layouts]
func.func @main(%x: tensor<4x2xf32>) -> tensor<4xf32> {
  %r = stablehlo.custom_call @f(%x) {operand_layouts = [dense<[0, 2]> : tensor<2xindex>], result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<4x2xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
