//! Ops that move elements and do not compute: shapes, slices, joins, padding; and constants.

use std::sync::Arc;

use tensor::{DType, Literal};
use trace::Tensor;

use super::{Answer, Rules, one};
use crate::call::{Call, all_in_rank, in_rank, size, whole};
use crate::data;
use crate::error::Error;

/// Elements that a constant of the program may have; what is larger comes from damaged files.
const ELEMENTS: usize = 1 << 28;

fn bounded(dims: &[usize]) -> Result<&[usize], Error> {
    let count = dims.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
    match count.filter(|count| *count <= ELEMENTS) {
        Some(_) => Ok(dims),
        None => Err(Error::damaged(format!("a result of sizes {dims:?} is too large"))),
    }
}

fn reshape(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let wanted = call.ints_or(1, "shape")?.ok_or_else(|| Error::damaged("it names no shape"))?;
    let keeps_zero = call.attributes.int("allowzero", 0) != 0;
    let mut dims = Vec::new();
    for (axis, value) in wanted.iter().enumerate() {
        dims.push(match *value {
            -1 => None,
            0 if !keeps_zero => {
                Some(*x.dims().get(axis).ok_or_else(|| Error::damaged("a size is taken from no axis"))?)
            }
            value => Some(size(value)?),
        });
    }
    let known = dims.iter().flatten().try_fold(1usize, |product, dim| product.checked_mul(*dim));
    let known = known.ok_or_else(|| Error::damaged(format!("a shape {wanted:?}")))?;
    let open = dims.iter().filter(|dim| dim.is_none()).count();
    if open > 1 || open == 1 && (known == 0 || x.num_elements() % known != 0) {
        return Err(Error::damaged(format!("{} in the shape {wanted:?}", x.spec())));
    }
    let rest = x.num_elements().checked_div(known).unwrap_or(0);
    let dims: Vec<usize> = dims.into_iter().map(|dim| dim.unwrap_or(rest)).collect();
    one(x.reshape(&dims))
}

fn flatten(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let axis = call.attributes.int("axis", 1);
    let at = if axis == x.rank() as i64 { x.rank() } else { in_rank(axis, x.rank())? };
    let (before, after) = x.dims().split_at(at);
    one(x.reshape(&[before.iter().product(), after.iter().product()]))
}

fn squeeze(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let axes = match call.ints_or(1, "axes")? {
        Some(axes) => all_in_rank(&axes, x.rank())?,
        None => (0..x.rank()).filter(|axis| x.dims()[*axis] == 1).collect(),
    };
    if let Some(axis) = axes.iter().find(|axis| x.dims()[**axis] != 1) {
        return Err(Error::damaged(format!("axis {axis} of {} has more than one element", x.spec())));
    }
    let dims: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).map(|axis| x.dims()[axis]).collect();
    one(x.reshape(&dims))
}

fn unsqueeze(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let axes = call.ints_or(1, "axes")?.ok_or_else(|| Error::damaged("it names no axes"))?;
    let axes = all_in_rank(&axes, x.rank() + axes.len())?;
    let mut dims = x.dims().to_vec();
    axes.iter().for_each(|axis| dims.insert(*axis, 1));
    one(x.reshape(&dims))
}

fn transpose(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let order: Vec<usize> = match call.attributes.ints("perm") {
        Some(order) => {
            all_in_rank(order, x.rank())?;
            order.iter().map(|axis| in_rank(*axis, x.rank())).collect::<Result<_, _>>()?
        }
        None => (0..x.rank()).rev().collect(),
    };
    match order.len() == x.rank() {
        true => one(x.transpose(&order)),
        false => Err(Error::damaged(format!("an order of {} axes for {}", order.len(), x.spec()))),
    }
}

fn concat(call: &Call<'_>) -> Answer {
    let all: Vec<Tensor> = call.all()?.into_iter().cloned().collect();
    let axis = call.axis(0, all[0].rank())?;
    one(Tensor::concat(&all, axis as isize))
}

