//! Ops that move elements: views of their argument, and copies.

use trace::Tensor;

use crate::error::Error;
use crate::translate::call::{Call, Value, in_rank, positive};
use crate::translate::ops::Name;
use crate::translate::run::Rules;
use crate::translate::types::cast;
use crate::translate::views::View;

type Answer = Result<Value, Error>;

/// The steps from an argument to its views.
pub(crate) enum Viewed {
    One(Vec<View>),
    Several(Vec<Vec<View>>),
}

/// Ops whose result shares the storage of their first argument, always or when it lies row by row.
pub(crate) const VIEWS: &[&str] = &[
    "alias",
    "chunk",
    "contiguous",
    "detach",
    "detach_",
    "expand",
    "expand_as",
    "flatten",
    "lift_fresh",
    "narrow",
    "permute",
    "reshape",
    "reshape_as",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "squeeze_",
    "t",
    "to",
    "transpose",
    "transpose_",
    "unbind",
    "unflatten",
    "unsqueeze",
    "unsqueeze_",
    "unsafe_split",
    "unsafe_chunk",
    "view",
    "view_as",
    "_unsafe_view",
    "swapaxes",
    "movedim",
    "numpy_T",
    "mT",
    "type_as",
    "_reshape_alias",
    "t_",
];

/// The views that an op gives; none where it gives a copy, or is no such op.
pub(crate) fn views(
    call: &mut Call<'_, '_>,
    name: &Name,
    base: &Tensor,
    is_contiguous: bool,
) -> Result<Option<Viewed>, Error> {
    let (dims, rank) = (base.dims().to_vec(), base.rank());
    let one = |view: View| Ok(Some(Viewed::One(vec![view])));
    match name.base.as_str() {
        "alias" | "detach" | "detach_" | "lift_fresh" => Ok(Some(Viewed::One(Vec::new()))),
        "contiguous" => Ok(is_contiguous.then(|| Viewed::One(Vec::new()))),
        "to" | "type_as" => {
            let is_same = call.result_type()? == base.dtype() && !call.bool("copy", false)?;
            Ok(is_same.then(|| Viewed::One(Vec::new())))
        }
        "view" if call.has("dtype") => Ok(None),
        "view" | "_unsafe_view" | "_reshape_alias" => one(View::Reshape(call.result_dims()?)),
        "reshape" | "flatten" | "reshape_as" | "view_as" | "unflatten" => {
            let dims = call.result_dims()?;
            match is_contiguous || name.base.starts_with("view") || name.base == "unflatten" {
                true => one(View::Reshape(dims)),
                false => Ok(None),
            }
        }
        "unsqueeze" | "squeeze" | "unsqueeze_" | "squeeze_" => one(View::Reshape(call.result_dims()?)),
        "permute" => {
            let order =
                call.ints("dims")?.into_iter().map(|axis| in_rank(axis, rank)).collect::<Result<Vec<_>, _>>()?;
            one(View::Transpose(permutation(order, rank)?))
        }
        "transpose" | "swapaxes" | "transpose_" => {
            let (a, b) = match name.base.as_str() {
                "swapaxes" => (call.axis("axis0", 0, rank)?, call.axis("axis1", 0, rank)?),
                _ => (call.axis("dim0", 0, rank)?, call.axis("dim1", 0, rank)?),
            };
            let mut order: Vec<usize> = (0..rank).collect();
            if rank > 0 {
                order.swap(a, b);
            }
            one(View::Transpose(order))
        }
        "t" | "numpy_T" | "mT" | "t_" => {
            let mut order: Vec<usize> = (0..rank).collect();
            match name.base.as_str() {
                "mT" if rank >= 2 => order.swap(rank - 1, rank - 2),
                _ => order.reverse(),
            }
            one(View::Transpose(order))
        }
        "movedim" => {
            let axes = |values: Vec<i64>| values.into_iter().map(|a| in_rank(a, rank)).collect::<Result<Vec<_>, _>>();
            let (from, to) = (axes(call.ints("source")?)?, axes(call.ints("destination")?)?);
            let mut order: Vec<usize> = (0..rank).filter(|axis| !from.contains(axis)).collect();
            let mut pairs: Vec<(usize, usize)> = to.into_iter().zip(from).collect();
            pairs.sort_unstable();
            for (to, from) in pairs {
                order.insert(to.min(order.len()), from);
            }
            one(View::Transpose(permutation(order, rank)?))
        }
        "expand" | "expand_as" => one(View::Expand(call.result_dims()?)),
        "slice" => {
            let axis = call.axis("dim", 0, rank)?;
            let size = dims.get(axis).copied().unwrap_or(0) as i64;
            let place = |at: i64| if at < 0 { at.saturating_add(size) } else { at }.clamp(0, size);
            let (start, end) = (place(call.int("start", 0)?), place(call.int("end", i64::MAX)?));
            let step = positive(call.int("step", 1)?)?;
            let (start, end) = (start as usize, end.max(start) as usize);
            one(View::Slice { axis, start, end, step })
        }
        "narrow" => {
            let axis = call.axis("dim", 0, rank)?;
            let size = dims.get(axis).copied().unwrap_or(0) as i64;
            let start = call.int("start", 0)?;
            let start = positive(if start < 0 { start.saturating_add(size) } else { start })?;
            let end = start.saturating_add(positive(call.int("length", 0)?)?);
            one(View::Slice { axis, start, end, step: 1 })
        }
        "select" => {
            let axis = call.axis("dim", 0, rank)?;
            let size = dims.get(axis).copied().unwrap_or(0) as i64;
            let at = call.int("index", 0)?;
            let at = positive(if at < 0 { at.saturating_add(size) } else { at })?;
            Ok(Some(Viewed::One(picked(&dims, axis, at))))
        }
        "unbind" => {
            let axis = call.axis("dim", 0, rank)?;
            let size = dims.get(axis).copied().unwrap_or(0);
            Ok(Some(Viewed::Several((0..size).map(|at| picked(&dims, axis, at)).collect())))
        }
        "split" | "split_with_sizes" | "chunk" | "unsafe_split" | "unsafe_chunk" => {
            let axis = call.axis("dim", 0, rank)?;
            let size = dims.get(axis).copied().unwrap_or(0);
            let parts = parts(call, size)?;
            let mut start = 0;
            let steps = parts.into_iter().map(|length| {
                let view = View::Slice { axis, start, end: start + length, step: 1 };
                start += length;
                vec![view]
            });
            Ok(Some(Viewed::Several(steps.collect())))
        }
        _ => Ok(None),
    }
}

