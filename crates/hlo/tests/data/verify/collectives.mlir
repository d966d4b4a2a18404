func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_reduce"(%a0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_reduce"(%a0) <{replica_groups = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_reduce"(%a0) <{replica_groups = dense<[[0, 1], [2, 4]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<5xf32> {
  %r = "stablehlo.all_reduce"(%a0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_reduce"(%a0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xi32>) -> tensor<4xf32> {
  %r = "stablehlo.all_reduce"(%a0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xi32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<8xf32> {
  %r = "stablehlo.all_gather"(%a0) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<12xf32> {
  %r = "stablehlo.all_gather"(%a0) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<12xf32>
  return %r : tensor<12xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<8xf32> {
  %r = "stablehlo.all_gather"(%a0) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, -1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_to_all"(%a0) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 3 : i64, replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_to_all"(%a0) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_to_all"(%a0) <{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<3xf32> {
  %r = "stablehlo.reduce_scatter"(%a0) <{scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

func.func @main(%a0: tensor<5xf32>) -> tensor<5xf32> {
  %r = "stablehlo.reduce_scatter"(%a0) <{scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<5xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<2xf32> {
  %r = "stablehlo.reduce_scatter"(%a0) <{scatter_dimension = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.collective_permute"(%a0) <{source_target_pairs = dense<[[0, 1], [0, 2]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.collective_permute"(%a0) <{source_target_pairs = dense<[[0, 1], [2, 1]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.collective_permute"(%a0) <{source_target_pairs = dense<[[0, -1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.collective_permute"(%a0) <{source_target_pairs = dense<[[0, 1, 2]]> : tensor<1x3xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.collective_broadcast"(%a0) <{replica_groups = dense<[[0, 0]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a0: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.collective_broadcast"(%a0) <{replica_groups = dense<[[0, -1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func @main(%a: tensor<2xf32>) -> !stablehlo.token {
  %r = "stablehlo.send"(%a, %a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<2xf32>, tensor<2xf32>) -> !stablehlo.token
  return %r : !stablehlo.token
}

// -----

func.func @main(%a: tensor<2xf32>, %t: !stablehlo.token) -> !stablehlo.token {
  %r = "stablehlo.send"(%a, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>}> : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  return %r : !stablehlo.token
}

// -----

func.func @main(%t: !stablehlo.token) -> tensor<2xf32> {
  %r = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (!stablehlo.token) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @main(%t: !stablehlo.token) -> tensor<2xf32> {
  %r = "stablehlo.infeed"(%t) : (!stablehlo.token) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

func.func @main(%a: tensor<2xf32>) -> !stablehlo.token {
  %r = "stablehlo.outfeed"(%a) : (tensor<2xf32>) -> !stablehlo.token
  return %r : !stablehlo.token
}
