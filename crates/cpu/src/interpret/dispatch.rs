//! Which function is the meaning of which op: one line each.

use hlo::OpKind;

use super::context::Eval;
use super::{batch_norm, check, chlo, control_flow, convert, custom_call, dynamic, elementwise, quantized, shape};
use super::{collectives, contraction, convolution, fourier, indexing, linear_algebra, random, reduction, sorting};

/// The meaning of an op; `None` where this interpreter has none.
pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    elementwise::eval(kind)
        .or_else(|| shape::eval(kind))
        .or_else(|| control_flow::eval(kind))
        .or_else(|| convert::eval(kind))
        .or_else(|| custom_call::eval(kind))
        .or_else(|| check::eval(kind))
        .or_else(|| dynamic::eval(kind))
        .or_else(|| quantized::eval(kind))
        .or_else(|| chlo::eval(kind))
        .or_else(|| contraction::eval(kind))
        .or_else(|| convolution::eval(kind))
        .or_else(|| reduction::eval(kind))
        .or_else(|| indexing::eval(kind))
        .or_else(|| sorting::eval(kind))
        .or_else(|| fourier::eval(kind))
        .or_else(|| random::eval(kind))
        .or_else(|| batch_norm::eval(kind))
        .or_else(|| collectives::eval(kind))
        .or_else(|| linear_algebra::eval(kind))
}
