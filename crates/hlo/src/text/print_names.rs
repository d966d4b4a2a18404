//! Names of values as MLIR chooses them: numbers, `arg0`, and hints such as `cst` and `iterArg`.

use std::collections::HashSet;
use std::fmt::Write;

use crate::ir::{Attr, ElementType, Func, Op, OpId, OpKind, Region, Value};

/// A name for every value of a function, without the `%`.
pub(super) struct Names {
    names: Vec<Box<str>>,
}

/// Counters that a region continues from where its parent region ended.
#[derive(Clone, Copy)]
struct Counters {
    value: u32,
    argument: u32,
    conflict: u32,
    /// Number of enclosing scopes of used names.
    scopes: usize,
}

struct Namer<'m> {
    func: &'m Func,
    names: Vec<Box<str>>,
    counters: Counters,
    used: HashSet<Box<str>>,
    scopes: Vec<Vec<Box<str>>>,
}

impl Names {
    pub(super) fn of(func: &Func) -> Names {
        let mut namer = Namer {
            func,
            names: vec!["".into(); func.values.len()],
            counters: Counters { value: 0, argument: 0, conflict: 0, scopes: 0 },
            used: HashSet::new(),
            scopes: Vec::new(),
        };
        let mut pending: Vec<(Region, Option<OpId>, Counters)> = Vec::new();
        pending.extend(func.body.map(|body| (body, None, namer.counters)));
        while let Some((region, owner, counters)) = pending.pop() {
            while namer.scopes.len() > counters.scopes {
                for name in namer.scopes.pop().unwrap_or_default() {
                    namer.used.remove(&name);
                }
            }
            namer.scopes.push(Vec::new());
            namer.counters = Counters { scopes: namer.scopes.len(), ..counters };
            namer.region(region, owner.map(|id| func.op(id)));
            for &op in &func.region(region).ops {
                for &inner in &func.op(op).regions {
                    pending.push((inner, Some(op), namer.counters));
                }
            }
        }
        Names { names: namer.names }
    }

    /// How a use of the value is written, without the `%`.
    pub(super) fn of_value(&self, value: Value) -> &str {
        &self.names[value.0 as usize]
    }

    /// How the results of an op are written where it defines them.
    pub(super) fn write_results(&self, out: &mut String, op: &Op) {
        let groups = result_groups(op);
        for (i, &(start, _)) in groups.iter().enumerate() {
            let end = groups.get(i + 1).map_or(op.num_results, |&(next, _)| next);
            let first = self.of_value(Value(op.first_result.0 + start));
            let base = first.split('#').next().unwrap_or(first);
            let _ = write!(out, "{}%{base}", if i > 0 { ", " } else { "" });
            if end - start > 1 {
                let _ = write!(out, ":{}", end - start);
            }
        }
    }
}

impl Namer<'_> {
    fn region(&mut self, region: Region, owner: Option<&Op>) {
        let is_loop = owner.is_some_and(|op| op.kind() == Some(OpKind::While));
        let data = self.func.region(region);
        for &arg in &data.args {
            let name = if is_loop {
                "iterArg".to_owned()
            } else {
                self.counters.argument += 1;
                format!("arg{}", self.counters.argument - 1)
            };
            self.names[arg.0 as usize] = self.unique(name);
        }
        for &op in &data.ops {
            self.results(self.func.op(op));
        }
    }

    fn results(&mut self, op: &Op) {
        if op.num_results == 0 {
            return;
        }
        let groups = result_groups(op);
        for (i, &(start, hint)) in groups.iter().enumerate() {
            let end = groups.get(i + 1).map_or(op.num_results, |&(next, _)| next);
            let base: Box<str> = match hint {
                Some(hint) => self.unique(hint.to_owned()),
                None => {
                    self.counters.value += 1;
                    (self.counters.value - 1).to_string().into()
                }
            };
            for index in start..end {
                let slot = &mut self.names[(op.first_result.0 + index) as usize];
                *slot = if end - start > 1 { format!("{base}#{}", index - start).into() } else { base.clone() };
            }
        }
    }

    fn unique(&mut self, name: String) -> Box<str> {
        let mut candidate = name.clone();
        while self.used.contains(candidate.as_str()) {
            candidate = format!("{name}_{}", self.counters.conflict);
            self.counters.conflict += 1;
        }
        let candidate: Box<str> = candidate.into();
        self.used.insert(candidate.clone());
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(candidate.clone());
        }
        candidate
    }
}

/// First result of each group that gets a name of its own, with the name MLIR suggests.
fn result_groups(op: &Op) -> Vec<(u32, Option<&'static str>)> {
    let named: &[&'static str] = match op.kind() {
        _ if op.num_results == 0 => return Vec::new(),
        Some(OpKind::Constant) if op.num_results == 1 => {
            let is_integer = match op.attr("value") {
                Some(Attr::Dense(dense)) => match &dense.ty.element {
                    ElementType::Plain(dtype) => dtype.is_integer() || dtype.is_bool(),
                    _ => false,
                },
                _ => false,
            };
            return vec![(0, Some(if is_integer { "c" } else { "cst" }))];
        }
        Some(OpKind::RngBitGenerator) => &["output_state", "output"],
        Some(OpKind::BatchNormTraining) => &["output", "batch_mean", "batch_var"],
        Some(OpKind::BatchNormGrad) => &["grad_operand", "grad_scale", "grad_offset"],
        Some(OpKind::ChloTopK) => &["values", "indices"],
        Some(OpKind::ChloScan) => {
            let carries_start = match op.attr("resultSegmentSizes") {
                Some(Attr::DenseArray(_, sizes)) => sizes.first().and_then(|&n| u32::try_from(n).ok()),
                _ => None,
            };
            return match carries_start {
                Some(0) => vec![(0, Some("carries"))],
                Some(start) if start < op.num_results => vec![(0, Some("outputs")), (start, Some("carries"))],
                Some(_) => vec![(0, Some("outputs"))],
                None => vec![(0, None)],
            };
        }
        _ => return vec![(0, None)],
    };
    if named.len() != op.num_results as usize {
        return vec![(0, None)];
    }
    named.iter().enumerate().map(|(i, &name)| (i as u32, Some(name))).collect()
}
