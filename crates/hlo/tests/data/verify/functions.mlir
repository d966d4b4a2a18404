func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = call @other(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = call @other(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func private @other(%x: tensor<5xf32>) -> tensor<5xf32> {
  return %x : tensor<5xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<5xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = call @b(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func private @b(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main() {
  return
}
func.func @main() {
  return
}

// -----

func.func @main()

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.composite "bad" %x {decomposition = @d} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func private @d(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.composite "good.one" %x {decomposition = @d} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.custom_call @f(%x) {api_version = 4 : i32, backend_config = "text"} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4x2xf32>) -> tensor<4xf32> {
  %r = stablehlo.custom_call @f(%x) {operand_layouts = [dense<[0, 2]> : tensor<2xindex>], result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<4x2xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
