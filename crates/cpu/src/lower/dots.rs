//! Dots and what is done with them at once: loops that finish each block, transposes, attention.

use std::collections::{BTreeSet, HashMap};

use hlo::{Definition, Func, OpId, OpKind, Region, Value};
use tensor::DType;

use super::block::{Lowering, Origin};
use super::fuse::Fusion;
use super::group::{LoopKernel, Lowered};
use super::mask::{self, Mask};
use super::ops;
use super::ops::contraction::{self, Finish, PendingDot};
use super::softmax::{self, Known};
use super::view::{View, array_type, is_transparent, row_major};
use crate::error::Error;
use crate::kernels::attention::{Attention, Softmax, Tiled};
use crate::kernels::loops::Ready;
use crate::kernels::loops::ir::{Access, Inst, Loop, Write};
use crate::memory::Packing;
use crate::program::Slot;

/// A dot and the loop over its rows, before the dot that reads them.
pub(crate) struct Chain {
    pub(super) own: Slot,
    pub(super) dot: PendingDot,
    pub(super) lowered: Lowered,
    /// Ops of both.
    pub(super) ops: Vec<OpId>,
}

impl Lowering<'_> {
    /// Whether a dot waits for the loop that finishes it.
    pub(crate) fn defers(&self, value: Value) -> bool {
        self.finished_by.contains_key(&value)
    }

    pub(crate) fn defer(&mut self, value: Value, dot: PendingDot) -> Result<(), Error> {
        self.result_slot(value)?;
        self.deferred.insert(value, dot);
        Ok(())
    }

    /// The value that a dot gives: its result, or the transpose of it.
    pub(crate) fn dot_value(&self, id: OpId) -> Value {
        self.transposed.get(&id).copied().unwrap_or(self.func.op(id).first_result)
    }

    /// The dot that gives a value, and the transpose that it makes unnecessary.
    pub(super) fn dot_ops(&self, value: Value) -> Vec<OpId> {
        let Definition::Result(id, _) = self.func.value(value).definition else { return Vec::new() };
        let dot = self.transposed.iter().find(|(_, transpose)| **transpose == value).map(|(dot, _)| *dot);
        dot.into_iter().chain([id]).collect()
    }

    /// Dots whose only user exchanges rows and columns: the dot is made the other way round at once.
    pub(super) fn find_transposed(&mut self, region: Region, uses: &HashMap<Value, Vec<(OpId, usize)>>) {
        let func = self.func;
        for &id in &func.region(region).ops {
            let op = func.op(id);
            if op.kind() != Some(OpKind::DotGeneral) {
                continue;
            }
            let Some(&[(user, _)]) = uses.get(&op.first_result).map(Vec::as_slice) else { continue };
            let user = func.op(user);
            if user.kind() == Some(OpKind::Transpose) && contraction::is_exchanged(self, op, user) {
                self.transposed.insert(id, user.first_result);
            }
        }
    }

    /// Dots that only one loop reads, so that it can work on each block as soon as it is there.
    pub(super) fn find_finished(&mut self, region: Region, uses: &HashMap<Value, Vec<(OpId, usize)>>, fusion: &Fusion) {
        let func = self.func;
        let mut taken: BTreeSet<u32> = BTreeSet::new();
        for &id in func.region(region).ops.iter().rev() {
            let op = func.op(id);
            if !matches!(op.kind(), Some(OpKind::DotGeneral | OpKind::Dot | OpKind::Convolution)) {
                continue;
            }
            let Some(group) = only_group(func, op.first_result, uses, fusion) else { continue };
            let loops = &fusion.groups[group as usize];
            let size = |dims: &[usize]| dims.iter().product::<usize>();
            let Some((_, dims)) = array_type(func.ty(op.first_result)) else { continue };
            if loops.row_dims == 0 && !loops.has_combined() && size(&loops.dims) == size(&dims) && taken.insert(group) {
                self.finished_by.insert(self.dot_value(id), group);
            }
        }
    }

    /// Row loops between two dots: attention, whose matrix of weights need not exist as a whole.
    pub(super) fn find_chained(&mut self, region: Region, uses: &HashMap<Value, Vec<(OpId, usize)>>, fusion: &Fusion) {
        let func = self.func;
        let mut finishing: BTreeSet<u32> = self.finished_by.values().copied().collect();
        for &id in &func.region(region).ops {
            let op = func.op(id);
            if op.kind() != Some(OpKind::DotGeneral) {
                continue;
            }
            let Some(number) = only_group(func, op.first_result, uses, fusion) else { continue };
            let group = &fusion.groups[number as usize];
            let taken = self.chained.contains_key(&number) || finishing.contains(&number);
            let outputs: Vec<Value> = group.outputs.iter().copied().collect();
            let &[weights] = &outputs[..] else { continue };
            if group.row_dims != 1 || group.has_combined() || taken || group.dims.last().is_none_or(|&n| n < 16) {
                continue;
            }
            // The one user of the weights is a dot that has them on its left.
            let Some(user) = only_user(func, weights, uses) else { continue };
            let is_dot = func.op(user.0).kind() == Some(OpKind::DotGeneral) && user.1 == 0;
            let is_plain = !self.transposed.contains_key(&user.0) && !self.transposed.contains_key(&id);
            if is_dot && is_plain {
                self.chained.insert(number, weights);
                self.finished_by.insert(op.first_result, number);
                finishing.insert(number);
            }
        }
    }

    /// The chain whose weights lie in a slot.
    pub(crate) fn take_chain(&mut self, weights: Slot) -> Option<Chain> {
        let at = self.chains.iter().position(|chain| chain.lowered.outputs == [weights])?;
        Some(self.chains.remove(at))
    }

    /// Two dots and the rows between them as one step, or as the three they are where their shapes do not fit.
    pub(crate) fn finish_chain(&mut self, chain: Chain, last: PendingDot, result: Value) -> Result<(), Error> {
        let slot = self.result_slot(result)?;
        let Chain { own, dot, lowered, ops } = chain;
        let (first, second) = (&dot.problem, &last.problem);
        let dims = [first.batch, first.m, first.n];
        let is_dense = second.lhs.col_stride == 1
            && second.lhs.row_stride == first.n as isize
            && (second.batch == 1 || second.lhs.batch_stride == (first.m * first.n) as isize);
        let is_one_type = [first, second].iter().all(|problem| problem.lhs.dtype == problem.rhs.dtype);
        let fits = is_dense
            && is_one_type
            && (second.batch, second.m, second.k) == (first.batch, first.m, first.n)
            && last.offsets[0] == 0
            && first.m >= 16
            && dot.multiply.is_plain()
            && last.multiply.is_plain()
            && lowered.inputs.len() <= Attention::MAX_READS;
        let code = fits.then(|| with_three_dims(&lowered.code, &dims)).flatten();
        let in_order = code.as_ref().is_some_and(|code| {
            code.reads.iter().zip(&lowered.inputs).all(|(read, &slot)| slot != own || is_in_order(read, &dims))
                && code.writes.iter().all(|write| is_in_order(&write.access, &dims))
        });
        let code = code.filter(|_| in_order);
        let tiled = code.as_ref().and_then(|code| {
            let softmax = self.softmax_of(code, &lowered.inputs, own)?;
            Tiled::new(first, second, softmax, self.machine)
        });
        let Some(code) = code.filter(|_| tiled.is_some() || Attention::pays(first, second)) else {
            self.break_chain(Chain { own, dot, lowered, ops }, self.steps.len());
            contraction::push(self, last, slot);
            return Ok(());
        };
        let others: Vec<Slot> = lowered.inputs.iter().copied().filter(|&slot| slot != own).collect();
        let mut next = 0..others.len();
        let reads = lowered.inputs.iter().map(|&slot| if slot == own { None } else { next.next() }).collect();
        let mut inputs = vec![dot.inputs[0], dot.inputs[1], last.inputs[1]];
        inputs.extend(&others);
        let offsets = [dot.offsets[0], dot.offsets[1], last.offsets[1]];
        let ready = Ready::new(code, self.machine);
        self.computing.extend(ops);
        let attention = Attention::new(dot.problem, last.problem, ready, reads, tiled, self.machine);
        self.step(inputs, vec![slot], ops::attention::Step::new(attention, offsets));
        Ok(())
    }

    /// The softmax that a loop over `[batch, rows, columns]` is.
    fn softmax_of(&self, code: &Loop, inputs: &[Slot], own: Slot) -> Option<Softmax> {
        let [_, rows, columns] = code.dims[..] else { return None };
        // One matrix for the whole batch, and its slot.
        let matrix = |n: usize, dtype: DType| {
            let access = code.reads.get(n).filter(|access| access.dtype == dtype)?;
            mask::is_one_matrix(access, &code.dims).then(|| inputs.get(n).copied()).flatten()
        };
        let constant = |slot: Slot| match self.slots[slot.0 as usize].origin {
            Origin::Constant(at) => self.constants.get(at),
            _ => None,
        };
        let made = |slot: Slot| {
            let made = self.generated.get(&slot)?;
            let [write] = &made.writes[..] else { return None };
            let is_it = made.dims == [rows, columns] && is_in_order(&write.access, &made.dims);
            is_it.then_some((made, write.value))
        };
        let nothing = |_: usize| None;
        let runs = |n: usize| {
            let slot = matrix(n, DType::Bool)?;
            if let Some(bytes) = constant(slot) {
                return mask::runs_of(bytes, rows, columns, |&byte| byte != 0);
            }
            let (code, value) = made(slot)?;
            Mask { code, value, arrays: &nothing }.runs()
        };
        let bias = |n: usize| {
            let slot = matrix(n, DType::F32)?;
            if let Some(bytes) = constant(slot) {
                let number = |bytes: &[u8]| Some(f32::from_le_bytes(bytes.try_into().ok()?));
                let numbers = bytes.chunks(4).map(number).collect::<Option<Vec<f32>>>()?;
                return softmax::bias_of_numbers(&numbers, rows, columns);
            }
            let (code, value) = made(slot)?;
            softmax::bias_of(code, value, &nothing)
        };
        let is_scores = |n: usize| inputs.get(n) == Some(&own);
        softmax::recognise(code, &Known { is_scores: &is_scores, runs: &runs, bias: &bias })
    }

    /// The dot and the loop of a chain as two steps, before those from `start` on.
    pub(crate) fn break_chain(&mut self, chain: Chain, start: usize) {
        let Chain { own, dot, lowered, ops } = chain;
        let around = std::mem::replace(&mut self.computing, ops);
        let rest = self.steps.split_off(start);
        contraction::push(self, dot, own);
        let kernel = LoopKernel { ready: Ready::new(lowered.code, self.machine), label: lowered.label };
        self.step(lowered.inputs, lowered.outputs, kernel);
        self.steps.extend(rest);
        self.computing = around;
    }

    /// A dot and the loop that reads it as one step where the loop can go block by block, as two otherwise.
    pub(super) fn finish(&mut self, own: Slot, dot: PendingDot, lowered: Lowered) {
        let Lowered { code, inputs, mut outputs, label } = lowered;
        let problem = &dot.problem;
        let dims = [problem.batch, problem.m, problem.n];
        let Some(code) = reshaped(&code, &dims, &inputs, own) else {
            contraction::push(self, dot, own);
            let kernel = LoopKernel { ready: Ready::new(code, self.machine), label };
            return self.step(inputs, outputs, kernel);
        };
        let reads_own: Vec<usize> = (0..inputs.len()).filter(|&n| inputs[n] == own).collect();
        let types: Vec<(DType, bool)> =
            code.writes.iter().map(|write| (write.access.dtype, is_in_order(&write.access, &dims))).collect();
        let ready = Ready::new(code, self.machine);
        // The dot may lie where the loop puts a result of the same type.
        let place = (0..outputs.len()).find(|&n| {
            types[n] == (problem.out.dtype, true) && reads_own.iter().all(|&read| ready.in_place_ok(read, n))
        });
        let own_place = place.map_or(own, |n| outputs[n]);
        let others: Vec<Slot> = inputs.iter().copied().filter(|&slot| slot != own).collect();
        let mut next = 0;
        let reads = inputs
            .iter()
            .map(|&slot| {
                if slot == own {
                    return None;
                }
                next += 1;
                Some(next - 1)
            })
            .collect();
        let outputs = std::mem::take(&mut outputs);
        contraction::push_finished(self, dot, own_place, Finish { ready, reads, label }, others, outputs);
    }
}

