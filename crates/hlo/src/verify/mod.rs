//! Verification: a module against the specification, in time linear in its size and without recursion.

mod attributes;
mod body;
mod calls;
mod composite;
mod structure;
#[cfg(test)]
mod tests;
mod tpu;
mod types;

use std::collections::HashSet;
use std::ops::Deref;

use crate::error::{Error, Finding};
use crate::ir::{Func, Loc, Module};
use crate::ops::rules::{sharding, spelling};
use crate::ops::{Symbols, Violation};

pub(crate) use attributes::check as attributes;
pub(crate) use body::constraints;
pub(crate) use composite::named_op;
pub use tpu::{Processes, unsupported_by_tpu};

/// Findings reported at most; a program this wrong is not read to the end.
const MAX_FINDINGS: usize = 200;

/// A module that keeps every rule of the specification that can be checked before running it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified(Module);

impl Verified {
    /// The module, to change it; it must be verified again afterwards.
    pub fn into_inner(self) -> Module {
        self.0
    }

    /// A module that was made from a verified one by rewrites that keep every rule.
    pub(crate) fn by_construction(module: Module) -> Verified {
        Verified(module)
    }
}

impl Deref for Verified {
    type Target = Module;

    fn deref(&self) -> &Module {
        &self.0
    }
}

/// Checks a module; [`Error::Verify`] holds what was found, in program order.
pub fn verify(module: Module) -> Result<Verified, Error> {
    let findings = findings(&module);
    if findings.is_empty() { Ok(Verified(module)) } else { Err(Error::Verify(findings)) }
}

/// What is wrong with a module, at most some hundred findings.
pub fn findings(module: &Module) -> Vec<Finding> {
    let mut report = Report::default();
    let symbols = Symbols::of(module);
    let mut names = HashSet::new();
    for mesh in &module.meshes {
        if !names.insert(&*mesh.name) {
            report.add("", "sdy.mesh", &mesh.loc, Violation::new("", format!("@{} is defined twice", mesh.name)));
        }
        report.check("", "sdy.mesh", &mesh.loc, sharding::mesh(&mesh.mesh));
    }
    for func in &module.funcs {
        if report.is_full() {
            break;
        }
        if !names.insert(&*func.name) {
            report.func(func, Violation::new("", format!("@{} is defined twice", func.name)));
        }
        if structure::check(func, &mut report) {
            signature(func, &symbols, &mut report);
            body::check(func, &symbols, &mut report);
        }
    }
    if report.findings.is_empty() {
        calls::check(module, &mut report);
    }
    report.findings
}

/// The function's types, attributes of its values, and its body's arguments.
fn signature(func: &Func, symbols: &Symbols<'_>, report: &mut Report) {
    for (name, all, attrs) in
        [("argument", &func.inputs, &func.input_attrs), ("result", &func.outputs, &func.output_attrs)]
    {
        if !attrs.is_empty() && attrs.len() != all.len() {
            let message = format!("{} attribute lists for {} {name}s", attrs.len(), all.len());
            report.func(func, Violation::new("", message));
        }
        for (n, ty) in all.iter().enumerate() {
            let checked = types::value(ty).and_then(|()| match attrs.get(n).and_then(|a| a.get("sdy.sharding")) {
                Some(attr) => sharding::annotation(Some(symbols), attr, std::slice::from_ref(ty)),
                None => Ok(()),
            });
            if let Err(violation) = checked {
                let message = format!("{name} {n}: {}", violation.message);
                report.func(func, Violation { message, ..violation });
            }
        }
    }
    let Some(body) = func.body else {
        if func.visibility != crate::ir::Visibility::Private {
            report.func(func, Violation::new("", "a function without a body must be private"));
        }
        return;
    };
    let args = &func.region(body).args;
    if args.len() != func.inputs.len() {
        let message = format!("the body takes {} arguments, the signature has {}", args.len(), func.inputs.len());
        report.func(func, Violation::new("", message));
    }
    for (n, (&arg, ty)) in args.iter().zip(&func.inputs).enumerate() {
        if func.ty(arg) != ty {
            let message = format!(
                "argument {n} is {} in the signature, {} in the body",
                spelling::ty(ty),
                spelling::ty(func.ty(arg))
            );
            report.func(func, Violation::new("", message));
        }
    }
}

/// Findings so far.
#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
}

impl Report {
    fn is_full(&self) -> bool {
        self.findings.len() >= MAX_FINDINGS
    }

    fn add(&mut self, func: &str, op: &str, loc: &Loc, violation: Violation) {
        if self.is_full() {
            return;
        }
        let position = loc.as_ref().and_then(|loc| loc.file_position());
        self.findings.push(Finding {
            func: func.into(),
            op: op.into(),
            clause: violation.clause.into(),
            message: violation.message,
            source: position.map(|(file, line, column)| format!("{file}:{line}:{column}")),
        });
    }

    fn check(&mut self, func: &str, op: &str, loc: &Loc, checked: Result<(), Violation>) {
        if let Err(violation) = checked {
            self.add(func, op, loc, violation);
        }
    }

    fn func(&mut self, func: &Func, violation: Violation) {
        self.add(&func.name, "func.func", &func.loc, violation);
    }
}
