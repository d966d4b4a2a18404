//! Contractions: every dot is a batch of matmuls, its operands read by their strides where they can be.
#![allow(unsafe_code)]

use hlo::dims::DotDims;
use hlo::{Attr, Func, Op, OpId, Value};
use tensor::DType;

use crate::attributes;
use crate::error::Error;
use crate::footprint::{Footprint, Written};
use crate::kernels::Cores;
use crate::kernels::conv;
use crate::kernels::loops::Ready;
use crate::kernels::matmul::{self, MatMul, Operand, Packed, Plan, Target, is_narrow};
use crate::lower::block::{Lowering, Origin};
use crate::lower::view::View;
use crate::program::{Kernel, Preparation, Run, Slot};

/// Constants of at least this many bytes are packed when the program is compiled.
const PACKED_FROM_BYTES: usize = 4 << 10;

/// What computes a dot. A factor that is a constant may be packed.
pub(crate) enum Multiply {
    Matrices(Plan, Right),
    /// A convolution whose result is a dense matrix, and its name.
    Images(Box<conv::Plan>, Option<conv::Packed>, String),
}

impl Multiply {
    pub(crate) fn matrices(plan: Plan, packed: Option<Packed>) -> Multiply {
        Multiply::Matrices(plan, packed.map_or(Right::Matrix, Right::Constant))
    }

    /// Whether both factors are matrices as the problem says.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Multiply::Matrices(_, Right::Matrix))
    }

    /// What it touches: both factors, at these distances in bytes from the starts of their arrays, and the result.
    fn footprint(&self, offsets: [isize; 2]) -> Option<Footprint> {
        let (reads, out) = match self {
            Multiply::Matrices(plan, right) => {
                let right = match right {
                    Right::Matrix => plan.problem().rhs_reads(offsets[1])?,
                    Right::Constant(_) => 0,
                    Right::Packed => plan.packed_bytes()?,
                };
                (vec![plan.problem().lhs_reads(offsets[0])?, right], plan.problem().out_writes()?)
            }
            Multiply::Images(plan, packed, _) => {
                let filter = if packed.is_some() { 0 } else { plan.filter_reads(offsets[1])? };
                (vec![plan.input_reads(offsets[0])?, filter], plan.output_writes()?)
            }
        };
        Some(Footprint { reads, writes: vec![Written::Whole(out)] })
    }

    /// Sizes of the blocks that are handed on: of the batch, and of one matrix.
    fn blocks(&self) -> Option<[usize; 3]> {
        match self {
            Multiply::Matrices(plan, _) => {
                let MatMul { batch, m, n, .. } = *plan.problem();
                Some([batch, m, n])
            }
            Multiply::Images(plan, ..) => plan.finishes().map(|(m, n)| [1, m, n]),
        }
    }

    /// # Safety
    /// As the plan's.
    unsafe fn run(&self, [lhs, rhs]: [*const u8; 2], out: *mut u8, finish: Option<&matmul::Finish<'_>>, cores: &Cores) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Multiply::Matrices(plan, Right::Matrix) => plan.run(lhs, rhs, out, None, finish, cores),
                Multiply::Matrices(plan, Right::Constant(packed)) => {
                    plan.run(lhs, rhs, out, Some(packed), finish, cores)
                }
                // The input was made by this plan's `Pack`, and stays for the time of the step.
                Multiply::Matrices(plan, Right::Packed) => {
                    plan.run(lhs, rhs, out, Some(&plan.packed_at(rhs)), finish, cores);
                }
                Multiply::Images(plan, packed, _) => plan.run(lhs, rhs, out, packed.as_ref(), finish, cores),
            }
        }
    }
}

/// A dot that is yet to become a step.
pub(crate) struct PendingDot {
    pub(crate) multiply: Multiply,
    /// Of a convolution only the sizes and the type of the result.
    pub(crate) problem: MatMul,
    pub(crate) inputs: [Slot; 2],
    /// Bytes from the start of each input to its first element.
    pub(crate) offsets: [isize; 2],
}

/// A dot, and the loop that finishes each block of it while it is in the cache.
pub(crate) struct Dot {
    multiply: Multiply,
    offsets: [isize; 2],
    finish: Option<Finish>,
    label: String,
}

/// How the right factor lies.
pub(crate) enum Right {
    /// As the problem says.
    Matrix,
    /// In the kernel's order, packed when the program was compiled.
    Constant(Packed),
    /// In the kernel's order in the second input, packed by a [`Pack`] before.
    Packed,
}

/// The right factor of a dot in the order of its kernel.
struct Pack {
    plan: Plan,
    offset: isize,
    label: String,
}

