//! Runs the ops of a body on one step of the grid.

use std::rc::Rc;

use tensor::{DType, Spec};

use super::array::{Array, Data, rounded, wrapped};
use super::copy::Copy;
use super::is_float;
use crate::error::Error;
use crate::ir::{
    BinaryOp, BlockId, Body, CompareOp, KernelOp, MatMulForm, MatmulPrecision, Number, ReduceOp, RefId, Statement,
    UnaryOp, ValueId,
};
use crate::kernel::Kernel;

/// One step of a body.
pub(super) struct Machine<'a> {
    pub(super) kernel: &'a Kernel,
    body: &'a Body,
    step: &'a [usize],
    pub(super) memory: &'a mut [Array],
    values: Vec<Option<Rc<Array>>>,
    /// Copies under way.
    pub(super) copies: Vec<Copy>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(kernel: &'a Kernel, body: &'a Body, step: &'a [usize], memory: &'a mut [Array]) -> Self {
        Machine { kernel, body, step, memory, values: vec![None; body.values.len()], copies: Vec::new() }
    }

    /// Runs all; gives what the outermost block yields.
    pub(super) fn run(mut self) -> Result<Vec<Rc<Array>>, Error> {
        let yields = self.block(BlockId(0))?;
        if !self.copies.is_empty() {
            return self.out_of_range(format!("{} copies are never awaited", self.copies.len()));
        }
        Ok(yields)
    }

    fn block(&mut self, id: BlockId) -> Result<Vec<Rc<Array>>, Error> {
        let body = self.body;
        let block = body.block(id);
        for statement in &block.statements {
            self.statement(statement)?;
        }
        block.yields.iter().map(|&id| self.get(id)).collect()
    }

    fn get(&self, id: ValueId) -> Result<Rc<Array>, Error> {
        let value = self.values.get(id.0 as usize).and_then(Option::clone);
        value.ok_or_else(|| Error::Internal("a value is read before it is made".into()))
    }

    fn set(&mut self, id: ValueId, value: Rc<Array>) {
        if let Some(slot) = self.values.get_mut(id.0 as usize) {
            *slot = Some(value);
        }
    }

    pub(super) fn index(&self, id: ValueId) -> Result<i64, Error> {
        Ok(self.get(id)?.as_index())
    }

    pub(super) fn out_of_range<T>(&self, message: String) -> Result<T, Error> {
        Err(Error::OutOfRange { kernel: self.kernel.name.clone(), step: self.step.to_vec(), message })
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Error> {
        let results: Vec<Rc<Array>> = match &statement.op {
            KernelOp::Store { to, at, value } => {
                let value = self.get(*value)?;
                let begins = self.begins(*to, at, &value.spec.dims)?;
                let part = unsqueezed(&value, self.memory[to.0 as usize].spec.rank());
                self.memory[to.0 as usize].set_block(&begins, &part);
                Vec::new()
            }
            KernelOp::Start(transfer) => {
                self.start(transfer)?;
                Vec::new()
            }
            KernelOp::Await(transfer) => {
                self.finish(transfer)?;
                Vec::new()
            }
            KernelOp::If { condition, then, otherwise } => {
                let taken = if self.index(*condition)? != 0 { *then } else { *otherwise };
                self.block(taken)?
            }
            KernelOp::For { from, to, carried, body } => {
                let (from, to) = (self.index(*from)?, self.index(*to)?);
                let mut carried: Vec<Rc<Array>> =
                    carried.iter().map(|&id| self.get(id)).collect::<Result<_, Error>>()?;
                let args = self.body.block(*body).args.clone();
                for count in from..to {
                    let count = Rc::new(Array::ints(DType::I32, &[], vec![count as i32]));
                    for (&arg, value) in args.iter().zip([count].into_iter().chain(carried.drain(..))) {
                        self.set(arg, value);
                    }
                    carried = self.block(*body)?;
                }
                carried
            }
            op => {
                let result = statement.results.first().copied().unwrap_or(ValueId(u32::MAX));
                let spec = self.body.ty(result).clone();
                vec![Rc::new(self.value(op, &spec)?)]
            }
        };
        for (&id, value) in statement.results.iter().zip(results) {
            self.set(id, value);
        }
        Ok(())
    }

    fn value(&mut self, op: &KernelOp, spec: &Spec) -> Result<Array, Error> {
        let n = spec.num_elements();
        Ok(match op {
            KernelOp::ProgramId(axis) => {
                let index = self.step.get(*axis as usize).copied().unwrap_or(0);
                Array::ints(DType::I32, &[], vec![index as i32])
            }
            KernelOp::Constant(Number::Float(value)) => Array::floats(spec.dtype, &spec.dims, vec![*value; n]),
            KernelOp::Constant(Number::Int(value)) => Array::ints(spec.dtype, &spec.dims, vec![*value; n]),
            KernelOp::Iota { axis } => {
                let inner: usize = spec.dims.iter().skip(*axis as usize + 1).product();
                let size = spec.dims.get(*axis as usize).copied().unwrap_or(1);
                Array::ints(spec.dtype, &spec.dims, (0..n).map(|i| (i / inner % size) as i32).collect())
            }
            KernelOp::Unary(op, a) => unary(*op, &*self.get(*a)?, spec),
            KernelOp::Binary(op, a, b) => binary(*op, &*self.get(*a)?, &*self.get(*b)?, spec),
            KernelOp::Compare(how, a, b) => compare(*how, &*self.get(*a)?, &*self.get(*b)?, spec),
            KernelOp::Select(c, a, b) => select(&*self.get(*c)?, &*self.get(*a)?, &*self.get(*b)?, spec),
            KernelOp::Cast(a) => cast(&*self.get(*a)?, spec),
            KernelOp::Broadcast(a) => broadcast(&*self.get(*a)?, spec),
            KernelOp::Repeat(a, _) => {
                let from = self.get(*a)?;
                let (narrow, wide) = (last(&from.spec), last(spec));
                gathered(&from, spec, (0..n).map(move |i| i / wide * narrow + i % wide % narrow))
            }
            KernelOp::Reshape(a) => Array { spec: spec.clone(), data: self.get(*a)?.data.clone() },
            KernelOp::Transpose(a) => {
                let from = self.get(*a)?;
                let (rows, columns) = (spec.dims[0], spec.dims[1]);
                let order = (0..n).map(move |i| (i % columns) * rows + i / columns);
                gathered(&from, spec, order)
            }
            KernelOp::Reinterpret(a) => reinterpreted(&*self.get(*a)?, spec),
            KernelOp::Concatenate(parts) => {
                let parts: Vec<Rc<Array>> = parts.iter().map(|&id| self.get(id)).collect::<Result<_, Error>>()?;
                concatenated(&parts, spec)
            }
            KernelOp::Rows(a, first) => {
                let (from, skipped) = (self.get(*a)?, *first as usize * last(spec));
                gathered(&from, spec, (0..n).map(move |i| i + skipped))
            }
            KernelOp::Reduce(how, a, axis) => reduce(*how, &*self.get(*a)?, *axis as usize, spec),
            KernelOp::MatMul { lhs, rhs, form, precision } => {
                matmul(&*self.get(*lhs)?, &*self.get(*rhs)?, *form, *precision, spec)
            }
            KernelOp::AssumeMultiple(a, number) => {
                let value = self.get(*a)?;
                if value.as_index() % i64::from(*number) != 0 {
                    return self.out_of_range(format!("{} is not a multiple of {number}", value.as_index()));
                }
                (*value).clone()
            }
            KernelOp::Load { from, at } => {
                let memory = from.0 as usize;
                let dims = if spec.dims.is_empty() { vec![1; at.len()] } else { spec.dims.clone() };
                let begins = self.begins(*from, at, &dims)?;
                let mut whole = vec![1; self.memory[memory].spec.rank() - dims.len()];
                whole.extend(&dims);
                let fresh = Array::poison(&Spec::new(spec.dtype, whole));
                let loaded = self.memory[memory].block(&begins, fresh);
                Array { spec: spec.clone(), data: loaded.data }
            }
            KernelOp::Store { .. }
            | KernelOp::Start(_)
            | KernelOp::Await(_)
            | KernelOp::If { .. }
            | KernelOp::For { .. } => {
                return Err(Error::Internal("an op without a value".into()));
            }
        })
    }

    /// First elements of a part of memory, which must lie inside.
    fn begins(&self, id: RefId, at: &[ValueId], dims: &[usize]) -> Result<Vec<usize>, Error> {
        let Some(reference) = self.kernel.reference(id) else {
            return Err(Error::Internal("memory of another kernel".into()));
        };
        let dims = if dims.is_empty() { vec![1; at.len()] } else { dims.to_vec() };
        let mut begins = vec![0; reference.block.rank().saturating_sub(at.len())];
        for (axis, ((&id, &size), &whole)) in at.iter().zip(&dims).zip(reference.view()).enumerate() {
            let begin = self.index(id)?;
            let inside = usize::try_from(begin).ok().filter(|b| b.checked_add(size).is_some_and(|end| end <= whole));
            let Some(begin) = inside else {
                let name = &reference.name;
                return self
                    .out_of_range(format!("{begin}..+{size} along dimension {axis} of {name}, which has {whole}"));
            };
            begins.push(begin);
        }
        Ok(begins)
    }
}

