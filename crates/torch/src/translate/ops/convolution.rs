//! Convolutions: features are axis 1 in PyTorch, and last in our ops.

use trace::{Convolution, Tensor};

use crate::error::Error;
use crate::translate::call::{Call, Value, positive};
use crate::translate::run::Rules;
use crate::translate::types::cast;

type Answer = Result<Value, Error>;

/// `[batch, features, spatial…]` to `[batch, spatial…, features]`.
fn features_last(x: &Tensor) -> Tensor {
    x.move_axis(1, -1)
}

fn features_second(x: &Tensor) -> Tensor {
    x.move_axis(-1, 1)
}

pub(super) fn sizes(values: &[i64]) -> Result<Vec<usize>, Error> {
    values.iter().map(|value| positive(*value)).collect()
}

/// What a convolution does, as its arguments say.
struct How {
    strides: Vec<usize>,
    dilation: Vec<usize>,
    padding: Vec<(i64, i64)>,
    output_padding: Vec<i64>,
    groups: usize,
    is_transposed: bool,
}

impl How {
    fn of(call: &mut Call<'_, '_>, x: &Tensor, weight: &Tensor, is_transposed: bool) -> Result<How, Error> {
        let spatial = weight.rank().saturating_sub(2);
        if weight.rank() < 3 || x.rank() != weight.rank() {
            return Err(Error::damaged(format!("a convolution of {} with {}", x.spec(), weight.spec())));
        }
        let strides = sizes(&call.spatial("stride", spatial, 1)?)?;
        let dilation = sizes(&call.spatial("dilation", spatial, 1)?)?;
        let groups = positive(call.int("groups", 1)?)?.max(1);
        let reach = |n: usize| (dilation[n] * weight.dims()[2 + n].saturating_sub(1)) as i64;
        let padding: Vec<(i64, i64)> = match call.text("padding") {
            Some("same") => (0..spatial).map(|n| (reach(n) / 2, reach(n) - reach(n) / 2)).collect(),
            Some(_) => vec![(0, 0); spatial],
            None => call.spatial("padding", spatial, 0)?.into_iter().map(|pad| (pad, pad)).collect(),
        };
        let inputs = if is_transposed { weight.dim(0) } else { weight.dim(1).saturating_mul(groups) };
        if inputs % groups != 0 || x.dim(1) != inputs || (!is_transposed && !weight.dim(0).is_multiple_of(groups)) {
            let (x, weight) = (x.spec(), weight.spec());
            return Err(Error::damaged(format!("a convolution of {x} with {weight} in {groups} groups")));
        }
        let output_padding = call.spatial("output_padding", spatial, 0)?;
        Ok(How { strides, dilation, padding, output_padding, groups, is_transposed })
    }
}

/// A convolution of `[batch, features, spatial…]`.
fn convolved(x: &Tensor, weight: &Tensor, given: &How) -> Tensor {
    let spatial = weight.rank() - 2;
    let kernel: Vec<usize> = weight.dims()[2..].to_vec();
    let reach = |n: usize| (given.dilation[n] * kernel[n].saturating_sub(1)) as i64;
    let (padding, groups) = (&given.padding, given.groups);
    let mut how = Convolution::new(spatial).groups(groups);
    how.kernel_dilation = given.dilation.clone();
    let kernel_last = if given.is_transposed {
        how.input_dilation = given.strides.clone();
        how.padding = (0..spatial)
            .map(|n| (reach(n) - padding[n].0, reach(n) - padding[n].1 + given.output_padding[n]))
            .collect();
        // [in, out / groups, k…], turned around, to [k…, in / groups, out].
        let (inputs, outputs) = (weight.dim(0), weight.dim(1));
        let flipped = weight.reverse(&(2..weight.rank()).collect::<Vec<_>>());
        let split: Vec<usize> = [groups, inputs / groups, outputs].into_iter().chain(kernel.clone()).collect();
        let order: Vec<usize> = (3..3 + spatial).chain([1, 0, 2]).collect();
        let dims: Vec<usize> = kernel.iter().copied().chain([inputs / groups, groups * outputs]).collect();
        flipped.reshape(&split).transpose(&order).reshape(&dims)
    } else {
        how.strides = given.strides.clone();
        how.padding = padding.clone();
        // [out, in / groups, k…] to [k…, in / groups, out].
        let order: Vec<usize> = (2..weight.rank()).chain([1, 0]).collect();
        weight.transpose(&order)
    };
    features_second(&features_last(x).convolve(&kernel_last, &how))
}

/// A convolution of one, two or three spatial axes, with or without a batch.
fn convolution(call: &mut Call<'_, '_>, is_transposed: bool) -> Answer {
    let (x, weight, dtype) = (call.subject()?, call.tensor("weight")?, call.result_type()?);
    let has_batch = x.rank() == weight.rank();
    let x = if has_batch { x } else { x.expand(0) };
    let (x, weight) = (cast(&x, dtype), cast(&weight, dtype));
    let how = How::of(call, &x, &weight, is_transposed)?;
    let mut y = convolved(&x, &weight, &how);
    if let Some(bias) = call.optional_tensor("bias")? {
        let mut dims = vec![1; y.rank()];
        dims[1] = bias.num_elements();
        y = y + cast(&bias, dtype).reshape(&dims);
    }
    Ok(if has_batch { y } else { y.squeeze(0) }.into())
}

/// Gradients by the input, the weight and the bias.
fn backward(call: &mut Call<'_, '_>) -> Answer {
    let (ct, x, weight) = (call.tensor("grad_output")?, call.tensor("input")?, call.tensor("weight")?);
    let is_transposed = call.bool("transposed", false)?;
    let how = How::of(call, &x, &weight, is_transposed)?;
    if ct.rank() != x.rank() {
        return Err(Error::damaged(format!("a gradient {} of a convolution of {}", ct.spec(), x.spec())));
    }
    let axes: Vec<usize> = (0..ct.rank()).filter(|axis| *axis != 1).collect();
    let bias = ct.sum(&axes);
    let both =
        trace::grad(|(x, weight): &(Tensor, Tensor)| (convolved(x, weight, &how) * ct.clone()).sum_all(), &(x, weight));
    Ok(vec![both.0, both.1, bias].into())
}

fn any_convolution(call: &mut Call<'_, '_>) -> Answer {
    let is_transposed = call.bool("transposed", false)?;
    convolution(call, is_transposed)
}

pub(super) const RULES: Rules = &[
    ("conv1d", |c| convolution(c, false)),
    ("conv2d", |c| convolution(c, false)),
    ("conv3d", |c| convolution(c, false)),
    ("conv_transpose1d", |c| convolution(c, true)),
    ("conv_transpose2d", |c| convolution(c, true)),
    ("conv_transpose3d", |c| convolution(c, true)),
    ("convolution", any_convolution),
    ("_convolution", any_convolution),
    ("convolution_backward", backward),
];
