//! Donation: memory of arguments that nobody needs after a run becomes memory of results.

use std::collections::HashSet;

use hlo::attr::{ALIAS, DONOR};
use hlo::{Attr, Func, OpKind, Verified};

use super::optimizer::Context;
use super::step::RewriteStep;
use crate::error::CompileError;

const NAME: &str = "donate";

/// Gives each argument that the caller no longer needs to the first result of its type that has none yet. One that fits
/// no result is still given to the compiler, as scratch.
pub(super) fn run(module: Verified, context: &Context<'_>) -> Result<(Verified, RewriteStep), CompileError> {
    if context.donated.is_empty() {
        return Ok((module, RewriteStep::new(NAME, 0, "the caller keeps every argument")));
    }
    let mut module = module.into_inner();
    let name = module.entry().map(|func| func.name.clone());
    let Some(func) = module.funcs.iter_mut().find(|func| Some(&func.name) == name.as_ref()) else {
        return Ok((hlo::verify(module)?, RewriteStep::new(NAME, 0, "there is no entry function")));
    };
    let count = func.inputs.len();
    if let Some(&wrong) = context.donated.iter().find(|&&argument| argument >= count) {
        let message = format!("argument {wrong} cannot be donated: the program takes {count}");
        return Err(CompileError::Arguments(message));
    }
    func.input_attrs.resize_with(count, Default::default);
    let taken = func.input_attrs.iter().filter_map(|attrs| attrs.get(ALIAS)?.as_int());
    let mut taken: HashSet<usize> = taken.filter_map(|result| usize::try_from(result).ok()).collect();
    let (mut aliased, mut given) = (0, 0);
    for &argument in context.donated {
        if func.input_attrs[argument].get(ALIAS).is_some() || func.input_attrs[argument].get(DONOR).is_some() {
            continue;
        }
        let ty = &func.inputs[argument];
        let results = func.outputs.iter().enumerate();
        let fitting =
            results.filter(|(result, output)| *output == ty && !taken.contains(result)).map(|(result, _)| result);
        // A result that is the argument itself stays where it is at no cost.
        let fitting = fitting.min_by_key(|&result| (!returns(func, argument, result), result));
        match fitting.and_then(|result| Some((result, i32::try_from(result).ok()?))) {
            Some((result, number)) => {
                func.input_attrs[argument].set(ALIAS, Attr::i32(number));
                taken.insert(result);
                aliased += 1;
            }
            None => {
                func.input_attrs[argument].set(DONOR, Attr::Bool(true));
                given += 1;
            }
        }
    }
    let detail = format!("{aliased} arguments become results, {given} become scratch");
    Ok((hlo::verify(module)?, RewriteStep::new(NAME, aliased + given, detail)))
}

fn returns(func: &Func, argument: usize, result: usize) -> bool {
    let last = func.body.and_then(|body| func.region(body).ops.last());
    let returned = last.map(|&id| func.op(id)).filter(|op| op.kind() == Some(OpKind::FuncReturn));
    returned.and_then(|op| op.operands.get(result)) == func.args().get(argument)
}