fn last(spec: &Spec) -> usize {
    spec.dims.last().copied().unwrap_or(1)
}

fn unsqueezed(value: &Array, rank: usize) -> Array {
    let mut dims = vec![1; rank.saturating_sub(value.spec.rank())];
    dims.extend(&value.spec.dims);
    Array { spec: Spec::new(value.spec.dtype, dims), data: value.data.clone() }
}

fn gathered(from: &Array, spec: &Spec, order: impl Iterator<Item = usize>) -> Array {
    let data = match &from.data {
        Data::Float(values) => Data::Float(order.map(|i| values[i]).collect()),
        Data::Int(values) => Data::Int(order.map(|i| values[i]).collect()),
    };
    Array { spec: spec.clone(), data }
}

fn unary(op: UnaryOp, a: &Array, spec: &Spec) -> Array {
    match &a.data {
        Data::Float(values) => {
            let f = |x: f32| match op {
                UnaryOp::Neg => -x,
                UnaryOp::Exp => x.exp(),
                UnaryOp::Exp2 => x.exp2(),
                UnaryOp::Log => x.ln(),
                UnaryOp::Rsqrt => 1.0 / x.sqrt(),
                UnaryOp::Tanh => x.tanh(),
                UnaryOp::Abs => x.abs(),
                UnaryOp::Not => x,
            };
            Array::floats(spec.dtype, &spec.dims, values.iter().map(|&x| f(x)).collect())
        }
        Data::Int(values) => {
            let f = |x: i32| if op == UnaryOp::Not { i32::from(x == 0) } else { x.wrapping_neg() };
            Array::ints(spec.dtype, &spec.dims, values.iter().map(|&x| f(x)).collect())
        }
    }
}

