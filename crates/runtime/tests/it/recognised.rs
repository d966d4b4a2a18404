//! Programs that nearly are attention, experts, losses, norms or look-ups: ones that JAX and PyTorch wrote, changed at random. No
//! recogniser ends in an error, and what one rewrites computes what the program computed.

use std::panic::catch_unwind;
use std::sync::Arc;

use chips::Generation;
use compile::Program;
use hlo::Verified;
use kernel::{LossForm, recognise, recognise_experts, recognise_lookups, recognise_losses, recognise_norms};
use runtime::Backend;
use runtime::config::{Config, Mode, Target};
use runtime::optimize::compare_programs;
use tensor::{Literal, encode_float};
use testkit::{Random, repository};

/// Changed programs that are read.
const CHANGED: usize = 160;
/// Those of them over several devices.
const CHANGED_ON_MESHES: usize = 80;
/// Rewritten ones that are run: one of so many.
const RUN_EVERY: usize = 8;
/// Another order of additions moves results by no more, as a share of the largest, also where gradients cancel.
const ROUNDING: f64 = 1e-2;

const UNARY: &[&str] = &["negate", "exponential", "tanh", "abs", "sqrt", "rsqrt", "logistic", "log", "sine"];
const BINARY: &[&str] = &["add", "subtract", "multiply", "maximum", "minimum", "divide"];
/// What others do not become: near zero results would hang on rounding.
const STEEP: &[&str] = &["sqrt", "rsqrt", "log", "divide"];
const DIRECTIONS: &[&str] = &["EQ", "NE", "LT", "LE", "GT", "GE"];
const NUMBERS: &[&str] =
    &["0.0", "1.0", "-1.0", "2.0", "0.5", "1.0e-6", "-1.0e9", "0", "1", "2", "-1", "true", "false"];

/// A program by lines, in f32: what is left of rounding tells no right result from a wrong one.
struct Seed {
    name: String,
    lines: Vec<String>,
}

fn seeds(folders: &[&str]) -> Vec<Seed> {
    let folder = repository().join("crates/kernel/tests/data");
    let files = folders.iter().map(|name| std::fs::read_dir(folder.join(name)).unwrap());
    let mut paths: Vec<_> = files.flatten().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "mlir"));
    paths.sort();
    let seed = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap().replace("bf16", "f32");
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        Seed { name, lines: text.lines().map(str::to_string).collect() }
    };
    paths.iter().map(seed).collect()
}

/// Where the words of a line that pass a test are.
fn words(line: &str, is_one: impl Fn(&str) -> bool) -> Vec<(usize, usize)> {
    let part = |c: char| c.is_alphanumeric() || "%_#.-+".contains(c);
    let mut found = Vec::new();
    let mut start = None;
    for (at, c) in line.char_indices().chain([(line.len(), ' ')]) {
        match (part(c), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found.extend(is_one(&line[from..at]).then_some((from, at)));
                start = None;
            }
            _ => {}
        }
    }
    found
}

fn pick<'a, T>(random: &mut Random, all: &'a [T]) -> Option<&'a T> {
    (!all.is_empty()).then(|| &all[random.below(all.len())])
}

fn with(line: &str, (from, to): (usize, usize), word: &str) -> String {
    format!("{}{word}{}", &line[..from], &line[to..])
}

