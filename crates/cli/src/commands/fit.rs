//! `tpu fit`: does a program fit a slice, what fills it, how long is a step, what does it cost.

use std::path::Path;

use compile::CompileMode;
use plan::report::{ReportInput, html};
use plan::{Draw, Estimate, Fit, FitRequest, MeasuredRates, MemoryBreakdown, RunCost, RunLength, Tariff, Workload};
use serde::Serialize;

use crate::args::{FitArgs, QuestionArgs};
use crate::commands::compile::{compiler as slice_compiler, read_input, request as compile_request, write_file};
use crate::failure::{Answer, Failure};
use crate::output::{Align, Output, Table};
use crate::progress::Progress;
use crate::{commands, human, quantity, stop};

/// What `--json` prints.
#[derive(Serialize)]
struct Record<'a> {
    version: u32,
    #[serde(flatten)]
    fit: &'a Fit,
}

pub(crate) fn run(args: &FitArgs, output: &Output) -> Result<Answer, Failure> {
    let args = &args.question;
    let (compiler, request) = setup(args)?;
    let program = read_input(&args.file)?;
    let stop = stop::on_signal();
    let progress = Progress::start();
    let fit = plan::fit(&compiler, &program, &request, &stop, &mut |step| progress.step(step));
    drop(progress);
    let fit = fit?;
    output.record(&Record { version: 1, fit: &fit }, || text(&fit))?;
    talk(&fit);
    if let Some(path) = &args.html {
        write_page(&ReportInput::of_fit(&fit, &request.compile.slice, fit.pictures.clone()), path)?;
    }
    Ok(if fit.verdict.fits { Answer::Yes } else { Answer::No })
}

/// The compiler and the question, from the command line.
pub(crate) fn setup(args: &QuestionArgs) -> Result<(compile::SliceCompiler, FitRequest), Failure> {
    let QuestionArgs { compiler, workload, .. } = args;
    let mode = if args.full { CompileMode::Full } else { CompileMode::Quick };
    let count = |option: &str, text: &Option<String>| quantity::count(option, text.as_deref());
    let (steps, tokens) = (count("steps", &workload.steps)?, count("total-tokens", &workload.total_tokens)?);
    let config = commands::config::resolve(&compiler.config, None)?.config;
    let compile = compile_request(compiler, &config, mode)?;
    let rates = match &args.machine {
        Some(path) => commands::calibrate::read(path)?.rates_for(&compile.slice)?,
        None => MeasuredRates::default(),
    };
    let request = FitRequest {
        compile,
        batch: workload.batch,
        workload: Workload {
            tokens_per_step: count("tokens", &workload.tokens)?,
            model_flops_per_step: count("model-flops", &workload.model_flops)?,
            rates,
        },
        run: match (steps, tokens) {
            (Some(steps), _) => RunLength::Steps(steps),
            (None, Some(tokens)) => RunLength::Tokens(tokens),
            (None, None) => RunLength::Unknown,
        },
        tariff: Tariff {
            region: workload.region.clone(),
            usd_per_chip_hour: quantity::dollars("price", workload.price.as_deref())?,
        },
        draw: if args.html.is_some() { Draw::Pictures } else { Draw::Nothing },
    };
    Ok((slice_compiler(compiler, &config)?, request))
}

/// Writes the answer as a page.
pub(crate) fn write_page(report: &ReportInput, path: &Path) -> Result<(), Failure> {
    write_file(path, html(report).as_bytes())?;
    eprintln!("page written to {}", path.display());
    Ok(())
}

/// Remarks beside the answer.
pub(crate) fn talk(fit: &Fit) {
    if let Some(message) = &fit.verdict.message {
        eprintln!("{message}");
    }
    for note in &fit.notes {
        eprintln!("note: {note}");
    }
    if !fit.verdict.fits {
        eprintln!("hint: `tpu explain` with the same options names what fills it and tries what would make it fit");
    }
}

fn text(fit: &Fit) -> String {
    let mut text = head(fit);
    if let Some(memory) = &fit.memory {
        text.push('\n');
        text.push_str(&memory_table(memory));
    }
    if let Some(estimate) = &fit.estimate {
        text.push('\n');
        text.push_str(&step_table(fit, estimate));
    }
    if let Some(cost) = &fit.cost {
        text.push('\n');
        text.push_str(&cost_table(cost));
    }
    text
}

pub(crate) fn head(fit: &Fit) -> String {
    let mode = match fit.mode {
        CompileMode::Quick => "quick",
        CompileMode::Full => "full",
    };
    let mut text = format!(
        "{} on {}, {} devices: {} replicas × {} partitions, {mode} compilation{}\n",
        fit.module,
        fit.slice,
        fit.devices,
        fit.replicas,
        fit.partitions,
        if fit.cached { " (cached)" } else { "" }
    );
    let verdict = &fit.verdict;
    let figures = match (verdict.needed_bytes, verdict.limit_bytes) {
        (Some(needed), Some(limit)) => {
            let room = human::bytes(limit.abs_diff(needed));
            let word = if verdict.fits { "free" } else { "too much" };
            format!(": {} of {} {}, {room} {word}", human::bytes(needed), human::bytes(limit), verdict.space)
        }
        _ => String::new(),
    };
    text.push_str(&format!("{}{figures}\n", if verdict.fits { "fits" } else { "does not fit" }));
    if let Some(operation) = &verdict.operation {
        text.push_str(&format!("  asked for by {operation}\n"));
    }
    text
}

