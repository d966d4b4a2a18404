//! `tpu tune`: the same program, faster on a slice.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use compile::Program;
use compile::optimize::{Level, ProgramMetrics};
use plan::{
    Exact, ResultCheck, ResultDifference, TuneComparison, TuneConfirm, TuneFlags, TuneOutcome, TuneRequest,
    TuneSharding, Tuned, tuned_page,
};
use runtime::Backend;
use runtime::config::{Config, Mode, Target};
use runtime::optimize::{ResultMove, compare_programs};
use serde::Serialize;
use tensor::{Literal, encode_float};

use crate::args::TuneArgs;
use crate::commands::compile::{read_input, write_file};
use crate::commands::fit::{seconds, setup};
use crate::failure::{Answer, Failure};
use crate::output::{Align, Output, Table};
use crate::progress::Progress;
use crate::{human, quantity, stop};

/// What `--json` prints.
#[derive(Serialize)]
struct Record<'a> {
    version: u32,
    #[serde(flatten)]
    tuned: &'a Tuned,
    libtpu_init_args: String,
    compiler_options: &'a BTreeMap<String, String>,
    configuration: String,
}

pub(crate) fn run(args: &TuneArgs, output: &Output) -> Result<Answer, Failure> {
    let (compiler, fit) = setup(&args.question)?;
    let budget = quantity::seconds("budget", Some(args.budget.as_str()))?.unwrap_or(600.0);
    let confirm = if args.question.full { TuneConfirm::Full } else { TuneConfirm::Quick };
    let budget = Duration::try_from_secs_f64(budget)
        .map_err(|_| Failure::new("--budget is no time").hint("give a time, as in 10m"))?;
    let flags = if args.no_flags { TuneFlags::AsGiven } else { TuneFlags::Search };
    let request = TuneRequest { fit, budget, seed: args.seed, flags, confirm };
    let program = read_input(&args.question.file)?;
    let smaller = match &args.check_on {
        Some(path) => Some(Program::read(read_input(path)?)?),
        None => None,
    };
    let mut check = OnCpu { backend: None, seed: args.seed };
    let mut comparison = TuneComparison { check: &mut check, smaller: smaller.as_ref() };
    let stop = stop::on_signal();
    let progress = Progress::start();
    let say = &mut |step: &str| progress.step(step);
    let tuned = plan::tune(&compiler, &program, &request, &mut comparison, &stop, say);
    drop(progress);
    let tuned = tuned?;
    let record = Record {
        version: 1,
        tuned: &tuned,
        libtpu_init_args: tuned.libtpu_init_args(),
        compiler_options: &tuned.flags,
        configuration: tuned.configuration(),
    };
    output.record(&record, || text(&tuned))?;
    for note in &tuned.notes {
        eprintln!("note: {note}");
    }
    if let Some(path) = &args.out {
        write_program(&tuned.program, path)?;
    }
    if let Some(path) = &args.out_check {
        write_program(&tuned.compared, path)?;
    }
    if let Some(path) = &args.out_kernels {
        let generation = request.fit.compile.slice.generation();
        let lowered = compile::with_kernels(&tuned.program, generation, &mut Vec::new())?;
        write_program(lowered.as_ref().unwrap_or(&tuned.program), path)?;
    }
    if let Some(path) = &args.question.html {
        write_file(path, tuned_page(&tuned).as_bytes())?;
        eprintln!("page written to {}", path.display());
    }
    let is_faster = tuned.trials.iter().any(|trial| trial.outcome == TuneOutcome::Kept);
    Ok(if is_faster { Answer::Yes } else { Answer::No })
}

fn write_program(program: &Program, path: &Path) -> Result<(), Failure> {
    if path.extension().is_some_and(|extension| extension == "bc") {
        write_file(path, program.bytes())?;
    } else {
        write_file(path, ::hlo::text::print(program.module()).as_bytes())?;
    }
    eprintln!("program written to {}", path.display());
    Ok(())
}

