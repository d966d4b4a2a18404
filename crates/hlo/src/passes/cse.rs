//! Computes equal values once: an op with the same name, operands, attributes and result types as one that dominates it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::ir::{Attr, Dense, DenseData, Func, Module, Op, OpId, OpKind, Region, Value};

use super::effects::{Effect, Effects, is_terminator};
use super::rewrite::Forwards;
use super::{Options, Statistics};

/// Ops with larger regions are not compared.
const MAX_REGION_OPS: usize = 32;

/// Ops of one hash that are compared; more have it only in programs made for it.
const MAX_COMPARED: usize = 64;

pub(super) fn run(module: &mut Module, _: &Options<'_>, statistics: &mut Statistics) {
    let effects = Effects::of(module);
    for func in &mut module.funcs {
        statistics.add("cse", merge(func, &effects));
    }
}

/// Ops by hash, and the hashes to forget at the end of each region.
#[derive(Default)]
struct Scope {
    table: HashMap<u64, Vec<OpId>, BuildHasherDefault<Plain>>,
    added: Vec<u64>,
}

enum Step {
    Enter(Region),
    /// Enters regions that see nothing computed before: what runs for every element stays free of outer values.
    EnterAlone(Region),
    Ops(Region, std::vec::IntoIter<OpId>, usize),
    Restore(Scope),
}

fn merge(func: &mut Func, effects: &Effects) -> u64 {
    let Some(body) = func.body else { return 0 };
    let mut merged = 0;
    let mut forwards = Forwards::default();
    let mut scope = Scope::default();
    let mut kept: Vec<Vec<OpId>> = vec![Vec::new(); func.regions.len()];
    let mut steps = vec![Step::Enter(body)];
    while let Some(step) = steps.pop() {
        match step {
            Step::Enter(region) => {
                let ops = std::mem::take(&mut func.regions[region.0 as usize].ops);
                kept[region.0 as usize].reserve(ops.len());
                steps.push(Step::Ops(region, ops.into_iter(), scope.added.len()));
            }
            Step::EnterAlone(region) => {
                steps.push(Step::Restore(std::mem::take(&mut scope)));
                steps.push(Step::Enter(region));
            }
            Step::Restore(outer) => scope = outer,
            Step::Ops(region, mut ops, mark) => {
                let Some(id) = ops.next() else {
                    func.regions[region.0 as usize].ops = std::mem::take(&mut kept[region.0 as usize]);
                    for hash in scope.added.drain(mark..).rev() {
                        if let Some(list) = scope.table.get_mut(&hash) {
                            list.pop();
                        }
                    }
                    continue;
                };
                steps.push(Step::Ops(region, ops, mark));
                for operand in &mut func.ops[id.0 as usize].operands {
                    *operand = forwards.resolve(*operand);
                }
                if let Some(hash) = candidate(func, id, effects) {
                    let known = scope.table.entry(hash).or_default();
                    if let Some(&same) =
                        known.iter().rev().take(MAX_COMPARED).find(|&&other| are_equal(func, other, id))
                    {
                        let (from, to) = (func.op(id).results(), func.op(same).results());
                        from.zip(to).for_each(|(from, to)| forwards.replace(func, from, to));
                        merged += 1;
                        continue;
                    }
                    known.push(id);
                    scope.added.push(hash);
                }
                kept[region.0 as usize].push(id);
                let sees_outside = matches!(func.op(id).kind(), Some(OpKind::While | OpKind::If | OpKind::Case));
                for &inner in func.op(id).regions.iter().rev() {
                    steps.push(if sees_outside { Step::Enter(inner) } else { Step::EnterAlone(inner) });
                }
            }
        }
    }
    merged
}

/// The hash of an op that may be merged with its equal.
fn candidate(func: &Func, id: OpId, effects: &Effects) -> Option<u64> {
    let op = func.op(id);
    let kind = op.kind()?;
    if op.num_results == 0 || is_terminator(op) || effects.alone(op) != Effect::None {
        return None;
    }
    // A loop is long and rarely written twice; its carried values would have to be compared as well.
    if matches!(kind, OpKind::While | OpKind::If | OpKind::Case | OpKind::FuncCall) {
        return None;
    }
    if !op.regions.is_empty() && !is_comparable(func, op, effects) {
        return None;
    }
    let mut hasher = Plain::default();
    kind.hash(&mut hasher);
    op.operands.hash(&mut hasher);
    match op.attr("value") {
        Some(Attr::Dense(dense)) if kind == OpKind::Constant => hash_dense(dense, &mut hasher),
        _ => op.attrs.hash(&mut hasher),
    }
    if let Some(ty) = func.ty(op.first_result).as_tensor() {
        ty.dims.hash(&mut hasher);
        ty.element.hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// Whether the regions of an op are small, flat and without effect.
fn is_comparable(func: &Func, op: &Op, effects: &Effects) -> bool {
    let mut inner = op.regions.iter().flat_map(|&region| &func.region(region).ops);
    inner.clone().take(MAX_REGION_OPS + 1).count() <= MAX_REGION_OPS
        && inner.all(|&id| func.op(id).regions.is_empty() && effects.alone(func.op(id)) == Effect::None)
}

/// Large constants are told apart by their start; equality looks at the rest.
fn hash_dense(dense: &Dense, hasher: &mut impl Hasher) {
    dense.ty.dims.hash(hasher);
    match &dense.data {
        DenseData::Splat(element) => element.hash(hasher),
        DenseData::Elements(bytes) => {
            bytes.len().hash(hasher);
            bytes[..bytes.len().min(64)].hash(hasher);
        }
        DenseData::Strings(texts) => texts.len().hash(hasher),
    }
}

/// Whether two ops compute the same.
fn are_equal(func: &Func, a: OpId, b: OpId) -> bool {
    let mut same = Same::default();
    same.ops(func, func.op(a), func.op(b))
}

/// Values of two regions that stand for each other.
#[derive(Default)]
struct Same(Vec<(Value, Value)>);

impl Same {
    fn value(&self, a: Value, b: Value) -> bool {
        a == b || self.0.contains(&(a, b))
    }

    fn ops(&mut self, func: &Func, a: &Op, b: &Op) -> bool {
        let types = |op: &Op| op.results().map(|value| func.ty(value)).collect::<Vec<_>>();
        a.name == b.name
            && a.operands.len() == b.operands.len()
            && a.regions.len() == b.regions.len()
            && a.operands.iter().zip(&b.operands).all(|(&a, &b)| self.value(a, b))
            && types(a) == types(b)
            && a.attrs == b.attrs
            && a.regions.iter().zip(&b.regions).all(|(&a, &b)| self.regions(func, a, b))
    }

    fn regions(&mut self, func: &Func, a: Region, b: Region) -> bool {
        let (a, b) = (func.region(a), func.region(b));
        if a.args.len() != b.args.len() || a.ops.len() != b.ops.len() {
            return false;
        }
        for (&a, &b) in a.args.iter().zip(&b.args) {
            if func.ty(a) != func.ty(b) {
                return false;
            }
            self.0.push((a, b));
        }
        for (&a, &b) in a.ops.iter().zip(&b.ops) {
            let (a, b) = (func.op(a), func.op(b));
            if !self.ops(func, a, b) {
                return false;
            }
            self.0.extend(a.results().zip(b.results()));
        }
        true
    }
}

/// A quick hash of small keys; the table compares, so collisions cost time only.
#[derive(Default)]
struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}
