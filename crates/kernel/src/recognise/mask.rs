//! What a mask lets through: it is computed from constants and counters alone, so it is computed here, and compared with the masks
//! that kernels know. Nothing is guessed from the way it is written.

use std::ops::Range;

use hlo::{Attr, Definition, Dense, DenseData, Func, Keyword, Op, OpKind, Value};
use tensor::{DType, decode_float, encode_float};

use crate::call::static_spec;

/// Queries whose rows of a mask are computed at once.
const ROWS: usize = 64;
/// Ops that one block may take: masks are short.
const MAX_OPS: usize = 4096;
/// Elements that one block may have.
const MAX_ELEMENTS: usize = 1 << 24;
/// Scores this low have no weight.
pub(super) const LOW: f64 = -1e4;

/// Where an array is computed: for each dimension a range.
type Area = Vec<Range<usize>>;

/// Computes parts of arrays that depend on no argument.
pub(super) struct Evaluator<'a> {
    pub(super) func: &'a Func,
    ops: usize,
    arguments: Arguments,
}

/// What an array that depends on arguments is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arguments {
    /// Not known.
    Unknown,
    /// One that may vary along all dimensions.
    Vary,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(func: &'a Func) -> Evaluator<'a> {
        Evaluator { func, ops: 0, arguments: Arguments::Unknown }
    }

    /// The one number of an array that repeats it.
    pub(super) fn scalar(&mut self, value: Value) -> Option<f64> {
        let spec = static_spec(self.func.ty(value))?;
        if self.varies(value)?.iter().any(|&varies| varies) {
            return None;
        }
        let area = spec.dims.iter().map(|&size| 0..size.min(1)).collect();
        self.ops = 0;
        self.part(value, &area)?.first().copied()
    }

    /// Along which dimensions an array may vary; `None` where it depends on an argument.
    pub(super) fn varies(&mut self, value: Value) -> Option<Vec<bool>> {
        self.ops = 0;
        self.varying(value)
    }

    /// Along which dimensions an array may vary, arguments included.
    pub(super) fn axes(&mut self, value: Value) -> Option<Vec<bool>> {
        (self.ops, self.arguments) = (0, Arguments::Vary);
        let all = static_spec(self.func.ty(value))?.dims.iter().map(|&size| size > 1).collect();
        let varying = self.varying(value);
        self.arguments = Arguments::Unknown;
        Some(varying.unwrap_or(all))
    }

    fn spend(&mut self) -> Option<()> {
        self.ops += 1;
        (self.ops <= MAX_OPS).then_some(())
    }

    fn varying(&mut self, value: Value) -> Option<Vec<bool>> {
        self.spend()?;
        let known = match self.func.value(value).definition {
            Definition::Result(id, _) => self.varying_result(value, self.func.op(id)),
            Definition::Argument(..) => None,
        };
        match self.arguments {
            Arguments::Unknown => known,
            Arguments::Vary => {
                let dims = static_spec(self.func.ty(value))?.dims;
                Some(known.unwrap_or_else(|| dims.iter().map(|&size| size > 1).collect()))
            }
        }
    }

    fn varying_result(&mut self, value: Value, op: &Op) -> Option<Vec<bool>> {
        let dims = static_spec(self.func.ty(value))?.dims;
        Some(match op.kind()? {
            OpKind::Constant => match op.attr("value")? {
                Attr::Dense(dense) if matches!(dense.data, DenseData::Splat(_)) => vec![false; dims.len()],
                Attr::Dense(_) => dims.iter().map(|&size| size > 1).collect(),
                _ => return None,
            },
            OpKind::Iota => {
                let along = usize::try_from(op.attr("iota_dimension")?.as_int()?).ok()?;
                (0..dims.len()).map(|n| n == along).collect()
            }
            OpKind::BroadcastInDim => {
                let to = op.attr("broadcast_dimensions")?.as_i64s()?.to_vec();
                let from = static_spec(self.func.ty(op.operands[0]))?.dims;
                let inner = self.varying(op.operands[0])?;
                let mut result = vec![false; dims.len()];
                for ((&to, varies), size) in to.iter().zip(inner).zip(from) {
                    *result.get_mut(usize::try_from(to).ok()?)? = varies && size > 1;
                }
                result
            }
            OpKind::Transpose => {
                let order = op.attr("permutation")?.as_i64s()?.to_vec();
                let inner = self.varying(op.operands[0])?;
                order.iter().map(|&n| inner.get(usize::try_from(n).ok()?).copied()).collect::<Option<_>>()?
            }
            OpKind::Reshape => {
                let from = static_spec(self.func.ty(op.operands[0]))?.dims;
                let inner = self.varying(op.operands[0])?;
                if !inner.contains(&true) {
                    vec![false; dims.len()]
                } else {
                    let pairs = without_units(&from, &dims)?;
                    let mut result = vec![false; dims.len()];
                    for (from, to) in pairs {
                        result[to] = inner[from];
                    }
                    result
                }
            }
            OpKind::Slice => {
                let inner = self.varying(op.operands[0])?;
                inner.into_iter().zip(dims).map(|(varies, size)| varies && size > 1).collect()
            }
            kind if is_elementwise(kind) => {
                let mut result = vec![false; dims.len()];
                for &operand in &op.operands {
                    let inner = self.varying(operand)?;
                    // The predicate of a select may be one for all.
                    if inner.len() == result.len() {
                        result.iter_mut().zip(inner).for_each(|(all, one)| *all |= one);
                    } else if !inner.is_empty() {
                        return None;
                    }
                }
                result
            }
            _ => return None,
        })
    }

    /// The elements of an area, row by row.
    fn part(&mut self, value: Value, area: &Area) -> Option<Vec<f64>> {
        self.spend()?;
        let count = area.iter().try_fold(1usize, |count, range| count.checked_mul(range.len()))?;
        if count > MAX_ELEMENTS {
            return None;
        }
        let Definition::Result(id, _) = self.func.value(value).definition else { return None };
        let op = self.func.op(id);
        let dtype = static_spec(self.func.ty(value))?.dtype;
        match op.kind()? {
            OpKind::Constant => match op.attr("value")? {
                Attr::Dense(dense) => constant(dense, area, count),
                _ => None,
            },
            OpKind::Iota => {
                let along = usize::try_from(op.attr("iota_dimension")?.as_int()?).ok()?;
                Some(gathered(area, count, |index| held(dtype, index.get(along).map_or(0.0, |&n| n as f64))))
            }
            OpKind::BroadcastInDim => {
                let to = op.attr("broadcast_dimensions")?.as_i64s()?.to_vec();
                let from = static_spec(self.func.ty(op.operands[0]))?.dims;
                let inner: Area = to
                    .iter()
                    .zip(&from)
                    .map(|(&to, &size)| {
                        Some(if size == 1 { 0..1 } else { area.get(usize::try_from(to).ok()?)?.clone() })
                    })
                    .collect::<Option<_>>()?;
                let elements = self.part(op.operands[0], &inner)?;
                let strides = strides(&inner);
                Some(gathered(area, count, |index| {
                    let offset = to.iter().zip(&inner).zip(&strides).map(|((&to, range), stride)| {
                        let at = index.get(to as usize).copied().unwrap_or(0);
                        if range.len() == 1 { 0 } else { (at - range.start) * stride }
                    });
                    elements.get(offset.sum::<usize>()).copied().unwrap_or(f64::NAN)
                }))
            }
            OpKind::Transpose => {
                let order = op.attr("permutation")?.as_i64s()?.to_vec();
                let mut inner: Area = vec![0..0; order.len()];
                for (to, &from) in order.iter().enumerate() {
                    *inner.get_mut(usize::try_from(from).ok()?)? = area.get(to)?.clone();
                }
                let elements = self.part(op.operands[0], &inner)?;
                let strides = strides(&inner);
                Some(gathered(area, count, |index| {
                    let offset = order.iter().zip(index).map(|(&from, &at)| {
                        let from = from as usize;
                        (at - inner[from].start) * strides[from]
                    });
                    elements.get(offset.sum::<usize>()).copied().unwrap_or(f64::NAN)
                }))
            }
            OpKind::Reshape => {
                let from = static_spec(self.func.ty(op.operands[0]))?.dims;
                let to = static_spec(self.func.ty(value))?.dims;
                let mut inner: Area = from.iter().map(|_| 0..1).collect();
                match without_units(&from, &to) {
                    Some(pairs) => {
                        for (from, to) in pairs {
                            inner[from] = area.get(to)?.clone();
                        }
                        self.part(op.operands[0], &inner)
                    }
                    // Anything goes for an array of one repeated number.
                    None => {
                        if self.varying(op.operands[0])?.contains(&true) {
                            return None;
                        }
                        Some(vec![self.part(op.operands[0], &inner)?.first().copied()?; count])
                    }
                }
            }
            OpKind::Slice => {
                let (starts, strides) = (op.attr("start_indices")?.as_i64s()?, op.attr("strides")?.as_i64s()?);
                if strides.iter().any(|&stride| stride != 1) {
                    return None;
                }
                let shift = |(range, &start): (&Range<usize>, &i64)| {
                    let start = usize::try_from(start).ok()?;
                    Some(range.start.checked_add(start)?..range.end.checked_add(start)?)
                };
                let inner: Area = area.iter().zip(starts).map(shift).collect::<Option<_>>()?;
                self.part(op.operands[0], &inner)
            }
            kind if is_elementwise(kind) => {
                let mut operands = Vec::new();
                for &operand in &op.operands {
                    let rank = static_spec(self.func.ty(operand))?.dims.len();
                    let elements = match rank == area.len() {
                        true => self.part(operand, area)?,
                        false if rank == 0 => vec![self.part(operand, &Vec::new())?.first().copied()?; count],
                        false => return None,
                    };
                    operands.push(elements);
                }
                let direction = op.attr("comparison_direction").and_then(Attr::as_keyword);
                let of = |n: usize, at: usize| operands[n][at];
                let truth = |x: bool| f64::from(u8::from(x));
                // As the op gives NaN where either is.
                let chosen = |a: f64, b: f64, is_first: bool| match a.is_nan() || b.is_nan() {
                    true => f64::NAN,
                    false if is_first => a,
                    false => b,
                };
                let one = |at: usize| {
                    let number = match kind {
                        OpKind::Add => of(0, at) + of(1, at),
                        OpKind::Subtract => of(0, at) - of(1, at),
                        OpKind::Multiply => of(0, at) * of(1, at),
                        OpKind::Divide if dtype.is_float() => of(0, at) / of(1, at),
                        OpKind::Negate => -of(0, at),
                        OpKind::Sqrt => of(0, at).sqrt(),
                        OpKind::Rsqrt => of(0, at).sqrt().recip(),
                        OpKind::Maximum => chosen(of(0, at), of(1, at), of(0, at) >= of(1, at)),
                        OpKind::Minimum => chosen(of(0, at), of(1, at), of(0, at) <= of(1, at)),
                        OpKind::And if dtype.is_bool() => truth(of(0, at) != 0.0 && of(1, at) != 0.0),
                        OpKind::Or if dtype.is_bool() => truth(of(0, at) != 0.0 || of(1, at) != 0.0),
                        OpKind::Not if dtype.is_bool() => truth(of(0, at) == 0.0),
                        OpKind::Convert if dtype.is_bool() => truth(of(0, at) != 0.0),
                        OpKind::Convert => of(0, at),
                        OpKind::Select => {
                            if of(0, at) != 0.0 {
                                of(1, at)
                            } else {
                                of(2, at)
                            }
                        }
                        OpKind::Compare => truth(compared(direction?, of(0, at), of(1, at))?),
                        _ => return None,
                    };
                    Some(held(dtype, number))
                };
                (0..count).map(one).collect()
            }
            _ => None,
        }
    }
}

