//! Functions with a derivative of their own, and calls of code the compiler knows by name.

use std::fmt;
use std::panic::Location;
use std::rc::Rc;

use hlo::{Attr, Attrs, OpKind};

use crate::Spec;
use crate::control::{batched_body, spread};
use crate::error::misuse;
use crate::graph::{Graph, Prim};
use crate::ops::softmax::Exponentials;
use crate::ops::{attrs, write};
use crate::sharding::{current_rules, lane_axes, with_lane_axes, with_rules};
use crate::stack;
use crate::tensor::Tensor;
use crate::transform::{self, Lane, Pull};
use crate::tree::Tree;

/// Results and their tangents; `None` is zero.
type Pushed = (Vec<Tensor>, Vec<Option<Tensor>>);

/// Cotangents of the inputs from inputs, outputs and cotangents of the outputs.
type Backward = dyn Fn(&[Tensor], &[Tensor], &[Tensor]) -> Vec<Tensor>;

/// Where a derivative comes from.
pub(crate) enum Derivative {
    /// The user, for the backward pass only.
    Given(Box<Backward>),
    /// The rule of a function of one tensor along an axis, in both directions.
    Exponentials(Exponentials, usize),
}

/// A graph with a derivative of its own.
pub(crate) struct Custom {
    pub(crate) body: Graph,
    derivative: Derivative,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom").field("body", &self.body).finish_non_exhaustive()
    }
}

impl Custom {
    /// Cotangents of the first inputs; the others have none.
    fn pulled(&self, ins: &[Tensor], outs: &[Tensor], cts: &[Tensor]) -> Vec<Tensor> {
        match &self.derivative {
            Derivative::Given(backward) => backward(ins, outs, cts),
            Derivative::Exponentials(function, axis) => vec![function.pulled(*axis, &ins[0], &outs[0], &cts[0])],
        }
    }
}

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
        let grads = stack::as_user(|| backward(&ins, &with(outs), &with(cts))).leaves();
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

/// Writes a traced function of these inputs with a derivative.
#[track_caller]
pub(crate) fn with_derivative(closed: stack::Closed, inputs: &[Tensor], derivative: Derivative) -> Vec<Tensor> {
    let specs = closed.graph.output_specs();
    let tensors: Vec<&Tensor> = inputs.iter().chain(&closed.captured).collect();
    let custom = Custom { body: closed.graph, derivative };
    stack::push(Prim::Custom(Rc::new(custom)), &tensors, specs, Location::caller())
}

/// The function again.
fn again(custom: &Rc<Custom>, ins: &[Tensor]) -> Vec<Tensor> {
    let specs = custom.body.output_specs();
    stack::push(Prim::Custom(custom.clone()), &ins.iter().collect::<Vec<_>>(), specs, Location::caller())
}

/// The function with the tangents of its results; nothing where it has a backward pass only.
pub(crate) fn jvp(custom: &Rc<Custom>, ins: &[Tensor], tangents: &[Option<Tensor>]) -> Option<Pushed> {
    let Derivative::Exponentials(function, axis) = custom.derivative else { return None };
    let outs = again(custom, ins);
    let pushed = tangents[0].as_ref().map(|tangent| function.pushed(axis, &ins[0], &outs[0], tangent));
    Some((outs, vec![pushed]))
}

