//! `stablehlo.compare`: element-wise comparison.

use tensor::DType;

use crate::ir::{Attr, Keyword, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, elementwise, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.compare",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef {
            name: "comparison_direction",
            kind: AttrKind::Keyword(KeywordSet::ComparisonDirection),
            presence: Presence::Required,
        },
        AttrDef {
            name: "compare_type",
            kind: AttrKind::Keyword(KeywordSet::ComparisonType),
            presence: Presence::Default(|| Attr::Keyword(Keyword::CompareNoType)),
        },
    ],
    text: Text::Pieces(&[
        Piece::Attr("comparison_direction"),
        Piece::Word(","),
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::IfAttr("compare_type", &[Piece::Word(","), Piece::Attr("compare_type")]),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "compare_v1", attrs: &["compare_type", "comparison_direction"] }],
    infer: Some(Infer::by("compare C2", infer)),
    check,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let (lhs, rhs) = (op.tensor(0)?, op.tensor(1)?);
    shapes::same_element("compare C1", ("lhs", lhs), ("rhs", rhs))?;
    let ty = shapes::meet("compare C2", &[lhs, rhs])?;
    Ok(vec![shapes::with_element(&ty, DType::Bool.into()).into()])
}

fn check(op: &OpView<'_>) -> Checked {
    elementwise::binary(op, Elements::TENSOR, ["compare I1", "compare I2"])?;
    let Some(dtype) = op.tensor(0)?.element.plain() else { return Ok(()) };
    let fits = match op.attrs.get("compare_type").and_then(Attr::as_keyword) {
        None | Some(Keyword::CompareNoType) => true,
        Some(Keyword::CompareSigned) => dtype.is_signed_integer(),
        Some(Keyword::CompareUnsigned) => dtype.is_unsigned_integer() || dtype.is_bool(),
        Some(Keyword::CompareFloat) => dtype.is_float() || dtype.is_complex(),
        Some(_) => dtype.is_float(),
    };
    require!(fits, "compare C3", "compare_type does not go with elements of type {dtype}");
    Ok(())
}