fn text(tuned: &Tuned) -> String {
    let mut text = format!("{} on {}\n\n", tuned.module, tuned.slice);
    let mut head = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    head.row(["", "step", "from … to", "HBM"]);
    for (name, measure) in [("before", &tuned.before), ("after", &tuned.after)] {
        let range = format!("{} … {}", seconds(measure.step.low_s), seconds(measure.step.high_s));
        let fits = if measure.fits { "" } else { " (does not fit)" };
        let hbm = format!("{}{fits}", human::bytes(measure.hbm_bytes));
        head.row([name.to_string(), seconds(measure.step.seconds), range, hbm]);
    }
    text.push_str(&head.render());
    text.push_str(&format!("{:.2} × as fast by the estimate\n\n", tuned.speedup));
    let mut table =
        Table::new(&[Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right]);
    table.row(["change", "outcome", "step", "gain", "error", "HBM", "results moved"]);
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_string(), signed);
    for trial in &tuned.trials {
        let moved = trial.results.map_or_else(|| "-".to_string(), |results| format!("{:.1e}", results.deviation));
        table.row([
            trial.name.clone(),
            trial.outcome.name().to_string(),
            shown(trial.step_s),
            shown(trial.gain_s),
            shown(trial.error_s),
            trial.hbm_bytes.map_or_else(|| "-".to_string(), human::bytes),
            moved,
        ]);
    }
    text.push_str(&table.render());
    text.push('\n');
    for trial in &tuned.trials {
        let why = match (trial.outcome, trial.detail.as_str()) {
            (TuneOutcome::Kept, "") => trial.reason.clone(),
            (TuneOutcome::Kept, detail) => format!("{}; {detail}", trial.reason),
            (_, "") => continue,
            (_, detail) => detail.to_owned(),
        };
        text.push_str(&format!("{}: {why}\n", trial.name));
    }
    if let Some(mesh) = &tuned.mesh {
        text.push_str(&format!("\nmesh: {} in place of {}\n", mesh.after, mesh.before));
    }
    if !tuned.shardings.is_empty() {
        text.push_str(&shardings(tuned));
    }
    if !tuned.flags.is_empty() {
        text.push_str(&format!("\nLIBTPU_INIT_ARGS=\"{}\"\n", tuned.libtpu_init_args()));
        text.push_str(&format!("jax.jit(…, compiler_options={})\n", tuned.compiler_options()));
        text.push_str(&tuned.configuration());
    }
    text
}

/// The new `PartitionSpec` of each argument; those of one type that change alike are one line.
fn shardings(tuned: &Tuned) -> String {
    let mut groups: Vec<(&TuneSharding, Vec<String>)> = Vec::new();
    for one in &tuned.shardings {
        let name = if one.name.is_empty() { one.argument.to_string() } else { one.name.clone() };
        let is_alike =
            |other: &TuneSharding| (&other.ty, &other.before, &other.after) == (&one.ty, &one.before, &one.after);
        match groups.iter_mut().find(|(other, _)| is_alike(other)) {
            Some((_, names)) => names.push(name),
            None => groups.push((one, vec![name])),
        }
    }
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Left, Align::Left]);
    table.row(["arguments", "type", "before", "after"]);
    for (one, names) in groups {
        let names = match names.as_slice() {
            [first, .., last] if names.len() > 3 => format!("{first} … {last} ({})", names.len()),
            names => names.join(", "),
        };
        let before = if one.before.is_empty() { "not given" } else { &one.before };
        table.row([names.as_str(), &one.ty, before, &one.after]);
    }
    format!("\n{}results that replace them are split alike (P is jax.sharding.PartitionSpec)\n", table.render())
}

fn signed(value: f64) -> String {
    if value < 0.0 { format!("-{}", seconds(-value)) } else { seconds(value) }
}

/// Compares results on this machine's CPU device.
struct OnCpu {
    backend: Option<Backend>,
    seed: u64,
}

