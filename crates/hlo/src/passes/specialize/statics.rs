//! Ops whose sizes are operands, and the ops that have them as attributes.

use std::sync::Arc;

use tensor::DType;

use crate::ir::{Attr, Attrs, DYNAMIC, Dense, OpKind, OpName, TensorType, Type, Value};
use crate::ops::rules::{convolution, padding};
use crate::ops::{OpView, Violation};

use super::super::rewrite::{Replacement, Site, attrs};
use super::sizes::MAX_ELEMENTS;
use super::types;

/// Ops that have no place in a static program.
pub(super) fn is_dynamic(kind: OpKind) -> bool {
    use OpKind as K;
    matches!(
        kind,
        K::DynamicReshape
            | K::DynamicBroadcastInDim
            | K::DynamicIota
            | K::DynamicPad
            | K::DynamicGather
            | K::DynamicConv
            | K::RealDynamicSlice
            | K::SetDimensionSize
            | K::GetDimensionSize
    )
}

/// The static form of an op whose sizes are known.
pub(super) fn replace(site: &mut Site<'_>) -> Result<Replacement, Violation> {
    use OpKind as K;
    let Some(kind) = site.op().kind() else { return Ok(None) };
    match kind {
        K::DynamicReshape => shaped(site, 1, K::Reshape, |_| Attrs::new()),
        K::DynamicIota => shaped(site, 0, K::Iota, |site| kept(site, &["iota_dimension"])),
        K::DynamicBroadcastInDim => shaped(site, 1, K::BroadcastInDim, |site| kept(site, &["broadcast_dimensions"])),
        K::DynamicPad => pad(site),
        K::DynamicGather => gather(site),
        K::DynamicConv => convolve(site),
        K::RealDynamicSlice => slice(site),
        K::SetDimensionSize => set_size(site),
        K::CustomCall => call(site),
        _ => Ok(None),
    }
}

/// The sizes an operand holds.
fn sizes(site: &Site<'_>, operand: usize) -> Option<Vec<i64>> {
    site.constant(*site.op().operands.get(operand)?)?.to_i64s(MAX_ELEMENTS)
}

fn kept(site: &Site<'_>, names: &[&'static str]) -> Attrs {
    let attr = |&name: &&'static str| Some((name.into(), site.op().attr(name)?.clone()));
    names.iter().filter_map(attr).collect()
}

/// The result's type with these sizes, which becomes its type.
fn set_shape(site: &mut Site<'_>, dims: Vec<i64>) -> Result<Option<Type>, Violation> {
    if let Some(size) = dims.iter().find(|&&size| size < 0) {
        return Err(Violation::new("", format!("a size is {size}")));
    }
    let result = site.result();
    let Some(declared) = site.func.ty(result).as_tensor() else { return Ok(None) };
    let known = Type::from(TensorType { dims, ..declared.clone() });
    types::set(site.func, result, &known)?;
    Ok(Some(site.result_type().clone()))
}

