//! A snapshot as an aligned table, for terminals and files.

use super::format::{bytes_of, percent, seconds, short};
use super::run::WatchedRun;
use super::snapshot::{HostRecord, HostState, HostsSnapshot};

const HEAD: [&str; 8] = ["HOST", "DEVICE", "HBM", "DUTY CYCLE", "TENSORCORE", "QUEUE", "EXECUTION P50", "IDLE"];

/// The snapshot as text: devices of all hosts, what hosts did not tell, and runs.
pub fn to_table(snapshot: &HostsSnapshot) -> String {
    let mut rows: Vec<[String; 8]> = vec![HEAD.map(Into::into)];
    let mut notes = Vec::new();
    for host in &snapshot.hosts {
        for device in &host.devices {
            let sample = &device.sample;
            rows.push([
                host.host.clone(),
                sample.device.to_string(),
                bytes_of(sample.hbm_used_bytes, sample.hbm_total_bytes),
                percent(sample.duty_cycle),
                percent(sample.tensorcore_utilization),
                sample.queue_size.map_or("-".into(), |size| size.to_string()),
                device.execution_p50_seconds.map_or("-".into(), seconds),
                sample.idle_seconds.map_or("-".into(), seconds),
            ]);
        }
        notes.extend(host_notes(host));
    }
    let mut text = String::new();
    if rows.len() > 1 {
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
        for row in &rows {
            let cell = |(column, cell): (usize, &String)| {
                let padding = " ".repeat(widths[column] - cell.chars().count());
                if column == 0 { format!("{cell}{padding}") } else { format!("{padding}{cell}") }
            };
            text.push_str(row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
    }
    for note in notes {
        text.push_str(&note);
        text.push('\n');
    }
    for run in &snapshot.runs {
        text.push_str(&run_line(run));
        text.push('\n');
    }
    text
}

/// What is to be said of a host beside its devices.
pub(super) fn host_notes(host: &HostRecord) -> Vec<String> {
    let name = &host.host;
    let why = host.error.as_deref().unwrap_or("no reason is known");
    let mut notes = match host.state {
        HostState::Up if host.devices.is_empty() => vec![format!("{name}: it answers, and tells of no device")],
        HostState::Up => Vec::new(),
        HostState::NoService => vec![format!("{name}: nothing serves metrics: {why}")],
        HostState::Unreachable => vec![format!("{name}: no answer: {why}")],
        HostState::Gone => {
            let since = host.gone_seconds.map_or_else(String::new, |gone| format!(" for {}", seconds(gone)));
            vec![format!("{name}: gone{since}: {why}")]
        }
    };
    let mut kinds: Vec<chips::Generation> = host.chips.iter().map(|(_, generation)| *generation).collect();
    kinds.dedup();
    for kind in kinds {
        let count = host.chips.iter().filter(|(_, generation)| *generation == kind).count();
        notes.push(format!("{name}: {count} × {} on its bus, which no program uses with metrics", kind.display_name()));
    }
    if let Some(ahead) = host.clock_ahead_seconds {
        notes.push(match ahead > 0.0 {
            true => format!("{name}: its clock is {} ahead of this one", seconds(ahead)),
            false => format!("{name}: its values are {} old, or its clock is behind", seconds(-ahead)),
        });
    }
    notes.extend(host.devices.iter().filter_map(|device| {
        let error = device.error.as_ref()?;
        Some(format!("{name}: device {}: {error}", device.sample.device))
    }));
    let unreadable: usize = host.metrics.iter().map(|metric| metric.unreadable).sum();
    if unreadable > 0 {
        notes.push(format!("{name}: {unreadable} values could not be read"));
    }
    match host.failed.as_slice() {
        [] => {}
        [(metric, why)] => notes.push(format!("{name}: {metric}: {why}")),
        [(metric, why), rest @ ..] => notes.push(format!("{name}: {metric}: {why} (and {} more)", rest.len())),
    }
    notes
}

/// A run in one line.
pub(super) fn run_line(run: &WatchedRun) -> String {
    if let Some(why) = &run.error {
        return format!("run {}: {why}", run.run);
    }
    let mut parts = Vec::new();
    parts.extend(run.step.map(|step| format!("step {step}")));
    parts.extend(run.loss.map(|loss| format!("loss {loss:.4}")));
    parts.extend(run.step_seconds.map(|time| format!("{} a step", seconds(time))));
    parts.extend(run.tokens_per_second.map(|rate| format!("{} tokens/s", short(rate))));
    parts.extend(run.mfu.map(|mfu| format!("MFU {:.1} %", mfu * 100.0)));
    parts.extend(run.age_seconds.map(|age| format!("written {} ago", seconds(age))));
    let told = if parts.is_empty() { "nothing yet".to_string() } else { parts.join(", ") };
    format!("run {}: {told}", run.run)
}
