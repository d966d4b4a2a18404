//! Functions with a derivative of their own, differentiated by it, and for a batch.

use std::panic::Location;
use std::rc::Rc;

use crate::Spec;
use crate::graph::{Custom, Derivative, Prim};
use crate::ops::lane::Lane;
use crate::sharding::{current_rules, lane_axes, with_lane_axes, with_rules};
use crate::stack;
use crate::tensor::Tensor;
use crate::transform::nodes::{batched_body, spread};
use crate::transform::{self, Pull};

/// Results and their tangents; `None` is zero.
type Pushed = (Vec<Tensor>, Vec<Option<Tensor>>);

impl Custom {
    /// Cotangents of the first inputs; the others have none.
    fn pulled(&self, ins: &[Tensor], outs: &[Tensor], cts: &[Tensor]) -> Vec<Tensor> {
        match &self.derivative {
            Derivative::Given(backward) => backward(ins, outs, cts),
            Derivative::Exponentials(function, axis) => vec![function.pulled(*axis, &ins[0], &outs[0], &cts[0])],
        }
    }
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
