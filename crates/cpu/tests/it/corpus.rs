//! Programs exported from JAX: each runs on zeros, or says what this device lacks.

use std::fs;

use cpu::Error;
use cpu::interpret::{Interpreter, Options, Tensor, Value};
use hlo::Type;
use tensor::Literal;
use testkit::{Needed, require};

/// A value of zeros; `None` for types a caller cannot give.
fn zeros(ty: &Type) -> Option<Value> {
    match ty {
        Type::Tensor(ty) => {
            let dims: Option<Vec<usize>> = ty.dims.iter().map(|&d| usize::try_from(d).ok()).collect();
            let literal = Literal::zeros(ty.element.plain()?, dims?)?;
            Some(Tensor::from_literal(&literal).into())
        }
        Type::Token => Some(Value::Token),
        _ => None,
    }
}

#[test]
fn exported_programs_run() {
    let Some(folder) = require("exported_programs_run", Needed::Corpus) else { return };
    let mut wrong = Vec::new();
    let (mut ran, mut refused, mut limited) = (0, Vec::new(), 0);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|p| p.to_string_lossy().ends_with(".mlir.bc")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let module = hlo::verify(hlo::bytecode::read(&fs::read(path).unwrap()).unwrap()).unwrap();
        let Some(entry) = module.entry() else { continue };
        let Some(arguments) = entry.inputs.iter().map(zeros).collect::<Option<Vec<_>>>() else { continue };
        let options = Options { max_steps: Some(20_000), max_elements: Some(1 << 18), ..Options::default() };
        match Interpreter::new(&module, options).run(&entry.name, arguments) {
            Ok(_) => ran += 1,
            Err(Error::Exhausted(_)) => limited += 1,
            // Written for several processes; this is a run of one.
            Err(Error::Program { message, .. }) if message.contains("not in a grid of 1") => limited += 1,
            Err(error @ Error::Unsupported { .. }) => refused.push(format!("{name}: {error}")),
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    eprintln!("{ran} ran, {limited} reached a limit, {} refused:\n{}", refused.len(), refused.join("\n"));
    assert!(ran >= 300, "only {ran} programs ran");
    assert!(wrong.is_empty(), "{} programs fail:\n{}", wrong.len(), wrong.join("\n"));
}
