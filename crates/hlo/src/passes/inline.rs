//! Puts the bodies of functions and decompositions where they are called, and drops what means nothing on one device.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ir::{Attr, Definition, Func, Module, Op, OpId, OpKind, OpName, Region, RegionData, Value, ValueData};

use crate::ops::rules::shapes::types_agree;

use super::effects::{callee, callees_first};
use super::rewrite::{Replacement, Site, walk};
use super::{Calls, Options, Partitioned, Statistics};

/// Regions inside regions that inlining may make; the verifier allows a few more.
const MAX_NESTING: usize = 400;

pub(super) fn run(module: &mut Module, options: &Options<'_>, statistics: &mut Statistics) {
    let order = callees_first(module);
    let mut total: usize = module.funcs.iter().map(|func| func.ops.len()).sum();
    let index: HashMap<Arc<str>, usize> = module.funcs.iter().enumerate().map(|(n, f)| (f.name.clone(), n)).collect();
    let mut depths = vec![0; module.funcs.len()];
    for at in order {
        let mut func = std::mem::replace(&mut module.funcs[at], Func::new(""));
        if options.partitioned == Partitioned::No {
            drop_shardings(&mut func, options);
        }
        let mut counts = [0; 3];
        walk(&mut func, u64::MAX, |site| {
            if let Some(values) = pass_through(site, options) {
                counts[2] += 1;
                return Some(values);
            }
            let op = site.op();
            let (name, is_call) = (callee(op)?, op.kind() == Some(OpKind::FuncCall));
            if !op.regions.is_empty() || stays(op, options) || (!is_call && is_kept(op, options)) {
                return None;
            }
            let n = *index.get(name)?;
            let target = module.funcs.get(n).filter(|target| is_inlinable(target, options))?;
            if total + target.ops.len() > options.max_ops || site.depth() + depths[n] > MAX_NESTING {
                return None;
            }
            let before = site.func.ops.len();
            let values = copy_body(site, target)?;
            total += site.func.ops.len() - before;
            counts[usize::from(!is_call)] += 1;
            Some(values)
        });
        for (rule, count) in ["inline_call", "inline_composite", "drop_sharding"].into_iter().zip(counts) {
            statistics.add(rule, count);
        }
        depths[at] = nesting(&func);
        module.funcs[at] = func;
    }
}

/// Levels of regions, the function's own included.
fn nesting(func: &Func) -> usize {
    let mut deepest = 0;
    let mut pending: Vec<(Region, usize)> = func.body.iter().map(|&body| (body, 1)).collect();
    while let Some((region, depth)) = pending.pop() {
        deepest = deepest.max(depth);
        for &id in &func.region(region).ops {
            pending.extend(func.op(id).regions.iter().map(|&inner| (inner, depth + 1)));
        }
    }
    deepest
}

/// A composite the caller has a kernel for. One that is named after an op of the language became that op, or is not what
/// its name says.
fn is_kept(op: &Op, options: &Options<'_>) -> bool {
    let name = op.attr("name").and_then(Attr::as_str).unwrap_or_default();
    options.keep_composites.contains(&name) && OpKind::from_name(name).is_none()
}

/// Whether a call asks to stay one.
fn stays(op: &Op, options: &Options<'_>) -> bool {
    let asked = match op.attr("mhlo.frontend_attributes") {
        Some(Attr::Dict(attrs)) => attrs.get("inlineable").and_then(Attr::as_str),
        _ => None,
    };
    let is_call = op.kind() == Some(OpKind::FuncCall);
    options.calls == Calls::AsAsked && is_call && matches!(asked, Some("false" | "xla_late"))
}

/// A function whose values carry shardings stays a function for the partitioner.
fn is_inlinable(func: &Func, options: &Options<'_>) -> bool {
    let is_sharded = |attrs: &crate::ir::Attrs| SHARDINGS.iter().any(|name| attrs.get(name).is_some());
    func.body.is_some()
        && (options.partitioned == Partitioned::No
            || !func.input_attrs.iter().chain(&func.output_attrs).any(is_sharded))
}

/// Attributes that say where an op runs.
const SHARDINGS: [&str; 3] = ["sdy.sharding", "mhlo.sharding", "mhlo.frontend_attributes"];

