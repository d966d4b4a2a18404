//! Writes a body op by op, checking shapes and types; the first mistake is kept with the line that made it.

use std::cell::RefCell;
use std::panic::Location;

use tensor::{DType, Spec};

use crate::error::Error;
use crate::ir::{
    Block, BlockId, Body, KernelOp, MatMulForm, MatmulPrecision, Number, Part, RefId, Statement, Transfer, ValueId,
};
use crate::kernel::{AxisId, KernelMemory, Reference, ReferenceRole, is_supported};

/// Writes a body: a kernel's, or an index map's.
///
/// Values are handles ([`Val`]) with operators. Mistakes do not interrupt: the first one is what finishing the kernel
/// returns, with the line that made it.
#[derive(Debug)]
pub struct Writer {
    kernel: String,
    axes: usize,
    references: Vec<Reference>,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    body: Body,
    /// Blocks being written, innermost last.
    open: Vec<BlockId>,
    /// The block each value belongs to.
    owner: Vec<BlockId>,
    error: Option<Error>,
}

/// A value while its body is written.
#[derive(Clone, Copy, Debug)]
pub struct Val<'k> {
    pub(crate) k: &'k Writer,
    id: ValueId,
}

/// A part of a piece of memory.
#[derive(Clone, Debug)]
pub struct MemorySlice<'k> {
    memory: RefId,
    at: Vec<Val<'k>>,
    dims: Vec<usize>,
}

/// A copy from memory to memory.
#[derive(Clone, Debug)]
pub struct Copying<'k> {
    /// From where.
    pub from: MemorySlice<'k>,
    /// Where to.
    pub to: MemorySlice<'k>,
    /// Numbers of the rows that are gathered, in VMEM, if not all are copied.
    pub rows: Option<MemorySlice<'k>>,
    /// One semaphore, of this copy alone.
    pub semaphore: MemorySlice<'k>,
}

impl<'k> Val<'k> {
    pub(crate) fn id(self) -> ValueId {
        self.id
    }

    /// Its type and shape.
    pub fn spec(self) -> Spec {
        self.k.state.borrow().body.ty(self.id).clone()
    }

    /// Its shape.
    pub fn dims(self) -> Vec<usize> {
        self.spec().dims
    }

    /// Its element type.
    pub fn dtype(self) -> DType {
        self.k.state.borrow().body.ty(self.id).dtype
    }
}

/// What a rule says is wrong.
pub(crate) type Checked<T> = Result<T, String>;

impl Writer {
    pub(crate) fn new(kernel: &str, axes: usize, references: &[Reference]) -> Writer {
        let state = State {
            body: Body { values: Vec::new(), blocks: vec![Block::default()] },
            open: vec![BlockId(0)],
            ..State::default()
        };
        Writer { kernel: kernel.into(), axes, references: references.to_vec(), state: RefCell::new(state) }
    }

    pub(crate) fn finish(self, yields: Vec<ValueId>) -> Result<Body, Error> {
        let mut state = self.state.into_inner();
        if let Some(block) = state.body.blocks.first_mut() {
            block.yields = yields;
        }
        state.error.map_or(Ok(state.body), Err)
    }

