//! Derivatives as users call them, inside a traced function.

use std::panic::Location;

use crate::error::misuse;
use crate::stack;
use crate::tensor::Tensor;
use crate::transform::{forward, push_forward};
use crate::tree::Tree;

/// The gradient of a scalar function.
#[track_caller]
pub fn grad<P: Tree>(f: impl FnOnce(&P) -> Tensor, at: &P) -> P {
    value_and_grad(f, at).1
}

/// A scalar function's value and gradient.
#[track_caller]
pub fn value_and_grad<P: Tree>(f: impl FnOnce(&P) -> Tensor, at: &P) -> (Tensor, P) {
    let (value, (), gradient) = value_and_grad_with(|at| (f(at), ()), at);
    (value, gradient)
}

/// [`value_and_grad`] of a function that also gives other results, through which no gradient passes.
#[track_caller]
pub fn value_and_grad_with<P: Tree, A: Tree>(f: impl FnOnce(&P) -> (Tensor, A), at: &P) -> (Tensor, A, P) {
    let here = Location::caller();
    let specs = at.specs();
    if !specs.is_empty() && specs.iter().all(|spec| !spec.dtype.is_float() && !spec.dtype.is_complex()) {
        misuse(here, format!("a gradient with respect to {}: only floats are differentiable", specs[0]));
    }
    let ((value, others), pull) = vjp(f, at);
    if value.rank() != 0 || !value.dtype().is_float() {
        misuse(here, format!("grad needs a scalar float loss, not {}: take a mean or a sum", value.spec()));
    }
    let ct = (value.scalar_like(1.0), others.map_leaves(Tensor::zeros_like));
    let gradient = pull(&ct);
    (value, others, gradient)
}

/// A function's value, and its backward pass: cotangents of the inputs from those of the outputs.
#[track_caller]
pub fn vjp<I: Tree, O: Tree>(f: impl FnOnce(&I) -> O, at: &I) -> (O, impl FnOnce(&O) -> I) {
    let here = Location::caller();
    let (closed, result) = stack::closed_over(at, f);
    let inputs = at.leaves();
    let active: Vec<bool> = (0..closed.graph.inputs.len()).map(|n| n < inputs.len()).collect();
    let tensors: Vec<Tensor> = inputs.iter().chain(&closed.captured).cloned().collect();
    let (outputs, tape) = forward(&closed.graph, &tensors, &active);
    let shapes = at.shapes();
    let expected = result.specs();
    let pull = move |cts: &O| {
        for (given, wanted) in cts.specs().iter().zip(&expected) {
            if given != wanted {
                misuse(here, format!("the cotangent of a result of {wanted} is {given}"));
            }
        }
        let grads = tape.backward(cts.leaves().into_iter().map(Some).collect());
        let grads = grads.into_iter().zip(&inputs).map(|(grad, input)| grad.unwrap_or_else(|| input.zeros_like()));
        shapes.with_leaves(grads.collect::<Vec<_>>())
    };
    (result.with_leaves(outputs), pull)
}

/// A function's value and its change along tangents of the inputs.
#[track_caller]
pub fn jvp<I: Tree, O: Tree>(f: impl FnOnce(&I) -> O, at: &I, tangents: &I) -> (O, O) {
    let here = Location::caller();
    let (closed, result) = stack::closed_over(at, f);
    let (inputs, given) = (at.leaves(), tangents.leaves());
    if inputs.iter().map(Tensor::spec).ne(given.iter().map(Tensor::spec)) {
        misuse(here, "tangents have other types or shapes than the inputs");
    }
    let mut directions: Vec<Option<Tensor>> = given
        .into_iter()
        .map(|tangent| (tangent.dtype().is_float() || tangent.dtype().is_complex()).then_some(tangent))
        .collect();
    directions.resize(closed.graph.inputs.len(), None);
    let tensors: Vec<Tensor> = inputs.iter().chain(&closed.captured).cloned().collect();
    let (outputs, out_tangents) = push_forward(&closed.graph, &tensors, &directions);
    let filled: Vec<Tensor> = out_tangents
        .into_iter()
        .zip(&outputs)
        .map(|(tangent, out)| tangent.unwrap_or_else(|| out.zeros_like()))
        .collect();
    (result.with_leaves(outputs), result.with_leaves(filled))
}
