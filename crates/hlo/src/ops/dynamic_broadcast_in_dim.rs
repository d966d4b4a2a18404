//! `stablehlo.dynamic_broadcast_in_dim`: broadcast to a shape known at run time.

use crate::ir::{Attr, DYNAMIC};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, broadcast, clauses, dimensions, elements, require, reshaping, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_broadcast_in_dim",
    class: OpClass::Indexing,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "broadcast_dimensions", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef {
            name: "known_expanding_dimensions",
            kind: AttrKind::I64s,
            presence: Presence::Default(|| Attr::i64s([])),
        },
        AttrDef {
            name: "known_nonexpanding_dimensions",
            kind: AttrKind::I64s,
            presence: Presence::Default(|| Attr::i64s([])),
        },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Word(","),
        Piece::Word("dims"),
        Piece::Word("="),
        Piece::Attr("broadcast_dimensions"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm {
        name: "dynamic_broadcast_in_dim_v1",
        attrs: &["broadcast_dimensions", "known_expanding_dimensions", "known_nonexpanding_dimensions"],
    }],
    infer: None,
    check,
};

const CLAUSES: [&str; 7] = clauses!("dynamic_broadcast_in_dim": 0 1 2 3 4 5 6);

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::ANY, "dynamic_broadcast_in_dim I1")?;
    elements::sizes(op, 1, "dynamic_broadcast_in_dim I2")?;
    let (operand, shape, result) = (op.tensor(0)?, op.tensor(1)?, op.result_tensor(0)?);
    let to = op.i64s("broadcast_dimensions")?;
    broadcast::in_dim(&CLAUSES, operand, result, to)?;
    require!(
        shapes::dims_agree(shape.dims[0], result.rank() as i64),
        "dynamic_broadcast_in_dim C7",
        "output_dimensions has {} elements, the result has rank {}",
        shape.dims[0],
        result.rank()
    );
    let constant = op.constant(1);
    reshaping::shape_operand("dynamic_broadcast_in_dim C7", constant.as_deref(), result)?;
    if let Some(sizes) = constant {
        for (from, &to) in to.iter().enumerate() {
            let (have, want) = (operand.dims[from], sizes.get(to as usize).copied().unwrap_or(DYNAMIC));
            require!(
                have == 1 || shapes::dims_agree(have, want),
                "dynamic_broadcast_in_dim C5",
                "operand dim {from} is {have}, output_dimensions[{to}] is {want}"
            );
        }
    }
    let expanding = op.i64s_or("known_expanding_dimensions", 0, 0)?;
    let kept = op.i64s_or("known_nonexpanding_dimensions", 0, 0)?;
    dimensions::unique(
        "dynamic_broadcast_in_dim C8",
        "known expanding and nonexpanding dimensions",
        expanding.iter().chain(&kept).copied(),
    )?;
    dimensions::in_range("dynamic_broadcast_in_dim C9", "known_expanding_dimensions", &expanding, operand.rank())?;
    dimensions::in_range("dynamic_broadcast_in_dim C10", "known_nonexpanding_dimensions", &kept, operand.rank())
}
