//! Dimensions of gather and scatter.

use crate::ir::dims::{GatherDims, ScatterDims};
use crate::ir::{DYNAMIC, TensorType};
use crate::ops::def::Violation;

use super::{Checked, dimensions, require, shapes, spelling};

/// The result of a gather; `c` holds the clauses of `gather` by number, `slice` the sizes of a slice, unknown ones dynamic.
pub(crate) fn gather(
    c: &[&'static str; 24],
    operand: &TensorType,
    indices: &TensorType,
    dims: &GatherDims,
    slice: &[i64],
) -> Result<TensorType, Violation> {
    let rank = operand.rank();
    let GatherDims {
        offset_dims,
        collapsed_slice_dims: collapsed,
        operand_batching_dims: batching,
        start_indices_batching_dims: index_batching,
        start_index_map: map,
        index_vector_dim,
    } = dims;
    let covered = offset_dims.len() + collapsed.len() + batching.len();
    require!(
        rank == covered,
        c[1],
        "the operand has rank {rank}, offset, collapsed and batching dimensions are {covered}"
    );
    let vector_dim = index_vector(c[2], *index_vector_dim, indices)?;
    let components = indices.dims.get(vector_dim).copied().unwrap_or(1);
    require!(
        shapes::dims_agree(components, map.len() as i64),
        c[3],
        "start_index_map has {} elements, index vectors have {components}",
        map.len()
    );
    dimensions::sorted(c[4], "offset_dims", offset_dims)?;
    dimensions::unique(c[4], "offset_dims", offset_dims.iter().copied())?;
    dimensions::unique(c[6], "collapsed and batching dimensions", collapsed.iter().chain(batching).copied())?;
    dimensions::sorted(c[7], "collapsed_slice_dims", collapsed)?;
    dimensions::in_range(c[8], "collapsed_slice_dims", collapsed, rank)?;
    dimensions::sorted(c[10], "operand_batching_dims", batching)?;
    dimensions::in_range(c[11], "operand_batching_dims", batching, rank)?;
    batches(
        [c[13], c[14], c[15], c[16], c[17]],
        ("start_indices_batching_dims", index_batching, indices, vector_dim),
        ("operand_batching_dims", batching, operand),
    )?;
    dimensions::unique(c[18], "start_index_map and batching dimensions", map.iter().chain(batching).copied())?;
    dimensions::in_range(c[19], "start_index_map", map, rank)?;
    dimensions::count(c[20], "slice_sizes", slice.len(), rank)?;
    for (clause, group) in [(c[9], collapsed), (c[12], batching)] {
        for &d in group {
            let size = slice[d as usize];
            require!(size == DYNAMIC || size <= 1, clause, "slice_sizes[{d}] is {size}, at most 1 expected");
        }
    }
    for (d, (&size, &have)) in slice.iter().zip(&operand.dims).enumerate() {
        require!(
            size == DYNAMIC || (size >= 0 && (have == DYNAMIC || size <= have)),
            c[21],
            "slice_sizes[{d}] is {size}, operand dim {d} is {}",
            spelling::dim(have)
        );
    }
    let batch_rank = indices.rank() - usize::from(vector_dim < indices.rank());
    let result_rank = batch_rank + offset_dims.len();
    dimensions::in_range(c[5], "offset_dims", offset_dims, result_rank)?;
    let mut offsets = (0..rank).filter(|&d| !collapsed.contains(&(d as i64)) && !batching.contains(&(d as i64)));
    let mut batch_dims = (0..indices.rank()).filter(|&d| d != vector_dim);
    let (mut sizes, mut limits) = (vec![DYNAMIC; result_rank], vec![DYNAMIC; result_rank]);
    for d in 0..result_rank {
        if offset_dims.contains(&(d as i64)) {
            sizes[d] = offsets.next().map_or(DYNAMIC, |d| slice[d]);
        } else if let Some(from) = batch_dims.next() {
            (sizes[d], limits[d]) = (indices.dims[from], shapes::bound(indices, from));
        }
    }
    Ok(shapes::bounded(sizes, limits, operand.element.clone()))
}

/// Dimensions of a scatter; `c` holds the clauses of `scatter` by number.
pub(crate) fn scatter(
    c: &[&'static str; 26],
    input: &TensorType,
    indices: &TensorType,
    update: &TensorType,
    dims: &ScatterDims,
) -> Checked {
    let rank = input.rank();
    let ScatterDims {
        update_window_dims: window,
        inserted_window_dims: inserted,
        input_batching_dims: batching,
        scatter_indices_batching_dims: index_batching,
        scatter_dims_to_operand_dims: map,
        index_vector_dim,
    } = dims;
    let covered = window.len() + inserted.len() + batching.len();
    require!(rank == covered, c[2], "inputs have rank {rank}, window, inserted and batching dimensions are {covered}");
    let vector_dim = index_vector(c[22], *index_vector_dim, indices)?;
    dimensions::sorted(c[7], "update_window_dims", window)?;
    dimensions::unique(c[7], "update_window_dims", window.iter().copied())?;
    dimensions::in_range(c[8], "update_window_dims", window, update.rank())?;
    dimensions::unique(c[9], "inserted and batching dimensions", inserted.iter().chain(batching).copied())?;
    dimensions::sorted(c[10], "inserted_window_dims", inserted)?;
    dimensions::in_range(c[11], "inserted_window_dims", inserted, rank)?;
    dimensions::sorted(c[12], "input_batching_dims", batching)?;
    dimensions::in_range(c[13], "input_batching_dims", batching, rank)?;
    batches(
        [c[14], c[15], c[16], c[17], c[18]],
        ("scatter_indices_batching_dims", index_batching, indices, vector_dim),
        ("input_batching_dims", batching, input),
    )?;
    let components = indices.dims.get(vector_dim).copied().unwrap_or(1);
    require!(
        shapes::dims_agree(components, map.len() as i64),
        c[19],
        "scatter_dims_to_operand_dims has {} elements, index vectors have {components}",
        map.len()
    );
    dimensions::unique(
        c[20],
        "scatter_dims_to_operand_dims and batching dimensions",
        map.iter().chain(batching).copied(),
    )?;
    dimensions::in_range(c[21], "scatter_dims_to_operand_dims", map, rank)?;

    let batch_rank = indices.rank() - usize::from(vector_dim < indices.rank());
    require!(
        update.rank() == batch_rank + window.len(),
        c[4],
        "updates have rank {}, {} expected",
        update.rank(),
        batch_rank + window.len()
    );
    let mut windows = (0..rank).filter(|&d| !inserted.contains(&(d as i64)) && !batching.contains(&(d as i64)));
    let mut batch_dims = (0..indices.rank()).filter(|&d| d != vector_dim);
    for (d, &size) in update.dims.iter().enumerate() {
        if window.contains(&(d as i64)) {
            let Some(from) = windows.next() else { continue };
            let have = input.dims[from];
            require!(
                size == DYNAMIC || have == DYNAMIC || size <= have,
                c[4],
                "update dim {d} is {size}, above input dim {from}, which is {have}"
            );
        } else if let Some(from) = batch_dims.next() {
            let have = indices.dims[from];
            require!(shapes::dims_agree(size, have), c[4], "update dim {d} is {size}, index dim {from} is {have}");
        }
    }
    Ok(())
}

fn index_vector(clause: &'static str, dim: i64, indices: &TensorType) -> Result<usize, Violation> {
    let rank = indices.rank();
    match usize::try_from(dim) {
        Ok(d) if d <= rank => Ok(d),
        _ => Err(Violation::new(clause, format!("index_vector_dim is {dim}, which is not in [0, {rank}]"))),
    }
}

/// Batching dimensions of indices and operand: unique, in range, not the index vector, as many, of the same sizes.
fn batches(
    c: [&'static str; 5],
    (name, numbers, indices, vector_dim): (&str, &[i64], &TensorType, usize),
    (other_name, others, operand): (&str, &[i64], &TensorType),
) -> Checked {
    dimensions::unique(c[0], name, numbers.iter().copied())?;
    dimensions::in_range(c[1], name, numbers, indices.rank())?;
    require!(!numbers.contains(&(vector_dim as i64)), c[2], "{name} holds index_vector_dim, {vector_dim}");
    require!(
        numbers.len() == others.len(),
        c[3],
        "{name} has {} elements, {other_name} has {}",
        numbers.len(),
        others.len()
    );
    for (&i, &o) in numbers.iter().zip(others) {
        let (a, b) = (indices.dims[i as usize], operand.dims[o as usize]);
        require!(shapes::dims_agree(a, b), c[4], "index dim {i} is {a}, operand dim {o} is {b}");
    }
    Ok(())
}
