//! `composite`: a function under a name that a compiler may know a better way for.

use std::panic::Location;
use std::rc::Rc;

use hlo::Attrs;

use crate::graph::{Composite, Prim};
use crate::stack;
use crate::tensor::Tensor;
use crate::tree::Tree;

/// Runs `f` as one op of the program by that name, as in `space.op`, with attributes: compilers that know it may compute it
/// in another way, all others run `f`. Its derivative is that of `f`.
#[track_caller]
pub fn composite<I: Tree, O: Tree>(name: &str, attributes: Attrs, inputs: &I, f: impl FnOnce(&I) -> O) -> O {
    let at = Location::caller();
    let (closed, result) = stack::closed_over(inputs, f);
    let specs = closed.graph.output_specs();
    let tensors: Vec<Tensor> = inputs.leaves().into_iter().chain(closed.captured).collect();
    let composite = Composite { name: name.into(), attributes, body: closed.graph };
    let outputs = stack::push(Prim::Composite(Rc::new(composite)), &tensors.iter().collect::<Vec<_>>(), specs, at);
    result.with_leaves(outputs)
}
