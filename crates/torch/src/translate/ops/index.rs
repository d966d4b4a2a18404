//! Reading and writing at computed places.

use hlo::dims::{GatherDims, ScatterDims};
use tensor::DType;
use trace::{Tensor, Update};

use crate::error::Error;
use crate::translate::call::{Call, Value};
use crate::translate::run::Rules;
use crate::translate::types::{Scalar, cast, wide};

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
        && x.dims().starts_with(mask.dims())
        && (values.num_elements() == 1 || values.rank() <= x.rank() - mask.rank())
    {
        let along: Vec<usize> = (0..mask.rank()).collect();
        let wide = mask.broadcast_along(x.dims(), &along);
        let value = if values.num_elements() == 1 { values.reshape(&[]) } else { values };
        let value = value.broadcast_to(x.dims());
        let value = if is_sum { &x + &value } else { value };
        return Ok(wide.select(&value, &x).into());
    }
    let update = if is_sum { Update::Add } else { Update::Set };
    Ok(Places::of(call, &x)?.write(&x, &values, update).into())
}

fn embedding(call: &mut Call<'_, '_>) -> Answer {
    let (weight, indices) = (call.tensor("weight")?, call.tensor("indices")?);
    let padding = call.int("padding_idx", -1)?;
    let rows = weight.take(0, &indices);
    if padding < 0 {
        return Ok(rows.into());
    }
    // The row of padding gets no gradient.
    let is_padding = indices.equals(&Tensor::scalar(indices.dtype(), padding as f64)).expand(-1);
    Ok(is_padding.select(&rows.stop_gradient(), &rows).into())
}

/// Rows that indices name, made shorter where they are longer than a norm.
fn embedding_renorm(call: &mut Call<'_, '_>) -> Answer {
    let (weight, indices) = (call.subject()?, call.tensor("indices")?);
    let (most, p) = (call.float("max_norm", 1.0)?, call.float("norm_type", 2.0)?);
    if weight.rank() != 2 {
        return Err(Error::damaged("an embedding has two axes"));
    }
    let count = indices.num_elements();
    let places = Places { indices: cast(&indices, DType::I64).reshape(&[count, 1]), axes: vec![0] };
    let ones = Tensor::ones(DType::I32, &[count]);
    let named = places.write(&Tensor::zeros(DType::I32, &[weight.dim(0)]), &ones, Update::Maximum);
    let rows = cast(&weight, wide(weight.dtype()));
    let norm = super::reduce::norm(&rows, &[1], p);
    let is_long = norm.greater(&Tensor::scalar(norm.dtype(), most));
    let is_shortened = is_long.and(&named.greater(&Tensor::scalar(DType::I32, 0.0)));
    let scale = &norm.full_like(most) / &(&norm + 1e-7);
    let scale = is_shortened.select(&scale, &scale.full_like(1.0)).expand(-1);
    Ok(cast(&(rows * scale), weight.dtype()).into())
}

/// The gradient of an embedding by its rows.
fn embedding_backward(call: &mut Call<'_, '_>) -> Answer {
    let (ct, indices) = (call.tensor("grad_output")?, call.tensor("indices")?);
    if call.bool("scale_grad_by_freq", false)? {
        return Err(call.unsupported("a gradient scaled by how often rows are used"));
    }
    let (dims, padding) = (call.result_dims()?, call.int("padding_idx", -1)?);
    let ([_, width], count) = (dims.as_slice(), indices.num_elements()) else {
        return Err(Error::damaged("an embedding has two axes"));
    };
    if ct.num_elements() != count.saturating_mul(*width) {
        return Err(Error::damaged(format!("a gradient {} of rows {}", ct.spec(), indices.spec())));
    }
    let (ct, indices) = (ct.reshape(&[count, *width]), cast(&indices, DType::I64).reshape(&[count, 1]));
    let is_padding = indices.equals(&Tensor::scalar(DType::I64, padding as f64));
    let ct = if padding < 0 { ct } else { is_padding.select(&ct.zeros_like(), &ct) };
    let places = Places { indices, axes: vec![0] };
    Ok(places.write(&Tensor::zeros(ct.dtype(), &dims), &ct, Update::Add).into())
}

