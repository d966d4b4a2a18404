//! Stacks: what each round of a loop adds to an array that the loop carries, and the slices that later loops take of it. So do loops over
//! layers save activations for the backward pass.

use std::collections::HashMap;

use hlo::{Attr, Definition, Func, NewOp, Op, OpId, OpKind, OpName, Region, Type, Value};

/// What one round of a loop adds to a stack that it carries.
#[derive(Debug)]
pub(super) struct Stack {
    /// The stack, behind the loop.
    pub(super) result: Value,
    /// The carried value that says which round it is.
    pub(super) counter: usize,
    /// What is added, with an axis of size 1 in front.
    pub(super) update: Value,
    /// The same without that axis, where it is made of that.
    pub(super) source: Value,
    /// The op that adds it.
    pub(super) write: OpId,
    /// Where later loops read it, if they alone do and iteration by iteration.
    pub(super) reads: Option<Vec<Read>>,
}

/// A slice that a later loop takes of a stack.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) region: Region,
    pub(super) slice: OpId,
    /// The round it is of.
    pub(super) at: Value,
    /// Another start of the slice; axes are taken whole, so any value does.
    pub(super) start: Option<Value>,
}

impl Stack {
    /// Carried value `n` of a loop, if each iteration writes its slice of it and does nothing else with it.
    pub(super) fn of(func: &Func, uses: &Uses, forward: OpId, body: Region, n: usize) -> Option<Stack> {
        let arg = *func.region(body).args.get(n)?;
        let Definition::Result(id, _) = func.value(*returned(func, body)?.get(n)?).definition else { return None };
        let write = func.op(id);
        let &[whole, update, at, ..] = &write.operands[..] else { return None };
        let Definition::Argument(region, counter) = func.value(at).definition else { return None };
        let is_write = write.kind() == Some(OpKind::DynamicUpdateSlice) && whole == arg && region == body;
        if !is_write || uses.of_value(arg).len() != 1 || !takes_one(func.ty(arg), func.ty(update)) {
            return None;
        }
        let result = Value(func.op(forward).first_result.0 + n as u32);
        let reads = reads(func, uses, forward, result);
        Some(Stack { result, counter: counter as usize, update, source: source(func, update), write: id, reads })
    }
}

/// What an axis of size 1 was put in front of.
fn source(func: &Func, update: Value) -> Value {
    let Some(op) = defining(func, update) else { return update };
    let dims = |value: Value| func.ty(value).as_tensor().map(|ty| ty.dims.to_vec());
    let Some(&from) = op.operands.first() else { return update };
    let is_same = dims(update).is_some_and(|dims_of| dims(from).is_some_and(|from| dims_of[1..] == from[..]));
    let is_plain = match op.kind() {
        Some(OpKind::Reshape) => true,
        Some(OpKind::BroadcastInDim) => {
            let axes = op.attr("broadcast_dimensions").and_then(Attr::as_i64s).unwrap_or_default();
            axes.iter().zip(1..).all(|(axis, n)| *axis == n)
        }
        _ => false,
    };
    if is_same && is_plain { from } else { update }
}

/// Whether a slice has one of the first axis of a whole, and all of the others.
fn takes_one(whole: &Type, slice: &Type) -> bool {
    match (whole.as_tensor(), slice.as_tensor()) {
        (Some(whole), Some(slice)) => {
            slice.dims.first() == Some(&1) && slice.dims.len() == whole.dims.len() && slice.dims[1..] == whole.dims[1..]
        }
        _ => false,
    }
}

/// A slice of one round that a loop takes of a stack, which it carries or reads from outside.
fn slice_of(func: &Func, uses: &Uses, (reader, operand): (OpId, usize), stack: Value, body: Region) -> Option<Read> {
    let op = func.op(reader);
    let is_slice = op.kind() == Some(OpKind::DynamicSlice) && operand == 0 && uses.region(reader) == Some(body);
    if !is_slice || !takes_one(func.ty(stack), func.ty(op.first_result)) {
        return None;
    }
    Some(Read { region: body, slice: reader, at: *op.operands.get(1)?, start: op.operands.get(2).copied() })
}

