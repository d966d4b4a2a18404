// A feed-forward layer with a residual connection, sharded over four devices: the batch over "data", the hidden dimension over "model".
// The second matmul sums over the sharded hidden dimension, so the compiler adds an all-reduce along "model".
module @ffn attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func public @main(
      %x: tensor<8192x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
      %up: tensor<4096x16384xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
      %down: tensor<16384x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>})
      -> (tensor<8192x4096xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
    %hidden = stablehlo.dot_general %x, %up, contracting_dims = [1] x [0]
        : (tensor<8192x4096xbf16>, tensor<4096x16384xbf16>) -> tensor<8192x16384xbf16>
    %active = stablehlo.tanh %hidden : tensor<8192x16384xbf16>
    %out = stablehlo.dot_general %active, %down, contracting_dims = [1] x [0]
        : (tensor<8192x16384xbf16>, tensor<16384x4096xbf16>) -> tensor<8192x4096xbf16>
    %sum = stablehlo.add %out, %x : tensor<8192x4096xbf16>
    return %sum : tensor<8192x4096xbf16>
  }
}
