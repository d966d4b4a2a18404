// finding: @main: stablehlo.add: 1 operands, 2 expected
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.add"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.transpose: attribute `permutation` is missing
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.transpose"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.transpose: attribute `permutation` must be array<i64: …>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.transpose"(%x) <{permutation = 0 : i64}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: func.func: argument 0: the size of a tensor in bytes overflows 64 bits
func.func @main(%x: tensor<4294967296x4294967296xf32>) {
  return
}

// -----

// finding: @main: func.func: argument 0: the size of a tensor in bytes overflows 64 bits
func.func @main(%x: tensor<4611686018427387904xf32>) {
  return
}

// -----

// finding: none
func.func @main(%x: tensor<0x4294967296x4294967296xf32>) {
  return
}

// -----

// finding: @main: func.func: argument 0: dim 0 is 4 and cannot also have the bound 5 [bounds]
func.func @main(%x: tensor<4xf32, #stablehlo.bounds<5>>) {
  return
}

// -----

// finding: @main: func.func: argument 0: 1 bounds for a tensor of rank 2 [bounds]
func.func @main(%x: tensor<?x?xf32, #stablehlo.bounds<5>>) {
  return
}

// -----

// finding: @main: stablehlo.tanh: the region must end in func.return
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.tanh %x : tensor<4xf32>
}