/// FLOPs that a comparison may take, about a minute each.
const MOST_FLOPS: f64 = 4e12;
/// Bytes that a program may read and write.
const MOST_BYTES: f64 = 4e11;
/// How far another order of additions may move results in f32.
const ROUNDING: f64 = 1e-3;

/// Numbers that programs are compared on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Both,
    /// State of optimizers is a sum of squares.
    Positive,
}

impl ResultCheck for OnCpu {
    fn compare(&mut self, before: &Program, after: &Program, exact: Exact) -> Result<ResultDifference, String> {
        let metrics = ProgramMetrics::of(before.module());
        if metrics.flops > MOST_FLOPS || metrics.bytes > MOST_BYTES {
            return Err("the program is too large to run here: give the same one at smaller sizes (--check-on)".into());
        }
        if self.backend.is_none() {
            let config = Config::new(Mode::Inference).device(Target::Cpu);
            self.backend = Some(Backend::auto(&config).map_err(|error| error.to_string())?);
        }
        let Some(backend) = &self.backend else { return Err("there is no CPU device".into()) };
        // A root of a negative number says nothing: what it is part of is compared on positive numbers, and the rest on both.
        let mut moved: Vec<ResultMove> = Vec::new();
        for sign in [Sign::Both, Sign::Positive] {
            moved.retain(|result| result.is_finite);
            let samples = samples(before, self.seed, sign)?;
            let now = compare_programs(backend, before, after, &samples).map_err(|error| error.to_string())?;
            let is_all = now.iter().all(|result| result.is_finite);
            moved.extend(now);
            if is_all {
                break;
            }
        }
        if !moved.iter().any(|result| result.is_finite) {
            return Err("no result is finite on made-up inputs".into());
        }
        let is_narrow = before.module().funcs.iter().flat_map(|func| &func.values).any(|value| {
            value.ty.as_tensor().and_then(|ty| ty.element.plain()).is_some_and(|dtype| dtype == tensor::DType::BF16)
        });
        let tolerance = |result: &ResultMove| match exact {
            Exact::Rounding if !is_narrow => ROUNDING,
            _ => Level::Balanced.tolerance_at(result.sensitivity),
        };
        let worst =
            moved.iter().map(|result| ResultDifference { deviation: result.deviation, tolerance: tolerance(result) });
        let excess =
            |one: &ResultDifference| if one.deviation.is_nan() { f64::INFINITY } else { one.deviation / one.tolerance };
        worst.max_by(|a, b| excess(a).total_cmp(&excess(b))).ok_or_else(|| "the program has no results".into())
    }
}

/// One array for each argument: small numbers, so that nothing saturates.
fn samples(program: &Program, seed: u64, sign: Sign) -> Result<Vec<Arc<Literal>>, String> {
    let entry = program.module().entry().ok_or("the program has no entry function")?;
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let one = |ty: &::hlo::Type| -> Option<Arc<Literal>> {
        let tensor = ty.as_tensor()?;
        let dtype = tensor.element.plain()?;
        let dims: Option<Vec<usize>> = tensor.dims.iter().map(|&size| usize::try_from(size).ok()).collect();
        let mut literal = Literal::zeros(dtype, dims?)?;
        for element in literal.bytes_mut().chunks_exact_mut(dtype.size_bytes()) {
            let real = (next() >> 11) as f64 / (1u64 << 53) as f64;
            let real = if sign == Sign::Both { 2.0 * real - 1.0 } else { real };
            let bits = match dtype {
                dtype if dtype.is_float() => encode_float(dtype, 0.1 * real)?,
                dtype if dtype.is_bool() => next() & 1,
                _ => next() % 8,
            };
            element.copy_from_slice(bits.to_le_bytes().get(..element.len())?);
        }
        Some(Arc::new(literal))
    };
    let all: Option<Vec<Arc<Literal>>> = entry.inputs.iter().map(one).collect();
    all.ok_or_else(|| "its arguments cannot be made up".into())
}