fn permutation(order: Vec<usize>, rank: usize) -> Result<Vec<usize>, Error> {
    let mut seen = order.clone();
    seen.sort_unstable();
    match seen.iter().copied().eq(0..rank) {
        true => Ok(order),
        false => Err(Error::damaged(format!("{order:?} is no order of {rank} axes"))),
    }
}

/// One position of an axis, which is dropped.
fn picked(dims: &[usize], axis: usize, at: usize) -> Vec<View> {
    let mut left = dims.to_vec();
    if axis < left.len() {
        left.remove(axis);
    }
    vec![View::Slice { axis, start: at, end: at + 1, step: 1 }, View::Reshape(left)]
}

/// Lengths of the parts of an axis.
fn parts(call: &mut Call<'_, '_>, size: usize) -> Result<Vec<usize>, Error> {
    let lists = ["split_sizes", "split_size"];
    for name in lists {
        if let Some(crate::graph::NodeArgument::Ints(_)) = call.argument(name) {
            return call.ints(name)?.into_iter().map(positive).collect();
        }
    }
    let each = match call.has("chunks") {
        true => size.div_ceil(positive(call.int("chunks", 1)?)?.max(1)),
        false => positive(call.int("split_size", 1)?)?,
    };
    if each == 0 {
        return Ok(vec![size]);
    }
    Ok((0..size.div_ceil(each).max(1)).map(|n| each.min(size - (n * each).min(size))).collect())
}

fn reshaped(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let dims = call.result_dims()?;
    Ok(View::Reshape(dims).read(&x)?.into())
}

fn joined(call: &mut Call<'_, '_>) -> Answer {
    let dtype = call.result_type()?;
    let mut tensors = call.all_tensors("tensors")?;
    // An empty tensor of one axis joins anything.
    if tensors.iter().any(|tensor| tensor.dims() != [0]) {
        tensors.retain(|tensor| tensor.dims() != [0]);
    }
    let rank = tensors.first().map_or(0, Tensor::rank);
    let axis = call.axis("dim", 0, rank)?;
    let tensors: Vec<Tensor> = tensors.iter().map(|tensor| cast(tensor, dtype)).collect();
    Ok(Tensor::concat(&tensors, axis as isize).into())
}

