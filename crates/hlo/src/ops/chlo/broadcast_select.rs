//! `chlo.broadcast_select`: select with implicit broadcasting.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, no_constraints};
use crate::ops::rules::broadcast;

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.broadcast_select",
    class: OpClass::Broadcasting,
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::FunctionType]),
    vhlo: &[],
    infer: Some(Infer::by("chlo.broadcast_select", broadcast::infer_select)),
    check: no_constraints,
};
