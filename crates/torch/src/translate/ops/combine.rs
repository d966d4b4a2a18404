//! Ops that put tensors together.

use tensor::DType;
use trace::Tensor;

use crate::error::Error;
use crate::graph::NodeArgument;
use crate::translate::call::{Call, Value};
use crate::translate::run::Rules;
use crate::translate::types::cast;

type Answer = Result<Value, Error>;

/// Joins tensors along an axis; an empty tensor of one axis joins anything.
fn concatenated(mut tensors: Vec<Tensor>, axis: i64, dtype: DType) -> Answer {
    if tensors.iter().any(|tensor| tensor.dims() != [0]) {
        tensors.retain(|tensor| tensor.dims() != [0]);
    }
    let rank = tensors.first().map_or(0, Tensor::rank);
    let axis = crate::translate::call::in_rank(axis, rank)?;
    let fits = |tensor: &Tensor| {
        let first = tensors[0].dims();
        tensor.rank() == rank && (0..rank).all(|n| n == axis || tensor.dims()[n] == first[n])
    };
    if rank == 0 || !tensors.iter().all(fits) {
        return Err(Error::damaged("it joins tensors whose shapes do not fit"));
    }
    let tensors: Vec<Tensor> = tensors.iter().map(|tensor| cast(tensor, dtype)).collect();
    Ok(Tensor::concat(&tensors, axis as isize).into())
}

fn joined(call: &mut Call<'_, '_>) -> Answer {
    let dtype = call.result_type()?;
    let tensors = call.all_tensors("tensors")?;
    let axis = call.int(if call.has("axis") { "axis" } else { "dim" }, 0)?;
    concatenated(tensors, axis, dtype)
}

fn stacked(call: &mut Call<'_, '_>) -> Answer {
    let dtype = call.result_type()?;
    let tensors = call.all_tensors("tensors")?;
    let rank = tensors.first().map_or(0, Tensor::rank) + 1;
    let axis = call.axis("dim", 0, rank)?;
    if tensors.is_empty() || tensors.iter().any(|tensor| tensor.dims() != tensors[0].dims()) {
        return Err(Error::damaged("it stacks tensors of different shapes"));
    }
    let tensors: Vec<Tensor> = tensors.iter().map(|tensor| cast(tensor, dtype)).collect();
    Ok(Tensor::stack(&tensors, axis as isize).into())
}

/// With at least so many axes, as `atleast_1d` and its relatives have it.
fn at_least(x: &Tensor, rank: usize) -> Tensor {
    match (x.rank(), rank) {
        (0, rank) => x.reshape(&vec![1; rank]),
        (1, 2) => x.expand(0),
        (1, 3) => x.expand(0).expand(-1),
        (2, 3) => x.expand(-1),
        _ => x.clone(),
    }
}

fn with_axes(call: &mut Call<'_, '_>, rank: usize) -> Answer {
    Ok(match call.argument("tensors") {
        Some(_) => call.all_tensors("tensors")?.iter().map(|x| at_least(x, rank)).collect::<Vec<_>>().into(),
        None => at_least(&call.subject()?, rank).into(),
    })
}

/// `hstack`, `vstack`, `dstack`: with at least so many axes, joined along one.
fn joined_with(call: &mut Call<'_, '_>, rank: usize, axis: i64) -> Answer {
    let dtype = call.result_type()?;
    let tensors: Vec<Tensor> = call.all_tensors("tensors")?.iter().map(|x| at_least(x, rank)).collect();
    let axis = if rank == 1 && tensors.first().is_some_and(|x| x.rank() == 1) { 0 } else { axis };
    concatenated(tensors, axis, dtype)
}

fn column_stack(call: &mut Call<'_, '_>) -> Answer {
    let dtype = call.result_type()?;
    let columns = call.all_tensors("tensors")?;
    let columns = columns.iter().map(|x| if x.rank() <= 1 { x.reshape(&[x.num_elements(), 1]) } else { x.clone() });
    concatenated(columns.collect(), 1, dtype)
}

