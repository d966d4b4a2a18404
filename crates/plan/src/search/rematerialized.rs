//! What a program rematerializes for the backward pass, as JAX's names say it.

use std::collections::BTreeSet;
use std::sync::Arc;

use hlo::{Attr, Func, Loc, Location, Module, Op, OpKind, Region, Visibility};

/// What JAX writes into the names of ops that a checkpointed function rematerializes.
const REMATTED: &str = "rematted_computation";
/// Parts of a location that are looked at.
const MAX_LOCATIONS: usize = 200;

/// Whether an op is rematerialized, by its own name.
pub(crate) fn is_rematerialized(loc: &Loc) -> bool {
    names(loc).any(|name| name.contains(REMATTED))
}

/// The names of a location.
pub(crate) fn names(loc: &Loc) -> impl Iterator<Item = &str> {
    let mut pending: Vec<&Location> = loc.as_deref().into_iter().collect();
    let mut steps = 0;
    std::iter::from_fn(move || {
        while let Some(location) = pending.pop() {
            steps += 1;
            if steps > MAX_LOCATIONS {
                return None;
            }
            match location {
                Location::Name(name, inner) => {
                    pending.extend(inner.as_deref());
                    return Some(&**name);
                }
                Location::CallSite { callee, caller } => {
                    pending.extend(callee.as_deref());
                    pending.extend(caller.as_deref());
                }
                Location::Fused(parts, _) => pending.extend(parts.iter().filter_map(|part| part.as_deref())),
                Location::File { .. } => {}
            }
        }
        None
    })
}

/// Names every op that is rematerialized, also where only the loop around it or the call of its function says so. A
/// function that is called in both ways becomes two.
pub(crate) fn mark(module: &mut Module) {
    let mut wanted: BTreeSet<Arc<str>> = BTreeSet::new();
    for func in &mut module.funcs {
        if let Some(body) = func.body {
            mark_region(func, body, Inherited::No, &mut wanted, 0);
        }
    }
    let mut made: BTreeSet<Arc<str>> = BTreeSet::new();
    while let Some(name) = wanted.iter().find(|name| !made.contains(*name)).cloned() {
        made.insert(name.clone());
        let Some(mut func) = module.func(&name).cloned() else { continue };
        func.name = again_name(&name);
        func.visibility = Visibility::Private;
        if let Some(body) = func.body {
            mark_region(&mut func, body, Inherited::Yes, &mut wanted, 0);
        }
        module.funcs.push(func);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inherited {
    Yes,
    No,
}

/// Regions nest at most this deep; what is deeper keeps its names.
const MAX_DEPTH: usize = 200;

fn mark_region(func: &mut Func, region: Region, around: Inherited, wanted: &mut BTreeSet<Arc<str>>, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    for id in func.region(region).ops.clone() {
        let op = func.op_mut(id);
        let here = if is_rematerialized(&op.loc) { Inherited::Yes } else { around };
        if here == Inherited::Yes {
            mark_op(op, wanted);
        }
        for inner in op.regions.clone() {
            mark_region(func, inner, here, wanted, depth + 1);
        }
    }
}

fn mark_op(op: &mut Op, wanted: &mut BTreeSet<Arc<str>>) {
    if !is_rematerialized(&op.loc) {
        op.loc = Some(Arc::new(Location::Name(REMATTED.into(), op.loc.take())));
    }
    if op.kind() == Some(OpKind::FuncCall)
        && let Some(Attr::Symbol(callee)) = op.attr("callee").cloned()
        && !callee.ends_with(SUFFIX)
    {
        op.attrs.set("callee", Attr::Symbol(again_name(&callee)));
        wanted.insert(callee);
    }
}

const SUFFIX: &str = ".again";

fn again_name(name: &str) -> Arc<str> {
    format!("{name}{SUFFIX}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_called_in_both_ways_becomes_two() {
        let text = "module {
            func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
              %0 = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32> loc(\"step/call\")
              %1 = func.call @f(%0) : (tensor<4xf32>) -> tensor<4xf32> loc(\"step/rematted_computation/call\")
              return %1 : tensor<4xf32>
            }
            func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
              %0 = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>
              return %0 : tensor<4xf32>
            }
            func.func private @g(%x: tensor<4xf32>) -> tensor<4xf32> {
              %0 = stablehlo.tanh %x : tensor<4xf32> loc(\"tanh\")
              return %0 : tensor<4xf32>
            }
          }";
        let mut module = hlo::read(text.as_bytes()).unwrap();
        mark(&mut module);
        let module = hlo::verify(module).unwrap();
        assert_eq!(module.funcs.len(), 5);
        let again = |name: &str| is_rematerialized(&module.func(name).unwrap().ops[0].loc);
        assert!(!again("g") && !again("f") && again("g.again") && again("f.again"));
        let called = module.funcs.iter().flat_map(|func| &func.ops).filter_map(|op| op.attr("callee"));
        let called: Vec<String> = called.map(|callee| format!("{callee:?}")).collect();
        assert!(called.iter().any(|callee| callee.contains("g.again")), "{called:?}");
    }
}