/// A loop over the blocks of a dot.
pub(crate) struct Finish {
    pub(crate) ready: Ready,
    /// For each array the loop reads: an input of the step, or `None` for the dot itself.
    pub(crate) reads: Vec<Option<usize>>,
    pub(crate) label: String,
}

pub(crate) fn dot(lowering: &mut Lowering<'_>, id: OpId) -> Result<Option<()>, Error> {
    let op = lowering.func.op(id);
    let result = lowering.dot_value(id);
    let order = if result == op.first_result { Order::AsWritten } else { Order::Exchanged };
    let (start, left) = (lowering.steps.len(), lowering.view(op.operands[0])?.slot);
    let found = pending(lowering, op, order)?;
    let (dtype, dims) = lowering.array_type(result)?;
    if let Some(chain) = lowering.take_chain(left) {
        match found {
            Some((dot, wide)) if wide == dtype && dot.inputs[0] == left => {
                lowering.finish_chain(chain, dot, result)?;
                return Ok(Some(()));
            }
            // Steps made since read the rows of the chain, or the op runs elsewhere.
            _ => lowering.break_chain(chain, start),
        }
        let again = pending(lowering, op, order)?;
        return dot_of(lowering, result, again, (dtype, dims));
    }
    dot_of(lowering, result, found, (dtype, dims))
}

fn dot_of(
    lowering: &mut Lowering<'_>,
    result: Value,
    found: Option<(PendingDot, DType)>,
    (dtype, dims): (DType, Vec<usize>),
) -> Result<Option<()>, Error> {
    let Some((dot, wide)) = found else { return Ok(None) };
    if wide == dtype {
        if lowering.defers(result) {
            lowering.defer(result, dot)?;
            return Ok(Some(()));
        }
        let slot = lowering.result_slot(result)?;
        push(lowering, dot, slot);
    } else {
        let slot = lowering.temporary(wide, &dims)?;
        push(lowering, dot, slot);
        let view = lowering.converted(&View::dense(slot, wide, dims), dtype)?;
        lowering.define(result, view.slot);
    }
    Ok(Some(()))
}

/// Which factor gives the rows of a dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    AsWritten,
    /// The right one: the dot is the transpose.
    Exchanged,
}

/// Whether a transpose of a dot does nothing but exchange rows and columns.
pub(crate) fn is_exchanged(lowering: &Lowering<'_>, dot: &Op, transpose: &Op) -> bool {
    let rank = |v: Value| lowering.func.ty(v).as_tensor().map_or(0, |ty| ty.rank());
    let (Some(dims), Ok(order)) = (dimension_numbers(lowering, dot), attributes::ints(transpose, "permutation")) else {
        return false;
    };
    let has_kernel = |v: Value| lowering.func.ty(v).as_tensor().and_then(|ty| ty.element.plain());
    if dot.attr("algorithm").is_some() || dot.operands.iter().any(|&v| has_kernel(v).is_none_or(|t| !t.is_float())) {
        return false;
    }
    // Only a right factor is read as it is where it is narrower.
    if has_kernel(dot.operands[0]) != has_kernel(dot.operands[1]) {
        return false;
    }
    let batch = dims.lhs_batching.len();
    let rows = rank(dot.operands[0]) - batch - dims.lhs_contracting.len();
    let cols = rank(dot.operands[1]) - batch - dims.rhs_contracting.len();
    let expected = (0..batch).chain(batch + rows..batch + rows + cols).chain(batch..batch + rows);
    order.iter().map(|&d| d as usize).eq(expected)
}

/// A dot as a step of its own.
pub(crate) fn push(lowering: &mut Lowering<'_>, dot: PendingDot, result: Slot) {
    let label = label(&dot);
    let PendingDot { multiply, inputs, offsets, .. } = dot;
    lowering.step(inputs.to_vec(), vec![result], Dot { multiply, offsets, finish: None, label });
}

/// A dot and the loop that finishes it as one step. `outputs` are the loop's; the dot itself lies in `own`.
pub(crate) fn push_finished(
    lowering: &mut Lowering<'_>,
    dot: PendingDot,
    own: Slot,
    finish: Finish,
    mut inputs: Vec<Slot>,
    outputs: Vec<Slot>,
) {
    let label = format!("{} then {}", label(&dot), finish.label);
    let PendingDot { multiply, inputs: factors, offsets, .. } = dot;
    inputs.splice(0..0, factors);
    let mut slots = vec![own];
    slots.extend(outputs);
    lowering.step(inputs, slots, Dot { multiply, offsets, finish: Some(finish), label });
}

