//! `stablehlo.iota`: counts along a dimension.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, dimensions, elements, require, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.iota",
    class: OpClass::Source,
    operands: Arity::exactly(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "iota_dimension", kind: AttrKind::I64, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Word("dim"),
        Piece::Word("="),
        Piece::Attr("iota_dimension"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ResultTypes,
    ]),
    vhlo: &[VhloForm { name: "iota_v1", attrs: &["iota_dimension"] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    elements::result(op, 0, Elements::NUMBER, "iota O1")?;
    let result = op.result_tensor(0)?;
    require!(result.is_static(), "iota O1", "the result {} is not static", spelling::tensor(result));
    dimensions::index("iota C1", "iota_dimension", op.int("iota_dimension")?, result.rank()).map(drop)
}
