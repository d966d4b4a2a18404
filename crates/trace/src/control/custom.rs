//! Functions with a derivative of their own, and calls of code the compiler knows by name.

use std::panic::Location;
use std::rc::Rc;

use hlo::{Attr, Attrs, OpKind};

use crate::Spec;
use crate::error::misuse;
use crate::graph::{Custom, Derivative, Prim};
use crate::line;
use crate::ops::{attrs, write};
use crate::stack;
use crate::tensor::Tensor;
use crate::tree::Tree;

/// Runs `f`; its gradient is what `backward` makes of the inputs, the outputs and the gradient of the outputs.
///
/// Outer tensors that `f` uses without taking them as inputs count as constants.
#[track_caller]
pub fn custom_vjp<I: Tree + Clone + 'static, O: Tree + Clone + 'static>(
    inputs: &I,
    f: impl FnOnce(&I) -> O,
    backward: impl Fn(&I, &O, &O) -> I + 'static,
) -> O {
    let at = Location::caller();
    let (closed, result) = stack::closed_over(inputs, f);
    let specs = closed.graph.output_specs();
    let tensors: Vec<Tensor> = inputs.leaves().into_iter().chain(closed.captured).collect();
    let (in_tree, out_tree) = (inputs.shapes(), result.clone());
    let num_inputs = in_tree.specs().len();
    let backward = move |ins: &[Tensor], outs: &[Tensor], cts: &[Tensor]| {
        let ins = in_tree.with_leaves(ins[..num_inputs].iter().cloned());
        let with = |tensors: &[Tensor]| out_tree.with_leaves(tensors.iter().cloned());
        let grads = line::as_user(|| backward(&ins, &with(outs), &with(cts))).leaves();
        for (given, input) in grads.iter().zip(ins.leaves()) {
            if given.spec() != input.spec() {
                misuse(at, format!("the gradient given for an input of {} is {}", input.spec(), given.spec()));
            }
        }
        grads
    };
    let custom = Custom { body: closed.graph, derivative: Derivative::Given(Box::new(backward)) };
    let outputs = stack::push(Prim::Custom(Rc::new(custom)), &tensors.iter().collect::<Vec<_>>(), specs, at);
    result.with_leaves(outputs)
}

/// A call of code the compiler of the target knows by name; it has no derivative unless [`custom_vjp`] gives one.
#[track_caller]
pub fn custom_call(target: &str, inputs: &[Tensor], results: &[Spec], backend_config: &str) -> Vec<Tensor> {
    let attrs: Attrs =
        attrs([("call_target_name", Attr::string(target)), ("backend_config", Attr::string(backend_config))]);
    write((OpKind::CustomCall, attrs, None), &inputs.iter().collect::<Vec<_>>(), Some(results.to_vec()))
}
