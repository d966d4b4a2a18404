//! `chlo.top_k`: largest elements and their indices.

use tensor::DType;

use crate::ir::{Attr, DYNAMIC};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Inferred, elements, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.top_k",
    class: OpClass::Ordering,
    operands: Arity::exactly(1),
    results: Arity::exactly(2),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "k", kind: AttrKind::I64, presence: Presence::Required },
        AttrDef { name: "is_stable", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(true)) },
    ],
    text: Text::Pieces(&[
        Piece::Word("("),
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("k"),
        Piece::Word("="),
        Piece::Attr("k"),
        Piece::IfAttr(
            "is_stable",
            &[Piece::Word(","), Piece::Word("is_stable"), Piece::Word("="), Piece::Attr("is_stable")],
        ),
        Piece::Word(")"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ArrowTypes,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("chlo.top_k", infer)),
    check: |op| elements::operand(op, 0, Elements::ANY, "chlo.top_k"),
};

fn infer(op: &OpView<'_>) -> Inferred {
    let operand = op.tensor(0)?;
    let k = op.int("k")?;
    let Some(last) = operand.rank().checked_sub(1) else {
        return Err(Violation::new("chlo.top_k", "the operand is a scalar"));
    };
    require!(
        k >= 0 && (operand.dims[last] == DYNAMIC || operand.dims[last] >= k),
        "chlo.top_k",
        "k is {k}, the last dimension is {}",
        spelling::dim(operand.dims[last])
    );
    let (mut dims, mut limits) = (operand.dims.clone(), shapes::bounds(operand));
    (dims[last], limits[last]) = (k, DYNAMIC);
    let values = shapes::bounded(dims, limits, operand.element.clone());
    let indices = shapes::with_element(&values, DType::I32.into());
    Ok(vec![values.into(), indices.into()])
}
