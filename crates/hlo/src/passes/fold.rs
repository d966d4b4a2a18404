//! Computes ops on constants: shapes here, arithmetic by what the caller gives.

use std::sync::Arc;

use crate::ir::{Dense, DenseData, Op, OpKind, TensorType, Value};

use super::Options;
use super::rewrite::{Replacement, Site, is_array};

/// Replaces an op on constants by a constant.
pub(super) fn fold(site: &mut Site<'_>, options: &Options<'_>) -> Replacement {
    let op = site.op();
    let kind = op.kind()?;
    if op.num_results != 1 || !op.regions.is_empty() || op.operands.is_empty() {
        return None;
    }
    let class = class(kind)?;
    let is_known = |&value: &Value| {
        site.definition(value).is_some_and(|op| matches!(op.kind(), Some(OpKind::Constant | OpKind::Iota)))
    };
    if !op.operands.iter().all(is_known) {
        return None;
    }
    let result = site.result_type().as_tensor().filter(|ty| is_array(ty))?;
    let folded = match class {
        Class::Move => moved(site, kind, result).or_else(|| evaluated(site, result, options))?,
        Class::Elementwise => repeated(site, result, options).or_else(|| evaluated(site, result, options))?,
    };
    (folded.ty == *result).then(|| vec![site.emit_constant(folded)])
}

enum Class {
    /// Each element of the result is one of the operands'.
    Move,
    /// Each element of the result is computed from the elements at its place.
    Elementwise,
}

fn class(kind: OpKind) -> Option<Class> {
    match kind {
        _ if kind.is_movement() => Some(Class::Move),
        _ if folds_elementwise(kind) => Some(Class::Elementwise),
        _ => None,
    }
}

/// Ops that compute each element of their one result from the elements at its place. Between types of different widths
/// `bitcast_convert` does not; functions of CHLO are expanded before.
fn folds_elementwise(kind: OpKind) -> bool {
    kind.is_elementwise() && kind.is_stablehlo() && kind != OpKind::BitcastConvert
}

/// A constant whose elements only change place: one that repeats an element stays one, and a reshape keeps the bytes.
fn moved(site: &Site<'_>, kind: OpKind, result: &TensorType) -> Option<Dense> {
    let operands = &site.op().operands;
    let first = site.constant(operands[0])?;
    if let (OpKind::Reshape, DenseData::Elements(bytes)) = (kind, &first.data) {
        return Some(Dense { ty: result.clone(), data: DenseData::Elements(bytes.clone()) });
    }
    let element = site.splat(operands[0])?;
    let all_same = operands.iter().all(|&operand| site.splat(operand) == Some(element));
    all_same.then(|| Dense::splat(result.clone(), element))?
}

/// An op on constants that repeat one element, computed once.
fn repeated(site: &Site<'_>, result: &TensorType, options: &Options<'_>) -> Option<Dense> {
    let evaluate = options.evaluate?;
    let op = site.op();
    let scalar = |ty: &TensorType| TensorType::new(Vec::new(), ty.element.clone());
    let mut elements = Vec::with_capacity(op.operands.len());
    for &operand in &op.operands {
        elements.push(Dense::splat(scalar(site.array(operand)?), site.splat(operand)?)?);
    }
    let folded = evaluate(op, &elements.iter().collect::<Vec<_>>(), &scalar(result))?;
    match &folded.data {
        DenseData::Splat(element) | DenseData::Elements(element) => Dense::splat(result.clone(), element),
        DenseData::Strings(_) => None,
    }
}

/// An op on small constants, computed as it stands. The result is no larger than the operands, so that a program does
/// not grow by it.
fn evaluated(site: &Site<'_>, result: &TensorType, options: &Options<'_>) -> Option<Dense> {
    let evaluate = options.evaluate?;
    let op = site.op();
    let size = result.num_elements().filter(|&n| n <= options.max_folded_elements)?;
    let mut held = 0;
    let mut constants: Vec<Arc<Dense>> = Vec::with_capacity(op.operands.len());
    for &operand in &op.operands {
        let constant = known(site, operand, options)?;
        let elements = constant.ty.num_elements().filter(|&n| n <= options.max_folded_elements)?;
        if !matches!(constant.data, DenseData::Splat(_)) {
            held += elements;
        }
        constants.push(constant);
    }
    if size > held.max(1) {
        return None;
    }
    evaluate(op, &constants.iter().map(|c| &**c).collect::<Vec<_>>(), result)
}

/// The elements of a constant, or of a small `iota`: counting is cheaper than reading, so one is written out only where
/// what it is used for folds.
fn known(site: &Site<'_>, value: Value, options: &Options<'_>) -> Option<Arc<Dense>> {
    let ty = site.array(value)?;
    if let Some(constant) = site.constant(value) {
        return Some(constant.clone());
    }
    let iota: &Op = site.computed_by(value, OpKind::Iota)?;
    ty.num_elements().filter(|&n| n <= options.max_folded_elements)?;
    options.evaluate?(iota, &[], ty).map(Arc::new)
}
