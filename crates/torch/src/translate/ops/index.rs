//! Reading and writing at computed places.

use hlo::dims::{GatherDims, ScatterDims};
use tensor::DType;
use trace::{Tensor, Update};

use crate::error::Error;
use crate::graph::NodeArgument;
use crate::translate::call::{Call, Value};
use crate::translate::run::Rules;
use crate::translate::types::cast;

type Answer = Result<Value, Error>;

/// Places of several axes as one tensor `[places…, axes]`, and the axes.
struct Places {
    indices: Tensor,
    axes: Vec<usize>,
}

/// Negative positions count from the end.
fn wrapped(index: &Tensor, size: usize) -> Tensor {
    let index = cast(index, DType::I64);
    let zero = Tensor::scalar(DType::I64, 0.0);
    index.less(&zero).select(&(&index + size as f64), &index)
}

fn broadcast(shapes: &[Vec<usize>]) -> Vec<usize> {
    let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
    (0..rank)
        .map(|axis| {
            let sizes = shapes.iter().filter_map(|dims| dims.get((axis + dims.len()).checked_sub(rank)?));
            sizes.copied().find(|size| *size != 1).unwrap_or(1)
        })
        .collect()
}

impl Places {
    fn of(call: &mut Call<'_, '_>, x: &Tensor) -> Result<Places, Error> {
        let given = call.tensors("indices")?;
        let mut found = Vec::new();
        let mut axes = Vec::new();
        for (axis, index) in given.into_iter().enumerate() {
            let Some(index) = index else { continue };
            if index.dtype() == DType::Bool {
                return Err(Error::new(
                    "it indexes with booleans: how many are true is known only when the program runs",
                    "use `torch.where`, or multiply with the mask",
                ));
            }
            let size =
                x.dims().get(axis).copied().ok_or_else(|| Error::damaged("it indexes an axis that is not there"))?;
            found.push(wrapped(&index, size));
            axes.push(axis);
        }
        if found.is_empty() {
            return Err(Error::damaged("it indexes with nothing"));
        }
        let dims = broadcast(&found.iter().map(|index| index.dims().to_vec()).collect::<Vec<_>>());
        let parts: Vec<Tensor> = found.iter().map(|index| index.broadcast_to(&dims)).collect();
        Ok(Places { indices: Tensor::stack(&parts, -1), axes })
    }

    /// Axes of the places in the result: where the indexed axes were, or first where they lie apart.
    fn first_axis(&self) -> usize {
        let is_together = self.axes.windows(2).all(|pair| pair[1] == pair[0] + 1);
        if is_together { self.axes[0] } else { 0 }
    }

    fn places(&self) -> usize {
        self.indices.rank() - 1
    }

    /// Axes of a result of this many axes that are not of the places.
    fn offsets(&self, rank: usize) -> Vec<i64> {
        let (first, count) = (self.first_axis(), self.places());
        let all = 0..rank - self.axes.len() + count;
        all.filter(|axis| !(first..first + count).contains(axis)).map(|axis| axis as i64).collect()
    }

    fn read(&self, x: &Tensor) -> Tensor {
        let mut sizes = x.dims().to_vec();
        for axis in &self.axes {
            sizes[*axis] = 1;
        }
        let axes: Vec<i64> = self.axes.iter().map(|axis| *axis as i64).collect();
        let dims = GatherDims {
            offset_dims: self.offsets(x.rank()),
            collapsed_slice_dims: axes.clone(),
            start_index_map: axes,
            index_vector_dim: self.places() as i64,
            ..GatherDims::default()
        };
        x.gather(&self.indices, dims, &sizes)
    }

    fn write(&self, x: &Tensor, values: &Tensor, update: Update) -> Tensor {
        let (first, count) = (self.first_axis(), self.places());
        let kept: Vec<usize> = (0..x.rank()).filter(|axis| !self.axes.contains(axis)).collect();
        let places = &self.indices.dims()[..count];
        let mut dims: Vec<usize> = kept.iter().map(|axis| x.dims()[*axis]).collect();
        for (n, size) in places.iter().enumerate() {
            dims.insert(first + n, *size);
        }
        let axes: Vec<i64> = self.axes.iter().map(|axis| *axis as i64).collect();
        let scatter = ScatterDims {
            update_window_dims: self.offsets(x.rank()),
            inserted_window_dims: axes.clone(),
            scatter_dims_to_operand_dims: axes,
            index_vector_dim: count as i64,
            ..ScatterDims::default()
        };
        x.scatter(&self.indices, &values.broadcast_to(&dims), scatter, update)
    }
}

fn index(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    Ok(Places::of(call, &x)?.read(&x).into())
}

