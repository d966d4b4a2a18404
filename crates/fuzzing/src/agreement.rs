//! How far two engines must agree on each result of a program: derived from its ops, and held against what they gave.

use std::collections::HashMap;

use hlo::{Attr, DenseData, Func, Keyword, Module, Op, OpClass, OpKind, Region, Type, Value};
use tensor::{DType, Literal, decode_float};

/// Calls that are followed; deeper ones are not compared.
const MAX_DEPTH: usize = 16;

/// How sure a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// The same bits, but for the payload of NaNs: nothing was computed but signs.
    Exact,
    /// The same elements: no order of summation and no approximation decides. NaNs are one value, zeros too: which sign
    /// arithmetic gives them is left open.
    Same,
    /// Floats that may differ by rounding.
    Close,
    /// Anything: left open by the specification, or decided by the last bit of a float.
    Open,
}

use Level::{Close, Exact, Open, Same};

/// The levels of the results of the entry function of a program whose composites are calls.
pub(crate) fn levels(module: &Module) -> Vec<Level> {
    let Some(func) = module.entry() else { return Vec::new() };
    // Kernels take numbers below the normal range for zero, which ops that jump make visible.
    if module.funcs.iter().flat_map(|func| &func.ops).any(has_denormals) {
        return vec![Open; func.outputs.len()];
    }
    let derived = Derivation { module, depth: 0 }.call(func, &vec![Exact; func.inputs.len()]);
    derived.unwrap_or_else(|| vec![Open; func.outputs.len()])
}

struct Derivation<'m> {
    module: &'m Module,
    depth: usize,
}

type Levels = HashMap<Value, Level>;

