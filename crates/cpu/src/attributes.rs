//! Attributes of an op as plain values, defaults filled in: for the interpreter and the compiler alike.

use hlo::dims::{ConvDims, DotDims, GatherDims, ScatterDims};
use hlo::sdy::{SdyAttr, TensorSharding};
use hlo::{Attr, Keyword, Op, OpKind};

use crate::error::Error;

/// Integers one attribute may list.
const MAX_LISTED: usize = 1 << 20;

fn missing(op: &Op, name: &str) -> Error {
    Error::Internal(format!("{} has no usable attribute `{name}`", op.name.as_str()))
}

/// A required integer.
pub(crate) fn int(op: &Op, name: &str) -> Result<i64, Error> {
    op.attr(name).and_then(Attr::as_int).ok_or_else(|| missing(op, name))
}

/// An integer with a default.
pub(crate) fn int_or(op: &Op, name: &str, default: i64) -> i64 {
    op.attr(name).and_then(Attr::as_int).unwrap_or(default)
}

/// A flag: a unit attribute that is present, or a boolean that is true.
pub(crate) fn flag(op: &Op, name: &str) -> bool {
    matches!(op.attr(name), Some(Attr::Unit | Attr::Bool(true)))
}

/// A required keyword.
pub(crate) fn keyword(op: &Op, name: &str) -> Result<Keyword, Error> {
    op.attr(name).and_then(Attr::as_keyword).ok_or_else(|| missing(op, name))
}

/// A required list of integers.
pub(crate) fn ints(op: &Op, name: &str) -> Result<Vec<i64>, Error> {
    op.attr(name).and_then(list).ok_or_else(|| missing(op, name))
}

/// A list of integers (or booleans as 0 and 1) that is `fill` repeated where it is not written.
pub(crate) fn ints_or(op: &Op, name: &str, count: usize, fill: i64) -> Result<Vec<i64>, Error> {
    match op.attr(name) {
        None => Ok(vec![fill; count]),
        Some(attr) => list(attr).filter(|l| l.len() == count).ok_or_else(|| missing(op, name)),
    }
}

/// Low and high padding of each of `rank` dimensions, zero where not written.
pub(crate) fn padding(op: &Op, rank: usize) -> Result<Vec<(i64, i64)>, Error> {
    Ok(ints_or(op, "padding", 2 * rank, 0)?.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

/// The dimension numbers of a `dot`, whose left operand has this rank, or a `dot_general`.
pub(crate) fn dot_dims(op: &Op, lhs_rank: usize) -> Result<DotDims, Error> {
    if op.kind() == Some(OpKind::Dot) {
        let last = lhs_rank as i64 - 1;
        return Ok(DotDims { lhs_contracting: vec![last], rhs_contracting: vec![0], ..DotDims::default() });
    }
    match op.attr("dot_dimension_numbers") {
        Some(Attr::Dot(dims)) => Ok((**dims).clone()),
        _ => Err(missing(op, "dot_dimension_numbers")),
    }
}

/// The dimension numbers of a convolution.
pub(crate) fn conv_dims(op: &Op) -> Result<&ConvDims, Error> {
    match op.attr("dimension_numbers") {
        Some(Attr::Conv(dims)) => Ok(dims),
        _ => Err(missing(op, "dimension_numbers")),
    }
}

/// The dimension numbers of a gather.
pub(crate) fn gather_dims(op: &Op) -> Result<&GatherDims, Error> {
    match op.attr("dimension_numbers") {
        Some(Attr::Gather(dims)) => Ok(dims),
        _ => Err(missing(op, "dimension_numbers")),
    }
}

/// The dimension numbers of a scatter.
pub(crate) fn scatter_dims(op: &Op) -> Result<&ScatterDims, Error> {
    match op.attr("scatter_dimension_numbers") {
        Some(Attr::Scatter(dims)) => Ok(dims),
        _ => Err(missing(op, "scatter_dimension_numbers")),
    }
}

/// Whether a comparison puts every bit pattern of a float in order.
pub(crate) fn is_total_order(op: &Op) -> bool {
    op.attr("compare_type").and_then(Attr::as_keyword) == Some(Keyword::CompareTotalOrder)
}

/// Shardings of a manual computation along its manual axes only: the body sees the other axes whole.
pub(crate) fn manual_shardings(op: &Op, name: &str) -> Result<Vec<TensorSharding>, Error> {
    let Some(Attr::Sdy(attr)) = op.attr(name) else { return Ok(Vec::new()) };
    let SdyAttr::ShardingPerValue(shardings) = &**attr else {
        return Err(Error::Internal(format!("{name} is no list of shardings")));
    };
    let mut shardings = shardings.clone();
    if let Some(Attr::Sdy(attr)) = op.attr("manual_axes")
        && let SdyAttr::ManualAxes(manual) = &**attr
    {
        for sharding in &mut shardings {
            let lists = sharding.dims.iter_mut().map(|dim| &mut dim.axes).chain([&mut sharding.unreduced]);
            lists.for_each(|axes| axes.retain(|axis| manual.contains(&axis.name)));
        }
    }
    Ok(shardings)
}

fn list(attr: &Attr) -> Option<Vec<i64>> {
    match attr {
        Attr::DenseArray(_, values) => Some(values.to_vec()),
        Attr::Dense(dense) => dense.to_i64s(MAX_LISTED),
        Attr::Array(values) => values.iter().map(Attr::as_int).collect(),
        _ => None,
    }
}