/// Slices that later loops take of a value, if nothing else reads it.
fn reads(func: &Func, uses: &Uses, forward: OpId, value: Value) -> Option<Vec<Read>> {
    let mut reads = Vec::new();
    for &(id, position) in uses.of_value(value) {
        let op = func.op(id);
        // A loop need not carry what no round changes: its body may read it from outside.
        let is_beside = |body: &Region| {
            uses.bodies.get(body).is_some_and(|&of| of != forward && uses.region(of) == uses.region(forward))
        };
        if let Some(body) = uses.region(id).filter(is_beside) {
            reads.push(slice_of(func, uses, (id, position), value, body)?);
            continue;
        }
        let (OpKind::While, &[condition, body]) = (op.kind()?, &op.regions[..]) else { return None };
        let arg = *func.region(body).args.get(position)?;
        let is_same = *returned(func, body)?.get(position)? == arg;
        let in_condition = *func.region(condition).args.get(position)?;
        let behind = Value(op.first_result.0 + position as u32);
        if id == forward || !is_same || !uses.of_value(in_condition).is_empty() || !uses.of_value(behind).is_empty() {
            return None;
        }
        for &(reader, operand) in uses.of_value(arg) {
            let op = func.op(reader);
            if op.kind() == Some(OpKind::Return) && Some(&reader) == func.region(body).ops.last() {
                continue;
            }
            reads.push(slice_of(func, uses, (reader, operand), arg, body)?);
        }
    }
    (!reads.is_empty()).then_some(reads)
}

/// Who reads each value, and as which operand; where ops are.
pub(super) struct Uses {
    readers: HashMap<Value, Vec<(OpId, usize)>>,
    regions: HashMap<OpId, Region>,
    /// Bodies of loops.
    bodies: HashMap<Region, OpId>,
}

impl Uses {
    pub(super) fn of(func: &Func) -> Uses {
        let mut uses = Uses { readers: HashMap::new(), regions: HashMap::new(), bodies: HashMap::new() };
        for (n, data) in func.regions.iter().enumerate() {
            uses.regions.extend(data.ops.iter().map(|&id| (id, Region(n as u32))));
        }
        for id in func.walk() {
            let op = func.op(id);
            for (position, &operand) in op.operands.iter().enumerate() {
                uses.readers.entry(operand).or_default().push((id, position));
            }
            if let (Some(OpKind::While), &[_, body]) = (op.kind(), &op.regions[..]) {
                uses.bodies.insert(body, id);
            }
        }
        uses
    }

    fn of_value(&self, value: Value) -> &[(OpId, usize)] {
        self.readers.get(&value).map_or(&[], Vec::as_slice)
    }

    fn region(&self, op: OpId) -> Option<Region> {
        self.regions.get(&op).copied()
    }
}

pub(super) fn bytes_of(func: &Func, value: Value) -> u64 {
    let Some(ty) = func.ty(value).as_tensor() else { return 0 };
    let bits = ty.element.plain().map_or(0, |dtype| u64::from(dtype.bits()));
    ty.num_elements().and_then(|count| count.checked_mul(bits)).map_or(0, |bits| bits / 8)
}

/// An op of this kind, to be filled in.
pub(super) fn new(kind: OpKind) -> NewOp {
    NewOp::new(OpName::Known(kind))
}

pub(super) fn defining(func: &Func, value: Value) -> Option<&Op> {
    match func.value(value).definition {
        Definition::Result(id, _) => Some(func.op(id)),
        Definition::Argument(..) => None,
    }
}

pub(super) fn returned(func: &Func, region: Region) -> Option<&[Value]> {
    let last = func.op(*func.region(region).ops.last()?);
    (last.kind() == Some(OpKind::Return)).then_some(&last.operands)
}
