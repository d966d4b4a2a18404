//! Makes a program with symbolic sizes static for given argument types: sizes are followed forward, and every op whose
//! result sizes are operands becomes the op whose sizes are attributes.

mod reducer;
mod sizes;
mod statics;
mod types;

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Finding};
use crate::ir::{Attr, Func, Module, Op, OpId, OpKind, Type, Value, Visibility};
use crate::ops::rules::spelling;
use crate::ops::{OpView, Violation};
use crate::verify::{Verified, constraints, verify};

use super::rewrite::{Replacement, Site, walk};
use super::{Evaluate, Options, Partitioned, Statistics, dce, fold, inline};

/// Ops the program may have after inlining. Sizes are followed through calls by putting bodies in their place, so a call
/// beyond this is an error here.
const MAX_OPS: usize = 1_000_000;
/// Findings reported at most.
const MAX_FINDINGS: usize = 50;
/// Replacements at most: every op is replaced a few times by something simpler, never by something that grows.
const REPLACEMENTS_PER_OP: u64 = 64;

/// The program for arguments of these types, every size known.
///
/// Calls are inlined, result types inferred again from the arguments on, `get_dimension_size` and the integer arithmetic on
/// it computed, dynamic ops replaced by static ones, and shape assertions (`custom_call @shape_assertion`) that hold are
/// dropped. [`Error::Specialize`] names assertions that do not hold, and ops whose sizes depend on values. `evaluate`
/// computes what integer arithmetic on sizes does not cover.
pub fn specialize(module: &Verified, arguments: &[Type], evaluate: Option<&Evaluate<'_>>) -> Result<Verified, Error> {
    let mut module = (**module).clone();
    let name = entry_name(&module)?;
    set_arguments(&mut module, &name, arguments)?;
    let options = Options { partitioned: partitioned(&module), evaluate, max_ops: MAX_OPS, ..Options::default() };
    let mut statistics = Statistics::default();
    inline::run(&mut module, &options, &mut statistics);
    // Functions that ops name without calling them, such as the reducers of custom calls.
    let named: HashMap<Arc<str>, Func> = module.funcs.iter().map(|func| (func.name.clone(), func.clone())).collect();
    let mut findings = Vec::new();
    for func in &mut module.funcs {
        if *func.name == *name {
            body(func, &named, &options, &mut findings);
        }
        // Only the entry is wanted; the others stay if it still names them.
        match (*func.name == *name, func.visibility) {
            (true, Visibility::Private) => func.visibility = Visibility::Public,
            (true, _) => {}
            (false, _) => func.visibility = Visibility::Private,
        }
    }
    refused(findings)?;
    dce::run(&mut module, &options, &mut statistics);
    module.attrs.remove("jax.uses_shape_polymorphism");
    module.funcs.iter_mut().for_each(Func::renumber);
    refused(module.funcs.iter().flat_map(unknown).take(MAX_FINDINGS).collect())?;
    verify(module)
}

fn refused(findings: Vec<Finding>) -> Result<(), Error> {
    if findings.is_empty() { Ok(()) } else { Err(Error::Specialize(findings)) }
}

fn finding(func: &str, op: &str, message: String) -> Finding {
    Finding { func: func.into(), op: op.into(), clause: String::new(), message, source: None }
}

fn entry_name(module: &Module) -> Result<Arc<str>, Error> {
    match module.entry() {
        Some(entry) if entry.body.is_some() => Ok(entry.name.clone()),
        _ => Err(Error::Specialize(vec![finding("main", "func.func", "there is no entry function".into())])),
    }
}

/// Shardings matter only to programs that are split over devices.
fn partitioned(module: &Module) -> Partitioned {
    let partitions = module.attrs.get("mhlo.num_partitions").and_then(Attr::as_int).unwrap_or(1);
    if module.meshes.is_empty() && partitions <= 1 { Partitioned::No } else { Partitioned::Yes }
}

