//! What a number of a dispatch mask is, for one token and one expert: a case for each choice of the token that may be this expert, and
//! one where none is.
//!
//! Experts of a token differ, so at most one of its one-hot vectors is 1 at an expert. A running count of these vectors differs from row
//! to row wherever the vector is 1: that makes it a place that no other row has.

use hlo::{Keyword, OpKind};
use tensor::DType;

/// A place in the buffer of an expert: the running count of the choice plus a number, or another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) plus: i64,
    pub(super) or: Option<i64>,
}

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Symbol {
    Number(f64),
    /// 0 or 1.
    Bit,
    /// Which expert it is of.
    Expert,
    /// The expert that was chosen.
    Chosen,
    /// Which slot it is of, plus a number.
    Slot(i64),
    /// The running count of the choice, at least 1, plus a number.
    Count(Place),
    /// Not zero at one slot at most: that of the count plus a number.
    At {
        place: Place,
        is_bit: bool,
    },
    Any,
}

pub(super) const ZERO: Symbol = Symbol::Number(0.0);
const ONE: Symbol = Symbol::Number(1.0);

impl Symbol {
    fn is_bit(self) -> bool {
        matches!(self, Symbol::Bit | Symbol::At { is_bit: true, .. }) || self == ZERO || self == ONE
    }

    /// The same number in a type, if the type has it.
    pub(super) fn in_type(self, dtype: DType, rows: usize) -> Symbol {
        match self {
            Symbol::Count(Place { plus, or }) => {
                let largest = |n: i64| n.unsigned_abs();
                let most = (rows as u64).saturating_add(largest(plus)).max(or.map_or(0, largest));
                if most <= exact(dtype) { self } else { Symbol::Any }
            }
            Symbol::Chosen | Symbol::Expert | Symbol::Slot(_) if exact(dtype) < u64::from(u16::MAX) => Symbol::Any,
            _ => self,
        }
    }
}

/// Up to which number a type has all integers.
fn exact(dtype: DType) -> u64 {
    match dtype {
        DType::F64 => 1 << 53,
        DType::F32 => 1 << 24,
        DType::F16 => 1 << 11,
        DType::BF16 => 1 << 8,
        _ if dtype.is_integer() && dtype.bits() >= 8 => {
            let sign = u32::from(dtype.is_signed_integer());
            1u64.checked_shl(dtype.bits() - sign).map_or(u64::MAX, |count| count - 1)
        }
        _ => 0,
    }
}

fn product(a: Symbol, b: Symbol) -> Symbol {
    use Symbol as S;
    match (a, b) {
        (S::Number(0.0), _) | (_, S::Number(0.0)) => ZERO,
        (S::Number(1.0), x) | (x, S::Number(1.0)) => x,
        (S::Number(a), S::Number(b)) => S::Number(a * b),
        (S::At { place, is_bit }, x) | (x, S::At { place, is_bit }) => S::At { place, is_bit: is_bit && x.is_bit() },
        (S::Bit, S::Bit) => S::Bit,
        (S::Bit, S::Count(Place { plus, or: None | Some(0) }))
        | (S::Count(Place { plus, or: None | Some(0) }), S::Bit) => S::Count(Place { plus, or: Some(0) }),
        _ => S::Any,
    }
}

/// A number without a fraction, in a range that counts stay in.
fn whole(n: f64) -> Option<i64> {
    (n.fract() == 0.0 && n.abs() < 1e12).then_some(n as i64)
}

fn sum(a: Symbol, b: Symbol) -> Symbol {
    use Symbol as S;
    match (a, b) {
        (S::Number(a), S::Number(b)) => S::Number(a + b),
        (S::Number(0.0), x) | (x, S::Number(0.0)) => x,
        (S::Count(Place { plus, or }), S::Number(n)) | (S::Number(n), S::Count(Place { plus, or })) => match whole(n) {
            Some(n) => S::Count(Place { plus: plus + n, or: or.map(|or| or + n) }),
            None => S::Any,
        },
        (S::Slot(plus), S::Number(n)) | (S::Number(n), S::Slot(plus)) => whole(n).map_or(S::Any, |n| S::Slot(plus + n)),
        _ => S::Any,
    }
}

fn difference(a: Symbol, b: Symbol) -> Symbol {
    match (a, b) {
        (Symbol::Number(1.0), Symbol::Bit) => Symbol::Bit,
        (a, Symbol::Number(n)) => sum(a, Symbol::Number(-n)),
        _ => Symbol::Any,
    }
}

