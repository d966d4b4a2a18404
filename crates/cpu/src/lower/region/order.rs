//! Comparators of sorts as orders of keys: the same function of either side, compared; several keys one after another.

use hlo::{Attr, Definition, Func, Keyword, Op, OpKind, Region, Value};
use tensor::DType;

use super::{dtype, expression};
use crate::attributes;
use crate::kernels::loops::ir::{Binary, Inst, Unary};
use crate::kernels::scalar::Program;
use crate::kernels::sort::{Direction, Key, Nans, SortOrder, Ties, Transform};

/// Keys one comparator may have.
const MAX_KEYS: usize = 64;

/// The order a comparator stands for, if it is one: arguments `2k` and `2k + 1` are the two sides of operand `k`.
///
/// A leaf compares `f(left)` with `f(right)` of one operand for any `f`. A chain is `first < | first = & rest`, written
/// with and, or and select.
pub(crate) fn comparator(func: &Func, region: Region) -> Option<SortOrder> {
    let data = func.region(region);
    let [mut root] = func.op(*data.ops.last()?).operands[..] else { return None };
    let mut keys = Vec::new();
    loop {
        if keys.len() >= MAX_KEYS {
            return None;
        }
        let op = defining(func, root)?;
        match (op.kind()?, &op.operands[..]) {
            (OpKind::Compare, _) => {
                let (key, relation) = leaf(func, &data.args, op)?;
                keys.push(key);
                let ties = match relation {
                    Relation::Before => Ties::Kept,
                    Relation::NotAfter => Ties::Reversed,
                    Relation::Same | Relation::Differs => return None,
                };
                return Some(SortOrder { keys, ties });
            }
            (OpKind::Or, &[a, b]) => {
                let parts = |strict: Value, chain: Value| {
                    let chain = defining(func, chain).filter(|op| op.kind() == Some(OpKind::And))?;
                    let &[x, y] = &chain.operands[..] else { return None };
                    let link = |same: Value, rest: Value| {
                        Some((linked(func, &data.args, strict, same, Relation::Same)?, rest))
                    };
                    link(x, y).or_else(|| link(y, x))
                };
                let (key, rest) = parts(a, b).or_else(|| parts(b, a))?;
                keys.push(key);
                root = rest;
            }
            (OpKind::Select, &[question, on_true, on_false]) => {
                let equal = linked(func, &data.args, on_false, question, Relation::Same).map(|key| (key, on_true));
                let (key, rest) = equal
                    .or_else(|| Some((linked(func, &data.args, on_true, question, Relation::Differs)?, on_false)))?;
                keys.push(key);
                root = rest;
            }
            _ => return None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Before,
    NotAfter,
    Same,
    Differs,
}

fn defining(func: &Func, value: Value) -> Option<&Op> {
    match func.value(value).definition {
        Definition::Result(id, 0) => Some(func.op(id)),
        _ => None,
    }
}

/// The key that `strict` orders by, if `question` asks about the same key whether the sides are equal (or differ).
fn linked(func: &Func, args: &[Value], strict: Value, question: Value, asked: Relation) -> Option<Key> {
    let (key, relation) = leaf(func, args, defining(func, strict)?)?;
    let (other, answer) = leaf(func, args, defining(func, question)?)?;
    // Equality does not tell a direction.
    let same = other.operand == key.operand && other.transform == key.transform && other.nans == key.nans;
    (relation == Relation::Before && answer == asked && same).then_some(key)
}

/// A comparison of the two sides of one operand, each through the same function.
fn leaf(func: &Func, args: &[Value], op: &Op) -> Option<(Key, Relation)> {
    if op.kind() != Some(OpKind::Compare) {
        return None;
    }
    let &[a, b] = &op.operands[..] else { return None };
    let (left, right) = (side(func, args, a)?, side(func, args, b)?);
    if left.argument ^ 1 != right.argument || left.program.insts != right.program.insts {
        return None;
    }
    let swapped = left.argument & 1 == 1;
    let (ascending, relation) = match op.attr("comparison_direction").and_then(Attr::as_keyword)? {
        Keyword::Lt => (true, Relation::Before),
        Keyword::Gt => (false, Relation::Before),
        Keyword::Le => (true, Relation::NotAfter),
        Keyword::Ge => (false, Relation::NotAfter),
        Keyword::Eq => (true, Relation::Same),
        Keyword::Ne => (true, Relation::Differs),
        _ => return None,
    };
    let total = attributes::is_total_order(op);
    let nans = if dtype(func, a)?.is_float() && !total { Nans::Unordered } else { Nans::Ordered };
    let direction = if ascending != swapped { Direction::Ascending } else { Direction::Descending };
    let key = Key { operand: left.argument / 2, transform: transform(left.program), direction, nans };
    Some((key, relation))
}

struct Side {
    argument: usize,
    program: Program,
}

/// A value as a function of the one argument it depends on.
fn side(func: &Func, args: &[Value], value: Value) -> Option<Side> {
    if let Some(argument) = args.iter().position(|&arg| arg == value) {
        return Some(Side { argument, program: expression(func, &[value], &[value])? });
    }
    let all = expression(func, args, &[value])?;
    let mut read = (0..args.len()).filter(|&n| all.reads(n));
    let (Some(argument), None) = (read.next(), read.next()) else { return None };
    Some(Side { argument, program: expression(func, &[args[argument]], &[value])? })
}

fn transform(program: Program) -> Transform {
    if matches!(program.insts[..], [Inst::Load(0)]) {
        Transform::None
    } else if is_canonical(&program) {
        Transform::Canonical
    } else {
        Transform::Program(program)
    }
}

/// Whether a function of a real number only takes -0 to +0 and every NaN to the positive quiet one.
///
/// It may only compare its argument with zero or itself and choose between it, zero and NaN. Such a function cannot tell
/// two numbers of the same sign apart, so that one of each kind shows what it does to all.
fn is_canonical(program: &Program) -> bool {
    let (&[dtype], &[(result, _)]) = (&program.arguments[..], &program.results[..]) else { return false };
    if dtype != result || !matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16) {
        return false;
    }
    let of = |value: f64| if dtype == DType::F64 { value.to_bits() } else { u64::from((value as f32).to_bits()) };
    let constant = |bits: u64| match dtype {
        DType::F64 => f64::from_bits(bits),
        _ => f64::from(f32::from_bits(bits as u32)),
    };
    let is_choice = |inst: &Inst| match inst {
        Inst::Load(_) | Inst::Compare(..) | Inst::Select(..) | Inst::Unary(Unary::Not, _) => true,
        Inst::Const { bits, .. } => *bits <= 1 || constant(*bits) == 0.0 || constant(*bits).is_nan(),
        Inst::Binary(Binary::And | Binary::Or | Binary::Xor, ..) => true,
        _ => false,
    };
    if !program.insts.iter().all(is_choice) {
        return false;
    }
    let mut registers = program.registers();
    let mut takes = |from: u64, to: u64| {
        let mut out = [0];
        program.eval(&mut registers, &[from], &mut out);
        out[0] == to
    };
    let nan = if dtype == DType::F64 { f64::NAN.to_bits() } else { u64::from(f32::NAN.to_bits()) };
    let negative_nan = nan | of(-0.0);
    [1.0, -1.0, 2.0, -2.0, f64::INFINITY, f64::NEG_INFINITY, 0.0].iter().all(|&x| takes(of(x), of(x)))
        && takes(of(-0.0), of(0.0))
        && takes(nan, nan)
        && takes(negative_nan, nan)
}
