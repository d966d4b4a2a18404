//! `stablehlo.broadcast_in_dim`: duplicates data into a larger shape.

use crate::ir::DYNAMIC;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, broadcast, clauses, elements, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.broadcast_in_dim",
    class: OpClass::Movement,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "broadcast_dimensions", kind: AttrKind::I64s, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("dims"),
        Piece::Word("="),
        Piece::Attr("broadcast_dimensions"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "broadcast_in_dim_v1", attrs: &["broadcast_dimensions"] }],
    infer: None,
    check,
};

const CLAUSES: [&str; 7] = clauses!("broadcast_in_dim": 0 1 2 3 4 5 6);

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::ANY, "broadcast_in_dim I1")?;
    let (operand, result) = (op.tensor(0)?, op.result_tensor(0)?);
    shapes::static_or_one_bounded("broadcast_in_dim O1", result)?;
    let to = op.i64s("broadcast_dimensions")?;
    broadcast::in_dim(&CLAUSES, operand, result, to)?;
    for (from, &to) in to.iter().enumerate() {
        let (size, got) = (operand.dims[from], result.dims[to as usize]);
        require!(
            size == DYNAMIC || size == 1 || size == got,
            "broadcast_in_dim C5",
            "operand dim {from} is {size}, result dim {to} is not"
        );
    }
    Ok(())
}