fn split(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let axis = call.axis(0, x.rank())?;
    let dim = x.dims()[axis];
    let sizes: Vec<usize> = match call.ints_or(1, "split")? {
        Some(sizes) => sizes.into_iter().map(size).collect::<Result<_, _>>()?,
        None => {
            let parts = size(call.attributes.int("num_outputs", call.num_outputs as i64))?.max(1);
            let each = dim.div_ceil(parts);
            (0..parts).map(|part| each.min(dim.saturating_sub(part * each))).collect()
        }
    };
    if sizes.iter().try_fold(0usize, |sum, size| sum.checked_add(*size)) != Some(dim) {
        return Err(Error::damaged(format!("parts of {sizes:?} elements of an axis of {dim}")));
    }
    let mut start = 0;
    let part = |size: usize| {
        start += size;
        x.slice(axis as isize, start - size..start)
    };
    Ok(sizes.into_iter().map(part).collect())
}

/// Part of an axis, with the limits clamped as ONNX says; a negative step goes backwards.
fn sliced(x: &Tensor, axis: usize, start: i64, end: i64, step: i64) -> Result<Tensor, Error> {
    let dim = x.dims()[axis] as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(dim) } else { at };
    match step {
        0 => Err(Error::damaged("a step of 0")),
        step if step > 0 => {
            let (start, end) = (from_end(start).clamp(0, dim), from_end(end).clamp(0, dim));
            let stride = usize::try_from(step).unwrap_or(usize::MAX).min(dim.max(1) as usize);
            Ok(x.slice_by(axis as isize, start as usize..end.max(start) as usize, stride))
        }
        step => {
            let start = from_end(start).clamp(-1, dim - 1);
            let end = if end < -dim { -1 } else { from_end(end).clamp(-1, dim - 1) };
            let reversed = x.reverse(&[axis]);
            let (first, last) = (dim - 1 - start, dim - 1 - end);
            let stride = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX).min(dim.max(1) as usize);
            Ok(reversed.slice_by(axis as isize, first as usize..last.max(first) as usize, stride))
        }
    }
}

