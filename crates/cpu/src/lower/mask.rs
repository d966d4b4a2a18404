//! Masks whose shape is known when the program is compiled: for each row of a matrix, the one run of columns they let
//! through.

#[cfg(test)]
mod tests;

use std::ops::Range;

use tensor::DType;

use crate::kernels::loops::ir::{Access, Binary, Compare, Inst, Lane, Loop, Reg, Unary};

/// Rows a mask is worked out for at most: far more than an attention has, few enough to be quick.
const MOST_ROWS: usize = 1 << 20;
/// Numbers below this are themselves in every type masks are computed in.
const EXACT: i64 = 1 << 24;

/// The columns of one row that a mask lets through.
pub(crate) type Run = Range<u32>;

/// What an instruction gives along one row.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// `base + step·column`.
    Line { base: i64, step: i64 },
    /// True in this run of columns only.
    Seen(Range<i64>),
    /// False in this run of columns only, which touches neither end.
    Hidden(Range<i64>),
}

/// A mask of `rows × columns`: the register of a loop whose last two dimensions are rows and columns.
pub(crate) struct Mask<'a> {
    pub(crate) code: &'a Loop,
    pub(crate) value: Reg,
    /// The runs of an array the loop reads, where they are known.
    pub(crate) arrays: &'a dyn Fn(usize) -> Option<Vec<Run>>,
}

impl Mask<'_> {
    /// The run of each row; `None` where a row has more than one, or data decides.
    pub(crate) fn runs(&self) -> Option<Vec<Run>> {
        let [.., rows, columns] = self.code.dims[..] else { return None };
        if rows > MOST_ROWS || i64::try_from(columns).ok()? >= EXACT {
            return None;
        }
        let order = self.order()?;
        let mut arrays = Vec::new();
        for &at in &order {
            if let Inst::Load(n) = self.code.insts[at] {
                arrays.push((at, (self.arrays)(n as usize)?));
            }
        }
        let mut forms: Vec<Option<Form>> = vec![None; self.code.insts.len()];
        let mut runs = Vec::with_capacity(rows);
        for row in 0..rows {
            for &at in &order {
                let array = arrays.iter().find(|(place, _)| *place == at).and_then(|(_, runs)| runs.get(row));
                let row = Row { number: row as i64, columns: columns as i64, rank: self.code.dims.len() };
                forms[at] = Some(row.form(&self.code.insts[at], &forms, array)?);
            }
            match &forms[self.value.0 as usize] {
                Some(Form::Seen(run)) => runs.push(u32::try_from(run.start).ok()?..u32::try_from(run.end).ok()?),
                _ => return None,
            }
        }
        Some(runs)
    }

    /// The instructions the mask is made of, in their order.
    fn order(&self) -> Option<Vec<usize>> {
        let mut order: Vec<usize> = Vec::new();
        let mut pending = vec![self.value];
        while let Some(reg) = pending.pop() {
            if order.contains(&(reg.0 as usize)) {
                continue;
            }
            order.push(reg.0 as usize);
            match self.code.insts.get(reg.0 as usize)? {
                Inst::Load(_) | Inst::Const { .. } | Inst::Index { .. } => {}
                Inst::Unary(Unary::Not, a) | Inst::Convert { value: a, .. } | Inst::Round(_, a) => pending.push(*a),
                Inst::Binary(_, a, b) | Inst::Compare(_, a, b) => pending.extend([*a, *b]),
                Inst::Select(a, b, c) => pending.extend([*a, *b, *c]),
                _ => return None,
            }
        }
        order.sort_unstable();
        Some(order)
    }
}

struct Row {
    number: i64,
    columns: i64,
    rank: usize,
}

