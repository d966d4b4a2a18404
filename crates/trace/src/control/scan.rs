//! `scan`: a loop of known length over slices of tensors, which carries values along and collects results.

use std::panic::Location;
use std::rc::Rc;

use crate::Spec;
use crate::control::same_leaves;
use crate::error::misuse;
use crate::graph::{Direction, Prim, Scan};
use crate::stack;
use crate::tensor::Tensor;
use crate::tree::Tree;

/// Runs `f` for each slice of `xs` along its first axis: it takes what is carried and a slice, and gives what is carried
/// on and a result; results are stacked. Compiled once, however long.
///
/// `length` is needed only where `xs` has no tensors.
#[track_caller]
pub fn scan<C: Tree, X: Tree, Y: Tree>(
    init: &C,
    xs: &X,
    length: Option<usize>,
    f: impl FnOnce(&C, &X) -> (C, Y),
) -> (C, Y) {
    directed(init, xs, length, Direction::Forward, f)
}

/// [`scan`] from the last slice to the first; the result of a slice stays at its place.
#[track_caller]
pub fn scan_reversed<C: Tree, X: Tree, Y: Tree>(
    init: &C,
    xs: &X,
    length: Option<usize>,
    f: impl FnOnce(&C, &X) -> (C, Y),
) -> (C, Y) {
    directed(init, xs, length, Direction::Backward, f)
}

/// The loop from one end or the other.
#[track_caller]
pub(crate) fn directed<C: Tree, X: Tree, Y: Tree>(
    init: &C,
    xs: &X,
    length: Option<usize>,
    direction: Direction,
    f: impl FnOnce(&C, &X) -> (C, Y),
) -> (C, Y) {
    let at = Location::caller();
    let mut slices = Vec::new();
    let mut length = length;
    for (path, spec) in xs.paths().iter().zip(xs.specs()) {
        match (spec.dims.first(), length) {
            (Some(&size), None) => length = Some(size),
            (Some(&size), Some(length)) if size == length => {}
            _ => misuse(at, format!("scan over {} slices: `{path}` is {spec}", length.unwrap_or(0))),
        }
        slices.push(Spec::new(spec.dtype, &spec.dims[1..]));
    }
    let Some(length) = length else { misuse(at, "scan over no tensors: give its length") };
    let carried = init.specs();
    let mut results = None;
    let specs: Vec<Spec> = carried.iter().cloned().chain(slices.iter().cloned()).collect();
    let mut closed = stack::closed(&specs, |args| {
        let carry = init.with_leaves(args[..carried.len()].iter().cloned());
        let slice = xs.with_leaves(args[carried.len()..].iter().cloned());
        let (next, result) = f(&carry, &slice);
        same_leaves(at, "what a scan carries", &carry, &next);
        let outputs = next.leaves().into_iter().chain(result.leaves()).collect();
        results = Some(result.shapes());
        outputs
    });
    let explicit = closed.graph.inputs.len() - closed.captured.len();
    closed.graph.inputs.rotate_left(explicit);
    let scan = Scan { body: closed.graph, consts: closed.captured.len(), carries: carried.len(), length, direction };
    let inputs: Vec<Tensor> = closed.captured.into_iter().chain(init.leaves()).chain(xs.leaves()).collect();
    let outputs = push(scan, &inputs, at);
    let (carry, stacks) = outputs.split_at(carried.len());
    let Some(results) = results else { unreachable!("the body was traced") };
    (init.with_leaves(carry.iter().cloned()), results.with_leaves(stacks.iter().cloned()))
}

/// Writes the loop.
pub(crate) fn push(scan: Scan, inputs: &[Tensor], at: &'static Location<'static>) -> Vec<Tensor> {
    let results = scan.results();
    stack::push(Prim::Scan(Rc::new(scan)), &inputs.iter().collect::<Vec<_>>(), results, at)
}
