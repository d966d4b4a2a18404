//! Offload of activations: what a loop over layers stacks for the backward loop waits in the host's memory in between.

use hlo::memory_kind::{DEVICE, PINNED_HOST, placement, row_major};
use hlo::{Attrs, Func, NewOp, OpId, OpKind, Region, Value, Verified};

use super::rematerialize::inlined_but_kernels;
use super::stacks::{Stack, Uses, bytes_of, defining, new};
use crate::error::CompileError;

/// A program that saves activations in the host's memory.
#[derive(Clone, Debug)]
pub struct OffloadedActivations {
    /// The program.
    pub module: Verified,
    /// Stacks that are there.
    pub stacks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The program whose loops keep saved activations in the host's memory, stacks of at least so many bytes; `None` where no loop
/// saves any for another, or all of them are there already.
pub fn offload_activations(module: &Verified, least_bytes: u64) -> Result<Option<OffloadedActivations>, CompileError> {
    let mut module = inlined_but_kernels(module)?.into_inner();
    let name = module.entry().map(|func| func.name.clone());
    let Some(func) = module.funcs.iter_mut().find(|func| Some(&func.name) == name.as_ref()) else { return Ok(None) };
    let uses = Uses::of(func);
    let loops: Vec<OpId> = func.walk().into_iter().filter(|id| func.op(*id).kind() == Some(OpKind::While)).collect();
    let (mut stacks, mut bytes) = (0, 0u64);
    for forward in loops {
        let &[_, body] = &func.op(forward).regions[..] else { continue };
        let count = func.region(body).args.len();
        let found: Vec<Stack> = (0..count)
            .filter_map(|n| Stack::of(func, &uses, forward, body, n))
            .filter(|stack| may_wait(func, stack, least_bytes))
            .collect();
        for stack in &found {
            send(func, body, stack);
            stacks += 1;
            bytes = bytes.saturating_add(bytes_of(func, stack.result));
        }
    }
    if stacks == 0 {
        return Ok(None);
    }
    Ok(Some(OffloadedActivations { module: hlo::verify(module)?, stacks, bytes }))
}

/// Whether a stack holds activations that only a later loop reads, and is worth a transfer.
fn may_wait(func: &Func, stack: &Stack, least_bytes: u64) -> bool {
    let element = func.ty(stack.update).as_tensor().and_then(|ty| ty.element.plain());
    let target = placement(PINNED_HOST).get("call_target_name").cloned();
    let is_there = defining(func, stack.update).is_some_and(|op| op.attr("call_target_name") == target.as_ref());
    stack.reads.is_some()
        && element.is_some_and(|dtype| dtype.is_float())
        && bytes_of(func, stack.result) >= least_bytes
        && !is_there
}

/// Every round sends what it adds, and every reader brings it back.
fn send(func: &mut Func, body: Region, stack: &Stack) {
    let rank = func.ty(stack.update).as_tensor().map_or(0, |ty| ty.rank());
    // Otherwise the loop that writes and the loop that reads may choose layouts of their own, and all of it is transposed in between.
    let ordered = call_before(func, body, stack.write, stack.update, row_major(rank));
    let sent = call_before(func, body, stack.write, ordered, placement(PINNED_HOST));
    if let Some(update) = func.op_mut(stack.write).operands.get_mut(1) {
        *update = sent;
    }
    for read in stack.reads.iter().flatten() {
        let slice = func.op(read.slice).first_result;
        let after = func.region(read.region).ops.iter().skip_while(|id| **id != read.slice).nth(1).copied();
        let Some(after) = after else { continue };
        let readers: Vec<OpId> = func.walk();
        let fetched = call_before(func, read.region, after, slice, placement(DEVICE));
        for id in readers {
            func.op_mut(id)
                .operands
                .iter_mut()
                .filter(|operand| **operand == slice)
                .for_each(|operand| *operand = fetched);
        }
    }
}

/// A call on a value, in front of an op of the same region.
fn call_before(func: &mut Func, region: Region, before: OpId, value: Value, attrs: Attrs) -> Value {
    let results = vec![func.ty(value).clone()];
    let call = func.add_op(region, NewOp { operands: vec![value], results, attrs, ..new(OpKind::CustomCall) });
    let ops = &mut func.regions[region.0 as usize].ops;
    if let Some(at) = ops.iter().position(|id| *id == before) {
        ops[at..].rotate_right(1);
    }
    func.op(call).first_result
}
