//! A dashboard of runs: one page of this program, for a browser.
//!
//! Runs are folders that `tpu train` writes to. They are only read: files from where the last reading ended, whole lines,
//! in bounded memory whatever their size; processes are asked as `tpu hang` asks them. The page shows runs side by side and
//! hears of new lines as they come. It is served to this machine unless told otherwise, to requests that name it.

mod alert_log;
mod curve;
mod lines;
mod processes;
mod reports;
mod run;
mod server;
mod sources;
mod watch;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use telemetry::{HttpServer, ServeError};

pub use sources::DashboardError;

use server::Answers;
use sources::RunSources;
use watch::Shared;

/// What a dashboard shows, and to whom.
#[derive(Clone, Debug, Default)]
pub struct DashboardOptions {
    /// Folders of runs, folders that hold some, or patterns with `*` and `?`.
    pub runs: Vec<String>,
    /// Names besides `localhost` under which it is reached.
    pub allowed_hosts: Vec<String>,
}

/// Why a dashboard does not start.
#[derive(Debug)]
pub enum StartError {
    /// There is nothing to show.
    Runs(DashboardError),
    /// It cannot listen.
    Serve(ServeError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Runs(error) => error.fmt(f),
            StartError::Serve(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Runs(_) => None,
            StartError::Serve(error) => error.source(),
        }
    }
}

/// A dashboard that is served until it is dropped.
#[derive(Debug)]
pub struct Dashboard {
    server: HttpServer,
    shared: Arc<Shared>,
}

impl Dashboard {
    /// Serves the runs at an address.
    pub fn start(address: SocketAddr, options: &DashboardOptions) -> Result<Dashboard, StartError> {
        let sources = RunSources::new(&options.runs).map_err(StartError::Runs)?;
        let shared = Arc::new(Shared::default());
        let mut allowed = options.allowed_hosts.clone();
        if !address.ip().is_loopback() {
            allowed.push(telemetry::host_name());
        }
        let answers = Answers::new(shared.clone(), allowed);
        let server = HttpServer::start(&address.to_string(), move |request| answers.answer(request));
        let dashboard = Dashboard { server: server.map_err(StartError::Serve)?, shared };
        let failed = |source| StartError::Serve(ServeError { address: address.to_string(), source });
        watch::start(sources, &dashboard.shared).map_err(failed)?;
        Ok(dashboard)
    }

    /// Where it is served.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.shared.close();
    }
}
