//! The cases of a file: the functions that run by themselves, each with a name that is unique in its file.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use hlo::{Attr, Func, Module, Verified, Visibility};

use super::files::{self, Part};

/// One thing to run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Unique in its file: the function, after its module's name or a number where that is needed.
    pub(crate) name: String,
    pub(crate) body: Body,
}

/// What there is to run of a case.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Run {
        module: Arc<Verified>,
        function: Arc<str>,
    },
    /// An archive of PyTorch or a model of ONNX, and a call with its answers.
    Archive {
        archive: PathBuf,
        call: PathBuf,
    },
    Unreadable(String),
    Skipped(String),
}

/// What to do with programs that their author switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disabled {
    Skip,
    Run,
}

/// All cases of a file's bytes.
pub(crate) fn load(bytes: &[u8], disabled: Disabled) -> Vec<Case> {
    let mut found = Vec::new();
    for part in files::split(bytes) {
        cases_of(&part, &mut found);
    }
    name_uniquely(&mut found);
    let reason = match disabled {
        Disabled::Skip => files::disabled(bytes),
        Disabled::Run => None,
    };
    let mut cases: Vec<Case> = found.into_iter().map(|f| Case { name: f.name, body: f.body }).collect();
    if let Some(reason) = reason {
        for case in &mut cases {
            case.body = Body::Skipped(reason.clone());
        }
    }
    cases
}

struct Found {
    name: String,
    module: Option<Arc<str>>,
    body: Body,
}

fn cases_of(part: &Part<'_>, found: &mut Vec<Found>) {
    let nameless = format!("program-{}", part.number);
    let module = match hlo::read(part.bytes) {
        Ok(module) => module,
        Err(mut error) => {
            if let hlo::Error::Syntax { at, .. } = &mut error {
                at.line = at.line.saturating_add(part.lines_before);
            }
            found.push(Found { name: nameless, module: None, body: Body::Unreadable(error.to_string()) });
            return;
        }
    };
    let entries: Vec<(Arc<str>, bool)> =
        entries(&module).into_iter().map(|f| (Arc::clone(&f.name), reaches_check(&module, f))).collect();
    let module_name = module.name.clone();
    if entries.is_empty() {
        let why = "no function without arguments, so nothing checks itself";
        found.push(Found { name: nameless, module: None, body: Body::Skipped(why.into()) });
        return;
    }
    let verified = hlo::verify(module).map(Arc::new);
    for (function, reaches_check) in entries {
        let body = match &verified {
            // Whether it runs to its end says nothing about its results.
            _ if !reaches_check => Body::Skipped("checks nothing".into()),
            Ok(module) => Body::Run { module: Arc::clone(module), function: Arc::clone(&function) },
            Err(error) => Body::Unreadable(error.to_string()),
        };
        found.push(Found { name: function.to_string(), module: module_name.clone(), body });
    }
}

/// `@main`, and the functions that nothing else calls; none of them takes arguments.
fn entries(module: &Module) -> Vec<&Func> {
    let mut called = HashSet::new();
    for func in &module.funcs {
        called.extend(callees(func).into_iter().filter(|name| **name != *func.name));
    }
    let is_entry = |func: &&Func| {
        let visible = matches!(func.visibility, Visibility::Default | Visibility::Public);
        let stands_alone = visible && !called.contains(&*func.name);
        func.body.is_some() && func.inputs.is_empty() && (&*func.name == "main" || stands_alone)
    };
    module.funcs.iter().filter(is_entry).collect()
}

/// Functions that attributes of a function's ops name.
pub(crate) fn callees(func: &Func) -> Vec<&str> {
    let mut names = Vec::new();
    let mut pending: Vec<&Attr> = func.ops.iter().flat_map(|op| op.attrs.iter().map(|(_, attr)| attr)).collect();
    while let Some(attr) = pending.pop() {
        match attr {
            Attr::Symbol(name) => names.push(&**name),
            Attr::Array(attrs) => pending.extend(attrs.iter()),
            Attr::Dict(attrs) => pending.extend(attrs.iter().map(|(_, attr)| attr)),
            _ => {}
        }
    }
    names
}

