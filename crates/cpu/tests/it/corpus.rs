//! Programs exported from JAX: each runs on zeros, or says what this device lacks; compiled it gives the same.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use cpu::interpret::{Interpreter, InterpreterOptions, InterpreterValue, TensorValue};
use cpu::{Array, Compiled, Cpu, CpuIsa, EngineOptions, Error, ExecutionMode, PortType};
use hlo::{Module, OpKind, Type};
use tensor::{DType, Literal, decode_float, encode_float};
use testkit::{Needed, require};

/// A value of zeros; `None` for types a caller cannot give.
fn zeros(ty: &Type) -> Option<InterpreterValue> {
    match ty {
        Type::Tensor(ty) => {
            let dims: Option<Vec<usize>> = ty.dims.iter().map(|&d| usize::try_from(d).ok()).collect();
            let literal = Literal::zeros(ty.element.plain()?, dims?)?;
            Some(TensorValue::from_literal(&literal).into())
        }
        Type::Token => Some(InterpreterValue::Token),
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
        let options = InterpreterOptions {
            max_steps: Some(20_000),
            max_elements: Some(1 << 18),
            ..InterpreterOptions::default()
        };
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

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// Floats from -2 to 2 but never near 0, by which optimizers divide; small integers, booleans.
    fn element(&mut self, dtype: DType) -> Vec<u8> {
        if let Some(part) = dtype.complex_part() {
            return [self.element(part), self.element(part)].concat();
        }
        let n = self.next();
        let bits = match dtype {
            DType::Bool => n & 1,
            _ if dtype.is_float() => encode_float(dtype, (n % 400) as f64 / 100.0 - 1.995).unwrap_or(0),
            _ => n % if dtype.bits() < 4 { 2 } else { 7 },
        };
        bits.to_le_bytes()[..dtype.size_bytes()].to_vec()
    }

    /// An array for a port; `None` for those too large for the interpreter.
    fn literal(&mut self, port: &PortType) -> Option<Literal> {
        match port {
            PortType::Array(dtype, dims) => {
                let dims: Vec<usize> = dims.iter().copied().collect::<Option<_>>()?;
                let count = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|&n| n <= 1 << 18)?;
                Literal::new(*dtype, dims, (0..count).flat_map(|_| self.element(*dtype)).collect())
            }
            PortType::Token => Literal::zeros(DType::Bool, [0]),
        }
    }
}

/// How far floats may lie apart, as a part of the largest number of their array, in a program that computes in this type:
/// hundreds of ops, whose errors nobody bounds, and sums that the interpreter rounds at every step.
fn tolerance(dtype: DType) -> f64 {
    match dtype.complex_part().unwrap_or(dtype) {
        DType::F64 => 1e-7,
        DType::F32 => 2e-3,
        DType::F16 => 3e-2,
        DType::BF16 => 1e-1,
        _ => 0.3,
    }
}

/// The tolerance of the narrowest float of a program.
fn loosest(module: &Module) -> f64 {
    let types = module.funcs.iter().flat_map(|func| &func.values).filter_map(|value| value.ty.as_tensor());
    let floats = types.filter_map(|ty| ty.element.plain()).filter(|t| t.is_float() || t.is_complex());
    floats.map(tolerance).fold(0.0, f64::max)
}

/// Where two arrays differ; floats by more than a part of the largest.
fn difference(a: &Literal, b: &Literal, tolerance: f64) -> Option<String> {
    if a.bytes() == b.bytes() {
        return None;
    }
    let part = a.dtype().complex_part().unwrap_or(a.dtype());
    let width = part.size_bytes();
    let numbers = |literal: &Literal| -> Option<Vec<f64>> {
        let number = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..width].copy_from_slice(bytes);
            decode_float(part, u64::from_le_bytes(word))
        };
        literal.bytes().chunks(width).map(number).collect()
    };
    let (Some(x), Some(y)) = (numbers(a), numbers(b)) else {
        let at = a.bytes().iter().zip(b.bytes()).position(|(x, y)| x != y);
        return Some(format!("{} differ at byte {at:?}", a.dtype()));
    };
    let scale = y.iter().filter(|v| v.is_finite()).fold(1.0, |m: f64, v| m.max(v.abs()));
    let allowed = scale * tolerance;
    let is_same = |x: f64, y: f64| x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= allowed;
    let at = x.iter().zip(&y).position(|(&x, &y)| !is_same(x, y))?;
    let count = x.iter().zip(&y).filter(|(x, y)| !is_same(**x, **y)).count();
    Some(format!(
        "{} [{at}] is {:?} compiled, {:?} interpreted, scale {scale:?}; {count} of {} elements",
        a.dtype(),
        x[at],
        y[at],
        x.len()
    ))
}

