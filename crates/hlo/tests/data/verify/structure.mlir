func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.add"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.transpose"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.transpose"(%x) <{permutation = 0 : i64}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4294967296x4294967296xf32>) {
  return
}

// -----

func.func @main(%x: tensor<4611686018427387904xf32>) {
  return
}

// -----

func.func @main(%x: tensor<0x4294967296x4294967296xf32>) {
  return
}

// -----

func.func @main(%x: tensor<4xf32, #stablehlo.bounds<5>>) {
  return
}

// -----

func.func @main(%x: tensor<?x?xf32, #stablehlo.bounds<5>>) {
  return
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.add"(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = stablehlo.tanh %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.tanh %x : tensor<4xf32>
}
