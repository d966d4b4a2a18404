//! `stablehlo.dynamic_pad`: padding with amounts known at run time.

use crate::ops::def::{Arity, OpClass, OpDef, OpView, Piece, Text, VhloForm, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, elements, padding, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_pad",
    class: OpClass::Indexing,
    operands: Arity::exactly(5),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::FunctionType]),
    vhlo: &[VhloForm { name: "dynamic_pad_v1", attrs: &[] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "dynamic_pad I1")?;
    elements::scalar(op, 1, Elements::TENSOR, "dynamic_pad I2")?;
    for (n, clause) in [(2, "dynamic_pad I3"), (3, "dynamic_pad I4"), (4, "dynamic_pad I5")] {
        elements::sizes(op, n, clause)?;
    }
    let (operand, result) = (op.tensor(0)?, op.result_tensor(0)?);
    shapes::identical_element("dynamic_pad C1", ("operand", operand), ("padding_value", op.tensor(1)?))?;
    shapes::identical_element("dynamic_pad C1", ("operand", operand), ("result", result))?;
    for n in 2..5 {
        let size = op.tensor(n)?.dims[0];
        require!(
            shapes::dims_agree(size, operand.rank() as i64),
            "dynamic_pad C2",
            "operand {n} has {size} elements, the operand has rank {}",
            operand.rank()
        );
    }
    require!(
        operand.rank() == result.rank(),
        "dynamic_pad C4",
        "the operand has rank {}, the result {}",
        operand.rank(),
        result.rank()
    );
    let interior = op.constant(4);
    if let Some(negative) = interior.iter().flatten().find(|&&n| n < 0) {
        return Err(Violation::new("dynamic_pad C3", format!("interior_padding holds {negative}")));
    }
    let (Some(low), Some(high), Some(interior)) = (op.constant(2), op.constant(3), interior) else { return Ok(()) };
    for (d, (&size, &got)) in operand.dims.iter().zip(&result.dims).enumerate() {
        let want = padding::padded(size, low[d], high[d], interior[d]);
        require!(
            want.is_some_and(|want| shapes::dims_agree(want, got)),
            "dynamic_pad C4",
            "operand dim {d} is {size}, padded {}, result dim {d} is {got}",
            want.map_or("negative or beyond 64 bits".into(), |want| want.to_string())
        );
    }
    Ok(())
}