impl Derivation<'_> {
    fn call(&mut self, func: &Func, arguments: &[Level]) -> Option<Vec<Level>> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let mut known = Levels::new();
        let results = func.body.map(|body| self.region(func, body, arguments, &mut known));
        self.depth -= 1;
        results
    }

    /// The levels of what a region returns.
    fn region(&mut self, func: &Func, region: Region, arguments: &[Level], known: &mut Levels) -> Vec<Level> {
        let data = func.region(region);
        for (n, &value) in data.args.iter().enumerate() {
            known.insert(value, arguments.get(n).copied().unwrap_or(Open));
        }
        for &id in &data.ops {
            let op = func.op(id);
            let operands: Vec<Level> =
                op.operands.iter().map(|value| known.get(value).copied().unwrap_or(Open)).collect();
            if op.kind().is_some_and(OpKind::is_terminator) {
                return operands;
            }
            let results = self.op(func, op, &operands, known);
            for (n, value) in op.results().enumerate() {
                let level = results.get(n).or(results.last()).copied().unwrap_or(Exact);
                // What is no float is the same or nothing is known of it.
                let level = match level {
                    _ if is_float(func.ty(value)) => level,
                    Exact | Same => Exact,
                    Close | Open => Open,
                };
                known.insert(value, level);
            }
        }
        Vec::new()
    }

    fn op(&mut self, func: &Func, op: &Op, operands: &[Level], known: &mut Levels) -> Vec<Level> {
        let all = operands.iter().copied().max().unwrap_or(Exact);
        let Some(kind) = op.kind() else { return vec![Open] };
        let is_float = op.results().chain(op.operands.iter().copied()).any(|value| is_float(func.ty(value)));
        let is_complex = op.operands.iter().any(|&value| {
            func.ty(value).as_tensor().is_some_and(|ty| ty.element.plain().is_some_and(DType::is_complex))
        });
        let when_same = |then: Level| if all <= Same { then } else { Open };
        let computed = if is_float { all.max(Close) } else { all };
        let is_narrow = || op.operands.iter().any(|&value| !is_wide(func.ty(value)));
        let one = match kind.class() {
            _ if all == Open => Open,
            OpClass::Movement | OpClass::Structure | OpClass::Sharding | OpClass::Source | OpClass::Size => all,
            OpClass::Indexing if kind == OpKind::Scatter => self.combined(func, op, all, known),
            OpClass::Indexing => all,
            OpClass::Arithmetic | OpClass::Transcendental => match kind {
                // Bits of a NaN, and numbers below the normal range.
                OpKind::BitcastConvert if is_float => Open,
                OpKind::Maximum | OpKind::Minimum if is_complex => when_same(Same),
                OpKind::Abs if is_complex => computed,
                OpKind::Select | OpKind::Abs | OpKind::Negate => all,
                OpKind::Real | OpKind::Imag | OpKind::Complex => all,
                OpKind::Clamp | OpKind::Maximum | OpKind::Minimum | OpKind::Convert => all.max(Same),
                // It sees the signs of zeros and NaNs.
                OpKind::Compare if is_float && is_total_order(op) => {
                    if all == Exact {
                        Exact
                    } else {
                        Open
                    }
                }
                OpKind::Compare
                | OpKind::IsFinite
                | OpKind::Floor
                | OpKind::Ceil
                | OpKind::RoundNearestAfz
                | OpKind::RoundNearestEven
                | OpKind::Sign
                | OpKind::ReducePrecision => when_same(Same),
                // The signs of zeros are open, and choose a branch of a complex function.
                OpKind::Atan2 | OpKind::Power if is_float => Open,
                _ if is_complex && kind.class() == OpClass::Transcendental => Open,
                OpKind::Remainder if is_float => when_same(Close),
                _ if kind.name().starts_with("chlo.") => when_same(computed),
                _ => computed,
            },
            OpClass::Contraction => computed,
            // How it rounds inside is left open; few digits may be none in the end.
            OpClass::Normalization => {
                if is_narrow() {
                    Open
                } else {
                    computed
                }
            }
            OpClass::Reduction => self.combined(func, op, all, known),
            // Zeros of either sign have an order.
            OpClass::Ordering if is_float && op.regions.is_empty() => Open,
            OpClass::Ordering => self.ordered(func, op, when_same(Same)),
            OpClass::LinearAlgebra if kind == OpKind::Fft => computed,
            // Bits that are taken for floats are any numbers.
            OpClass::Random if kind == OpKind::RngBitGenerator && !is_float => all,
            OpClass::Control => return self.control(func, op, kind, operands, known),
            _ => Open,
        };
        vec![one]
    }

    /// Elements combined in an order that is left open: the same where the region is one op that does not mind.
    fn combined(&mut self, func: &Func, op: &Op, all: Level, known: &mut Levels) -> Level {
        let [region] = op.regions[..] else { return Open };
        let ops: Vec<&Op> = func.region(region).ops.iter().map(|&id| func.op(id)).collect();
        let arguments = func.region(region).args.clone();
        let returned = self.region(func, region, &vec![all; arguments.len()], known).into_iter().fold(all, Level::max);
        let is_float = arguments.iter().any(|&value| is_float(func.ty(value)));
        let is_wide = arguments.iter().all(|&value| is_wide(func.ty(value)));
        match ops[..] {
            [_] => all.max(returned),
            [one, _] if is_one_of_both(one, &arguments) => match one.kind() {
                Some(OpKind::Maximum | OpKind::Minimum | OpKind::And | OpKind::Or | OpKind::Xor) => returned,
                // Where every step is rounded to few digits, the order decides.
                Some(OpKind::Add | OpKind::Multiply) if is_float && !is_wide => Open,
                Some(OpKind::Add | OpKind::Multiply) if is_float => returned.max(Close),
                Some(OpKind::Add | OpKind::Multiply) => returned,
                _ => Open,
            },
            _ => Open,
        }
    }

    /// Sorted by one comparison that has one answer.
    fn ordered(&self, func: &Func, op: &Op, level: Level) -> Level {
        let [region] = op.regions[..] else { return if op.regions.is_empty() { level } else { Open } };
        let data = func.region(region);
        let [compare, _] = data.ops[..] else { return Open };
        let compare = func.op(compare);
        let is_one = compare.kind() == Some(OpKind::Compare) && data.args.get(..2) == Some(&compare.operands[..]);
        let word = |name: &str| match compare.attr(name) {
            Some(Attr::Keyword(word)) => Some(*word),
            _ => None,
        };
        let is_strict = matches!(word("comparison_direction"), Some(Keyword::Lt | Keyword::Gt));
        let is_total = !data.args.iter().take(2).any(|&value| is_float(func.ty(value)));
        // Equal keys of an unstable sort may bring their values in any order.
        let is_stable = data.args.len() == 2 || op.attr("is_stable") == Some(&Attr::Bool(true));
        if is_one && is_strict && is_total && is_stable { level } else { Open }
    }

    fn control(&mut self, func: &Func, op: &Op, kind: OpKind, operands: &[Level], known: &mut Levels) -> Vec<Level> {
        let open = vec![Open; op.num_results as usize];
        let symbol = |name: &str| match op.attr(name) {
            Some(Attr::Symbol(name)) => self.module.func(name),
            _ => None,
        };
        match kind {
            OpKind::While => {
                let [condition, body] = op.regions[..] else { return open };
                let mut carried = operands.to_vec();
                // The levels only rise, and there are four.
                for _ in 0..4 * carried.len() + 1 {
                    if self.region(func, condition, &carried, known) != [Exact] {
                        return open;
                    }
                    let next = self.region(func, body, &carried, known);
                    if next.len() != carried.len() {
                        return open;
                    }
                    let joined: Vec<Level> = carried.iter().zip(&next).map(|(a, b)| *a.max(b)).collect();
                    if joined == carried {
                        return carried;
                    }
                    carried = joined;
                }
                open
            }
            OpKind::If | OpKind::Case => {
                if operands != [Exact] {
                    return open;
                }
                let mut joined = vec![Exact; op.num_results as usize];
                for &region in &op.regions {
                    let returned = self.region(func, region, &[], known);
                    joined.iter_mut().zip(returned).for_each(|(a, b)| *a = (*a).max(b));
                }
                joined
            }
            OpKind::Map => op.regions.first().map_or(open, |&region| self.region(func, region, operands, known)),
            OpKind::FuncCall => symbol("callee").and_then(|callee| self.call(callee, operands)).unwrap_or(open),
            OpKind::Composite => symbol("decomposition").and_then(|callee| self.call(callee, operands)).unwrap_or(open),
            _ => open,
        }
    }
}

