//! Ops whose result shares the storage of their first argument: what is written to one is seen in the other.

use trace::Tensor;

use crate::error::Error;
use crate::graph::NodeArgument;
use crate::translate::call::{Call, in_rank, positive};
use crate::translate::ops::Name;
use crate::translate::views::{View, is_reshape_view};

/// Places that a view by strides may have.
const MOST_PLACES: usize = 1 << 26;

/// The steps from an argument to its views.
pub(crate) enum Viewed {
    One(Vec<View>),
    Several(Vec<Vec<View>>),
    /// A view of the whole storage, however the argument lies in it.
    OfStorage(View),
}

/// Ops that give a view, always or as the strides of their argument allow.
pub(crate) const VIEWS: &[&str] = &[
    "_conj",
    "_reshape_alias",
    "_unsafe_view",
    "adjoint",
    "alias",
    "alpha_dropout",
    "as_strided",
    "as_strided_",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_to",
    "chunk",
    "conj",
    "contiguous",
    "detach",
    "detach_",
    "diagonal",
    "dropout",
    "dropout_",
    "dsplit",
    "expand",
    "expand_as",
    "feature_alpha_dropout",
    "feature_dropout",
    "flatten",
    "hsplit",
    "imag",
    "lift",
    "lift_fresh",
    "linalg_diagonal",
    "mH",
    "mT",
    "matrix_H",
    "moveaxis",
    "movedim",
    "narrow",
    "numpy_T",
    "permute",
    "positive",
    "ravel",
    "real",
    "requires_grad_",
    "reshape",
    "reshape_as",
    "resolve_conj",
    "resolve_neg",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "squeeze_",
    "swapaxes",
    "swapaxes_",
    "swapdims",
    "swapdims_",
    "t",
    "t_",
    "tensor_split",
    "to",
    "transpose",
    "transpose_",
    "type_as",
    "unbind",
    "unflatten",
    "unfold",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "unsqueeze",
    "unsqueeze_",
    "view",
    "view_as",
    "view_as_complex",
    "view_as_real",
    "vsplit",
];

