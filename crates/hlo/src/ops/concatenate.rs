//! `stablehlo.concatenate`: joins tensors along a dimension.

use crate::ir::DYNAMIC;
use crate::ops::def::{
    Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm, Violation,
};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Inferred, dimensions, elements, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.concatenate",
    class: OpClass::Movement,
    operands: Arity::at_least(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "dimension", kind: AttrKind::I64, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::OperandsThenComma(0),
        Piece::Word("dim"),
        Piece::Word("="),
        Piece::Attr("dimension"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "concatenate_v1", attrs: &["dimension"] }],
    infer: Some(Infer::by("concatenate C6", infer)),
    check: |op| elements::operands_from(op, 0, Elements::TENSOR, "concatenate I1"),
};

fn infer(op: &OpView<'_>) -> Inferred {
    let types = op.tensors()?;
    let Some((first, rest)) = types.split_first() else {
        return Err(Violation::new("concatenate C3", "there must be at least one operand"));
    };
    let dim = dimensions::index("concatenate C4", "dimension", op.int("dimension")?, first.rank())?;
    let (mut dims, mut limits) = (first.dims.clone(), shapes::bounds(first));
    for (n, ty) in rest.iter().enumerate() {
        let name = format!("operand {}", n + 1);
        shapes::identical_element("concatenate C1", ("operand 0", first), (&name, ty))?;
        require!(
            ty.rank() == first.rank(),
            "concatenate C2",
            "operand 0 has rank {}, {name} has rank {}",
            first.rank(),
            ty.rank()
        );
        for d in 0..dims.len() {
            let (a, b) = ((dims[d], limits[d]), (ty.dims[d], shapes::bound(ty, d)));
            (dims[d], limits[d]) = if d == dim { joined(a, b)? } else { shapes::meet_dim("concatenate C2", d, a, b)? };
        }
    }
    Ok(vec![shapes::bounded(dims, limits, first.element.clone()).into()])
}

/// Size and bound of two sizes laid end to end.
fn joined(a: (i64, i64), b: (i64, i64)) -> Result<(i64, i64), Violation> {
    let limit = |x: (i64, i64)| if x.0 == DYNAMIC { x.1 } else { x.0 };
    if limit(a) == DYNAMIC || limit(b) == DYNAMIC {
        return Ok((DYNAMIC, DYNAMIC));
    }
    let Some(sum) = limit(a).checked_add(limit(b)) else {
        return Err(Violation::new("concatenate C6", "the joined dimension overflows 64 bits"));
    };
    Ok(if a.0 == DYNAMIC || b.0 == DYNAMIC { (DYNAMIC, sum) } else { (sum, DYNAMIC) })
}
