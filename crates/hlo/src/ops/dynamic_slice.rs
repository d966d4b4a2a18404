//! `stablehlo.dynamic_slice`: slice at start indices known at run time.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_slice",
    operands: Arity::at_least(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "slice_sizes", kind: AttrKind::I64s, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::OperandsThenComma(1),
        Piece::Word("sizes"),
        Piece::Word("="),
        Piece::Attr("slice_sizes"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "dynamic_slice_v1", attrs: &["slice_sizes"] }],
    infer: None,
    check: no_constraints,
};
