//! Takes a self-checking program apart: what a device computes, and the checks on its results.

use std::collections::HashMap;

use hlo::passes::{self, INLINE};
use hlo::{Attrs, Func, Module, NewOp, Op, OpId, OpKind, OpName, Type, Value, Verified, Visibility, bytecode};

use crate::commands::check::cases::{callees, is_check};

/// The function of [`Split::checks`].
pub(super) const CHECKS: &str = "checks";
/// Programs that grow beyond this many ops when calls are replaced by what they call keep the calls.
const MAX_OPS: usize = 1 << 20;

/// A case in two parts.
#[derive(Debug)]
pub(super) struct Split {
    /// The program without checks, as a portable artifact: it returns what they read.
    pub(super) program: Vec<u8>,
    /// What it returns.
    pub(super) types: Vec<Type>,
    /// A function that takes those values and has only the checks.
    pub(super) checks: Verified,
}

/// Takes a case apart, or says why it cannot be.
pub(super) fn split(module: &Verified, function: &str) -> Result<Split, String> {
    let options = passes::Options { max_ops: MAX_OPS, ..passes::Options::default() };
    let (inlined, _) = passes::apply(module.clone(), &[INLINE], &options).map_err(|e| e.to_string())?;
    let mut module = keep_reachable(inlined.into_inner(), function)?;
    let (entry, others) = module.funcs.split_first_mut().ok_or("there is no function")?;
    if others.iter().any(|func| func.ops.iter().any(is_check)) {
        return Err("a function that stays a function checks".into());
    }
    for op in entry.ops.iter().chain(others.iter().flat_map(|func| &func.ops)) {
        match op.kind() {
            Some(OpKind::InterpreterRunParallel) => return Err("it runs several processes".into()),
            Some(OpKind::InterpreterProbe) => return Err("it records values while it runs".into()),
            _ => {}
        }
    }
    let (read, checks) = take_checks(entry)?;
    let types: Vec<Type> = read.iter().map(|&value| entry.ty(value).clone()).collect();
    types.iter().try_for_each(static_tensor)?;
    return_values(entry, &read, &types)?;
    for func in &mut module.funcs {
        drop_prints(func);
        func.renumber();
    }
    let module = hlo::verify(module).map_err(|e| format!("without its checks, {e}"))?;
    let program = bytecode::write(&module).map_err(|e| e.to_string())?;
    Ok(Split { program, types, checks })
}

/// The entry first, called `main`, and what it still calls.
fn keep_reachable(mut module: Module, function: &str) -> Result<Module, String> {
    let mut kept: Vec<Func> = Vec::new();
    let mut pending = vec![function.to_string()];
    while let Some(name) = pending.pop() {
        let Some(at) = module.funcs.iter().position(|func| *func.name == *name) else { continue };
        let func = module.funcs.swap_remove(at);
        pending.extend(callees(&func).into_iter().map(str::to_string));
        kept.push(func);
    }
    let Some((entry, others)) = kept.split_first_mut() else { return Err(format!("there is no @{function}")) };
    if others.iter().any(|func| &*func.name == "main") {
        return Err("it calls @main".into());
    }
    entry.name = "main".into();
    entry.visibility = Visibility::Public;
    others.iter_mut().for_each(|func| func.visibility = Visibility::Private);
    module.funcs = kept;
    Ok(module)
}

/// Removes the checks of a function; gives the values they read, and the checks on those.
fn take_checks(func: &mut Func) -> Result<(Vec<Value>, Verified), String> {
    let body = func.body.ok_or("it has no body")?;
    let (taken, left): (Vec<OpId>, Vec<OpId>) = func.region(body).ops.iter().partition(|&&id| is_check(func.op(id)));
    let everywhere = func.walk().into_iter().filter(|&id| is_check(func.op(id))).count();
    if everywhere > taken.len() {
        return Err("it checks inside a loop or a branch".into());
    }
    let mut read: Vec<Value> = Vec::new();
    let mut arguments: HashMap<Value, Value> = HashMap::new();
    let mut checks = Func::new(CHECKS);
    let region = checks.add_region();
    checks.body = Some(region);
    for &id in &taken {
        let Op { name, operands, attrs, num_results, loc, .. } = func.op(id).clone();
        if name == OpName::Known(OpKind::CheckExpectSerializedEq) {
            return Err("it checks recorded values".into());
        }
        if num_results > 0 {
            return Err("a check has results".into());
        }
        let operands = operands
            .iter()
            .map(|&value| {
                *arguments.entry(value).or_insert_with(|| {
                    read.push(value);
                    let ty = func.ty(value).clone();
                    checks.inputs.push(ty.clone());
                    checks.input_attrs.push(Attrs::new());
                    checks.add_argument(region, ty, None)
                })
            })
            .collect();
        checks.add_op(region, NewOp { operands, attrs, loc, ..NewOp::new(name) });
    }
    checks.add_op(region, NewOp::new(OpName::Known(OpKind::FuncReturn)));
    func.regions[body.0 as usize].ops = left;
    let checks = hlo::verify(Module { funcs: vec![checks], ..Module::default() });
    Ok((read, checks.map_err(|e| format!("the checks alone: {e}"))?))
}

