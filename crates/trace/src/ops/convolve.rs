//! Convolutions of any number of spatial axes, dilated, strided and in groups.

use std::panic::Location;
use std::sync::Arc;

use hlo::dims::ConvDims;
use hlo::{Attr, Attrs, Dense, OpKind, TensorType};
use tensor::DType;

use crate::Spec;
use crate::error::misuse;
use crate::ops::lane::Lane;
use crate::ops::shape::usizes;
use crate::ops::{attrs, i64s, op_as};
use crate::tensor::Tensor;

/// How a convolution moves its window; lists have one entry a spatial axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// Steps of the window.
    pub strides: Vec<usize>,
    /// Zeros before and after; negative amounts cut.
    pub padding: Vec<(i64, i64)>,
    /// Distance of input elements, more than 1 for a transposed convolution.
    pub input_dilation: Vec<usize>,
    /// Distance of kernel elements.
    pub kernel_dilation: Vec<usize>,
    /// Groups of features that do not see each other.
    pub groups: usize,
    /// Groups of the batch that make up the output's features; 1 except in gradients.
    pub(crate) batch_groups: usize,
}

impl Convolution {
    /// Stride 1, no padding, no dilation, one group.
    pub fn new(spatial: usize) -> Convolution {
        Convolution {
            strides: vec![1; spatial],
            padding: vec![(0, 0); spatial],
            input_dilation: vec![1; spatial],
            kernel_dilation: vec![1; spatial],
            groups: 1,
            batch_groups: 1,
        }
    }

    /// The same stride on every axis.
    #[must_use]
    pub fn stride(mut self, stride: usize) -> Convolution {
        self.strides.fill(stride);
        self
    }

    /// Padding that keeps the size at stride 1, as much before as after, one more after for even kernels.
    #[must_use]
    pub fn same(mut self, kernel: &[usize]) -> Convolution {
        for ((pad, &size), &dilation) in self.padding.iter_mut().zip(kernel).zip(&self.kernel_dilation) {
            let total = (size.saturating_sub(1) * dilation) as i64;
            *pad = (total / 2, total - total / 2);
        }
        self
    }

    /// Padding before and after every axis.
    #[must_use]
    pub fn pad(mut self, before: i64, after: i64) -> Convolution {
        self.padding.fill((before, after));
        self
    }

    /// Groups of features.
    #[must_use]
    pub fn groups(mut self, groups: usize) -> Convolution {
        self.groups = groups;
        self
    }
}

impl Tensor {
    /// Convolution of `[batch, spatial…, features]` with `[spatial…, features in a group, features out]`.
    #[track_caller]
    #[must_use]
    pub fn convolve(&self, kernel: &Tensor, how: &Convolution) -> Tensor {
        let spatial = how.strides.len();
        let lengths = [how.padding.len(), how.input_dilation.len(), how.kernel_dilation.len()];
        if self.rank() != spatial + 2 || kernel.rank() != spatial + 2 || lengths.iter().any(|&have| have != spatial) {
            let message = format!("convolution of {} with {} over {spatial} axes", self.spec(), kernel.spec());
            misuse(Location::caller(), message);
        }
        convolve(self, kernel, how, &channels_last(spatial))
    }
}

/// Batch first, features last; kernels spatial first.
fn channels_last(spatial: usize) -> ConvDims {
    let axes: Vec<i64> = (1..=spatial as i64).collect();
    let last = spatial as i64 + 1;
    ConvDims {
        input_batch: 0,
        input_feature: last,
        input_spatial: axes.clone(),
        kernel_input_feature: last - 1,
        kernel_output_feature: last,
        kernel_spatial: (0..spatial as i64).collect(),
        output_batch: 0,
        output_feature: last,
        output_spatial: axes,
    }
}

