//! `stablehlo.bitcast_convert`: reinterprets bits as another element type.

use crate::ir::{DYNAMIC, ElementType, TensorType};
use crate::ops::def::{Arity, OpClass, OpDef, OpView, Piece, Text, VhloForm, Violation};
use crate::ops::rules::{Checked, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.bitcast_convert",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::FunctionType]),
    vhlo: &[VhloForm { name: "bitcast_convert_v1", attrs: &[] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let (operand, result) = (op.tensor(0)?, op.result_tensor(0)?);
    let bits = |ty: &TensorType| match &ty.element {
        ElementType::Plain(dtype) => Ok((dtype.bits(), dtype.is_complex())),
        ElementType::Quantized(q) => Ok((q.storage.bits(), false)),
        _ => Err(Violation::new("bitcast_convert I1", format!("elements of {} have no width", spelling::tensor(ty)))),
    };
    let ((from, from_complex), (to, to_complex)) = (bits(operand)?, bits(result)?);
    require!(
        from_complex == to_complex,
        "bitcast_convert C2",
        "operand is {}, result is {}: both must be complex or neither",
        spelling::tensor(operand),
        spelling::tensor(result)
    );
    let (narrow, wide, ratio) = match from.cmp(&to) {
        std::cmp::Ordering::Equal => {
            return shapes::same_shape("bitcast_convert C1", ("operand", operand), ("result", result));
        }
        std::cmp::Ordering::Less => (&operand.dims, &result.dims, (from, to)),
        std::cmp::Ordering::Greater => (&result.dims, &operand.dims, (to, from)),
    };
    require!(
        narrow.len() == wide.len() + 1,
        "bitcast_convert C1",
        "the side with {}-bit elements has rank {}, {} expected",
        ratio.0,
        narrow.len(),
        wide.len() + 1
    );
    let last = narrow[wide.len()];
    require!(
        last == DYNAMIC || last.checked_mul(i64::from(ratio.0)) == Some(i64::from(ratio.1)),
        "bitcast_convert C1",
        "the last dimension is {last}, but {}-bit elements are made of {}-bit ones",
        ratio.1,
        ratio.0
    );
    shapes::same_dims("bitcast_convert C1", ("narrow side", &narrow[..wide.len()]), ("wide side", wide))
}
