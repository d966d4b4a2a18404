//! `tpu plan`: where to run a program, split how, with which batch, for how much.

use std::path::Path;
use std::time::Duration;

use chips::{Generation, Overrides, PriceKind, Slice};
use compile::cache::Cache;
use compile::worker::WorkerLimits;
use compile::{PluginFile, SliceCompiler};
use plan::search::{
    Answer as Found, BatchName, Confirm, Facts, Goal, Load, OneProgram, Plan, ProgramSource, SearchOptions,
    ShardingChoice, StepKind, search,
};
use serde::Serialize;
use train::{Planned, PlannedStep};

use crate::args::{PlanArgs, PriceArg};
use crate::commands::compile::{named_flags, read_input, write_file};
use crate::failure::{Answer, Failure};
use crate::output::{Align, Output, Table};
use crate::progress::Progress;
use crate::{commands, human, plugins, quantity, stop};

/// What `--json` prints.
#[derive(Serialize)]
struct Record<'a> {
    version: u32,
    is_met: bool,
    shortfall: Vec<String>,
    recommended: Option<&'a Plan>,
    next: Option<String>,
    #[serde(flatten)]
    found: &'a Found,
}

/// What is asked of a model.
fn asked(args: &PlanArgs) -> PlannedStep {
    PlannedStep {
        step: args.step.unwrap_or_default().into(),
        sequence_length: args.sequence_length,
        precisions: args.precision.clone(),
        weights: args.weights.clone(),
        lm_head: args.lm_head,
        kv_caches: args.kv_cache.clone(),
    }
}

pub(crate) fn run(args: &PlanArgs, output: &Output) -> Result<Answer, Failure> {
    let options = options(args)?;
    let batch: Option<BatchName> = args.batch.as_deref().map(str::parse).transpose()?;
    let planned = match Planned::is_model(&args.file) {
        true => Some(Planned::read(&args.file, &asked(args))?),
        false => {
            only_for_models(args)?;
            None
        }
    };
    let source: Box<dyn ProgramSource + '_> = match &planned {
        Some(planned) => Box::new(planned.source()?),
        None => Box::new(OneProgram::read(read_input(&args.file)?, batch.as_ref())?),
    };
    let source = &*source;
    let compiler = SliceCompiler {
        plugin: PluginFile::open(&plugins::tpu(args.plugin.plugin.as_deref())?)?,
        cache: Cache::open(&commands::cache::config(&args.cache))?,
        launch: plugins::launch()?,
        // One slow compilation must not be the whole search.
        limits: WorkerLimits { time: options.time / 4, memory_bytes: None },
    };
    let stop = stop::on_signal();
    let progress = Progress::start();
    let found = search(source, &options, &compiler, &stop, &|now| {
        let left = now.left_s.map_or_else(String::new, |s| format!(", about {} left", human::seconds(s)));
        progress.part(now.done, now.of, &format!("{} of {} compiled{left}: {}", now.done, now.of, now.doing));
    });
    drop(progress);
    let mut found = found?;
    if let Some(planned) = &planned {
        let more = planned.notes(found.best());
        found.notes.extend(more);
    }
    let best = found.best();
    if let (Some(path), Some(plan)) = (&args.out, best) {
        match &planned {
            Some(planned) if planned.is_training() && is_toml(path) => {
                write_file(path, planned.training(plan)?.as_bytes())?;
            }
            _ => write_program(source, plan, path)?,
        }
    }
    if let (Some(path), Some(plan), Some(planned)) = (&args.job, best, &planned) {
        super::plan_job::write(args, planned, plan, path)?;
    }
    let next = match (&planned, best) {
        (Some(planned), Some(_)) if planned.is_training() && args.job.is_some() => {
            args.job.as_ref().map(|path| format!("tpu job run {}", path.display()))
        }
        (Some(planned), Some(plan)) if planned.is_training() => {
            let written = args.out.as_deref().filter(|path| is_toml(path));
            Some(planned.command(plan, written)?)
        }
        (Some(planned), Some(plan)) if args.out.is_none() => {
            Some(planned.serving(plan)?.unwrap_or_else(|| next(args, plan)))
        }
        _ => best.map(|plan| next(args, plan)),
    };
    let record = Record {
        version: 1,
        is_met: found.is_met(),
        shortfall: found.shortfall(),
        recommended: best,
        next: next.clone(),
        found: &found,
    };
    output.record(&record, || text(&found, next.as_deref()))?;
    if best.is_none() {
        for refused in found.refused.iter().take(5) {
            eprintln!("{}: {}", refused.candidate, refused.why);
        }
        eprintln!(
            "hint: larger slices, a smaller --batch-size, more rematerialization in the program, more --compiles, or of a model \
             that is served --weights w8a16,w4a16 and --kv-cache int8"
        );
    }
    Ok(if found.is_met() { Answer::Yes } else { Answer::No })
}

