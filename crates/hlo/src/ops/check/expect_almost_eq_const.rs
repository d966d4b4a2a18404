//! `check.expect_almost_eq_const`: expects a tensor to almost equal a constant.

use crate::ir::Attr;
use tensor::DType;

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, Violation};
use crate::ops::rules::{Checked, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "check.expect_almost_eq_const",
    class: OpClass::Testing,
    operands: Arity::exactly(1),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "value", kind: AttrKind::Dense, presence: Presence::Required },
        AttrDef { name: "tolerance", kind: AttrKind::Number(DType::F64), presence: Presence::Optional },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Attr("value"),
        Piece::IfAttr(
            "tolerance",
            &[Piece::Word(","), Piece::Word("tolerance"), Piece::Word("="), Piece::Attr("tolerance")],
        ),
        Piece::AttrDict,
    ]),
    vhlo: &[],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let Attr::Dense(value) = op.attr("value")? else {
        return Err(Violation::new("check.expect_almost_eq_const", "value must be a dense constant"));
    };
    let operand = op.tensor(0)?;
    require!(
        shapes::tensors_agree(operand, &value.ty),
        "check.expect_almost_eq_const",
        "the operand is {}, the expected value {}",
        spelling::tensor(operand),
        spelling::tensor(&value.ty)
    );
    Ok(())
}
