//! Indexed access: gather, dynamic_gather, scatter, torch_index_select.

use hlo::{OpKind, TensorType};

use super::combine::Combine;
use super::context::{Context, Eval};
use super::contraction::ints;
use super::positions::{self, Walk};
use super::reduction::promoted;
use super::scalar::Scalar;
use super::value::{InterpreterValue, TensorValue};
use crate::attributes;
use crate::error::Error;

/// The meaning of an op of this family.
pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    Some(match kind {
        OpKind::Gather => gather,
        OpKind::DynamicGather => dynamic_gather,
        OpKind::Scatter => scatter,
        OpKind::TorchIndexSelect => torch_index_select,
        _ => return None,
    })
}

fn gather(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let sizes = attributes::ints(context.op, "slice_sizes")?;
    gathered(context, &sizes)
}

fn dynamic_gather(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let sizes = ints(&context.tensor(2)?.elements)?;
    let dims = context.tensor(0)?.dims();
    let fits = sizes.len() == dims.len() && sizes.iter().zip(dims).all(|(&s, &d)| (0..=i128::from(d)).contains(&s));
    if !fits {
        return context.fail(format!("slice sizes {sizes:?} do not fit an operand of sizes {dims:?}"));
    }
    let sizes: Vec<i64> = sizes.into_iter().map(|s| s as i64).collect();
    gathered(context, &sizes)
}

/// Index vectors of gather and scatter: a tensor of indices with one dimension that holds their components.
struct IndexVectors<'i> {
    values: Vec<i128>,
    strides: Vec<usize>,
    vector_dim: usize,
    dims: &'i [i64],
    /// Operand dimension each component addresses.
    addresses: &'i [i64],
    /// Operand and index dimensions that go together.
    batching: Vec<(usize, usize)>,
}

impl<'i> IndexVectors<'i> {
    fn new(
        indices: &'i TensorValue,
        vector_dim: i64,
        addresses: &'i [i64],
        operand_batching: &[i64],
        index_batching: &[i64],
    ) -> Result<Self, Error> {
        Ok(IndexVectors {
            values: ints(&indices.elements)?,
            strides: positions::strides(indices.dims()),
            vector_dim: vector_dim as usize,
            dims: indices.dims(),
            addresses,
            batching: positions::indices(operand_batching)
                .into_iter()
                .zip(positions::indices(index_batching))
                .collect(),
        })
    }

    /// Sizes of the batch: every dimension but the one of the components.
    fn batch(&self) -> Vec<i64> {
        (0..self.dims.len()).filter(|&d| d != self.vector_dim).map(|d| self.dims[d]).collect()
    }

    /// The start of the slice at a batch index, per operand dimension, the batching part separate.
    fn start(&self, batch: &[i64], rank: usize) -> (Vec<i128>, Vec<i64>) {
        let place = |d: usize| if d < self.vector_dim { d } else { d - 1 };
        let base: usize = (0..self.dims.len())
            .filter(|&d| d != self.vector_dim)
            .map(|d| batch[place(d)] as usize * self.strides[d])
            .sum();
        let step = self.strides.get(self.vector_dim).copied().unwrap_or(0);
        let (mut start, mut batching) = (vec![0; rank], vec![0; rank]);
        for (component, &d) in self.addresses.iter().enumerate() {
            start[d as usize] = self.values[base + component * step];
        }
        for &(operand, index) in &self.batching {
            batching[operand] = batch[place(index)];
        }
        (start, batching)
    }
}

fn gathered(context: &mut Context<'_, '_>, slice_sizes: &[i64]) -> Result<Vec<InterpreterValue>, Error> {
    let dims = attributes::gather_dims(context.op)?;
    let (operand, indices) = (context.tensor(0)?, context.tensor(1)?);
    let rank = operand.dims().len();
    let vectors = IndexVectors::new(
        indices,
        dims.index_vector_dim,
        &dims.start_index_map,
        &dims.operand_batching_dims,
        &dims.start_indices_batching_dims,
    )?;
    if operand.dims().iter().zip(slice_sizes).any(|(d, s)| s > d) {
        return context.fail(format!("slice sizes {slice_sizes:?} exceed the operand's {:?}", operand.dims()));
    }
    let batch = vectors.batch();
    let window = positions::others(rank, &[&dims.collapsed_slice_dims, &dims.operand_batching_dims]);
    let result_rank = batch.len() + dims.offset_dims.len();
    let batch_dims = positions::others(result_rank, &[&dims.offset_dims]);
    let mut sizes = vec![0i64; result_rank];
    batch_dims.iter().zip(&batch).for_each(|(&d, &size)| sizes[d] = size);
    dims.offset_dims.iter().zip(&window).for_each(|(&d, &w)| sizes[d as usize] = slice_sizes[w]);
    let count = positions::count(context, &sizes)?;
    let strides = positions::strides(operand.dims());
    let mut picked = Vec::with_capacity(count);
    let mut walk = Walk::new(&sizes);
    let mut batch_index = vec![0; batch.len()];
    while let Some(index) = walk.next() {
        batch_dims.iter().zip(&mut batch_index).for_each(|(&d, i)| *i = index[d]);
        let (start, batching) = vectors.start(&batch_index, rank);
        let mut at = 0;
        for d in 0..rank {
            let last = i128::from(operand.dims()[d] - slice_sizes[d]);
            at += (start[d].clamp(0, last) as usize + batching[d] as usize) * strides[d];
        }
        for (&d, &w) in dims.offset_dims.iter().zip(&window) {
            at += index[d as usize] as usize * strides[w];
        }
        picked.push(at);
    }
    if picked.iter().any(|&at| at >= operand.elements.len()) {
        return context.fail("an index lies outside the operand");
    }
    let elements = operand.elements.pick(picked.into_iter());
    Ok(vec![TensorValue { ty: TensorType::new(sizes, operand.ty.element.clone()), elements }.into()])
}