fn stacked(call: &mut Call<'_, '_>) -> Answer {
    let dtype = call.result_type()?;
    let tensors = call.all_tensors("tensors")?;
    let rank = tensors.first().map_or(0, Tensor::rank) + 1;
    let axis = call.axis("dim", 0, rank)?;
    let tensors: Vec<Tensor> = tensors.iter().map(|tensor| cast(tensor, dtype)).collect();
    Ok(Tensor::stack(&tensors, axis as isize).into())
}

fn repeated(call: &mut Call<'_, '_>, name: &str) -> Answer {
    let x = call.subject()?;
    let counts = call.ints(name)?.into_iter().map(positive).collect::<Result<Vec<_>, _>>()?;
    let rank = counts.len().max(x.rank());
    let pad = |values: &[usize]| [vec![1; rank - values.len()], values.to_vec()].concat();
    let (counts, dims) = (pad(&counts), pad(x.dims()));
    let before: Vec<usize> = dims.iter().flat_map(|size| [1, *size]).collect();
    let wide: Vec<usize> = counts.iter().zip(&dims).flat_map(|(count, size)| [*count, *size]).collect();
    let result: Vec<usize> = counts.iter().zip(&dims).map(|(count, size)| count.saturating_mul(*size)).collect();
    Ok(x.reshape(&before).broadcast_to(&wide).reshape(&result).into())
}

fn repeat_interleave(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let Some(crate::graph::NodeArgument::Int(_)) = call.argument("repeats") else {
        return Err(call.unsupported("a repetition whose counts are a tensor"));
    };
    let count = positive(call.int("repeats", 1)?)?;
    let (x, axis) = match call.has("dim") {
        true => (x.clone(), call.axis("dim", 0, x.rank())?),
        false => (x.reshape(&[x.num_elements()]), 0),
    };
    let mut wide = x.dims().to_vec();
    wide.insert(axis + 1, count);
    let mut dims = x.dims().to_vec();
    dims[axis] = dims[axis].saturating_mul(count);
    Ok(x.expand(axis as isize + 1).broadcast_to(&wide).reshape(&dims).into())
}

fn flipped(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let axes = call.ints("dims")?.into_iter().map(|a| in_rank(a, x.rank())).collect::<Result<Vec<_>, _>>()?;
    Ok(x.reverse(&axes).into())
}

fn rolled(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let (shifts, axes) = (call.ints("shifts")?, call.ints("dims")?);
    let roll = |x: &Tensor, axis: usize, by: i64| {
        let size = x.dim(axis as isize);
        let cut = (size as i64 - by.rem_euclid(size.max(1) as i64)) as usize % size.max(1);
        let axis = axis as isize;
        match cut {
            0 => x.clone(),
            cut => Tensor::concat(&[x.slice(axis, cut..size), x.slice(axis, 0..cut)], axis),
        }
    };
    if axes.is_empty() {
        let flat = x.reshape(&[x.num_elements()]);
        return Ok(roll(&flat, 0, shifts.first().copied().unwrap_or(0)).reshape(x.dims()).into());
    }
    let mut y = x.clone();
    for (by, axis) in shifts.into_iter().zip(axes) {
        y = roll(&y, in_rank(axis, x.rank())?, by);
    }
    Ok(y.into())
}

/// Amounts are of the last axis first, before and after each.
fn amounts(call: &mut Call<'_, '_>, rank: usize) -> Result<(Vec<i64>, Vec<i64>), Error> {
    let pads = call.ints(if call.has("padding") { "padding" } else { "pad" })?;
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    for (n, pair) in pads.chunks(2).enumerate() {
        let axis = rank.checked_sub(n + 1).ok_or_else(|| Error::damaged("it pads more axes than there are"))?;
        low[axis] = pair[0];
        high[axis] = pair.get(1).copied().unwrap_or(0);
    }
    Ok((low, high))
}

