//! `tpu explain`: what fills memory, where the time goes, and what to change.

use std::path::Path;

use plan::report::ReportInput;
use plan::{Explanation, Fit, Fix, Held, Roofline, Trials};
use serde::Serialize;

use crate::args::ExplainArgs;
use crate::commands::compile::{read_input, write_file};
use crate::commands::fit::{head, memory_table, seconds, setup, talk, write_page};
use crate::failure::{Answer, Failure};
use crate::output::{Align, Output, Table};
use crate::progress::Progress;
use crate::{human, stop};

/// What `--json` prints.
#[derive(Serialize)]
struct Record<'a> {
    version: u32,
    #[serde(flatten)]
    explanation: &'a Explanation,
}

pub(crate) fn run(args: &ExplainArgs, output: &Output) -> Result<Answer, Failure> {
    let (compiler, request) = setup(&args.question)?;
    let program = read_input(&args.question.file)?;
    let trials = if args.no_trials { Trials::Skip } else { Trials::Run };
    let stop = stop::on_signal();
    let progress = Progress::start();
    let explanation = plan::explain(&compiler, &program, &request, trials, &stop, &mut |step| progress.step(step));
    drop(progress);
    let explanation = explanation?;
    output.record(&Record { version: 1, explanation: &explanation }, || text(&explanation, args.top))?;
    talk_of(&explanation);
    if let Some(path) = &args.question.html {
        let pictures = explanation.fit.pictures.clone();
        write_page(&ReportInput::of_explanation(&explanation, &request.compile.slice, pictures), path)?;
    }
    if let Some(path) = &args.apply {
        apply(&explanation, path)?;
    }
    Ok(if explanation.fit.verdict.fits { Answer::Yes } else { Answer::No })
}

fn talk_of(explanation: &Explanation) {
    let fit = &explanation.fit;
    if !fit.verdict.fits && !explanation.fixes.is_empty() {
        fit.verdict.message.iter().for_each(|message| eprintln!("{message}"));
        fit.notes.iter().for_each(|note| eprintln!("note: {note}"));
    } else {
        talk(fit);
    }
}

/// Writes the changed program.
fn apply(explanation: &Explanation, path: &Path) -> Result<(), Failure> {
    if let Some((title, program)) = &explanation.applied {
        let is_bytecode = path.extension().is_some_and(|extension| extension == "bc");
        if is_bytecode {
            write_file(path, program.bytes())?;
        } else {
            write_file(path, ::hlo::text::print(program.module()).as_bytes())?;
        }
        eprintln!("applied: {title}; written to {}", path.display());
    }
    let first = explanation.fixes.iter().find(|fix| fix.is_applicable());
    match first {
        Some(fix) if !fix.options.is_empty() => eprintln!("compile it with: {}", fix.options.join(" ")),
        _ if explanation.applied.is_none() => return Err(plan::Error::NothingToApply.into()),
        _ => {}
    }
    Ok(())
}

fn text(explanation: &Explanation, top: usize) -> String {
    let fit = &explanation.fit;
    let mut text = head(fit);
    if let Some(memory) = &fit.memory {
        text.push('\n');
        text.push_str(&memory_table(memory));
        text.push_str("\nwhat fills it\n");
        text.push_str(&held_table(&memory.largest, top));
        if let Some(peak) = &memory.peak {
            let place = peak.location.as_ref().map_or_else(String::new, |location| format!(", {location}"));
            text.push_str(&format!(
                "\nfullest during {} of {} ({}{place}): {} of temporaries alive\n",
                peak.instruction,
                peak.computation,
                if peak.source.is_empty() { "unnamed" } else { &peak.source },
                human::bytes(peak.temporary_bytes)
            ));
            text.push_str(&held_table(&peak.alive, top));
        }
    }
    text.push_str(&time(fit, explanation.roofline.as_ref(), top));
    text.push_str(&advice(fit));
    if !fit.verdict.fits {
        text.push_str(&fixes(&explanation.fixes));
    }
    text
}

