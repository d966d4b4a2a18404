//! Ops that move elements, and give copies.

use trace::Tensor;

use crate::error::Error;
use crate::translate::call::{Call, Value, in_rank, positive};
use crate::translate::ops::Name;
use crate::translate::ops::viewed::{Viewed, views};
use crate::translate::run::Rules;
use crate::translate::types::cast;
use crate::translate::views::View;

type Answer = Result<Value, Error>;

fn reshaped(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let dims = call.result_dims()?;
    Ok(View::Reshape(dims).read(&x)?.into())
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

/// Elements on and below a diagonal, or on and above it.
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

/// The elements of a matrix that lie on its diagonal, 0 elsewhere.
fn on_diagonal(x: &Tensor) -> Tensor {
    let (dims, kind) = (x.dims(), tensor::DType::I32);
    let is_on = Tensor::iota(kind, dims, x.rank() - 2).equals(&Tensor::iota(kind, dims, x.rank() - 1));
    is_on.select(x, &x.zeros_like())
}

/// The last axis on a diagonal of two new last axes.
fn embedded(x: &Tensor, offset: i64) -> Tensor {
    let size = x.dim(-1) + offset.unsigned_abs() as usize;
    let (before, after) = if offset >= 0 { (0, offset) } else { (-offset, 0) };
    let (mut low, mut high) = (vec![0; x.rank()], vec![0; x.rank()]);
    (low[x.rank() - 1], high[x.rank() - 1]) = (before, after);
    let spread = x.pad_all(&Tensor::scalar(x.dtype(), 0.0), &low, &high, &vec![0; x.rank()]);
    // Each row has its element; the columns are moved by the offset.
    let dims: Vec<usize> = spread.dims().iter().copied().chain([size]).collect();
    let kind = tensor::DType::I64;
    let row = Tensor::iota(kind, &dims, dims.len() - 2);
    let is_on = (&row + offset as f64).equals(&Tensor::iota(kind, &dims, dims.len() - 1));
    let wide = spread.expand(-1).broadcast_to(&dims);
    is_on.select(&wide, &wide.zeros_like())
}

fn diag_embed(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let rank = x.rank() + 1;
    let (offset, a, b) = (call.int("offset", 0)?, call.axis("dim1", -2, rank)?, call.axis("dim2", -1, rank)?);
    if x.rank() == 0 || offset.unsigned_abs() > 1 << 20 || a == b {
        return Err(Error::damaged("a diagonal of no axis"));
    }
    // With the axes the other way round, the offset goes the other way.
    let y = embedded(&x, if a < b { offset } else { -offset });
    let (first, second) = (a.min(b) as isize, a.max(b) as isize);
    Ok(y.move_axis(-2, first).move_axis(-1, second).into())
}

fn diag(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let offset = call.int("diagonal", 0)?;
    if offset.unsigned_abs() > 1 << 20 {
        return Err(Error::damaged("a diagonal so far away"));
    }
    match x.rank() {
        1 => Ok(embedded(&x, offset).into()),
        2 => {
            let count = call.result_dims()?.first().copied().unwrap_or(0);
            let (row, column) = if offset >= 0 { (0, offset as usize) } else { (offset.unsigned_abs() as usize, 0) };
            if row + count > x.dim(0) || column + count > x.dim(1) {
                return Err(Error::damaged("a diagonal outside of the matrix"));
            }
            let part = x.slice(0, row..row + count).slice(1, column..column + count);
            Ok(on_diagonal(&part).sum(&[1]).into())
        }
        _ => Err(Error::damaged("a diagonal of one or two axes")),
    }
}

fn diag_flat(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let offset = call.int("offset", 0)?;
    if offset.unsigned_abs() > 1 << 20 {
        return Err(Error::damaged("a diagonal so far away"));
    }
    Ok(embedded(&x.reshape(&[x.num_elements()]), offset).into())
}

/// Rows and columns of a triangle.
fn triangle_indices(call: &mut Call<'_, '_>, is_lower: bool) -> Answer {
    let (rows, columns, offset) = (call.int("row", 0)?, call.int("col", 0)?, call.int("offset", 0)?);
    let (dtype, dims) = (call.result_type()?, call.result_dims()?);
    if !(0..1 << 16).contains(&rows) || !(0..1 << 16).contains(&columns) || rows * columns > 1 << 26 {
        return Err(call.unsupported("so large a triangle"));
    }
    let is_in = |row: i64, column: i64| match is_lower {
        true => column <= row.saturating_add(offset),
        false => column >= row.saturating_add(offset),
    };
    let places: Vec<(i64, i64)> = (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .filter(|(row, column)| is_in(*row, *column))
        .collect();
    let values: Vec<i64> = places.iter().map(|place| place.0).chain(places.iter().map(|place| place.1)).collect();
    let literal = tensor::Literal::from_slice(&values, [2, places.len()])?;
    let y = cast(&Tensor::constant(&literal), dtype);
    match y.dims() == dims {
        true => Ok(y.into()),
        false => Err(Error::damaged("a triangle of another size")),
    }
}

fn rot90(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let dims = match call.optional_ints("dims")? {
        Some(dims) => dims,
        None => vec![0, 1],
    };
    let [a, b] = dims.as_slice() else { return Err(Error::damaged("it turns two axes")) };
    let (a, b) = (in_rank(*a, x.rank())?, in_rank(*b, x.rank())?);
    if a == b || x.rank() < 2 {
        return Err(Error::damaged("it turns two axes"));
    }
    Ok(match call.int("k", 1)?.rem_euclid(4) {
        0 => x,
        1 => x.reverse(&[b]).swap_axes(a as isize, b as isize),
        2 => x.reverse(&[a, b]),
        _ => x.reverse(&[a]).swap_axes(a as isize, b as isize),
    }
    .into())
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

/// A copy of a view: `permute_copy` and its relatives.
fn copied(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let own = Name::of(&call.node.target).base;
    let name = Name { library: "aten".into(), base: own.trim_end_matches("_copy").into() };
    let read = |steps: Vec<View>| steps.iter().try_fold(x.clone(), |x, step| step.read(&x));
    match views(call, &name, &x)? {
        Some(Viewed::One(steps)) => Ok(read(steps)?.into()),
        Some(Viewed::Several(all)) => Ok(all.into_iter().map(read).collect::<Result<Vec<_>, _>>()?.into()),
        Some(Viewed::OfStorage(step)) => Ok(step.read(&x)?.into()),
        None => reshaped(call),
    }
}

/// Writes a part: `slice_scatter`, `select_scatter`, `diagonal_scatter`.
fn scattered(call: &mut Call<'_, '_>, view: &str) -> Answer {
    let (x, source) = (call.subject()?, call.tensor("src")?);
    let name = Name { library: "aten".into(), base: view.into() };
    let Some(Viewed::One(steps)) = views(call, &name, &x)? else { return Ok(x.into()) };
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

pub(super) const RULES: Rules = &[
    ("reshape", reshaped),
    ("flatten", reshaped),
    ("reshape_as", reshaped),
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
    ("slice_scatter", |c| scattered(c, "slice")),
    ("select_scatter", |c| scattered(c, "select")),
    ("diagonal_scatter", |c| scattered(c, "diagonal")),
    ("alias_copy", copied),
    ("as_strided_copy", copied),
    ("diagonal_copy", copied),
    ("expand_copy", copied),
    ("narrow_copy", copied),
    ("permute_copy", copied),
    ("select_copy", copied),
    ("slice_copy", copied),
    ("split_copy", copied),
    ("split_with_sizes_copy", copied),
    ("squeeze_copy", copied),
    ("t_copy", copied),
    ("transpose_copy", copied),
    ("unbind_copy", copied),
    ("unfold_copy", copied),
    ("unsqueeze_copy", copied),
    ("view_copy", copied),
    ("ravel", reshaped),
    ("diag", diag),
    ("diag_embed", diag_embed),
    ("diagflat", diag_flat),
    ("tril_indices", |c| triangle_indices(c, true)),
    ("triu_indices", |c| triangle_indices(c, false)),
    ("rot90", rot90),
    ("fliplr", |c| Ok(c.subject()?.reverse(&[1]).into())),
    ("flipud", |c| Ok(c.subject()?.reverse(&[0]).into())),
    ("trace", |c| {
        let (x, dtype) = (c.subject()?, c.result_type()?);
        if x.rank() != 2 {
            return Err(Error::damaged("a trace of a matrix"));
        }
        Ok(on_diagonal(&cast(&x, dtype)).sum_all().into())
    }),
];