/// The function as run when its derivative is wanted, with those of its results that are known already.
pub(crate) fn vjp(custom: &Rc<Custom>, ins: &[Tensor], known: &[Option<&Tensor>]) -> (Vec<Tensor>, Pull) {
    let mut outs = match custom.derivative {
        // Its ops have tangents and second derivatives where the given pass has none.
        Derivative::Given(_) => transform::replay(&custom.body, ins),
        Derivative::Exponentials(..) => again(custom, ins),
    };
    for (out, known) in outs.iter_mut().zip(known) {
        if let Some(known) = known {
            *out = (*known).clone();
        }
    }
    let (custom, ins, results) = (custom.clone(), ins.to_vec(), outs.clone());
    let pull: Pull = Box::new(move |cts| {
        let cts: Vec<Tensor> =
            cts.iter().zip(&results).map(|(ct, out)| ct.clone().unwrap_or_else(|| out.zeros_like())).collect();
        let grads = custom.pulled(&ins, &results, &cts);
        let mut grads: Vec<Option<Tensor>> = grads.into_iter().map(Some).collect();
        grads.resize(ins.len(), None);
        grads
    });
    (outs, pull)
}

/// A call of code the compiler of the target knows by name; it has no derivative unless [`custom_vjp`] gives one.
#[track_caller]
pub fn custom_call(target: &str, inputs: &[Tensor], results: &[Spec], backend_config: &str) -> Vec<Tensor> {
    let attrs: Attrs =
        attrs([("call_target_name", Attr::string(target)), ("backend_config", Attr::string(backend_config))]);
    write((OpKind::CustomCall, attrs, None), &inputs.iter().collect::<Vec<_>>(), Some(results.to_vec()))
}

/// The function for a batch; its backward pass is the given one, for a batch.
pub(crate) fn batched(custom: &Rc<Custom>, ins: &[Lane], size: usize, at: &'static Location<'static>) -> Vec<Tensor> {
    let closed = batched_body(&custom.body, ins, size, |outs| spread(outs, size));
    let specs = closed.graph.output_specs();
    let tensors: Vec<Tensor> = ins.iter().map(|lane| lane.tensor.clone()).chain(closed.captured).collect();
    if let Derivative::Exponentials(function, axis) = custom.derivative {
        // The axis of the batch comes first.
        let custom = Custom { body: closed.graph, derivative: Derivative::Exponentials(function, axis + 1) };
        return stack::push(Prim::Custom(Rc::new(custom)), &tensors.iter().collect::<Vec<_>>(), specs, at);
    }
    let flags: Vec<bool> = ins.iter().map(|lane| lane.is_batched).collect();
    let inner = custom.clone();
    // The backward pass is written later, by whoever wants the derivative: it is laid out as this pass is.
    let (around, axes) = (current_rules(), lane_axes());
    let backward = move |ins: &[Tensor], outs: &[Tensor], cts: &[Tensor]| {
        let ins = &ins[..flags.len()];
        let lanes: Vec<Lane> = ins
            .iter()
            .zip(&flags)
            .map(|(tensor, &is_batched)| Lane { tensor: tensor.clone(), is_batched })
            .chain(outs.iter().chain(cts).cloned().map(Lane::batched))
            .collect();
        let example = |lane: &Lane| {
            let dims = &lane.tensor.dims()[usize::from(lane.is_batched)..];
            Spec::new(lane.tensor.dtype(), dims)
        };
        let specs: Vec<Spec> = lanes.iter().map(example).collect();
        let grads = with_rules(around.clone(), || {
            let one = stack::closed(&specs, |args| {
                let (ins, rest) = args.split_at(ins.len());
                let (outs, cts) = rest.split_at(outs.len());
                inner.pulled(ins, outs, cts)
            });
            let lanes: Vec<Lane> = lanes.into_iter().chain(one.captured.into_iter().map(Lane::shared)).collect();
            with_lane_axes(&axes, || spread(transform::batch(&one.graph, &lanes, size), size))
        });
        // What all examples share has the sum of their gradients.
        let summed = |(grad, &is_batched): (Tensor, &bool)| if is_batched { grad } else { grad.sum(&[0]) };
        grads.into_iter().zip(&flags).map(summed).collect()
    };
    let custom = Custom { body: closed.graph, derivative: Derivative::Given(Box::new(backward)) };
    stack::push(Prim::Custom(Rc::new(custom)), &tensors.iter().collect::<Vec<_>>(), specs, at)
}