fn padded(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let (low, high) = amounts(call, x.rank())?;
    match call.text("mode").unwrap_or("constant") {
        "constant" => {
            let value = Tensor::scalar(x.dtype(), call.float("value", 0.0)?);
            Ok(x.pad_all(&value, &low, &high, &vec![0; x.rank()]).into())
        }
        mode => at_edges(call, &x, &low, &high, mode),
    }
}

/// Positions outside are taken from inside: mirrored, the nearest, or around.
fn at_edges(call: &Call<'_, '_>, x: &Tensor, low: &[i64], high: &[i64], mode: &str) -> Answer {
    let mut y = x.clone();
    for axis in 0..x.rank() {
        let (size, before, after) = (x.dim(axis as isize) as i64, low[axis], high[axis]);
        if (before, after) == (0, 0) {
            continue;
        }
        let total = before.saturating_add(size).saturating_add(after).clamp(0, 1 << 32);
        let from = (0..total).map(|at| {
            let at = at - before;
            match mode {
                "reflect" if at < 0 => -at,
                "reflect" if at >= size => 2 * (size - 1) - at,
                "circular" => at.rem_euclid(size.max(1)),
                _ => at.clamp(0, size - 1),
            }
        });
        let from: Vec<i64> = from.collect();
        if from.iter().any(|at| !(0..size).contains(at)) || !["reflect", "replicate", "circular"].contains(&mode) {
            return Err(call.unsupported(format!("padding `{mode}` of {before} and {after} to {size}")));
        }
        let positions = tensor::Literal::from_slice(&from, [from.len()])?;
        y = y.take(axis as isize, &Tensor::constant(&positions));
    }
    Ok(y.into())
}

fn edge(call: &mut Call<'_, '_>, mode: &'static str) -> Answer {
    let x = call.subject()?;
    let (low, high) = amounts(call, x.rank())?;
    at_edges(call, &x, &low, &high, mode)
}

fn triangle(call: &mut Call<'_, '_>, is_lower: bool) -> Answer {
    let x = call.subject()?;
    if x.rank() < 2 {
        return Err(Error::damaged("a triangle of a tensor with one axis"));
    }
    let offset = call.int("diagonal", 0)?;
    let dims = [x.dim(-2), x.dim(-1)];
    let row = &Tensor::iota(tensor::DType::I64, &dims, 0) + offset as f64;
    let column = Tensor::iota(tensor::DType::I64, &dims, 1);
    let mask = if is_lower { row.greater_equal(&column) } else { row.less_equal(&column) };
    Ok(mask.broadcast_to(x.dims()).select(&x, &x.zeros_like()).into())
}

