//! A quantized tensor: codes, scales, zero points, and its matmul with activations.

use tensor::DType;
use trace::{CompileTarget, Contraction, PartitionSpec, Precision, Spec, Tensor, Tree};

use crate::quant::activations::{codes, codes_of_scale};
use crate::quant::kernel;
use crate::quant::on_mesh::{MeshParts, WeightParts};
use crate::quant::{ActivationQuant, MatmulForm, QuantScheme, QuantizedRows, ZeroPoints, quantized_rows};

/// Which of the last two axes of a weight a matmul sums over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputAxis {
    /// `[…, in, out]`, as linear layers have it.
    First,
    /// `[…, out, in]`, as tables of vectors have it.
    Last,
}

/// A weight of few bits. Axes before the last two are layers and experts.
#[derive(Clone, Debug, Tree)]
pub struct QuantizedTensor {
    /// Codes, in the shape of the weight.
    pub values: Tensor,
    /// `f32`, in the shape of the weight with groups in place of input features.
    pub scales: Tensor,
    /// In the shape of the scales: `w = (code - zero_point) * scale`.
    pub zero_points: Option<Tensor>,
    /// `i32 [in]`: the input feature at each place, where groups are not of neighbours (act-order).
    pub input_order: Option<Tensor>,
    /// `f32` scalar: the calibrated scale of activations.
    pub input_scale: Option<Tensor>,
    /// How it is quantized.
    #[tree(skip)]
    pub scheme: QuantScheme,
    /// Which axis a matmul sums over.
    #[tree(skip)]
    pub input_axis: InputAxis,
    /// How the codes lie on a mesh where a matmul reads them, if that is known.
    #[tree(skip)]
    pub sharding: Option<PartitionSpec>,
}

impl QuantizedTensor {
    /// One known by the shape of its dense weight.
    ///
    /// Refuses groups that do not divide the input features.
    #[track_caller]
    pub fn of_shape(dims: &[usize], scheme: &QuantScheme, input_axis: InputAxis) -> QuantizedTensor {
        let axis = axis_of(dims.len(), input_axis);
        let inputs = dims.get(axis).copied().unwrap_or(1);
        if let Some(group) = scheme.group.filter(|group| !inputs.is_multiple_of(*group)) {
            trace::refuse(format!(
                "groups of {group} do not divide the {inputs} input features of a weight {dims:?}: choose a group that does"
            ));
        }
        let mut grouped = dims.to_vec();
        if let Some(size) = grouped.get_mut(axis) {
            *size = scheme.groups(inputs);
        }
        let layers = &dims[..dims.len().saturating_sub(2)];
        QuantizedTensor {
            values: Tensor::zeros(scheme.values, dims),
            scales: Tensor::zeros(DType::F32, &grouped),
            zero_points: (scheme.zero_points == ZeroPoints::PerGroup).then(|| Tensor::zeros(DType::I8, &grouped)),
            input_order: None,
            input_scale: (scheme.activations == ActivationQuant::Static).then(|| Tensor::zeros(DType::F32, layers)),
            scheme: *scheme,
            input_axis,
            sharding: None,
        }
    }

    /// A dense weight rounded to the nearest codes, with the largest magnitude of each group as the largest code: what
    /// quantization-aware training and tests need. Files are better quantized by `tpu quantize`.
    #[track_caller]
    pub fn nearest(weight: &Tensor, scheme: &QuantScheme, input_axis: InputAxis) -> QuantizedTensor {
        let axis = axis_of(weight.rank(), input_axis);
        let shape = QuantizedTensor::of_shape(weight.dims(), scheme, input_axis);
        let apart = in_groups(&weight.cast(DType::F32), axis, shape.scales.dim(axis as isize));
        let largest = apart.abs().max(&[axis + 1]).expand(axis as isize + 1);
        let scales = &largest * (1.0 / crate::quant::largest_code(scheme.values));
        let values = codes(&apart, &scales, scheme.values).reshape(weight.dims());
        QuantizedTensor { values, scales: scales.squeeze(axis as isize + 1), zero_points: None, ..shape }
    }

