//! Norms over the last axis that keep their statistics for the backward pass: XLA's GPU compiler then writes nothing else between the
//! passes, and each pass reads its rows once.

use tensor::DType;
use trace::{Tensor, custom_vjp, optimization_barrier};

/// Rows, weight `f32 [width]`, and the bias of a layer norm.
type Inputs = (Tensor, Tensor, Option<Tensor>);

/// The result, and the statistics of every row: the mean of a layer norm, and the inverse of the deviation.
type Outputs = (Tensor, (Option<Tensor>, Tensor));

/// A layer norm, or the root mean square norm without a bias. Weight and bias are `f32 [width]`.
#[track_caller]
pub(super) fn norm(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, epsilon: f64) -> Tensor {
    let inputs: Inputs = (x.clone(), weight.clone(), bias.cloned());
    custom_vjp(&inputs, |inputs| forward(inputs, epsilon), |inputs, outputs, (ct, _)| backward(inputs, outputs, ct)).0
}

fn forward((x, weight, bias): &Inputs, epsilon: f64) -> Outputs {
    let last = x.rank().saturating_sub(1);
    let wide = x.cast(DType::F32);
    let square = wide.square().mean(&[last]);
    let statistics = match bias {
        None => (None, (&square + epsilon).rsqrt()),
        Some(_) => {
            let mean = wide.mean(&[last]);
            // Both sums in one pass; rounding may leave a little below zero.
            let variance = (&square - &mean.square()).maximum(&Tensor::zeros(DType::F32, &[]));
            (Some(mean), (&variance + epsilon).rsqrt())
        }
    };
    let statistics = optimization_barrier(&statistics);
    let scaled = &normal(&wide, &statistics) * weight;
    let y = match bias {
        Some(bias) => scaled + bias,
        None => scaled,
    };
    (y.cast(x.dtype()), statistics)
}

fn normal(wide: &Tensor, (mean, inverse): &(Option<Tensor>, Tensor)) -> Tensor {
    let centred = match mean {
        Some(mean) => wide - &mean.expand(-1),
        None => wide.clone(),
    };
    &centred * &inverse.expand(-1)
}

fn backward((x, weight, bias): &Inputs, (_, statistics): &Outputs, ct: &Tensor) -> Inputs {
    let last = x.rank().saturating_sub(1);
    let rows: Vec<usize> = (0..last).collect();
    let normal = normal(&x.cast(DType::F32), statistics);
    let ct = ct.cast(DType::F32);
    let of_normal = &ct * weight;
    let along = (&of_normal * &normal).mean(&[last]).expand(-1);
    let mut of_x = &of_normal - &(&normal * &along);
    if bias.is_some() {
        of_x = &of_x - &of_normal.mean(&[last]).expand(-1);
    }
    let of_x = &of_x * &statistics.1.expand(-1);
    (of_x.cast(x.dtype()), (&ct * &normal).sum(&rows), bias.as_ref().map(|_| ct.sum(&rows)))
}
