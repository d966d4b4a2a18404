//! `custom_call @stablehlo.dynamic_reduce_window`, by which exporters sum over windows of sizes that they do not know.

use std::collections::HashMap;
use std::sync::Arc;

use tensor::DType;

use crate::ir::{Attr, Attrs, Dense, Func, NewOp, OpKind, OpName, Region, TensorType, Type, Value};
use crate::ops::{OpView, Violation};

use super::super::rewrite::{Replacement, Site};
use super::sizes::MAX_ELEMENTS;
use super::{target, types};

/// Inputs, initial values, then window sizes, strides, base dilations, window dilations and padding.
const TRAILING: usize = 5;

/// The `reduce_window` that a call with known sizes stands for.
pub(super) fn replace(site: &mut Site<'_>, named: &HashMap<Arc<str>, Func>) -> Result<Replacement, Violation> {
    let op = site.op();
    if op.kind() != Some(OpKind::CustomCall) || target(op) != Some("stablehlo.dynamic_reduce_window") {
        return Ok(None);
    }
    let results = op.num_results as usize;
    if op.operands.len() != 2 * results + TRAILING {
        return Err(Violation::new("", format!("{} operands for {results} results", op.operands.len())));
    }
    let Some(Attr::Array(computations)) = op.attr("called_computations") else { return Ok(None) };
    let Some(Attr::Symbol(name)) = computations.first() else { return Ok(None) };
    let Some(reducer) = named.get(name) else { return Ok(None) };
    let mut attrs = Attrs::new();
    let names = ["window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding"];
    for (n, name) in names.into_iter().enumerate() {
        let known = site.constant(op.operands[2 * results + n]);
        let Some(values) = known.and_then(|dense| dense.to_i64s(2 * MAX_ELEMENTS)) else { return Ok(None) };
        let value = if name == "padding" {
            let ty = TensorType::new([(values.len() / 2) as i64, 2], DType::I64);
            let bytes = values.iter().flat_map(|amount| amount.to_le_bytes()).collect();
            let Some(dense) = Dense::from_elements(ty, bytes) else { return Ok(None) };
            Attr::Dense(Arc::new(dense))
        } else {
            Attr::i64s(values)
        };
        attrs.set(name, value);
    }
    OpKind::ReduceWindow.def().drop_defaults(&mut attrs);
    let operands: Vec<Value> = op.operands[..2 * results].to_vec();
    let operand_types: Vec<Type> = operands.iter().map(|&value| site.func.ty(value).clone()).collect();
    if !operand_types.iter().all(types::is_static) {
        return Ok(None);
    }
    let values: Vec<Value> = op.results().collect();
    let Some(region) = copy(site.func, reducer) else { return Ok(None) };
    let regions = vec![region];
    let view = OpView {
        operands: &operand_types,
        values: &operands,
        attrs: &attrs,
        regions: &regions,
        results: &[],
        func: site.func,
        symbols: None,
    };
    let Some(infer) = OpKind::ReduceWindow.def().infer else { return Ok(None) };
    let inferred = (infer.types)(&view)?;
    for (&value, ty) in values.iter().zip(&inferred) {
        types::set(site.func, value, ty)?;
    }
    let known: Vec<Type> = values.iter().map(|&value| site.func.ty(value).clone()).collect();
    Ok(Some(site.emit_with_regions(OpKind::ReduceWindow, operands, &known, regions, attrs)))
}

/// The body of a function without regions inside, as a region of another; a reducer has none.
fn copy(to: &mut Func, from: &Func) -> Option<Region> {
    let data = from.region(from.body?);
    if data.ops.iter().any(|&id| !from.op(id).regions.is_empty()) {
        return None;
    }
    let region = to.add_region();
    let mut values: HashMap<Value, Value> = HashMap::new();
    for &argument in &data.args {
        values.insert(argument, to.add_argument(region, from.ty(argument).clone(), None));
    }
    for &id in &data.ops {
        let op = from.op(id);
        let operands = op.operands.iter().map(|value| values.get(value).copied()).collect::<Option<Vec<Value>>>()?;
        // A region of an op ends in its own kind of return.
        let name = match op.kind() {
            Some(OpKind::FuncReturn) => OpName::Known(OpKind::Return),
            _ => op.name.clone(),
        };
        let results = op.results().map(|value| from.ty(value).clone()).collect();
        let attrs = op.attrs.clone();
        let new = to.add_op(region, NewOp { operands, results, attrs, loc: op.loc.clone(), ..NewOp::new(name) });
        let copied = to.op(new).results();
        values.extend(op.results().zip(copied));
    }
    Some(region)
}