/// An op whose result sizes are one operand, without that operand.
fn shaped(
    site: &mut Site<'_>,
    operand: usize,
    kind: OpKind,
    attrs: impl Fn(&Site<'_>) -> Attrs,
) -> Result<Replacement, Violation> {
    let dims = match sizes(site, operand) {
        Some(dims) => dims,
        // Where the type says all sizes, the operand can only say the same.
        None => match site.array(site.result()) {
            Some(ty) => ty.dims.clone(),
            None => return Ok(None),
        },
    };
    let Some(ty) = set_shape(site, dims)? else { return Ok(None) };
    let attrs = attrs(site);
    let operands: Vec<Value> = site.op().operands[..operand].to_vec();
    Ok(Some(vec![site.emit(kind, &operands, attrs, ty)]))
}

/// Emits an op of the language whose result type follows from the rest.
fn emit_inferred(
    site: &mut Site<'_>,
    kind: OpKind,
    operands: &[Value],
    attrs: Attrs,
) -> Result<Replacement, Violation> {
    let types: Vec<Type> = operands.iter().map(|&value| site.func.ty(value).clone()).collect();
    if !types.iter().all(types::is_static) {
        return Ok(None);
    }
    let Some(infer) = kind.def().infer else { return Ok(None) };
    let view = OpView {
        operands: &types,
        values: operands,
        attrs: &attrs,
        regions: &[],
        results: &[],
        func: site.func,
        symbols: None,
    };
    let inferred = (infer.types)(&view)?;
    let [ty] = &inferred[..] else { return Ok(None) };
    let result = site.result();
    types::set(site.func, result, ty)?;
    let ty = site.result_type().clone();
    Ok(Some(vec![site.emit(kind, operands, attrs, ty)]))
}

fn pad(site: &mut Site<'_>) -> Result<Replacement, Violation> {
    let (Some(low), Some(high), Some(interior)) = (sizes(site, 2), sizes(site, 3), sizes(site, 4)) else {
        return Ok(None);
    };
    let Some(dims) = site.dims(site.operand(0)) else { return Ok(None) };
    // Sizes are checked before inference, which takes them as given.
    let edges = low.iter().zip(&high).zip(&interior);
    let fits = dims.len() == low.len() && low.len() == high.len() && high.len() == interior.len();
    if !fits || dims.iter().zip(edges).any(|(&d, ((&l, &h), &i))| i < 0 || padding::padded(d, l, h, i).is_none()) {
        return Err(Violation::new("dynamic_pad C4", "the amounts of padding do not fit the operand"));
    }
    let attrs = attrs([
        ("edge_padding_low", Attr::i64s(low)),
        ("edge_padding_high", Attr::i64s(high)),
        ("interior_padding", Attr::i64s(interior)),
    ]);
    let operands = site.op().operands[..2].to_vec();
    emit_inferred(site, OpKind::Pad, &operands, attrs)
}

fn gather(site: &mut Site<'_>) -> Result<Replacement, Violation> {
    let Some(slice) = sizes(site, 2) else { return Ok(None) };
    let mut attrs = kept(site, &["dimension_numbers", "indices_are_sorted"]);
    attrs.set("slice_sizes", Attr::i64s(slice));
    let operands = site.op().operands[..2].to_vec();
    emit_inferred(site, OpKind::Gather, &operands, attrs)
}

fn slice(site: &mut Site<'_>) -> Result<Replacement, Violation> {
    let Some(strides) = sizes(site, 3) else { return Ok(None) };
    let operand = site.operand(0);
    if let (Some(starts), Some(limits)) = (sizes(site, 1), sizes(site, 2)) {
        let attrs = attrs([
            ("start_indices", Attr::i64s(starts)),
            ("limit_indices", Attr::i64s(limits)),
            ("strides", Attr::i64s(strides)),
        ]);
        return emit_inferred(site, OpKind::Slice, &[operand], attrs);
    }
    // From a start that depends on values to `start + sizes`.
    let start = site.operand(1);
    let Some(sum) = site.computed_by(site.operand(2), OpKind::Add) else { return Ok(None) };
    let lengths = match sum.operands[..] {
        [a, b] if a == start => b,
        [a, b] if b == start => a,
        _ => return Ok(None),
    };
    let Some(lengths) = site.constant(lengths).and_then(|dense| dense.to_i64s(MAX_ELEMENTS)) else {
        return Ok(None);
    };
    let Some(element) = site.array(start).map(|ty| ty.element.clone()) else { return Ok(None) };
    if strides.iter().any(|&stride| stride != 1) {
        return Ok(None);
    }
    let mut operands = vec![operand];
    for n in 0..lengths.len() as i64 {
        let range = attrs([
            ("start_indices", Attr::i64s([n])),
            ("limit_indices", Attr::i64s([n + 1])),
            ("strides", Attr::i64s([1])),
        ]);
        let one = site.emit(OpKind::Slice, &[start], range, TensorType::new([1], element.clone()));
        operands.push(site.emit(OpKind::Reshape, &[one], Attrs::new(), TensorType::new([], element.clone())));
    }
    emit_inferred(site, OpKind::DynamicSlice, &operands, attrs([("slice_sizes", Attr::i64s(lengths))]))
}

fn convolve(site: &mut Site<'_>) -> Result<Replacement, Violation> {
    let op = site.op();
    let known = op.operands.get(2).and_then(|&value| site.constant(value));
    let Some(padding) = known.and_then(|dense| dense.to_i64s(2 * MAX_ELEMENTS)) else { return Ok(None) };
    let mut attrs = op.attrs.clone();
    let ty = TensorType::new([(padding.len() / 2) as i64, 2], DType::I64);
    let bytes = padding.iter().flat_map(|amount| amount.to_le_bytes()).collect();
    let Some(dense) = Dense::from_elements(ty, bytes) else { return Ok(None) };
    attrs.set("padding", Attr::Dense(Arc::new(dense)));
    OpKind::Convolution.def().drop_defaults(&mut attrs);
    let operands = op.operands[..2].to_vec();
    let types: Vec<Type> = operands.iter().map(|&value| site.func.ty(value).clone()).collect();
    if !types.iter().all(types::is_static) {
        return Ok(None);
    }
    let view = OpView {
        operands: &types,
        values: &operands,
        attrs: &attrs,
        regions: &[],
        results: &[],
        func: site.func,
        symbols: None,
    };
    let dims = convolution::infer(&view, &[""; 35], None)?.dims;
    let Some(ty) = set_shape(site, dims)? else { return Ok(None) };
    Ok(Some(vec![site.emit(OpKind::Convolution, &operands, attrs, ty)]))
}

/// A size that is set to what it is anyway.
fn set_size(site: &mut Site<'_>) -> Result<Replacement, Violation> {
    let operand = site.operand(0);
    let size = sizes(site, 1).or_else(|| {
        let scalar = site.constant(site.operand(1))?;
        scalar.to_i64s(1)
    });
    let dim = site.op().attr("dimension").and_then(Attr::as_int).and_then(|dim| usize::try_from(dim).ok());
    let (Some([size]), Some(dim)) = (size.as_deref(), dim) else { return Ok(None) };
    let Some(dims) = site.dims(operand).map(<[i64]>::to_vec) else { return Ok(None) };
    if dims.get(dim) != Some(size) {
        return Ok(None);
    }
    set_shape(site, dims)?;
    Ok(Some(vec![operand]))
}

/// A custom call whose result sizes are operands, which `indices_of_shape_operands` names: they go.
fn call(site: &mut Site<'_>) -> Result<Replacement, Violation> {
    let op = site.op();
    let indices = match op.attr("indices_of_shape_operands") {
        Some(Attr::Dense(dense)) => dense.to_i64s(MAX_ELEMENTS),
        Some(attr) => attr.as_i64s().map(<[i64]>::to_vec),
        None => None,
    };
    let Some(indices) = indices.filter(|indices| indices.len() == op.num_results as usize) else { return Ok(None) };
    let results: Vec<Value> = op.results().collect();
    for (&index, result) in indices.iter().zip(results) {
        let Some(dims) = usize::try_from(index).ok().and_then(|index| sizes(site, index)) else { return Ok(None) };
        let Some(declared) = site.func.ty(result).as_tensor() else { return Ok(None) };
        if dims.iter().any(|&size| size < 0 && size != DYNAMIC) {
            return Err(Violation::new("", format!("sizes are {dims:?}")));
        }
        let known = Type::from(TensorType { dims, ..declared.clone() });
        types::set(site.func, result, &known)?;
    }
    let op = site.op();
    let is_shape = |n: usize| indices.contains(&(n as i64));
    let operands = op.operands.iter().enumerate().filter(|(n, _)| !is_shape(*n)).map(|(_, &value)| value).collect();
    let types: Vec<Type> = op.results().map(|value| site.func.ty(value).clone()).collect();
    let mut attrs = op.attrs.clone();
    attrs.remove("indices_of_shape_operands");
    let OpName::Known(kind) = op.name else { return Ok(None) };
    Ok(Some(site.emit_with_regions(kind, operands, &types, Vec::new(), attrs)))
}