fn slice(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let absent = || Error::damaged("it names no limits");
    let starts = call.ints_or(1, "starts")?.ok_or_else(absent)?;
    let ends = call.ints_or(2, "ends")?.ok_or_else(absent)?;
    let axes = call.ints_or(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = call.ints(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(Error::damaged("its limits are for different numbers of axes"));
    }
    let mut y = x.clone();
    for n in 0..starts.len() {
        y = sliced(&y, in_rank(axes[n], x.rank())?, starts[n], ends[n], steps[n])?;
    }
    one(y)
}

fn expand(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let wanted = call.ints(1)?.ok_or_else(|| Error::damaged("it names no shape"))?;
    let wanted = wanted.into_iter().map(size).collect::<Result<Vec<_>, _>>()?;
    // Either side may be broadcast to the other.
    let rank = wanted.len().max(x.rank());
    let at = |dims: &[usize], axis: usize| dims.get((axis + dims.len()).wrapping_sub(rank)).copied().unwrap_or(1);
    let pick = |axis: usize| match (at(x.dims(), axis), at(&wanted, axis)) {
        (own, 1) => own,
        (_, other) => other,
    };
    let dims: Vec<usize> = (0..rank).map(pick).collect();
    one(x.broadcast_to(bounded(&dims)?))
}

fn tile(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let repeats = call.ints(1)?.ok_or_else(|| Error::damaged("it names no repeats"))?;
    if repeats.len() != x.rank() {
        return Err(Error::damaged(format!("{} repeats of {}", repeats.len(), x.spec())));
    }
    let repeats = repeats.into_iter().map(size).collect::<Result<Vec<_>, _>>()?;
    let product = |(dim, repeat): (&usize, &usize)| dim.checked_mul(*repeat).unwrap_or(usize::MAX);
    let dims: Vec<usize> = x.dims().iter().zip(&repeats).map(product).collect();
    bounded(&dims)?;
    let between: Vec<usize> = x.dims().iter().zip(&repeats).flat_map(|(dim, repeat)| [*repeat, *dim]).collect();
    let along: Vec<usize> = (0..x.rank()).map(|axis| 2 * axis + 1).collect();
    one(x.broadcast_along(&between, &along).reshape(&dims))
}

/// Positions along an axis with padding that repeats what is there.
fn padded_positions(dim: usize, before: i64, after: i64, mode: &str) -> Result<Vec<i64>, Error> {
    let count = (dim as i64).checked_add(before).and_then(|sum| sum.checked_add(after)).filter(|count| *count >= 0);
    let count = count.filter(|count| *count as usize <= ELEMENTS && dim > 0);
    let count = count.ok_or_else(|| Error::damaged(format!("padding of {before} and {after} on {dim} elements")))?;
    let dim = dim as i64;
    let position = |at: i64| match mode {
        "edge" => at.clamp(0, dim - 1),
        "wrap" => at.rem_euclid(dim),
        _ if dim == 1 => 0,
        _ => {
            let round = at.rem_euclid(2 * (dim - 1));
            round.min(2 * (dim - 1) - round)
        }
    };
    Ok((0..count).map(|n| position(n - before)).collect())
}

fn pad(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let pads = call.ints_or(1, "pads")?.ok_or_else(|| Error::damaged("it names no padding"))?;
    let axes: Vec<usize> = match call.ints(3)? {
        Some(axes) => axes.iter().map(|axis| in_rank(*axis, x.rank())).collect::<Result<_, _>>()?,
        None => (0..x.rank()).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(Error::damaged(format!("{} numbers of padding for {} axes", pads.len(), axes.len())));
    }
    let mut sides = vec![(0i64, 0i64); x.rank()];
    for (n, axis) in axes.iter().enumerate() {
        sides[*axis] = (pads[n], pads[axes.len() + n]);
    }
    let mode = call.attributes.text("mode", "constant");
    if mode != "constant" {
        let mut y = x.clone();
        for (axis, (before, after)) in sides.into_iter().enumerate().filter(|(_, sides)| *sides != (0, 0)) {
            let positions = padded_positions(x.dims()[axis], before, after, &mode)?;
            y = y.take(axis as isize, &whole(&positions, &[positions.len()])?);
        }
        return one(y);
    }
    let value = match call.optional(2) {
        Some(value) => value.reshape(&[]),
        None => Tensor::scalar(x.dtype(), call.attributes.float("value", 0.0)),
    };
    let (low, high): (Vec<i64>, Vec<i64>) = sides.into_iter().unzip();
    let grown = |(dim, (low, high)): (&usize, (&i64, &i64))| {
        (*dim as i64).checked_add(*low).and_then(|sum| sum.checked_add(*high)).and_then(|sum| usize::try_from(sum).ok())
    };
    let dims: Option<Vec<usize>> = x.dims().iter().zip(low.iter().zip(&high)).map(grown).collect();
    bounded(&dims.ok_or_else(|| Error::damaged("padding that leaves nothing"))?)?;
    one(x.pad_all(&value, &low, &high, &vec![0; x.rank()]))
}

fn shape(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let rank = x.rank() as i64;
    let at = |name: &str, default: i64| {
        let value = call.attributes.int(name, default);
        (if value < 0 { value.saturating_add(rank) } else { value }).clamp(0, rank) as usize
    };
    let (start, end) = (at("start", 0), at("end", rank));
    let dims: Vec<i64> = x.dims()[start..end.max(start)].iter().map(|dim| *dim as i64).collect();
    one(whole(&dims, &[dims.len()])?)
}

fn constant(call: &Call<'_>) -> Answer {
    let attributes = call.attributes;
    let numbers = |values: Vec<f64>, dims: &[usize]| data::of_numbers(&values, DType::F32, dims);
    let literal = if let Some(literal) = attributes.literal("value")? {
        Some(literal)
    } else if attributes.has("value_int") {
        Some(Literal::from_slice(&[attributes.int("value_int", 0)], [])?)
    } else if let Some(values) = attributes.ints("value_ints") {
        Some(Literal::from_slice(values, [values.len()])?)
    } else if attributes.has("value_float") {
        numbers(vec![attributes.float("value_float", 0.0)], &[])
    } else if let Some(values) = attributes.floats("value_floats") {
        numbers(values.iter().map(|value| f64::from(*value)).collect(), &[values.len()])
    } else {
        None
    };
    let literal = literal.ok_or_else(|| Error::unsupported("a constant of another kind than numbers"))?;
    one(Tensor::on_host(Arc::new(literal)))
}

fn constant_of_shape(call: &Call<'_>) -> Answer {
    let dims = call.ints(0)?.ok_or_else(|| Error::damaged("it names no shape"))?;
    let dims = dims.into_iter().map(size).collect::<Result<Vec<_>, _>>()?;
    bounded(&dims)?;
    let value = match call.attributes.literal("value")? {
        Some(value) => Tensor::constant(&value).reshape(&[]),
        None => Tensor::scalar(DType::F32, 0.0),
    };
    one(value.broadcast_to(&dims))
}

fn range(call: &Call<'_>) -> Answer {
    let dtype = call.input(0)?.dtype();
    let number = |at: usize| -> Result<f64, Error> {
        let values = call.numbers(at)?.unwrap_or_default();
        values.first().copied().ok_or_else(|| Error::damaged(format!("input {at} is not a number")))
    };
    let (start, limit, delta) = (number(0)?, number(1)?, number(2)?);
    let count = ((limit - start) / delta).ceil();
    if !count.is_finite() || count > ELEMENTS as f64 {
        return Err(Error::damaged(format!("a range from {start} to {limit} by {delta}")));
    }
    let values: Vec<f64> = (0..count.max(0.0) as usize).map(|n| start + n as f64 * delta).collect();
    let literal = data::of_numbers(&values, dtype, &[values.len()]);
    one(Tensor::on_host(Arc::new(literal.ok_or_else(|| Error::unsupported(format!("a range of {dtype}")))?)))
}

fn eye_like(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let dtype = match call.attributes.has("dtype") {
        true => data::dtype(i32::try_from(call.attributes.int("dtype", 0)).unwrap_or(0))?,
        false => x.dtype(),
    };
    let k = call.attributes.int("k", 0);
    if x.rank() != 2 || k.unsigned_abs() > 1 << 40 {
        return Err(Error::damaged(format!("a diagonal of {}", x.spec())));
    }
    let (row, column) = (Tensor::iota(DType::I64, x.dims(), 0), Tensor::iota(DType::I64, x.dims(), 1));
    let shift = whole(&[k], &[])?;
    one((row + shift).equals(&column).cast(dtype))
}

fn triangle(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let k = call.ints(1)?.and_then(|values| values.first().copied()).unwrap_or(0).clamp(-(1 << 40), 1 << 40);
    if x.rank() < 2 {
        return Err(Error::damaged(format!("a triangle of {}", x.spec())));
    }
    let (rows, columns) = (x.rank() - 2, x.rank() - 1);
    let row = Tensor::iota(DType::I64, x.dims(), rows) + whole(&[k], &[])?;
    let column = Tensor::iota(DType::I64, x.dims(), columns);
    let is_kept = match call.attributes.int("upper", 1) != 0 {
        true => column.greater_equal(&row),
        false => column.less_equal(&row),
    };
    one(is_kept.select(x, &x.zeros_like()))
}

fn depth_to_space(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let block = size(call.attributes.int("blocksize", 1))?;
    let &[batch, depth, height, width] = x.dims() else {
        return Err(Error::damaged(format!("an image of {}", x.spec())));
    };
    let square = block.checked_mul(block).filter(|square| *square > 0 && depth % square == 0);
    let square = square.ok_or_else(|| Error::damaged(format!("blocks of {block} from {depth} features")))?;
    let left = depth / square;
    let y = match call.attributes.text("mode", "DCR").as_str() {
        "CRD" => x.reshape(&[batch, left, block, block, height, width]).transpose(&[0, 1, 4, 2, 5, 3]),
        _ => x.reshape(&[batch, block, block, left, height, width]).transpose(&[0, 3, 4, 1, 5, 2]),
    };
    one(y.reshape(&[batch, left, height * block, width * block]))
}

fn space_to_depth(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let block = size(call.attributes.int("blocksize", 1))?;
    let &[batch, depth, height, width] = x.dims() else {
        return Err(Error::damaged(format!("an image of {}", x.spec())));
    };
    if block == 0 || height % block != 0 || width % block != 0 {
        return Err(Error::damaged(format!("blocks of {block} in {}", x.spec())));
    }
    let (rows, columns) = (height / block, width / block);
    let order = if call.attributes.text("mode", "DCR") == "CRD" { [0, 1, 3, 5, 2, 4] } else { [0, 3, 5, 1, 2, 4] };
    let y = x.reshape(&[batch, depth, rows, block, columns, block]).transpose(&order);
    one(y.reshape(&[batch, block * block * depth, rows, columns]))
}

/// Each row of a batch backwards up to its own length.
fn reverse_sequence(call: &Call<'_>) -> Answer {
    let (x, lengths) = (call.input(0)?, call.input(1)?);
    let time = in_rank(call.attributes.int("time_axis", 0), x.rank())?;
    let batch = in_rank(call.attributes.int("batch_axis", 1), x.rank())?;
    let at = Tensor::iota(DType::I64, x.dims(), time);
    let length = lengths.cast(DType::I64).broadcast_along(x.dims(), &[batch]);
    let mirrored = &length - &at - whole(&[1], &[])?;
    let from = at.less(&length).select(&mirrored, &at);
    one(x.take_along(time as isize, &from))
}

/// Cut or padded around the middle to a shape.
fn center_crop_pad(call: &Call<'_>) -> Answer {
    let mut y = call.input(0)?.clone();
    let wanted = call.ints(1)?.ok_or_else(|| Error::damaged("it names no shape"))?;
    let axes: Vec<usize> = match call.attributes.ints("axes") {
        Some(axes) => axes.iter().map(|axis| in_rank(*axis, y.rank())).collect::<Result<_, _>>()?,
        None => (0..y.rank()).collect(),
    };
    if axes.len() != wanted.len() {
        return Err(Error::damaged(format!("{} sizes for {} axes", wanted.len(), axes.len())));
    }
    for (axis, wanted) in axes.into_iter().zip(wanted) {
        let (dim, wanted) = (y.dims()[axis], size(wanted)?);
        let mut dims = y.dims().to_vec();
        dims[axis] = wanted;
        bounded(&dims)?;
        y = match wanted < dim {
            true => y.slice(axis as isize, (dim - wanted) / 2..(dim - wanted) / 2 + wanted),
            false => y.pad(axis as isize, (wanted - dim) / 2, wanted - dim - (wanted - dim) / 2),
        };
    }
    one(y)
}

pub(super) const RULES: Rules = &[
    ("CenterCropPad", center_crop_pad),
    ("Concat", concat),
    ("Constant", constant),
    ("ConstantOfShape", constant_of_shape),
    ("DepthToSpace", depth_to_space),
    ("Expand", expand),
    ("EyeLike", eye_like),
    ("Flatten", flatten),
    ("Pad", pad),
    ("Range", range),
    ("Reshape", reshape),
    ("ReverseSequence", reverse_sequence),
    ("Shape", shape),
    ("Size", |c| one(whole(&[c.input(0)?.num_elements() as i64], &[])?)),
    ("Slice", slice),
    ("SpaceToDepth", space_to_depth),
    ("Split", split),
    ("Squeeze", squeeze),
    ("Tile", tile),
    ("Transpose", transpose),
    ("Trilu", triangle),
    ("Unsqueeze", unsqueeze),
];
