//! `stablehlo.rng`: random numbers of a distribution.

use crate::ir::{DYNAMIC, Keyword, KeywordSet, TensorType};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, elements, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.rng",
    class: OpClass::Random,
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef {
        name: "rng_distribution",
        kind: AttrKind::Keyword(KeywordSet::RngDistribution),
        presence: Presence::Required,
    }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Word(","),
        Piece::Operand(2),
        Piece::Word(","),
        Piece::Word("distribution"),
        Piece::Word("="),
        Piece::Attr("rng_distribution"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "rng_v1", attrs: &["rng_distribution"] }],
    infer: Some(Infer::by("rng C3", infer)),
    check,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let (a, b) = (op.tensor(0)?, op.tensor(1)?);
    shapes::same_element("rng C1", ("a", a), ("b", b))?;
    elements::sizes(op, 2, "rng I3")?;
    let dims = match (op.constant(2), op.tensor(2)?.dims[0]) {
        (Some(sizes), _) => {
            for (d, &size) in sizes.iter().enumerate() {
                require!(size >= 0, "rng C3", "shape[{d}] is {size}");
            }
            sizes
        }
        // An unknown number of dimensions, or more than any tensor has, determines nothing.
        (None, rank) => match usize::try_from(rank) {
            Ok(rank) if rank <= 1 << 10 => vec![DYNAMIC; rank],
            _ => return Ok(op.results.to_vec()),
        },
    };
    Ok(vec![TensorType::new(dims, a.element.clone()).into()])
}

fn check(op: &OpView<'_>) -> Checked {
    let accepted = Elements::BOOL_INTEGER.or(Elements::FLOAT);
    elements::scalar(op, 0, accepted, "rng I1")?;
    elements::scalar(op, 1, accepted, "rng I2")?;
    if op.keyword("rng_distribution")? == Keyword::Normal {
        elements::operand(op, 0, Elements::FLOAT, "rng C2")?;
    }
    Ok(())
}
