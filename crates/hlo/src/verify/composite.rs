//! Composites named after an op of the language: that op, where the types and attributes are the op's own.

use crate::ir::{Attr, Attrs, Func, Op, OpKind, Type};
use crate::ops::OpView;

use super::attributes;
use super::body::constraints;

/// The op that a composite is named after, with its attributes.
///
/// A name promises nothing: anyone can call a function of any types `chlo.top_k`. Only where operands, attributes and
/// results keep every rule of the op may the op stand for the composite.
pub(crate) fn named_op(func: &Func, op: &Op) -> Option<(OpKind, Attrs)> {
    if op.kind() != Some(OpKind::Composite) || !op.regions.is_empty() {
        return None;
    }
    let kind = OpKind::from_name(op.attr("name")?.as_str()?)?;
    let def = kind.def();
    let mut attrs = match op.attr("composite_attributes") {
        None => Attrs::new(),
        Some(Attr::Dict(given)) => (**given).clone(),
        Some(_) => return None,
    };
    // The largest elements are what the op takes; a composite may say so.
    if kind == OpKind::ChloTopK && attrs.get("largest") == Some(&Attr::Bool(true)) {
        attrs.remove("largest");
    }
    if attrs.iter().any(|(name, _)| def.attr(name).is_none()) {
        return None;
    }
    def.drop_defaults(&mut attrs);
    let operands: Vec<Type> = op.operands.iter().map(|&value| func.ty(value).clone()).collect();
    let results: Vec<Type> = op.results().map(|value| func.ty(value).clone()).collect();
    let view = OpView { attrs: &attrs, regions: &[], ..OpView::of(func, op, &operands, &results) };
    let is_op = def.operands.allows(operands.len())
        && def.results.allows(results.len())
        && def.regions.allows(0)
        && attributes::check(def, &attrs).is_ok()
        && (def.infer?.types)(&view).ok()? == results
        && constraints(kind, &view).is_ok();
    is_op.then_some((kind, attrs))
}
