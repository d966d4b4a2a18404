//! Clean-up: calls inlined, constants folded, equal values computed once, unread ones dropped, and single ops simplified,
//! among them transposes that a matmul can read through.

use hlo::passes::{Exactness, Options, Partitioned, canonicalize_counted};
use hlo::{Attr, OpKind, Verified};

use super::optimizer::Context;
use super::step::RewriteStep;
use crate::error::CompileError;

pub(super) fn run(module: Verified, context: &Context<'_>) -> Result<(Verified, RewriteStep), CompileError> {
    // Compilers know composites by name and do better than their decompositions.
    let ops = module.funcs.iter().flat_map(|func| &func.ops).filter(|op| op.kind() == Some(OpKind::Composite));
    let composites: Vec<String> =
        ops.filter_map(|op| op.attr("name").and_then(Attr::as_str)).map(str::to_string).collect();
    let composites: Vec<&str> = composites.iter().map(String::as_str).collect();
    let options = Options {
        partitioned: if context.is_partitioned { Partitioned::Yes } else { Partitioned::No },
        keep_composites: &composites,
        exactness: Exactness::Approximate,
        evaluate: Some(&cpu::evaluate_constant),
        ..Options::default()
    };
    let (module, statistics) = canonicalize_counted(module, &options)?;
    let rules = statistics.iter().map(|(rule, count)| format!("{rule} {count}"));
    Ok((module, RewriteStep::new("clean_up", statistics.total(), rules.collect::<Vec<_>>().join(", "))))
}
