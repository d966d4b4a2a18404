//! Changing what the entry function takes and gives: ops behind arguments and before results.

use compile::Program;
use hlo::{Func, NewOp, OpKind, Type, Value};

use crate::error::Error;

/// A copy of a program with a changed entry function; `None` where nothing changed.
pub(super) fn edit(program: &Program, change: impl FnOnce(&mut Func) -> bool) -> Result<Option<Program>, Error> {
    let mut module = program.verified().clone().into_inner();
    let name = module.entry().map(|func| func.name.clone());
    let Some(func) = module.funcs.iter_mut().find(|func| Some(&func.name) == name.as_ref()) else { return Ok(None) };
    let (inputs, outputs) = (func.inputs.len(), func.outputs.len());
    func.input_attrs.resize_with(inputs, Default::default);
    func.output_attrs.resize_with(outputs, Default::default);
    if !change(func) {
        return Ok(None);
    }
    Ok(Some(Program::from_module(hlo::verify(module)?)))
}

/// Puts an op between an argument and everything that reads it. The op takes the argument as its only operand.
pub(super) fn after_argument(func: &mut Func, index: usize, op: NewOp) -> Option<()> {
    let body = func.body?;
    let argument: Value = *func.args().get(index)?;
    let id = func.add_op(body, NewOp { operands: vec![argument], ..op });
    let result = func.op(id).first_result;
    func.regions.get_mut(body.0 as usize)?.ops.rotate_right(1);
    for (position, other) in func.ops.iter_mut().enumerate() {
        if position != id.0 as usize {
            other.operands.iter_mut().filter(|operand| **operand == argument).for_each(|operand| *operand = result);
        }
    }
    Some(())
}

/// Puts an op between a result's value and the end of the function.
pub(super) fn before_result(func: &mut Func, index: usize, op: NewOp) -> Option<()> {
    let body = func.body?;
    let last = *func.region(body).ops.last()?;
    if func.op(last).kind() != Some(OpKind::FuncReturn) {
        return None;
    }
    let value = *func.op(last).operands.get(index)?;
    let id = func.add_op(body, NewOp { operands: vec![value], ..op });
    let result = func.op(id).first_result;
    let ops = &mut func.regions.get_mut(body.0 as usize)?.ops;
    let count = ops.len();
    ops.swap(count - 1, count - 2);
    *func.op_mut(last).operands.get_mut(index)? = result;
    Some(())
}

/// Gives an argument another type.
pub(super) fn retype_argument(func: &mut Func, index: usize, ty: Type) -> Option<()> {
    let argument = *func.args().get(index)?;
    *func.inputs.get_mut(index)? = ty.clone();
    func.values.get_mut(argument.0 as usize)?.ty = ty;
    Some(())
}
