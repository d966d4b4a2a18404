//! `stablehlo.reduce_precision`: rounds to a smaller float format and back.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, elements, elementwise, require};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.reduce_precision",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "exponent_bits", kind: AttrKind::I32, presence: Presence::Required },
        AttrDef { name: "mantissa_bits", kind: AttrKind::I32, presence: Presence::Required },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("format"),
        Piece::Word("="),
        Piece::ExponentMantissa,
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::SameType,
    ]),
    vhlo: &[VhloForm { name: "reduce_precision_v1", attrs: &["exponent_bits", "mantissa_bits"] }],
    infer: Some(Infer::by("reduce_precision C1", |op| elementwise::infer(op, "reduce_precision C1"))),
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::FLOAT_QUANTIZED, "reduce_precision I1")?;
    let (exponent, mantissa) = (op.int("exponent_bits")?, op.int("mantissa_bits")?);
    require!(exponent >= 1, "reduce_precision C2", "exponent_bits is {exponent}");
    require!(mantissa >= 0, "reduce_precision C3", "mantissa_bits is {mantissa}");
    Ok(())
}
