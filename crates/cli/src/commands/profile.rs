//! `tpu profile`: records a profile of what runs, or says what one measured, beside what is predicted.

use operate::profile::{self, CoreKind, MeasuredOp, ProfileReport, TimeGroup, TraceWriter};
use plan::report::{bytes, percent, scaled, seconds};
use serde::Serialize;

use crate::args::{ProfileArgs, ProfileCommand, ProfileReportArgs};
use crate::commands::capture;
use crate::commands::compile::write_file;
use crate::failure::{Answer, Failure};
use crate::output::{Align, Output, Table};

/// What `--json` prints.
#[derive(Serialize)]
struct Record<'a> {
    version: u32,
    #[serde(flatten)]
    report: &'a ProfileReport,
}

pub(crate) fn run(args: &ProfileArgs, output: &Output) -> Result<Answer, Failure> {
    match (&args.command, &args.capture) {
        (Some(ProfileCommand::Report(args)), _) => report(args, output),
        (None, Some(args)) => capture::run(args, output),
        (None, None) => Err(Failure::new("nothing to profile is named").hint(
            "give the folder of a training that was started with --profiler, or HOST:PORT; or `report` and a profile",
        )),
    }
}

fn report(args: &ProfileReportArgs, output: &Output) -> Result<Answer, Failure> {
    let mut trace = args.trace.as_deref().map(TraceWriter::create).transpose()?;
    let report = profile::read(&args.path, xplane::ReadLimits::default(), trace.as_mut());
    if let (Some(trace), Some(path)) = (trace, &args.trace) {
        match &report {
            Ok(_) => {
                trace.finish()?;
                eprintln!("trace written to {}", path.display());
            }
            // Half a trace helps nobody.
            Err(_) => drop(std::fs::remove_file(path)),
        }
    }
    let report = report?;
    output.record(&Record { version: 1, report: &report }, || text(&report, args.top))?;
    report.notes.iter().for_each(|note| eprintln!("note: {note}"));
    if let Some(path) = &args.html {
        write_file(path, profile::html(&report).as_bytes())?;
        eprintln!("page written to {}", path.display());
    }
    Ok(Answer::Yes)
}

fn text(report: &ProfileReport, top: usize) -> String {
    let mut text = head(report);
    text += &steps(report);
    text += &groups("by category", &report.categories, top);
    text += &ops(&report.ops, top);
    text += &programs(report, top);
    text += &groups("by source line", &report.sources, top);
    text += &groups("by scope", &report.scopes, top);
    text += &transfers(report, top);
    text += &groups("device waits", &report.device_waits, top);
    text += &groups("host, by kind (time of threads)", &report.host_kinds, top);
    text += &host(report, top);
    text += &memory(report);
    text
}

fn head(report: &ProfileReport) -> String {
    let totals = &report.totals;
    let of_time = |part: f64| percent(part / totals.device_s.max(1e-30));
    let mut kinds: Vec<&str> = report.devices.iter().map(|device| device.device_type.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let cores = |kind| report.devices.iter().filter(|device| device.core == kind).count();
    let count = report.devices.len() - cores(CoreKind::SparseCore);
    let mut text = format!(
        "{count} {} ({}), {} of device time: {} busy, {} idle\n",
        if count == 1 { "device" } else { "devices" },
        if kinds.join("").is_empty() { "kind unknown".into() } else { kinds.join(", ") },
        seconds(totals.device_s),
        of_time(totals.busy_s),
        of_time(totals.idle_s),
    );
    if cores(CoreKind::SparseCore) > 0 {
        text += &format!("{} SparseCores, listed by op only\n", cores(CoreKind::SparseCore));
    }
    if let Some(share) = totals.flops_share {
        text += &format!("matrix units  {} of peak, {}\n", percent(share), scaled(totals.flops, "FLOP"));
    }
    if let Some(share) = totals.hbm_share {
        text += &format!("HBM           {} of peak, {}\n", percent(share), bytes(totals.hbm_bytes as u64));
    }
    for (name, counted) in [("matrix units", totals.counted_matrix_percent), ("HBM", totals.counted_hbm_percent)] {
        text += &counted.map_or_else(String::new, |share| format!("{name:<13} {share:.1} % by hardware counters\n"));
    }
    let found = &report.collectives;
    if found.occurrences > 0 {
        text += &format!(
            "collectives   {} under way, {} exposed ({} of device time)",
            seconds(found.total_s),
            seconds(found.exposed_s),
            percent(found.exposed_share)
        );
        text += &found.sent_bytes_per_s.map_or_else(String::new, |rate| format!(", {} sent", scaled(rate, "B/s")));
        text.push('\n');
    }
    if totals.infeed_s + totals.outfeed_s > 0.0 {
        text += &format!("infeed        {}, outfeed {}\n", of_time(totals.infeed_s), of_time(totals.outfeed_s));
    }
    text
}

fn steps(report: &ProfileReport) -> String {
    report.steps.as_ref().map_or_else(String::new, |steps| {
        format!(
            "steps         {} marked by the {}: {} on average, {} to {}, deviation {}\n",
            steps.count,
            steps.marked_by,
            seconds(steps.mean_s),
            seconds(steps.min_s),
            seconds(steps.max_s),
            seconds(steps.deviation_s)
        )
    })
}

/// A table under its title, with what was left out.
fn titled(title: &str, table: &Table, total: usize, top: usize) -> String {
    let rest = if total > top { format!("  … and {} more\n", total - top) } else { String::new() };
    format!("\n{title}\n{}{rest}", table.render())
}

fn groups(title: &str, groups: &[TimeGroup], top: usize) -> String {
    if groups.is_empty() || (groups.len() == 1 && groups[0].name == "(unknown)") {
        return String::new();
    }
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Left]);
    table.row(["self time", "share", "events", "name"]);
    for group in groups.iter().take(top) {
        table.row([seconds(group.self_s), percent(group.share), group.occurrences.to_string(), tail(&group.name, 90)]);
    }
    titled(title, &table, groups.len(), top)
}

