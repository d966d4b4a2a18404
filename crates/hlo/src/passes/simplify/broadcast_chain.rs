//! A broadcast that only adds dimensions of size 1 is a reshape; one of a broadcast or of such a reshape is one.

use crate::ir::{Attr, OpKind};

use super::{Exactness, Replacement, Rule, Site, attrs, i64s};

pub(super) const RULE: Rule = Rule { name: "broadcast_chain", kinds: &[OpKind::BroadcastInDim], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let operand = site.operand(0);
    let to = site.i64s("broadcast_dimensions")?;
    let (from, result) = (site.array(operand)?, site.array(site.result())?);
    if from.num_elements() == result.num_elements() {
        let moved: Vec<i64> = (0..from.rank()).filter(|&d| from.dims[d] != 1).map(|d| to[d]).collect();
        if moved.is_sorted() {
            let dims = result.dims.clone();
            return Some(vec![site.emit_reshape(operand, &dims)?]);
        }
    }
    let inner = site.definition(operand)?;
    let source = *inner.operands.first()?;
    let first = match inner.kind()? {
        OpKind::BroadcastInDim => i64s(inner, "broadcast_dimensions")?,
        OpKind::Reshape => kept_dims(site.dims(source)?, &from.dims)?,
        _ => return None,
    };
    site.array(source)?;
    let both: Vec<i64> = first.iter().map(|&d| to[d as usize]).collect();
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::BroadcastInDim, &[source], attrs([("broadcast_dimensions", Attr::i64s(both))]), ty)])
}

/// Where the dimensions of a shape are in another that only has more of size 1.
fn kept_dims(from: &[i64], to: &[i64]) -> Option<Vec<i64>> {
    let mut places = Vec::with_capacity(from.len());
    for (place, &size) in to.iter().enumerate() {
        if from.get(places.len()) == Some(&size) {
            places.push(place as i64);
        } else if size != 1 {
            return None;
        }
    }
    (places.len() == from.len()).then_some(places)
}
