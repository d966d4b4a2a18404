//! ONNX's own tests of ops and models: the same inputs give the same results.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use cpu::interpret::{Interpreter, InterpreterOptions, InterpreterValue, TensorValue};
use onnx::{ModelInputs, OnnxModel, read_tensor};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Jit, ReadTensor};
use tensor::{DType, Literal, decode_float};
use testkit::Needed;
use trace::{Donate, Tensor};

/// Cases that do not pass, one a line, with the reason.
const NOT_PASSING: &str = include_str!("../data/not_passing.txt");

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// `input_0.pb`, `input_1.pb` and so on.
fn tensors(folder: &Path, kind: &str) -> Result<Vec<Literal>, String> {
    let paths = (0..).map(|n| folder.join(format!("{kind}_{n}.pb"))).take_while(|path| path.exists());
    paths.map(|path| read_tensor(std::fs::read(path).unwrap()).map_err(|error| error.to_string())).collect()
}

fn numbers(literal: &Literal) -> Vec<f64> {
    let part = match literal.dtype() {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        other => other,
    };
    let width = part.size_bytes();
    let value = |bytes: &[u8]| {
        let mut raw = [0; 8];
        raw[..width].copy_from_slice(bytes);
        let (bits, spare) = (u64::from_le_bytes(raw), 64 - 8 * width as u32);
        match decode_float(part, bits) {
            Some(value) => value,
            None if part.is_signed_integer() => (((bits << spare) as i64) >> spare) as f64,
            None => bits as f64,
        }
    };
    literal.bytes().chunks_exact(width).map(value).collect()
}

/// ONNX's tolerance.
fn compare(found: &Literal, wanted: &Literal) -> Result<(), String> {
    if (found.dtype(), found.dims()) != (wanted.dtype(), wanted.dims()) {
        return Err(format!("is {}, not {}", found.spec(), wanted.spec()));
    }
    // ONNX's tests of halves round after every step.
    let tolerance = match wanted.dtype() {
        DType::BF16 => 1.6e-2,
        DType::F16 => 2e-3,
        _ => 1e-3,
    };
    let is_near = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-6 + tolerance * b.abs();
    let (found, wanted) = (numbers(found), numbers(wanted));
    match found.iter().zip(&wanted).position(|(a, b)| !is_near(*a, *b)) {
        None => Ok(()),
        Some(at) => Err(format!("differs: {} instead of {} at {at}", found[at], wanted[at])),
    }
}

fn interpreted(model: &OnnxModel, given: &BTreeMap<String, Literal>) -> Result<Vec<Literal>, onnx::Error> {
    let shapes = given.iter().map(|(name, literal)| (name.clone(), literal.dims().to_vec())).collect();
    let (function, _) = model.trace("main", &model.shapes(&shapes)?)?;
    let argument = |leaf: &trace::Leaf| {
        let (kind, name) = leaf.path.split_once('.').unwrap();
        let literal = if kind == "params" { model.tensor(name)? } else { given[name].clone() };
        Ok(InterpreterValue::from(TensorValue::from_literal(&literal)))
    };
    let arguments = function.inputs.iter().map(argument).collect::<Result<Vec<_>, onnx::Error>>()?;
    let run = Interpreter::new(&function.module, InterpreterOptions::default()).run("main", arguments);
    Ok(run.unwrap().iter().map(|value| value.tensor().unwrap().to_literal().unwrap()).collect())
}

/// The results; where shapes are computed from inputs, those are part of the model.
fn answers(model: &OnnxModel, given: &BTreeMap<String, Literal>) -> Result<Vec<Literal>, onnx::Error> {
    let error = match interpreted(model, given) {
        Err(error) if error.needs_value() => error,
        other => return other,
    };
    let names: Vec<&String> = model.inputs().iter().map(|input| &input.name).collect();
    // First all but the data, then everything.
    let but_first =
        given.iter().filter(|(name, _)| Some(name) != names.first()).map(|(a, b)| (a.clone(), b.clone())).collect();
    for fixed in [but_first, given.clone()] {
        let left =
            given.iter().filter(|(name, _)| !fixed.contains_key(*name)).map(|(a, b)| (a.clone(), b.clone())).collect();
        match interpreted(&model.with_constants(&fixed), &left) {
            Err(error) if error.needs_value() => {}
            other => return other,
        }
    }
    Err(error)
}