/// The views that an op gives; none where it gives a copy, or is no such op.
pub(crate) fn views(call: &mut Call<'_, '_>, name: &Name, base: &Tensor) -> Result<Option<Viewed>, Error> {
    let (dims, rank) = (base.dims().to_vec(), base.rank());
    let one = |view: View| Ok(Some(Viewed::One(vec![view])));
    let same = || Ok(Some(Viewed::One(Vec::new())));
    match name.base.as_str() {
        "alias" | "detach" | "detach_" | "lift_fresh" | "lift" | "positive" | "resolve_conj" | "resolve_neg"
        | "requires_grad_" => same(),
        "real" | "conj" | "_conj" if !base.dtype().is_complex() => same(),
        "real" => one(View::Real),
        "imag" if base.dtype().is_complex() => one(View::Imaginary),
        "view_as_real" => one(View::AsReal),
        "view_as_complex" => one(View::AsComplex),
        // Nothing is dropped: PyTorch gives the argument itself.
        "dropout" | "dropout_" | "feature_dropout" | "alpha_dropout" | "feature_alpha_dropout" => {
            let is_off = !call.bool("train", false)? || call.float("p", 0.5)? == 0.0;
            if is_off { same() } else { Ok(None) }
        }
        "contiguous" => Ok(has_same_strides(call).then(|| Viewed::One(Vec::new()))),
        "to" | "type_as" => {
            let is_same = call.result_type()? == base.dtype() && !call.bool("copy", false)? && has_same_strides(call);
            Ok(is_same.then(|| Viewed::One(Vec::new())))
        }
        "view" if call.has("dtype") => one(View::Bits(call.result_type()?)),
        "view" | "_unsafe_view" | "_reshape_alias" | "view_as" | "unflatten" => one(View::Reshape(call.result_dims()?)),
        "reshape" | "flatten" | "reshape_as" | "ravel" => {
            let dims = call.result_dims()?;
            // `ravel` is `contiguous` first.
            let is_view = match name.base == "ravel" {
                true => call.translator.is_contiguous(subject(call)),
                false => is_view(call, &dims),
            };
            match is_view {
                true => one(View::Reshape(dims)),
                false => Ok(None),
            }
        }
        "unsqueeze" | "squeeze" | "unsqueeze_" | "squeeze_" | "atleast_1d" | "atleast_2d" | "atleast_3d" => {
            one(View::Reshape(call.result_dims()?))
        }
        "permute" => {
            let order =
                call.ints("dims")?.into_iter().map(|axis| in_rank(axis, rank)).collect::<Result<Vec<_>, _>>()?;
            one(View::Transpose(permutation(order, rank)?))
        }
        "transpose" | "swapaxes" | "transpose_" | "swapaxes_" | "swapdims" | "swapdims_" => {
            let (a, b) = match name.base.starts_with("swapaxes") {
                true => (call.axis("axis0", 0, rank)?, call.axis("axis1", 0, rank)?),
                false => (call.axis("dim0", 0, rank)?, call.axis("dim1", 0, rank)?),
            };
            let mut order: Vec<usize> = (0..rank).collect();
            if rank > 0 {
                order.swap(a, b);
            }
            one(View::Transpose(order))
        }
        "t" | "numpy_T" | "mT" | "t_" | "adjoint" | "mH" | "matrix_H" => {
            if base.dtype().is_complex() && matches!(name.base.as_str(), "adjoint" | "mH" | "matrix_H") {
                return Err(call.unsupported("the conjugate transpose of complex numbers"));
            }
            let mut order: Vec<usize> = (0..rank).collect();
            match name.base.as_str() {
                "mT" | "adjoint" | "mH" if rank >= 2 => order.swap(rank - 1, rank - 2),
                _ => order.reverse(),
            }
            one(View::Transpose(order))
        }
        "movedim" | "moveaxis" => {
            let axes = |values: Vec<i64>| values.into_iter().map(|a| in_rank(a, rank)).collect::<Result<Vec<_>, _>>();
            let (from, to) = (axes(call.ints("source")?)?, axes(call.ints("destination")?)?);
            let mut order: Vec<usize> = (0..rank).filter(|axis| !from.contains(axis)).collect();
            let mut pairs: Vec<(usize, usize)> = to.into_iter().zip(from).collect();
            pairs.sort_unstable();
            for (to, from) in pairs {
                order.insert(to.min(order.len()), from);
            }
            if rank == 0 {
                return same();
            }
            one(View::Transpose(permutation(order, rank)?))
        }
        "expand" | "expand_as" | "broadcast_to" => one(View::Expand(call.result_dims()?)),
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
            let Some(NodeArgument::Int(_)) = call.argument("start") else {
                return Err(call.unsupported("a slice that starts at a tensor's value"));
            };
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
        "split" | "split_with_sizes" | "chunk" | "unsafe_split" | "unsafe_chunk" | "unsafe_split_with_sizes" => {
            let axis = call.axis("dim", 0, rank)?;
            let size = dims.get(axis).copied().unwrap_or(0);
            Ok(Some(Viewed::Several(in_parts(axis, parts(call, size)?))))
        }
        "tensor_split" | "hsplit" | "vsplit" | "dsplit" => {
            let axis = match name.base.as_str() {
                "tensor_split" => call.axis("dim", 0, rank)?,
                "hsplit" if rank == 1 => 0,
                "hsplit" => 1,
                "vsplit" => 0,
                _ => 2,
            };
            let size = dims.get(axis).copied().ok_or_else(|| Error::damaged("it splits an axis that is not there"))?;
            Ok(Some(Viewed::Several(in_parts_of(axis, cuts(call, size)?))))
        }
        "diagonal" | "linalg_diagonal" => diagonal(call, name, &dims).map(|view| Some(Viewed::One(vec![view]))),
        "unfold" => unfold(call, &dims).map(|view| Some(Viewed::One(view))),
        "as_strided" | "as_strided_" => as_strided(call).map(|view| Some(Viewed::OfStorage(view))),
        _ => Ok(None),
    }
}