/// Rows summed, averaged or compared by bag: `offsets` are the starts of bags.
fn embedding_bag(call: &mut Call<'_, '_>) -> Answer {
    let (weight, indices, offsets) = (call.tensor("weight")?, call.tensor("indices")?, call.tensor("offsets")?);
    let (mode, padding) = (call.int("mode", 0)?, call.int("padding_idx", -1)?);
    let dims = call.result_dims()?;
    let [bags, width] = *dims.as_slice() else { return Err(Error::damaged("bags have two axes")) };
    if indices.rank() != 1 || offsets.rank() != 1 || weight.rank() != 2 {
        return Err(call.unsupported("bags of other shapes"));
    }
    let (count, dtype) = (indices.dim(0), weight.dtype());
    let starts = offsets.slice(0, 0..bags.min(offsets.dim(0)));
    // The bag of an index: how many bags begin at or before it.
    let at = Tensor::iota(DType::I64, &[count, starts.dim(0)], 0);
    let begun = cast(&starts, DType::I64).less_equal(&at).cast(DType::I64).sum(&[1]);
    let bag = begun - 1.0;
    let mut rows = weight.take(0, &indices);
    if call.has("per_sample_weights") {
        rows = rows * cast(&call.tensor("per_sample_weights")?, dtype).expand(-1);
    }
    let counted = match padding {
        padding if padding >= 0 => indices.differs(&Tensor::scalar(indices.dtype(), padding as f64)),
        _ => Tensor::ones(DType::Bool, &[count]),
    };
    // What does not count goes to no bag.
    let place = counted.select(&bag, &bag.full_like(bags as f64));
    let places = Places { indices: place.expand(-1), axes: vec![0] };
    let one = Places { indices: place.expand(-1), axes: vec![0] };
    let sizes = one.write(&Tensor::zeros(DType::I64, &[bags]), &Tensor::ones(DType::I64, &[count]), Update::Add);
    let zeros = Tensor::zeros(dtype, &[bags, width]);
    let is_empty = sizes.equals(&Tensor::scalar(DType::I64, 0.0)).expand(-1);
    let y = match mode {
        0 => places.write(&zeros, &rows, Update::Add),
        1 => {
            let sum = places.write(&zeros, &rows, Update::Add);
            let safe = is_empty.select(&sizes.expand(-1).full_like(1.0), &sizes.expand(-1));
            sum / safe.cast(dtype)
        }
        _ => {
            let least = zeros.full_like(f64::NEG_INFINITY);
            let most = places.write(&least, &rows, Update::Maximum);
            is_empty.broadcast_to(most.dims()).select(&most.zeros_like(), &most)
        }
    };
    Ok(Value::Several(vec![y.into(), Value::Nothing, Value::Nothing, Value::Nothing]))
}

/// Where the mask is true, the next elements of the source.
fn masked_scatter(call: &mut Call<'_, '_>) -> Answer {
    let (x, mask, source) = (call.subject()?, call.tensor("mask")?, call.tensor("source")?);
    let dims = call.result_dims()?;
    let (x, mask) = (x.broadcast_to(&dims), cast(&mask, DType::Bool).broadcast_to(&dims));
    let count = x.num_elements();
    if source.num_elements() == 0 || count == 0 {
        return Ok(x.into());
    }
    let order = mask.reshape(&[count]).cast(DType::I64).cumulative_sum(0) - 1.0;
    let taken = source.reshape(&[source.num_elements()]).take(0, &order.maximum(&order.zeros_like()));
    Ok(mask.select(&cast(&taken, x.dtype()).reshape(&dims), &x).into())
}

/// Elements counted row by row.
fn take(call: &mut Call<'_, '_>) -> Answer {
    let (x, index) = (call.subject()?, call.tensor("index")?);
    if index.num_elements() == 0 {
        return Ok(Tensor::zeros(x.dtype(), index.dims()).into());
    }
    let flat = x.reshape(&[x.num_elements()]);
    Ok(flat.take(0, &wrapped(&index, x.num_elements())).into())
}

fn put(call: &mut Call<'_, '_>) -> Answer {
    let (x, index, source) = (call.subject()?, call.tensor("index")?, call.tensor("source")?);
    let update = if call.bool("accumulate", false)? { Update::Add } else { Update::Set };
    let count = index.num_elements();
    let index = wrapped(&index, x.num_elements()).reshape(&[count, 1]);
    let values = cast(&source, x.dtype()).reshape(&[count]);
    let flat = x.reshape(&[x.num_elements()]);
    Ok(Places { indices: index, axes: vec![0] }.write(&flat, &values, update).reshape(x.dims()).into())
}

/// As `gather`, with both broadcast to a common shape.
fn take_along_dim(call: &mut Call<'_, '_>) -> Answer {
    let (x, index) = (call.subject()?, call.tensor("indices")?);
    if !call.has("dim") {
        let (flat, index) = (x.reshape(&[x.num_elements()]), index.reshape(&[index.num_elements()]));
        return Ok(flat.take(0, &index).into());
    }
    if x.rank() == 0 {
        return Ok(x.broadcast_to(index.dims()).into());
    }
    let axis = call.axis("dim", 0, x.rank())?;
    let dims = call.result_dims()?;
    let mut wide = dims.clone();
    wide[axis] = x.dims()[axis];
    let index = index.broadcast_to(&dims);
    Ok(x.broadcast_to(&wide).take_along(axis as isize, &index).into())
}

