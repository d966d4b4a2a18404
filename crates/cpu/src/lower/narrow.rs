//! Dots that read narrow factors as they are: `dot(x, convert(w))` becomes `dot(x, w)`, so that `w` is never written out in a
//! wider type.

use hlo::{Attr, Definition, Func, NewOp, Op, OpId, OpKind, TensorType, Type, Value, Verified};
use tensor::DType;

use crate::error::Error;
use crate::kernels::matmul::is_narrow;

/// The program with the conversions of right factors gone where the dot's kernels have every value of the narrow type.
pub(super) fn unconvert(module: Verified) -> Result<Verified, Error> {
    if module.funcs.iter().all(|func| func.walk().iter().all(|&id| converted(func, id).is_none())) {
        return Ok(module);
    }
    let mut module = module.into_inner();
    for func in &mut module.funcs {
        for n in 0..func.regions.len() {
            for id in std::mem::take(&mut func.regions[n].ops) {
                if let Some((narrow, views)) = converted(func, id) {
                    let right = views.into_iter().rev().fold(narrow, |value, view| copy(func, n, view, value));
                    func.op_mut(id).operands[1] = right;
                }
                func.regions[n].ops.push(id);
            }
        }
    }
    let broken = |error| Error::Internal(format!("dots of narrow factors broke the program: {error}"));
    let module = hlo::verify(module).map_err(broken)?;
    let options = hlo::passes::Options::default();
    hlo::passes::apply(module, &[hlo::passes::DCE], &options).map(|(module, _)| module).map_err(broken)
}

/// The narrow value that the right factor of a dot is converted from, and the views between it and the dot, last first.
fn converted(func: &Func, id: OpId) -> Option<(Value, Vec<OpId>)> {
    let dot = func.op(id);
    let is_dot =
        dot.kind() == Some(OpKind::DotGeneral) && !matches!(dot.attr("algorithm"), Some(Attr::DotAlgorithm(_)));
    let plain = |value: Value| func.ty(value).as_tensor().and_then(|ty| ty.element.plain());
    let is_wide = |value: Value| matches!(plain(value), Some(DType::F32 | DType::BF16 | DType::F16));
    if !is_dot || ![dot.operands[0], dot.operands[1], dot.first_result].into_iter().all(is_wide) {
        return None;
    }
    let mut views = Vec::new();
    let mut value = dot.operands[1];
    loop {
        let Definition::Result(id, _) = func.value(value).definition else { return None };
        let op = func.op(id);
        let source = *op.operands.first()?;
        match op.kind()? {
            OpKind::Convert => return is_narrow(plain(source)?).then_some((source, views)),
            kind if is_view(kind, op) => views.push(id),
            _ => return None,
        }
        value = source;
    }
}

/// Whether an op moves elements of its first operand, whatever they are.
fn is_view(kind: OpKind, op: &Op) -> bool {
    matches!(kind, OpKind::Reshape | OpKind::Transpose | OpKind::Slice | OpKind::BroadcastInDim | OpKind::DynamicSlice)
        && op.num_results == 1
}

/// A copy of a view at the end of a region, of another value of the same sizes.
fn copy(func: &mut Func, region: usize, view: OpId, of: Value) -> Value {
    let (op, element) = (func.op(view).clone(), func.ty(of).as_tensor().map(|ty| ty.element.clone()));
    let result = match (func.ty(op.first_result), element) {
        (Type::Tensor(ty), Some(element)) => Type::Tensor(TensorType { element, ..(**ty).clone() }.into()),
        (ty, _) => ty.clone(),
    };
    let mut operands = op.operands;
    operands[0] = of;
    let new = NewOp { operands, results: vec![result], attrs: op.attrs, loc: op.loc, ..NewOp::new(op.name) };
    let id = func.add_op(hlo::Region(region as u32), new);
    func.op(id).first_result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str) {
        let text = format!(
            "func.func @main(%x: tensor<2x8xbf16>, %w: tensor<3x8x4xi8>, %i: tensor<i32>) -> tensor<2x4xf32> {{
              %zero = stablehlo.constant dense<0> : tensor<i32>
              {body}
              return %y : tensor<2x4xf32>
            }}"
        );
        let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
        let printed = hlo::text::print(&unconvert(module).unwrap());
        assert!(printed.contains(expected), "{printed}");
        assert_eq!(printed.contains("stablehlo.convert"), expected.contains("bf16>, tensor<8x4xbf16>"), "{printed}");
    }

    #[test]
    fn factors_stay_narrow_through_views() {
        check(
            "%s = stablehlo.dynamic_slice %w, %i, %zero, %zero, sizes = [1, 8, 4] : (tensor<3x8x4xi8>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x4xi8>
             %c = stablehlo.convert %s : (tensor<1x8x4xi8>) -> tensor<1x8x4xbf16>
             %r = stablehlo.reshape %c : (tensor<1x8x4xbf16>) -> tensor<8x4xbf16>
             %y = stablehlo.dot_general %x, %r, contracting_dims = [1] x [0] : (tensor<2x8xbf16>, tensor<8x4xbf16>) -> tensor<2x4xf32>",
            "tensor<2x8xbf16>, tensor<8x4xi8>",
        );
    }

    #[test]
    fn factors_of_other_ops_stay_converted() {
        check(
            "%s = stablehlo.slice %w [0:1, 0:8, 0:4] : (tensor<3x8x4xi8>) -> tensor<1x8x4xi8>
             %c = stablehlo.convert %s : (tensor<1x8x4xi8>) -> tensor<1x8x4xbf16>
             %t = stablehlo.tanh %c : tensor<1x8x4xbf16>
             %r = stablehlo.reshape %t : (tensor<1x8x4xbf16>) -> tensor<8x4xbf16>
             %y = stablehlo.dot_general %x, %r, contracting_dims = [1] x [0] : (tensor<2x8xbf16>, tensor<8x4xbf16>) -> tensor<2x4xf32>",
            "tensor<2x8xbf16>, tensor<8x4xbf16>",
        );
    }
}