fn difference(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let axis = call.axis("dim", -1, x.rank())? as isize;
    let mut y = x;
    for part in ["prepend", "append"] {
        if let Some(more) = call.optional_tensor(part)? {
            let both = if part == "prepend" { [more, y] } else { [y, more] };
            y = Tensor::concat(&both, axis);
        }
    }
    for _ in 0..call.int("n", 1)?.clamp(0, 16) {
        let size = y.dim(axis);
        y = &y.slice(axis, 1.min(size)..size) - &y.slice(axis, 0..size.saturating_sub(1));
    }
    Ok(y.into())
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

fn diagonal(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let rank = x.rank();
    let (a, b) = (call.axis("dim1", 0, rank)?, call.axis("dim2", 1, rank)?);
    let offset = call.int("offset", 0)?;
    let dims = call.result_dims()?;
    let count = dims.last().copied().unwrap_or(0);
    let order: Vec<usize> = (0..rank).filter(|axis| *axis != a && *axis != b).chain([a, b]).collect();
    let x = x.transpose(&order);
    let columns = x.dim(-1);
    let flat: Vec<usize> = x.dims()[..rank - 2].iter().copied().chain([x.dim(-2) * columns]).collect();
    let start = if offset >= 0 { offset as usize } else { offset.unsigned_abs() as usize * columns };
    let places: Vec<i64> = (0..count).map(|n| (start + n * (columns + 1)) as i64).collect();
    let places = Tensor::constant(&tensor::Literal::from_slice(&places, [count])?);
    Ok(x.reshape(&flat).take(-1, &places).into())
}

/// As strides say, over a tensor that lies row by row.
fn as_strided(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let sizes = call.result_dims()?;
    let strides = call.ints("stride")?;
    let offset = call.int("storage_offset", 0)?;
    let mut places = vec![offset];
    for (size, stride) in sizes.iter().zip(&strides) {
        if places.len().saturating_mul(*size) > 1 << 26 {
            return Err(call.unsupported("so large an `as_strided`"));
        }
        places = places.iter().flat_map(|at| (0..*size as i64).map(move |n| at + n * stride)).collect();
    }
    let count = x.num_elements() as i64;
    if places.iter().any(|at| !(0..count).contains(at)) {
        return Err(Error::damaged("its strides lead outside of the tensor"));
    }
    let places = Tensor::constant(&tensor::Literal::from_slice(&places, [places.len()])?);
    Ok(x.reshape(&[x.num_elements()]).take(0, &places).reshape(&sizes).into())
}

/// Writes a part: `slice_scatter`, `select_scatter`.
fn scattered(call: &mut Call<'_, '_>, is_slice: bool) -> Answer {
    let (x, source) = (call.subject()?, call.tensor("src")?);
    let name = Name { library: "aten".into(), base: if is_slice { "slice" } else { "select" }.into() };
    let Some(Viewed::One(steps)) = views(call, &name, &x, true)? else { return Ok(x.into()) };
    let mut bases = vec![x.clone()];
    for step in &steps {
        let next = step.read(&bases[bases.len() - 1])?;
        bases.push(next);
    }
    let mut value = cast(&source, x.dtype()).broadcast_to(bases[bases.len() - 1].dims());
    for (step, base) in steps.iter().zip(&bases).rev() {
        value = step.written(base, &value)?;
    }
    Ok(value.into())
}

fn pixel_shuffle(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let by = positive(call.int("upscale_factor", 1)?)?;
    let dims = call.result_dims()?;
    let rank = x.rank();
    if rank < 3 || by == 0 {
        return Err(Error::damaged("a pixel shuffle needs three axes"));
    }
    let (lead, [channels, height, width]) = (&x.dims()[..rank - 3], [x.dim(-3), x.dim(-2), x.dim(-1)]);
    let split: Vec<usize> = lead.iter().copied().chain([channels / (by * by), by, by, height, width]).collect();
    let n = lead.len();
    let order: Vec<usize> = (0..n).chain([n, n + 3, n + 1, n + 4, n + 2]).collect();
    Ok(x.reshape(&split).transpose(&order).reshape(&dims).into())
}

fn unfold(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let axis = call.axis("dimension", 0, x.rank())?;
    let (size, step) = (positive(call.int("size", 1)?)?, positive(call.int("step", 1)?)?.max(1));
    let count = call.result_dims()?.get(axis).copied().unwrap_or(0);
    let places: Vec<i64> = (0..count).flat_map(|n| (0..size).map(move |k| (n * step + k) as i64)).collect();
    let places = Tensor::constant(&tensor::Literal::from_slice(&places, [count, size])?);
    // The windows' own axis goes last.
    Ok(x.take(axis as isize, &places).move_axis(axis as isize + 1, -1).into())
}

pub(super) const RULES: Rules = &[
    ("reshape", reshaped),
    ("flatten", reshaped),
    ("reshape_as", reshaped),
    ("cat", joined),
    ("concat", joined),
    ("stack", stacked),
    ("repeat", |c| repeated(c, "repeats")),
    ("tile", |c| repeated(c, "dims")),
    ("repeat_interleave", repeat_interleave),
    ("flip", flipped),
    ("roll", rolled),
    ("pad", padded),
    ("constant_pad_nd", padded),
    ("reflection_pad1d", |c| edge(c, "reflect")),
    ("reflection_pad2d", |c| edge(c, "reflect")),
    ("reflection_pad3d", |c| edge(c, "reflect")),
    ("replication_pad1d", |c| edge(c, "replicate")),
    ("replication_pad2d", |c| edge(c, "replicate")),
    ("replication_pad3d", |c| edge(c, "replicate")),
    ("tril", |c| triangle(c, true)),
    ("triu", |c| triangle(c, false)),
    ("diff", difference),
    ("meshgrid", meshgrid),
    ("diagonal", diagonal),
    ("as_strided", as_strided),
    ("slice_scatter", |c| scattered(c, true)),
    ("select_scatter", |c| scattered(c, false)),
    ("pixel_shuffle", pixel_shuffle),
    ("unfold", unfold),
];
