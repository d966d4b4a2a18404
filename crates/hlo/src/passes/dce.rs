//! Drops ops that nothing reads, values that loops and branches only hand around, and functions that nothing names.

use std::collections::{HashMap, HashSet};

use crate::ir::{
    Attr, Attrs, Definition, Func, Module, OpId, OpKind, Region, RegionData, Value, ValueData, Visibility,
};

use super::effects::{Effect, Effects};
use super::rewrite::Forwards;
use super::{Options, Statistics};

/// The rule name of ops that are dropped; what it drops makes nothing else possible.
pub(super) const DROPPED: &str = "dce_op";

pub(super) fn run(module: &mut Module, _: &Options<'_>, statistics: &mut Statistics) {
    statistics.add("dce_func", drop_funcs(module));
    let effects = Effects::of(module);
    for func in module.funcs.iter_mut().filter(|func| func.body.is_some()) {
        let live = Liveness::of(func, &effects);
        let (dropped, carried) = sweep(func, &live.ops, &live.values);
        statistics.add(DROPPED, dropped);
        statistics.add("dce_carried", carried);
    }
}

/// Drops private functions that no other function reaches.
fn drop_funcs(module: &mut Module) -> u64 {
    let index: HashMap<&str, usize> = module.funcs.iter().enumerate().map(|(n, f)| (&*f.name, n)).collect();
    let mut reached: Vec<bool> = module.funcs.iter().map(|func| func.visibility != Visibility::Private).collect();
    if !reached.contains(&true) {
        return 0;
    }
    let mut pending: Vec<usize> = (0..reached.len()).filter(|&n| reached[n]).collect();
    while let Some(n) = pending.pop() {
        let mut names = HashSet::new();
        for id in module.funcs[n].walk() {
            symbols(&module.funcs[n].op(id).attrs, &mut names);
        }
        for name in names {
            if let Some(&to) = index.get(name)
                && !std::mem::replace(&mut reached[to], true)
            {
                pending.push(to);
            }
        }
    }
    let before = module.funcs.len();
    let mut keep = reached.into_iter();
    module.funcs.retain(|_| keep.next().unwrap_or(true));
    (before - module.funcs.len()) as u64
}

/// Every name that attributes mention.
fn symbols<'a>(attrs: &'a Attrs, names: &mut HashSet<&'a str>) {
    let mut pending: Vec<&Attr> = attrs.iter().map(|(_, attr)| attr).collect();
    while let Some(attr) = pending.pop() {
        match attr {
            Attr::Symbol(name) => drop(names.insert(name)),
            Attr::Array(list) => pending.extend(list.iter()),
            Attr::Dict(dict) => pending.extend(dict.iter().map(|(_, attr)| attr)),
            _ => {}
        }
    }
}

/// Which ops and values are needed. A loop's carried value is needed when its result is, or when the condition or the
/// next value of a needed one reads it; so a value that only feeds itself is not.
struct Liveness<'f> {
    func: &'f Func,
    ops: Vec<bool>,
    values: Vec<bool>,
    /// The op each region belongs to.
    owners: Vec<Option<OpId>>,
    pending: Vec<Value>,
}

impl Liveness<'_> {
    fn of<'f>(func: &'f Func, effects: &Effects) -> Liveness<'f> {
        let order = func.walk();
        let mut owners = vec![None; func.regions.len()];
        let mut parents = vec![None; func.ops.len()];
        for &id in &order {
            for &region in &func.op(id).regions {
                owners[region.0 as usize] = Some(id);
                for inner in &func.region(region).ops {
                    parents[inner.0 as usize] = Some(id);
                }
            }
        }
        let mut live = Liveness {
            func,
            ops: vec![false; func.ops.len()],
            values: vec![false; func.values.len()],
            owners,
            pending: Vec::new(),
        };
        if let Some(last) = func.body.and_then(|body| live.last(body)) {
            live.op(last);
        }
        for &id in &order {
            if effects.alone(func.op(id)) != Effect::Outside {
                continue;
            }
            let mut at = Some(id);
            while let Some(id) = at.filter(|id| !live.ops[id.0 as usize]) {
                live.op(id);
                at = parents[id.0 as usize];
            }
        }
        live.settle();
        live
    }

    fn last(&self, region: Region) -> Option<OpId> {
        self.func.region(region).ops.last().copied()
    }

    fn value(&mut self, value: Value) {
        if !std::mem::replace(&mut self.values[value.0 as usize], true) {
            self.pending.push(value);
        }
    }

    fn op(&mut self, id: OpId) {
        if std::mem::replace(&mut self.ops[id.0 as usize], true) {
            return;
        }
        let op = self.func.op(id);
        let is_split = hands_over_one_by_one(op.kind());
        if op.kind() != Some(OpKind::While) {
            op.operands.iter().for_each(|&value| self.value(value));
        }
        for (n, &region) in op.regions.iter().enumerate() {
            let Some(last) = self.last(region) else { continue };
            let is_condition = op.kind() == Some(OpKind::While) && n == 0;
            if is_split && !is_condition {
                self.ops[last.0 as usize] = true;
            } else {
                self.op(last);
            }
        }
    }

    fn settle(&mut self) {
        while let Some(value) = self.pending.pop() {
            match self.func.value(value).definition {
                Definition::Argument(region, n) => {
                    let Some(owner) = self.owners[region.0 as usize] else { continue };
                    if self.func.op(owner).kind() == Some(OpKind::While) {
                        self.value(Value(self.func.op(owner).first_result.0 + n));
                    }
                }
                Definition::Result(id, n) => {
                    self.op(id);
                    let op = self.func.op(id);
                    if !hands_over_one_by_one(op.kind()) {
                        continue;
                    }
                    if op.kind() == Some(OpKind::While) {
                        self.value(op.operands[n as usize]);
                    }
                    let first = usize::from(op.kind() == Some(OpKind::While));
                    for &region in &op.regions[first.min(op.regions.len())..] {
                        let returned = self.last(region).and_then(|last| self.func.op(last).operands.get(n as usize));
                        if let Some(&returned) = returned {
                            self.value(returned);
                        }
                    }
                }
            }
        }
    }
}