/// Reads where a mask is true, and has a value of its own elsewhere.
fn masked_index(call: &mut Call<'_, '_>) -> Answer {
    let (x, mask) = (call.subject()?, call.tensor("mask")?);
    let fill = call.operand("fill")?.cast(x.dtype());
    let dims = call.result_dims()?;
    let read = Places::of(call, &x)?.read(&x);
    let along: Vec<usize> = (0..mask.rank()).collect();
    let mask = if mask.rank() == dims.len() { mask.broadcast_to(&dims) } else { mask.broadcast_along(&dims, &along) };
    Ok(mask.select(&read, &fill.broadcast_to(&dims)).into())
}

/// The identity of a reduction, which counts as no value.
fn neutral(update: Update, dtype: DType) -> Tensor {
    let is_bool = dtype == DType::Bool;
    match (update, dtype) {
        // Infinity is beyond what a float of 64 bits has in common with these.
        (Update::Maximum, DType::I64) => Scalar::Int(i64::MIN).tensor(dtype),
        (Update::Minimum, DType::I64) => Scalar::Int(i64::MAX).tensor(dtype),
        (Update::Multiply, _) => Tensor::scalar(dtype, 1.0),
        (Update::Maximum, _) => Tensor::scalar(dtype, if is_bool { 0.0 } else { f64::NEG_INFINITY }),
        (Update::Minimum, _) => Tensor::scalar(dtype, if is_bool { 1.0 } else { f64::INFINITY }),
        (Update::Add | Update::Set, _) => Tensor::scalar(dtype, 0.0),
    }
}

