//! Passes keep what programs compute: the interpreter gives the same results before and after them.

use std::fs;

use cpu::Error;
use cpu::interpret::{Elements, Interpreter, InterpreterOptions, InterpreterValue, TensorValue};
use hlo::passes::{self, Exactness};
use hlo::{Dense, FuncBuilder, ModuleBuilder, Op, TensorType, Type, Verified};
use tensor::{DType, Literal, encode_float};
use testkit::{Needed, require};

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// Halves from -2 to 2 with some zeros of both signs, small integers, booleans.
    fn element(&mut self, dtype: DType) -> Vec<u8> {
        let n = self.next();
        let width = dtype.size_bytes();
        if let Some(part) = dtype.complex_part() {
            return [self.element(part), self.element(part)].concat();
        }
        let bits = match dtype {
            DType::Bool => n & 1,
            _ if dtype.is_float() => {
                let number = (n % 401) as f64 / 100.0 - 2.0;
                let number = if n.is_multiple_of(53) { -0.0 } else { number };
                encode_float(dtype, number).unwrap_or(0)
            }
            _ => n % if dtype.bits() < 4 { 2 } else { 7 },
        };
        bits.to_le_bytes()[..width].to_vec()
    }

    /// A value of a type; `None` for types a caller cannot give.
    fn value(&mut self, ty: &Type) -> Option<InterpreterValue> {
        match ty {
            Type::Tensor(ty) => {
                let dims: Vec<usize> = ty.dims.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<_>>()?;
                let count: usize = dims.iter().product();
                if count > 1 << 18 {
                    return None;
                }
                let dtype = ty.element.plain()?;
                let bytes = (0..count).flat_map(|_| self.element(dtype)).collect();
                Some(TensorValue::from_literal(&Literal::new(dtype, dims, bytes)?).into())
            }
            Type::Token => Some(InterpreterValue::Token),
            _ => None,
        }
    }
}

/// Computes one op on constants with the interpreter.
fn evaluate(op: &Op, operands: &[&Dense], result: &TensorType) -> Option<Dense> {
    let mut func = FuncBuilder::new("main");
    let values: Vec<_> = operands.iter().map(|&dense| func.constant(dense.clone())).collect();
    let results = func.op_with_types(op.kind()?, &values, op.attrs.clone(), &[], vec![result.clone().into()]).ok()?;
    let mut module = ModuleBuilder::new("fold");
    module.func(func.finish(&results));
    let module = hlo::verify(module.finish()).ok()?;
    let results = Interpreter::new(&module, InterpreterOptions::default()).run("main", Vec::new()).ok()?;
    let [InterpreterValue::Tensor(tensor)] = &results[..] else { return None };
    Dense::from_elements(result.clone(), tensor.to_literal().ok()?.bytes().to_vec())
}

fn run(module: &Verified, arguments: Vec<InterpreterValue>) -> Result<Vec<InterpreterValue>, Error> {
    let options =
        InterpreterOptions { max_steps: Some(20_000), max_elements: Some(1 << 18), ..InterpreterOptions::default() };
    let entry = module.entry().map(|func| func.name.to_string()).unwrap_or_default();
    Interpreter::new(module, options).run(&entry, arguments)
}

/// Whether values are the same, apart from NaNs; floats may differ by a part of the largest of their tensor.
fn agree(a: &InterpreterValue, b: &InterpreterValue, tolerance: f64) -> bool {
    let same = |a: f64, b: f64, scale: f64| {
        a.to_bits() == b.to_bits()
            || a.is_nan() && b.is_nan()
            || (tolerance > 0.0 && (a == b || (a - b).abs() <= tolerance * scale))
    };
    let floats = |a: &[f64], b: &[f64]| {
        let scale = a.iter().filter(|x| x.is_finite()).fold(1.0, |m: f64, x| m.max(x.abs()));
        a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| same(a, b, scale))
    };
    match (a, b) {
        (InterpreterValue::Tensor(a), InterpreterValue::Tensor(b)) if a.ty == b.ty => {
            match (&a.elements, &b.elements) {
                (Elements::Float(a), Elements::Float(b)) => floats(a, b),
                (Elements::Complex(a), Elements::Complex(b)) => {
                    let parts =
                        |v: &[cpu::interpret::Complex]| v.iter().flat_map(|x| [x.re, x.im]).collect::<Vec<f64>>();
                    floats(&parts(a), &parts(b))
                }
                (a, b) => a == b,
            }
        }
        (InterpreterValue::Token, InterpreterValue::Token) => true,
        _ => false,
    }
}