#[track_caller]
fn convolve(input: &Tensor, kernel: &Tensor, how: &Convolution, dims: &ConvDims) -> Tensor {
    let at = Location::caller();
    let mut shape = vec![0usize; input.rank()];
    shape[dims.output_batch as usize] = input.dims()[dims.input_batch as usize] / how.batch_groups.max(1);
    shape[dims.output_feature as usize] = kernel.dims()[dims.kernel_output_feature as usize];
    for n in 0..how.strides.len() {
        let size = dilated(input.dims()[dims.input_spatial[n] as usize], how.input_dilation[n]);
        let window = dilated(kernel.dims()[dims.kernel_spatial[n] as usize], how.kernel_dilation[n]);
        let room = size as i64 + how.padding[n].0 + how.padding[n].1 - window as i64;
        if how.strides[n] == 0 || room < 0 {
            misuse(
                at,
                format!(
                    "convolution of {} with {}: the window of axis {n} is larger than the padded input",
                    input.spec(),
                    kernel.spec()
                ),
            );
        }
        shape[dims.output_spatial[n] as usize] = room as usize / how.strides[n] + 1;
    }
    let padding: Vec<u8> =
        how.padding.iter().flat_map(|&(low, high)| [low.to_le_bytes(), high.to_le_bytes()]).flatten().collect();
    let padding_type = TensorType::new(vec![how.padding.len() as i64, 2], DType::I64);
    let Some(padding) = Dense::from_elements(padding_type, padding) else {
        misuse(at, "padding needs one pair an axis");
    };
    let attrs = attrs([
        ("window_strides", i64s(&how.strides)),
        ("padding", Attr::Dense(Arc::new(padding))),
        ("lhs_dilation", i64s(&how.input_dilation)),
        ("rhs_dilation", i64s(&how.kernel_dilation)),
        ("dimension_numbers", Attr::Conv(Arc::new(dims.clone()))),
        ("feature_group_count", Attr::i64(how.groups as i64)),
        ("batch_group_count", Attr::i64(how.batch_groups as i64)),
    ]);
    op_as(OpKind::Convolution, &[input, kernel], attrs, Spec::new(input.dtype(), shape))
}

/// Size with gaps between elements.
fn dilated(size: usize, dilation: usize) -> usize {
    if size == 0 { 0 } else { (size - 1) * dilation + 1 }
}

/// How a node's convolution moves its window.
pub(crate) fn convolution_of(attrs: &Attrs, spatial: usize) -> Convolution {
    let list = |name: &str| {
        let values = usizes(attrs, name);
        if values.is_empty() { vec![1; spatial] } else { values }
    };
    let padding = match attrs.get("padding") {
        Some(Attr::Dense(dense)) => dense.to_i64s(2 * spatial).unwrap_or_default(),
        _ => Vec::new(),
    };
    let count = |name: &str| attrs.get(name).and_then(Attr::as_int).map_or(1, |count| count as usize);
    Convolution {
        strides: list("window_strides"),
        padding: if padding.is_empty() {
            vec![(0, 0); spatial]
        } else {
            padding.chunks(2).map(|pair| (pair[0], pair[1])).collect()
        },
        input_dilation: list("lhs_dilation"),
        kernel_dilation: list("rhs_dilation"),
        groups: count("feature_group_count"),
        batch_groups: count("batch_group_count"),
    }
}

/// The cotangent of an operand of a convolution.
pub(crate) fn transposed(attrs: &Attrs, ins: &[Tensor], n: usize, ct: &Tensor) -> Option<Tensor> {
    let Some(Attr::Conv(dims)) = attrs.get("dimension_numbers") else { return None };
    let (input, kernel) = (&ins[0], &ins[1]);
    let how = convolution_of(attrs, dims.input_spatial.len());
    // A convolution has groups of features or of the batch, not both. Its backward pass has the other kind.
    let is_batch_grouped = how.batch_groups > 1;
    let groups = how.groups.max(how.batch_groups);
    let sizes = |axis: usize| {
        let size = dilated(input.dims()[dims.input_spatial[axis] as usize], how.input_dilation[axis]) as i64;
        let window = dilated(kernel.dims()[dims.kernel_spatial[axis] as usize], how.kernel_dilation[axis]) as i64;
        let output = dilated(ct.dims()[dims.output_spatial[axis] as usize], how.strides[axis]) as i64;
        (size, window, output)
    };
    if n == 0 {
        let padding = (0..how.strides.len())
            .map(|axis| {
                let (size, window, output) = sizes(axis);
                let before = window - how.padding[axis].0 - 1;
                (before, size + window - 1 - output - before)
            })
            .collect();
        let spatial: Vec<usize> = dims.kernel_spatial.iter().map(|&axis| axis as usize).collect();
        let (from, to) = (dims.kernel_output_feature as usize, dims.kernel_input_feature as usize);
        let turned = swap_groups(&kernel.reverse(&spatial), from, to, groups);
        let backward = Convolution {
            strides: how.input_dilation.clone(),
            padding,
            input_dilation: how.strides.clone(),
            kernel_dilation: how.kernel_dilation.clone(),
            groups,
            batch_groups: 1,
        };
        let (batch, feature) = (dims.input_batch as usize, dims.input_feature as usize);
        let dims = ConvDims {
            input_batch: dims.output_batch,
            input_feature: dims.output_feature,
            input_spatial: dims.output_spatial.clone(),
            kernel_input_feature: dims.kernel_output_feature,
            kernel_output_feature: dims.kernel_input_feature,
            kernel_spatial: dims.kernel_spatial.clone(),
            output_batch: dims.input_batch,
            output_feature: dims.input_feature,
            output_spatial: dims.input_spatial.clone(),
        };
        let grad = convolve(ct, &turned, &backward, &dims);
        return Some(if is_batch_grouped { swap_groups(&grad, feature, batch, groups) } else { grad });
    }
    let padding = (0..how.strides.len())
        .map(|axis| {
            let (size, window, output) = sizes(axis);
            let before = how.padding[axis].0;
            (before, output - size + window - before - 1)
        })
        .collect();
    let backward = Convolution {
        strides: how.kernel_dilation.clone(),
        padding,
        input_dilation: how.input_dilation.clone(),
        kernel_dilation: how.strides.clone(),
        groups: how.batch_groups,
        batch_groups: how.groups,
    };
    let dims = ConvDims {
        input_batch: dims.input_feature,
        input_feature: dims.input_batch,
        input_spatial: dims.input_spatial.clone(),
        kernel_input_feature: dims.output_batch,
        kernel_output_feature: dims.output_feature,
        kernel_spatial: dims.output_spatial.clone(),
        output_batch: dims.kernel_input_feature,
        output_feature: dims.kernel_output_feature,
        output_spatial: dims.kernel_spatial.clone(),
    };
    Some(convolve(input, ct, &backward, &dims))
}

