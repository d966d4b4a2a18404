//! `stablehlo.get_tuple_element`: one element of a tuple.

use crate::ir::Type;
use crate::ops::def::{
    Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm, Violation, no_constraints,
};
use crate::ops::rules::{Inferred, dimensions, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.get_tuple_element",
    class: OpClass::Structure,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "index", kind: AttrKind::I32, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word("["),
        Piece::Attr("index"),
        Piece::Word("]"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "get_tuple_element_v1", attrs: &["index"] }],
    infer: Some(Infer::by("get_tuple_element C2", infer)),
    check: no_constraints,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let [Type::Tuple(types)] = op.operands else {
        let message = format!("the operand must be a tuple, is {}", spelling::types(op.operands));
        return Err(Violation::new("get_tuple_element I1", message));
    };
    let index = dimensions::index("get_tuple_element C1", "index", op.int("index")?, types.len())?;
    Ok(vec![types[index].clone()])
}