pub(crate) fn memory_table(memory: &MemoryBreakdown) -> String {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(["HBM per device", "bytes", "of limit", "of these padding"]);
    let padding = |bytes: u64| if bytes > 0 { human::bytes(bytes) } else { "-".into() };
    for row in &memory.classes {
        table.row([
            row.class.name().to_string(),
            human::bytes(row.bytes),
            human::percent(row.bytes, memory.limit_bytes),
            padding(row.padding_bytes),
        ]);
    }
    table.row([
        "total".to_string(),
        human::bytes(memory.total_bytes),
        human::percent(memory.total_bytes, memory.limit_bytes),
        padding(memory.padding_bytes),
    ]);
    table.row(["limit".to_string(), human::bytes(memory.limit_bytes), String::new(), String::new()]);
    let mut text = table.render();
    let mut beside = Table::new(&[Align::Left, Align::Right]);
    if memory.aliased_bytes > 0 {
        beside.row(["results in place of donated arguments".to_string(), human::bytes(memory.aliased_bytes)]);
    }
    if let Some(code) = memory.code_bytes.filter(|bytes| *bytes > 0) {
        beside.row(["machine code, not counted above".to_string(), human::bytes(code)]);
    }
    if memory.host_bytes > 0 {
        beside.row(["pinned host memory".to_string(), human::bytes(memory.host_bytes)]);
    }
    if let Some(vmem) = memory.vmem.filter(|vmem| vmem.capacity_bytes > 0) {
        let share = human::percent(vmem.used_bytes, vmem.capacity_bytes);
        beside.row(["vector memory for values".to_string(), format!("{} ({share})", human::bytes(vmem.used_bytes))]);
    }
    if !beside.is_empty() {
        text.push('\n');
        text.push_str(&beside.render());
    }
    text
}

/// Seconds with three significant digits.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        v if v < 1e-3 => format!("{:.1} µs", v * 1e6),
        v if v < 1.0 => format!("{:.3} ms", v * 1e3),
        v => format!("{v:.3} s"),
    }
}

fn step_table(fit: &Fit, estimate: &Estimate) -> String {
    let step = &estimate.step;
    let would = if fit.verdict.fits { "" } else { ", if it fitted" };
    let mut text =
        format!("step {} (from {} to {}){would}\n", seconds(step.seconds), seconds(step.low_s), seconds(step.high_s));
    let mut shares = Table::new(&[Align::Left, Align::Right, Align::Right]);
    shares.row(["limited by", "time", "share"]);
    for share in &estimate.shares {
        shares.row([share.bound.name().to_string(), seconds(share.seconds), format!("{:.1} %", share.share * 100.0)]);
    }
    text.push_str(&shares.render());
    let mut work = Table::new(&[Align::Left, Align::Right]);
    if let Some(tokens) = estimate.tokens_per_s {
        work.row(["tokens per second".to_string(), human::count(tokens)]);
        work.row(["tokens per second and device".to_string(), human::count(tokens / estimate.devices.max(1) as f64)]);
    }
    work.row(["matrix FLOPs per device and step".to_string(), human::count(estimate.flops)]);
    if let Some(mfu) = estimate.mfu {
        work.row(["MFU: --model-flops over bf16 peak".to_string(), format!("{:.1} %", mfu * 100.0)]);
    }
    work.row([
        "HFU: FLOPs of matmuls as run, rematerialized ones included, over bf16 peak".to_string(),
        format!("{:.1} %", estimate.hfu * 100.0),
    ]);
    for transfer in &estimate.transfers {
        work.row([
            format!("transfers over {}", transfer.lane.name()),
            format!("{}, {} waited for", seconds(transfer.seconds), seconds(transfer.exposed_s)),
        ]);
    }
    text.push('\n');
    text.push_str(&work.render());
    for note in &estimate.notes {
        text.push_str(&format!("  assumed: {note}\n"));
    }
    text
}

fn dollars(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("${v:.0}"),
        v if v >= 0.01 => format!("${v:.2}"),
        v => format!("${v:.2e}"),
    }
}

pub(crate) fn cost_table(cost: &RunCost) -> String {
    if let Some(note) = &cost.note {
        return format!("cost: {note}\n");
    }
    let mut columns = vec![Align::Left, Align::Left, Align::Right, Align::Right, Align::Right];
    let mut head = vec!["cost", "region", "chip-hour", "hour", "step"];
    let tokens = cost.terms.iter().any(|terms| terms.usd_per_million_tokens.is_some());
    let run = cost.terms.iter().any(|terms| terms.usd_per_run.is_some());
    for (wanted, name) in [(tokens, "million tokens"), (run, "run"), (true, "price of")] {
        if wanted {
            columns.push(if name == "price of" { Align::Left } else { Align::Right });
            head.push(name);
        }
    }
    let mut table = Table::new(&columns);
    table.row(head);
    for terms in &cost.terms {
        let mut row = vec![
            terms.name.to_string(),
            terms.region.clone(),
            dollars(terms.usd_per_chip_hour),
            dollars(terms.usd_per_hour),
            dollars(terms.usd_per_step),
        ];
        row.extend(terms.usd_per_million_tokens.filter(|_| tokens).map(dollars));
        row.extend(terms.usd_per_run.filter(|_| run).map(dollars));
        row.push(terms.date.clone());
        table.row(row);
    }
    let mut text = table.render();
    if let (Some(steps), Some(hours)) = (cost.steps, cost.hours) {
        let time = if hours > 48.0 { format!("{:.1} days", hours / 24.0) } else { human::seconds(hours * 3600.0) };
        text.push_str(&format!("  a run of {} steps takes {time}\n", human::count(steps)));
    }
    text
}