fn scatter(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let dims = attributes::scatter_dims(context.op)?;
    let combine = Combine::new(context, 0)?;
    let n = context.op.operands.len() / 2;
    let mut results =
        (0..n).map(|i| promoted(context.tensor(i)?, combine.argument(i)?)).collect::<Result<Vec<_>, _>>()?;
    let updates = (0..n)
        .map(|i| promoted(context.tensor(n + 1 + i)?, combine.argument(n + i)?))
        .collect::<Result<Vec<_>, _>>()?;
    let indices = context.tensor(n)?.clone();
    let (Some(first), Some(update)) = (results.first(), updates.first()) else {
        return context.fail("there is nothing to scatter into");
    };
    let (sizes, update_sizes) = (first.dims().to_vec(), update.dims().to_vec());
    if results.iter().any(|t| t.dims() != sizes) || updates.iter().any(|t| t.dims() != update_sizes) {
        return context.fail("inputs must have one shape, and updates one");
    }
    let rank = sizes.len();
    let vectors = IndexVectors::new(
        &indices,
        dims.index_vector_dim,
        &dims.scatter_dims_to_operand_dims,
        &dims.input_batching_dims,
        &dims.scatter_indices_batching_dims,
    )?;
    let window = positions::others(rank, &[&dims.inserted_window_dims, &dims.input_batching_dims]);
    let scatter_dims = positions::others(update_sizes.len(), &[&dims.update_window_dims]);
    let batch: Vec<i64> = scatter_dims.iter().map(|&d| update_sizes[d]).collect();
    if batch != vectors.batch() {
        return context.fail("updates do not fit the indices");
    }
    let strides = positions::strides(&sizes);
    let mut walk = Walk::new(&update_sizes);
    let mut batch_index = vec![0; batch.len()];
    let mut from = 0;
    let mut extent = vec![1i64; rank];
    dims.update_window_dims.iter().zip(&window).for_each(|(&d, &w)| extent[w] = update_sizes[d as usize]);
    while let Some(index) = walk.next() {
        let update_at = from;
        from += 1;
        scatter_dims.iter().zip(&mut batch_index).for_each(|(&d, i)| *i = index[d]);
        let (start, batching) = vectors.start(&batch_index, rank);
        // XLA drops a window that does not lie within the operand as a whole; the specification's text drops single
        // elements of it.
        let first = |d: usize| start[d] + i128::from(batching[d]);
        if (0..rank).any(|d| first(d) < 0 || first(d) + i128::from(extent[d]) > i128::from(sizes[d])) {
            continue;
        }
        let mut at: usize = (0..rank).map(|d| first(d) as usize * strides[d]).sum();
        for (&d, &w) in dims.update_window_dims.iter().zip(&window) {
            at += index[d as usize] as usize * strides[w];
        }
        let arguments: Vec<Scalar> = results
            .iter()
            .map(|t| Scalar::get(&t.elements, at))
            .chain(updates.iter().map(|t| Scalar::get(&t.elements, update_at)))
            .collect();
        for (result, value) in results.iter_mut().zip(combine.apply(context, &arguments)?) {
            value.set(&mut result.elements, at)?;
        }
    }
    Ok(results.into_iter().map(InterpreterValue::from).collect())
}

fn torch_index_select(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let (operand, index) = (context.tensor(0)?, context.tensor(1)?);
    let rank = operand.dims().len() as i64;
    let wrapped = |d: i64, rank: i64| if d < 0 { d + rank } else { d };
    let dim = wrapped(attributes::int(context.op, "dim")?, rank);
    let batch = wrapped(attributes::int(context.op, "batch_dims")?, index.dims().len() as i64);
    if dim < 0 || dim >= rank || batch < 0 || batch > dim || batch > index.dims().len() as i64 {
        return context.fail("dim and batch_dims do not fit the operands");
    }
    let (dim, batch) = (dim as usize, batch as usize);
    if operand.dims()[..batch] != index.dims()[..batch] {
        return context.fail("the batch dimensions differ");
    }
    let inner = &index.dims()[batch..];
    let sizes: Vec<i64> = [&operand.dims()[..dim], inner, &operand.dims()[dim + 1..]].concat();
    let count = positions::count(context, &sizes)?;
    let (os, is) = (positions::strides(operand.dims()), positions::strides(index.dims()));
    let values = ints(&index.elements)?;
    let mut picked = Vec::with_capacity(count);
    let mut walk = Walk::new(&sizes);
    while let Some(at) = walk.next() {
        let (chosen, rest) = (&at[dim..dim + inner.len()], &at[dim + inner.len()..]);
        let place = positions::position(&at[..batch], &is) + positions::position(chosen, &is[batch..]);
        let Some(value) = usize::try_from(values[place]).ok().filter(|&v| (v as i64) < operand.dims()[dim]) else {
            return context.fail(format!("index {} lies outside dimension {dim}", values[place]));
        };
        let outer = positions::position(&at[..dim], &os);
        picked.push(outer + value * os[dim] + positions::position(rest, &os[dim + 1..]));
    }
    let elements = operand.elements.pick(picked.into_iter());
    Ok(vec![TensorValue { ty: TensorType::new(sizes, operand.ty.element.clone()), elements }.into()])
}