pub(crate) fn label(dot: &PendingDot) -> String {
    if let Multiply::Images(_, _, label) = &dot.multiply {
        return label.clone();
    }
    let MatMul { batch, m, n, k, lhs, rhs, .. } = &dot.problem;
    if lhs.dtype != rhs.dtype {
        return format!("dot {} by {} {batch}x{m}x{n}x{k}", lhs.dtype, rhs.dtype);
    }
    format!("dot {} {batch}x{m}x{n}x{k}", lhs.dtype)
}

/// The dimension numbers of a dot.
pub(crate) fn dimension_numbers(lowering: &Lowering<'_>, op: &Op) -> Option<DotDims> {
    let rank = lowering.func.ty(op.operands[0]).as_tensor()?.rank();
    attributes::dot_dims(op, rank).ok()
}

/// What a dot multiplies, and the type of the result; `None` where there is no kernel.
pub(crate) fn pending(
    lowering: &mut Lowering<'_>,
    op: &Op,
    order: Order,
) -> Result<Option<(PendingDot, DType)>, Error> {
    let plain = |v: Value| lowering.func.ty(v).as_tensor().and_then(|ty| ty.element.plain());
    let (Some(lhs), Some(rhs), Some(out)) = (plain(op.operands[0]), plain(op.operands[1]), plain(op.first_result))
    else {
        return Ok(None);
    };
    if matches!(op.attr("algorithm"), Some(Attr::DotAlgorithm(_))) {
        return Ok(None);
    }
    let Some(mut dims) = dimension_numbers(lowering, op) else { return Ok(None) };
    let (mut left, mut right) = (lowering.view(op.operands[0])?, lowering.view(op.operands[1])?);
    if order == Order::Exchanged {
        std::mem::swap(&mut left, &mut right);
        std::mem::swap(&mut dims.lhs_batching, &mut dims.rhs_batching);
        std::mem::swap(&mut dims.lhs_contracting, &mut dims.rhs_contracting);
    }
    let mut wide = out;
    if !MatMul::is_supported(lhs, rhs, out) {
        let Some((factors, result)) = computed_in(lhs, rhs, out) else { return Ok(None) };
        wide = result;
        for (view, factor) in [&mut left, &mut right].into_iter().zip(factors) {
            if view.dtype != factor {
                *view = lowering.converted(view, factor)?;
            }
        }
    }
    let [left_parts, right_parts] = parts(&dims, [left.dims.len(), right.dims.len()]);
    let (left, sizes) = lowering.matrices(&left, &left_parts)?;
    let (right, right_sizes) = lowering.matrices(&right, &right_parts)?;
    let [b, m, k] = sizes;
    let n = right_sizes[2];
    let Some(matrix) = m.checked_mul(n).and_then(|size| isize::try_from(size).ok()) else { return Ok(None) };
    let problem = MatMul {
        batch: b,
        m,
        n,
        k,
        lhs: operand(&left),
        rhs: operand(&right),
        out: Target { dtype: wide, row_stride: n as isize, batch_stride: matrix },
    };
    let plan = problem.clone().plan(lowering.machine);
    let offsets = [&left, &right].map(|view| view.packing.bytes(view.dtype, view.offset));
    let packed = packed(lowering, &plan, &right, offsets[1]);
    let multiply = Multiply::matrices(plan, packed);
    Ok(Some((PendingDot { multiply, problem, inputs: [left.slot, right.slot], offsets }, wide)))
}

/// Dimensions of both factors: of the left one those of the batch, of the rows, and contracted; of the right one those of the
/// batch, contracted, and of the columns.
fn parts(dims: &DotDims, ranks: [usize; 2]) -> [[Vec<usize>; 3]; 2] {
    let mut pairs: Vec<(usize, usize)> =
        dims.lhs_contracting.iter().zip(&dims.rhs_contracting).map(|(&a, &b)| (a as usize, b as usize)).collect();
    pairs.sort_unstable();
    let batch: Vec<(usize, usize)> =
        dims.lhs_batching.iter().zip(&dims.rhs_batching).map(|(&a, &b)| (a as usize, b as usize)).collect();
    let others = |rank: usize, used: &[usize]| (0..rank).filter(|d| !used.contains(d)).collect::<Vec<_>>();
    let side = |n: fn(&(usize, usize)) -> usize| -> (Vec<usize>, Vec<usize>) {
        (batch.iter().map(n).collect(), pairs.iter().map(n).collect())
    };
    let ((batch_left, contracted_left), (batch_right, contracted_right)) = (side(|p| p.0), side(|p| p.1));
    let free_left = others(ranks[0], &[&batch_left[..], &contracted_left].concat());
    let free_right = others(ranks[1], &[&batch_right[..], &contracted_right].concat());
    [[batch_left, free_left, contracted_left], [batch_right, contracted_right, free_right]]
}

