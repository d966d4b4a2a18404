//! A transpose of a broadcast is a broadcast to other dimensions.

use crate::ir::{Attr, OpKind};

use super::{Exactness, Replacement, Rule, Site, attrs, i64s};

pub(super) const RULE: Rule = Rule { name: "transpose_of_broadcast", kinds: &[OpKind::Transpose], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let permutation = site.i64s("permutation")?;
    let inner = site.computed_by(site.operand(0), OpKind::BroadcastInDim)?;
    let (source, first) = (inner.operands[0], i64s(inner, "broadcast_dimensions")?);
    site.array(source)?;
    let to = first.iter().map(|d| permutation.iter().position(|p| p == d).map(|at| at as i64));
    let to = to.collect::<Option<Vec<i64>>>()?;
    // Dimensions in another order would be a transpose hidden in a broadcast.
    if !to.is_sorted() {
        return None;
    }
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::BroadcastInDim, &[source], attrs([("broadcast_dimensions", Attr::i64s(to))]), ty)])
}