    /// Type and shape of the dense weight in a type.
    pub fn spec(&self, dtype: DType) -> Spec {
        Spec::new(dtype, self.values.dims())
    }

    /// Groups of a channel.
    fn groups(&self) -> usize {
        self.scales.dim(axis_of(self.scales.rank(), self.input_axis) as isize)
    }

    /// The weight in a type, with input features in the order of activations.
    #[track_caller]
    pub fn dequantized(&self, dtype: DType) -> Tensor {
        let axis = axis_of(self.values.rank(), self.input_axis);
        let apart = in_groups(&self.values.cast(DType::F32), axis, self.groups());
        let beside = |tensor: &Tensor| tensor.cast(DType::F32).expand(axis as isize + 1);
        let centered = match &self.zero_points {
            Some(zero_points) => apart - beside(zero_points),
            None => apart,
        };
        let weight = (centered * beside(&self.scales)).cast(dtype).reshape(self.values.dims());
        match &self.input_order {
            Some(order) => weight.take(axis as isize, &inverse(order)),
            None => weight,
        }
    }

    /// Vectors of the rows at `indices`, of a table `[entries, width]`.
    #[track_caller]
    pub(crate) fn rows(&self, indices: &Tensor, dtype: DType) -> Tensor {
        let taken = |tensor: &Tensor| tensor.take(0, indices);
        let rows = QuantizedTensor {
            values: taken(&self.values),
            scales: taken(&self.scales),
            zero_points: self.zero_points.as_ref().map(taken),
            ..self.clone()
        };
        rows.dequantized(dtype)
    }

    /// The matmul of `x [..., in]` with a weight of two axes, in a type: `[..., out]`. The form depends on the number of rows.
    ///
    /// On a mesh whose devices have other inputs, each multiplies few rows by itself and sums results in their own type: left to the
    /// partitioner, wider sums would travel, and the largest activations of all devices before them.
    #[track_caller]
    pub fn matmul(&self, x: &Tensor, result: DType) -> Tensor {
        let ordered = match &self.input_order {
            Some(order) => x.take(-1, order),
            None => x.clone(),
        };
        let plain = QuantizedTensor { input_order: None, ..self.clone() };
        let sharding = self.sharding.as_ref().filter(|_| self.input_axis == InputAxis::First);
        let parts = sharding.and_then(|sharding| MeshParts::of(x, &plain.parts(), sharding));
        let rows = x.num_elements() / x.dim(-1).max(1);
        match parts {
            Some(parts) => {
                let form = MatmulForm::of(&self.scheme, rows / parts.row_parts.max(1), self.groups());
                let is_own = form == MatmulForm::Kernel || parts.is_summed() && rows <= MOST_ROWS_BY_DEVICE;
                match is_own {
                    true => parts.run(&ordered, plain.parts(), |x, own| plain.with_parts(own).of_device(x, result)),
                    false => plain.of_device(&ordered, result),
                }
            }
            None => plain.of_device(&ordered, result),
        }
    }

    /// The matmul as one program, of inputs in their order.
    #[track_caller]
    fn of_device(&self, x: &Tensor, result: DType) -> Tensor {
        let rows = x.num_elements() / x.dim(-1).max(1);
        match MatmulForm::of(&self.scheme, rows, self.groups()) {
            MatmulForm::Dequantize => contracted(x, &self.dequantized(x.dtype()), self.input_axis, result),
            form => {
                let operand = self.operand(x);
                // The compiler cannot split a kernel.
                let has_kernel = self.input_axis == InputAxis::First && trace::current_rules().is_none();
                let summed = match form {
                    MatmulForm::Kernel if has_kernel => self.in_kernel(&operand.values),
                    MatmulForm::PartialSums | MatmulForm::Kernel => self.partial_sums(&operand.values),
                    _ => self.scaled_dot(&operand.values),
                };
                let scaled = match &operand.scales {
                    Some(scales) => summed * scales,
                    None => summed,
                };
                scaled.cast(result)
            }
        }
    }