/// Whether an op is a constant with numbers below the normal range of its type.
fn has_denormals(op: &Op) -> bool {
    let Some(Attr::Dense(dense)) = op.attr("value") else { return false };
    let Some(dtype) = dense.ty.element.plain() else { return false };
    let part = dtype.complex_part().unwrap_or(dtype);
    let least = match part {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F32 | DType::BF16 => f64::from(f32::MIN_POSITIVE),
        _ => return false,
    };
    let (DenseData::Splat(bytes) | DenseData::Elements(bytes)) = &dense.data else { return false };
    let is_denormal = |bytes: &[u8]| decode(part, bytes).is_some_and(|x| x != 0.0 && x.abs() < least);
    bytes.chunks(part.size_bytes()).any(is_denormal)
}

fn decode(dtype: DType, bytes: &[u8]) -> Option<f64> {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    decode_float(dtype, u64::from_le_bytes(word))
}

fn is_float(ty: &Type) -> bool {
    match ty {
        Type::Tensor(ty) => ty.element.plain().is_none_or(|dtype| dtype.is_float() || dtype.is_complex()),
        Type::Token => false,
        _ => true,
    }
}

/// Whether the elements of a type have 32 bits or more.
fn is_wide(ty: &Type) -> bool {
    ty.as_tensor().and_then(|ty| ty.element.plain()).is_some_and(|dtype| dtype.bits() >= 32)
}

fn is_total_order(op: &Op) -> bool {
    op.attr("compare_type").and_then(Attr::as_keyword) == Some(Keyword::CompareTotalOrder)
}

/// Whether an op combines the two arguments of its region.
fn is_one_of_both(op: &Op, arguments: &[Value]) -> bool {
    matches!((arguments, &op.operands[..]), ([a, b], [x, y]) if (x, y) == (a, b) || (x, y) == (b, a))
}

/// How far floats may lie apart, as a part of the largest number of their array.
fn tolerance(dtype: DType) -> f64 {
    match dtype.complex_part().unwrap_or(dtype) {
        DType::F64 => 1e-7,
        DType::F32 => 2e-3,
        DType::F16 => 3e-2,
        DType::BF16 => 1e-1,
        _ => 0.5,
    }
}

/// The tolerance of the narrowest float of a program.
pub(crate) fn loosest(module: &Module) -> f64 {
    let types = module.funcs.iter().flat_map(|func| &func.values).filter_map(|value| value.ty.as_tensor());
    let floats = types.filter_map(|ty| ty.element.plain()).filter(|ty| ty.is_float() || ty.is_complex());
    floats.map(tolerance).fold(0.0, f64::max)
}

/// The numbers of an array of floats, complex ones as two.
pub(crate) fn numbers(literal: &Literal) -> Option<Vec<f64>> {
    let part = literal.dtype().complex_part().unwrap_or(literal.dtype());
    literal.bytes().chunks(part.size_bytes()).map(|bytes| decode(part, bytes)).collect()
}

/// The first place where two arrays differ by more than allowed, and how.
pub(crate) fn difference(a: &Literal, b: &Literal, allowed: f64) -> Option<(usize, String)> {
    if (a.dtype(), a.dims()) != (b.dtype(), b.dims()) {
        return Some((0, format!("{} {:?} and {} {:?}", a.dtype(), a.dims(), b.dtype(), b.dims())));
    }
    if a.bytes() == b.bytes() {
        return None;
    }
    let (Some(x), Some(y)) = (numbers(a), numbers(b)) else {
        let width = a.dtype().size_bytes();
        let (at, (x, y)) =
            a.bytes().chunks(width).zip(b.bytes().chunks(width)).enumerate().find(|(_, (x, y))| x != y)?;
        return Some((at, format!("element {at}: bytes {x:?} compiled, {y:?} interpreted")));
    };
    let is_same = |x: f64, y: f64| x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= allowed;
    let at = x.iter().zip(&y).position(|(&x, &y)| !is_same(x, y))?;
    Some((at, format!("element {at}: {:?} compiled, {:?} interpreted, allowed {allowed:e}", x[at], y[at])))
}

/// As [`difference`], for floats that were rounded on the way: what is not finite in either is left out.
pub(crate) fn far_difference(a: &Literal, b: &Literal, tolerance: f64) -> Option<(usize, String)> {
    let (Some(x), Some(y)) = (numbers(a), numbers(b)) else { return difference(a, b, 0.0) };
    if (a.dtype(), a.dims()) != (b.dtype(), b.dims()) {
        return difference(a, b, 0.0);
    }
    let scale = y.iter().chain(&x).filter(|v| v.is_finite()).fold(1.0, |m: f64, v| m.max(v.abs()));
    let is_same = |x: f64, y: f64| !x.is_finite() || !y.is_finite() || (x - y).abs() <= scale * tolerance;
    let at = x.iter().zip(&y).position(|(&x, &y)| !is_same(x, y))?;
    Some((at, format!("element {at}: {:?} compiled, {:?} interpreted, scale {scale:e}", x[at], y[at])))
}
