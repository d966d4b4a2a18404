//! Convolutions: strides, padding, dilations, reversal, feature and batch groups; `dynamic_conv` reads its padding.

use hlo::dims::ConvDims;
use hlo::{ElementType, OpKind, TensorType};

use super::context::{Context, Eval};
use super::contraction::{accumulator, complexes, floats, ints, result_element};
use super::positions::{self, Walk};
use super::quantization;
use super::value::{Complex, Elements, InterpreterValue, TensorValue, round, storage, wrap};
use crate::attributes;
use crate::error::Error;

/// The meaning of an op of this family.
pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    Some(match kind {
        OpKind::Convolution => convolution,
        OpKind::DynamicConv => dynamic_conv,
        _ => return None,
    })
}

fn convolution(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let spatial = context.tensor(0)?.dims().len().saturating_sub(2);
    let padding = attributes::padding(context.op, spatial)?;
    convolve(context, padding)
}

fn dynamic_conv(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let padding = ints(&context.tensor(2)?.elements)?
        .chunks_exact(2)
        .map(|pair| Some((i64::try_from(pair[0]).ok()?, i64::try_from(pair[1]).ok()?)))
        .collect::<Option<Vec<_>>>();
    match padding {
        Some(padding) => convolve(context, padding),
        None => context.fail("padding is out of range"),
    }
}

/// One spatial dimension of a convolution.
struct Window {
    input: usize,
    kernel: usize,
    output: usize,
    stride: i64,
    low: i64,
    input_dilation: i64,
    kernel_dilation: i64,
    is_reversed: bool,
}

fn convolve(context: &mut Context<'_, '_>, padding: Vec<(i64, i64)>) -> Result<Vec<InterpreterValue>, Error> {
    let op = context.op;
    let dims = attributes::conv_dims(op)?;
    let element = result_element(context)?;
    let (lhs, rhs) = (context.tensor(0)?, context.tensor(1)?);
    let (lhs, rhs) = (quantization::expressed(lhs)?, quantization::expressed(rhs)?);
    let spatial = dims.input_spatial.len();
    let list = |name, fill| attributes::ints_or(op, name, spatial, fill);
    let strides = list("window_strides", 1)?;
    let (input_dilation, kernel_dilation) = (list("lhs_dilation", 1)?, list("rhs_dilation", 1)?);
    let reversal = list("window_reversal", 0)?;
    if padding.len() != spatial {
        return context.fail("padding does not fit the spatial dimensions");
    }
    let mut windows = Vec::new();
    let mut sizes = vec![0i64; spatial + 2];
    for s in 0..spatial {
        let window = Window {
            input: dims.input_spatial[s] as usize,
            kernel: dims.kernel_spatial[s] as usize,
            output: dims.output_spatial[s] as usize,
            stride: strides[s],
            low: padding[s].0,
            input_dilation: input_dilation[s],
            kernel_dilation: kernel_dilation[s],
            is_reversed: reversal[s] != 0,
        };
        let (input, kernel) = (lhs.dims()[window.input], rhs.dims()[window.kernel]);
        let Some(size) =
            windowed(input, kernel, window.stride, padding[s], window.input_dilation, window.kernel_dilation)
        else {
            return context.fail("the window overflows");
        };
        sizes[window.output] = size;
        windows.push(window);
    }
    let batch_groups = attributes::int_or(op, "batch_group_count", 1).max(1);
    let feature_groups = attributes::int_or(op, "feature_group_count", 1).max(1);
    let batches = lhs.dims()[dims.input_batch as usize];
    let features = rhs.dims()[dims.kernel_output_feature as usize];
    sizes[dims.output_batch as usize] = batches / batch_groups;
    sizes[dims.output_feature as usize] = features;
    let per_feature_group = (features / feature_groups).max(1);
    let per_batch_group = (features / batch_groups).max(1);
    let plan = Plan { lhs: &lhs, rhs: &rhs, dims, windows: &windows, sizes: &sizes };
    let groups = Groups { per_feature_group, per_batch_group, batches: batches / batch_groups };
    let count = positions::count(context, &sizes)?;
    let real = quantization::expressed_type(&element);
    let dtype = storage(&real);
    let elements = if dtype.is_complex() {
        let (a, b) = (complexes(&lhs.elements), complexes(&rhs.elements));
        let mut out = Vec::with_capacity(count);
        plan.run(context, &groups, |terms| {
            let step =
                |sum: Complex, &(i, j): &(usize, usize)| sum.plus(a[i].times(b[j]).rounded(dtype)).rounded(dtype);
            out.push(terms.iter().fold(Complex::default(), step));
        })?;
        Elements::Complex(out)
    } else if dtype.is_float() {
        let (a, b) = (floats(&lhs.elements)?, floats(&rhs.elements)?);
        let sums = accumulator(dtype);
        let mut out = Vec::with_capacity(count);
        plan.run(context, &groups, |terms| {
            let step = |sum: f64, &(i, j): &(usize, usize)| round(sums, sum + round(sums, a[i] * b[j]));
            out.push(round(dtype, terms.iter().fold(0.0, step)));
        })?;
        Elements::Float(out)
    } else {
        let (a, b) = (ints(&lhs.elements)?, ints(&rhs.elements)?);
        let mut out = Vec::with_capacity(count);
        plan.run(context, &groups, |terms| {
            out.push(terms.iter().fold(0i128, |sum, &(i, j)| sum.wrapping_add(a[i].wrapping_mul(b[j]))));
        })?;
        if dtype.is_bool() {
            Elements::Bool(out.into_iter().map(|x| x != 0).collect())
        } else {
            Elements::Int(out.into_iter().map(|x| wrap(dtype, x)).collect())
        }
    };
    let result = TensorValue { ty: TensorType::new(sizes.clone(), real), elements };
    let result = match element {
        ElementType::Quantized(_) => quantization::stored(&result, &element)?,
        _ => result,
    };
    Ok(vec![result.into()])
}

