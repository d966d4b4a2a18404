//! Attributes of HLO instructions: dimension numbers, windows, slices and the rarely set rest.

use crate::replica_groups::ReplicaGroups;
use crate::shape::Shape;

/// One dimension of a window (`convolution`, `reduce-window`).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WindowDimension {
    /// Window size.
    #[prost(int64, tag = "1")]
    pub size: i64,
    /// Step between window positions.
    #[prost(int64, tag = "2")]
    pub stride: i64,
    /// Padding before the first element; may be negative.
    #[prost(int64, tag = "3")]
    pub padding_low: i64,
    /// Padding after the last element; may be negative.
    #[prost(int64, tag = "4")]
    pub padding_high: i64,
    /// Spacing of window elements.
    #[prost(int64, tag = "5")]
    pub window_dilation: i64,
    /// Spacing of base elements.
    #[prost(int64, tag = "6")]
    pub base_dilation: i64,
    /// Whether the window is applied in reverse order.
    #[prost(bool, tag = "7")]
    pub window_reversal: bool,
}

/// One dimension of a `slice`: `[start, limit)` by `stride`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SliceDimension {
    /// First index.
    #[prost(int64, tag = "1")]
    pub start: i64,
    /// End of the range, exclusive.
    #[prost(int64, tag = "2")]
    pub limit: i64,
    /// Step.
    #[prost(int64, tag = "3")]
    pub stride: i64,
}

/// One dimension of a `pad`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PaddingDimension {
    /// Padding before the first element.
    #[prost(int64, tag = "1")]
    pub edge_padding_low: i64,
    /// Padding after the last element.
    #[prost(int64, tag = "2")]
    pub edge_padding_high: i64,
    /// Padding between elements.
    #[prost(int64, tag = "3")]
    pub interior_padding: i64,
}

/// Dimension numbers of a `dot`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DotDimensionNumbers {
    /// Contracting dimensions of the left operand.
    #[prost(int64, repeated, tag = "1")]
    pub lhs_contracting_dimensions: Vec<i64>,
    /// Contracting dimensions of the right operand.
    #[prost(int64, repeated, tag = "2")]
    pub rhs_contracting_dimensions: Vec<i64>,
    /// Batch dimensions of the left operand.
    #[prost(int64, repeated, tag = "3")]
    pub lhs_batch_dimensions: Vec<i64>,
    /// Batch dimensions of the right operand.
    #[prost(int64, repeated, tag = "4")]
    pub rhs_batch_dimensions: Vec<i64>,
}

/// Dimension numbers of a `convolution`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConvolutionDimensionNumbers {
    /// Batch dimension of the input.
    #[prost(int64, tag = "7")]
    pub input_batch_dimension: i64,
    /// Feature dimension of the input.
    #[prost(int64, tag = "8")]
    pub input_feature_dimension: i64,
    /// Spatial dimensions of the input.
    #[prost(int64, repeated, tag = "11")]
    pub input_spatial_dimensions: Vec<i64>,
    /// Input feature dimension of the kernel.
    #[prost(int64, tag = "3")]
    pub kernel_input_feature_dimension: i64,
    /// Output feature dimension of the kernel.
    #[prost(int64, tag = "4")]
    pub kernel_output_feature_dimension: i64,
    /// Spatial dimensions of the kernel.
    #[prost(int64, repeated, tag = "6")]
    pub kernel_spatial_dimensions: Vec<i64>,
    /// Batch dimension of the output.
    #[prost(int64, tag = "9")]
    pub output_batch_dimension: i64,
    /// Feature dimension of the output.
    #[prost(int64, tag = "10")]
    pub output_feature_dimension: i64,
    /// Spatial dimensions of the output.
    #[prost(int64, repeated, tag = "12")]
    pub output_spatial_dimensions: Vec<i64>,
}

/// Dimension numbers of a `gather`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GatherDimensionNumbers {
    /// Dimensions of the output that offset into a slice.
    #[prost(int64, repeated, tag = "1")]
    pub offset_dims: Vec<i64>,
    /// Operand dimensions of slice size 1 that are dropped.
    #[prost(int64, repeated, tag = "2")]
    pub collapsed_slice_dims: Vec<i64>,
    /// Operand dimension for each index component.
    #[prost(int64, repeated, tag = "3")]
    pub start_index_map: Vec<i64>,
    /// Dimension of the indices that holds one index vector.
    #[prost(int64, tag = "4")]
    pub index_vector_dim: i64,
    /// Batching dimensions of the operand.
    #[prost(int64, repeated, tag = "5")]
    pub operand_batching_dims: Vec<i64>,
    /// Batching dimensions of the indices.
    #[prost(int64, repeated, tag = "6")]
    pub start_indices_batching_dims: Vec<i64>,
}