fn binary(op: BinaryOp, a: &Array, b: &Array, spec: &Spec) -> Array {
    match (&a.data, &b.data) {
        (Data::Float(a), Data::Float(b)) => {
            // NaN wins over numbers in maximumf and minimumf.
            let f = |x: f32, y: f32| match op {
                BinaryOp::Add => x + y,
                BinaryOp::Sub => x - y,
                BinaryOp::Mul => x * y,
                BinaryOp::Div => x / y,
                BinaryOp::Max if x.is_nan() || y.is_nan() => f32::NAN,
                BinaryOp::Min if x.is_nan() || y.is_nan() => f32::NAN,
                BinaryOp::Max => x.max(y),
                BinaryOp::Min => x.min(y),
                BinaryOp::Rem | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::ShiftRight => f32::NAN,
            };
            Array::floats(spec.dtype, &spec.dims, a.iter().zip(b).map(|(&x, &y)| f(x, y)).collect())
        }
        (Data::Int(a), Data::Int(b)) => {
            let f = |x: i32, y: i32| match op {
                BinaryOp::Add => x.wrapping_add(y),
                BinaryOp::Sub => x.wrapping_sub(y),
                BinaryOp::Mul => x.wrapping_mul(y),
                BinaryOp::Div => x.checked_div(y).unwrap_or(-1),
                BinaryOp::Rem => x.checked_rem(y).unwrap_or(x),
                BinaryOp::Max => x.max(y),
                BinaryOp::Min => x.min(y),
                BinaryOp::And => x & y,
                BinaryOp::Or => x | y,
                BinaryOp::Xor => x ^ y,
                BinaryOp::ShiftRight => ((x as u32) >> (y as u32 & 31)) as i32,
            };
            Array::ints(spec.dtype, &spec.dims, a.iter().zip(b).map(|(&x, &y)| f(x, y)).collect())
        }
        _ => Array::poison(spec),
    }
}