    /// The matmul of `x [experts, rows, in]` with a weight `[experts, in, out]`, in the type of `x`.
    #[track_caller]
    pub(crate) fn batched_matmul(&self, x: &Tensor) -> Tensor {
        match self.channel_scales() {
            Some(scales) => {
                let dot = x.einsum_as("erk,ekn->ern", &self.values_for(x), DType::F32);
                (dot * scales).cast(x.dtype())
            }
            None => x.matmul(&self.dequantized(x.dtype())),
        }
    }

    /// Scales `f32 [.., 1, out]` of a weight that is nothing but codes times a scale of each channel.
    pub(crate) fn channel_scales(&self) -> Option<Tensor> {
        let is_plain = self.zero_points.is_none() && self.input_order.is_none() && self.input_axis == InputAxis::First;
        (is_plain && self.groups() == 1).then(|| self.scales.cast(DType::F32))
    }

    /// Activations as the dot reads them.
    fn operand(&self, x: &Tensor) -> Operand {
        let dtype = self.scheme.activation_dtype();
        match (self.scheme.activations, &self.input_scale) {
            (ActivationQuant::None, _) => Operand { values: x.clone(), scales: None },
            (ActivationQuant::Static, Some(scale)) => {
                let values = codes_of_scale(&x.cast(DType::F32), scale, dtype);
                Operand { values, scales: Some(scale.clone()) }
            }
            _ => {
                let QuantizedRows { values, scales } = quantized_rows(x, dtype);
                Operand { values, scales: Some(scales) }
            }
        }
    }

    /// Codes in the type in which a dot with these activations reads them.
    fn values_for(&self, x: &Tensor) -> Tensor {
        self.values.cast(x.dtype())
    }

    /// Type in which a dot of these activations is summed.
    fn sum_dtype(x: &Tensor) -> DType {
        if x.dtype().is_float() { DType::F32 } else { DType::I32 }
    }

    fn scaled_dot(&self, x: &Tensor) -> Tensor {
        let axis = axis_of(2, self.input_axis) as isize;
        let dot = contracted(x, &self.values_for(x), self.input_axis, Self::sum_dtype(x)).cast(DType::F32);
        let scales = self.scales.cast(DType::F32).squeeze(axis);
        let centered = match &self.zero_points {
            Some(zero_points) => {
                let sums = x.cast(DType::F32).sum(&[x.rank() - 1]).expand(-1);
                dot - sums * zero_points.cast(DType::F32).squeeze(axis)
            }
            None => dot,
        };
        centered * scales
    }

    fn parts(&self) -> WeightParts {
        (self.values.clone(), self.scales.clone(), self.zero_points.clone())
    }

    /// Parts of one device in place of the whole.
    fn with_parts(&self, (values, scales, zero_points): &WeightParts) -> QuantizedTensor {
        QuantizedTensor {
            values: values.clone(),
            scales: scales.clone(),
            zero_points: zero_points.clone(),
            sharding: None,
            ..self.clone()
        }
    }

    /// The matmul by the kernel, of one device.
    #[track_caller]
    fn in_kernel(&self, x: &Tensor) -> Tensor {
        let inputs = x.dim(-1);
        let rows = x.reshape(&[x.num_elements() / inputs.max(1), inputs]);
        let scales = self.scales.cast(DType::F32);
        let mut sum = kernel::matmul(&rows, &self.values, &scales);
        if let Some(zero_points) = &self.zero_points {
            let groups = self.groups();
            let sums = rows.cast(DType::F32).reshape(&[rows.dim(0), groups, inputs / groups.max(1)]).sum(&[2]);
            sum = sum - offset(&sums, &scales, &zero_points.cast(DType::F32));
        }
        let dims: Vec<usize> = x.dims()[..x.rank() - 1].iter().copied().chain([sum.dim(1)]).collect();
        sum.reshape(&dims)
    }

