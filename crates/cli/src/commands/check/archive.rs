//! Archives of PyTorch as cases: a call beside the archive has the inputs, and what PyTorch answered.

use std::collections::BTreeMap;
use std::path::Path;

use compile::optimize::{ComputePrecision, Level};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Jit, ReadTensor};
use tensor::{DType, Literal};
use torch::graph::ExportedProgram;
use torch::{Archive, ProgramInputs, ProgramOutputs};
use trace::{Donate, Tensor};

use super::cases::{Body, Case};
use super::engine::Verdict;

/// The calls beside an archive: `NAME.<n>.npz`, where the archive is `NAME.pt2` or `NAME.<form>.pt2`.
pub(super) fn cases(path: &Path) -> Vec<Case> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    files.sort();
    let of = |base: &str| -> Vec<String> {
        let is_call = |file: &&String| {
            let middle = file.strip_prefix(base).and_then(|rest| rest.strip_prefix('.')?.strip_suffix("npz"));
            middle.is_some_and(|middle| {
                middle.is_empty() || middle.trim_end_matches('.').bytes().all(|b| b.is_ascii_digit())
            })
        };
        files.iter().filter(is_call).cloned().collect()
    };
    // The longest name that has calls: `mlp.core`, then `mlp`; `format-2.9.1`, then `format`.
    let mut base = stem;
    let mut calls = of(base);
    while calls.is_empty()
        && let Some(end) = base.rfind(['.', '-'])
    {
        base = &base[..end];
        calls = of(base);
    }
    if calls.is_empty() {
        let why = format!("no call beside it: {stem}.0.npz with `input.*` and `output.*` is missing");
        return vec![Case { name: "program".into(), body: Body::Skipped(why) }];
    }
    let case = |call: String| {
        let body = Body::Archive { archive: path.to_path_buf(), call: folder.join(&call) };
        Case { name: call.trim_end_matches(".npz").to_string(), body }
    };
    calls.into_iter().map(case).collect()
}

/// Runs a call on the CPU device, and compares.
pub(super) fn run(archive: &Path, call: &Path) -> Verdict {
    match compared(archive, call) {
        Ok(()) => Verdict::Passed,
        Err(why) => Verdict::Failed(why),
    }
}

fn compared(path: &Path, call: &Path) -> Result<(), String> {
    let of_torch = |error: torch::Error| format!("{error}\nhint: {}", error.remedy());
    let archive = Archive::open(path).map_err(of_torch)?;
    let arrays: BTreeMap<String, Literal> =
        weights::read_npz(call).map_err(|error| error.to_string())?.into_iter().collect();
    let part = |prefix: &str| -> BTreeMap<String, Literal> {
        let named =
            |(name, literal): (&String, &Literal)| Some((name.strip_prefix(prefix)?.to_string(), literal.clone()));
        arrays.iter().filter_map(named).collect()
    };
    let given = part("input.");
    let shapes = given.iter().map(|(name, literal)| (name.clone(), literal.dims().to_vec())).collect();
    let program = archive.program();
    let symbols = program.bound(&shapes).map_err(of_torch)?;
    let specs = program.specs(&symbols).map_err(of_torch)?;
    let stored = |names: &BTreeMap<String, Tensor>| -> Result<BTreeMap<String, Tensor>, String> {
        let one = |name: &String| Ok((name.clone(), Tensor::from(archive.tensor(name)?)));
        names.keys().map(one).collect::<Result<_, torch::Error>>().map_err(of_torch)
    };
    let inputs = ProgramInputs {
        params: stored(&specs.params)?,
        buffers: stored(&specs.buffers)?,
        constants: stored(&specs.constants)?,
        inputs: given.into_iter().map(|(name, literal)| (name, Tensor::from(literal))).collect(),
    };
    // What cannot be translated is said before anything runs.
    program.trace("main", &symbols).map_err(of_torch)?;
    // In the types of the program: higher levels round operands of matmuls to bf16.
    let config = Config::new(Mode::Inference).device(Target::Cpu);
    let config = config.precision(ComputePrecision::F32).optimization(Level::Conservative);
    let backend = Backend::auto(&config).map_err(|e| e.to_string())?;
    let (own, sizes) = (program.clone(), symbols.clone());
    let mut jit =
        Jit::new(&backend, "main", Donate::Nothing, move |inputs: &ProgramInputs| applied(&own, inputs, &sizes));
    let found = jit.call(&inputs).map_err(|error| error.to_string())?;
    for (name, wanted) in part("output.") {
        let result = name.parse::<usize>().ok().and_then(|n| found.outputs.get(n));
        agree(&format!("output.{name}"), result, &wanted)?;
    }
    for (name, wanted) in part("buffer.") {
        agree(&format!("buffer.{name}"), found.mutated.get(&name).or(inputs.buffers.get(&name)), &wanted)?;
    }
    let wanted = part("grad.");
    if wanted.is_empty() {
        return Ok(());
    }
    let gradients = gradients(&backend, program, &inputs, &symbols, wanted.keys().cloned().collect())?;
    for (name, wanted) in wanted {
        agree(&format!("grad.{name}"), gradients.get(&name), &wanted)?;
    }
    Ok(())
}