/// Gives the entry function the types of its arguments.
fn set_arguments(module: &mut Module, name: &str, arguments: &[Type]) -> Result<(), Error> {
    let Some(func) = module.funcs.iter_mut().find(|func| *func.name == *name) else { return Ok(()) };
    let mut findings = Vec::new();
    if func.inputs.len() != arguments.len() {
        let message = format!("it takes {} arguments, {} types were given", func.inputs.len(), arguments.len());
        findings.push(finding(name, "func.func", message));
    }
    for (n, (declared, given)) in func.inputs.iter().zip(arguments).enumerate() {
        if !types::is_static(given) || types::refine(declared, given).as_ref() != Some(given) {
            let (declared, given) = (spelling::ty(declared), spelling::ty(given));
            let message = format!("argument {n} is {declared}, which cannot be {given}");
            findings.push(finding(name, "func.func", message));
        }
    }
    refused(findings)?;
    for (value, given) in func.args().to_vec().into_iter().zip(arguments) {
        func.values[value.0 as usize].ty = given.clone();
    }
    func.inputs = arguments.to_vec();
    Ok(())
}

/// Follows sizes through the body of a function.
fn body(func: &mut Func, named: &HashMap<Arc<str>, Func>, options: &Options<'_>, findings: &mut Vec<Finding>) {
    let branches = branch_ends(func);
    let fuel = (func.ops.len() as u64).saturating_mul(REPLACEMENTS_PER_OP);
    let name = func.name.clone();
    walk(func, fuel, |site| {
        if findings.len() >= MAX_FINDINGS {
            return None;
        }
        let mut find = |site: &Site<'_>, violation: Violation| {
            let op = site.op();
            let position = op.loc.as_ref().and_then(|loc| loc.file_position());
            findings.push(Finding {
                clause: violation.clause.into(),
                source: position.map(|(file, line, column)| format!("{file}:{line}:{column}")),
                ..finding(&name, op.name.as_str(), violation.message)
            });
        };
        match op(site, &branches, named, options) {
            Ok(replacement) => replacement,
            Err(Stop::Leave(violation)) => {
                find(site, violation);
                None
            }
            Err(Stop::Drop(violation)) => {
                find(site, violation);
                Some(Vec::new())
            }
        }
    });
    let Some(&end) = func.body.and_then(|body| func.region(body).ops.last()) else { return };
    func.outputs = func.op(end).operands.iter().map(|&value| func.ty(value).clone()).collect();
}

/// Why an op is not followed further.
enum Stop {
    /// The op stays.
    Leave(Violation),
    /// The op has no results and is not looked at again.
    Drop(Violation),
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Stop {
        Stop::Leave(violation)
    }
}

/// The op of which a branch is, by the op that ends the branch.
fn branch_ends(func: &Func) -> HashMap<OpId, OpId> {
    let mut ends = HashMap::new();
    for id in func.walk() {
        let op = func.op(id);
        if matches!(op.kind(), Some(OpKind::If | OpKind::Case)) {
            ends.extend(op.regions.iter().filter_map(|&region| Some((*func.region(region).ops.last()?, id))));
        }
    }
    ends
}

/// Gives an op's results their types, and computes or replaces the op where it is about sizes.
fn op(
    site: &mut Site<'_>,
    branches: &HashMap<OpId, OpId>,
    named: &HashMap<Arc<str>, Func>,
    options: &Options<'_>,
) -> Result<Replacement, Stop> {
    if let Some(&parent) = branches.get(&site.id()) {
        // The results of a branching op are what its branches return, the last of which is walked before their users.
        let returned: Vec<Value> = site.op().operands.clone();
        let results: Vec<Value> = site.func.op(parent).results().collect();
        for (result, value) in results.into_iter().zip(returned) {
            types::set(site.func, result, &site.func.ty(value).clone())?;
        }
        return Ok(None);
    }
    match site.op().kind() {
        None | Some(OpKind::Return | OpKind::FuncReturn | OpKind::SdyReturn) => return Ok(None),
        Some(OpKind::While) => carry(site)?,
        Some(OpKind::CustomCall) if target(site.op()) == Some("shape_assertion") => return assertion(site),
        Some(_) => {}
    }
    types::infer(site)?;
    check(site)?;
    if let Some(values) = sizes::compute(site) {
        return Ok(Some(values));
    }
    if let Some(values) = statics::replace(site)? {
        return Ok(Some(values));
    }
    if let Some(values) = reducer::replace(site, named)? {
        return Ok(Some(values));
    }
    Ok(fold::fold(site, options))
}