fn index_put(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let values = cast(&call.tensor("values")?, x.dtype());
    let is_sum = call.bool("accumulate", false)?;
    // One mask and one value is a choice between two tensors.
    let given = call.tensors("indices")?;
    if let [Some(mask)] = given.as_slice()
        && mask.dtype() == DType::Bool
        && values.num_elements() == 1
        && x.dims().starts_with(mask.dims())
    {
        let along: Vec<usize> = (0..mask.rank()).collect();
        let wide = mask.broadcast_along(x.dims(), &along);
        let value = values.reshape(&[]).broadcast_to(x.dims());
        let value = if is_sum { &x + &value } else { value };
        return Ok(wide.select(&value, &x).into());
    }
    let update = if is_sum { Update::Add } else { Update::Set };
    Ok(Places::of(call, &x)?.write(&x, &values, update).into())
}

fn embedding(call: &mut Call<'_, '_>) -> Answer {
    let (weight, indices) = (call.tensor("weight")?, call.tensor("indices")?);
    Ok(weight.take(0, &indices).into())
}

fn index_select(call: &mut Call<'_, '_>) -> Answer {
    let (x, index) = (call.subject()?, call.tensor("index")?);
    let axis = call.axis("dim", 0, x.rank())?;
    let index = index.reshape(&[index.num_elements()]);
    if x.rank() == 0 {
        return Ok(x.into());
    }
    Ok(x.take(axis as isize, &index).into())
}

/// `out[i][j] = self[index[i][j]][j]`: other axes may be shorter than the tensor's.
fn gather(call: &mut Call<'_, '_>) -> Answer {
    let (x, index) = (call.subject()?, call.tensor("index")?);
    if x.rank() == 0 {
        return Ok(x.broadcast_to(index.dims()).into());
    }
    let axis = call.axis("dim", 0, x.rank())?;
    let shortened = shortened(&x, &index, axis)?;
    Ok(shortened.take_along(axis as isize, &index).into())
}

fn shortened(x: &Tensor, index: &Tensor, axis: usize) -> Result<Tensor, Error> {
    if index.rank() != x.rank() {
        return Err(Error::damaged(format!("places {} of {}", index.spec(), x.spec())));
    }
    let mut y = x.clone();
    for other in (0..x.rank()).filter(|other| *other != axis) {
        let size = index.dim(other as isize);
        if size > x.dim(other as isize) {
            return Err(Error::damaged(format!("places {} of {}", index.spec(), x.spec())));
        }
        y = y.slice(other as isize, 0..size);
    }
    Ok(y)
}

/// Writes along an axis at places of their own.
fn scattered(call: &mut Call<'_, '_>, update: Update) -> Answer {
    let (x, index) = (call.subject()?, call.tensor("index")?);
    if x.rank() == 0 || index.rank() != x.rank() {
        return Err(call.unsupported("a scatter of tensors without axes"));
    }
    let axis = call.axis("dim", 0, x.rank())?;
    let source = match call.argument("src") {
        Some(_) => shortened_source(&call.tensor("src")?, &index),
        None => call.operand("value")?.cast(x.dtype()).broadcast_to(index.dims()),
    };
    // Every element has its own place: its position on all axes, but for this one.
    let dims = index.dims().to_vec();
    let parts: Vec<Tensor> = (0..x.rank())
        .map(|other| if other == axis { index.cast(DType::I64) } else { Tensor::iota(DType::I64, &dims, other) })
        .collect();
    let axes: Vec<i64> = (0..x.rank() as i64).collect();
    let scatter = ScatterDims {
        inserted_window_dims: axes.clone(),
        scatter_dims_to_operand_dims: axes,
        index_vector_dim: x.rank() as i64,
        ..ScatterDims::default()
    };
    Ok(x.scatter(&Tensor::stack(&parts, -1), &cast(&source, x.dtype()), scatter, update).into())
}

fn shortened_source(source: &Tensor, index: &Tensor) -> Tensor {
    let sizes: Vec<usize> = index.dims().iter().zip(source.dims()).map(|(a, b)| (*a).min(*b)).collect();
    source.slice_all(&vec![0; sizes.len()], &sizes, &vec![1; sizes.len()])
}

fn reduced(call: &mut Call<'_, '_>) -> Answer {
    let include = call.bool("include_self", true)?;
    match call.text("reduce") {
        Some("sum" | "add") if include => scattered(call, Update::Add),
        Some("prod" | "multiply") if include => scattered(call, Update::Multiply),
        Some("amax") if include => scattered(call, Update::Maximum),
        Some("amin") if include => scattered(call, Update::Minimum),
        other => Err(call.unsupported(format!("a scatter that reduces by {other:?}"))),
    }
}

fn index_add(call: &mut Call<'_, '_>, update: Update) -> Answer {
    let (x, index, source) = (call.subject()?, call.tensor("index")?, call.tensor("source")?);
    let axis = call.axis("dim", 0, x.rank())?;
    let alpha = call.float("alpha", 1.0)?;
    let source = cast(&source, x.dtype());
    let source = if alpha == 1.0 { source } else { source * alpha };
    let places = Places { indices: cast(&index, DType::I64).reshape(&[index.num_elements(), 1]), axes: vec![axis] };
    Ok(places.write(&x, &source, update).into())
}

