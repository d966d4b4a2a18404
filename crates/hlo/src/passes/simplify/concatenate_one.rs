//! A concatenation of one, pieces without elements apart, is that piece.

use crate::ir::OpKind;

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "concatenate_one", kinds: &[OpKind::Concatenate], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let pieces = site.op().operands.clone();
    let mut full = Vec::with_capacity(pieces.len());
    for &piece in &pieces {
        if site.array(piece)?.num_elements()? > 0 {
            full.push(piece);
        }
    }
    match full[..] {
        [] => pieces.into_iter().find(|&piece| site.func.ty(piece) == site.result_type()).map(|piece| vec![piece]),
        [only] => Some(vec![only]),
        _ if full.len() < pieces.len() => {
            let (attrs, ty) = (site.op().attrs.clone(), site.result_type().clone());
            Some(vec![site.emit(OpKind::Concatenate, &full, attrs, ty)])
        }
        _ => None,
    }
}