/// Dimension numbers of a `scatter`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ScatterDimensionNumbers {
    /// Update dimensions that lie inside the window.
    #[prost(int64, repeated, tag = "1")]
    pub update_window_dims: Vec<i64>,
    /// Operand dimensions of window size 1.
    #[prost(int64, repeated, tag = "2")]
    pub inserted_window_dims: Vec<i64>,
    /// Operand dimension for each index component.
    #[prost(int64, repeated, tag = "3")]
    pub scatter_dims_to_operand_dims: Vec<i64>,
    /// Dimension of the indices that holds one index vector.
    #[prost(int64, tag = "4")]
    pub index_vector_dim: i64,
    /// Batching dimensions of the operand.
    #[prost(int64, repeated, tag = "5")]
    pub input_batching_dims: Vec<i64>,
    /// Batching dimensions of the indices.
    #[prost(int64, repeated, tag = "6")]
    pub scatter_indices_batching_dims: Vec<i64>,
}

/// An output of a fusion or custom call that shares the buffer of an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandAliasing {
    /// Which part of the result.
    pub output_index: Vec<i64>,
    /// Which operand.
    pub operand: i64,
    /// Which part of that operand.
    pub operand_index: Vec<i64>,
}

/// What an instruction carries besides operands and shape. A field keeps its default where the opcode has no such
/// attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attributes {
    /// `parameter`: its number.
    pub parameter_number: Option<u32>,
    /// `get-tuple-element`: the element.
    pub tuple_index: Option<u32>,
    /// `broadcast`, `reduce`, `transpose`, `concatenate`, collectives: the dimensions.
    pub dimensions: Vec<i64>,
    /// `convolution`, `reduce-window`: the window.
    pub window: Vec<WindowDimension>,
    /// `convolution`: dimension numbers.
    pub convolution: Option<ConvolutionDimensionNumbers>,
    /// `convolution`: feature groups; 0 and 1 both mean one group.
    pub feature_group_count: i64,
    /// `convolution`: batch groups; 0 and 1 both mean one group.
    pub batch_group_count: i64,
    /// `dot` and `ragged-dot`: dimension numbers.
    pub dot: Option<DotDimensionNumbers>,
    /// `dot`, `convolution`: precision per operand (0 default, 1 high, 2 highest).
    pub operand_precision: Vec<i32>,
    /// `dot`: the requested algorithm, 0 when unset.
    pub dot_algorithm: i32,
    /// `slice`: ranges.
    pub slice: Vec<SliceDimension>,
    /// `dynamic-slice`: sizes.
    pub dynamic_slice_sizes: Vec<i64>,
    /// `pad`: padding.
    pub padding: Vec<PaddingDimension>,
    /// `gather`: dimension numbers.
    pub gather: Option<GatherDimensionNumbers>,
    /// `gather`: slice sizes.
    pub gather_slice_sizes: Vec<i64>,
    /// `scatter`: dimension numbers.
    pub scatter: Option<ScatterDimensionNumbers>,
    /// `gather`, `scatter`: indices are sorted.
    pub indices_are_sorted: bool,
    /// `scatter`: indices are unique.
    pub unique_indices: bool,
    /// `sort`: is stable.
    pub is_stable: bool,
    /// `reduce-precision`: exponent bits.
    pub exponent_bits: i32,
    /// `reduce-precision`: mantissa bits.
    pub mantissa_bits: i32,
    /// `compare`: `EQ`, `NE`, `GE`, `GT`, `LE` or `LT`.
    pub comparison_direction: String,
    /// `compare`: `FLOAT`, `TOTALORDER`, `SIGNED`, `UNSIGNED` or empty.
    pub comparison_type: String,
    /// Collectives and `send`/`recv`: the channel.
    pub channel_id: Option<i64>,
    /// Collectives: which devices exchange data.
    pub replica_groups: Option<ReplicaGroups>,
    /// Collectives: group members are `replica * partitions + partition`.
    pub use_global_device_ids: bool,
    /// `collective-permute`: pairs of source and target.
    pub source_target_pairs: Vec<(i64, i64)>,
    /// `send`, `recv`: the other side is the host.
    pub is_host_transfer: bool,
    /// `custom-call`: the target.
    pub custom_call_target: String,
    /// `custom-call`: must not be removed.
    pub custom_call_has_side_effect: bool,
    /// `custom-call` with constrained layouts: operand shapes.
    pub operand_shapes_with_layout: Vec<Shape>,
    /// `fusion`, `custom-call`: outputs in operand buffers.
    pub output_operand_aliasing: Vec<OperandAliasing>,
    /// `fusion`: `kLoop`, `kInput`, `kOutput` or `kCustom`.
    pub fusion_kind: String,
    /// `async-start` and followers: the thread, empty for the main one.
    pub async_execution_thread: String,
    /// `copy-start` that prefetches a parameter across programs.
    pub cross_program_prefetch_index: Option<i32>,
    /// `constant`: the undecoded literal message.
    pub literal: Vec<u8>,
    /// The undecoded sharding message.
    pub sharding: Option<Vec<u8>>,
    /// Attributes attached by the framework, by name.
    pub frontend_attributes: Vec<(String, String)>,
}