/// Whether a dot reads a right factor of packed bits as it lies.
pub(crate) fn reads_packed(func: &Func, op: &Op, view: &View) -> bool {
    let tensor = |v: Value| func.ty(v).as_tensor();
    let plain = |v: Value| tensor(v).and_then(|ty| ty.element.plain());
    let types = (plain(op.operands[0]), plain(op.operands[1]), plain(op.first_result));
    let (Some(lhs), Some(rhs), Some(out)) = types else { return false };
    let Some(dims) = tensor(op.operands[0]).and_then(|ty| attributes::dot_dims(op, ty.rank()).ok()) else {
        return false;
    };
    if !MatMul::is_supported(lhs, rhs, out) || matches!(op.attr("algorithm"), Some(Attr::DotAlgorithm(_))) {
        return false;
    }
    let rank = tensor(op.operands[0]).map_or(0, |ty| ty.rank());
    let [_, right] = parts(&dims, [rank, view.dims.len()]);
    let permuted = permuted(view, &right);
    let strides = merged_strides(&permuted, [right[0].len(), right[1].len()]);
    let begins_byte = (view.offset * view.dtype.bits() as isize) % 8 == 0;
    begins_byte && strides.is_some_and(|strides| operand(&View { strides, ..permuted }).is_readable())
}

fn operand(view: &View) -> Operand {
    Operand {
        dtype: view.dtype,
        packing: view.packing,
        batch_stride: view.strides[0],
        row_stride: view.strides[1],
        col_stride: view.strides[2],
    }
}

/// A constant right factor in the order of the kernel.
fn packed(lowering: &Lowering<'_>, plan: &Plan, right: &View, offset: isize) -> Option<Packed> {
    let Origin::Constant(n) = lowering.slots[right.slot.0 as usize].origin else { return None };
    let bytes = &lowering.constants[n];
    if bytes.len() < PACKED_FROM_BYTES || !plan.gains_by_packing() {
        return None;
    }
    plan.problem().rhs_reads(offset).filter(|&end| end <= bytes.len())?;
    // SAFETY: the matrices lie in the constant's bytes.
    Some(unsafe { plan.pack_rhs(bytes.as_ptr().wrapping_offset(offset)) })
}

/// Types to multiply in, for factors and result, where there is no kernel for the types themselves.
fn computed_in(lhs: DType, rhs: DType, out: DType) -> Option<([DType; 2], DType)> {
    let all = [lhs, rhs, out];
    // Floats with integers that they have.
    if out.is_float() && all.iter().all(|t| t.is_float() || t.is_integer() && t.bits() <= 16) {
        if is_narrow(lhs) && is_narrow(rhs) && out.bits() <= 32 {
            return Some(([DType::BF16, rhs], DType::F32));
        }
        let wide = if all.contains(&DType::F64) { DType::F64 } else { DType::F32 };
        return Some(([wide; 2], wide));
    }
    // Sums of products modulo 2³² are right in every narrower type.
    all.iter().all(|t| t.is_integer() && t.bits() <= 32).then_some(([DType::I32; 2], DType::I32))
}

impl Lowering<'_> {
    /// A view of three dimensions, each made of some of the array's, in that order; its sizes.
    fn matrices(&mut self, view: &View, parts: &[Vec<usize>; 3]) -> Result<(View, [usize; 3]), Error> {
        let permuted = permuted(view, parts);
        let sizes = [0, 1, 2].map(|n| parts[n].iter().map(|&d| view.dims[d]).product::<usize>());
        if let Some(strides) = merged_strides(&permuted, [parts[0].len(), parts[1].len()]) {
            return Ok((View { dims: sizes.to_vec(), strides, ..permuted }, sizes));
        }
        let slot = self.dense(&permuted)?;
        Ok((View::dense(slot, view.dtype, sizes.to_vec()), sizes))
    }
}

/// A view with its dimensions in another order.
fn permuted(view: &View, parts: &[Vec<usize>; 3]) -> View {
    let order: Vec<usize> = parts.iter().flat_map(|part| part.iter().copied()).collect();
    View {
        dims: order.iter().map(|&d| view.dims[d]).collect(),
        strides: order.iter().map(|&d| view.strides[d]).collect(),
        ..view.clone()
    }
}

