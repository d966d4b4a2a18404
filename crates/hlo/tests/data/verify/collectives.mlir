// finding: none
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_reduce"(%a0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.all_reduce: replica_groups holds 1 twice [all_reduce C1]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_reduce"(%a0) <{replica_groups = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.all_reduce: replica_groups holds 4 ids but not 3 [all_reduce C3]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_reduce"(%a0) <{replica_groups = dense<[[0, 1], [2, 4]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.all_reduce: result 0 must be tensor<4xf32>, is tensor<5xf32> [all_reduce C6]
func.func @main(%a0: tensor<4xf32>) -> tensor<5xf32> {
  %r = "stablehlo.all_reduce"(%a0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// -----

// finding: @main: stablehlo.all_reduce: use_global_device_ids is set but the channel id is 0 [all_reduce C4]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_reduce"(%a0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.all_reduce: input 0 has elements i32, which do not promote to f32 [all_reduce C5]
func.func @main(%a0: tensor<4xi32>) -> tensor<4xf32> {
  %r = "stablehlo.all_reduce"(%a0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xi32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.all_gather: all_gather_dim is 1, which is not in [0, 1) [all_gather C1]
func.func @main(%a0: tensor<4xf32>) -> tensor<8xf32> {
  %r = "stablehlo.all_gather"(%a0) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.all_gather: gathered operand dim 0 is 8, result dim 0 is 12 [all_gather C6]
func.func @main(%a0: tensor<4xf32>) -> tensor<12xf32> {
  %r = "stablehlo.all_gather"(%a0) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<12xf32>
  return %r : tensor<12xf32>
}

// -----

// finding: @main: stablehlo.all_gather: replica_groups holds -1 [all_gather C4]
func.func @main(%a0: tensor<4xf32>) -> tensor<8xf32> {
  %r = "stablehlo.all_gather"(%a0) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, -1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// finding: @main: stablehlo.all_to_all: dim 0 of operand 0 is 4, not a multiple of 3 [all_to_all C2]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_to_all"(%a0) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 3 : i64, replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.all_to_all: replica groups hold 4 processes, split_count is 2 [all_to_all C8]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_to_all"(%a0) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.all_to_all: split_dimension is 1, which is not in [0, 1) [all_to_all C1]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_to_all"(%a0) <{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.reduce_scatter: dim 0 is 4 in the operand, not a multiple of 3 [reduce_scatter C8]
func.func @main(%a0: tensor<4xf32>) -> tensor<3xf32> {
  %r = "stablehlo.reduce_scatter"(%a0) <{scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// finding: @main: stablehlo.reduce_scatter: dim 0 is 5, groups have 2 processes [reduce_scatter C1]
func.func @main(%a0: tensor<5xf32>) -> tensor<5xf32> {
  %r = "stablehlo.reduce_scatter"(%a0) <{scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<5xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// -----

// finding: @main: stablehlo.reduce_scatter: scatter_dimension is 1, which is not in [0, 1) [reduce_scatter C2]
func.func @main(%a0: tensor<4xf32>) -> tensor<2xf32> {
  %r = "stablehlo.reduce_scatter"(%a0) <{scatter_dimension = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// finding: @main: stablehlo.collective_permute: 0 is a source twice [collective_permute C2]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.collective_permute"(%a0) <{source_target_pairs = dense<[[0, 1], [0, 2]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.collective_permute: 1 is a target twice [collective_permute C3]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.collective_permute"(%a0) <{source_target_pairs = dense<[[0, 1], [2, 1]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.collective_permute: source_target_pairs holds [0, -1] [collective_permute C4]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.collective_permute"(%a0) <{source_target_pairs = dense<[[0, -1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.collective_permute: source_target_pairs has shape [1, 3], [N, 2] expected [collective_permute C1]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.collective_permute"(%a0) <{source_target_pairs = dense<[[0, 1, 2]]> : tensor<1x3xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.collective_broadcast: 0 appears twice in replica_groups [collective_broadcast C1]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.collective_broadcast"(%a0) <{replica_groups = dense<[[0, 0]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.collective_broadcast: replica_groups holds -1 [collective_broadcast C2]
func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.collective_broadcast"(%a0) <{replica_groups = dense<[[0, -1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// finding: @main: stablehlo.send: the last operand must be a token, is tensor<2xf32> [send I2]
func.func @main(%a: tensor<2xf32>) -> !stablehlo.token {
  %r = "stablehlo.send"(%a, %a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<2xf32>, tensor<2xf32>) -> !stablehlo.token
  return %r : !stablehlo.token
}

// -----

// finding: @main: stablehlo.send: the channel's type is 2, 1 expected [send C5]
func.func @main(%a: tensor<2xf32>, %t: !stablehlo.token) -> !stablehlo.token {
  %r = "stablehlo.send"(%a, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>}> : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  return %r : !stablehlo.token
}

// -----

// finding: @main: stablehlo.recv: the last result must be a token, is tensor<2xf32> [recv O1]
func.func @main(%t: !stablehlo.token) -> tensor<2xf32> {
  %r = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (!stablehlo.token) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// finding: @main: stablehlo.infeed: the last result must be a token, is tensor<2xf32> [infeed C3]
func.func @main(%t: !stablehlo.token) -> tensor<2xf32> {
  %r = "stablehlo.infeed"(%t) : (!stablehlo.token) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// finding: @main: stablehlo.outfeed: the last operand must be a token, is tensor<2xf32> [outfeed I2]
func.func @main(%a: tensor<2xf32>) -> !stablehlo.token {
  %r = "stablehlo.outfeed"(%a) : (tensor<2xf32>) -> !stablehlo.token
  return %r : !stablehlo.token
}