/// Traced once before, so that it has a translation.
fn applied(program: &ExportedProgram, inputs: &ProgramInputs, symbols: &BTreeMap<String, i64>) -> ProgramOutputs {
    match program.apply(inputs, symbols) {
        Ok(outputs) => outputs,
        Err(error) => trace::refuse(error.to_string()),
    }
}

/// Gradients of the sum of the first output, by the names of parameters and arguments.
fn gradients(
    backend: &Backend,
    program: &ExportedProgram,
    inputs: &ProgramInputs,
    symbols: &BTreeMap<String, i64>,
    names: Vec<String>,
) -> Result<BTreeMap<String, Tensor>, String> {
    let of = |name: &String| inputs.params.get(name).or(inputs.inputs.get(name)).cloned();
    let leaves: Option<BTreeMap<String, Tensor>> = names.iter().map(|name| Some((name.clone(), of(name)?))).collect();
    let leaves = leaves.ok_or("a gradient is of something that is no parameter and no argument")?;
    let (program, symbols) = (program.clone(), symbols.clone());
    let mut jit = Jit::new(
        backend,
        "gradients",
        Donate::Nothing,
        move |(leaves, rest): &(BTreeMap<String, Tensor>, ProgramInputs)| {
            let loss = |leaves: &BTreeMap<String, Tensor>| {
                let mut inputs = rest.clone();
                for (name, leaf) in leaves {
                    let is_param = inputs.params.contains_key(name);
                    let map = if is_param { &mut inputs.params } else { &mut inputs.inputs };
                    map.insert(name.clone(), leaf.clone());
                }
                let outputs = applied(&program, &inputs, &symbols);
                match outputs.outputs.first() {
                    Some(first) => first.cast(DType::F32).sum_all(),
                    None => trace::refuse("a program without outputs has no gradient"),
                }
            };
            trace::grad(loss, leaves)
        },
    );
    jit.call(&(leaves, inputs.clone())).map_err(|error| error.to_string())
}

/// Whether a result is the recorded one: floats within a part of the largest, others exactly.
pub(super) fn agree(name: &str, found: Option<&Tensor>, wanted: &Literal) -> Result<(), String> {
    let found = found.ok_or_else(|| format!("`{name}` is not among the results"))?;
    let found = found.to_host().map_err(|error| error.to_string())?;
    if found.dims() != wanted.dims() {
        return Err(format!("`{name}` has the shape {:?}, and {:?} was recorded", found.dims(), wanted.dims()));
    }
    if !wanted.dtype().is_float() || !found.dtype().is_float() {
        return match found.bytes() == wanted.bytes() {
            true => Ok(()),
            false => Err(format!("`{name}` differs")),
        };
    }
    let tolerance = if found.dtype().bits() < 32 { 2e-2 } else { 1e-5 };
    let numbers = |literal: &Literal| -> Result<Vec<f64>, String> {
        let wide = literal.cast(DType::F64).and_then(|literal| literal.to_vec::<f64>());
        wide.map_err(|error| error.to_string())
    };
    let (found, wanted) = (numbers(&found)?, numbers(wanted)?);
    let largest = wanted.iter().filter(|x| x.is_finite()).fold(1e-30, |most: f64, x| most.max(x.abs()));
    for (place, (a, b)) in found.iter().zip(&wanted).enumerate() {
        let is_same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * largest;
        if !is_same {
            return Err(format!("`{name}` is {a} at {place}, and {b} was recorded (the largest is {largest})"));
        }
    }
    Ok(())
}
