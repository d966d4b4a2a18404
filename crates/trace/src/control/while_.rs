//! `while_loop`: a loop whose length is computed; it has tangents, but no backward pass.

use std::panic::Location;
use std::rc::Rc;

use tensor::DType;

use crate::control::same_leaves;
use crate::error::misuse;
use crate::graph::{Prim, While};
use crate::stack;
use crate::tensor::Tensor;
use crate::tree::Tree;

/// Runs `body` on what is carried as long as `condition` holds.
///
/// Memory for a backward pass would grow with the number of iterations, which is not known: use [`crate::scan`] where a
/// gradient is wanted.
#[track_caller]
pub fn while_loop<C: Tree>(init: &C, condition: impl FnOnce(&C) -> Tensor, body: impl FnOnce(&C) -> C) -> C {
    let at = Location::caller();
    let specs = init.specs();
    let mut condition = stack::closed(&specs, |args| {
        let holds = condition(&init.with_leaves(args));
        if holds.dtype() != DType::Bool || holds.rank() != 0 {
            misuse(at, format!("a condition is a boolean scalar, not {}", holds.spec()));
        }
        vec![holds]
    });
    let mut body = stack::closed(&specs, |args| {
        let carry = init.with_leaves(args);
        let next = body(&carry);
        same_leaves(at, "what a loop carries", &carry, &next);
        next.leaves()
    });
    condition.graph.inputs.rotate_left(specs.len());
    body.graph.inputs.rotate_left(specs.len());
    let looped = While {
        condition: condition.graph,
        condition_consts: condition.captured.len(),
        body: body.graph,
        body_consts: body.captured.len(),
    };
    let inputs: Vec<Tensor> = condition.captured.into_iter().chain(body.captured).chain(init.leaves()).collect();
    let outputs = push(looped, &inputs, at);
    init.with_leaves(outputs)
}

/// Writes the loop; the node's inputs are the constants of the condition, of the body, and what is carried.
fn push(looped: While, inputs: &[Tensor], at: &'static Location<'static>) -> Vec<Tensor> {
    let specs = looped.body.output_specs();
    stack::push(Prim::While(Rc::new(looped)), &inputs.iter().collect::<Vec<_>>(), specs, at)
}
