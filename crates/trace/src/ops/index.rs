//! Reading and writing at computed places: gather, scatter, dynamic slices, and `take` on top.

use std::panic::Location;
use std::sync::Arc;

use hlo::dims::{GatherDims, ScatterDims};
use hlo::{Attr, Attrs, OpKind};
use tensor::DType;

use crate::error::misuse;
use crate::graph::Combine;
use crate::ops::{attrs, i64s, only, op, write};
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
                format!("take_along of {} at {}: as many axes are needed", self.spec(), indices.spec()),
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
fn gather_of(dims: &ScatterDims) -> GatherDims {
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
fn window_sizes(dims: &ScatterDims, operand: &Tensor, updates: &Tensor) -> Vec<usize> {
    let mut windows = dims.update_window_dims.iter().map(|&axis| updates.dims()[axis as usize]);
    (0..operand.rank() as i64)
        .map(|axis| {
            let is_single = dims.inserted_window_dims.contains(&axis) || dims.input_batching_dims.contains(&axis);
            if is_single { 1 } else { windows.next().unwrap_or(1) }
        })
        .collect()
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
                    Some(ct.gather(&ins[1], gather_of(dims), &window_sizes(dims, &ins[0], &ins[2])))
                }
                _ => None,
            }
        }
        (OpKind::DynamicSlice, 0) => Some(ins[0].zeros_like().dynamic_update(ct, &ins[1..])),
        (OpKind::DynamicUpdateSlice, 0) => Some(ct.dynamic_update(&ins[1].zeros_like(), &ins[2..])),
        (OpKind::DynamicUpdateSlice, 1) => Some(ct.dynamic_slice(&ins[2..], ins[1].dims())),
        _ => None,
    }
}
