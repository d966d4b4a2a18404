//! Structured attributes that say which dimensions play which part in an op.

use crate::ir::{Attr, ElementType, Keyword, Real};

/// `#stablehlo.dot`: dimensions of `dot_general`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DotDims {
    /// Batching dimensions of the left operand.
    pub lhs_batching: Vec<i64>,
    /// Batching dimensions of the right operand.
    pub rhs_batching: Vec<i64>,
    /// Contracting dimensions of the left operand.
    pub lhs_contracting: Vec<i64>,
    /// Contracting dimensions of the right operand.
    pub rhs_contracting: Vec<i64>,
}

/// `#chlo.ragged_dot`: dimensions of `ragged_dot`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RaggedDotDims {
    /// The dense part.
    pub dot: DotDims,
    /// Ragged dimensions of the left operand.
    pub lhs_ragged: Vec<i64>,
    /// Group dimensions of the right operand.
    pub rhs_group: Vec<i64>,
}

/// `#stablehlo.gather`: dimensions of `gather`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GatherDims {
    /// Result dimensions that offset into a slice.
    pub offset_dims: Vec<i64>,
    /// Operand dimensions dropped from a slice.
    pub collapsed_slice_dims: Vec<i64>,
    /// Operand batching dimensions.
    pub operand_batching_dims: Vec<i64>,
    /// Start-index batching dimensions.
    pub start_indices_batching_dims: Vec<i64>,
    /// Operand dimension each index component addresses.
    pub start_index_map: Vec<i64>,
    /// Dimension of the start indices that holds the index vector.
    pub index_vector_dim: i64,
}

/// `#stablehlo.scatter`: dimensions of `scatter`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScatterDims {
    /// Update dimensions that are window dimensions.
    pub update_window_dims: Vec<i64>,
    /// Input dimensions absent from the update window.
    pub inserted_window_dims: Vec<i64>,
    /// Input batching dimensions.
    pub input_batching_dims: Vec<i64>,
    /// Scatter-index batching dimensions.
    pub scatter_indices_batching_dims: Vec<i64>,
    /// Input dimension each index component addresses.
    pub scatter_dims_to_operand_dims: Vec<i64>,
    /// Dimension of the scatter indices that holds the index vector.
    pub index_vector_dim: i64,
}

/// `#stablehlo.conv`: dimensions of `convolution`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConvDims {
    /// Batch dimension of the input.
    pub input_batch: i64,
    /// Feature dimension of the input.
    pub input_feature: i64,
    /// Spatial dimensions of the input.
    pub input_spatial: Vec<i64>,
    /// Input-feature dimension of the kernel.
    pub kernel_input_feature: i64,
    /// Output-feature dimension of the kernel.
    pub kernel_output_feature: i64,
    /// Spatial dimensions of the kernel.
    pub kernel_spatial: Vec<i64>,
    /// Batch dimension of the output.
    pub output_batch: i64,
    /// Feature dimension of the output.
    pub output_feature: i64,
    /// Spatial dimensions of the output.
    pub output_spatial: Vec<i64>,
}

/// `#stablehlo.dot_algorithm`: how a dot may be computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DotAlgorithm {
    /// Precision the left operand is rounded to.
    pub lhs_precision_type: ElementType,
    /// Precision the right operand is rounded to.
    pub rhs_precision_type: ElementType,
    /// Accumulator type.
    pub accumulation_type: ElementType,
    /// Components the left operand is split into.
    pub lhs_component_count: i64,
    /// Components the right operand is split into.
    pub rhs_component_count: i64,
    /// Number of primitive dots.
    pub num_primitive_operations: i64,
    /// Whether accumulation may be imprecise.
    pub allow_imprecise_accumulation: bool,
}

/// `#stablehlo.channel_handle`: identity of a communication channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelHandle {
    /// Channel id.
    pub handle: i64,
    /// Channel kind (spec: `channel_type`).
    pub kind: i64,
}

/// `#stablehlo.output_operand_alias`: a custom call's output that shares a buffer with an operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OutputOperandAlias {
    /// Path into the output tuple.
    pub output_tuple_indices: Vec<i64>,
    /// Operand number.
    pub operand_index: i64,
    /// Path into the operand tuple.
    pub operand_tuple_indices: Vec<i64>,
}

/// `#stablehlo.result_accuracy`: accuracy asked of a transcendental op.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResultAccuracy {
    /// Absolute tolerance.
    pub atol: Real,
    /// Relative tolerance.
    pub rtol: Real,
    /// Tolerance in units in the last place.
    pub ulps: i64,
    /// Mode: one of the `ResultAccuracyMode` keywords.
    pub mode: Keyword,
}

/// `#stablehlo.replica_group_mesh_axes`: replica groups given by axes of a mesh.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaGroupMeshAxes {
    /// The mesh: a symbol or an inline `#stablehlo.mesh`.
    pub mesh: Attr,
    /// Axes the groups run along, each an `#stablehlo.axis_ref`.
    pub axes: Vec<AxisRef>,
}

/// `#stablehlo.axis_ref`: a mesh axis or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AxisRef {
    /// Axis name.
    pub name: String,
    /// `(pre_size, size)` when only a part of the axis is meant.
    pub sub_axis: Option<(i64, i64)>,
}

/// `#stablehlo.mesh`: a mesh written in place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InlineMesh {
    /// Axis names and sizes.
    pub axes: Vec<(String, i64)>,
    /// Device order, when it is not the natural one (a dense attribute).
    pub device_ids: Option<Attr>,
}