/// A number as an element of a type holds it: floats are rounded, integers wrap.
fn held(dtype: DType, number: f64) -> f64 {
    match dtype {
        DType::F64 => number,
        DType::F32 => f64::from(number as f32),
        _ if dtype.is_bool() => number,
        _ if dtype.is_float() => {
            encode_float(dtype, number).and_then(|bits| decode_float(dtype, bits)).unwrap_or(f64::NAN)
        }
        _ => {
            let unused = 64 - dtype.bits().min(64);
            let bits = (number as i64) << unused;
            if dtype.is_signed_integer() { (bits >> unused) as f64 } else { (bits as u64 >> unused) as f64 }
        }
    }
}

fn compared(direction: Keyword, a: f64, b: f64) -> Option<bool> {
    Some(match direction {
        Keyword::Eq => a == b,
        Keyword::Ne => a != b,
        Keyword::Lt => a < b,
        Keyword::Le => a <= b,
        Keyword::Gt => a > b,
        Keyword::Ge => a >= b,
        _ => return None,
    })
}

fn is_elementwise(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Add
            | OpKind::Subtract
            | OpKind::Multiply
            | OpKind::Divide
            | OpKind::Negate
            | OpKind::Sqrt
            | OpKind::Rsqrt
            | OpKind::Maximum
            | OpKind::Minimum
            | OpKind::And
            | OpKind::Or
            | OpKind::Not
            | OpKind::Convert
            | OpKind::Select
            | OpKind::Compare
    )
}