/// The groups of one axis moved to the other: `[…, in, groups * out]` becomes `[…, groups * in, out]`.
fn swap_groups(kernel: &Tensor, from: usize, to: usize, groups: usize) -> Tensor {
    if groups == 1 {
        return kernel.clone();
    }
    let mut split = kernel.dims().to_vec();
    split[from] /= groups;
    split.insert(from, groups);
    let apart = kernel.reshape(&split);
    // The axis of groups goes right before the axis that takes it.
    let to_after_split = if to > from { to + 1 } else { to };
    let mut order: Vec<usize> = (0..split.len()).filter(|&axis| axis != from).collect();
    let place = order.iter().position(|&axis| axis == to_after_split).unwrap_or(0);
    order.insert(place, from);
    let mut dims = kernel.dims().to_vec();
    dims[from] /= groups;
    dims[to] *= groups;
    apart.transpose(&order).reshape(&dims)
}

/// A convolution of which at least one operand has the axis of a batch in front: the axis goes into the batch of the
/// convolution, into its features, or becomes groups.
pub(crate) fn batched(attrs: &Attrs, ins: &[Lane], size: usize) -> Tensor {
    let dims = match attrs.get("dimension_numbers") {
        Some(Attr::Conv(dims)) => (**dims).clone(),
        _ => channels_last(ins[0].rank().saturating_sub(2)),
    };
    let mut how = convolution_of(attrs, dims.input_spatial.len());
    let is_grouped = how.groups > 1 || how.batch_groups > 1;
    let (batch, feature) = (dims.input_batch as usize, dims.input_feature as usize);
    let kernel_out = dims.kernel_output_feature as usize;
    let (out_batch, out_feature) = (dims.output_batch as usize, dims.output_feature as usize);
    match (ins[0].is_batched, ins[1].is_batched) {
        (true, false) if how.batch_groups == 1 => {
            let out = convolve(&into_axis(&ins[0].tensor, batch), &ins[1].tensor, &how, &dims);
            out_of_axis(&out, out_batch, size)
        }
        (false, true) if !is_grouped => {
            let out = convolve(&ins[0].tensor, &into_axis(&ins[1].tensor, kernel_out), &how, &dims);
            out_of_axis(&out, out_feature, size)
        }
        _ => {
            let (input, kernel) = (ins[0].spread(size), ins[1].spread(size));
            let input = if how.batch_groups > 1 {
                how.batch_groups *= size;
                into_axis(&input, batch)
            } else {
                how.groups *= size;
                into_axis(&input, feature)
            };
            let out = convolve(&input, &into_axis(&kernel, kernel_out), &how, &dims);
            out_of_axis(&out, out_feature, size)
        }
    }
}

/// The first axis made the outer part of another, which is counted without it.
fn into_axis(tensor: &Tensor, axis: usize) -> Tensor {
    let moved = tensor.move_axis(0, axis as isize);
    let mut dims = moved.dims().to_vec();
    let outer = dims.remove(axis);
    dims[axis] *= outer;
    moved.reshape(&dims)
}

/// The outer part of an axis made the first axis.
fn out_of_axis(tensor: &Tensor, axis: usize, size: usize) -> Tensor {
    let mut dims = tensor.dims().to_vec();
    dims[axis] /= size.max(1);
    dims.insert(axis, size);
    tensor.reshape(&dims).move_axis(axis as isize, 0)
}
