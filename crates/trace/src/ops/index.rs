//! Reading and writing at computed places: gather, scatter, dynamic slices, and `take` on top.

use std::panic::Location;
use std::sync::Arc;

use hlo::dims::{GatherDims, ScatterDims};
use hlo::{Attr, Attrs, OpKind};
use tensor::DType;

use crate::error::misuse;
use crate::graph::Combine;
use crate::line;
use crate::ops::lane::Lane;
use crate::ops::shape::usizes;
use crate::ops::{attrs, i64s, only, op, scattered, write};
use crate::tensor::Tensor;

/// What a scatter does with an element that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Update {
    /// Replaces it; where places repeat, any of the updates stays.
    Set,
    /// Adds to it.
    Add,
    /// Keeps the larger.
    Maximum,
    /// Keeps the smaller.
    Minimum,
    /// Multiplies it.
    Multiply,
}

impl Update {
    fn combine(self) -> Combine {
        match self {
            Update::Set => Combine::Replace,
            Update::Add => Combine::Add,
            Update::Maximum => Combine::Maximum,
            Update::Minimum => Combine::Minimum,
            Update::Multiply => Combine::Multiply,
        }
    }
}

impl Tensor {
    /// StableHLO's gather.
    #[track_caller]
    #[must_use]
    pub fn gather(&self, indices: &Tensor, dims: GatherDims, slice_sizes: &[usize]) -> Tensor {
        let attrs = attrs([("dimension_numbers", Attr::Gather(Arc::new(dims))), ("slice_sizes", i64s(slice_sizes))]);
        op(OpKind::Gather, &[self, indices], attrs)
    }

    /// StableHLO's scatter: updates combined into this at places given by indices. Places outside are left out.
    #[track_caller]
    #[must_use]
    pub fn scatter(&self, indices: &Tensor, updates: &Tensor, dims: ScatterDims, update: Update) -> Tensor {
        let attrs = attrs([("scatter_dimension_numbers", Attr::Scatter(Arc::new(dims)))]);
        only(write((OpKind::Scatter, attrs, Some(update.combine())), &[self, indices, updates], None))
    }

    /// Slices along an axis at integer positions; the axis is replaced by the axes of `indices`. A position outside is
    /// moved to the nearest one inside and gives no gradient.
    #[track_caller]
    #[must_use]
    pub fn take(&self, axis: isize, indices: &Tensor) -> Tensor {
        let axis = self.axis(axis);
        let mut sizes = self.dims().to_vec();
        sizes[axis] = 1;
        let (rank, extra) = (self.rank(), indices.rank());
        let offset_dims = (0..axis).chain(axis + extra..rank - 1 + extra).map(|dim| dim as i64).collect();
        let dims = GatherDims {
            offset_dims,
            collapsed_slice_dims: vec![axis as i64],
            start_index_map: vec![axis as i64],
            index_vector_dim: extra as i64,
            ..GatherDims::default()
        };
        self.gather(indices, dims, &sizes)
    }

    /// Elements along an axis at positions of their own: `out[.., i, ..] = self[.., indices[.., i, ..], ..]`.
    #[track_caller]
    #[must_use]
    pub fn take_along(&self, axis: isize, indices: &Tensor) -> Tensor {
        let axis = self.axis(axis);
        if indices.rank() != self.rank() {
            misuse(
                Location::caller(),
                format!("take_along of {} at {}: both need the same number of axes", self.spec(), indices.spec()),
            );
        }
        let batch: Vec<i64> = (0..self.rank()).filter(|&dim| dim != axis).map(|dim| dim as i64).collect();
        let dims = GatherDims {
            collapsed_slice_dims: vec![axis as i64],
            operand_batching_dims: batch.clone(),
            start_indices_batching_dims: batch,
            start_index_map: vec![axis as i64],
            index_vector_dim: self.rank() as i64,
            ..GatherDims::default()
        };
        self.gather(indices, dims, &vec![1; self.rank()])
    }