fn compare(how: CompareOp, a: &Array, b: &Array, spec: &Spec) -> Array {
    fn test<T: PartialOrd>(how: CompareOp, x: T, y: T) -> i32 {
        i32::from(match how {
            CompareOp::Eq => x == y,
            CompareOp::Ne => x != y,
            CompareOp::Lt => x < y,
            CompareOp::Le => x <= y,
            CompareOp::Gt => x > y,
            CompareOp::Ge => x >= y,
        })
    }
    let values = match (&a.data, &b.data) {
        (Data::Float(a), Data::Float(b)) => a.iter().zip(b).map(|(&x, &y)| test(how, x, y)).collect(),
        (Data::Int(a), Data::Int(b)) => a.iter().zip(b).map(|(&x, &y)| test(how, x, y)).collect(),
        _ => return Array::poison(spec),
    };
    Array::ints(DType::Bool, &spec.dims, values)
}

fn select(c: &Array, a: &Array, b: &Array, spec: &Spec) -> Array {
    let Data::Int(conditions) = &c.data else { return Array::poison(spec) };
    // A scalar condition chooses all of one side.
    if conditions.len() == 1 {
        return if conditions[0] != 0 { a.clone() } else { b.clone() };
    }
    match (&a.data, &b.data) {
        (Data::Float(a), Data::Float(b)) => {
            let values = conditions.iter().zip(a.iter().zip(b)).map(|(&c, (&a, &b))| if c != 0 { a } else { b });
            Array::floats(spec.dtype, &spec.dims, values.collect())
        }
        (Data::Int(a), Data::Int(b)) => {
            let values = conditions.iter().zip(a.iter().zip(b)).map(|(&c, (&a, &b))| if c != 0 { a } else { b });
            Array::ints(spec.dtype, &spec.dims, values.collect())
        }
        _ => Array::poison(spec),
    }
}

fn cast(a: &Array, spec: &Spec) -> Array {
    match (&a.data, is_float(spec.dtype)) {
        (Data::Float(values), true) => Array::floats(spec.dtype, &spec.dims, values.clone()),
        (Data::Float(values), false) => {
            Array::ints(spec.dtype, &spec.dims, values.iter().map(|&v| wrapped(spec.dtype, v as i32)).collect())
        }
        (Data::Int(values), true) => Array::floats(spec.dtype, &spec.dims, values.iter().map(|&v| v as f32).collect()),
        (Data::Int(values), false) => Array::ints(spec.dtype, &spec.dims, values.clone()),
    }
}

fn broadcast(a: &Array, spec: &Spec) -> Array {
    let n = spec.num_elements();
    if a.spec.dims.is_empty() {
        return gathered(a, spec, (0..n).map(|_| 0));
    }
    let (from, to) = (a.spec.dims.clone(), spec.dims.clone());
    let order = (0..n).map(move |mut i| {
        let (mut at, mut stride) = (0, 1);
        for axis in (0..to.len()).rev() {
            let index = i % to[axis];
            i /= to[axis];
            if from[axis] != 1 {
                at += index * stride;
            }
            stride *= from[axis];
        }
        at
    });
    gathered(a, spec, order)
}

/// Elements of a column that share a word, the first in its lowest bits.
fn reinterpreted(a: &Array, spec: &Spec) -> Array {
    let columns = last(spec).max(1);
    let (narrow, wide) = (a.spec.dtype.bits(), spec.dtype.bits());
    let bits = (0..spec.num_elements()).map(|i| {
        let (first_bit, column) = ((i / columns) as u32 as u64 * u64::from(wide), i % columns);
        let mut word = 0u64;
        let mut place = 0;
        // The elements whose bits these are: several, or a part of one.
        while place < wide {
            let at = first_bit + u64::from(place);
            let (row, within) = ((at / u64::from(narrow)) as usize, (at % u64::from(narrow)) as u32);
            word |= u64::from(a.bits(row * columns + column) >> within) << place;
            place += narrow - within;
        }
        (word & (u64::MAX >> (64 - wide))) as u32
    });
    Array::of_bits(spec, bits)
}

