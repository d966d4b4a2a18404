//! `stablehlo.dot`: matmul (deprecated).

use crate::ir::{Attr, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::{Checked, contraction, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dot",
    class: OpClass::Contraction,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef {
        name: "precision_config",
        kind: AttrKind::Keywords(KeywordSet::Precision),
        presence: Presence::Default(|| Attr::Array([].into())),
    }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Precision,
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "dot_v1", attrs: &["precision_config"] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let (lhs, rhs, result) = (op.tensor(0)?, op.tensor(1)?, op.result_tensor(0)?);
    for (name, ty) in [("lhs", lhs), ("rhs", rhs)] {
        require!((1..=2).contains(&ty.rank()), "dot", "{name} is {}, rank 1 or 2 expected", spelling::tensor(ty));
    }
    let (a, b) = (lhs.dims[lhs.rank() - 1], rhs.dims[0]);
    require!(shapes::dims_agree(a, b), "dot", "lhs dim {} is {a}, rhs dim 0 is {b}", lhs.rank() - 1);
    let dims = [&lhs.dims[..lhs.rank() - 1], &rhs.dims[1..]].concat();
    contraction::same_field("dot", [lhs, rhs, result])?;
    shapes::same_dims("dot", ("the matmul", &dims), ("result", &result.dims))
}
