//! `broadcast`, which only adds dimensions in front, is a `broadcast_in_dim`.

use crate::ir::{Attr, OpKind};

use super::{Exactness, Replacement, Rule, Site, attrs};

pub(super) const RULE: Rule = Rule { name: "broadcast_old", kinds: &[OpKind::Broadcast], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let operand = site.operand(0);
    let rank = site.array(operand)?.rank();
    let all = site.array(site.result())?.rank();
    let to: Vec<i64> = (all.checked_sub(rank)?..all).map(|d| d as i64).collect();
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::BroadcastInDim, &[operand], attrs([("broadcast_dimensions", Attr::i64s(to))]), ty)])
}
