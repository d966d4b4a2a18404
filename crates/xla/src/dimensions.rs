//! Dimension numbers, windows, slices and padding of HLO instructions, as `xla_data.proto` has them.

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