    /// The index of this step along an axis of the grid.
    #[track_caller]
    pub fn program_id(&self, axis: AxisId) -> Val<'_> {
        let known = (axis.0 as usize) < self.axes;
        let checked = if known { Ok(scalar(DType::I32)) } else { Err("the grid has no such axis yet".to_owned()) };
        self.write(KernelOp::ProgramId(axis.0), checked, &[])
    }

    /// A scalar `i32`.
    #[track_caller]
    pub fn i32(&self, value: i32) -> Val<'_> {
        self.write(KernelOp::Constant(Number::Int(value)), Ok(scalar(DType::I32)), &[])
    }

    /// A scalar `f32`.
    #[track_caller]
    pub fn f32(&self, value: f32) -> Val<'_> {
        self.write(KernelOp::Constant(Number::Float(value)), Ok(scalar(DType::F32)), &[])
    }

    /// A vector of one repeated number; it is rounded to the type.
    #[track_caller]
    pub fn full(&self, dtype: DType, dims: impl Into<Vec<usize>>, value: f32) -> Val<'_> {
        let number = if dtype.is_float() { Number::Float(value) } else { Number::Int(value as i32) };
        self.write(KernelOp::Constant(number), vector(dtype, dims.into()), &[])
    }

    /// A vector of zeros.
    #[track_caller]
    pub fn zeros(&self, dtype: DType, dims: impl Into<Vec<usize>>) -> Val<'_> {
        self.full(dtype, dims, 0.0)
    }

    /// A vector of `i32` that counts along an axis.
    #[track_caller]
    pub fn iota(&self, dims: impl Into<Vec<usize>>, axis: usize) -> Val<'_> {
        let checked = vector(DType::I32, dims.into())
            .and_then(|spec| if axis < spec.rank() { Ok(spec) } else { Err(format!("{spec} has no axis {axis}")) });
        self.write(KernelOp::Iota { axis: axis as u32 }, checked, &[])
    }

    /// All of a block, or of scratch.
    #[track_caller]
    pub fn load(&self, from: RefId) -> Val<'_> {
        let dims = self.view(from);
        self.load_part(from, &vec![self.i32(0); dims.len()], dims)
    }

    /// A part of a block: where it begins and its shape, without the block's leading dimensions of size 1.
    #[track_caller]
    pub fn load_part(&self, from: RefId, at: &[Val<'_>], dims: impl Into<Vec<usize>>) -> Val<'_> {
        let dims = dims.into();
        let checked = self.part(from, at, &dims, KernelMemory::Vmem);
        let used: Vec<ValueId> = at.iter().map(|v| v.id).collect();
        self.write(KernelOp::Load { from, at: used.clone() }, checked, &used)
    }

    /// A scalar of SMEM: a prefetched one, or one of scratch.
    #[track_caller]
    pub fn load_scalar(&self, from: RefId, at: &[Val<'_>]) -> Val<'_> {
        let checked = self.part(from, at, &vec![1; at.len()], KernelMemory::Smem).map(|spec| scalar(spec.dtype));
        let used: Vec<ValueId> = at.iter().map(|v| v.id).collect();
        self.write(KernelOp::Load { from, at: used.clone() }, checked, &used)
    }

    /// Writes all of a block, or of scratch.
    #[track_caller]
    pub fn store(&self, to: RefId, value: Val<'_>) {
        let rank = self.view(to).len();
        self.store_part(to, &vec![self.i32(0); rank], value);
    }

    /// Writes a part of a block.
    #[track_caller]
    pub fn store_part(&self, to: RefId, at: &[Val<'_>], value: Val<'_>) {
        let spec = value.spec();
        let checked =
            self.part(to, at, &spec.dims, KernelMemory::Vmem).and_then(|there| self.writable(to, &there, &spec));
        self.write_store(to, at, value, checked);
    }

    /// Writes a scalar into scratch of SMEM.
    #[track_caller]
    pub fn store_scalar(&self, to: RefId, at: &[Val<'_>], value: Val<'_>) {
        let checked = self
            .part(to, at, &vec![1; at.len()], KernelMemory::Smem)
            .and_then(|there| self.writable(to, &scalar(there.dtype), &value.spec()));
        self.write_store(to, at, value, checked);
    }

    #[track_caller]
    fn write_store(&self, to: RefId, at: &[Val<'_>], value: Val<'_>, checked: Checked<()>) {
        let at: Vec<ValueId> = at.iter().map(|v| v.id).collect();
        let used: Vec<ValueId> = at.iter().copied().chain([value.id]).collect();
        self.write_many(KernelOp::Store { to, at, value: value.id }, checked.map(|()| Vec::new()), &used);
    }

    fn writable(&self, to: RefId, there: &Spec, value: &Spec) -> Checked<()> {
        let reference = self.reference(to)?;
        if matches!(reference.role, ReferenceRole::Input(_) | ReferenceRole::Prefetch) {
            return Err(format!("{} is an operand and cannot be written", reference.name));
        }
        if there != value {
            return Err(format!("{value} stored into {there} of {}", reference.name));
        }
        Ok(())
    }

    /// A part of a piece of memory, for copies: where it begins, and the sizes of its last dimensions; those before are one element.
    pub fn at<'k>(&self, memory: RefId, at: &[Val<'k>], dims: impl Into<Vec<usize>>) -> MemorySlice<'k> {
        MemorySlice { memory, at: at.to_vec(), dims: dims.into() }
    }

    /// Begins a copy, whose end a semaphore tells.
    #[track_caller]
    pub fn start(&self, copy: &Copying<'_>) {
        self.write_transfer(copy, KernelOp::Start);
    }

    /// Waits for the end of a copy that was begun.
    #[track_caller]
    pub fn wait(&self, copy: &Copying<'_>) {
        self.write_transfer(copy, KernelOp::Await);
    }

    #[track_caller]
    fn write_transfer(&self, copy: &Copying<'_>, op: fn(Transfer) -> KernelOp) {
        let part = |place: &MemorySlice<'_>| Part {
            memory: place.memory,
            at: place.at.iter().map(|v| v.id).collect(),
            dims: place.dims.clone(),
        };
        let transfer = Transfer {
            from: part(&copy.from),
            to: part(&copy.to),
            rows: copy.rows.as_ref().map(part),
            semaphore: part(&copy.semaphore),
        };
        let used: Vec<ValueId> = transfer.parts().flat_map(|part| part.at.iter().copied()).collect();
        self.write_many(op(transfer), self.check_copy(copy).map(|()| Vec::new()), &used);
    }

    fn check_copy(&self, copy: &Copying<'_>) -> Checked<()> {
        let place = |place: &MemorySlice<'_>, memories: &[KernelMemory]| -> Checked<Spec> {
            let reference = self.reference(place.memory)?;
            let (name, whole) = (&reference.name, &reference.block);
            if !memories.contains(&reference.memory) {
                return Err(format!("{name} is in {:?}, which is no place for this end of a copy", reference.memory));
            }
            let hidden = whole.rank().checked_sub(place.dims.len());
            let sizes: Option<Vec<usize>> =
                hidden.map(|hidden| vec![1; hidden].into_iter().chain(place.dims.iter().copied()).collect());
            let fits = |sizes: &Vec<usize>| sizes.iter().zip(&whole.dims).all(|(&size, &all)| size > 0 && size <= all);
            if place.at.len() != whole.rank() || !sizes.as_ref().is_some_and(fits) {
                return Err(format!("{:?} elements of {name}, which is {whole}", place.dims));
            }
            if place.at.iter().any(|v| v.spec() != scalar(DType::I32)) {
                return Err(format!("indices of {name} are i32 scalars"));
            }
            Ok(Spec::new(whole.dtype, place.dims.clone()))
        };
        let memories = [KernelMemory::Hbm, KernelMemory::Vmem];
        let (from, to) = (place(&copy.from, &memories)?, place(&copy.to, &memories)?);
        let target = self.reference(copy.to.memory)?;
        if matches!(target.role, ReferenceRole::Input(_) | ReferenceRole::Prefetch) {
            return Err(format!("{} is an operand and cannot be written", target.name));
        }
        if place(&copy.semaphore, &[KernelMemory::Semaphore])?.rank() != 0 {
            return Err("a copy has one semaphore".to_owned());
        }
        let Some(rows) = &copy.rows else {
            return if from == to { Ok(()) } else { Err(format!("{from} copied to {to}")) };
        };
        let rows = place(rows, &[KernelMemory::Vmem])?;
        let fits = rows.rank() == 1
            && rows.dtype == DType::I32
            && from.dtype == to.dtype
            && to.dims.first() == rows.dims.first()
            && !from.dims.is_empty()
            && from.dims.get(1..) == to.dims.get(1..)
            && self.reference(copy.from.memory)?.memory == KernelMemory::Hbm
            && target.memory == KernelMemory::Vmem;
        if fits { Ok(()) } else { Err(format!("rows {rows} of {from} gathered into {to}")) }
    }

    /// A matmul; floats are summed in `f32`, `i8` in `i32`. Codes of 8 bits are for generations whose matrix units take them.
    #[track_caller]
    pub fn matmul<'k>(&'k self, lhs: Val<'k>, rhs: Val<'k>, form: MatMulForm) -> Val<'k> {
        self.matmul_with(lhs, rhs, form, MatmulPrecision::Default)
    }

    /// As [`Writer::matmul`], saying how exactly.
    #[track_caller]
    pub fn matmul_with<'k>(
        &'k self,
        lhs: Val<'k>,
        rhs: Val<'k>,
        form: MatMulForm,
        precision: MatmulPrecision,
    ) -> Val<'k> {
        let (a, b) = (lhs.spec(), rhs.spec());
        let checked = (|| {
            let ([a0, a1], [b0, b1]) = (matrix(&a)?, matrix(&b)?);
            let (m, k, other, n) = match form {
                MatMulForm::Plain => (a0, a1, b0, b1),
                MatMulForm::TransposedRhs => (a0, a1, b1, b0),
                MatMulForm::TransposedLhs => (a1, a0, b0, b1),
            };
            if k != other {
                return Err(format!("a matmul of {a} and {b} sums over {k} and {other}"));
            }
            if a.dtype != b.dtype {
                return Err(format!("a matmul of {a} and {b}, of two types"));
            }
            let sum = match a.dtype {
                DType::F32 | DType::BF16 | DType::F8E4M3FN | DType::F8E5M2 => DType::F32,
                DType::I8 => DType::I32,
                _ => return Err(format!("no matmul of {a}")),
            };
            Ok(Spec::new(sum, [m, n]))
        })();
        self.write(KernelOp::MatMul { lhs: lhs.id, rhs: rhs.id, form, precision }, checked, &[lhs.id, rhs.id])
    }

    /// Rows of matrices one below the other.
    #[track_caller]
    pub fn concatenate<'k>(&'k self, parts: &[Val<'k>]) -> Val<'k> {
        let checked = match parts {
            [] => Err("no matrices one below the other".to_owned()),
            [first, ..] => {
                let (dtype, columns) = (first.dtype(), matrix(&first.spec()).map(|[_, columns]| columns));
                let rows = |part: &Val<'_>| match (matrix(&part.spec()), &columns) {
                    (Ok([rows, width]), Ok(columns)) if width == *columns && part.dtype() == dtype => Ok(rows),
                    _ => Err(format!("{} below {}", part.spec(), first.spec())),
                };
                let total = parts.iter().map(rows).sum::<Checked<usize>>();
                total.and_then(|rows| vector(dtype, vec![rows, columns.unwrap_or(0)]))
            }
        };
        let used: Vec<ValueId> = parts.iter().map(|v| v.id).collect();
        self.write(KernelOp::Concatenate(used.clone()), checked, &used)
    }

    /// Runs a block if a condition holds.
    #[track_caller]
    pub fn when(&self, condition: Val<'_>, then: impl FnOnce()) {
        self.if_else(
            condition,
            || {
                then();
                Vec::new()
            },
            Vec::new,
        );
    }

    /// Runs one of two blocks, which give values of the same types.
    #[track_caller]
    pub fn if_else<'k>(
        &'k self,
        condition: Val<'k>,
        then: impl FnOnce() -> Vec<Val<'k>>,
        otherwise: impl FnOnce() -> Vec<Val<'k>>,
    ) -> Vec<Val<'k>> {
        let (then, first) = self.block(&[], |_| then());
        let (otherwise, second) = self.block(&[], |_| otherwise());
        let checked = match condition.spec() {
            spec if spec != scalar(DType::Bool) => Err(format!("a condition of type {spec}")),
            _ if first != second => Err(format!("branches give {first:?} and {second:?}")),
            _ => Ok(first),
        };
        self.write_many(KernelOp::If { condition: condition.id, then, otherwise }, checked, &[condition.id])
    }

    /// Runs a block for each count from one number up to another, handing values from one round to the next.
    #[track_caller]
    pub fn for_each<'k>(
        &'k self,
        from: Val<'k>,
        to: Val<'k>,
        carried: &[Val<'k>],
        round: impl FnOnce(Val<'k>, &[Val<'k>]) -> Vec<Val<'k>>,
    ) -> Vec<Val<'k>> {
        let types: Vec<Spec> = carried.iter().map(|v| v.spec()).collect();
        let args: Vec<Spec> = [scalar(DType::I32)].into_iter().chain(types.iter().cloned()).collect();
        let (body, given) = self.block(&args, |args| match args.split_first() {
            Some((count, carried)) => round(*count, carried),
            None => Vec::new(),
        });
        let checked = if from.spec() != scalar(DType::I32) || to.spec() != scalar(DType::I32) {
            Err("bounds of a loop are i32 scalars".to_owned())
        } else if types != given {
            Err(format!("a round takes {types:?} and gives {given:?}"))
        } else {
            Ok(types)
        };
        let carried: Vec<ValueId> = carried.iter().map(|v| v.id).collect();
        let used: Vec<ValueId> = [from.id, to.id].into_iter().chain(carried.iter().copied()).collect();
        self.write_many(KernelOp::For { from: from.id, to: to.id, carried, body }, checked, &used)
    }

    /// Writes a block; what it yields, by type.
    fn block<'k>(&'k self, args: &[Spec], write: impl FnOnce(&[Val<'k>]) -> Vec<Val<'k>>) -> (BlockId, Vec<Spec>) {
        let (id, values) = {
            let mut state = self.state.borrow_mut();
            let id = BlockId(state.body.blocks.len() as u32);
            state.body.blocks.push(Block::default());
            state.open.push(id);
            let values: Vec<ValueId> = args.iter().map(|spec| state.value(spec.clone())).collect();
            state.body.blocks[id.0 as usize].args = values.clone();
            (id, values)
        };
        let args: Vec<Val<'k>> = values.iter().map(|&id| Val { k: self, id }).collect();
        let yields = write(&args);
        let types = yields.iter().map(|v| v.spec()).collect();
        let mut state = self.state.borrow_mut();
        state.body.blocks[id.0 as usize].yields = yields.iter().map(|v| v.id).collect();
        state.open.pop();
        (id, types)
    }

    /// Writes an op of one result, or keeps what is wrong with it.
    #[track_caller]
    pub(crate) fn write(&self, op: KernelOp, checked: Checked<Spec>, used: &[ValueId]) -> Val<'_> {
        let results = self.write_many(op, checked.map(|spec| vec![spec]), used);
        results.first().copied().unwrap_or(Val { k: self, id: ValueId(0) })
    }

    #[track_caller]
    pub(crate) fn write_many(&self, op: KernelOp, checked: Checked<Vec<Spec>>, used: &[ValueId]) -> Vec<Val<'_>> {
        let mut state = self.state.borrow_mut();
        let hidden = |id: &&ValueId| {
            let owner = state.owner.get(id.0 as usize);
            !owner.is_some_and(|owner| state.open.contains(owner))
        };
        let checked = match used.iter().find(hidden) {
            Some(_) if checked.is_ok() => Err("a value is used outside of the block that made it".to_owned()),
            _ => checked,
        };
        let checked = checked.and_then(|types| match types.iter().find(|spec| !is_supported(spec.dtype)) {
            Some(spec) => Err(format!("values of type {spec} are not supported")),
            None => Ok(types),
        });
        let types = match checked {
            Ok(types) => types,
            Err(message) => {
                let at = Location::caller();
                let at = format!("{}:{}", at.file(), at.line());
                state.error.get_or_insert(Error::Body { kernel: self.kernel.clone(), at, message });
                return Vec::new();
            }
        };
        let results: Vec<ValueId> = types.into_iter().map(|spec| state.value(spec)).collect();
        let block = state.open.last().map_or(0, |block| block.0 as usize);
        if let Some(block) = state.body.blocks.get_mut(block) {
            block.statements.push(Statement { op, results: results.clone() });
        }
        results.into_iter().map(|id| Val { k: self, id }).collect()
    }

    fn reference(&self, id: RefId) -> Checked<&Reference> {
        self.references.get(id.0 as usize).ok_or_else(|| "memory of another kernel".to_owned())
    }

    fn view(&self, id: RefId) -> Vec<usize> {
        self.reference(id).map(|reference| reference.view().to_vec()).unwrap_or_default()
    }

    /// The type of a part of memory.
    fn part(&self, id: RefId, at: &[Val<'_>], dims: &[usize], memory: KernelMemory) -> Checked<Spec> {
        let reference = self.reference(id)?;
        let name = &reference.name;
        if reference.memory != memory {
            return Err(match memory {
                _ if matches!(reference.memory, KernelMemory::Hbm | KernelMemory::Semaphore) => {
                    format!("{name} is neither in VMEM nor in SMEM: copies reach it")
                }
                KernelMemory::Vmem => format!("{name} is in SMEM: it is read as scalars"),
                _ => format!("{name} is in VMEM: it is read as vectors"),
            });
        }
        let there = reference.view();
        if at.len() != there.len() || dims.len() != there.len() {
            return Err(format!("{name} has {} dimensions, {} indices given", there.len(), at.len()));
        }
        if at.iter().any(|v| v.spec() != scalar(DType::I32)) {
            return Err(format!("indices of {name} are i32 scalars"));
        }
        if let Some(axis) = (0..dims.len()).find(|&n| dims[n] > there[n] || dims[n] == 0) {
            return Err(format!("{} elements along dimension {axis} of {name}, which has {}", dims[axis], there[axis]));
        }
        Ok(Spec::new(reference.block.dtype, dims))
    }
}

impl State {
    fn value(&mut self, spec: Spec) -> ValueId {
        self.body.values.push(spec);
        self.owner.push(self.open.last().copied().unwrap_or(BlockId(0)));
        ValueId(self.body.values.len() as u32 - 1)
    }
}

pub(crate) fn scalar(dtype: DType) -> Spec {
    Spec::new(dtype, [])
}

/// More than this no vector of a kernel can have: VMEM is smaller.
const MAX_VECTOR_ELEMENTS: usize = 1 << 27;

pub(crate) fn vector(dtype: DType, dims: Vec<usize>) -> Checked<Spec> {
    let elements = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let spec = Spec::new(dtype, dims);
    if elements.is_none_or(|n| n == 0 || n > MAX_VECTOR_ELEMENTS) || spec.rank() == 0 {
        return Err(format!("{spec} is no vector of a kernel"));
    }
    Ok(spec)
}

fn matrix(spec: &Spec) -> Checked<[usize; 2]> {
    spec.dims[..].try_into().map_err(|_| format!("{spec} is no matrix"))
}
