//! Vector memory a kernel needs: windows twice, scratch, and values that do not fit into registers.

use tensor::{DType, Spec};

use crate::error::Error;
use crate::ir::{BlockId, KernelOp, ValueId};
use crate::kernel::{Buffers, Kernel, KernelCore, KernelMemory, ReferenceRole};
use crate::sparse_core::SparseCores;

/// What the compiler grants without being asked, on every generation that takes kernels.
pub(crate) const GRANTED_BYTES: u64 = 16 << 20;
/// Of the memory of a core, what a kernel can have: the rest is the compiler's own.
const USABLE: f64 = 0.94;
/// Values the compiler keeps beyond the count of those alive at once: pieces of matmuls, copies in another layout.
const VALUES_MARGIN: f64 = 1.5;

/// Bytes of a block as it lies in vector memory, in tiles of 8 by 128 words.
pub(crate) fn tiled_bytes(spec: &Spec) -> u64 {
    let bits = if spec.dtype == DType::Bool { 32 } else { spec.dtype.bits() };
    let packing = u64::from(32 / bits.clamp(1, 32));
    let mut sizes = spec.dims.iter().rev().map(|&d| d as u64);
    let columns = sizes.next().unwrap_or(1).next_multiple_of(128);
    let rows = sizes.next().unwrap_or(1);
    // A few rows need no whole tile.
    let rows =
        if rows < 8 * packing { rows.next_power_of_two().max(packing) } else { rows.next_multiple_of(8 * packing) };
    let words = sizes.fold(columns.saturating_mul(rows.div_ceil(packing)), u64::saturating_mul);
    words.saturating_mul(4)
}

/// Bytes needed; an error where the generation has less.
pub(crate) fn check(kernel: &Kernel) -> Result<u64, Error> {
    let have_bytes = match kernel.core() {
        KernelCore::TensorCore => (kernel.generation.spec().memory.vmem_bytes_per_core.value as f64 * USABLE) as u64,
        KernelCore::SparseCore => SparseCores::of(kernel.generation)?.usable_bytes(),
    };
    let mut parts: Vec<(String, u64)> = Vec::new();
    for reference in kernel.references.iter().filter(|reference| reference.memory == KernelMemory::Vmem) {
        let one = tiled_bytes(&reference.block);
        let (copies, word) = match &reference.role {
            ReferenceRole::Input(window) | ReferenceRole::Output(window) if window.buffers == Buffers::Two => {
                (2, " (two blocks)")
            }
            _ => (1, ""),
        };
        parts.push((format!("{}{word}", reference.name), one.saturating_mul(copies)));
    }
    let fixed: u64 = parts.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let values = (live_bytes(kernel) as f64 * VALUES_MARGIN) as u64;
    parts.push(("values of the body".into(), values));
    let need_bytes = fixed.saturating_add(values);
    if need_bytes > have_bytes {
        parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        parts.truncate(3);
        let (kernel, generation) = (kernel.name.clone(), kernel.generation);
        return Err(Error::Vmem { kernel, generation, need_bytes, have_bytes, largest: parts });
    }
    if kernel.core() == KernelCore::SparseCore {
        return Ok(need_bytes);
    }
    Ok(need_bytes.saturating_add(2 << 20).min(have_bytes))
}

/// The most bytes of values alive at once.
fn live_bytes(kernel: &Kernel) -> u64 {
    let body = &kernel.body;
    // Program order as a list of (defined, used), nested blocks in their place; a loop keeps all it reads to its end.
    let mut last_use = vec![0usize; body.values.len()];
    let mut events: Vec<Vec<ValueId>> = Vec::new();
    walk(kernel, BlockId(0), &mut events, &mut last_use);
    let mut dying: Vec<Vec<ValueId>> = vec![Vec::new(); events.len() + 1];
    for (value, &at) in last_use.iter().enumerate() {
        dying[at.min(events.len())].push(ValueId(value as u32));
    }
    let bytes = |value: &ValueId| {
        let spec = body.ty(*value);
        if spec.dims.is_empty() { 0 } else { tiled_bytes(spec) }
    };
    let (mut alive, mut most) = (0u64, 0u64);
    let mut defined = vec![false; body.values.len()];
    for (at, values) in events.iter().enumerate() {
        for value in values {
            alive += bytes(value);
            defined[value.0 as usize] = true;
        }
        most = most.max(alive);
        for value in &dying[at] {
            if std::mem::take(&mut defined[value.0 as usize]) {
                alive = alive.saturating_sub(bytes(value));
            }
        }
    }
    most
}

fn walk(kernel: &Kernel, block: BlockId, events: &mut Vec<Vec<ValueId>>, last_use: &mut [usize]) {
    let block = kernel.body.block(block);
    events.push(block.args.clone());
    for statement in &block.statements {
        let mut nested = Vec::new();
        let begin = events.len();
        match &statement.op {
            KernelOp::If { then, otherwise, .. } => nested.extend([*then, *otherwise]),
            KernelOp::For { body, .. } => nested.push(*body),
            _ => {}
        }
        for inner in nested {
            walk(kernel, inner, events, last_use);
        }
        // Constants, counts and repetitions are made where they are used.
        let is_free = matches!(
            statement.op,
            KernelOp::Constant(_) | KernelOp::Iota { .. } | KernelOp::Broadcast(_) | KernelOp::Repeat(..)
        );
        events.push(if is_free { Vec::new() } else { statement.results.clone() });
        let end = events.len() - 1;
        for used in operands(&statement.op) {
            if let Some(at) = last_use.get_mut(used.0 as usize) {
                *at = (*at).max(end);
            }
        }
        if matches!(statement.op, KernelOp::For { .. }) {
            for at in last_use.iter_mut().filter(|at| **at >= begin && **at < end) {
                *at = end;
            }
        }
    }
    let end = events.len();
    events.push(Vec::new());
    for used in &block.yields {
        if let Some(at) = last_use.get_mut(used.0 as usize) {
            *at = (*at).max(end);
        }
    }
}

/// Values an op reads.
pub(crate) fn operands(op: &KernelOp) -> Vec<ValueId> {
    match op {
        KernelOp::Start(transfer) | KernelOp::Await(transfer) => {
            transfer.parts().flat_map(|part| part.at.iter().copied()).collect()
        }
        KernelOp::ProgramId(_) | KernelOp::Constant(_) | KernelOp::Iota { .. } => Vec::new(),
        KernelOp::Concatenate(parts) => parts.clone(),
        KernelOp::Unary(_, a)
        | KernelOp::Rows(a, _)
        | KernelOp::Reinterpret(a)
        | KernelOp::Cast(a)
        | KernelOp::Broadcast(a)
        | KernelOp::Repeat(a, _)
        | KernelOp::Reshape(a)
        | KernelOp::Transpose(a)
        | KernelOp::Reduce(_, a, _)
        | KernelOp::AssumeMultiple(a, _) => vec![*a],
        KernelOp::Binary(_, a, b) | KernelOp::Compare(_, a, b) => vec![*a, *b],
        KernelOp::Select(a, b, c) => vec![*a, *b, *c],
        KernelOp::MatMul { lhs, rhs, .. } => vec![*lhs, *rhs],
        KernelOp::Load { at, .. } => at.clone(),
        KernelOp::Store { at, value, .. } => at.iter().copied().chain([*value]).collect(),
        KernelOp::If { condition, .. } => vec![*condition],
        KernelOp::For { from, to, carried, .. } => [*from, *to].into_iter().chain(carried.iter().copied()).collect(),
    }
}
