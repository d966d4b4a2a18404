//! StableHLO programs the tests compile.

pub(crate) const ADD: &str = r#"
module @add {
  func.func @main(%a: tensor<8x128xf32>, %b: tensor<8x128xf32>) -> tensor<8x128xf32> {
    %0 = stablehlo.add %a, %b : tensor<8x128xf32>
    return %0 : tensor<8x128xf32>
  }
}
"#;

pub(crate) const MATMUL: &str = r#"
module @matmul {
  func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> (tensor<2x2xf32>, tensor<2x3xf32>) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    return %0, %a : tensor<2x2xf32>, tensor<2x3xf32>
  }
}
"#;

/// Its only argument may be reused for the result.
pub(crate) const DONATING: &str = r#"
module @donating {
  func.func @main(%a: tensor<1024xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1024xf32> {
    %0 = stablehlo.add %a, %a : tensor<1024xf32>
    return %0 : tensor<1024xf32>
  }
}
"#;

/// A matmul split over four devices, with the sum over the split dimension left to the partitioner.
pub(crate) const SHARDED: &str = r#"
module @sharded attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%a: tensor<512x1024xbf16> {mhlo.sharding = "{devices=[1,4]<=[4]}"},
                  %b: tensor<1024x512xbf16> {mhlo.sharding = "{devices=[4,1]<=[4]}"})
      -> (tensor<512x512xbf16> {mhlo.sharding = "{replicated}"}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
       : (tensor<512x1024xbf16>, tensor<1024x512xbf16>) -> tensor<512x512xbf16>
    return %0 : tensor<512x512xbf16>
  }
}
"#;

/// The sum of a vector that is split over four devices.
pub(crate) const SHARDED_SUM: &str = r#"
module @sharded_sum attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%a: tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4]}"})
      -> (tensor<f32> {mhlo.sharding = "{replicated}"}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0]
       : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
"#;
