//! Where a training answers what it is asked while it runs, and the files that say so.

use telemetry::{Announced, HttpServer, ProcessPresence};
use train::Training;

use crate::failure::Failure;
use crate::log;

/// The endpoint of a training, as long as it runs.
pub(super) struct Answers {
    _server: Option<HttpServer>,
    address: Option<String>,
    _announced: Option<Announced>,
}

impl Answers {
    /// Listens where it is asked to. The run's folder, if it is on this machine, says that the process is there.
    pub(super) fn start(address: Option<&str>, training: &Training, process: usize) -> Result<Answers, Failure> {
        let server = address.map(|address| training.telemetry().serve(address)).transpose().map_err(|error| {
            let hint = "give --metrics an address of this machine and a free port, or port 0";
            Failure::new(error).hint(hint)
        })?;
        let mut presence = ProcessPresence::new(process);
        presence.metrics = server.as_ref().map(|server| server.address().to_string());
        if let Some(address) = &presence.metrics {
            log::say(&format!("metrics of process {process} on http://{address}/metrics"));
        }
        // Whoever looks for the training finds it by hand; it goes on.
        let announced = training.local_folder().and_then(|folder| {
            let announced = presence.announce(&folder);
            announced.inspect_err(|error| tracing::warn!(%error, "the run's folder does not say where it answers")).ok()
        });
        Ok(Answers { _server: server, address: presence.metrics, _announced: announced })
    }

    /// Where the process answers.
    pub(super) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }
}
