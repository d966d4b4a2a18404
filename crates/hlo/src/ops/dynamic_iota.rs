//! `stablehlo.dynamic_iota`: iota of a shape known at run time.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, dimensions, elements, require, reshaping, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_iota",
    class: OpClass::Source,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "iota_dimension", kind: AttrKind::I64, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("dim"),
        Piece::Word("="),
        Piece::Attr("iota_dimension"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "dynamic_iota_v1", attrs: &["iota_dimension"] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    elements::sizes(op, 0, "dynamic_iota I1")?;
    let (shape, result) = (op.tensor(0)?, op.result_tensor(0)?);
    elements::result(op, 0, Elements::NUMBER, "dynamic_iota O1")?;
    dimensions::index("dynamic_iota C1", "iota_dimension", op.int("iota_dimension")?, result.rank())?;
    require!(
        shapes::dims_agree(shape.dims[0], result.rank() as i64),
        "dynamic_iota C2",
        "output_shape has {} elements, the result has rank {}",
        shape.dims[0],
        result.rank()
    );
    reshaping::shape_operand("dynamic_iota C2", op.constant(0).as_deref(), result)
}
