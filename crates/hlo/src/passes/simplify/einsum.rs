//! An `einsum` whose labels are batched, contracted or free is a `dot_general` and a transpose.

use std::sync::Arc;

use crate::ir::dims::DotDims;
use crate::ir::{Attr, OpKind, TensorType};

use super::{Exactness, Replacement, Rule, Site, attrs};

pub(super) const RULE: Rule = Rule { name: "einsum", kinds: &[OpKind::Einsum], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let (lhs, rhs) = (site.operand(0), site.operand(1));
    let config: String = site.op().attr("einsum_config")?.as_str()?.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, out) = config.split_once("->")?;
    let (left, right) = inputs.split_once(',')?;
    let [left, right, out] = [left, right, out].map(labels);
    let (left, right, out) = (left?, right?, out?);
    let (left_dims, right_dims) = (site.dims(lhs)?.to_vec(), site.dims(rhs)?.to_vec());
    if left.len() != left_dims.len() || right.len() != right_dims.len() {
        return None;
    }
    let place = |labels: &[char], label: char| labels.iter().position(|&l| l == label).map(|at| at as i64);
    let mut numbers = DotDims::default();
    let mut joined: Vec<(char, i64)> = Vec::new();
    for (at, &label) in left.iter().enumerate() {
        let other = place(&right, label);
        // A dimension of size 1 against a larger one would have to be broadcast.
        if other.is_some_and(|other| right_dims[other as usize] != left_dims[at]) {
            return None;
        }
        match (other, out.contains(&label)) {
            (Some(other), true) => {
                numbers.lhs_batching.push(at as i64);
                numbers.rhs_batching.push(other);
                joined.push((label, left_dims[at]));
            }
            (Some(other), false) => {
                numbers.lhs_contracting.push(at as i64);
                numbers.rhs_contracting.push(other);
            }
            (None, true) => {}
            (None, false) => return None,
        }
    }
    for (labels, dims, others) in [(&left, &left_dims, &right), (&right, &right_dims, &left)] {
        for (&label, &size) in labels.iter().zip(dims) {
            if !others.contains(&label) {
                out.contains(&label).then(|| joined.push((label, size)))?;
            }
        }
    }
    let order: Vec<char> = joined.iter().map(|&(label, _)| label).collect();
    let permutation = out.iter().map(|&label| place(&order, label)).collect::<Option<Vec<i64>>>()?;
    if permutation.len() != order.len() {
        return None;
    }
    let ty = TensorType::new(joined.iter().map(|&(_, size)| size).collect::<Vec<i64>>(), site.dtype(site.result())?);
    let numbers = attrs([("dot_dimension_numbers", Attr::Dot(Arc::new(numbers)))]);
    let dot = site.emit(OpKind::DotGeneral, &[lhs, rhs], numbers, ty);
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::Transpose, &[dot], attrs([("permutation", Attr::i64s(permutation))]), ty)])
}

/// The labels of one value, each once.
fn labels(text: &str) -> Option<Vec<char>> {
    let labels: Vec<char> = text.chars().collect();
    let is_once = |(at, label): (usize, &char)| label.is_ascii_alphabetic() && !labels[..at].contains(label);
    labels.iter().enumerate().all(is_once).then_some(labels)
}
