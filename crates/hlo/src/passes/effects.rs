//! What an op does besides computing its results: whether it may be dropped, and whether two of it may be one.

use std::collections::HashMap;

use crate::ir::{Attr, Func, Module, Op, OpKind, OpName};
use crate::ops::OpClass;

/// What may be done with an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    /// A function of its operands: may be dropped when unread, and merged with its equal.
    None,
    /// May be dropped when unread, but each stands for itself: random numbers, tokens, barriers.
    Own,
    /// Must stay: it talks to something outside the program.
    Outside,
}

/// Effects of the ops of a module.
pub(super) struct Effects {
    funcs: HashMap<String, Effect>,
}

impl Effects {
    /// Looks at every function, callees before callers.
    pub(super) fn of(module: &Module) -> Effects {
        let mut effects = Effects { funcs: HashMap::new() };
        for at in callees_first(module) {
            let func = &module.funcs[at];
            if func.body.is_some() {
                let effect = effects.of_func(func);
                effects.funcs.insert(func.name.to_string(), effect);
            }
        }
        effects
    }

    fn of_func(&self, func: &Func) -> Effect {
        func.walk().into_iter().map(|id| self.alone(func.op(id))).max().unwrap_or(Effect::None)
    }

    /// Effect of an op, its regions apart.
    pub(super) fn alone(&self, op: &Op) -> Effect {
        use OpKind as K;
        let OpName::Known(kind) = &op.name else {
            let is_cast = op.name.as_str() == "builtin.unrealized_conversion_cast";
            return if is_cast { Effect::None } else { Effect::Outside };
        };
        match kind {
            K::CustomCall if op.attr("has_side_effect").and_then(Attr::as_bool) == Some(true) => Effect::Outside,
            // What a custom call does beyond its operands is not known; it said that nobody will miss it.
            K::CustomCall => Effect::Own,
            K::FuncCall | K::Composite => {
                callee(op).and_then(|name| self.funcs.get(name)).copied().unwrap_or(Effect::Outside)
            }
            K::AsyncStart | K::AsyncDone | K::SdyManualComputation => Effect::Outside,
            K::SdyShardingGroup | K::SdyFuncDataFlowEdge => Effect::Outside,
            K::Rng | K::AfterAll | K::CreateToken => Effect::Own,
            K::OptimizationBarrier | K::SdyPropagationBarrier | K::SdyShardingConstraint | K::SdyReshard => Effect::Own,
            _ => match kind.class() {
                // Every process takes part in a collective, whether it reads the result or not.
                OpClass::Collective | OpClass::Transfer | OpClass::Testing => Effect::Outside,
                _ => Effect::None,
            },
        }
    }
}

/// The function a call names.
pub(super) fn callee(op: &Op) -> Option<&str> {
    let attr = match op.kind()? {
        OpKind::FuncCall => op.attr("callee"),
        OpKind::Composite => op.attr("decomposition"),
        _ => None,
    };
    match attr {
        Some(Attr::Symbol(name)) => Some(name),
        _ => None,
    }
}

/// Functions in an order where a callee comes before its callers; what calls itself in a circle comes in any order.
pub(super) fn callees_first(module: &Module) -> Vec<usize> {
    let index: HashMap<&str, usize> = module.funcs.iter().enumerate().map(|(n, f)| (&*f.name, n)).collect();
    let calls: Vec<Vec<usize>> = module
        .funcs
        .iter()
        .map(|func| func.ops.iter().filter_map(|op| index.get(callee(op)?).copied()).collect())
        .collect();
    let mut order = Vec::with_capacity(calls.len());
    let mut seen = vec![false; calls.len()];
    for root in 0..calls.len() {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some((caller, next)) = path.last_mut() {
            match calls[*caller].get(*next) {
                Some(&callee) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[callee], true) {
                        path.push((callee, 0));
                    }
                }
                None => {
                    order.push(*caller);
                    path.pop();
                }
            }
        }
    }
    order
}

/// Whether an op ends its region.
pub(super) fn is_terminator(op: &Op) -> bool {
    op.kind().is_some_and(OpKind::is_terminator)
}
