//! Archives that PyTorch wrote, with what PyTorch answered.

use std::collections::BTreeMap;
use std::path::Path;

use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Jit, ReadTensor};
use tensor::{DType, Literal};
use testkit::Needed;
use torch::{Archive, Error, ProgramInputs, ProgramOutputs};
use trace::{Donate, Tensor};

fn backend() -> Backend {
    Backend::auto(&Config::new(Mode::Development).device(Target::Cpu)).unwrap()
}

/// The program's results for arrays of a file, on the CPU device.
fn answers(backend: &Backend, archive: &Archive, call: &BTreeMap<String, Literal>) -> Result<ProgramOutputs, Error> {
    let program = archive.program().clone();
    let given: BTreeMap<String, Literal> = call
        .iter()
        .filter_map(|(name, literal)| Some((name.strip_prefix("input.")?.to_string(), literal.clone())))
        .collect();
    let shapes = given.iter().map(|(name, literal)| (name.clone(), literal.dims().to_vec())).collect();
    let symbols = program.bound(&shapes)?;
    let specs = program.specs(&symbols)?;
    let host = |literal: Literal| Tensor::from(literal);
    let stored = |names: &BTreeMap<String, Tensor>| -> Result<BTreeMap<String, Tensor>, Error> {
        names.keys().map(|name| Ok((name.clone(), host(archive.tensor(name)?)))).collect()
    };
    let inputs = ProgramInputs {
        params: stored(&specs.params)?,
        buffers: stored(&specs.buffers)?,
        constants: stored(&specs.constants)?,
        inputs: given.into_iter().map(|(name, literal)| (name, host(literal))).collect(),
    };
    // Errors of the translation come before anything runs.
    program.trace("main", &symbols)?;
    let mut jit = Jit::new(backend, "main", Donate::Nothing, move |inputs: &ProgramInputs| {
        program.apply(inputs, &symbols).unwrap()
    });
    Ok(jit.call(&inputs).unwrap())
}

fn numbers(literal: &Literal) -> Vec<f64> {
    match literal.dtype() {
        DType::I64 => literal.to_vec::<i64>().unwrap().into_iter().map(|x| x as f64).collect(),
        DType::Bool => literal.to_vec::<bool>().unwrap().into_iter().map(|x| f64::from(u8::from(x))).collect(),
        _ => literal.cast(DType::F64).unwrap().to_vec::<f64>().unwrap(),
    }
}

/// The largest difference, as a part of the largest number.
fn distance(found: &Literal, wanted: &Literal) -> f64 {
    assert_eq!(found.dims(), wanted.dims());
    let (a, b) = (numbers(found), numbers(wanted));
    let largest = b.iter().fold(1e-30, |most: f64, x| most.max(x.abs()));
    a.iter().zip(&b).fold(0.0, |most: f64, (x, y)| most.max(if x == y { 0.0 } else { (x - y).abs() / largest }))
}

/// Compares every call beside an archive with what it answers.
fn check(backend: &Backend, path: &Path, calls: &[std::path::PathBuf]) -> Result<(), String> {
    let archive = Archive::open(path).map_err(|error| error.to_string())?;
    for call in calls {
        let arrays: BTreeMap<String, Literal> = weights::read_npz(call).unwrap().into_iter().collect();
        let found = answers(backend, &archive, &arrays).map_err(|error| format!("{error}; {}", error.remedy()))?;
        for (name, wanted) in &arrays {
            let result = if let Some(number) = name.strip_prefix("output.") {
                found.outputs.get(number.parse::<usize>().unwrap())
            } else if let Some(buffer) = name.strip_prefix("buffer.") {
                found.mutated.get(buffer)
            } else {
                continue;
            };
            let result = result.ok_or_else(|| format!("`{name}` is not among the results"))?;
            let far = distance(&result.to_host().unwrap(), wanted);
            if far.is_nan() || far > 1e-5 {
                return Err(format!("`{name}` is {far:.1e} off"));
            }
        }
    }
    Ok(())
}

/// Checks every archive of a folder; the number of them.
fn check_folder(folder: &Path) -> usize {
    let backend = backend();
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = names.collect();
    files.sort();
    let mut failed = Vec::new();
    let mut count = 0;
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "pt2")) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let base = if name.starts_with("format-") { "format" } else { name.split('.').next().unwrap() };
        let is_call = |file: &&std::path::PathBuf| {
            let file = file.file_name().unwrap().to_str().unwrap();
            file.strip_prefix(base).is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".npz"))
        };
        let calls: Vec<_> = files.iter().filter(is_call).cloned().collect();
        assert!(!calls.is_empty(), "{name} has no calls");
        count += 1;
        if let Err(message) = check(&backend, path, &calls) {
            failed.push(format!("{name}: {message}"));
        }
    }
    assert!(failed.is_empty(), "{} of {count} archives:\n{}", failed.len(), failed.join("\n"));
    count
}

#[test]
fn archives_answer_as_pytorch_does() {
    let Some(folder) = testkit::require("archives_answer_as_pytorch_does", Needed::TorchExport) else { return };
    assert!(check_folder(&folder) >= 20);
}

#[test]
fn models_answer_as_pytorch_does() {
    let Some(folder) = testkit::require("models_answer_as_pytorch_does", Needed::TorchModels) else { return };
    assert!(check_folder(&folder.join("models")) >= 18);
}

#[test]
fn what_is_written_through_a_view_is_seen_in_all_others() {
    let test = "what_is_written_through_a_view_is_seen_in_all_others";
    let Some(folder) = testkit::require(test, Needed::TorchModels) else { return };
    assert!(check_folder(&folder.join("aliases")) >= 35);
}