fn return_values(func: &mut Func, values: &[Value], types: &[Type]) -> Result<(), String> {
    let last = func.body.and_then(|body| func.region(body).ops.last().copied()).ok_or("it has no end")?;
    func.op_mut(last).operands = values.to_vec();
    func.outputs = types.to_vec();
    func.output_attrs = vec![Attrs::new(); types.len()];
    Ok(())
}

/// Printing is the interpreter's own; it changes no value.
fn drop_prints(func: &mut Func) {
    let Func { regions, ops, .. } = func;
    let is_print = |id: &OpId| ops[id.0 as usize].kind() == Some(OpKind::InterpreterPrint);
    regions.iter_mut().for_each(|region| region.ops.retain(|id| !is_print(id)));
}

/// Whether buffers of a device can hold values of a type.
fn static_tensor(ty: &Type) -> Result<(), String> {
    match ty {
        Type::Tensor(tensor) if !matches!(tensor.element, hlo::ElementType::Plain(_)) => {
            Err("it checks values that are not of a plain element type".into())
        }
        Type::Tensor(tensor) if tensor.dims.contains(&hlo::DYNAMIC) => {
            Err("it checks values whose size only the run tells".into())
        }
        Type::Tensor(_) => Ok(()),
        _ => Err("it checks what is not a tensor".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_text(text: &str) -> Result<Split, String> {
        split(&hlo::verify(hlo::text::parse(text).unwrap()).unwrap(), "case")
    }

    #[test]
    fn what_checks_read_becomes_results() {
        let text = "func.func @two() -> tensor<i32> {
            %0 = stablehlo.constant dense<2> : tensor<i32>
            return %0 : tensor<i32>
        }
        func.func @case() -> tensor<i32> {
            %0 = func.call @two() : () -> tensor<i32>
            %1 = stablehlo.add %0, %0 : tensor<i32>
            check.expect_eq %1, %0 : tensor<i32>
            check.expect_eq_const %1, dense<4> : tensor<i32>
            stablehlo.custom_call @check.expect_eq(%0, %0) {has_side_effect = true} : (tensor<i32>, tensor<i32>) -> ()
            return %0 : tensor<i32>
        }";
        let Split { program, types, checks } = split_text(text).unwrap();
        assert!(bytecode::is_bytecode(&program));
        let program = hlo::read(&program).unwrap();
        let main = program.func("main").unwrap();
        assert_eq!((program.funcs.len(), main.outputs.len(), types.len()), (1, 2, 2));
        assert!(!main.ops.iter().any(is_check));
        let checks = checks.func(CHECKS).unwrap();
        assert_eq!((checks.inputs.len(), checks.ops.len()), (2, 4));
    }

    #[test]
    fn what_cannot_be_taken_apart_says_why() {
        #[track_caller]
        fn check(body: &str, expected: &str) {
            let text =
                format!("func.func @case() {{ %0 = stablehlo.constant dense<2> : tensor<i32>\n {body} return }}");
            assert_eq!(split_text(&text).unwrap_err(), expected);
        }
        check(
            "%1 = interpreter.probe %0, probe_id = \"p\" : tensor<i32>
             check.expect_serialized_eq %1, probe_id = \"p\" : tensor<i32>",
            "it records values while it runs",
        );
        check(
            "%i = stablehlo.constant dense<0> : tensor<i32>
             \"stablehlo.case\"(%i) ({ check.expect_eq_const %0, dense<2> : tensor<i32>
               \"stablehlo.return\"() : () -> () }) : (tensor<i32>) -> ()
             check.expect_eq_const %0, dense<2> : tensor<i32>",
            "it checks inside a loop or a branch",
        );
        check(
            "%d = stablehlo.convert %0 : (tensor<i32>) -> tensor<f32>
             %s = stablehlo.constant dense<[1]> : tensor<1xi32>
             %1 = stablehlo.dynamic_reshape %d, %s : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
             check.expect_eq %1, %1 : tensor<?xf32>",
            "it checks values whose size only the run tells",
        );
    }

    #[test]
    fn prints_are_dropped_and_ops_of_other_dialects_stay() {
        let text = "func.func @case() {
            %0 = stablehlo.constant dense<2.0> : tensor<f32>
            interpreter.print %0 : tensor<f32>
            %1 = chlo.erf %0 : tensor<f32> -> tensor<f32>
            check.expect_eq %1, %0 : tensor<f32>
            return
        }";
        let program = hlo::text::print(&hlo::read(&split_text(text).unwrap().program).unwrap());
        assert!(program.contains("chlo.erf") && !program.contains("interpreter.print"), "{program}");
    }
}