/// Shardings on ops keep equal ops apart and say nothing on one device.
fn drop_shardings(func: &mut Func, options: &Options<'_>) {
    let keeps = |op: &Op| op.kind() == Some(OpKind::CustomCall) || stays(op, options);
    for op in func.ops.iter_mut().filter(|op| !keeps(op)) {
        for name in SHARDINGS {
            op.attrs.remove(name);
        }
    }
}

/// Ops that give their operands on as they are.
fn pass_through(site: &mut Site<'_>, options: &Options<'_>) -> Replacement {
    let op = site.op();
    let one_device = options.partitioned == Partitioned::No;
    let is_identity = match &op.name {
        OpName::Extern(name) => &**name == "builtin.unrealized_conversion_cast",
        OpName::Known(kind) if one_device => match kind {
            OpKind::SdyShardingConstraint | OpKind::SdyReshard | OpKind::SdyPropagationBarrier => true,
            OpKind::SdyShardingGroup => return Some(Vec::new()),
            OpKind::SdyNamedComputation => {
                let (region, operands) = (op.regions[0], op.operands.clone());
                return site.splice(region, &operands);
            }
            OpKind::CustomCall => op.attr("call_target_name").and_then(Attr::as_str) == Some("Sharding"),
            _ => false,
        },
        OpName::Known(_) => false,
    };
    let same_types = || op.operands.iter().zip(op.results()).all(|(&a, b)| site.func.ty(a) == site.func.ty(b));
    (is_identity && op.operands.len() == op.num_results as usize && same_types()).then(|| op.operands.clone())
}

/// Copies the body of a function before the call; returns what stands for the call's results.
fn copy_body(site: &mut Site<'_>, callee: &Func) -> Replacement {
    let data = callee.region(callee.body?);
    let (&last, ops) = data.ops.split_last()?;
    let mut copy = Copy { from: callee, values: vec![None; callee.values.len()] };
    for (&argument, &operand) in data.args.iter().zip(&site.op().operands) {
        // Sizes that became known may be known outside only.
        if !types_agree(callee.ty(argument), site.func.ty(operand)) {
            return None;
        }
        copy.values[argument.0 as usize] = Some(operand);
    }
    for &id in ops {
        let id = copy.op(site.func, id)?;
        site.emit_copied(id);
    }
    callee.op(last).operands.iter().map(|&value| copy.value(value)).collect()
}

struct Copy<'a> {
    from: &'a Func,
    /// What stands for each value of `from`.
    values: Vec<Option<Value>>,
}

impl Copy<'_> {
    fn value(&self, value: Value) -> Option<Value> {
        self.values.get(value.0 as usize).copied().flatten()
    }

    /// Copies an op and everything in it. Nesting is bounded by the verifier, so this recursion is.
    fn op(&mut self, to: &mut Func, id: OpId) -> Option<OpId> {
        let op = self.from.op(id);
        let operands = op.operands.iter().map(|&value| self.value(value)).collect::<Option<Vec<Value>>>()?;
        let copied = OpId(to.ops.len() as u32);
        let first_result = Value(to.values.len() as u32);
        for (n, result) in op.results().enumerate() {
            let definition = Definition::Result(copied, n as u32);
            self.define(to, result, definition);
        }
        to.ops.push(Op {
            name: op.name.clone(),
            operands,
            first_result,
            num_results: op.num_results,
            attrs: op.attrs.clone(),
            regions: Vec::new(),
            loc: op.loc.clone(),
        });
        for &region in &op.regions {
            let data = self.from.region(region);
            let inner = to.add_region();
            let mut args = Vec::with_capacity(data.args.len());
            for (n, &arg) in data.args.iter().enumerate() {
                args.push(self.define(to, arg, Definition::Argument(inner, n as u32)));
            }
            let ops = data.ops.iter().map(|&id| self.op(to, id)).collect::<Option<Vec<OpId>>>()?;
            to.regions[inner.0 as usize] = RegionData { args, ops };
            to.ops[copied.0 as usize].regions.push(inner);
        }
        Some(copied)
    }

    fn define(&mut self, to: &mut Func, value: Value, definition: Definition) -> Value {
        let data = self.from.value(value);
        let copied = Value(to.values.len() as u32);
        to.values.push(ValueData { ty: data.ty.clone(), definition, loc: data.loc.clone() });
        self.values[value.0 as usize] = Some(copied);
        copied
    }
}