/// The one group that computes everything a value is used for.
fn only_group(func: &Func, value: Value, uses: &HashMap<Value, Vec<(OpId, usize)>>, fusion: &Fusion) -> Option<u32> {
    let mut found = None;
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        for &(id, _) in uses.get(&value)? {
            let op = func.op(id);
            if is_transparent(func, op) {
                pending.extend(op.results());
                continue;
            }
            let &[home] = &fusion.homes.get(&id)?[..] else { return None };
            if found.is_some_and(|group| group != home.0) {
                return None;
            }
            found = Some(home.0);
        }
    }
    found
}

/// A loop over other sizes of the same dot, where every array can be read so, and `own` in order.
fn reshaped(code: &Loop, dims: &[usize], inputs: &[Slot], own: Slot) -> Option<Loop> {
    if code.insts.iter().any(|inst| matches!(inst, Inst::Index { .. } | Inst::Reduce(..))) {
        return None;
    }
    let access = |access: &Access| {
        let view = View {
            slot: own,
            dtype: access.dtype,
            packing: Packing::Bytes,
            dims: code.dims.clone(),
            offset: access.offset,
            strides: access.strides.clone(),
        };
        let view = view.reshape(dims)?;
        Some(Access { strides: view.strides, ..access.clone() })
    };
    let reads = code.reads.iter().map(access).collect::<Option<Vec<_>>>()?;
    if reads.iter().zip(inputs).any(|(read, &slot)| slot == own && !is_in_order(read, dims)) {
        return None;
    }
    let write = |write: &Write| Some(Write { access: access(&write.access)?, ..write.clone() });
    let writes = code.writes.iter().map(write).collect::<Option<Vec<_>>>()?;
    Some(Loop { dims: dims.to_vec(), reads, insts: code.insts.clone(), writes })
}

