//! Written programs that mutations start from: files of any number of functions become programs of one entry each.

use hlo::{Module, OpKind};

/// The programs of a text, split where a line of dashes divides it: each function that stands alone, and each module that has a
/// `main`.
pub fn read(text: &str) -> Vec<Module> {
    let mut found = Vec::new();
    for part in text.split("// -----") {
        let Ok(mut module) = hlo::text::parse(part) else { continue };
        module.strip_locations();
        if module.entry().is_some() {
            found.push(module);
            continue;
        }
        let calls = |kind: Option<OpKind>| {
            matches!(
                kind,
                Some(OpKind::FuncCall | OpKind::Composite | OpKind::CustomCall | OpKind::InterpreterRunParallel)
            )
        };
        for func in &module.funcs {
            if func.body.is_some() && !func.ops.iter().any(|op| calls(op.kind())) {
                let mut func = func.clone();
                func.name = "main".into();
                found.push(Module { funcs: vec![func], ..module.clone() });
            }
        }
    }
    found
}
