//! `tpu cost`: what jobs and runs cost: planned, so far, for each token, wasted by restarts.

use std::path::{Path, PathBuf};

use chips::PriceKind;
use fleet::cost::{CostRecord, CostReport, CostSum, IdleSlice, RunPrice, RunPriceError};
use fleet::job::JobFile;
use fleet::supervisor::{JobState, Journal};
use weights::Store;

use crate::args::CostArgs;
use crate::failure::{Answer, Failure, file};
use crate::output::{Align, Output, Table};

pub(crate) fn run(args: &CostArgs, output: &Output) -> Result<Answer, Failure> {
    let price = price(args)?;
    let labels = args.label.iter().map(|text| label(text)).collect::<Result<Vec<_>, _>>()?;
    let now = telemetry::now_seconds();
    let (mut records, mut jobs) = (Vec::new(), Vec::new());
    for place in &args.runs {
        if place.ends_with(".toml") {
            let (record, state) = job(Path::new(place), now)?;
            records.push(record);
            jobs.push(state);
            continue;
        }
        for folder in runs(Path::new(place))? {
            let record = CostRecord::of_run(&folder, &price, now).map_err(told)?;
            records.push(labels.iter().fold(record, |record, (name, value)| record.with_label(name, value)));
        }
    }
    let report = CostReport::new(records, args.by.as_deref()).with_idle(idle(args, &jobs)?);
    output.record(&report, || text(&report, args.by.as_deref()))?;
    Ok(Answer::Yes)
}

/// The cost of a job, from its file and the journal of its supervisor.
fn job(path: &Path, now_seconds: f64) -> Result<(CostRecord, JobState), Failure> {
    let job =
        JobFile::read(path).map_err(|error| Failure::new(error).hint("give a job file, or the folder of a run"))?;
    let store = Store::open(&job.folder).map_err(|error| {
        let remedy = error.remedy();
        Failure::new(error).hint(remedy)
    })?;
    let journal = Journal::read(&store).map_err(|error| Failure::new(format!("{}: {error}", job.folder)))?;
    match journal {
        Some((journal, _)) => {
            let record = CostRecord::of_job(&job, &journal.state, (now_seconds * 1000.0) as u64);
            Ok((record, journal.state))
        }
        None => Err(Failure::new(format!("{} has no journal: job {} was never started", job.folder, job.name))
            .hint("tpu job run starts it")),
    }
}

#[cfg(feature = "cloud")]
fn idle(args: &CostArgs, jobs: &[JobState]) -> Result<Vec<IdleSlice>, Failure> {
    if args.idle { super::idle::find(args, jobs) } else { Ok(Vec::new()) }
}

#[cfg(not(feature = "cloud"))]
fn idle(_args: &CostArgs, _jobs: &[JobState]) -> Result<Vec<IdleSlice>, Failure> {
    Ok(Vec::new())
}

fn told(error: RunPriceError) -> Failure {
    let remedy = error.remedy();
    Failure::new(error).hint(remedy)
}

/// A folder that is a run, or the runs in it.
fn runs(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let is_run = |folder: &Path| folder.join("goodput").is_dir();
    if is_run(folder) {
        return Ok(vec![folder.to_path_buf()]);
    }
    let entries = std::fs::read_dir(folder).map_err(|error| file("reading", folder, error))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| is_run(path)).collect();
    found.sort();
    if found.is_empty() {
        return Err(Failure::new(format!("{} holds no run", folder.display()))
            .hint("give the folder of a `tpu train` run (train.folder), or one that holds some"));
    }
    Ok(found)
}

fn price(args: &CostArgs) -> Result<RunPrice, Failure> {
    let kinds = [
        ("on-demand", PriceKind::OnDemand),
        ("spot", PriceKind::Spot),
        ("committed-1-year", PriceKind::Committed1Year),
        ("committed-3-years", PriceKind::Committed3Years),
    ];
    if let Some((_, kind)) = kinds.iter().find(|(name, _)| *name == args.price) {
        return Ok(RunPrice::Published { kind: *kind, region: args.region.clone() });
    }
    let usd = args.price.trim_start_matches('$').parse::<f64>().ok().filter(|usd| usd.is_finite() && *usd >= 0.0);
    usd.map(RunPrice::Given).ok_or_else(|| {
        let names = kinds.map(|(name, _)| name).join(", ");
        Failure::new(format!("`{}` is no price", args.price)).hint(format!("{names}, or dollars as in 1.35"))
    })
}

fn label(text: &str) -> Result<(&str, &str), Failure> {
    let parts = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    parts.ok_or_else(|| Failure::new(format!("`{text}` is no label")).hint("a label is as in team=vision"))
}

fn text(report: &CostReport, by: Option<&str>) -> String {
    let mut text = String::new();
    if let Some(by) = by {
        text.push_str(&table(by, &report.groups, &report.total));
        text.push('\n');
    }
    if !report.jobs.is_empty() {
        text.push_str(&table("job", &report.jobs, &report.total));
    }
    for idle in &report.idle {
        let hourly = idle.usd_per_hour.map_or(String::new(), |usd| format!(", ${usd:.2} an hour"));
        text.push_str(&format!("idle: {}/{}{hourly}: {} ({})\n", idle.zone, idle.name, idle.why, idle.remedy));
    }
    if !report.total.price_dates.is_empty() {
        let dates = report.total.price_dates.join(", ");
        text.push_str(&format!("\nlist prices of {dates}, as tpu chips shows them; an invoice may differ\n"));
    }
    text
}

fn table(first: &str, lines: &[CostSum], total: &CostSum) -> String {
    let numbers = [Align::Right; 9];
    let mut table = Table::new(&[&[Align::Left][..], &numbers].concat());
    let header = ["running", "starts", "planned", "so far", "an hour", "wasted", "hours", "goodput", "per 1M tokens"];
    table.row([&[first][..], &header].concat());
    let usd = |usd: f64| format!("${usd:.2}");
    let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_string());
    // The total of one is that one.
    let total = (lines.len() > 1).then_some(total);
    for line in lines.iter().chain(total) {
        table.row([
            line.label.clone(),
            if line.jobs == 1 {
                (if line.running == 1 { "yes" } else { "no" }).into()
            } else {
                line.running.to_string()
            },
            line.attempts.to_string(),
            optional(line.planned_usd.map(usd)),
            usd(line.usd),
            usd(line.usd_per_hour),
            match line.wasted_share {
                Some(share) => format!("{} ({:.0} %)", usd(line.wasted_usd), 100.0 * share),
                None => usd(line.wasted_usd),
            },
            format!("{:.2}", line.slice_hours),
            optional(line.goodput.map(|goodput| format!("{:.0} %", 100.0 * goodput))),
            optional(line.usd_per_million_tokens.map(|usd| format!("${usd:.4}"))),
        ]);
    }
    table.render()
}