fn block_diag(call: &mut Call<'_, '_>) -> Answer {
    let (dtype, dims) = (call.result_type()?, call.result_dims()?);
    let blocks: Vec<Tensor> = call.all_tensors("tensors")?.iter().map(|x| cast(&at_least(x, 2), dtype)).collect();
    let [rows, columns] = dims.as_slice() else { return Err(Error::damaged("blocks on a diagonal have two axes")) };
    let zero = Tensor::scalar(dtype, 0.0);
    let (mut top, mut left) = (0, 0);
    let mut parts = Vec::new();
    for block in &blocks {
        let [height, width] = block.dims() else { return Err(Error::damaged("a block has two axes")) };
        let right = (*columns as i64) - (left + width) as i64;
        parts.push(block.pad_all(&zero, &[0, left as i64], &[0, right], &[0, 0]));
        (top, left) = (top + height, left + width);
    }
    if top != *rows || parts.is_empty() {
        return Err(Error::damaged("blocks on a diagonal of another size"));
    }
    Ok(Tensor::concat(&parts, 0).into())
}

fn meshgrid(call: &mut Call<'_, '_>) -> Answer {
    let tensors = call.all_tensors("tensors")?;
    let is_xy = call.text("indexing") == Some("xy");
    let mut dims: Vec<usize> = tensors.iter().map(Tensor::num_elements).collect();
    if is_xy && dims.len() >= 2 {
        dims.swap(0, 1);
    }
    let grids = tensors.iter().enumerate().map(|(n, tensor)| {
        let axis = match n {
            0 if is_xy && tensors.len() >= 2 => 1,
            1 if is_xy => 0,
            n => n,
        };
        tensor.reshape(&[tensor.num_elements()]).broadcast_along(&dims, &[axis])
    });
    Ok(grids.collect::<Vec<_>>().into())
}

fn cartesian_prod(call: &mut Call<'_, '_>) -> Answer {
    let tensors = call.all_tensors("tensors")?;
    if let [one] = tensors.as_slice() {
        return Ok(one.clone().into());
    }
    let dims: Vec<usize> = tensors.iter().map(Tensor::num_elements).collect();
    let total = dims.iter().product();
    let grids = tensors.iter().enumerate();
    let columns: Vec<Tensor> =
        grids.map(|(n, x)| x.reshape(&[dims[n]]).broadcast_along(&dims, &[n]).reshape(&[total])).collect();
    Ok(Tensor::stack(&columns, 1).into())
}

/// All in their common shape, which is recorded of each.
fn broadcast(call: &mut Call<'_, '_>) -> Answer {
    let tensors = call.all_tensors("tensors")?;
    let shapes = call.translator.recorded_results(call.node)?;
    if shapes.len() != tensors.len() || !matches!(call.node.outputs.first(), Some(NodeArgument::Tensors(_))) {
        return Err(Error::damaged("as many results as tensors are broadcast"));
    }
    Ok(tensors.iter().zip(shapes).map(|(x, (_, dims))| x.broadcast_to(&dims)).collect::<Vec<_>>().into())
}

pub(super) const RULES: Rules = &[
    ("cat", joined),
    ("concat", joined),
    ("concatenate", joined),
    ("stack", stacked),
    ("hstack", |c| joined_with(c, 1, 1)),
    ("vstack", |c| joined_with(c, 2, 0)),
    ("row_stack", |c| joined_with(c, 2, 0)),
    ("dstack", |c| joined_with(c, 3, 2)),
    ("column_stack", column_stack),
    ("atleast_1d", |c| with_axes(c, 1)),
    ("atleast_2d", |c| with_axes(c, 2)),
    ("atleast_3d", |c| with_axes(c, 3)),
    ("block_diag", block_diag),
    ("meshgrid", meshgrid),
    ("cartesian_prod", cartesian_prod),
    ("broadcast_tensors", broadcast),
];
