//! `stablehlo.get_tuple_element`: one element of a tuple.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.get_tuple_element",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "index", kind: AttrKind::I32, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word("["),
        Piece::Attr("index"),
        Piece::Word("]"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "get_tuple_element_v1", attrs: &["index"] }],
    infer: None,
    check: no_constraints,
};