    fn partial_sums(&self, x: &Tensor) -> Tensor {
        let (groups, inputs) = (self.groups(), x.dim(-1));
        let rows = x.num_elements() / inputs.max(1);
        let axis = axis_of(2, self.input_axis);
        let apart = x.reshape(&[rows, groups, inputs / groups.max(1)]);
        let values = in_groups(&self.values_for(x), axis, groups);
        // [groups, rows, out]
        let (batch, sum) = match self.input_axis {
            InputAxis::First => (0, 1),
            InputAxis::Last => (1, 2),
        };
        let contraction =
            Contraction { lhs_batch: vec![1], rhs_batch: vec![batch], lhs_sum: vec![2], rhs_sum: vec![sum] };
        let parts = apart.dot_general(&values, &contraction, Self::sum_dtype(x), Precision::Default).cast(DType::F32);
        let by_group = |tensor: &Tensor| {
            let tensor = tensor.cast(DType::F32);
            match self.input_axis {
                InputAxis::First => tensor,
                InputAxis::Last => tensor.swap_axes(0, 1),
            }
        };
        let scales = by_group(&self.scales);
        let mut sum = (parts * scales.expand(1)).sum(&[0]);
        if let Some(zero_points) = &self.zero_points {
            let sums = apart.cast(DType::F32).sum(&[2]);
            sum = sum - offset(&sums, &scales, &by_group(zero_points));
        }
        let outputs = sum.dim(1);
        let dims: Vec<usize> = x.dims()[..x.rank() - 1].iter().copied().chain([outputs]).collect();
        sum.reshape(&dims)
    }
}

/// What zero points `[groups, out]` add to a matmul: the sums of activations `[rows, groups]` times scales times zero points.
#[track_caller]
fn offset(sums: &Tensor, scales: &Tensor, zero_points: &Tensor) -> Tensor {
    // Of a few rows on the CPU device one pass over both, instead of a product that is written and read again.
    if trace::current_target() == CompileTarget::Cpu && sums.dim(0) <= FEW_ROWS {
        let products = sums.expand(2) * scales.expand(0) * zero_points.expand(0);
        return products.sum(&[1]);
    }
    sums.matmul(&(scales * zero_points))
}

/// Rows whose offsets are summed without a matmul.
const FEW_ROWS: usize = 4;

/// Rows up to which devices with other inputs multiply by themselves; with more, the partitioner may cut matmuls and sums into parts
/// that overlap.
const MOST_ROWS_BY_DEVICE: usize = 96;

/// Activations of a dot, and what its result is multiplied by.
struct Operand {
    values: Tensor,
    scales: Option<Tensor>,
}

fn axis_of(rank: usize, input_axis: InputAxis) -> usize {
    match input_axis {
        InputAxis::First => rank.saturating_sub(2),
        InputAxis::Last => rank.saturating_sub(1),
    }
}

/// An axis as two: groups and features of a group.
#[track_caller]
fn in_groups(tensor: &Tensor, axis: usize, groups: usize) -> Tensor {
    let mut dims = tensor.dims().to_vec();
    let size = dims[axis] / groups.max(1);
    dims[axis] = groups;
    dims.insert(axis + 1, size);
    tensor.reshape(&dims)
}

#[track_caller]
fn contracted(x: &Tensor, weight: &Tensor, input_axis: InputAxis, result: DType) -> Tensor {
    let contraction = Contraction {
        lhs_sum: vec![x.rank().saturating_sub(1)],
        rhs_sum: vec![axis_of(2, input_axis)],
        ..Contraction::default()
    };
    x.dot_general(weight, &contraction, result, Precision::Default)
}

/// The place of each number of a permutation.
#[track_caller]
fn inverse(order: &Tensor) -> Tensor {
    order.argsort(0, trace::Order::Ascending)
}
