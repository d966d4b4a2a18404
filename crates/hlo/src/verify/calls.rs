//! Calls between functions: none may reach itself, since compilers inline them.

use std::collections::HashMap;

use crate::ir::{Attr, Func, Module, Op, OpKind};
use crate::ops::Violation;

use super::Report;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

/// Reports each function that closes a cycle of calls.
pub(super) fn check(module: &Module, report: &mut Report) {
    let index: HashMap<&str, usize> = module.funcs.iter().enumerate().map(|(n, f)| (&*f.name, n)).collect();
    let calls: Vec<Vec<usize>> = module.funcs.iter().map(|func| callees(func, &index)).collect();
    let mut states = vec![State::New; calls.len()];
    for root in 0..calls.len() {
        if states[root] != State::New {
            continue;
        }
        states[root] = State::Open;
        let mut path = vec![(root, 0)];
        while let Some((caller, next)) = path.last_mut() {
            let Some(&callee) = calls[*caller].get(*next) else {
                states[*caller] = State::Done;
                path.pop();
                continue;
            };
            *next += 1;
            match states[callee] {
                State::New => {
                    states[callee] = State::Open;
                    path.push((callee, 0));
                }
                State::Open => {
                    let message = format!("calls @{}, which calls it in turn", module.funcs[callee].name);
                    report.func(&module.funcs[*caller], Violation::new("", message));
                }
                State::Done => {}
            }
        }
    }
}

fn callees(func: &Func, index: &HashMap<&str, usize>) -> Vec<usize> {
    let mut all: Vec<usize> = func
        .ops
        .iter()
        .flat_map(|op| names(op).iter())
        .filter_map(|name| match name {
            Attr::Symbol(name) => index.get(&**name).copied(),
            _ => None,
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn names(op: &Op) -> &[Attr] {
    let attr = match op.kind() {
        Some(OpKind::FuncCall) => op.attr("callee"),
        Some(OpKind::Composite) => op.attr("decomposition"),
        Some(OpKind::CustomCall) => op.attr("called_computations"),
        _ => None,
    };
    match attr {
        Some(Attr::Array(names)) => names,
        Some(name) => std::slice::from_ref(name),
        None => &[],
    }
}
