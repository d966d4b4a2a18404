//! `stablehlo.slice`: extracts a static slice.

use crate::ir::{DYNAMIC, TensorType};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Inferred, dimensions, elements, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.slice",
    class: OpClass::Movement,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "start_indices", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef { name: "limit_indices", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef { name: "strides", kind: AttrKind::I64s, presence: Presence::Required },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::SliceRanges,
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "slice_v1", attrs: &["limit_indices", "start_indices", "strides"] }],
    infer: Some(Infer::by("slice C5", infer)),
    check: |op| elements::operand(op, 0, Elements::TENSOR, "slice I1"),
};

fn infer(op: &OpView<'_>) -> Inferred {
    let operand = op.tensor(0)?;
    let (start, limit, strides) = (op.i64s("start_indices")?, op.i64s("limit_indices")?, op.i64s("strides")?);
    for (name, list) in [("start_indices", start), ("limit_indices", limit), ("strides", strides)] {
        dimensions::count("slice C2", name, list.len(), operand.rank())?;
    }
    let mut dims = Vec::with_capacity(operand.rank());
    for d in 0..operand.rank() {
        let size = if operand.dims[d] == DYNAMIC { shapes::bound(operand, d) } else { operand.dims[d] };
        require!(
            0 <= start[d] && start[d] <= limit[d] && (size == DYNAMIC || limit[d] <= size),
            "slice C3",
            "dim {d} is {}, its slice is {} to {}",
            spelling::dim(size),
            start[d],
            limit[d]
        );
        require!(strides[d] > 0, "slice C4", "strides[{d}] is {}", strides[d]);
        let length = limit[d] - start[d];
        dims.push(length / strides[d] + i64::from(length % strides[d] != 0));
    }
    Ok(vec![TensorType::new(dims, operand.element.clone()).into()])
}
