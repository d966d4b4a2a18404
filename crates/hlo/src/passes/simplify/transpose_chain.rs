//! A transpose that moves nothing, or only dimensions of size 1, and one of a transpose.

use crate::ir::{Attr, OpKind};

use super::{Exactness, Replacement, Rule, Site, attrs, i64s};

pub(super) const RULE: Rule = Rule { name: "transpose_chain", kinds: &[OpKind::Transpose], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let operand = site.operand(0);
    let permutation = site.i64s("permutation")?;
    let dims = site.dims(operand)?.to_vec();
    if permutation.is_sorted() {
        return Some(vec![operand]);
    }
    let moved: Vec<i64> = permutation.iter().copied().filter(|&d| dims[d as usize] != 1).collect();
    if moved.is_sorted() {
        let to: Vec<i64> = permutation.iter().map(|&d| dims[d as usize]).collect();
        return Some(vec![site.emit_reshape(operand, &to)?]);
    }
    let inner = site.computed_by(operand, OpKind::Transpose)?;
    let (source, first) = (inner.operands[0], i64s(inner, "permutation")?);
    let both: Vec<i64> = permutation.iter().map(|&d| first[d as usize]).collect();
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::Transpose, &[source], attrs([("permutation", Attr::i64s(both))]), ty)])
}