/// Refuses what only says something about models.
fn only_for_models(args: &PlanArgs) -> Result<(), Failure> {
    let given = [
        ("--sequence-length", args.sequence_length.is_some()),
        ("--step", args.step.is_some()),
        ("--precision", !args.precision.is_empty()),
        ("--weights", !args.weights.is_empty()),
        ("--lm-head", args.lm_head.is_some()),
        ("--kv-cache", !args.kv_cache.is_empty()),
        ("--job", args.job.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(Failure::new(format!("{name} is for models; {} is a program", args.file.display()))
            .hint("give a training's TOML file or a config.json, or leave it out")),
        None => Ok(()),
    }
}

pub(super) fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

fn options(args: &PlanArgs) -> Result<SearchOptions, Failure> {
    let goal = Goal {
        tokens: quantity::count("tokens", args.tokens.as_deref())?,
        deadline_s: quantity::seconds("deadline", args.deadline.as_deref())?,
        budget_usd: quantity::dollars("budget", args.budget.as_deref())?,
    };
    if goal.tokens.is_none() && (goal.deadline_s.is_some() || goal.budget_usd.is_some()) {
        return Err(
            Failure::new("a deadline or a budget needs a number of tokens").hint("add --tokens, as in --tokens 1T")
        );
    }
    let seconds = quantity::seconds("time", Some(&args.time))?.unwrap_or_default();
    let time = Duration::try_from_secs_f64(seconds).map_err(|e| Failure::new(format!("--time: {e}")))?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(SearchOptions {
        goal,
        slices: slices(&args.slices, &args.generations)?,
        batches: (!args.batch_size.is_empty()).then(|| args.batch_size.iter().map(|size| size.get()).collect()),
        price: match args.price {
            PriceArg::OnDemand => PriceKind::OnDemand,
            PriceArg::Spot => PriceKind::Spot,
            PriceArg::Committed1Year => PriceKind::Committed1Year,
            PriceArg::Committed3Years => PriceKind::Committed3Years,
        },
        region: args.region.clone(),
        overrides: Overrides::parse(&args.overrides)?,
        compiles: args.compiles.get(),
        time,
        workers: args.jobs.map_or(cores, std::num::NonZero::get),
        flags: named_flags(&args.flags)?,
        confirm: if args.confirm { Confirm::Best } else { Confirm::No },
        machine: args.machine.as_deref().map(commands::calibrate::read).transpose()?,
    })
}

/// Generations explored where none is named: those that can be had in several regions today.
const GENERATIONS: [Generation; 4] = [Generation::V5e, Generation::V5p, Generation::V6e, Generation::Tpu7x];
/// Chips at most where no slice is named.
const MAX_CHIPS: u32 = 1024;

/// Slices by name, by pattern (`v5e-*`), or by generation: then every size that is a power of two.
fn slices(names: &[String], generations: &[String]) -> Result<Vec<Slice>, Failure> {
    let mut chosen = Vec::new();
    for name in names {
        if let Some(prefix) = name.strip_suffix('*') {
            let matching: Vec<Slice> = Generation::ALL
                .iter()
                .flat_map(|generation| Slice::defaults(*generation))
                .filter(|slice| {
                    slice.to_string().starts_with(prefix) || format!("{}-", slice.generation()).starts_with(prefix)
                })
                .collect();
            if matching.is_empty() {
                return Err(Failure::new(format!("{name} is not a slice")).hint(
                    "as in --slices 'v5e-*,v6e-256'; `tpu chips v5e --slices` lists the slices of one generation",
                ));
            }
            chosen.extend(matching);
        } else {
            chosen.push(name.parse()?);
        }
    }
    let mut named = Vec::new();
    for name in generations {
        named.push(Generation::from_name(name).ok_or_else(|| {
            Failure::new(format!("{name} is not a TPU generation")).hint("`tpu chips` lists generations")
        })?);
    }
    if chosen.is_empty() || !named.is_empty() {
        let is_default = named.is_empty();
        for generation in if is_default { GENERATIONS.to_vec() } else { named } {
            let sizes = Slice::defaults(generation).into_iter();
            chosen.extend(sizes.filter(|slice| slice.chips().is_power_of_two() && slice.chips() <= MAX_CHIPS));
        }
    }
    chosen.sort();
    chosen.dedup();
    Ok(chosen)
}

/// Writes the program of a plan: text, or bytecode if its name ends in `.bc` and the format can hold it.
fn write_program(source: &dyn ProgramSource, plan: &Plan, path: &Path) -> Result<(), Failure> {
    let program = source.program(&plan.candidate)?;
    if path.extension().is_some_and(|extension| extension == "bc") {
        return write_file(path, &::hlo::bytecode::write(program.verified())?);
    }
    write_file(path, ::hlo::text::print(program.module()).as_bytes())
}

/// The command that looks closer at a plan.
fn next(args: &PlanArgs, plan: &Plan) -> String {
    let file = args.out.as_deref().unwrap_or(Path::new("OUT.mlir"));
    let mut command = format!("tpu fit {} --slice {}", file.display(), plan.slice);
    for (name, value) in plan.candidate.compiler_flags() {
        command.push_str(&format!(" --flag {name}={value}"));
    }
    for flag in &args.flags {
        command.push_str(&format!(" --flag {flag}"));
    }
    if args.out.is_none() {
        command.push_str("   (after `tpu plan … --out OUT.mlir`, which writes the program as planned)");
    }
    command
}

fn text(found: &Found, next: Option<&str>) -> String {
    let facts = &found.facts;
    let mut text = summary(facts);
    text.push_str(&format!(
        "{} candidates considered, {} compiled, {} refused, {}\n",
        found.considered,
        found.compiled,
        found.refused.len(),
        human::seconds(found.wall_s)
    ));
    if !found.plans.is_empty() {
        text.push('\n');
        text.push_str(&table(found).render());
        text.push_str("  * no other plan is better in time, cost and room together\n");
    }
    text.push('\n');
    match found.best() {
        None => text.push_str("no plan: nothing that was compiled fits\n"),
        Some(plan) if plan.is_met => text.push_str(&format!("recommended: {}\n", plan.candidate)),
        Some(plan) => {
            text.push_str(&format!("no plan meets the goal; the nearest: {}\n", plan.candidate));
            for line in found.shortfall() {
                text.push_str(&format!("  it would take {line}\n"));
            }
        }
    }
    if let Some(plan) = found.best() {
        text.push_str(&format!(
            "  a step {} ({} to {}), MFU {:.1} %, HFU {:.1} %, {} tokens/s, {:.0} on each chip\n",
            human::seconds(plan.step.seconds),
            human::seconds(plan.step.low_s),
            human::seconds(plan.step.high_s),
            plan.mfu * 100.0,
            plan.hfu * 100.0,
            human::count(plan.tokens_per_s),
            plan.tokens_per_s_per_chip
        ));
        if facts.cache_bytes_per_sample > 0 {
            let all = facts.cache_bytes_per_sample.saturating_mul(plan.batch);
            let each = human::bytes(facts.cache_bytes_per_sample);
            text.push_str(&format!(
                "  keys and values: {} for {} sequences, {each} each\n",
                human::bytes(all),
                plan.batch
            ));
        }
        text.push_str(&format!("  MFU counts {}\n", facts.convention));
    }
    if !found.loads.is_empty() {
        text.push_str("\nthe recommended slice, mesh and flags against concurrency\n");
        text.push_str(&load_table(&found.loads).render());
        text.push('\n');
    }
    if let Some(next) = next {
        text.push_str(&format!("next: {next}\n"));
    }
    for note in &found.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text
}

fn summary(facts: &Facts) -> String {
    let kind = if facts.kind == StepKind::Training { "training step" } else { "inference step" };
    let batch = facts.batch.map_or("any batch".to_string(), |batch| format!("batch {batch}"));
    format!(
        "{kind}: {} parameters, {} of state, {batch}, {} tokens a sample, {} FLOPs a sample\n",
        human::count(facts.parameters as f64),
        human::bytes(facts.state_bytes),
        facts.tokens_per_sample,
        human::count(facts.model_flops_per_sample)
    )
}

fn table(found: &Found) -> Table {
    use Align::{Left, Right};
    let is_training = found.facts.kind == StepKind::Training;
    let mut table = Table::new(&[Left, Left, Left, Right, Right, Right, Right, Right, Right, Right]);
    let (time, cost) = match (found.goal.tokens, is_training) {
        (Some(_), _) => ("time".to_string(), "cost".to_string()),
        (None, _) => ("time / M tokens".to_string(), "cost / M tokens".to_string()),
    };
    let rate = if is_training { "MFU" } else { "tokens/s/chip" };
    let step = if is_training { "step" } else { "latency" };
    table.row(["", "slice", "mesh", "batch", step, rate, "HBM free", &time, &cost, "meets"]);
    for plan in &found.plans {
        let mesh = match plan.sharding {
            ShardingChoice::ByRule(mesh) => mesh.to_string(),
            ShardingChoice::AsWritten => "as written".into(),
        };
        let mesh = match &plan.variant {
            Some(variant) => format!("{mesh}, {variant}"),
            None => mesh,
        };
        let mut slice = plan.slice.clone();
        if !plan.candidate.compiler_flags().is_empty() {
            slice.push_str(" +flags");
        }
        let rate = if is_training {
            format!("{:.1} %", plan.mfu * 100.0)
        } else {
            format!("{:.0}", plan.tokens_per_s_per_chip)
        };
        table.row([
            if plan.is_on_frontier { "*" } else { "" }.to_string(),
            slice,
            mesh,
            plan.batch.to_string(),
            human::seconds(plan.step.seconds),
            rate,
            human::bytes(plan.headroom_bytes().max(0) as u64),
            long_time(plan.outcome.seconds),
            plan.outcome.usd.map_or("-".into(), money),
            if plan.is_met { "yes" } else { "no" }.to_string(),
        ]);
    }
    table
}

fn load_table(loads: &[Load]) -> Table {
    let mut table = Table::new(&[Align::Right; 6]);
    table.row(["sequences", "latency", "per token", "tokens/s/chip", "keys and values", "HBM free"]);
    for load in loads {
        table.row([
            load.concurrency.to_string(),
            human::seconds(load.latency_s),
            human::seconds(load.latency_per_token_s),
            format!("{:.0}", load.tokens_per_s_per_chip),
            human::bytes(load.cache_bytes),
            human::bytes(load.headroom_bytes.max(0) as u64),
        ]);
    }
    table
}

/// Time with days, which runs take.
fn long_time(seconds: f64) -> String {
    if seconds < 2.0 * 86400.0 { human::seconds(seconds) } else { format!("{:.1} d", seconds / 86400.0) }
}

fn money(usd: f64) -> String {
    match usd {
        usd if usd < 100.0 => format!("${usd:.3}"),
        usd if usd < 1e5 => format!("${usd:.0}"),
        usd if usd < 1e7 => format!("${:.0}k", usd / 1e3),
        usd => format!("${:.1}M", usd / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_chosen_by_name_pattern_or_generation() {
        let check = |names: &[&str], generations: &[&str]| {
            let owned = |list: &[&str]| list.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
            slices(&owned(names), &owned(generations))
                .map(|slices| slices.iter().map(Slice::to_string).collect::<Vec<_>>())
        };
        assert_eq!(check(&["v6e-8", "v5e-4"], &[]).unwrap(), ["v5litepod-4", "v6e-8"]);
        let v6e = check(&["v6e-*"], &[]).unwrap();
        assert!(v6e.iter().all(|name| name.starts_with("v6e-")) && v6e.contains(&"v6e-256".to_string()), "{v6e:?}");
        let v5e = check(&["v5e-*"], &[]).unwrap();
        assert!(
            v5e.contains(&"v5litepod-16".to_string()) && !v5e.iter().any(|name| name.starts_with("v5p")),
            "{v5e:?}"
        );
        assert!(check(&[], &["v5p"]).unwrap().iter().all(|name| name.starts_with("v5p")));
        assert!(check(&[], &[]).unwrap().len() > 20);
        assert!(check(&["v9-*"], &[]).is_err() && check(&[], &["v9"]).is_err() && check(&["v6e-7"], &[]).is_err());
    }

    #[test]
    fn money_and_days_read_well() {
        assert_eq!(money(0.1234), "$0.123");
        assert_eq!(money(51234.4), "$51234");
        assert_eq!(money(367_400.0), "$367k");
        assert_eq!(long_time(22.0 * 86400.0), "22.0 d");
    }
}