fn reaches_check(module: &Module, entry: &Func) -> bool {
    let mut seen = HashSet::from([&*entry.name]);
    let mut pending = vec![entry];
    while let Some(func) = pending.pop() {
        if func.ops.iter().any(is_check) {
            return true;
        }
        for name in callees(func) {
            if seen.insert(name) {
                pending.extend(module.func(name));
            }
        }
    }
    false
}

/// Whether an op is one of the checks, as an op or as a custom call.
pub(crate) fn is_check(op: &hlo::Op) -> bool {
    let calls_check =
        matches!(op.attr("call_target_name"), Some(Attr::Str(name)) if name.as_bytes().starts_with(b"check."));
    calls_check || op.name.as_str().starts_with("check.")
}

fn name_uniquely(found: &mut [Found]) {
    let count = |found: &[Found]| {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for case in found {
            *counts.entry(case.name.clone()).or_default() += 1;
        }
        counts
    };
    let counts = count(found);
    for case in found.iter_mut() {
        if let Some(module) = case.module.as_deref().filter(|_| counts[&case.name] > 1) {
            case.name = format!("{module}.{}", case.name);
        }
    }
    let counts = count(found);
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for case in found.iter_mut().filter(|case| counts[&case.name] > 1) {
        let number = numbers.entry(case.name.clone()).or_default();
        *number += 1;
        case.name = format!("{}#{number}", case.name);
    }
    for case in found {
        // Lists separate a case from its reason by white space.
        case.name = case.name.replace(char::is_whitespace, "_");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let cases = load(text.as_bytes(), Disabled::Skip);
        let described: Vec<String> = cases
            .iter()
            .map(|case| match &case.body {
                Body::Run { .. } | Body::Archive { .. } => case.name.clone(),
                Body::Unreadable(why) => format!("{} unreadable: {}", case.name, why.lines().next().unwrap_or("")),
                Body::Skipped(why) => format!("{} skipped: {why}", case.name),
            })
            .collect();
        assert_eq!(described, expected);
    }

    const CHECKED: &str = "%0 = stablehlo.constant dense<1> : tensor<i32>
        check.expect_eq_const %0, dense<1> : tensor<i32>
        return";

    #[test]
    fn entries_are_what_nothing_calls() {
        let callee = "func.func private @inner() { return }
            func.func @helper() -> tensor<i32> { %0 = stablehlo.constant dense<1> : tensor<i32> return %0 : tensor<i32> }";
        let call = "%1 = func.call @helper() : () -> tensor<i32>";
        check(&format!("{callee} func.func @case() {{ {call} {CHECKED} }}"), &["case"]);
        check(&format!("func.func @a() {{ {CHECKED} }} func.func @b() {{ {CHECKED} }}"), &["a", "b"]);
        check("func.func @a() { return }", &["a skipped: checks nothing"]);
        check(
            &format!("func.func @inner() {{ {CHECKED} }} func.func @a() {{ func.call @inner() : () -> () return }}"),
            &["a"],
        );
        check(
            "func.func @main(%arg0: tensor<i32>) { return }",
            &["program-1 skipped: no function without arguments, so nothing checks itself"],
        );
    }

    #[test]
    fn names_are_unique_in_a_file() {
        let main = format!("func.func @main() {{ {CHECKED} }}");
        check(&main, &["main"]);
        check(&format!("{main}\n// -----\n{main}"), &["main#1", "main#2"]);
        check(
            &format!("module @x {{ {main} }}\n// -----\nmodule @y {{ {main} }}\n// -----\nfunc.func @z() {{ return }}"),
            &["x.main", "y.main", "z skipped: checks nothing"],
        );
    }

    #[test]
    fn a_program_that_cannot_be_read_is_one_case_among_the_others() {
        let broken = format!("func.func @a() {{ {CHECKED} }}\n// -----\nfunc.func @b( {{");
        let cases = load(broken.as_bytes(), Disabled::Skip);
        assert!(matches!(&cases[1].body, Body::Unreadable(why) if why.starts_with("line 5,")), "{cases:?}");
        assert_eq!(cases[1].name, "program-2");
    }

    #[test]
    fn disabled_programs_run_only_when_asked() {
        let text = format!("// RUN-DISABLED(slow) --interpret\nfunc.func @a() {{ {CHECKED} }}");
        check(&text, &["a skipped: RUN-DISABLED: slow"]);
        assert!(matches!(load(text.as_bytes(), Disabled::Run)[0].body, Body::Run { .. }));
    }
}
