//! `tpu doctor`: what is right and wrong with this machine, each line with its remedy.

use std::path::Path;
use std::time::Duration;

use compile::worker::WorkerLimits;
use compile::{Devices, probe};
use fleet::System;
use fleet::doctor::{DoctorOptions, DoctorReport, NetworkAccess, ProbeDepth, ProbeFindings, Status, examine};

use crate::args::DoctorArgs;
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::progress::Progress;
use crate::{plugins, stop};

/// How long loading the plugin may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(args: &DoctorArgs, output: &Output) -> Result<Answer, Failure> {
    let mut search = plugins::search(args.plugin.plugin.as_deref());
    let stop = stop::on_signal();
    let launch = plugins::launch()?;
    let load = |path: &Path| -> Result<ProbeFindings, String> {
        let mut launch = launch.clone();
        let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        launch.env.extend(plugins::environment(&name));
        let limits = WorkerLimits { time: PATIENCE, memory_bytes: None };
        let probed = probe(path, Devices::Leave, &launch, &limits, &stop).map_err(|e| e.to_string())?;
        let version = probed.api_version.split_once('.');
        Ok(ProbeFindings {
            depth: ProbeDepth::Loaded,
            file_bytes: std::fs::metadata(path).map_or(0, |m| m.len()),
            api_version: version.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?))),
            note: probed
                .attributes
                .get("stablehlo_current_version")
                .map(|v| format!("StableHLO {}", v.trim_matches(['[', ']']).replace(", ", "."))),
        })
    };
    // The TPU compiler first: it is what most commands need.
    search.found.sort_by_key(|found| found.name != "libtpu");
    let mut options = DoctorOptions { plugins: search, ..DoctorOptions::new(System::host()) };
    options.probe = &load;
    options.cache_dir = compile::cache::default_folder(|name| std::env::var(name).ok());
    if args.offline {
        options.network = NetworkAccess::Offline;
    }
    let progress = Progress::start();
    progress.step("examining");
    let report = examine(&options);
    drop(progress);
    output.record(&report, || text(&report))?;
    Ok(if report.worst() == Status::Fail { Answer::No } else { Answer::Yes })
}

fn text(report: &DoctorReport) -> String {
    let width = report.checks.iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for check in &report.checks {
        let status = match check.status {
            Status::Ok => "ok  ",
            Status::Skipped => "skip",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
        };
        let padding = " ".repeat(width - check.name.chars().count());
        text.push_str(&format!("{status}  {}{padding}  {}\n", check.name, check.detail));
        if let Some(remedy) = &check.remedy {
            text.push_str(&format!("      {}  → {remedy}\n", " ".repeat(width)));
        }
    }
    text.push_str(&format!(
        "\n{} ok, {} warnings, {} failures, {} skipped\n",
        report.count(Status::Ok),
        report.count(Status::Warn),
        report.count(Status::Fail),
        report.count(Status::Skipped)
    ));
    text
}