    /// A slice of the given sizes that starts at computed places, moved inside where it would stick out.
    #[track_caller]
    #[must_use]
    pub fn dynamic_slice(&self, starts: &[Tensor], sizes: &[usize]) -> Tensor {
        let inputs: Vec<&Tensor> = std::iter::once(self).chain(starts).collect();
        op(OpKind::DynamicSlice, &inputs, attrs([("slice_sizes", i64s(sizes))]))
    }

    /// A slice of one axis that starts at a computed place.
    #[track_caller]
    #[must_use]
    pub fn dynamic_slice_in(&self, axis: isize, start: &Tensor, size: usize) -> Tensor {
        let _line = line::of(Location::caller());
        let axis = self.axis(axis);
        let mut sizes = self.dims().to_vec();
        sizes[axis] = size;
        self.dynamic_slice(&starts_at(self.rank(), axis, start), &sizes)
    }

    /// With a part replaced, at computed places.
    #[track_caller]
    #[must_use]
    pub fn dynamic_update(&self, update: &Tensor, starts: &[Tensor]) -> Tensor {
        let inputs: Vec<&Tensor> = [self, update].into_iter().chain(starts).collect();
        op(OpKind::DynamicUpdateSlice, &inputs, Attrs::new())
    }

    /// With a part of one axis replaced, from a computed place on.
    #[track_caller]
    #[must_use]
    pub fn dynamic_update_in(&self, axis: isize, start: &Tensor, update: &Tensor) -> Tensor {
        let _line = line::of(Location::caller());
        let axis = self.axis(axis);
        self.dynamic_update(update, &starts_at(self.rank(), axis, start))
    }

    /// 1 at the position each integer names along a new last axis, 0 elsewhere.
    #[track_caller]
    #[must_use]
    pub fn one_hot(&self, size: usize, dtype: DType) -> Tensor {
        let mut dims = self.dims().to_vec();
        dims.push(size);
        let positions = Tensor::iota(self.dtype(), &dims, dims.len() - 1);
        self.expand(-1).broadcast_to(&dims).equals(&positions).cast(dtype)
    }
}

/// Starts of a slice: zero but on one axis.
#[track_caller]
fn starts_at(rank: usize, axis: usize, start: &Tensor) -> Vec<Tensor> {
    (0..rank).map(|dim| if dim == axis { start.clone() } else { start.scalar_like(0.0) }).collect()
}

/// The scatter that undoes a gather.
fn scatter_of(dims: &GatherDims) -> ScatterDims {
    ScatterDims {
        update_window_dims: dims.offset_dims.clone(),
        inserted_window_dims: dims.collapsed_slice_dims.clone(),
        input_batching_dims: dims.operand_batching_dims.clone(),
        scatter_indices_batching_dims: dims.start_indices_batching_dims.clone(),
        scatter_dims_to_operand_dims: dims.start_index_map.clone(),
        index_vector_dim: dims.index_vector_dim,
    }
}

/// The gather that reads what a scatter wrote.
pub(crate) fn gather_of(dims: &ScatterDims) -> GatherDims {
    GatherDims {
        offset_dims: dims.update_window_dims.clone(),
        collapsed_slice_dims: dims.inserted_window_dims.clone(),
        operand_batching_dims: dims.input_batching_dims.clone(),
        start_indices_batching_dims: dims.scatter_indices_batching_dims.clone(),
        start_index_map: dims.scatter_dims_to_operand_dims.clone(),
        index_vector_dim: dims.index_vector_dim,
    }
}

/// Sizes of the windows of a scatter in its operand.
pub(crate) fn window_sizes(dims: &ScatterDims, operand: &Tensor, updates: &Tensor) -> Vec<usize> {
    let mut windows = dims.update_window_dims.iter().map(|&axis| updates.dims()[axis as usize]);
    (0..operand.rank() as i64)
        .map(|axis| {
            let is_single = dims.inserted_window_dims.contains(&axis) || dims.input_batching_dims.contains(&axis);
            if is_single { 1 } else { windows.next().unwrap_or(1) }
        })
        .collect()
}