/// What a custom call calls.
fn target(op: &Op) -> Option<&str> {
    op.attr("call_target_name").and_then(Attr::as_str)
}

/// The arguments of a loop's regions have the types of what the loop starts from. A constant that the loop hands on as it is
/// stays known inside.
fn carry(site: &mut Site<'_>) -> Result<(), Violation> {
    let (operands, regions) = (site.op().operands.clone(), site.op().regions.clone());
    for &region in &regions {
        let arguments = site.func.region(region).args.clone();
        for (argument, &operand) in arguments.into_iter().zip(&operands) {
            types::set(site.func, argument, &site.func.ty(operand).clone())?;
        }
    }
    let [cond, body] = regions[..] else { return Ok(()) };
    let Some(&end) = site.func.region(body).ops.last() else { return Ok(()) };
    for (n, &operand) in operands.iter().enumerate() {
        let [in_cond, in_body] = [cond, body].map(|region| site.func.region(region).args.get(n).copied());
        let (Some(in_cond), Some(in_body)) = (in_cond, in_body) else { continue };
        let is_kept = site.func.op(end).operands.get(n) == Some(&in_body);
        if is_kept && site.constant(operand).is_some() {
            site.forward(in_cond, operand);
            site.forward(in_body, operand);
        }
    }
    Ok(())
}

/// Checks an op whose types are all known, before anything is computed from it.
fn check(site: &Site<'_>) -> Result<(), Violation> {
    let op = site.op();
    let Some(kind) = op.kind().filter(|_| op.regions.is_empty()) else { return Ok(()) };
    let operands: Vec<Type> = op.operands.iter().map(|&value| site.func.ty(value).clone()).collect();
    let results: Vec<Type> = op.results().map(|value| site.func.ty(value).clone()).collect();
    if kind == OpKind::FuncCall || !operands.iter().chain(&results).all(types::is_static) {
        return Ok(());
    }
    constraints(kind, &OpView::of(site.func, op, &operands, &results))
}

/// `shape_assertion(condition, values…)` with a message that has `{n}` where value `n` goes.
fn assertion(site: &mut Site<'_>) -> Result<Replacement, Stop> {
    let op = site.op();
    let known = |value: &Value| site.constant(*value).and_then(|dense| dense.to_i64s(1)?.first().copied());
    let Some(condition) = op.operands.first().and_then(known) else {
        return Err(Violation::new("", "the condition of a shape assertion depends on values").into());
    };
    if condition != 0 {
        return Ok(Some(Vec::new()));
    }
    let mut message = op.attr("error_message").and_then(Attr::as_str).unwrap_or("a shape assertion fails").to_string();
    for (n, value) in op.operands.iter().skip(1).enumerate() {
        if let Some(value) = known(value) {
            message = message.replace(&format!("{{{n}}}"), &value.to_string());
        }
    }
    Err(Stop::Drop(Violation::new("", message)))
}

/// Ops of a function whose sizes are still not known.
fn unknown(func: &Func) -> Vec<Finding> {
    let is_dynamic = |value: &Value| !types::is_static(func.ty(*value));
    let mut findings = Vec::new();
    for id in func.walk() {
        let op = func.op(id);
        let is_unknown = op.kind().is_some_and(statics::is_dynamic)
            || op.results().any(|value| is_dynamic(&value))
            || op.regions.iter().any(|&region| func.region(region).args.iter().any(is_dynamic));
        if is_unknown && findings.len() < MAX_FINDINGS {
            let types: Vec<String> = op.results().map(|value| spelling::ty(func.ty(value)).to_string()).collect();
            let message = format!("its sizes depend on values, not on argument types alone: ({})", types.join(", "));
            let position = op.loc.as_ref().and_then(|loc| loc.file_position());
            findings.push(Finding {
                source: position.map(|(file, line, column)| format!("{file}:{line}:{column}")),
                ..finding(&func.name, target(op).unwrap_or(op.name.as_str()), message)
            });
        }
    }
    findings
}