/// Ops whose result `n` is what their regions return as `n`.
fn hands_over_one_by_one(kind: Option<OpKind>) -> bool {
    matches!(kind, Some(OpKind::While | OpKind::If | OpKind::Case))
}

/// Removes what is not needed; returns the number of ops and of carried values.
fn sweep(func: &mut Func, live: &[bool], needed: &[bool]) -> (u64, u64) {
    let (mut dropped, mut narrowed) = (0, 0);
    let mut forwards = Forwards::default();
    let mut any_forwards = false;
    let mut pending: Vec<Region> = func.body.into_iter().collect();
    let mut order = Vec::with_capacity(func.ops.len());
    while let Some(region) = pending.pop() {
        let ops = &mut func.regions[region.0 as usize].ops;
        let before = ops.len();
        ops.retain(|id| live[id.0 as usize]);
        dropped += (before - ops.len()) as u64;
        let ops = ops.clone();
        for id in ops {
            let op = func.op(id);
            pending.extend(&op.regions);
            let is_narrower = hands_over_one_by_one(op.kind()) && op.results().any(|value| !needed[value.0 as usize]);
            if is_narrower {
                narrowed += narrow(func, id, needed, &mut forwards);
                any_forwards = true;
            }
            order.push(id);
        }
    }
    if any_forwards {
        for id in order {
            for operand in &mut func.ops[id.0 as usize].operands {
                *operand = forwards.resolve(*operand);
            }
        }
    }
    (dropped, narrowed)
}

/// Takes unneeded results from a loop or branch, with what its regions carry for them.
fn narrow(func: &mut Func, id: OpId, needed: &[bool], forwards: &mut Forwards) -> u64 {
    let op = func.op(id).clone();
    let kept: Vec<bool> = op.results().map(|value| needed[value.0 as usize]).collect();
    let first = func.values.len() as u32;
    let mut next = 0;
    for (old, _) in op.results().zip(&kept).filter(|(_, kept)| **kept) {
        let ty = func.ty(old).clone();
        func.values.push(ValueData { ty, definition: Definition::Result(id, next), loc: None });
        forwards.replace(func, old, Value(first + next));
        next += 1;
    }
    let is_loop = op.kind() == Some(OpKind::While);
    for (n, &region) in op.regions.iter().enumerate() {
        if is_loop {
            let RegionData { args, .. } = &mut func.regions[region.0 as usize];
            retain(args, &kept);
            for (n, &arg) in args.clone().iter().enumerate() {
                func.values[arg.0 as usize].definition = Definition::Argument(region, n as u32);
            }
        }
        if !(is_loop && n == 0)
            && let Some(&last) = func.region(region).ops.last()
        {
            retain(&mut func.op_mut(last).operands, &kept);
        }
    }
    let op = func.op_mut(id);
    if is_loop {
        retain(&mut op.operands, &kept);
    }
    op.first_result = Value(first);
    op.num_results = next;
    kept.iter().filter(|kept| !**kept).count() as u64
}

fn retain(list: &mut Vec<Value>, kept: &[bool]) {
    let mut flags = kept.iter();
    list.retain(|_| flags.next().copied().unwrap_or(true));
}