/// The name of the first argument.
fn subject<'g>(call: &Call<'_, 'g>) -> &'g str {
    match call.node.inputs.first() {
        Some((_, NodeArgument::Tensor(name))) => name,
        _ => "",
    }
}

/// Whether the result lies in memory as the argument does.
fn has_same_strides(call: &Call<'_, '_>) -> bool {
    let Some(NodeArgument::Tensor(result)) = call.node.outputs.first() else { return true };
    let (Some((sizes, from)), Some((_, to))) = (call.translator.layout(subject(call)), call.translator.layout(result))
    else {
        return true;
    };
    sizes.contains(&0) || sizes.iter().zip(from.iter().zip(&to)).all(|(size, (from, to))| *size == 1 || from == to)
}

/// Whether the argument in another shape is a view of it.
fn is_view(call: &Call<'_, '_>, dims: &[usize]) -> bool {
    match call.translator.layout(subject(call)) {
        Some((sizes, strides)) => is_reshape_view(&sizes, &strides, dims),
        None => true,
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

/// Parts of an axis behind each other.
fn in_parts(axis: usize, lengths: Vec<usize>) -> Vec<Vec<View>> {
    let mut start = 0usize;
    let ranges = lengths.into_iter().map(|length| {
        let from = start;
        start = start.saturating_add(length);
        (from, start)
    });
    in_parts_of(axis, ranges.collect())
}

fn in_parts_of(axis: usize, ranges: Vec<(usize, usize)>) -> Vec<Vec<View>> {
    ranges.into_iter().map(|(start, end)| vec![View::Slice { axis, start, end, step: 1 }]).collect()
}

/// Lengths of the parts of an axis.
fn parts(call: &mut Call<'_, '_>, size: usize) -> Result<Vec<usize>, Error> {
    let lists = ["split_sizes", "split_size"];
    for name in lists {
        if let Some(NodeArgument::Ints(_)) = call.argument(name) {
            return call.ints(name)?.into_iter().map(positive).collect();
        }
    }
    let each = match call.has("chunks") {
        true => size.div_ceil(positive(call.int("chunks", 1)?)?.max(1)),
        false => positive(call.int("split_size", 1)?)?,
    };
    if each == 0 {
        let count = call.int("chunks", 1)?.clamp(1, 1 << 16) as usize;
        return Ok(vec![size; count]);
    }
    Ok((0..size.div_ceil(each).max(1)).map(|n| each.min(size - (n * each).min(size))).collect())
}

/// Parts of an axis between positions, or so many of nearly the same length.
fn cuts(call: &mut Call<'_, '_>, size: usize) -> Result<Vec<(usize, usize)>, Error> {
    if let Some(NodeArgument::Tensor(_)) = call.argument("tensor_indices_or_sections") {
        return Err(call.unsupported("a split at a tensor's values"));
    }
    if let Some(indices) = call.optional_ints("indices")? {
        let size = size as i64;
        let place = |at: i64| if at < 0 { at.saturating_add(size) } else { at }.clamp(0, size) as usize;
        let starts: Vec<usize> = std::iter::once(0).chain(indices.iter().map(|at| place(*at))).collect();
        let ends = indices.iter().map(|at| place(*at)).chain([size as usize]);
        return Ok(starts.iter().zip(ends).map(|(start, end)| (*start, end.max(*start))).collect());
    }
    let count = positive(call.int("sections", 1)?)?.clamp(1, 1 << 20);
    let start = |n: usize| n * (size / count) + n.min(size % count);
    Ok((0..count).map(|n| (start(n), start(n + 1))).collect())
}

fn diagonal(call: &mut Call<'_, '_>, name: &Name, dims: &[usize]) -> Result<View, Error> {
    let rank = dims.len();
    let is_linalg = name.base == "linalg_diagonal";
    let (a, b) = match is_linalg {
        true => (call.axis("dim1", -2, rank)?, call.axis("dim2", -1, rank)?),
        false => (call.axis("dim1", 0, rank)?, call.axis("dim2", 1, rank)?),
    };
    let offset = call.int("offset", 0)?;
    if rank < 2 || a == b {
        return Err(Error::damaged("a diagonal of one axis"));
    }
    let strides = row_major(dims);
    let others: Vec<usize> = (0..rank).filter(|axis| *axis != a && *axis != b).collect();
    let away = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let (down, right) = if offset >= 0 { (0, away) } else { (away, 0) };
    let count = dims[a].saturating_sub(down).min(dims[b].saturating_sub(right));
    let start = match count {
        0 => 0,
        _ => down as i64 * strides[a] + right as i64 * strides[b],
    };
    let results: Vec<usize> = others.iter().map(|axis| dims[*axis]).chain([count]).collect();
    let steps: Vec<i64> = others.iter().map(|axis| strides[*axis]).chain([strides[a] + strides[b]]).collect();
    places(&results, &steps, start, dims.iter().product())
}

/// Windows along an axis: their own axis goes last.
fn unfold(call: &mut Call<'_, '_>, dims: &[usize]) -> Result<Vec<View>, Error> {
    let (size, step) = (positive(call.int("size", 1)?)?, positive(call.int("step", 1)?)?.max(1));
    let results = call.result_dims()?;
    if dims.is_empty() {
        let places = vec![0; size.min(1)];
        return Ok(vec![View::Places { dims: vec![places.len()], places }]);
    }
    let axis = call.axis("dimension", 0, dims.len())?;
    let mut steps = row_major(dims);
    let own = steps[axis];
    steps[axis] = own.saturating_mul(step as i64);
    steps.push(own);
    Ok(vec![places(&results, &steps, 0, dims.iter().product())?])
}

/// As strides say, over the storage that the argument lies in.
fn as_strided(call: &mut Call<'_, '_>) -> Result<View, Error> {
    let refused =
        |call: &Call<'_, '_>| call.unsupported("`as_strided` of a view or of a tensor that is not contiguous");
    let Some((storage, is_whole)) = call.translator.storage_of(subject(call)) else { return Err(refused(call)) };
    if !is_whole && !call.has("storage_offset") {
        return Err(refused(call));
    }
    let (strides, offset) = (call.ints("stride")?, call.int("storage_offset", 0)?);
    places(&call.result_dims()?, &strides, offset, storage.iter().product())
}

fn row_major(dims: &[usize]) -> Vec<i64> {
    let mut strides = vec![1i64; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(dims[axis] as i64);
    }
    strides
}

/// The places that strides lead to, of a tensor of so many elements.
fn places(dims: &[usize], strides: &[i64], offset: i64, count: usize) -> Result<View, Error> {
    let total = dims.iter().try_fold(1usize, |n, size| n.checked_mul(*size)).filter(|n| *n <= MOST_PLACES);
    if total.is_none() || dims.len() != strides.len() {
        return Err(Error::damaged(format!("a view of {dims:?} by strides")));
    }
    let mut places = vec![offset];
    for (size, stride) in dims.iter().zip(strides) {
        let next = |at: &i64, n: i64| at.saturating_add(n.saturating_mul(*stride));
        places = places.iter().flat_map(|at| (0..*size as i64).map(move |n| next(at, n))).collect();
    }
    if places.iter().any(|at| !(0..count as i64).contains(at)) {
        return Err(Error::damaged("its strides lead outside of the tensor"));
    }
    Ok(View::Places { places, dims: dims.to_vec() })
}