/// This CPU held to each tier but its highest.
pub(crate) fn lower_tiers() -> Vec<Arc<Cpu>> {
    let tiers = CpuIsa::available().into_iter().filter(|&isa| isa != CpuIsa::detect());
    tiers.map(|isa| Cpu::with_isa(None, Some(isa)).unwrap()).collect()
}

#[test]
fn exported_programs_give_the_same_compiled() {
    let Some(folder) = require("exported_programs_give_the_same_compiled", Needed::Corpus) else { return };
    let cpu = Cpu::new(None);
    let lower = lower_tiers();
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let only = std::env::var("TPUBRIDGE_CORPUS_ONLY").unwrap_or_default();
    let (mut same, mut unknown, mut wrong) = (0, 0, Vec::new());
    let (mut whole, mut single): (Vec<String>, BTreeMap<String, usize>) = (Vec::new(), BTreeMap::new());
    for (turn, path) in paths.iter().filter(|p| p.to_string_lossy().ends_with(".mlir.bc")).enumerate() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let module = hlo::verify(hlo::bytecode::read(&fs::read(path).unwrap()).unwrap()).unwrap();
        // What `rng` draws is left to the implementation.
        let draws = module.funcs.iter().flat_map(|func| &func.ops).any(|op| op.kind() == Some(OpKind::Rng));
        if draws || !name.contains(&only) {
            continue;
        }
        let of = |mode: ExecutionMode| {
            Compiled::from_module(&cpu, module.clone(), &EngineOptions { mode, ..EngineOptions::default() })
        };
        let (compiled, interpreted) = match (of(ExecutionMode::Compiled), of(ExecutionMode::Interpreted)) {
            (Ok(compiled), Ok(interpreted)) => (compiled, interpreted),
            (Err(error), Ok(_)) => {
                wrong.push(format!("{name}: does not compile: {error}"));
                continue;
            }
            _ => continue,
        };
        let dump = compiled.dump();
        if let Some(why) = compiled.why_interpreted() {
            whole.push(name.clone());
            if why.contains("does not fit") {
                wrong.push(format!("{name}: {why}"));
            }
        }
        for line in dump.lines().filter_map(|line| line.split("interpret ").nth(1)) {
            *single.entry(line.split('(').next().unwrap_or(line).to_string()).or_default() += 1;
        }
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let Some(literals) = compiled.arguments().iter().map(|port| numbers.literal(port)).collect::<Option<Vec<_>>>()
        else {
            unknown += 1;
            continue;
        };
        let run = |program: &Compiled, max_steps: u64| {
            let arrays: Result<Vec<Array>, Error> =
                literals.iter().map(|literal| Array::from_literal(cpu.memory(), literal)).collect();
            let options = InterpreterOptions {
                max_steps: Some(max_steps),
                max_elements: Some(1 << 18),
                ..InterpreterOptions::default()
            };
            let results = program.run(vec![arrays?], &options)?.remove(0);
            #[cfg(unix)]
            {
                let arrays = literals.iter().map(|literal| Array::from_literal(cpu.memory(), literal));
                crate::guarded::check(program, arrays.collect::<Result<_, Error>>()?, &results, &options)?;
            }
            Ok::<_, Error>(results)
        };
        let Ok(expected) = run(&interpreted, 20_000) else {
            unknown += 1;
            continue;
        };
        // Every program at this machine's best, and at one of the tiers below, in turn.
        let tier = lower.get(turn % lower.len().max(1));
        let options = EngineOptions::default();
        let below = tier.map(|cpu| (cpu.isa(), Compiled::from_module(cpu, module.clone(), &options)));
        let best = [(cpu.isa(), Ok(compiled))];
        for (isa, compiled) in best.into_iter().chain(below) {
            let name = format!("{name} ({isa})");
            match compiled.and_then(|compiled| run(&compiled, 10_000_000)) {
                Err(error) => wrong.push(format!("{name}: {error}")),
                Ok(results) => {
                    let differs = results.iter().zip(&expected).enumerate();
                    let mut differs = differs.filter_map(|(n, (a, b))| {
                        Some((n, difference(&a.to_literal(), &b.to_literal(), loosest(&module))?))
                    });
                    match differs.next() {
                        Some((n, what)) => wrong.push(format!("{name}: result {n}: {what}")),
                        None if isa == cpu.isa() => same += 1,
                        None => {}
                    }
                }
            }
        }
    }
    eprintln!("{same} agree, {unknown} are too large for the interpreter or refused by it");
    eprintln!("{} run by the interpreter as a whole: {whole:?}", whole.len());
    eprintln!("ops run by the interpreter: {single:?}");
    assert!(wrong.is_empty(), "{} programs differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(!only.is_empty() || same >= 300, "only {same} programs were compared");
}