fn largest(a: Symbol, b: Symbol) -> Symbol {
    use Symbol as S;
    match (a, b) {
        (S::Number(a), S::Number(b)) => S::Number(a.max(b)),
        (S::Number(f64::NEG_INFINITY), x) | (x, S::Number(f64::NEG_INFINITY)) => x,
        // A count is at least 1.
        (S::Count(Place { plus, or }), S::Number(n)) | (S::Number(n), S::Count(Place { plus, or })) => {
            let floor = n.ceil().max(-1e12);
            match whole(floor).filter(|_| floor <= (plus + 1) as f64 && n == floor) {
                Some(n) => S::Count(Place { plus, or: or.map(|or| or.max(n)) }),
                None => S::Any,
            }
        }
        (S::Bit, S::Bit | S::Number(0.0)) | (S::Number(0.0), S::Bit) => S::Bit,
        (x @ S::At { is_bit: true, .. }, S::Number(0.0)) | (S::Number(0.0), x @ S::At { is_bit: true, .. }) => x,
        _ => S::Any,
    }
}

fn either(a: Symbol, b: Symbol) -> Symbol {
    match (a, b) {
        (Symbol::Number(0.0), x) | (x, Symbol::Number(0.0)) => x,
        (Symbol::Number(_), _) | (_, Symbol::Number(_)) => ONE,
        _ => Symbol::Bit,
    }
}

/// Whether two numbers are equal; `is_own`: whether the case is that the choice is the expert.
fn equal(a: Symbol, b: Symbol, is_own: bool, slots: i64) -> Symbol {
    use Symbol as S;
    match (a, b) {
        (S::Number(a), S::Number(b)) => S::Number(f64::from(u8::from(a == b))),
        (S::Chosen, S::Expert) | (S::Expert, S::Chosen) => S::Number(f64::from(u8::from(is_own))),
        (S::Slot(at), S::Count(Place { plus, or })) | (S::Count(Place { plus, or }), S::Slot(at)) => {
            let or = or.map(|or| or - at).filter(|or| (0..slots).contains(or));
            S::At { place: Place { plus: plus - at, or }, is_bit: true }
        }
        (S::Slot(at), S::Number(n)) | (S::Number(n), S::Slot(at)) => match whole(n) {
            Some(n) if (0..slots).contains(&(n - at)) => S::Bit,
            _ => ZERO,
        },
        _ => S::Bit,
    }
}

fn compared(direction: Keyword, a: Symbol, b: Symbol, is_own: bool, slots: i64) -> Symbol {
    use Symbol as S;
    match (direction, a, b) {
        (Keyword::Eq, ..) => equal(a, b, is_own, slots),
        (Keyword::Ne, S::Chosen, S::Expert) | (Keyword::Ne, S::Expert, S::Chosen) => {
            S::Number(f64::from(u8::from(!is_own)))
        }
        // What is not zero, or positive, is so at one slot at most.
        (Keyword::Ne | Keyword::Gt, S::At { place, .. }, S::Number(0.0))
        | (Keyword::Ne | Keyword::Lt, S::Number(0.0), S::At { place, .. }) => S::At { place, is_bit: true },
        (_, S::Number(a), S::Number(b)) => {
            let truth = match direction {
                Keyword::Ne => a != b,
                Keyword::Lt => a < b,
                Keyword::Le => a <= b,
                Keyword::Gt => a > b,
                Keyword::Ge => a >= b,
                _ => return S::Bit,
            };
            S::Number(f64::from(u8::from(truth)))
        }
        _ => S::Bit,
    }
}

fn selected(which: Symbol, on: Symbol, off: Symbol) -> Symbol {
    use Symbol as S;
    match (which, on, off) {
        (S::Number(n), ..) => {
            if n != 0.0 {
                on
            } else {
                off
            }
        }
        (_, on, off) if on == off && on != S::Any => on,
        (_, x @ S::At { .. }, S::Number(0.0)) | (_, S::Number(0.0), x @ S::At { .. }) => x,
        (S::At { place, .. }, x, S::Number(0.0)) => S::At { place, is_bit: x.is_bit() },
        (_, S::Count(Place { plus, or }), S::Number(n)) | (_, S::Number(n), S::Count(Place { plus, or })) => {
            match whole(n).filter(|n| or.is_none_or(|or| or == *n)) {
                Some(n) => S::Count(Place { plus, or: Some(n) }),
                None => S::Any,
            }
        }
        (_, on, off) if on.is_bit() && off.is_bit() => S::Bit,
        _ => S::Any,
    }
}

