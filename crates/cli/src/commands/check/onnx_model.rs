//! Models of ONNX as cases: what lies beside the model has inputs and recorded results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use onnx::{ModelInputs, OnnxModel};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Jit};
use tensor::Literal;
use trace::{Donate, Tensor};

use super::archive::{agree, cases as calls_beside};
use super::cases::{Body, Case};
use super::engine::Verdict;

/// The folders `test_data_set_*` beside a model, as ONNX's own tests have them; else `NAME.<n>.npz`, as archives of PyTorch have them.
pub(super) fn cases(path: &Path) -> Vec<Case> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_set = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("test_data_set_") && path.is_dir()
    };
    let mut sets: Vec<PathBuf> = entries.filter(is_set).collect();
    sets.sort();
    if sets.is_empty() {
        return calls_beside(path);
    }
    let case = |call: PathBuf| {
        let name = call.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Case { name, body: Body::Archive { archive: path.to_path_buf(), call } }
    };
    sets.into_iter().map(case).collect()
}

/// Runs a call on the CPU device, and compares.
pub(super) fn run(model: &Path, call: &Path) -> Verdict {
    match compared(model, call) {
        Ok(()) => Verdict::Passed,
        Err(why) => Verdict::Failed(why),
    }
}

/// Inputs by name, and results by place.
type Recorded = (BTreeMap<String, Literal>, BTreeMap<usize, Literal>);

fn recorded(model: &OnnxModel, call: &Path) -> Result<Recorded, String> {
    if !call.is_dir() {
        let (mut inputs, mut outputs) = (BTreeMap::new(), BTreeMap::new());
        for (name, literal) in weights::read_npz(call).map_err(|error| error.to_string())? {
            if let Some(name) = name.strip_prefix("input.") {
                inputs.insert(name.to_string(), literal);
            } else if let Some(place) = name.strip_prefix("output.").and_then(|place| place.parse().ok()) {
                outputs.insert(place, literal);
            }
        }
        return Ok((inputs, outputs));
    }
    let read = |path: PathBuf| -> Result<Literal, String> {
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        onnx::read_tensor(bytes).map_err(|error| error.to_string())
    };
    let files =
        |kind: &'static str| (0..).map(move |n| call.join(format!("{kind}_{n}.pb"))).take_while(|path| path.exists());
    let inputs = files("input").map(read).collect::<Result<Vec<_>, _>>()?;
    let outputs = files("output").map(read).collect::<Result<Vec<_>, _>>()?;
    let names = model.inputs().iter().map(|input| input.name.clone());
    Ok((names.zip(inputs).collect(), outputs.into_iter().enumerate().collect()))
}

fn compared(path: &Path, call: &Path) -> Result<(), String> {
    let of_onnx = |error: onnx::Error| format!("{error}\nhint: {}", error.remedy());
    let mut model = OnnxModel::open(path).map_err(of_onnx)?;
    let (mut given, wanted) = recorded(&model, call)?;
    let shapes_of = |given: &BTreeMap<String, Literal>| {
        given.iter().map(|(name, literal)| (name.clone(), literal.dims().to_vec())).collect::<BTreeMap<_, _>>()
    };
    let mut shapes = model.shapes(&shapes_of(&given)).map_err(of_onnx)?;
    // What cannot be translated is said before anything runs; inputs that shapes are computed from become part of the model.
    if let Err(error) = model.trace("main", &shapes) {
        if !error.needs_value() {
            return Err(of_onnx(error));
        }
        let fixed: BTreeMap<String, Literal> =
            given.iter().filter(|(_, l)| !l.dtype().is_float()).map(|(n, l)| (n.clone(), l.clone())).collect();
        model = model.with_constants(&fixed);
        given.retain(|name, _| !fixed.contains_key(name));
        shapes = model.shapes(&shapes_of(&given)).map_err(of_onnx)?;
        model.trace("main", &shapes).map_err(of_onnx)?;
    }
    let specs = model.specs(&shapes).map_err(of_onnx)?;
    let stored = |name: &String| Ok((name.clone(), Tensor::from(model.tensor(name)?)));
    let inputs = ModelInputs {
        params: specs.params.keys().map(stored).collect::<Result<_, onnx::Error>>().map_err(of_onnx)?,
        inputs: given.into_iter().map(|(name, literal)| (name, Tensor::from(literal))).collect(),
    };
    let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).map_err(|e| e.to_string())?;
    let mut jit = Jit::new(&backend, "main", Donate::Nothing, move |inputs: &ModelInputs| match model.apply(inputs) {
        Ok(outputs) => outputs,
        Err(error) => trace::refuse(error.to_string()),
    });
    let found = jit.call(&inputs).map_err(|error| error.to_string())?;
    for (place, wanted) in &wanted {
        agree(&format!("output.{place}"), found.outputs.get(*place), wanted)?;
    }
    Ok(())
}