/// Pairs of dimensions of a reshape that only adds and drops sizes of 1.
fn without_units(from: &[usize], to: &[usize]) -> Option<Vec<(usize, usize)>> {
    let large = |dims: &[usize]| (0..dims.len()).filter(|&n| dims[n] != 1).collect::<Vec<_>>();
    let (a, b) = (large(from), large(to));
    let same = a.len() == b.len() && a.iter().zip(&b).all(|(&a, &b)| from[a] == to[b]);
    same.then(|| a.into_iter().zip(b).collect())
}

fn strides(area: &Area) -> Vec<usize> {
    let mut strides = vec![1; area.len()];
    for n in (0..area.len().saturating_sub(1)).rev() {
        strides[n] = strides[n + 1] * area[n + 1].len();
    }
    strides
}

/// One number for each index of an area.
fn gathered(area: &Area, count: usize, mut one: impl FnMut(&[usize]) -> f64) -> Vec<f64> {
    let mut index: Vec<usize> = area.iter().map(|range| range.start).collect();
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(one(&index));
        for n in (0..index.len()).rev() {
            index[n] += 1;
            if index[n] < area[n].end {
                break;
            }
            index[n] = area[n].start;
        }
    }
    all
}

fn constant(dense: &Dense, area: &Area, count: usize) -> Option<Vec<f64>> {
    let dtype = dense.ty.element.plain()?;
    let width = dtype.size_bytes();
    let read = |bytes: &[u8]| {
        let mut word = [0; 8];
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let bits = u64::from_le_bytes(word);
        if dtype.is_float() {
            return decode_float(dtype, bits);
        }
        let unused = 64 - 8 * width as u32;
        let signed = ((bits << unused) as i64) >> unused;
        Some(if dtype.is_signed_integer() { signed as f64 } else { bits as f64 })
    };
    match &dense.data {
        DenseData::Splat(element) => Some(vec![read(element)?; count]),
        DenseData::Elements(bytes) => {
            let whole: Area = dense.ty.dims.iter().map(|&size| 0..usize::try_from(size).unwrap_or(0)).collect();
            let strides = strides(&whole);
            let numbers = gathered(area, count, |index| {
                let offset: usize = index.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
                bytes.get(offset * width..(offset + 1) * width).and_then(read).unwrap_or(f64::NAN)
            });
            Some(numbers)
        }
        DenseData::Strings(_) => None,
    }
}