fn held_table(held: &[Held], top: usize) -> String {
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Left, Align::Left, Align::Left, Align::Left]);
    table.row(["bytes", "padding", "what", "name", "shape", "source"]);
    for buffer in held.iter().take(top) {
        let padding = buffer.bytes - buffer.logical_bytes;
        let source = match &buffer.location {
            _ if buffer.argument.is_some() => String::new(),
            Some(location) => format!("{} {location}", buffer.source),
            None => buffer.source.clone(),
        };
        table.row([
            human::bytes(buffer.bytes),
            if padding > 0 { human::bytes(padding) } else { "-".into() },
            buffer.class.name().to_string(),
            buffer.name.clone(),
            buffer.shape.clone(),
            source,
        ]);
    }
    table.render()
}

fn time(fit: &Fit, roofline: Option<&Roofline>, top: usize) -> String {
    let Some(estimate) = &fit.estimate else { return String::new() };
    let step = &estimate.step;
    let mut text =
        format!("\nstep {} (from {} to {})\n", seconds(step.seconds), seconds(step.low_s), seconds(step.high_s));
    if let Some(roof) = roofline {
        let side = if roof.intensity < roof.machine_intensity { "device memory" } else { "the matrix units" };
        text.push_str(&format!(
            "  {:.0} FLOPs for each byte of HBM; the machine balances at {:.0}: the roof is {side}\n",
            roof.intensity, roof.machine_intensity
        ));
        let batch = roof.compute_bound_batch.bf16;
        text.push_str(&format!(
            "  a matmul with bf16 weights from HBM is compute bound from a batch of {batch} tokens on a device\n"
        ));
        let mut table = Table::new(&[Align::Right, Align::Left, Align::Right, Align::Right, Align::Left, Align::Left]);
        table.row(["time", "limited by", "FLOPs/byte", "of roof", "operation", "source"]);
        for op in roof.ops.iter().take(top) {
            table.row([
                seconds(op.seconds),
                op.bound.name().to_string(),
                op.intensity.map_or_else(|| "-".into(), |intensity| format!("{intensity:.1}")),
                format!("{:.0} %", op.share_of_roof * 100.0),
                op.name.clone(),
                op.source.clone(),
            ]);
        }
        text.push_str(&table.render());
    }
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Left]);
    table.row(["time", "share", "by source"]);
    for (source, time) in estimate.sources.iter().take(top) {
        let share = time / step.seconds.max(1e-30);
        table.row([seconds(*time), format!("{:.1} %", share * 100.0), source.clone()]);
    }
    text.push('\n');
    text.push_str(&table.render());
    text
}

fn advice(fit: &Fit) -> String {
    if fit.advice.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nadvice\n");
    for advice in &fit.advice {
        let mut gains = Vec::new();
        if advice.gain_s > 0.0 {
            gains.push(format!("{} a step", seconds(advice.gain_s)));
        }
        if advice.gain_bytes > 0 {
            gains.push(format!("{} of memory", human::bytes(advice.gain_bytes)));
        }
        let gain = match (gains.is_empty(), advice.verified) {
            (true, true) => "gains nothing here (compiled)".to_string(),
            (true, false) => "gain unknown".to_string(),
            (false, true) => format!("saves {} (compiled)", gains.join(", ")),
            (false, false) => format!("may save {}", gains.join(", ")),
        };
        text.push_str(&format!("  {gain}: {}\n      {}\n", advice.title, advice.remedy));
        for place in &advice.places {
            text.push_str(&format!("      - {place}\n"));
        }
    }
    text
}

fn fixes(fixes: &[Fix]) -> String {
    if fixes.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nfixes, each compiled\n");
    for (position, fix) in fixes.iter().enumerate() {
        let memory = match (fix.hbm_bytes, fix.limit_bytes) {
            (Some(bytes), Some(limit)) => format!(", {} of {}", human::bytes(bytes), human::bytes(limit)),
            _ => String::new(),
        };
        let step = fix.step_s.map_or_else(String::new, |step| format!(", step {}", seconds(step)));
        let verdict = if fix.fits { "fits" } else { "does not fit" };
        text.push_str(&format!("  {}. {}: {verdict}{memory}{step}\n", position + 1, fix.title));
        text.push_str(&format!("      {}\n", fix.detail));
        if !fix.options.is_empty() {
            text.push_str(&format!("      options: {}\n", fix.options.join(" ")));
        }
    }
    if !fixes.iter().any(|fix| fix.fits) {
        text.push_str("  none of them is enough: a smaller batch or more chips with another sharding is needed\n");
    }
    text
}
