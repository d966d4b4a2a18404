//! Attributes of HLO instructions.

use crate::dimensions::{
    ConvolutionDimensionNumbers, DotDimensionNumbers, GatherDimensionNumbers, PaddingDimension,
    ScatterDimensionNumbers, SliceDimension, WindowDimension,
};
use crate::replica_groups::ReplicaGroups;
use crate::shape::Shape;

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