fn index_fill(call: &mut Call<'_, '_>) -> Answer {
    let (x, index) = (call.subject()?, call.tensor("index")?);
    let axis = call.axis("dim", 0, x.rank())?;
    let value = call.operand("value")?.cast(x.dtype());
    let places = Places { indices: cast(&index, DType::I64).reshape(&[index.num_elements(), 1]), axes: vec![axis] };
    Ok(places.write(&x, &value, Update::Set).into())
}

fn bucketize(call: &mut Call<'_, '_>) -> Answer {
    let (x, edges, dtype) = (call.subject()?, call.tensor("boundaries")?, call.result_type()?);
    let is_right = call.bool("right", false)?;
    let wide: Vec<usize> = x.dims().iter().copied().chain([edges.dim(0)]).collect();
    let (values, edges) = (x.expand(-1).broadcast_to(&wide), edges.broadcast_to(&wide));
    let below = if is_right { edges.less_equal(&values) } else { edges.less(&values) };
    Ok(cast(&below.cast(DType::I32).sum(&[x.rank()]), dtype).into())
}

fn cross_entropy(call: &mut Call<'_, '_>) -> Answer {
    let (x, target, dtype) = (call.subject()?, call.tensor("target")?, call.result_type()?);
    let smoothing = call.float("label_smoothing", 0.0)?;
    if target.dtype().is_float() || call.has("weight") || smoothing != 0.0 {
        return Err(call.unsupported("cross entropy with probabilities, weights or label smoothing"));
    }
    let class = if x.rank() == 1 { 0 } else { 1 };
    let logs = cast(&x, DType::F32).log_softmax(class);
    let losses = picked(&logs, &target, class)?.negate();
    finished(call, losses, &target, dtype)
}

fn nll_loss(call: &mut Call<'_, '_>) -> Answer {
    let (x, target, dtype) = (call.subject()?, call.tensor("target")?, call.result_type()?);
    if call.has("weight") {
        return Err(call.unsupported("a loss with weights of classes"));
    }
    let class = if x.rank() == 1 { 0 } else { 1 };
    let losses = picked(&cast(&x, DType::F32), &target, class)?.negate();
    finished(call, losses, &target, dtype)
}

/// The element of each class axis that a target names.
fn picked(x: &Tensor, target: &Tensor, class: isize) -> Result<Tensor, Error> {
    let size = x.dim(class);
    let inside = target.maximum(&Tensor::scalar(target.dtype(), 0.0));
    let inside = inside.minimum(&Tensor::scalar(target.dtype(), size.saturating_sub(1) as f64));
    Ok(x.take_along(class, &inside.expand(class)).squeeze(class))
}

/// Ignored targets count nothing; then the mean, the sum, or each.
fn finished(call: &mut Call<'_, '_>, losses: Tensor, target: &Tensor, dtype: DType) -> Answer {
    let ignored = call.int("ignore_index", -100)?;
    let counted = target.differs(&Tensor::scalar(target.dtype(), ignored as f64));
    let losses = counted.select(&losses, &losses.zeros_like());
    let count = counted.cast(DType::F32).sum_all();
    let loss = match call.int("reduction", 1)? {
        0 => losses,
        1 => losses.sum_all() / count.clone(),
        _ => losses.sum_all(),
    };
    let is_pair = call.node.outputs.len() > 1 && matches!(call.node.outputs[0], NodeArgument::Tensor(_));
    let loss = cast(&loss, dtype);
    Ok(if is_pair { vec![loss, cast(&count, dtype)].into() } else { loss.into() })
}

fn squared_error(call: &mut Call<'_, '_>, f: fn(&Tensor) -> Tensor) -> Answer {
    let (x, target, dtype) = (call.subject()?, call.tensor("target")?, call.result_type()?);
    let losses = f(&(cast(&x, dtype) - cast(&target, dtype)));
    Ok(match call.int("reduction", 1)? {
        0 => losses,
        1 => losses.mean_all(),
        _ => losses.sum_all(),
    }
    .into())
}

pub(super) const RULES: Rules = &[
    ("index", index),
    ("_unsafe_index", index),
    ("index_put", index_put),
    ("_unsafe_index_put", index_put),
    ("_index_put_impl", index_put),
    ("embedding", embedding),
    ("index_select", index_select),
    ("gather", gather),
    ("scatter", |c| match c.text("reduce") {
        Some(_) => reduced(c),
        None => scattered(c, Update::Set),
    }),
    ("scatter_add", |c| scattered(c, Update::Add)),
    ("scatter_reduce", reduced),
    ("index_add", |c| index_add(c, Update::Add)),
    ("index_copy", |c| index_add(c, Update::Set)),
    ("index_fill", index_fill),
    ("bucketize", bucketize),
    ("cross_entropy_loss", cross_entropy),
    ("nll_loss", nll_loss),
    ("nll_loss_nd", nll_loss),
    ("nll_loss_forward", nll_loss),
    ("nll_loss2d_forward", nll_loss),
    ("mse_loss", |c| squared_error(c, |x| x * x)),
    ("l1_loss", |c| squared_error(c, Tensor::abs)),
];
