//! `stablehlo.after_all`: joins tokens into one.

use crate::ir::Type;
use crate::ops::def::{Arity, Infer, OpClass, OpDef, OpView, Piece, Text, VhloForm};
use crate::ops::rules::{Checked, require, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.after_all",
    class: OpClass::Structure,
    operands: Arity::at_least(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "after_all_v1", attrs: &[] }],
    infer: Some(Infer::by("after_all O1", |_| Ok(vec![Type::Token]))),
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    for (n, ty) in op.operands.iter().enumerate() {
        require!(*ty == Type::Token, "after_all I1", "operand {n} must be a token, is {}", spelling::ty(ty));
    }
    Ok(())
}