/// Scatters that reduce: with the tensor's own elements or without them, and means.
fn reduce_into(
    x: &Tensor,
    reduce: &str,
    include: bool,
    write: impl Fn(&Tensor, Option<&Tensor>, Update) -> Tensor,
) -> Option<Tensor> {
    let (update, is_mean) = match reduce {
        "sum" | "add" => (Update::Add, false),
        "prod" | "multiply" => (Update::Multiply, false),
        "amax" => (Update::Maximum, false),
        "amin" => (Update::Minimum, false),
        "mean" => (Update::Add, true),
        _ => return None,
    };
    // How many values come to each place.
    let counts = || write(&Tensor::zeros(DType::I64, x.dims()), Some(&Tensor::ones(DType::I64, &[])), Update::Add);
    let zero = Tensor::scalar(DType::I64, 0.0);
    let start = match include {
        true => x.clone(),
        false => counts().greater(&zero).select(&neutral(update, x.dtype()).broadcast_to(x.dims()), x),
    };
    let y = write(&start, None, update);
    if !is_mean {
        return Some(y);
    }
    let counts = counts();
    let counts = if include { counts + 1.0 } else { counts.maximum(&counts.full_like(1.0)) };
    Some(match x.dtype().is_float() {
        true => y / counts.cast(x.dtype()),
        false => super::elementwise::floor_divided(&y, &counts.cast(x.dtype())),
    })
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
    if index.num_elements() == 0 {
        return Ok(Tensor::zeros(x.dtype(), index.dims()).into());
    }
    let (x, index, dims) = match index.rank() {
        0 => (x, index.reshape(&[1]), Vec::new()),
        _ => (x, index.clone(), index.dims().to_vec()),
    };
    let axis = call.axis("dim", 0, x.rank())?;
    let shortened = shortened(&x, &index, axis)?;
    Ok(shortened.take_along(axis as isize, &index).reshape(&dims).into())
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

/// Writes along an axis at places of their own; one value stands for all.
fn write_along(x: &Tensor, axis: usize, index: &Tensor, source: &Tensor, update: Update) -> Tensor {
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
    let source = cast(source, x.dtype()).broadcast_to(&dims);
    x.scatter(&Tensor::stack(&parts, -1), &source, scatter, update)
}

/// What a scatter works on, each with at least one axis: tensor, axis, places and values.
fn scatter_operands(call: &mut Call<'_, '_>) -> Result<(Tensor, usize, Tensor, Tensor), Error> {
    let (mut x, mut index) = (call.subject()?, call.tensor("index")?);
    if x.rank() == 0 {
        x = x.reshape(&[1]);
    }
    if index.rank() == 0 {
        index = index.reshape(&[1]);
    }
    if index.num_elements() == 0 {
        index = Tensor::zeros(DType::I64, &vec![0; x.rank()]);
    }
    if index.rank() != x.rank() {
        return Err(Error::damaged(format!("places {} of {}", index.spec(), x.spec())));
    }
    let axis = call.axis("dim", 0, x.rank())?;
    let source = match call.argument("src") {
        Some(_) => {
            let source = call.tensor("src")?;
            let source = if source.rank() == 0 { source.reshape(&[1]) } else { source };
            shortened_source(&source, &index)
        }
        None => call.operand("value")?.cast(x.dtype()).broadcast_to(index.dims()),
    };
    Ok((x, axis, index, source))
}

fn scattered(call: &mut Call<'_, '_>, update: Update) -> Answer {
    let dims = call.result_dims()?;
    let (x, axis, index, source) = scatter_operands(call)?;
    Ok(write_along(&x, axis, &index, &source, update).reshape(&dims).into())
}

fn shortened_source(source: &Tensor, index: &Tensor) -> Tensor {
    let sizes: Vec<usize> = index.dims().iter().zip(source.dims()).map(|(a, b)| (*a).min(*b)).collect();
    source.slice_all(&vec![0; sizes.len()], &sizes, &vec![1; sizes.len()])
}

fn reduced(call: &mut Call<'_, '_>) -> Answer {
    let include = call.bool("include_self", true)?;
    let reduce = call.text("reduce").unwrap_or_default().to_string();
    let dims = call.result_dims()?;
    let (x, axis, index, source) = scatter_operands(call)?;
    let write =
        |x: &Tensor, one: Option<&Tensor>, update: Update| write_along(x, axis, &index, one.unwrap_or(&source), update);
    let y = reduce_into(&x, &reduce, include, write);
    y.map(|y| y.reshape(&dims).into()).ok_or_else(|| call.unsupported(format!("a scatter that reduces by `{reduce}`")))
}

fn index_reduce(call: &mut Call<'_, '_>) -> Answer {
    let include = call.bool("include_self", true)?;
    let reduce = call.text("reduce").unwrap_or_default().to_string();
    let (x, index, source) = (call.subject()?, call.tensor("index")?, call.tensor("source")?);
    let dims = x.dims().to_vec();
    let with_axis = |x: Tensor| if x.rank() == 0 { x.reshape(&[1]) } else { x };
    let (x, source) = (with_axis(x), with_axis(source));
    let axis = call.axis("dim", 0, x.rank())?;
    if source.rank() != x.rank() {
        return Err(Error::damaged(format!("values {} for {}", source.spec(), x.spec())));
    }
    let places = || Places { indices: cast(&index, DType::I64).reshape(&[index.num_elements(), 1]), axes: vec![axis] };
    let source = cast(&source, x.dtype());
    let write = |x: &Tensor, one: Option<&Tensor>, update: Update| {
        let values = one.map_or(source.clone(), |one| one.broadcast_to(source.dims()));
        places().write(x, &values, update)
    };
    let y = reduce_into(&x, &reduce, include, write);
    y.map(|y| y.reshape(&dims).into()).ok_or_else(|| call.unsupported(format!("an `index_reduce` by `{reduce}`")))
}

fn index_add(call: &mut Call<'_, '_>, update: Update) -> Answer {
    let (x, index, source) = (call.subject()?, call.tensor("index")?, call.tensor("source")?);
    let (x, dims) = (if x.rank() == 0 { x.reshape(&[1]) } else { x.clone() }, x.dims().to_vec());
    let axis = call.axis("dim", 0, x.rank())?;
    let alpha = call.float("alpha", 1.0)?;
    let source = cast(&source, x.dtype());
    let source = if alpha == 1.0 { source } else { source * alpha };
    let count = index.num_elements();
    let source = if source.rank() == 0 { source.reshape(&[1]) } else { source };
    let places = Places { indices: cast(&index, DType::I64).reshape(&[count, 1]), axes: vec![axis] };
    Ok(places.write(&x, &source, update).reshape(&dims).into())
}

fn index_fill(call: &mut Call<'_, '_>) -> Answer {
    let (x, index) = (call.subject()?, call.tensor("index")?);
    let (x, dims) = (if x.rank() == 0 { x.reshape(&[1]) } else { x.clone() }, x.dims().to_vec());
    let axis = call.axis("dim", 0, x.rank())?;
    let value = call.operand("value")?.cast(x.dtype());
    let index = wrapped(&index, x.dims()[axis]);
    let places = Places { indices: index.reshape(&[index.num_elements(), 1]), axes: vec![axis] };
    Ok(places.write(&x, &value, Update::Set).reshape(&dims).into())
}

pub(super) const RULES: Rules = &[
    ("index", index),
    ("_unsafe_index", index),
    ("index_put", index_put),
    ("_unsafe_index_put", index_put),
    ("_index_put_impl", index_put),
    ("embedding", embedding),
    ("embedding_renorm", embedding_renorm),
    ("embedding_dense_backward", embedding_backward),
    ("_embedding_bag", embedding_bag),
    ("_embedding_bag_forward_only", embedding_bag),
    ("embedding_bag", embedding_bag),
    ("masked_scatter", masked_scatter),
    ("take", take),
    ("put", put),
    ("take_along_dim", take_along_dim),
    ("_unsafe_masked_index", masked_index),
    ("index_reduce", index_reduce),
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
];
