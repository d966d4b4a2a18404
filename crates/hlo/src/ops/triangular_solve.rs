//! `stablehlo.triangular_solve`: solves triangular systems.

use crate::ir::{Keyword, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, elements, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.triangular_solve",
    class: OpClass::LinearAlgebra,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "left_side", kind: AttrKind::Bool, presence: Presence::Required },
        AttrDef { name: "lower", kind: AttrKind::Bool, presence: Presence::Required },
        AttrDef { name: "unit_diagonal", kind: AttrKind::Bool, presence: Presence::Required },
        AttrDef { name: "transpose_a", kind: AttrKind::Keyword(KeywordSet::Transpose), presence: Presence::Required },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "triangular_solve_v1", attrs: &["left_side", "lower", "transpose_a", "unit_diagonal"] }],
    infer: Some(Infer::by("triangular_solve C4", infer)),
    check,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let (a, b) = (op.tensor(0)?, op.tensor(1)?);
    shapes::same_element("triangular_solve C1", ("a", a), ("b", b))?;
    let rank = a.rank();
    require!(rank >= 2 && rank == b.rank(), "triangular_solve C2", "a has rank {rank}, b has rank {}", b.rank());
    let (rows, columns) = (a.dims[rank - 2], a.dims[rank - 1]);
    require!(shapes::dims_agree(rows, columns), "triangular_solve C3", "a is {rows} by {columns}, a square expected");
    let side = if op.is_set("left_side") { rank - 2 } else { rank - 1 };
    require!(
        shapes::dims_agree(columns, b.dims[side]),
        "triangular_solve C3",
        "a has {columns} columns, b dim {side} is {}",
        b.dims[side]
    );
    shapes::same_dims("triangular_solve C3", ("batch of a", &a.dims[..rank - 2]), ("batch of b", &b.dims[..rank - 2]))?;
    Ok(vec![op.operands[1].clone()])
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::FLOAT_COMPLEX_QUANTIZED, "triangular_solve I1")?;
    elements::operand(op, 1, Elements::FLOAT_COMPLEX_QUANTIZED, "triangular_solve I2")?;
    let transpose = op.keyword("transpose_a")?;
    require!(transpose != Keyword::TransposeInvalid, "triangular_solve I6", "transpose_a is {}", transpose.word());
    Ok(())
}