fn ops(ops: &[MeasuredOp], top: usize) -> String {
    let mut table = Table::new(&[
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
        Align::Left,
        Align::Left,
    ]);
    table.row(["self time", "share", "runs", "a run", "predicted", "of roof", "category", "op", "scope"]);
    for op in ops.iter().take(top) {
        let roof = op.roofline.map(|roof| format!("{} {}", percent(roof.share_of_roof), roof.bound));
        table.row([
            seconds(op.self_s),
            percent(op.share),
            op.occurrences.to_string(),
            seconds(op.self_s / op.occurrences.max(1) as f64),
            op.predicted_s.map_or_else(|| "-".into(), seconds),
            roof.unwrap_or_else(|| "-".into()),
            tail(&op.category, 30),
            tail(&op.name, 50),
            tail(&op.scope, 50),
        ]);
    }
    titled("by op", &table, ops.len(), top)
}

fn programs(report: &ProfileReport, top: usize) -> String {
    if report.programs.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right]);
    table.row(["program", "runs", "mean", "longest", "predicted", "HBM"]);
    for program in report.programs.iter().take(top) {
        let predicted = program
            .predicted_s
            .map(|time| format!("{} ({})", seconds(time), program.predicted_for.as_deref().unwrap_or("one device")));
        table.row([
            tail(&program.name, 60),
            program.executions.to_string(),
            seconds(program.mean_s),
            seconds(program.max_s),
            predicted.unwrap_or_else(|| "-".into()),
            program.hbm_bytes.map_or_else(|| "-".into(), bytes),
        ]);
    }
    titled("programs", &table, report.programs.len(), top)
}

fn transfers(report: &ProfileReport, top: usize) -> String {
    if report.transfers.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Right, Align::Left, Align::Left]);
    table.row(["under way", "runs", "bytes", "rate", "memory", "started by"]);
    for transfer in report.transfers.iter().take(top) {
        table.row([
            seconds(transfer.total_s),
            transfer.occurrences.to_string(),
            bytes(transfer.bytes as u64),
            scaled(transfer.bytes / transfer.total_s.max(1e-30), "B/s"),
            if transfer.is_host { "host" } else { "device" }.into(),
            tail(&transfer.name, 60),
        ]);
    }
    titled("beside other ops, from start to done", &table, report.transfers.len(), top)
}

fn host(report: &ProfileReport, top: usize) -> String {
    if report.host.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Left, Align::Left]);
    table.row(["self time", "times", "longest", "kind", "event"]);
    for event in report.host.iter().take(top) {
        table.row([
            seconds(event.self_s),
            event.occurrences.to_string(),
            seconds(event.max_s),
            event.kind.to_string(),
            tail(&event.name, 70),
        ]);
    }
    titled("host", &table, report.host.len(), top)
}

fn memory(report: &ProfileReport) -> String {
    if report.memory.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(["allocator", "peak", "free then", "allocations"]);
    for memory in &report.memory {
        table.row([
            tail(&memory.allocator, 60),
            bytes(memory.peak_bytes),
            bytes(memory.free_at_peak_bytes),
            memory.allocations.to_string(),
        ]);
    }
    format!("\nmemory\n{}", table.render())
}

/// The end of a long name, on one line: names come from files that nobody here wrote.
fn tail(name: &str, longest: usize) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let count = name.chars().count();
    if count <= longest {
        return name.chars().map(plain).collect();
    }
    std::iter::once('…').chain(name.chars().skip(count - longest + 1).map(plain)).collect()
}