/// Keys that queries attend to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visible {
    /// All of them.
    All,
    /// Those up to the own position, where the last query is at the last key.
    Causal {
        /// So many of them, the own one included; `None`: all.
        window: Option<usize>,
    },
}

/// How an array is read as a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaskForm {
    /// Scores are kept where it is true.
    KeepWhere,
    /// Scores are masked where it is true.
    MaskWhere,
    /// It is added to the scores: nothing, or so little that no weight is left.
    Added,
}

/// A mask whose dimensions of queries and keys are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaskOf {
    pub(super) value: Value,
    pub(super) form: MaskForm,
    /// The dimension of queries; `None` where it is the same for all.
    pub(super) queries: Option<usize>,
    /// The dimension of keys.
    pub(super) keys: Option<usize>,
}

/// Why a mask is no mask: it moves scores that have weight.
pub(super) const BIAS: &str = "a bias is added to the scores";

/// What masks let through together for some queries, key by key.
fn seen(
    evaluator: &mut Evaluator<'_>,
    masks: &[MaskOf],
    queries: Range<usize>,
    keys: usize,
) -> Result<Vec<bool>, &'static str> {
    const ARGUMENTS: &str = "the mask depends on arguments";
    let mut seen = vec![true; queries.len() * keys];
    for mask in masks {
        let dims = static_spec(evaluator.func.ty(mask.value)).ok_or(ARGUMENTS)?.dims;
        let range = |n: usize| match n {
            _ if Some(n) == mask.queries => queries.clone(),
            _ if Some(n) == mask.keys => 0..keys,
            _ => 0..1,
        };
        let area: Area = (0..dims.len()).map(range).collect();
        evaluator.ops = 0;
        let elements = evaluator.part(mask.value, &area).ok_or(ARGUMENTS)?;
        let strides = strides(&area);
        let stride = |dim: Option<usize>| dim.and_then(|dim| strides.get(dim)).copied().unwrap_or(0);
        let (by_query, by_key) = (stride(mask.queries), stride(mask.keys));
        for (n, seen) in seen.iter_mut().enumerate() {
            let element = elements.get(n / keys * by_query + n % keys * by_key).copied().unwrap_or(f64::NAN);
            *seen &= match mask.form {
                MaskForm::KeepWhere => element != 0.0,
                MaskForm::MaskWhere => element == 0.0,
                MaskForm::Added if element == 0.0 => true,
                MaskForm::Added if element <= LOW => false,
                MaskForm::Added => return Err(BIAS),
            };
        }
    }
    Ok(seen)
}