impl Row {
    fn form(&self, inst: &Inst, forms: &[Option<Form>], array: Option<&Run>) -> Option<Form> {
        let at = |reg: &Reg| forms[reg.0 as usize].clone();
        let form = match inst {
            Inst::Load(_) => {
                let run = array?;
                self.seen(i64::from(run.start)..i64::from(run.end))
            }
            Inst::Const { lane: Lane::Mask, bits } => self.seen(0..if *bits & 1 == 1 { self.columns } else { 0 }),
            Inst::Const { lane, bits } => Form::Line { base: number(*lane, *bits)?, step: 0 },
            Inst::Index { dim, .. } if *dim as usize + 1 == self.rank => Form::Line { base: 0, step: 1 },
            Inst::Index { dim, .. } if *dim as usize + 2 == self.rank => Form::Line { base: self.number, step: 0 },
            Inst::Unary(Unary::Not, a) => self.not(at(a)?)?,
            Inst::Binary(op, a, b) => self.binary(*op, at(a)?, at(b)?)?,
            Inst::Compare(op, a, b) => self.compare(*op, at(a)?, at(b)?)?,
            Inst::Select(mask, a, b) => {
                let (mask, a, b) = (at(mask)?, at(a)?, at(b)?);
                let kept = self.both(mask.clone(), a)?;
                let other = self.both(self.not(mask)?, b)?;
                self.either(kept, other)?
            }
            Inst::Convert { value, target, .. } => self.in_type(at(value)?, *target)?,
            Inst::Round(dtype, value) => self.in_type(at(value)?, *dtype)?,
            _ => return None,
        };
        match form {
            Form::Line { base, step } => {
                let ends = [base, base.checked_add(step.checked_mul(self.columns - 1)?)?];
                ends.iter().all(|end| (-EXACT..EXACT).contains(end)).then_some(form)
            }
            _ => Some(form),
        }
    }

    /// A mask, brought to the form it can be compared in.
    fn seen(&self, run: Range<i64>) -> Form {
        let run = run.start.max(0)..run.end.min(self.columns);
        if run.start >= run.end { Form::Seen(0..0) } else { Form::Seen(run) }
    }

    fn not(&self, form: Form) -> Option<Form> {
        Some(match form {
            Form::Line { .. } => return None,
            Form::Hidden(run) => Form::Seen(run),
            Form::Seen(run) if run.is_empty() => self.seen(0..self.columns),
            Form::Seen(run) if run.start == 0 => self.seen(run.end..self.columns),
            Form::Seen(run) if run.end == self.columns => self.seen(0..run.start),
            Form::Seen(run) => Form::Hidden(run),
        })
    }

    fn both(&self, a: Form, b: Form) -> Option<Form> {
        match (a, b) {
            (Form::Seen(a), Form::Seen(b)) => Some(self.seen(a.start.max(b.start)..a.end.min(b.end))),
            (Form::Seen(seen), Form::Hidden(hidden)) | (Form::Hidden(hidden), Form::Seen(seen)) => {
                if seen.end <= hidden.start || hidden.end <= seen.start {
                    Some(self.seen(seen))
                } else if hidden.start <= seen.start {
                    Some(self.seen(hidden.end..seen.end))
                } else if seen.end <= hidden.end {
                    Some(self.seen(seen.start..hidden.start))
                } else {
                    None
                }
            }
            _ => None,
        }
    }

    fn either(&self, a: Form, b: Form) -> Option<Form> {
        match (&a, &b) {
            (Form::Seen(empty), _) if empty.is_empty() => Some(b),
            (_, Form::Seen(empty)) if empty.is_empty() => Some(a),
            (Form::Seen(a), Form::Seen(b)) if a.start <= b.end && b.start <= a.end => {
                Some(self.seen(a.start.min(b.start)..a.end.max(b.end)))
            }
            (Form::Line { .. }, _) | (_, Form::Line { .. }) => None,
            _ => self.not(self.both(self.not(a)?, self.not(b)?)?),
        }
    }

    fn binary(&self, op: Binary, a: Form, b: Form) -> Option<Form> {
        let (left, right) = match (a, b) {
            (Form::Line { base, step }, Form::Line { base: other, step: turn }) => ((base, step), (other, turn)),
            (a, b) => {
                return match op {
                    Binary::And => self.both(a, b),
                    Binary::Or => self.either(a, b),
                    _ => None,
                };
            }
        };
        let (base, step) = match (op, left, right) {
            (Binary::Add, a, b) => (a.0 + b.0, a.1 + b.1),
            (Binary::Sub, a, b) => (a.0 - b.0, a.1 - b.1),
            (Binary::Mul, a, (by, 0)) | (Binary::Mul, (by, 0), a) => (a.0 * by, a.1 * by),
            _ => return None,
        };
        Some(Form::Line { base, step })
    }

