//! Softmax, its logarithm, and the logarithm of a sum of exponentials, with derivatives that need nothing but the result.

use std::panic::Location;
use std::rc::Rc;

use crate::graph::{Custom, Derivative, Exponentials, Prim};
use crate::line;
use crate::ops::only;
use crate::stack::{self, Closed};
use crate::tensor::Tensor;

impl Exponentials {
    /// The function, as ops.
    fn of(self, x: &Tensor, axis: usize) -> Tensor {
        let along = |tensor: &Tensor| tensor.expand(axis as isize);
        let top = x.max(&[axis]);
        match self {
            Exponentials::Softmax => {
                let exponentials = (x - &along(&top)).exp();
                let sum = exponentials.sum(&[axis]);
                exponentials / along(&sum)
            }
            Exponentials::LogSoftmax => {
                let shifted = x - &along(&top);
                let sum = shifted.exp().sum(&[axis]).log();
                shifted - along(&sum)
            }
            Exponentials::LogSum => {
                // An axis of infinities would give NaN.
                let top = top.is_finite().select(&top, &top.zeros_like());
                let shifted = x - &along(&top).broadcast_to(x.dims());
                &shifted.exp().sum(&[axis]).log() + &top
            }
        }
    }

    /// The tangent of the result `y`.
    pub(crate) fn pushed(self, axis: usize, x: &Tensor, y: &Tensor, tangent: &Tensor) -> Tensor {
        let along = |tensor: &Tensor| tensor.expand(axis as isize);
        match self {
            Exponentials::Softmax => y * &(tangent - &along(&(y * tangent).sum(&[axis]))),
            Exponentials::LogSoftmax => tangent - &along(&(&y.exp() * tangent).sum(&[axis])),
            Exponentials::LogSum => (&shares(x, y, axis) * tangent).sum(&[axis]),
        }
    }

    /// The cotangent of `x`.
    pub(crate) fn pulled(self, axis: usize, x: &Tensor, y: &Tensor, ct: &Tensor) -> Tensor {
        let along = |tensor: &Tensor| tensor.expand(axis as isize);
        match self {
            // Its matrix of derivatives is symmetric.
            Exponentials::Softmax => self.pushed(axis, x, y, ct),
            Exponentials::LogSoftmax => ct - &(&y.exp() * &along(&ct.sum(&[axis]))),
            Exponentials::LogSum => &shares(x, y, axis) * &along(ct),
        }
    }
}

/// What each element has in the sum whose logarithm is `y`.
fn shares(x: &Tensor, y: &Tensor, axis: usize) -> Tensor {
    // As in the function itself: an axis of infinities would give NaN.
    let finite = y.is_finite().select(y, &y.zeros_like());
    (x - &finite.expand(axis as isize).broadcast_to(x.dims())).exp()
}

impl Tensor {
    /// `log(sum(exp(x)))` along an axis, which is dropped; exact for large elements.
    #[track_caller]
    #[must_use]
    pub fn log_sum_exp(&self, axis: isize) -> Tensor {
        self.exponentials(Exponentials::LogSum, axis)
    }

    /// Exponentials along an axis, scaled to a sum of 1.
    #[track_caller]
    #[must_use]
    pub fn softmax(&self, axis: isize) -> Tensor {
        self.exponentials(Exponentials::Softmax, axis)
    }

    /// Logarithm of [`Tensor::softmax`].
    #[track_caller]
    #[must_use]
    pub fn log_softmax(&self, axis: isize) -> Tensor {
        self.exponentials(Exponentials::LogSoftmax, axis)
    }

    #[track_caller]
    fn exponentials(&self, function: Exponentials, axis: isize) -> Tensor {
        let _line = line::of(Location::caller());
        let axis = self.axis(axis);
        let closed = stack::closed(&[self.spec().clone()], |args| vec![function.of(&only(args), axis)]);
        only(with_derivative(closed, std::slice::from_ref(self), Derivative::Exponentials(function, axis)))
    }
}

/// Writes a traced function of these inputs with a derivative.
#[track_caller]
fn with_derivative(closed: Closed, inputs: &[Tensor], derivative: Derivative) -> Vec<Tensor> {
    let specs = closed.graph.output_specs();
    let tensors: Vec<&Tensor> = inputs.iter().chain(&closed.captured).collect();
    let custom = Custom { body: closed.graph, derivative };
    stack::push(Prim::Custom(Rc::new(custom)), &tensors, specs, Location::caller())
}
