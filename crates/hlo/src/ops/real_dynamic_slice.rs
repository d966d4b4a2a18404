//! `stablehlo.real_dynamic_slice`: slice with bounds known at run time.

use crate::ops::def::{Arity, OpClass, OpDef, OpView, Piece, Text, VhloForm};
use crate::ops::rules::{Checked, elements, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.real_dynamic_slice",
    class: OpClass::Indexing,
    operands: Arity::exactly(4),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::FunctionType]),
    vhlo: &[VhloForm { name: "real_dynamic_slice_v1", attrs: &[] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let (operand, result) = (op.tensor(0)?, op.result_tensor(0)?);
    shapes::same_element("real_dynamic_slice", ("operand", operand), ("result", result))?;
    require!(
        operand.rank() == result.rank(),
        "real_dynamic_slice",
        "the operand has rank {}, the result {}",
        operand.rank(),
        result.rank()
    );
    for n in 1..4 {
        elements::sizes(op, n, "real_dynamic_slice")?;
        let size = op.tensor(n)?.dims[0];
        require!(
            shapes::dims_agree(size, operand.rank() as i64),
            "real_dynamic_slice",
            "operand {n} has {size} elements, the operand has rank {}",
            operand.rank()
        );
        require!(
            op.operands[n] == op.operands[1],
            "real_dynamic_slice",
            "operand 1 is {}, operand {n} is {}",
            spelling::ty(&op.operands[1]),
            spelling::ty(&op.operands[n])
        );
    }
    Ok(())
}