/// What an element-by-element op makes of its operands.
pub(super) fn elementwise(
    kind: OpKind,
    direction: Option<Keyword>,
    operands: &[Symbol],
    is_own: bool,
    (slots, to): (i64, DType),
) -> Symbol {
    use Symbol as S;
    match (kind, operands) {
        (OpKind::Multiply | OpKind::And, &[a, b]) => product(a, b),
        (OpKind::Add, &[a, b]) => sum(a, b),
        (OpKind::Subtract, &[a, b]) => difference(a, b),
        (OpKind::Maximum, &[a, b]) => largest(a, b),
        (OpKind::Or, &[a, b]) if to.is_bool() => either(a, b),
        (OpKind::Not, &[S::Number(n)]) if to.is_bool() => S::Number(f64::from(u8::from(n == 0.0))),
        (OpKind::Not, _) if to.is_bool() => S::Bit,
        (OpKind::Divide, &[S::Number(0.0), _]) => ZERO,
        (OpKind::Divide, &[S::At { place, .. }, _]) => S::At { place, is_bit: false },
        (OpKind::Negate, &[S::Number(n)]) => S::Number(-n),
        (OpKind::Negate, &[S::At { place, .. }]) => S::At { place, is_bit: false },
        (OpKind::Compare, &[a, b]) => direction.map_or(S::Bit, |direction| compared(direction, a, b, is_own, slots)),
        (OpKind::Select, &[which, on, off]) => selected(which, on, off),
        (OpKind::Convert, &[x]) if to.is_bool() => match x {
            S::Number(n) => S::Number(f64::from(u8::from(n != 0.0))),
            S::At { place, .. } => S::At { place, is_bit: true },
            _ => S::Bit,
        },
        (OpKind::Convert, &[S::Number(n)]) if !to.is_float() => S::Number(n.trunc()),
        // What has a fraction may become zero, which is no slot of another.
        (OpKind::Convert | OpKind::OptimizationBarrier, &[x]) => x,
        _ => S::Any,
    }
}

/// What numbers add up to, or the largest of them, or whether one is true.
pub(super) fn reduced(kind: OpKind, symbols: &[Symbol], to: DType) -> Symbol {
    let fold = |a: Symbol, b: Symbol| elementwise(kind, None, &[a, b], false, (0, to));
    symbols.iter().copied().reduce(fold).unwrap_or(Symbol::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: Symbol = Symbol::Count(Place { plus: 0, or: None });

    fn at(plus: i64, or: Option<i64>) -> Symbol {
        Symbol::At { place: Place { plus, or }, is_bit: true }
    }

    fn on(kind: OpKind, operands: &[Symbol]) -> Symbol {
        elementwise(kind, Some(Keyword::Eq), operands, true, (8, DType::F32))
    }

    #[test]
    fn counts_are_places() {
        let less = on(OpKind::Subtract, &[COUNT, ONE]);
        assert_eq!(on(OpKind::Compare, &[less, Symbol::Slot(0)]), at(-1, None));
        // Multiplied by what may be zero, a count may be zero: one that is a slot is told apart from one that is none.
        let gated = on(OpKind::Multiply, &[COUNT, Symbol::Bit]);
        assert_eq!(on(OpKind::Compare, &[gated, Symbol::Slot(1)]), at(-1, None));
        assert_eq!(on(OpKind::Compare, &[gated, Symbol::Slot(0)]), at(0, Some(0)));
        assert_eq!(on(OpKind::Maximum, &[less, Symbol::Number(-1.0)]), less);
        assert_eq!(on(OpKind::Maximum, &[less, Symbol::Number(1.0)]), Symbol::Any, "the first two would be one");
        assert_eq!(on(OpKind::Minimum, &[less, Symbol::Number(7.0)]), Symbol::Any);
    }

    #[test]
    fn types_that_do_not_hold_a_count_hold_no_place() {
        assert_eq!(COUNT.in_type(DType::BF16, 256), COUNT);
        assert_eq!(COUNT.in_type(DType::BF16, 257), Symbol::Any);
        assert_eq!(COUNT.in_type(DType::I8, 128), Symbol::Any);
        assert_eq!(COUNT.in_type(DType::F32, 1 << 24), COUNT);
    }

    #[test]
    fn what_is_not_zero_stays_at_its_slot() {
        let weighed = on(OpKind::Multiply, &[at(0, None), Symbol::Any]);
        assert_eq!(weighed, Symbol::At { place: Place { plus: 0, or: None }, is_bit: false });
        assert_eq!(compared(Keyword::Ne, weighed, ZERO, true, 8), at(0, None));
        assert_eq!(compared(Keyword::Ge, weighed, ZERO, true, 8), Symbol::Bit);
        assert_eq!(on(OpKind::Add, &[weighed, ONE]), Symbol::Any);
    }
}
