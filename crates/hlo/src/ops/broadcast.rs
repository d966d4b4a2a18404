//! `stablehlo.broadcast`: adds leading dimensions (deprecated).

use crate::ir::DYNAMIC;
use crate::ops::def::{
    Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm, no_constraints,
};
use crate::ops::rules::{Inferred, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.broadcast",
    class: OpClass::Movement,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "broadcast_sizes", kind: AttrKind::I64s, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("sizes"),
        Piece::Word("="),
        Piece::Attr("broadcast_sizes"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "broadcast_v1", attrs: &["broadcast_sizes"] }],
    infer: Some(Infer::by("broadcast", infer)),
    check: no_constraints,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let operand = op.tensor(0)?;
    let sizes = op.i64s("broadcast_sizes")?;
    for &size in sizes {
        require!(size >= 0, "broadcast", "broadcast_sizes holds {size}");
    }
    let dims = [sizes, &operand.dims].concat();
    let limits = [vec![DYNAMIC; sizes.len()], shapes::bounds(operand)].concat();
    Ok(vec![shapes::bounded(dims, limits, operand.element.clone()).into()])
}