/// One op of a line becomes another, reads something else, or has another number.
fn change(lines: &mut [String], random: &mut Random) -> Option<()> {
    let at = random.below(lines.len());
    let line = lines[at].clone();
    let result = line.find(" = ")?;
    let operands = line.find(" : ").unwrap_or(line.len());
    let is_operand = |word: &str| word.starts_with('%');
    let inside: Vec<_> =
        words(&line, is_operand).into_iter().filter(|&(from, to)| from > result && to <= operands).collect();
    let changed = match random.below(6) {
        0 => {
            let kind = |word: &str| word.strip_prefix("stablehlo.").map(str::to_string);
            let (from, to) = words(&line, |word| kind(word).is_some()).into_iter().next()?;
            let old = kind(&line[from..to])?;
            let group = [UNARY, BINARY].into_iter().find(|group| group.contains(&old.as_str()))?;
            let others: Vec<&str> = group.iter().copied().filter(|kind| !STEEP.contains(kind)).collect();
            with(&line, (from, to), &format!("stablehlo.{}", pick(random, &others)?))
        }
        1 => {
            // A value that is defined a few lines before, or an argument of the function.
            let from = at.saturating_sub(1 + random.below(30));
            let near: Vec<String> = lines[from..at]
                .iter()
                .filter_map(|line| Some(line[..line.find(" = ")?].trim().to_string()))
                .filter(|name| !name.contains(':'))
                .collect();
            let place = *pick(random, &inside)?;
            with(&line, place, pick(random, &near)?)
        }
        2 => {
            let [one, other] = [*pick(random, &inside)?, *pick(random, &inside)?];
            let (first, second) = (one.min(other), one.max(other));
            if first.1 > second.0 {
                return None;
            }
            let (a, b) = (line[first.0..first.1].to_string(), line[second.0..second.1].to_string());
            with(&with(&line, second, &a), first, &b)
        }
        3 => {
            let (from, to) = (line.find("dense<")? + 6, line.find('>')?);
            with(&line, (from, to), pick(random, NUMBERS)?)
        }
        4 => {
            let place = words(&line, |word| DIRECTIONS.contains(&word)).into_iter().next()?;
            with(&line, place, pick(random, DIRECTIONS)?)
        }
        _ => {
            let numbers: Vec<_> = words(&line[..operands], |word| word.len() < 4 && word.parse::<u32>().is_ok())
                .into_iter()
                .filter(|&(from, _)| from > result)
                .collect();
            let place = *pick(random, &numbers)?;
            let number: u32 = line[place.0..place.1].parse().ok()?;
            let other = [number + 1, number.saturating_sub(1), 0, 1, 2][random.below(5)];
            with(&line, place, &other.to_string())
        }
    };
    lines[at] = changed;
    Some(())
}

/// A program with one to three changes; `None` where it is no program any more.
fn changed(seed: &Seed, random: &mut Random) -> Option<Program> {
    let mut lines = seed.lines.clone();
    let mut count = 1 + random.below(3);
    while count > 0 {
        count -= usize::from(change(&mut lines, random).is_some());
    }
    Program::read(lines.join("\n").into_bytes()).ok()
}

/// What a recogniser makes of a program; `None` where it finds nothing.
type Rewrite = fn(Verified) -> Result<Option<Verified>, kernel::Error>;

const REWRITES: [(&str, Rewrite); 6] = [
    ("attention", |module| {
        recognise(module, Generation::V6e).map(|made| (!made.found.is_empty()).then_some(made.module))
    }),
    ("experts", |module| {
        recognise_experts(module, Generation::V6e).map(|made| (!made.found.is_empty()).then_some(made.module))
    }),
    ("losses in chunks", |module| {
        let made = recognise_losses(module, Generation::V6e, LossForm::Chunks)?;
        Ok((!made.found.is_empty()).then_some(made.module))
    }),
    ("losses as kernels", |module| {
        let made = recognise_losses(module, Generation::V6e, LossForm::Kernels)?;
        Ok((!made.found.is_empty()).then_some(made.module))
    }),
    ("norms", |module| {
        recognise_norms(module, Generation::V6e).map(|made| (!made.found.is_empty()).then_some(made.module))
    }),
    ("look-ups", |module| {
        recognise_lookups(module, Generation::V6e).map(|made| (!made.found.is_empty()).then_some(made.module))
    }),
];

