//! Loops that are a softmax along their rows, as attention has it between its two dots.

use std::ops::Range;

use super::mask::{self, Run};
use crate::kernels::attention::{Hiding, Mask, Softmax};
use crate::kernels::loops::ir::{Binary, Fold, Inst, Lane, Loop, Mode, Reg, Unary};

/// Scores that are hidden are replaced with numbers below this; others are no mask.
const HIDDEN: f32 = -1000.0;

/// What is known of the arrays a loop reads.
pub(crate) struct Known<'a> {
    /// Whether an array is the scores.
    pub(crate) is_scores: &'a dyn Fn(usize) -> bool,
    /// The runs of a mask's rows.
    pub(crate) runs: &'a dyn Fn(usize) -> Option<Vec<Run>>,
    /// What an array of numbers hides when it is added.
    pub(crate) bias: &'a dyn Fn(usize) -> Option<Bias>,
}

/// An array that is 0 in one run of each row and hides the rest.
pub(crate) struct Bias {
    pub(crate) seen: Vec<Run>,
    /// The largest number elsewhere.
    pub(crate) outside: f32,
}

/// The softmax that a loop is; `None` where it is anything else.
pub(crate) fn recognise(code: &Loop, known: &Known<'_>) -> Option<Softmax> {
    let [write] = &code.writes[..] else { return None };
    let inst = |reg: Reg| code.insts.get(reg.0 as usize);
    if write.mode != Mode::Store {
        return None;
    }
    let (weight, total) = match inst(write.value)? {
        Inst::Binary(Binary::Div, weight, total) => (*weight, *total),
        _ => return None,
    };
    let is_total = matches!(inst(total)?, Inst::Reduce(Fold::Sum, summed) if *summed == weight);
    let Inst::Unary(Unary::Exp, difference) = inst(weight)? else { return None };
    let Inst::Binary(Binary::Sub, score, largest) = inst(*difference)? else { return None };
    if !is_total || !is_largest(code, *largest, *score) {
        return None;
    }
    let mut found = Found { code, known, scale: 1.0, hiding: Hiding::Replaced, outside: f32::NEG_INFINITY, seen: None };
    found.follow(*score)?;
    let mask = found.seen.map(|seen| Mask { seen, hiding: found.hiding, outside: found.outside });
    if mask.as_ref().is_some_and(|mask| mask.seen.iter().any(Range::is_empty)) {
        return None;
    }
    Some(Softmax { scale: found.scale, mask })
}

/// Whether a register is the largest of the scores of a row.
fn is_largest(code: &Loop, largest: Reg, score: Reg) -> bool {
    let inst = |reg: Reg| code.insts.get(reg.0 as usize);
    let is_least = |reg: Reg| constant(code, reg).is_some_and(|value| value == f32::NEG_INFINITY);
    match inst(largest) {
        Some(Inst::Reduce(Fold::Max, of)) => *of == score,
        Some(Inst::Binary(Binary::Max, a, b)) if is_least(*a) => is_largest(code, *b, score),
        Some(Inst::Binary(Binary::Max, a, b)) if is_least(*b) => is_largest(code, *a, score),
        _ => false,
    }
}

fn constant(code: &Loop, reg: Reg) -> Option<f32> {
    match code.insts.get(reg.0 as usize)? {
        Inst::Const { lane: Lane::F32, bits } => Some(f32::from_bits(*bits as u32)),
        _ => None,
    }
}

struct Found<'a> {
    code: &'a Loop,
    known: &'a Known<'a>,
    scale: f32,
    hiding: Hiding,
    /// The largest number that hides scores.
    outside: f32,
    seen: Option<Vec<Run>>,
}