fn concatenated(parts: &[Rc<Array>], spec: &Spec) -> Array {
    if is_float(spec.dtype) {
        let of = |part: &Rc<Array>| match &part.data {
            Data::Float(values) => values.clone(),
            Data::Int(_) => Vec::new(),
        };
        Array::floats(spec.dtype, &spec.dims, parts.iter().flat_map(of).collect())
    } else {
        let of = |part: &Rc<Array>| match &part.data {
            Data::Int(values) => values.clone(),
            Data::Float(_) => Vec::new(),
        };
        Array::ints(spec.dtype, &spec.dims, parts.iter().flat_map(of).collect())
    }
}

fn reduce(how: ReduceOp, a: &Array, axis: usize, spec: &Spec) -> Array {
    let size = a.spec.dims.get(axis).copied().unwrap_or(1);
    let inner: usize = a.spec.dims.iter().skip(axis + 1).product();
    let line = move |i: usize| (0..size).map(move |k| (i / inner * size + k) * inner + i % inner);
    let n = spec.num_elements();
    match &a.data {
        Data::Float(values) => {
            let fold = |i: usize| {
                let items = line(i).map(|at| values[at]);
                match how {
                    ReduceOp::Sum => items.sum(),
                    ReduceOp::Max => {
                        items.fold(f32::NEG_INFINITY, |m, x| if x.is_nan() || m.is_nan() { f32::NAN } else { m.max(x) })
                    }
                }
            };
            Array::floats(spec.dtype, &spec.dims, (0..n).map(fold).collect())
        }
        Data::Int(values) => {
            let fold = |i: usize| {
                let items = line(i).map(|at| values[at]);
                match how {
                    ReduceOp::Sum => items.fold(0, i32::wrapping_add),
                    ReduceOp::Max => items.fold(i32::MIN, i32::max),
                }
            };
            Array::ints(spec.dtype, &spec.dims, (0..n).map(fold).collect())
        }
    }
}

/// Sums of products in `f32` (or `i32`), operands first rounded where the precision says so.
fn matmul(lhs: &Array, rhs: &Array, form: MatMulForm, precision: MatmulPrecision, spec: &Spec) -> Array {
    let (m, n) = (spec.dims[0], spec.dims[1]);
    let k = lhs.spec.num_elements() / m.max(1);
    // Both as [m, k] and [k, n], so that the inner loop runs along rows.
    let left = |i: usize, l: usize| if form == MatMulForm::TransposedLhs { l * m + i } else { i * k + l };
    let right = |l: usize, j: usize| if form == MatMulForm::TransposedRhs { j * k + l } else { l * n + j };
    match (&lhs.data, &rhs.data) {
        (Data::Float(a), Data::Float(b)) => {
            let dtype = if precision == MatmulPrecision::Highest { lhs.spec.dtype } else { DType::BF16 };
            let b: Vec<f32> = (0..k * n).map(|i| rounded(dtype, b[right(i / n, i % n)])).collect();
            let mut out = vec![0f32; m * n];
            for i in 0..m {
                let row = &mut out[i * n..(i + 1) * n];
                for l in 0..k {
                    let x = rounded(dtype, a[left(i, l)]);
                    for (sum, &y) in row.iter_mut().zip(&b[l * n..(l + 1) * n]) {
                        *sum += x * y;
                    }
                }
            }
            Array::floats(spec.dtype, &spec.dims, out)
        }
        (Data::Int(a), Data::Int(b)) => {
            let sum = |i: usize| {
                let (i, j) = (i / n, i % n);
                (0..k).fold(0i32, |sum, l| sum.wrapping_add(a[left(i, l)].wrapping_mul(b[right(l, j)])))
            };
            Array::ints(spec.dtype, &spec.dims, (0..m * n).map(sum).collect())
        }
        _ => Array::poison(spec),
    }
}
