//! `stablehlo.async_start`: starts a collective in the background.

use crate::ir::{OpKind, Type};
use crate::ops::def::{Arity, Infer, OpClass, OpDef, OpView, Text, VhloForm};
use crate::ops::rules::{Checked, Inferred, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.async_start",
    class: OpClass::Control,
    operands: Arity::at_least(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(1),
    attrs: &[],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "async_start_v1", attrs: &[] }],
    infer: Some(Infer::by("async_start C4", infer)),
    check,
};

fn infer(op: &OpView<'_>) -> Inferred {
    Ok(vec![Type::Future(op.region_outputs(0)?.into_iter().cloned().collect())])
}

fn check(op: &OpView<'_>) -> Checked {
    let body = op.region(0)?;
    require!(body.ops.len() == 2, "async_start C1", "the body has {} ops, one and a return expected", body.ops.len());
    let inner = op.func.op(body.ops[0]);
    let is_allowed = matches!(
        inner.kind(),
        Some(
            OpKind::AllReduce
                | OpKind::AllGather
                | OpKind::AllToAll
                | OpKind::CollectivePermute
                | OpKind::ReduceScatter
                | OpKind::CollectiveBroadcast
                | OpKind::Slice
                | OpKind::DynamicSlice
                | OpKind::DynamicUpdateSlice
        )
    );
    require!(is_allowed, "async_start C2", "{} cannot run in the background", inner.name.as_str());
    let args: Vec<&Type> = op.region_inputs(0)?;
    shapes::same_types("async_start C3", ("operand", op.operands.iter()), ("body argument", args.into_iter()))?;
    require!(
        inner.operands == body.args,
        "async_start C3",
        "{} must take the body's arguments in their order",
        inner.name.as_str()
    );
    let returned = &op.func.op(body.ops[1]).operands;
    require!(
        inner.results().eq(returned.iter().copied()),
        "async_start C4",
        "the body must return the results of {}",
        inner.name.as_str()
    );
    Ok(())
}