/// Sizes of the blocks that kernels leave out where they are masked in whole, about.
const BLOCK: usize = 512;

/// The share of pairs in blocks that are not masked in whole, and whether some query sees no key.
pub(super) fn visible_blocks(func: &Func, masks: &[MaskOf], queries: usize, keys: usize) -> Option<(f32, bool)> {
    let mut evaluator = Evaluator::new(func);
    let (mut pairs, mut has_empty_rows) = (0usize, false);
    for begin in (0..queries).step_by(BLOCK) {
        let end = (begin + BLOCK).min(queries);
        let mut columns = vec![false; keys.div_ceil(BLOCK)];
        for row in (begin..end).step_by(ROWS) {
            let seen = seen(&mut evaluator, masks, row..(row + ROWS).min(end), keys).ok()?;
            for of_query in seen.chunks_exact(keys.max(1)) {
                has_empty_rows |= !of_query.contains(&true);
                for (column, keys) in columns.iter_mut().zip(of_query.chunks(BLOCK)) {
                    *column |= keys.contains(&true);
                }
            }
        }
        let widths = columns.iter().enumerate().filter(|(_, seen)| **seen);
        let width: usize = widths.map(|(n, _)| BLOCK.min(keys - n * BLOCK)).sum();
        pairs += (end - begin) * width;
    }
    Some((pairs as f32 / (queries * keys).max(1) as f32, has_empty_rows))
}

/// What masks let through together; the reason where that is nothing a kernel knows.
pub(super) fn visible(func: &Func, masks: &[MaskOf], queries: usize, keys: usize) -> Result<Visible, &'static str> {
    const OTHER: &str = "the mask is neither causal nor a sliding window";
    if masks.is_empty() {
        return Ok(Visible::All);
    }
    let mut evaluator = Evaluator::new(func);
    let offset = keys.checked_sub(queries);
    let (mut is_full, mut is_causal) = (true, offset.is_some());
    let mut window: Option<usize> = None;
    // The first key of rows whose window reaches the beginning.
    let mut open_rows = 0;
    for begin in (0..queries).step_by(ROWS) {
        let end = (begin + ROWS).min(queries);
        let seen = seen(&mut evaluator, masks, begin..end, keys)?;
        for (n, row) in seen.chunks_exact(keys).enumerate() {
            is_full &= row.iter().all(|&seen| seen);
            let Some(last) = offset.map(|offset| begin + n + offset) else { continue };
            let first = row.iter().position(|&seen| seen).unwrap_or(keys);
            is_causal &= first <= last && (first..=last).all(|k| row[k]) && row[last + 1..].iter().all(|&seen| !seen);
            if !is_causal {
                continue;
            }
            if first == 0 {
                open_rows = open_rows.max(last + 1);
            } else {
                let width = last + 1 - first;
                is_causal &= window.is_none_or(|window| window == width);
                window = Some(width);
            }
        }
        if !is_full && !is_causal {
            return Err(OTHER);
        }
    }
    if is_full {
        return Ok(Visible::All);
    }
    // Rows that see everything before them must be those that the window reaches over.
    if window.is_some_and(|window| open_rows > window) {
        return Err(OTHER);
    }
    Ok(Visible::Causal { window })
}