/// Whether an array is walked from its first element to its last.
fn is_in_order(access: &Access, dims: &[usize]) -> bool {
    let order = row_major(dims);
    let fits = |((&size, &stride), &wanted): ((&usize, &isize), &isize)| size == 1 || stride == wanted;
    access.offset == 0 && dims.iter().zip(&access.strides).zip(&order).all(fits)
}

/// The one op that uses a value, through views, and as which operand.
fn only_user(func: &Func, value: Value, uses: &HashMap<Value, Vec<(OpId, usize)>>) -> Option<(OpId, usize)> {
    let mut value = value;
    loop {
        let &[(id, operand)] = &uses.get(&value)?[..] else { return None };
        let op = func.op(id);
        if !is_transparent(func, op) || op.num_results != 1 {
            return Some((id, operand));
        }
        value = op.first_result;
    }
}

/// A loop with its outer dimensions joined to one, so that three are left: the last two are as they were.
fn with_three_dims(code: &Loop, dims: &[usize; 3]) -> Option<Loop> {
    let rank = code.dims.len();
    if rank < 2 || code.dims[rank - 2..] != dims[1..] {
        return None;
    }
    let moved = |dim: u32| {
        let kept = (dim as usize + 2).checked_sub(rank)?;
        Some(kept as u32 + 1)
    };
    let inst = |inst: &Inst| match inst {
        Inst::Index { lane, dim } => Some(Inst::Index { lane: *lane, dim: moved(*dim)? }),
        other => Some(*other),
    };
    let access = |access: &Access| {
        let view = View {
            slot: Slot(0),
            dtype: access.dtype,
            packing: Packing::Bytes,
            dims: code.dims.clone(),
            offset: access.offset,
            strides: access.strides.clone(),
        };
        let outer =
            View { dims: view.dims[..rank - 2].to_vec(), strides: view.strides[..rank - 2].to_vec(), ..view.clone() };
        let joined = if rank == 2 { 0 } else { outer.merged(0)?.strides[0] };
        let strides = vec![joined, view.strides[rank - 2], view.strides[rank - 1]];
        Some(Access { strides, ..access.clone() })
    };
    Some(Loop {
        dims: dims.to_vec(),
        reads: code.reads.iter().map(access).collect::<Option<_>>()?,
        insts: code.insts.iter().map(inst).collect::<Option<_>>()?,
        writes: code
            .writes
            .iter()
            .map(|write| Some(Write { access: access(&write.access)?, ..write.clone() }))
            .collect::<Option<_>>()?,
    })
}
