// finding: @main: func.func: argument 0: dim 0 is dynamic and has no bound
// finding: @main: func.func: result 0: dim 0 is dynamic and has no bound
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// finding: none
func.func @main(%x: tensor<?xf32, #stablehlo.bounds<8>>) -> tensor<?xf32, #stablehlo.bounds<8>> {
  return %x : tensor<?xf32, #stablehlo.bounds<8>>
}

// -----

// finding: @main: stablehlo.collective_permute: source_target_pairs holds 4, there are 4 processes [collective_permute C4]
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r = "stablehlo.collective_permute"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 4]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// finding: none
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r = "stablehlo.collective_permute"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 3]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.all_reduce: replica_groups holds 4, there are 4 processes [all_reduce C2]
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// finding: @main: func.func: argument 0: mhlo.layout_mode "{5,7}" is no permutation of 2 dimensions
func.func @main(%x: tensor<8x8xf32> {mhlo.layout_mode = "{5,7}"}, %y: tensor<8x8xf32> {mhlo.layout_mode = "{0,1}"}) {
  return
}

// -----

// finding: @main: func.func: argument 0: the product of the dimensions overflows 64 bits
func.func @main(%x: tensor<0x4294967296x4294967296xf32>) {
  return
}

// -----

// finding: @main: stablehlo.all_reduce: replica_groups holds 2 of 4 processes [all_reduce C2]
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
