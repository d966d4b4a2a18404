//! What watches a training while it runs: alerts, other processes, and hangs.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use operate::alerts::{ALERTS_FILE, AlertEvent, AlertOutlets, AlertState, AlertWatch, AlertsConfig, HangAction};
use operate::hang::{HangReport, HangWatch, HangWatched};
use operate::monitor::OwnHost;
use operate::processes::{PeerWatch, ProcessTarget};
use train::Training;

use crate::args::TrainArgs;
use crate::failure::{self, Failure};
use crate::log;

/// How often the first process asks the others.
const PEERS_EVERY: Duration = Duration::from_secs(15);

/// Threads that watch, as long as this lives.
pub(super) struct Alarms {
    _alerts: Option<AlertWatch>,
    _peers: Option<PeerWatch>,
    _hangs: Option<HangWatch>,
    stopped_by: Arc<OnceLock<String>>,
}

/// The alerts of the training file and of `--alerts`. What is wrong with them is told before anything is trained.
pub(super) fn read(args: &TrainArgs, training: &Training) -> Result<AlertsConfig, Failure> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::new(format!("{}: {error}", path.display()))
            .hint("docs/reference/alerts.md says how alerts are written")
    };
    let text_of = |path: &Path| std::fs::read_to_string(path).map_err(|error| failure::file("reading", path, error));
    let text = text_of(&args.file)?;
    // With settings of the command line the lines are no longer those of the file.
    let is_changed = args.with.iter().any(|change| change.trim_start().starts_with("alerts."));
    let text = match is_changed {
        true => toml::Table::from_iter([("alerts".to_string(), toml::Value::Table(training.config().alerts.clone()))])
            .to_string(),
        false => text,
    };
    let mut config = AlertsConfig::of_training_file(&text).map_err(|error| wrong(&args.file, &error))?;
    let mut beside = args.file.as_path();
    if let Some(path) = &args.alerts {
        let more = AlertsConfig::parse(&text_of(path)?).map_err(|error| wrong(path, &error))?;
        if more.prediction.is_some() {
            beside = path;
        }
        config = config.with(more);
    }
    let folder = beside.parent().unwrap_or(Path::new(""));
    if let Some(seconds) = config.predicted(folder).map_err(|error| wrong(beside, &error))? {
        training.telemetry().set_predicted_step_seconds(seconds);
    }
    Ok(config)
}

impl Alarms {
    /// Begins to watch. `address` is where the process answers.
    pub(super) fn start(
        config: &AlertsConfig,
        training: &Training,
        process: usize,
        address: Option<&str>,
        stop: &Arc<AtomicBool>,
    ) -> Alarms {
        let folder = training.local_folder();
        let telemetry = training.telemetry();
        let stopped_by = Arc::new(OnceLock::new());
        let (stop, name) = (stop.clone(), stopped_by.clone());
        let outlets = AlertOutlets {
            run: training.folder().unwrap_or_default().to_string(),
            process,
            registry: telemetry.registry().clone(),
            file: folder.as_ref().map(|folder| folder.join(ALERTS_FILE)),
            audit: training.audit_log(),
            stop: Box::new(move |event| {
                let _ = name.set(event.alert.clone());
                stop.store(true, Ordering::Relaxed);
            }),
            log: Box::new(tell),
        };
        let (gathered, chips) = (telemetry.clone(), OwnHost::default());
        let gather = move || [gathered.gather(), chips.families(&gathered.record())].concat();
        let alerts = AlertWatch::start(config, gather, outlets);
        let peers = folder.as_ref().filter(|_| process == 0);
        let peers = peers.and_then(|folder| PeerWatch::start(folder, telemetry.registry(), PEERS_EVERY));
        let (status, median, record) = (telemetry.clone(), telemetry.clone(), telemetry.clone());
        let must_stop = config.hang.action == HangAction::Stop;
        let watched = HangWatched {
            folder,
            own: ProcessTarget {
                process: Some(process),
                host: None,
                pid: None,
                address: address.map(String::from),
                profiler: None,
            },
            hosts: Box::new(move || {
                let hosts = operate::monitor::hosts_of(&record.record());
                hosts
                    .inspect_err(|error| tracing::warn!(%error, "the hosts of the slice are not asked"))
                    .unwrap_or_default()
            }),
            status: Box::new(move || status.status()),
            median_step_seconds: Box::new(move || median.median_step_seconds()),
            hear: Box::new(move |report, path| {
                tell_hang(report, path.map(|path| path.as_path()));
                if must_stop {
                    log::say("error: the training makes no progress, and is ended ([alerts.hang] action = \"stop\")");
                    log::say("hint: run the same command again: it goes on from the newest checkpoint");
                    std::process::exit(2);
                }
            }),
        };
        let hangs = HangWatch::start(&config.hang, watched);
        Alarms { _alerts: alerts, _peers: peers, _hangs: hangs, stopped_by }
    }

    /// The alert that stopped the training.
    pub(super) fn stopped_by(&self) -> Option<&str> {
        self.stopped_by.get().map(String::as_str)
    }
}

fn tell(event: &AlertEvent) {
    log::say(&event.line());
    if event.state == AlertState::Firing && !event.remedy.is_empty() {
        log::say(&format!("hint: {}", event.remedy));
    }
}

fn tell_hang(report: &HangReport, path: Option<&Path>) {
    log::say("warning: the training makes no progress");
    for culprit in &report.culprits {
        log::say(&format!("  {}: {}", culprit.processes.join(", "), culprit.why));
        log::say(&format!("hint: {}", culprit.remedy));
    }
    if let Some(path) = path {
        log::say(&format!("what all processes said is in {}", path.display()));
    }
}
