//! `tpu dashboard`: runs side by side in a browser, live.

use std::sync::atomic::Ordering;
use std::time::Duration;

use operate::dashboard::{Dashboard, DashboardOptions, StartError};
use serde::Serialize;

use super::runtime_metrics::listen_address;
use crate::args::DashboardArgs;
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::stop;

/// What is printed with `--json` once the dashboard is there.
#[derive(Serialize)]
struct Record {
    version: u32,
    url: String,
}

pub(crate) fn run(args: &DashboardArgs, output: &Output) -> Result<Answer, Failure> {
    let address = listen_address(&args.listen)?;
    let stop = stop::on_signal();
    let options = DashboardOptions { runs: args.runs.clone(), allowed_hosts: args.allow_host.clone() };
    let dashboard = Dashboard::start(address, &options).map_err(|error| {
        let hint = match &error {
            StartError::Runs(error) => error.remedy(),
            StartError::Serve(_) => "choose another port, as in --listen 8081",
        };
        Failure::new(error).hint(hint)
    })?;
    let address = dashboard.address();
    if !address.ip().is_loopback() {
        eprintln!("warning: everybody who reaches {address} sees these runs; there is no password");
    }
    if output.is_json() {
        let record = Record { version: 1, url: format!("http://{address}/") };
        output.record(&record, String::new)?;
    } else {
        eprintln!("dashboard at http://{address}/");
    }
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Answer::Yes)
}