/// Small numbers for each argument, so that no softmax saturates: bf16 scores would then hang on rounding.
fn samples(program: &Program, random: &mut Random) -> Vec<Arc<Literal>> {
    let one = |ty: &hlo::Type| {
        let tensor = ty.as_tensor().unwrap();
        let dtype = tensor.element.plain().unwrap();
        let dims: Vec<usize> = tensor.dims.iter().map(|&size| usize::try_from(size).unwrap()).collect();
        let mut literal = Literal::zeros(dtype, dims).unwrap();
        for element in literal.bytes_mut().chunks_exact_mut(dtype.size_bytes()) {
            let bits = match dtype {
                dtype if dtype.is_float() => encode_float(dtype, random.below(2001) as f64 / 1e4 - 0.1).unwrap(),
                dtype if dtype.is_bool() => random.below(2) as u64,
                _ => random.below(8) as u64,
            };
            element.copy_from_slice(&bits.to_le_bytes()[..element.len()]);
        }
        Arc::new(literal)
    };
    program.module().entry().unwrap().inputs.iter().map(one).collect()
}

/// Says what moved too far.
fn compare(backend: &Backend, before: &Program, after: &Program, random: &mut Random) -> Result<(), String> {
    let samples = samples(before, random);
    let moved = compare_programs(backend, before, after, &samples).map_err(|error| error.to_string())?;
    for (n, result) in moved.iter().enumerate().filter(|(_, result)| result.is_finite) {
        if result.deviation.is_nan() || result.deviation > ROUNDING {
            return Err(format!("result {n} moves by {:.1e}", result.deviation));
        }
    }
    Ok(())
}

/// Whether there is a loop: a changed one may have no end.
fn has_loop(program: &Program) -> bool {
    program.module().funcs.iter().flat_map(|func| &func.ops).any(|op| op.kind() == Some(hlo::OpKind::While))
}

#[test]
fn what_recognisers_rewrite_keeps_its_meaning() {
    let mut seeds = seeds(&["recognise", "norms"]);
    seeds.retain(|seed| !seed.name.starts_with("sharded"));
    keeps_its_meaning(&seeds, CHANGED, 5);
}

#[test]
fn what_recognisers_rewrite_for_devices_keeps_its_meaning() {
    let mut seeds = seeds(&["recognise", "meshes"]);
    let is_sharded = |seed: &Seed| seed.lines.iter().any(|line| line.contains("mhlo.num_partitions = 8"));
    seeds.retain(|seed| is_sharded(seed) && !seed.name.ends_with(".found"));
    keeps_its_meaning(&seeds, CHANGED_ON_MESHES, 7);
}

/// Changes programs at random, and holds what is rewritten against what it was.
fn keeps_its_meaning(seeds: &[Seed], count: usize, first: u64) {
    let mut random = Random::new(first);
    let backend = Backend::auto(&Config::new(Mode::Development).device(Target::Cpu)).unwrap();
    let (mut read, mut rewritten, mut wrong) = (0, 0, Vec::new());
    while read < count {
        let seed = &seeds[random.below(seeds.len())];
        let Some(program) = changed(seed, &mut random) else { continue };
        read += 1;
        for (what, rewrite) in &REWRITES {
            let problem = match catch_unwind(|| rewrite(program.verified().clone())) {
                Ok(Ok(Some(module))) => {
                    rewritten += 1;
                    let after = Program::from_module(module);
                    let is_run = rewritten % RUN_EVERY == 0 && !has_loop(&program);
                    if is_run { compare(&backend, &program, &after, &mut random) } else { Ok(()) }
                }
                Ok(Ok(None)) => Ok(()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("it panics".into()),
            };
            if let Err(problem) = problem {
                let text = hlo::text::print(program.module());
                wrong.push(format!("{what} of {}: {problem}\n{text}", seed.name));
            }
        }
    }
    assert!(rewritten > count / 3, "the changes are too wild to test anything: {rewritten} of {read}");
    assert!(wrong.is_empty(), "{} of {read}:\n{}", wrong.len(), wrong.join("\n--\n"));
}