    fn compare(&self, op: Compare, a: Form, b: Form) -> Option<Form> {
        let (Form::Line { base, step }, Form::Line { base: other, step: turn }) = (a, b) else { return None };
        let is_negative = |base: i64, step: i64| base.min(base + step * (self.columns - 1)) < 0;
        let is_unsigned = matches!(op, Compare::LtU | Compare::LeU | Compare::GtU | Compare::GeU);
        if is_unsigned && (is_negative(base, step) || is_negative(other, turn)) {
            return None;
        }
        // `base + step·column` is compared with 0.
        let (base, step) = (base - other, step - turn);
        let holds = |value: i64| match op {
            Compare::Eq => value == 0,
            Compare::Ne => value != 0,
            Compare::Lt | Compare::LtU => value < 0,
            Compare::Le | Compare::LeU => value <= 0,
            Compare::Gt | Compare::GtU => value > 0,
            Compare::Ge | Compare::GeU => value >= 0,
        };
        if step == 0 {
            return Some(self.seen(0..if holds(base) { self.columns } else { 0 }));
        }
        if step.abs() != 1 {
            return None;
        }
        // Before, at and after the column where it is 0.
        let zero = -base * step;
        let (before, here, after) = (holds(-step), holds(0), holds(step));
        let part = |is_seen: bool, run: Range<i64>| self.seen(if is_seen { run } else { 0..0 });
        let first = self.either(part(before, 0..zero), part(here, zero..zero + 1));
        match first {
            Some(first) => self.either(first, part(after, zero + 1..self.columns)),
            None => None,
        }
    }

    /// Numbers that the type holds as they are.
    fn in_type(&self, form: Form, dtype: DType) -> Option<Form> {
        let Form::Line { base, step } = form else { return None };
        let end = base + step * (self.columns - 1);
        let (low, high) = (base.min(end), base.max(end));
        let fits = match dtype {
            DType::F32 | DType::F64 | DType::I32 | DType::I64 => true,
            DType::U32 | DType::U64 => low >= 0,
            DType::I16 => low >= i64::from(i16::MIN) && high <= i64::from(i16::MAX),
            DType::U16 => low >= 0 && high <= i64::from(u16::MAX),
            _ => false,
        };
        fits.then_some(form)
    }
}

/// The integer a constant is.
fn number(lane: Lane, bits: u64) -> Option<i64> {
    let real = |value: f64| (value.fract() == 0.0 && value.abs() < EXACT as f64).then_some(value as i64);
    match lane {
        Lane::F32 => real(f64::from(f32::from_bits(bits as u32))),
        Lane::F64 => real(f64::from_bits(bits)),
        Lane::I32 => Some(i64::from(bits as u32 as i32)),
        Lane::I64 => Some(bits as i64),
        Lane::Mask => None,
    }
    .filter(|value| (-EXACT..EXACT).contains(value))
}

/// The runs of an array in memory whose elements are seen or not.
pub(crate) fn runs_of<T>(
    elements: &[T],
    rows: usize,
    columns: usize,
    is_seen: impl Fn(&T) -> bool,
) -> Option<Vec<Run>> {
    if columns == 0 || elements.len() != rows.checked_mul(columns)? || u32::try_from(columns).is_err() {
        return None;
    }
    let run = |row: &[T]| {
        let Some(start) = row.iter().position(&is_seen) else { return Some(0..0) };
        let length = row[start..].iter().position(|element| !is_seen(element)).unwrap_or(columns - start);
        let is_one = !row[start + length..].iter().any(&is_seen);
        is_one.then_some(start as u32..(start + length) as u32)
    };
    elements.chunks_exact(columns).map(run).collect()
}

/// Whether an array is one matrix of the loop's last two dimensions, in order, the same for all others.
pub(crate) fn is_one_matrix(access: &Access, dims: &[usize]) -> bool {
    let [outer @ .., rows, columns] = dims else { return false };
    let [steps @ .., row, column] = &access.strides[..] else { return false };
    access.offset == 0
        && (*rows == 1 || *row == *columns as isize)
        && (*columns == 1 || *column == 1)
        && outer.iter().zip(steps).all(|(&size, &step)| size == 1 || step == 0)
}
