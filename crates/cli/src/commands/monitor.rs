//! `tpu monitor`: what the chips of one host or many do, live, as a table, as JSON or for Prometheus.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use operate::monitor::{
    Colours, HostMonitor, HostsSnapshot, Live, MonitorError, RunSource, Selector, families, hosts, live,
    slice_or_local, to_table,
};
use telemetry::{HttpServer, TextFormat, to_text};

use super::runtime_metrics::listen_address;
use crate::args::MonitorArgs;
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::stop;

/// Time between two questions of the live view.
const LIVE: Duration = Duration::from_secs(2);

/// Who asks sooner than this gets the same answer again.
const FRESH: Duration = Duration::from_secs(1);

impl From<MonitorError> for Failure {
    fn from(error: MonitorError) -> Self {
        let hint = error.remedy();
        Failure::new(error).hint(hint)
    }
}

pub(crate) fn run(args: &MonitorArgs, output: &Output) -> Result<Answer, Failure> {
    let targets = match (&args.hosts, &args.selector) {
        (Some(list), _) => hosts(list)?,
        (None, Some(labels)) => Selector::new(labels, args.namespace.as_deref()).targets()?,
        (None, None) => slice_or_local()?,
    };
    let runs = args.runs.iter().map(|run| RunSource::new(run)).collect::<Result<Vec<_>, _>>()?;
    let mut monitor = HostMonitor::new(targets, runs, args.timeout)?;
    let stop = stop::on_signal();
    if let Some(address) = &args.serve {
        return serve(monitor, address, &stop);
    }
    let is_terminal = std::io::stdout().is_terminal();
    if is_terminal && !args.table && !output.is_json() {
        let colours =
            if std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty()) { Colours::Off } else { Colours::On };
        live(monitor, &Live { every: args.watch.unwrap_or(LIVE), colours }, &stop)?;
        return Ok(Answer::Yes);
    }
    let Some(every) = args.watch else {
        let snapshot = monitor.look();
        output.record(&snapshot, || to_table(&snapshot))?;
        return Ok(if snapshot.is_complete() { Answer::Yes } else { Answer::No });
    };
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let snapshot = monitor.look();
        show(&snapshot, is_terminal, output)?;
        wait(asked + every, &stop);
    }
    Ok(Answer::Yes)
}

/// One of many: a line of JSON, or a table in the place of the last.
fn show(snapshot: &HostsSnapshot, is_terminal: bool, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        let line = serde_json::to_string(snapshot).map_err(Failure::new)?;
        return output.text(&format!("{line}\n"));
    }
    let table = to_table(snapshot);
    match is_terminal {
        true => output.text(&format!("\x1b[H\x1b[2J{table}")),
        false => output.text(&format!("{table}\n")),
    }
}

/// Waits until a time, or until the command is to stop.
fn wait(until: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Serves what hosts tell. They are asked when somebody reads; readers at the same time share an answer.
fn serve(monitor: HostMonitor, address: &str, stop: &AtomicBool) -> Result<Answer, Failure> {
    let state = Mutex::new((monitor, None::<(Instant, HostsSnapshot)>));
    let metrics = move |format: TextFormat| {
        let mut state = state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (monitor, last) = &mut *state;
        let is_fresh = last.as_ref().is_some_and(|(when, _)| when.elapsed() < FRESH);
        if !is_fresh {
            let snapshot = monitor.look();
            *last = Some((Instant::now(), snapshot));
        }
        last.as_ref().map_or_else(String::new, |(_, snapshot)| to_text(&families(snapshot), format))
    };
    let answer = move |request: &telemetry::HttpRequest| match request.path.as_str() {
        "/metrics" => {
            let format = TextFormat::accepted(request.header("accept"));
            telemetry::HttpAnswer::new(format.content_type(), metrics(format))
        }
        _ => telemetry::HttpAnswer::not_found(),
    };
    let address = listen_address(address)?.to_string();
    let hint = "choose another port, as in --serve 9465";
    let server = HttpServer::start(&address, answer).map_err(|error| Failure::new(error).hint(hint))?;
    eprintln!("metrics at http://{}/metrics", server.address());
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Answer::Yes)
}