#[test]
fn results_stay_the_same() {
    let Some(folder) = require("results_stay_the_same", Needed::Corpus) else { return };
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let (mut same, mut wrong) = (0, Vec::new());
    for path in paths.iter().filter(|p| p.to_string_lossy().ends_with(".mlir.bc")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let module = hlo::verify(hlo::bytecode::read(&fs::read(path).unwrap()).unwrap()).unwrap();
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let Some(entry) = module.entry() else { continue };
        let Some(arguments) = entry.inputs.iter().map(|ty| numbers.value(ty)).collect::<Option<Vec<_>>>() else {
            continue;
        };
        // What does not run on this device at all, or not within the limits, says nothing here.
        let Ok(before) = run(&module, arguments.clone()) else { continue };
        for exactness in [Exactness::Bitwise, Exactness::Approximate] {
            let options = passes::Options { exactness, evaluate: Some(&evaluate), ..passes::Options::default() };
            let (after, statistics) = passes::canonicalize_counted(module.clone(), &options).unwrap();
            let is_composed = statistics.iter().any(|(rule, _)| rule.starts_with("batch_norm"));
            let is_exact = exactness == Exactness::Bitwise && !is_composed;
            match run(&after, arguments.clone()) {
                Err(Error::Exhausted(_)) => {}
                Err(error) => wrong.push(format!("{name}: {error}")),
                Ok(after) => {
                    let tolerance = if is_exact { 0.0 } else { 1e-2 };
                    let differs = before.iter().zip(&after).position(|(a, b)| !agree(a, b, tolerance));
                    match differs {
                        Some(n) => wrong.push(format!("{name}: result {n} under {exactness:?}, {statistics:?}")),
                        None => same += 1,
                    }
                }
            }
        }
    }
    eprintln!("{same} runs agree");
    assert!(wrong.is_empty(), "{} programs differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(same >= 400, "only {same} runs were compared");
}

/// Programs that check their own results pass with and without folding of constants.
#[test]
fn self_checking_programs_still_pass() {
    let Some(folder) = require("self_checking_programs_still_pass", Needed::Conformance) else { return };
    let (mut passed, mut wrong) = (0, Vec::new());
    for part in ["interpret", "testdata"] {
        let mut paths: Vec<_> = fs::read_dir(folder.join(part)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ext| ext == "mlir"));
        paths.sort();
        for path in paths {
            let text = fs::read_to_string(&path).unwrap();
            for (n, part) in text.split("// -----").enumerate() {
                let name = format!("{}#{n}", path.file_name().unwrap().to_string_lossy());
                let Ok(module) = hlo::text::parse(part).and_then(hlo::verify) else { continue };
                for evaluate in [None, Some(&evaluate as &passes::Evaluate<'_>)] {
                    let options = passes::Options { evaluate, ..passes::Options::default() };
                    let after = match passes::canonicalize(module.clone(), &options) {
                        Ok(after) => after,
                        Err(error) => {
                            wrong.push(format!("{name}: {error}"));
                            continue;
                        }
                    };
                    for func in module.funcs.iter().filter(|func| func.inputs.is_empty()) {
                        let runs = |module: &Verified| {
                            let options =
                                InterpreterOptions { max_steps: Some(1_000_000), ..InterpreterOptions::default() };
                            Interpreter::new(module, options).run(&func.name, Vec::new())
                        };
                        if after.func(&func.name).is_none() || runs(&module).is_err() {
                            continue;
                        }
                        match runs(&after) {
                            Ok(_) => passed += 1,
                            Err(error) => wrong.push(format!("{name}::{}: {error}", func.name)),
                        }
                    }
                }
            }
        }
    }
    eprintln!("{passed} programs pass");
    assert!(wrong.is_empty(), "{} programs fail:\n{}", wrong.len(), wrong.join("\n"));
    assert!(passed > 1000, "only {passed} programs were compared");
}
