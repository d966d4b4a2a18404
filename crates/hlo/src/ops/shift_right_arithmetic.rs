//! `stablehlo.shift_right_arithmetic`: shift right keeping the sign.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.shift_right_arithmetic",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::SameType,
    ]),
    vhlo: &[VhloForm { name: "shift_right_arithmetic_v1", attrs: &[] }],
    infer: Some(Infer::by("shift_right_arithmetic C1", |op| elementwise::infer(op, "shift_right_arithmetic C1"))),
    check: |op| elementwise::binary(op, Elements::INTEGER, ["shift_right_arithmetic I1", "shift_right_arithmetic I2"]),
};