/// For each update of a scatter, whether its window is inside of the operand.
pub(crate) fn is_inside(dims: &ScatterDims, sizes: &[usize], ins: &[Tensor]) -> Tensor {
    let (operand, indices, updates) = (&ins[0], &ins[1], &ins[2]);
    let at = dims.index_vector_dim as usize;
    // Where the vector has no axis of its own, the indices are its only component.
    let vectors = if at == indices.rank() { indices.expand(-1) } else { indices.clone() };
    let mut inside: Option<Tensor> = None;
    for (n, &axis) in dims.scatter_dims_to_operand_dims.iter().enumerate() {
        let start = vectors.at(at as isize, n);
        let last = operand.dims()[axis as usize] as f64 - sizes[axis as usize] as f64;
        let fits = start.greater_equal(&start.scalar_like(0.0)).and(&start.less_equal(&start.scalar_like(last)));
        inside = Some(match inside {
            Some(inside) => inside.and(&fits),
            None => fits,
        });
    }
    let along: Vec<usize> =
        (0..updates.rank()).filter(|&axis| !dims.update_window_dims.contains(&(axis as i64))).collect();
    match inside {
        Some(inside) => inside.broadcast_along(updates.dims(), &along),
        None => Tensor::full(DType::Bool, updates.dims(), 1.0),
    }
}

/// The cotangent of operand `n` of an op that reads or writes at computed places.
pub(crate) fn transposed(
    (kind, attrs, combine): (OpKind, &Attrs, Option<Combine>),
    ins: &[Tensor],
    n: usize,
    ct: &Tensor,
) -> Option<Tensor> {
    match (kind, n) {
        (OpKind::Gather, 0) => {
            let Some(Attr::Gather(dims)) = attrs.get("dimension_numbers") else { return None };
            if let Some(axis) = single_along(dims, &ins[0], &ins[1]) {
                // Where each row gives one element, a comparison fuses with what follows; a scatter is a pass of its own.
                let whole = |tensor: &Tensor| tensor.broadcast_to(ins[0].dims());
                let is_taken = Tensor::iota(ins[1].dtype(), ins[0].dims(), axis).equals(&whole(&ins[1]));
                return Some(is_taken.select(&whole(ct), &ct.scalar_like(0.0)));
            }
            Some(ins[0].zeros_like().scatter(&ins[1], ct, scatter_of(dims), Update::Add))
        }
        (OpKind::Scatter, 0 | 2) => {
            let Some(Attr::Scatter(dims)) = attrs.get("scatter_dimension_numbers") else { return None };
            match (combine, n) {
                (Some(Combine::Add), 0) => Some(ct.clone()),
                (Some(Combine::Replace), 0) => {
                    Some(ct.scatter(&ins[1], &ins[2].zeros_like(), (**dims).clone(), Update::Set))
                }
                (Some(Combine::Add | Combine::Replace), _) => {
                    let sizes = window_sizes(dims, &ins[0], &ins[2]);
                    let read = ct.gather(&ins[1], gather_of(dims), &sizes);
                    // A scatter leaves out what sticks out, a gather moves it inside.
                    Some(is_inside(dims, &sizes, ins).select(&read, &read.scalar_like(0.0)))
                }
                _ => {
                    let weights = scattered::weights(combine, dims, ins)?;
                    Some(match n {
                        0 => ct * &weights.operand,
                        _ => &scattered::read(dims, ins, ct) * &weights.updates,
                    })
                }
            }
        }
        (OpKind::DynamicSlice, 0) => Some(ins[0].zeros_like().dynamic_update(ct, &ins[1..])),
        (OpKind::DynamicUpdateSlice, 0) => Some(ct.dynamic_update(&ins[1].zeros_like(), &ins[2..])),
        (OpKind::DynamicUpdateSlice, 1) => Some(ct.dynamic_slice(&ins[2..], ins[1].dims())),
        _ => None,
    }
}

