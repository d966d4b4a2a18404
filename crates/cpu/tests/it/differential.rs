//! Random programs run compiled and by the reference interpreter, and give the same.
//!
//! Integers and booleans agree exactly, NaNs are at the same places, and floats differ at most by the bound that the
//! generator derives for each result (see [`value::V`]): most are exact. The compiled engine flushes denormals, so the
//! generator keeps away from them.
//!
//! `TPUBRIDGE_FUZZ_PROGRAMS` says how many programs, `TPUBRIDGE_FUZZ_START` the first seed, and `TPUBRIDGE_SEED` runs the
//! one of that seed.

mod arrays;
mod control;
mod elementwise;
mod generate;
mod indexing;
mod numbers;
mod patterns;
mod regressions;
mod value;

use std::sync::Arc;

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions, Error, ExecutionMode, Folding};
use generate::Generated;
use hlo::Verified;
use tensor::{Literal, decode_float};
use value::V;

/// Programs of a usual run.
const PROGRAMS: u64 = 1500;

fn run(
    cpu: &Arc<Cpu>,
    module: &Verified,
    mode: ExecutionMode,
    folding: Folding,
    program: &Generated,
) -> Result<(Vec<Literal>, String), Error> {
    let options = EngineOptions { mode, folding, ..EngineOptions::default() };
    let compiled = Compiled::from_module(cpu, module.clone(), &options)?;
    let arrays = |literals: &[Literal]| {
        literals.iter().map(|literal| Array::from_literal(cpu.memory(), literal)).collect::<Result<Vec<_>, _>>()
    };
    let arguments = arrays(&program.arguments)?;
    // Arguments that are not donated must come out as they went in.
    let kept: Vec<Option<Array>> =
        arguments.iter().zip(&program.donated).map(|(array, donated)| (!donated).then(|| array.clone())).collect();
    let limits = InterpreterOptions { max_steps: Some(10_000_000), ..InterpreterOptions::default() };
    let results = compiled.run(vec![arguments], &limits)?;
    for (array, literal) in kept.iter().zip(&program.arguments) {
        if array.as_ref().is_some_and(|array| array.bytes() != literal.bytes()) {
            return Err(Error::Internal("an argument was overwritten".into()));
        }
    }
    if mode == ExecutionMode::Compiled
        && let Some(why) = compiled.why_interpreted()
    {
        return Err(Error::Internal(format!("not compiled: {why}")));
    }
    let dump = compiled.dump();
    if mode == ExecutionMode::Compiled {
        // A second run finds memory that the first one used.
        let again = compiled.run(vec![arrays(&program.arguments)?], &limits)?;
        if results[0].iter().zip(&again[0]).any(|(a, b)| a.bytes() != b.bytes()) {
            return Err(Error::Internal(format!("a second run gives something else\n{dump}")));
        }
        #[cfg(unix)]
        crate::guarded::check(&compiled, arrays(&program.arguments)?, &results[0], &limits)?;
    }
    Ok((results[0].iter().map(Array::to_literal).collect(), dump))
}

/// Where two results differ beyond what their bound allows.
fn difference(value: &V, a: &Literal, b: &Literal) -> Option<String> {
    if (a.dtype(), a.dims()) != (b.dtype(), b.dims()) {
        return Some(format!("{} {:?} and {} {:?}", a.dtype(), a.dims(), b.dtype(), b.dims()));
    }
    let width = a.dtype().size_bytes();
    for (n, (x, y)) in a.bytes().chunks(width).zip(b.bytes().chunks(width)).enumerate() {
        if x == y {
            continue;
        }
        let number = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..width].copy_from_slice(bytes);
            decode_float(a.dtype(), u64::from_le_bytes(word))
        };
        if let (Some(x), Some(y)) = (number(x), number(y)) {
            if x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= value.error {
                continue;
            }
            return Some(format!("element {n}: {x:?} compiled, {y:?} interpreted, allowed {:e}", value.error));
        }
        return Some(format!("element {n}: bytes {x:?} compiled, {y:?} interpreted"));
    }
    None
}

/// What is wrong with the program of a seed.
fn check(cpu: &Arc<Cpu>, seed: u64) -> Option<String> {
    let program = generate::generate(seed);
    let told = |what: String| Some(format!("TPUBRIDGE_SEED={seed}: {what}\n{}", program.text));
    let module = match hlo::text::parse(&program.text).and_then(hlo::verify) {
        Ok(module) => module,
        Err(error) => return told(format!("the generator's program is invalid: {error}")),
    };
    // Folding takes work from the kernels: both ways are looked at.
    let folding = if seed.is_multiple_of(3) { Folding::Nothing } else { Folding::Constants };
    let attempt = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run(cpu, &module, ExecutionMode::Compiled, folding, &program)
    }));
    let interpreted = run(cpu, &module, ExecutionMode::Interpreted, folding, &program);
    match (attempt, interpreted) {
        (Err(_), _) => told("the compiler or its program panics".into()),
        (Ok(Ok((a, dump))), Ok((b, _))) => {
            let differs = |n: usize| Some((n, difference(&program.results[n], &a[n], &b[n])?));
            let (n, what) = (0..program.results.len()).find_map(differs)?;
            told(format!("result {n} ({}): {what}\n{dump}", program.results[n].name))
        }
        (Ok(Err(error)), Ok(_)) => told(format!("only the compiled program fails: {error}")),
        (Ok(Ok(_)), Err(error)) => told(format!("only the interpreter fails: {error}")),
        (Ok(Err(_)), Err(_)) => None,
    }
}

#[test]
fn compiled_programs_give_what_the_interpreter_gives() {
    let cpu = Cpu::new(Some(2));
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("TPUBRIDGE_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("TPUBRIDGE_FUZZ_START").unwrap_or(0);
            first..first + number("TPUBRIDGE_FUZZ_PROGRAMS").unwrap_or(PROGRAMS)
        }
    };
    let count = seeds.end - seeds.start;
    let wrong: Vec<String> = seeds.filter_map(|seed| check(&cpu, seed)).collect();
    let first = wrong.first().cloned().unwrap_or_default();
    let names: Vec<&str> = wrong.iter().filter_map(|text| text.lines().next()).collect();
    assert!(wrong.is_empty(), "{} of {count} programs differ:\n{}\n\n{first}", wrong.len(), names.join("\n"));
}
