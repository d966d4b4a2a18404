//! `chlo.broadcast_complex`: makes complex numbers from parts with implicit broadcasting.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, no_constraints};
use crate::ops::rules::{Inferred, broadcast, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.broadcast_complex",
    class: OpClass::Broadcasting,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "broadcast_dimensions", kind: AttrKind::I64s, presence: Presence::Optional }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("chlo.broadcast_complex", infer)),
    check: no_constraints,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let element = broadcast::complex_of("chlo.broadcast_complex", op.tensor(0)?)?;
    shapes::same_element("chlo.broadcast_complex", ("lhs", op.tensor(0)?), ("rhs", op.tensor(1)?))?;
    broadcast::infer(op, Some(element.into()))
}