/// One stride for each of three runs of dimensions, where every run lies in equal steps.
fn merged_strides(view: &View, lengths: [usize; 2]) -> Option<Vec<isize>> {
    let bounds = [0, lengths[0], lengths[0] + lengths[1], view.dims.len()];
    let mut strides = Vec::with_capacity(3);
    for part in bounds.windows(2) {
        let dims: Vec<usize> = (part[0]..part[1]).filter(|&d| view.dims[d] != 1).collect();
        for pair in dims.windows(2) {
            if view.strides[pair[0]] != view.strides[pair[1]] * view.dims[pair[1]] as isize {
                return None;
            }
        }
        strides.push(dims.last().map_or(0, |&d| view.strides[d]));
    }
    Some(strides)
}

impl Kernel for Pack {
    fn name(&self) -> String {
        self.label.clone()
    }

    fn footprint(&self) -> Option<Footprint> {
        let read = self.plan.problem().rhs_reads(self.offset)?;
        Some(Footprint { reads: vec![read], writes: vec![Written::Packed(self.plan.packed_bytes()?)] })
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        // SAFETY: the input is the dot's right factor, the output has the bytes the plan asked for.
        unsafe { self.plan.pack_rhs_into(inputs[0].wrapping_offset(self.offset), outputs[0], run.cores) };
        Ok(())
    }
}

impl Kernel for Dot {
    fn name(&self) -> String {
        self.label.clone()
    }

    fn prepare(&mut self, fixed_bytes: &dyn Fn(usize) -> Option<usize>) -> Option<Preparation> {
        const RIGHT: usize = 1;
        // A factor whose elements are read many times over would grow.
        const MOST_GROWTH: usize = 4;
        let Multiply::Matrices(plan, right @ Right::Matrix) = &mut self.multiply else { return None };
        if !plan.gains_by_packing() {
            return None;
        }
        let most = fixed_bytes(RIGHT)?.saturating_mul(MOST_GROWTH);
        let bytes = plan.packed_bytes().filter(|bytes| (PACKED_FROM_BYTES..=most).contains(bytes))?;
        let offset = std::mem::take(&mut self.offsets[RIGHT]);
        *right = Right::Packed;
        let kernel = Pack { plan: plan.clone(), offset, label: format!("pack for {}", self.label) };
        Some(Preparation { input: RIGHT, bytes, kernel: Box::new(kernel) })
    }

    fn footprint(&self) -> Option<Footprint> {
        let mut all = self.multiply.footprint(self.offsets)?;
        let Some(finish) = &self.finish else { return Some(all) };
        let loops = finish.ready.footprint()?;
        if !finish.ready.spans(&self.multiply.blocks()?) || loops.reads.len() != finish.reads.len() {
            return None;
        }
        let own = all.writes[0].bytes();
        for (&read, bytes) in finish.reads.iter().zip(loops.reads) {
            match read {
                Some(n) if 2 + n == all.reads.len() => all.reads.push(bytes),
                Some(_) => return None,
                None if bytes <= own => {}
                None => return None,
            }
        }
        all.writes.extend(loops.writes);
        Some(all)
    }

    fn outputs_may_share(&self, one: usize, other: usize) -> bool {
        // The dot lies where the loop puts a result, which the lowering allows where the loop does.
        self.finish.is_some() && (one == 0) != (other == 0)
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        let factors = [0, 1].map(|n| inputs[n].wrapping_offset(self.offsets[n]));
        let out = outputs[0];
        let Some(finish) = &self.finish else {
            // SAFETY: the slots hold what the footprint says.
            unsafe { self.multiply.run(factors, out, None, run.cores) };
            return Ok(());
        };
        let reads = Pointers(finish.reads.iter().map(|n| n.map_or(out.cast_const(), |n| inputs[2 + n])).collect());
        let writes = Pointers(outputs[1..].to_vec());
        let done = |_worker: usize, batch: usize, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>| {
            // SAFETY: the loop's space is that of the dot; blocks tile it, so each is written once, after its values
            // are final.
            unsafe { finish.ready.run_box(reads.get(), writes.get(), &[batch..batch + 1, rows, cols]) };
        };
        // SAFETY: as above.
        unsafe { self.multiply.run(factors, out, Some(&done), run.cores) };
        Ok(())
    }
}

/// Addresses that threads share for the time of one step.
struct Pointers<T>(Vec<T>);

// SAFETY: what the addresses point at outlives the step, and threads write to disjoint parts.
unsafe impl<T> Sync for Pointers<T> {}

impl<T> Pointers<T> {
    fn get(&self) -> &[T] {
        &self.0
    }
}