fn case(folder: &Path) -> Result<(), String> {
    let model = OnnxModel::open(&folder.join("model.onnx")).map_err(|error| error.to_string())?;
    for set in sorted(folder).iter().filter(|path| path.is_dir()) {
        let inputs = tensors(set, "input")?;
        let named = model.inputs().iter().map(|input| input.name.clone()).zip(inputs).collect();
        let found = answers(&model, &named).map_err(|error| error.to_string())?;
        let wanted = tensors(set, "output")?;
        if found.len() != wanted.len() {
            return Err(format!("gives {} results, not {}", found.len(), wanted.len()));
        }
        for (n, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            compare(found, wanted).map_err(|error| format!("result {n} {error}"))?;
        }
    }
    Ok(())
}

/// Runs every `parts`-th case of a kind and compares what fails with the list.
fn check(test: &str, kind: &str, part: usize, parts: usize) {
    let Some(root) = testkit::require(test, Needed::Onnx) else { return };
    let expected: BTreeSet<&str> = NOT_PASSING.lines().filter_map(|line| line.split("  ").next()).collect();
    let (mut failed, mut passed, mut surprises) = (Vec::new(), 0, Vec::new());
    for folder in sorted(&root.join(kind)).iter().skip(part).step_by(parts) {
        let name = format!("{kind}/{}", folder.file_name().unwrap().to_str().unwrap());
        let outcome = catch_unwind(AssertUnwindSafe(|| case(folder))).unwrap_or_else(|_| Err("PANIC".into()));
        match outcome {
            Ok(()) if expected.contains(name.as_str()) => surprises.push(name),
            Ok(()) => passed += 1,
            Err(why) => failed.push((name, why)),
        }
    }
    eprintln!("{kind}: {passed} passed, {} did not", failed.len());
    failed.iter().for_each(|(name, why)| println!("NOT PASSING {name}  {}", why.replace('\n', " ")));
    let new: Vec<String> =
        failed.iter().filter(|(name, _)| !expected.contains(name.as_str())).map(|(n, w)| format!("{n}: {w}")).collect();
    assert!(new.is_empty(), "{} cases fail that are not in the list:\n{}", new.len(), new.join("\n"));
    assert!(surprises.is_empty(), "these pass now: take them off the list:\n{}", surprises.join("\n"));
}

#[test]
fn nodes_of_the_first_half_are_right() {
    check("nodes_of_the_first_half_are_right", "node", 0, 2);
}

#[test]
fn nodes_of_the_second_half_are_right() {
    check("nodes_of_the_second_half_are_right", "node", 1, 2);
}

#[test]
fn models_that_pytorch_wrote_are_right() {
    check("models_that_pytorch_wrote_are_right", "pytorch-converted", 0, 1);
    check("models_that_pytorch_wrote_are_right", "pytorch-operator", 0, 1);
    check("models_that_pytorch_wrote_are_right", "simple", 0, 1);
}

/// Families of the model zoo, whole, on the CPU device; weights are constants, as ONNX ships them. AlexNet, VGG and ZFNet, which are larger and have no
/// other ops, are left out.
#[test]
fn models_of_the_zoo_are_right() {
    let Some(root) = testkit::require("models_of_the_zoo_are_right", Needed::Onnx) else { return };
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap();
    for name in ["densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet"] {
        let path = root.join(format!("light/light_{name}.onnx"));
        let model = OnnxModel::open(&path).unwrap();
        let wanted = std::fs::read(root.join(format!("light/light_{name}_output_0.pb"))).unwrap();
        let wanted = read_tensor(wanted).unwrap();
        let shapes = model.shapes(&BTreeMap::new()).unwrap();
        let specs = model.specs(&shapes).unwrap();
        let params = specs.params.keys().map(|name| (name.clone(), Tensor::from(model.tensor(name).unwrap())));
        let one = |(name, dims): (&String, &Vec<usize>)| {
            let size: usize = dims.iter().product();
            (name.clone(), Tensor::from(Literal::from_slice(&vec![1f32; size], dims.clone()).unwrap()))
        };
        let inputs = ModelInputs { params: params.collect(), inputs: shapes.iter().map(one).collect() };
        model.trace("main", &shapes).unwrap();
        let mut jit =
            Jit::new(&backend, "main", Donate::Nothing, move |given: &ModelInputs| model.apply(given).unwrap());
        let found = jit.call(&inputs).unwrap().outputs[0].to_host().unwrap();
        compare(&found, &wanted).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
