//! Composites named after an op of the language become that op, as in XLA, whatever their decomposition computes.

use crate::ir::{Attr, Module, OpKind, Type};

use super::rewrite::{Replacement, Site, walk};
use super::{Options, Statistics};

pub(super) fn run(module: &mut Module, options: &Options<'_>, statistics: &mut Statistics) {
    if options.keep_composites.is_empty() {
        return;
    }
    for func in &mut module.funcs {
        if func.ops.iter().any(|op| op.kind() == Some(OpKind::Composite)) {
            statistics.add("name_composite", walk(func, u64::MAX, |site| named_op(site, options)));
        }
    }
}

/// The op a composite to be kept is named after, in its place.
fn named_op(site: &mut Site<'_>, options: &Options<'_>) -> Replacement {
    let name = site.op().attr("name").and_then(Attr::as_str)?;
    if site.op().kind() != Some(OpKind::Composite) || !options.keep_composites.contains(&name) {
        return None;
    }
    let (kind, attrs) = crate::verify::named_op(site.func, site.op())?;
    let (operands, results) = (site.op().operands.clone(), site.op().results());
    let types: Vec<Type> = results.map(|value| site.func.ty(value).clone()).collect();
    Some(site.emit_with_regions(kind, operands, &types, Vec::new(), attrs))
}