/// How many places a dilated window has over a padded, dilated dimension; `None` on overflow.
pub(crate) fn windowed(
    input: i64,
    window: i64,
    stride: i64,
    padding: (i64, i64),
    input_dilation: i64,
    window_dilation: i64,
) -> Option<i64> {
    let dilated = |size: i64, by: i64| if size == 0 { Some(0) } else { (size - 1).checked_mul(by)?.checked_add(1) };
    let padded = dilated(input, input_dilation)?.checked_add(padding.0)?.checked_add(padding.1)?;
    let window = dilated(window, window_dilation)?;
    if padded <= 0 || window > padded { Some(0) } else { Some((padded - window) / stride + 1) }
}

struct Groups {
    per_feature_group: i64,
    per_batch_group: i64,
    /// Batches of the result.
    batches: i64,
}

struct Plan<'p> {
    lhs: &'p TensorValue,
    rhs: &'p TensorValue,
    dims: &'p ConvDims,
    windows: &'p [Window],
    sizes: &'p [i64],
}

impl Plan<'_> {
    /// Gives the positions of the factors of each result's terms, results in row-major order.
    fn run(
        &self,
        context: &Context<'_, '_>,
        groups: &Groups,
        mut each: impl FnMut(&[(usize, usize)]),
    ) -> Result<(), Error> {
        let d = self.dims;
        let (ls, rs) = (positions::strides(self.lhs.dims()), positions::strides(self.rhs.dims()));
        let kernel: Vec<i64> = self.windows.iter().map(|w| self.rhs.dims()[w.kernel]).collect();
        let inputs = self.rhs.dims()[d.kernel_input_feature as usize];
        let (input_feature, kernel_feature) = (ls[d.input_feature as usize], rs[d.kernel_input_feature as usize]);
        let mut terms = Vec::new();
        let mut walk = Walk::new(self.sizes);
        while let Some(index) = walk.next() {
            context.run.poll()?;
            terms.clear();
            let feature = index[d.output_feature as usize];
            let batch = index[d.output_batch as usize] + feature / groups.per_batch_group * groups.batches;
            let first = feature / groups.per_feature_group * inputs;
            let lhs_base = batch as usize * ls[d.input_batch as usize] + first as usize * input_feature;
            let rhs_base = feature as usize * rs[d.kernel_output_feature as usize];
            let mut inside = Walk::new(&kernel);
            'window: while let Some(at) = inside.next() {
                let (mut left, mut right) = (lhs_base, rhs_base);
                for (w, &k) in self.windows.iter().zip(at) {
                    let place = i128::from(index[w.output]) * i128::from(w.stride) - i128::from(w.low)
                        + i128::from(k) * i128::from(w.kernel_dilation);
                    let dilation = i128::from(w.input_dilation);
                    if place < 0 || place % dilation != 0 || place / dilation >= i128::from(self.lhs.dims()[w.input]) {
                        continue 'window;
                    }
                    left += (place / dilation) as usize * ls[w.input];
                    let k = if w.is_reversed { self.rhs.dims()[w.kernel] - 1 - k } else { k };
                    right += k as usize * rs[w.kernel];
                }
                terms.extend((0..inputs as usize).map(|f| (left + f * input_feature, right + f * kernel_feature)));
            }
            each(&terms);
        }
        Ok(())
    }
}