/// The axis of a [`Tensor::take_along`] of one element of each row.
fn single_along(dims: &GatherDims, operand: &Tensor, indices: &Tensor) -> Option<usize> {
    let &[axis] = dims.collapsed_slice_dims.as_slice() else { return None };
    let rank = operand.rank();
    let others: Vec<i64> = (0..rank as i64).filter(|&dim| dim != axis).collect();
    let is_single = dims.start_index_map == [axis]
        && dims.operand_batching_dims == others
        && dims.start_indices_batching_dims == others
        && dims.index_vector_dim == rank as i64
        && indices.rank() == rank
        && indices.dims().get(axis as usize) == Some(&1);
    is_single.then_some(axis as usize)
}

/// The tangent of a scatter that keeps extremes or multiplies.
pub(crate) fn pushed_scatter(
    attrs: &Attrs,
    combine: Option<Combine>,
    ins: &[Tensor],
    tangents: &[Option<Tensor>],
) -> Option<Tensor> {
    let Some(Attr::Scatter(dims)) = attrs.get("scatter_dimension_numbers") else { return None };
    let weights = scattered::weights(combine, dims, ins)?;
    let of_operand = tangents[0].as_ref().map(|tangent| tangent * &weights.operand);
    let of_updates = tangents[2].as_ref().map(|tangent| scattered::summed(dims, ins, &(tangent * &weights.updates)));
    match (of_operand, of_updates) {
        (Some(operand), Some(updates)) => Some(operand + updates),
        (operand, updates) => operand.or(updates),
    }
}

/// An op that reads or writes at computed places, of which at least one operand has the axis of a batch in front.
pub(crate) fn batched((kind, attrs, combine): (OpKind, &Attrs, Option<Combine>), ins: &[Lane], size: usize) -> Tensor {
    let shifted = |axes: &[i64]| axes.iter().map(|axis| axis + 1).collect::<Vec<i64>>();
    let led = |axes: &[i64]| std::iter::once(0).chain(axes.iter().map(|axis| axis + 1)).collect::<Vec<i64>>();
    match (kind, attrs.get("dimension_numbers"), attrs.get("scatter_dimension_numbers")) {
        (OpKind::Gather, Some(Attr::Gather(own)), _) => {
            let own = (**own).clone();
            let mut sizes = usizes(attrs, "slice_sizes");
            let dims = match (ins[0].is_batched, ins[1].is_batched) {
                (true, true) => {
                    sizes.insert(0, 1);
                    GatherDims {
                        offset_dims: shifted(&own.offset_dims),
                        collapsed_slice_dims: shifted(&own.collapsed_slice_dims),
                        operand_batching_dims: led(&own.operand_batching_dims),
                        start_indices_batching_dims: led(&own.start_indices_batching_dims),
                        start_index_map: shifted(&own.start_index_map),
                        index_vector_dim: own.index_vector_dim + 1,
                    }
                }
                (true, false) => {
                    // The slices take the whole batch along.
                    sizes.insert(0, size);
                    GatherDims {
                        offset_dims: led(&own.offset_dims),
                        collapsed_slice_dims: shifted(&own.collapsed_slice_dims),
                        operand_batching_dims: shifted(&own.operand_batching_dims),
                        start_index_map: shifted(&own.start_index_map),
                        ..own
                    }
                }
                _ => GatherDims {
                    offset_dims: shifted(&own.offset_dims),
                    start_indices_batching_dims: shifted(&own.start_indices_batching_dims),
                    index_vector_dim: own.index_vector_dim + 1,
                    ..own
                },
            };
            ins[0].tensor.gather(&ins[1].tensor, dims, &sizes)
        }
        (OpKind::Scatter, _, Some(Attr::Scatter(own))) => {
            let dims = ScatterDims {
                update_window_dims: shifted(&own.update_window_dims),
                inserted_window_dims: shifted(&own.inserted_window_dims),
                input_batching_dims: led(&own.input_batching_dims),
                scatter_indices_batching_dims: led(&own.scatter_indices_batching_dims),
                scatter_dims_to_operand_dims: shifted(&own.scatter_dims_to_operand_dims),
                index_vector_dim: own.index_vector_dim + 1,
            };
            let inputs: Vec<Tensor> = ins.iter().map(|lane| lane.spread(size)).collect();
            let mut attrs = attrs.clone();
            attrs.set("scatter_dimension_numbers", Attr::Scatter(Arc::new(dims)));
            only(write((kind, attrs, combine), &inputs.iter().collect::<Vec<_>>(), None))
        }
        (OpKind::DynamicSlice, ..) => batched_slice(&usizes(attrs, "slice_sizes"), ins, size),
        _ => batched_update(ins, size),
    }
}

