//! Ops whose places are operands: a dimension that is taken whole is split alike on both sides, an indexed one is not.

use super::{FactorKind, Rule, Shapes, at};
use crate::ir::Attr;

/// `dynamic_slice` and `dynamic_update_slice`: dimensions that are taken whole.
pub(super) fn window(shapes: &Shapes<'_>) -> Option<Rule> {
    let result = shapes.result(0)?;
    let mut rule = Rule::new(&shapes.ranks());
    let last = shapes.op.operands.len();
    let arrays: Vec<usize> = (0..shapes.op.operands.len())
        .filter(|&n| shapes.operand(n).is_some_and(|dims| dims.len() == result.len() && !dims.is_empty()))
        .take(2)
        .collect();
    let is_update = shapes.op.kind() == Some(crate::ir::OpKind::DynamicUpdateSlice);
    for (dim, &size) in result.iter().enumerate() {
        let same = |n: &&usize| shapes.operand(**n).and_then(|dims| dims.get(dim)) == Some(&size);
        let mut places: Vec<_> = arrays.iter().filter(same).map(|&n| (n, dim)).collect();
        // What is updated keeps its parts even where the update is one of them.
        if places.len() == arrays.len() || is_update {
            places.push((last, dim));
            rule.add(size, FactorKind::PassThrough, &places);
        }
    }
    Some(rule)
}

pub(super) fn gather(shapes: &Shapes<'_>) -> Option<Rule> {
    let Some(Attr::Gather(dims)) = shapes.op.attr("dimension_numbers") else { return None };
    let sizes = shapes.ints("slice_sizes")?;
    let (operand, indices, result) = (shapes.operand(0)?, shapes.operand(1)?, shapes.result(0)?);
    let mut rule = Rule::new(&shapes.ranks());
    let has = |list: &[i64], dim: usize| list.iter().any(|&d| at(d) == Some(dim));
    let offsets: Vec<usize> = dims.offset_dims.iter().filter_map(|&d| at(d)).collect();
    let mut batches = (0..result.len()).filter(|dim| !offsets.contains(dim));
    for (dim, &size) in indices.iter().enumerate() {
        if at(dims.index_vector_dim) == Some(dim) {
            continue;
        }
        let to = batches.next()?;
        let mut places = vec![(1, dim), (2, to)];
        if let Some(n) = dims.start_indices_batching_dims.iter().position(|&d| at(d) == Some(dim)) {
            places.push((0, at(*dims.operand_batching_dims.get(n)?)?));
        }
        rule.add(size, FactorKind::PassThrough, &places);
    }
    let mut offset = offsets.iter();
    for (dim, &size) in operand.iter().enumerate() {
        if has(&dims.collapsed_slice_dims, dim) || has(&dims.operand_batching_dims, dim) {
            continue;
        }
        let &to = offset.next()?;
        if sizes.get(dim) == Some(&size) && result.get(to) == Some(&size) {
            rule.add(size, FactorKind::PassThrough, &[(0, dim), (2, to)]);
        }
    }
    Some(rule)
}

pub(super) fn scatter(shapes: &Shapes<'_>) -> Option<Rule> {
    let Some(Attr::Scatter(dims)) = shapes.op.attr("scatter_dimension_numbers") else { return None };
    let inputs = shapes.op.num_results as usize;
    let (indices_at, first_update, first_result) = (inputs, inputs + 1, shapes.op.operands.len());
    let (input, indices, update) = (shapes.operand(0)?, shapes.operand(indices_at)?, shapes.operand(first_update)?);
    let mut rule = Rule::new(&shapes.ranks());
    let has = |list: &[i64], dim: usize| list.iter().any(|&d| at(d) == Some(dim));
    let windows: Vec<usize> = dims.update_window_dims.iter().filter_map(|&d| at(d)).collect();
    let mut batches = (0..update.len()).filter(|dim| !windows.contains(dim));
    let mut done = vec![false; input.len()];
    for (dim, &size) in indices.iter().enumerate() {
        if at(dims.index_vector_dim) == Some(dim) {
            continue;
        }
        let from = batches.next()?;
        let mut places = vec![(indices_at, dim)];
        places.extend((0..inputs).map(|n| (first_update + n, from)));
        let batch = dims.scatter_indices_batching_dims.iter().position(|&d| at(d) == Some(dim));
        if let Some(n) = batch {
            let to = at(*dims.input_batching_dims.get(n)?)?;
            *done.get_mut(to)? = true;
            places.extend((0..inputs).flat_map(|n| [(n, to), (first_result + n, to)]));
        }
        // Updates of one place add up.
        let kind = if batch.is_some() { FactorKind::PassThrough } else { FactorKind::Reduction };
        rule.add(size, kind, &places);
    }
    let mut window = windows.iter();
    for (dim, &size) in input.iter().enumerate() {
        if done[dim] {
            continue;
        }
        let mut places: Vec<_> = (0..inputs).flat_map(|n| [(n, dim), (first_result + n, dim)]).collect();
        if !has(&dims.inserted_window_dims, dim) {
            let &from = window.next()?;
            if update.get(from) == Some(&size) {
                places.extend((0..inputs).map(|n| (first_update + n, from)));
            }
        }
        rule.add(size, FactorKind::PassThrough, &places);
    }
    Some(rule)
}
