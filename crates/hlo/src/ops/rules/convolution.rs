//! Convolutions with static or run-time padding.

use crate::ir::dims::ConvDims;
use crate::ir::{Attr, DYNAMIC, TensorType};
use crate::ops::def::{OpView, Violation};

use super::window::{Padding, Window, WindowForm};
use super::{Checked, contraction, dimensions, elements, quantization, require, shapes};

/// Clauses C1 to C34, by number.
pub(crate) type Clauses = [&'static str; 35];

fn conv_dims<'a>(op: &OpView<'a>) -> Result<&'a ConvDims, Violation> {
    match op.attr("dimension_numbers")? {
        Attr::Conv(dims) => Ok(dims),
        _ => Err(Violation::new("", "attribute `dimension_numbers` must be #stablehlo.conv")),
    }
}

/// The result's shape; its element type is that of lhs.
pub(crate) fn infer(op: &OpView<'_>, c: &Clauses, padding: Option<Vec<Padding>>) -> Result<TensorType, Violation> {
    let (lhs, rhs) = (op.tensor(0)?, op.tensor(1)?);
    let dims = conv_dims(op)?;
    let rank = lhs.rank();
    require!(rank >= 2, c[1], "lhs has rank {rank}, at least 2 expected");
    require!(rank == rhs.rank(), c[1], "lhs has rank {rank}, rhs has rank {}", rhs.rank());
    for (count, numbers, name, spatial, others) in [
        (c[12], c[13], "input", &dims.input_spatial, [dims.input_batch, dims.input_feature]),
        (c[17], c[18], "kernel", &dims.kernel_spatial, [dims.kernel_input_feature, dims.kernel_output_feature]),
        (c[19], c[20], "output", &dims.output_spatial, [dims.output_batch, dims.output_feature]),
    ] {
        dimensions::count(count, &format!("{name}_spatial_dimensions"), spatial.len(), rank - 2)?;
        let all: Vec<i64> = spatial.iter().chain(&others).copied().collect();
        dimensions::in_range(numbers, &format!("{name} dimensions"), &all, rank)?;
        dimensions::unique(numbers, &format!("{name} dimensions"), all)?;
    }
    let (features, batches) = (op.int("feature_group_count")?, op.int("batch_group_count")?);
    require!(features > 0, c[21], "feature_group_count is {features}");
    require!(batches > 0, c[22], "batch_group_count is {batches}");
    require!(
        features == 1 || batches == 1,
        c[23],
        "feature_group_count is {features} and batch_group_count is {batches}; one of them must be 1"
    );
    let input_batch = lhs.dims[dims.input_batch as usize];
    let input_feature = lhs.dims[dims.input_feature as usize];
    let kernel_input = rhs.dims[dims.kernel_input_feature as usize];
    let kernel_output = rhs.dims[dims.kernel_output_feature as usize];
    let divides = |clause, name: &str, size: i64, by: i64| {
        require!(size == DYNAMIC || size % by == 0, clause, "{name} is {size}, not a multiple of {by}");
        Ok::<(), Violation>(())
    };
    divides(c[10], "input batch dimension", input_batch, batches)?;
    divides(c[11], "input feature dimension", input_feature, features)?;
    require!(
        input_feature == DYNAMIC || shapes::dims_agree(kernel_input, input_feature / features),
        c[14],
        "kernel input feature dimension is {kernel_input}, input feature dimension is {input_feature} in {features} groups"
    );
    divides(c[15], "kernel output feature dimension", kernel_output, batches)?;
    divides(c[16], "kernel output feature dimension", kernel_output, features)?;
    if let Some(Attr::Array(precision)) = op.attrs.get("precision_config") {
        require!(precision.len() <= 2, c[24], "precision_config has {} elements, 2 expected", precision.len());
    }

    let sizes: Vec<i64> = dims.kernel_spatial.iter().map(|&d| rhs.dims[d as usize]).collect();
    let form = WindowForm {
        base_dilations: Some("lhs_dilation"),
        window_dilations: Some("rhs_dilation"),
        sizes_positive: None,
        strides: [c[2], c[3]],
        base: [c[5], c[6]],
        dilations: [c[7], c[8]],
        padding: c[4],
        result: c[25],
    };
    let window = match padding {
        None => Window::read(op, &sizes, &form)?,
        Some(padding) => Window::with_padding(op, &sizes, &form, padding)?,
    };
    let reversal = op.i64s_or("window_reversal", sizes.len(), 0)?;
    dimensions::count(c[9], "window_reversal", reversal.len(), sizes.len())?;

    let base: Vec<i64> = dims.input_spatial.iter().map(|&d| lhs.dims[d as usize]).collect();
    let base_bounds: Vec<i64> = dims.input_spatial.iter().map(|&d| shapes::bound(lhs, d as usize)).collect();
    let (mut shape, mut limits) = (vec![DYNAMIC; rank], vec![DYNAMIC; rank]);
    for ((&dim, size), bound) in
        dims.output_spatial.iter().zip(window.positions(&base)?).zip(window.positions(&base_bounds)?)
    {
        (shape[dim as usize], limits[dim as usize]) = (size, bound);
    }
    let batch = dims.output_batch as usize;
    shape[batch] = if input_batch == DYNAMIC { DYNAMIC } else { input_batch / batches };
    let bound = shapes::bound(lhs, dims.input_batch as usize);
    limits[batch] = if bound == DYNAMIC { DYNAMIC } else { bound / batches };
    shape[dims.output_feature as usize] = kernel_output;
    limits[dims.output_feature as usize] = shapes::bound(rhs, dims.kernel_output_feature as usize);
    Ok(shapes::bounded(shape, limits, lhs.element.clone()))
}

/// The result has the inferred shape, and element types go together.
pub(crate) fn check(op: &OpView<'_>, c: &Clauses, inferred: &TensorType) -> Checked {
    let (lhs, rhs, result) = (op.tensor(0)?, op.tensor(1)?, op.result_tensor(0)?);
    let dims = conv_dims(op)?;
    require!(result.rank() == lhs.rank(), c[26], "lhs has rank {}, the result has rank {}", lhs.rank(), result.rank());
    shapes::same_shape(c[25], ("the window's result", inferred), ("result", result))?;
    if !elements::is_quantized(lhs) && !elements::is_quantized(rhs) {
        shapes::same_element(c[27], ("lhs", lhs), ("rhs", rhs))?;
    }
    contraction::same_field(c[27], [lhs, rhs, result])?;
    quantization::dot([c[28], c[31], c[32], c[33], c[34]], lhs, rhs, result)?;
    for (clause, name, ty, dim) in
        [(c[29], "rhs", rhs, dims.kernel_output_feature), (c[30], "result", result, dims.output_feature)]
    {
        if let Some(axis) = quantization::of(ty).and_then(|q| q.axis) {
            require!(axis == dim, clause, "quantized dimension of {name} is {axis}, feature dimension {dim} expected");
        }
    }
    Ok(())
}