impl Found<'_> {
    /// Goes from what the softmax is of back to the scores.
    fn follow(&mut self, from: Reg) -> Option<()> {
        let mut at = from;
        loop {
            match *self.code.insts.get(at.0 as usize)? {
                Inst::Load(n) if (self.known.is_scores)(n as usize) => return Some(()),
                Inst::Binary(Binary::Mul, a, b) => {
                    let (next, by) = match (constant(self.code, a), constant(self.code, b)) {
                        (_, Some(by)) => (a, by),
                        (Some(by), _) => (b, by),
                        _ => return None,
                    };
                    self.times(by)?;
                    at = next;
                }
                Inst::Binary(Binary::Div, a, b) => {
                    self.times(1.0 / constant(self.code, b)?)?;
                    at = a;
                }
                Inst::Select(mask, a, b) => {
                    let (next, seen, outside) = match (constant(self.code, a), constant(self.code, b)) {
                        (_, Some(outside)) => (a, runs(self.code, mask, Sense::Seen, self.known.runs)?, outside),
                        (Some(outside), _) => (b, runs(self.code, mask, Sense::Hidden, self.known.runs)?, outside),
                        _ => return None,
                    };
                    self.hide(Bias { seen, outside })?;
                    at = next;
                }
                Inst::Binary(Binary::Add, a, b) => {
                    let (next, bias) = match (self.bias(b), self.bias(a)) {
                        (Some(bias), _) => (a, bias),
                        (_, Some(bias)) => (b, bias),
                        _ => return None,
                    };
                    self.hiding = Hiding::Added;
                    self.hide(bias)?;
                    at = next;
                }
                _ => return None,
            }
        }
    }

    fn times(&mut self, by: f32) -> Option<()> {
        self.scale *= by;
        (by > 0.0 && self.scale.is_normal()).then_some(())
    }

    fn bias(&self, reg: Reg) -> Option<Bias> {
        match *self.code.insts.get(reg.0 as usize)? {
            Inst::Load(n) => (self.known.bias)(n as usize),
            _ => bias_of(self.code, reg, self.known.runs),
        }
    }

    /// One mask more.
    fn hide(&mut self, by: Bias) -> Option<()> {
        let outside = by.outside * self.scale;
        if outside.is_nan() || outside >= HIDDEN {
            return None;
        }
        self.outside = self.outside.max(outside);
        self.seen = Some(match self.seen.take() {
            None => by.seen,
            Some(seen) => seen.iter().zip(&by.seen).map(|(a, b)| a.start.max(b.start)..a.end.min(b.end)).collect(),
        });
        Some(())
    }
}

/// What a mask says where it is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sense {
    Seen,
    Hidden,
}

fn runs(code: &Loop, mask: Reg, sense: Sense, arrays: &dyn Fn(usize) -> Option<Vec<Run>>) -> Option<Vec<Run>> {
    if sense == Sense::Seen {
        return mask::Mask { code, value: mask, arrays }.runs();
    }
    let mut code = code.clone();
    code.insts.push(Inst::Unary(Unary::Not, mask));
    let value = Reg(code.insts.len() as u32 - 1);
    mask::Mask { code: &code, value, arrays }.runs()
}

/// What a register hides when it is added: 0 where a mask lets through, a constant elsewhere.
pub(crate) fn bias_of(code: &Loop, reg: Reg, arrays: &dyn Fn(usize) -> Option<Vec<Run>>) -> Option<Bias> {
    let Inst::Select(mask, a, b) = *code.insts.get(reg.0 as usize)? else { return None };
    match (constant(code, a)?, constant(code, b)?) {
        (0.0, outside) => Some(Bias { seen: runs(code, mask, Sense::Seen, arrays)?, outside }),
        (outside, 0.0) => Some(Bias { seen: runs(code, mask, Sense::Hidden, arrays)?, outside }),
        _ => None,
    }
}

/// What an array of numbers hides when it is added.
pub(crate) fn bias_of_numbers(numbers: &[f32], rows: usize, columns: usize) -> Option<Bias> {
    let seen = mask::runs_of(numbers, rows, columns, |&number| number == 0.0)?;
    let hidden = numbers.iter().filter(|&&number| number != 0.0);
    // NaN does not hide.
    let outside = hidden.fold(f32::NEG_INFINITY, |most, &number| if number <= most { most } else { number });
    Some(Bias { seen, outside })
}