/// The starts of slices as one tensor, `[batch, axes]`.
fn stacked_starts(starts: &[Lane], size: usize) -> Tensor {
    Tensor::stack(&starts.iter().map(|start| start.spread(size)).collect::<Vec<_>>(), 1)
}

/// Starts of slices of these sizes, moved so that no slice sticks out: a gather does so too, but its gradient and a scatter
/// leave out what sticks out.
fn moved_inside(starts: &[Lane], dims: &[usize], sizes: &[usize]) -> Vec<Lane> {
    let moved = |((start, &dim), &size): ((&Lane, &usize), &usize)| {
        let last = dim.saturating_sub(size) as f64;
        let (low, high) = (start.tensor.scalar_like(0.0), start.tensor.scalar_like(last));
        Lane { tensor: start.tensor.clamp(&low, &high), is_batched: start.is_batched }
    };
    starts.iter().zip(dims).zip(sizes).map(moved).collect()
}

fn batched_slice(sizes: &[usize], ins: &[Lane], size: usize) -> Tensor {
    let (x, starts) = (&ins[0], &ins[1..]);
    let rank = sizes.len();
    let mut all_sizes = sizes.to_vec();
    if starts.iter().all(|start| !start.is_batched) {
        let mut places: Vec<Tensor> = starts.iter().map(|start| start.tensor.clone()).collect();
        let zero = places.first().map_or_else(|| Tensor::scalar(DType::I32, 0.0), Tensor::zeros_like);
        places.insert(0, zero);
        all_sizes.insert(0, size);
        return x.tensor.dynamic_slice(&places, &all_sizes);
    }
    let own = usize::from(x.is_batched);
    let starts = moved_inside(starts, &x.tensor.dims()[own..], sizes);
    let axes = |first: usize| (first..first + rank).map(|axis| axis as i64).collect::<Vec<i64>>();
    let batch: Vec<i64> = (0..own as i64).collect();
    if x.is_batched {
        all_sizes.insert(0, 1);
    }
    let dims = GatherDims {
        offset_dims: axes(1),
        operand_batching_dims: batch.clone(),
        start_indices_batching_dims: batch,
        start_index_map: axes(own),
        index_vector_dim: 1,
        ..GatherDims::default()
    };
    x.tensor.gather(&stacked_starts(&starts, size), dims, &all_sizes)
}

fn batched_update(ins: &[Lane], size: usize) -> Tensor {
    let (x, update, starts) = (ins[0].spread(size), ins[1].spread(size), &ins[2..]);
    if starts.iter().all(|start| !start.is_batched) {
        let mut places: Vec<Tensor> = starts.iter().map(|start| start.tensor.clone()).collect();
        let zero = places.first().map_or_else(|| Tensor::scalar(DType::I32, 0.0), Tensor::zeros_like);
        places.insert(0, zero);
        return x.dynamic_update(&update, &places);
    }
    let inside = moved_inside(starts, &x.dims()[1..], &update.dims()[1..]);
    let axes: Vec<i64> = (1..x.rank() as i64).collect();
    let dims = ScatterDims {
        update_window_dims: axes.clone(),
        input_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![0],
        scatter_dims_to_operand_dims: axes,
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    x.scatter(&stacked_starts(&inside, size), &update, dims, Update::Set)
}
