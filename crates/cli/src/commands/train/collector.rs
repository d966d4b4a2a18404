//! `--otlp`: what a training tells of itself, sent to an OpenTelemetry collector while it runs.

use telemetry::otlp::{OtlpExporter, OtlpRetry, OtlpSettings};
use train::Training;

use crate::failure::Failure;
use crate::log::{self, SentLog};

/// What is sent, as long as this lives. The log ends first, then what is left is sent.
pub(super) struct Collector {
    _log: SentLog,
    _exporter: OtlpExporter,
}

impl Collector {
    /// Begins to send where it is asked for. What the environment asks for and cannot be done is a warning, and nothing is
    /// sent: nobody may know that it is set.
    pub(super) fn start(
        address: Option<&str>,
        training: &Training,
        process: usize,
    ) -> Result<Option<Collector>, Failure> {
        let hint = "docs/howto/monitoring.md says where data can be sent";
        let mut settings = match OtlpSettings::read(address, |name| std::env::var(name).ok()) {
            Ok(Some(settings)) => settings,
            Ok(None) => return Ok(None),
            Err(error) if address.is_some() => return Err(Failure::new(error).hint(hint)),
            Err(error) => {
                log::say(&format!("warning: nothing is sent to an OpenTelemetry collector: {error}"));
                return Ok(None);
            }
        };
        settings.say("tpubridge.process", &process.to_string());
        if let Some(folder) = training.folder() {
            settings.say("tpubridge.run", folder);
        }
        let place = settings.places();
        let telemetry = training.telemetry();
        let gather = {
            let telemetry = telemetry.clone();
            move || telemetry.gather()
        };
        let exporter = operate::otlp::transport().and_then(|transport| {
            OtlpExporter::start(settings, transport, OtlpRetry::default(), telemetry.registry(), gather)
        });
        let exporter = exporter.map_err(|error| {
            Failure::new(format!("nothing can be sent to {place}: {error}")).hint("train without --otlp")
        })?;
        telemetry.trace_to(exporter.otlp());
        let sent = log::send_to(exporter.otlp());
        log::say(&format!("metrics, traces and logs of process {process} go to {place}"));
        Ok(Some(Collector { _log: sent, _exporter: exporter }))
    }
}
