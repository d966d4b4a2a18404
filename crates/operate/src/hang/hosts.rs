//! Hosts of TPUs, asked all at once what their cores do: libtpu's `GetTpuRuntimeStatus`.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use telemetry::grpc::{GrpcCode, GrpcStatus};
use telemetry::runtime_metrics::{Patience, RuntimeStatus, StatusFailure, read_status};

use crate::ask::AskError;
use crate::monitor::MonitorTarget;

/// Hosts asked at the same time.
const AT_ONCE: usize = 64;

/// What one host answered, asked twice.
#[derive(Clone, Debug, Serialize)]
pub struct HostAnswer {
    /// As it was named.
    pub host: String,
    /// Where its service was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What its cores did the first time.
    #[serde(skip)]
    pub(super) first: Option<RuntimeStatus>,
    /// What its cores do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<RuntimeStatus>,
    /// Why it said nothing.
    #[serde(skip)]
    pub(super) failure: Option<AskError>,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl HostAnswer {
    pub(super) fn new(
        target: &MonitorTarget,
        first: Result<RuntimeStatus, AskError>,
        second: Result<RuntimeStatus, AskError>,
    ) -> HostAnswer {
        let failure = second.as_ref().err().cloned();
        HostAnswer {
            host: target.name.clone(),
            address: target.address.clone(),
            first: first.ok(),
            last: second.ok(),
            error: failure.as_ref().map(ToString::to_string),
            failure,
        }
    }
}

/// Asks all hosts once; answers in their order.
pub(super) fn ask(targets: &[MonitorTarget], patience: Duration) -> Vec<Result<RuntimeStatus, AskError>> {
    if targets.is_empty() {
        return Vec::new();
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        // Nothing is known of any of them.
        Err(error) => return vec![Err(AskError::Unknown(format!("no runtime to ask with: {error}"))); targets.len()],
    };
    let ask = |target: MonitorTarget| async move {
        let Some(address) = target.address else {
            return Err(AskError::Unreachable(target.note.unwrap_or_else(|| "it has no address".into())));
        };
        let each = Patience { connect: patience, call: patience, host: patience };
        // Its own deadlines name what is late; this one is for what none of them reaches, as the look-up of a name.
        let answer = tokio::time::timeout(patience * 2, read_status(&address, &each)).await;
        answer.map_or_else(
            |_| Err(AskError::Unreachable("no answer in time".into())),
            |said| said.map_err(failed(patience)),
        )
    };
    let answers = runtime.block_on(stream::iter(targets.to_vec()).map(ask).buffered(AT_ONCE).collect());
    // A look-up of a name that hangs is not waited for.
    runtime.shutdown_background();
    answers
}

/// How a call that failed tells where to look.
fn failed(patience: Duration) -> impl FnOnce(StatusFailure) -> AskError {
    move |failure| match failure {
        StatusFailure::Connect(GrpcStatus { message, .. }) if message.contains("refused") => AskError::Refused,
        StatusFailure::Connect(status) => AskError::Unreachable(status.message),
        StatusFailure::Call(GrpcStatus { code: GrpcCode::DeadlineExceeded, .. }) => AskError::Silent(patience),
        StatusFailure::Call(GrpcStatus { code: GrpcCode::Unimplemented, .. }) => {
            AskError::Wrong("its libtpu does not tell what cores do".into())
        }
        StatusFailure::Call(status) => AskError::Wrong(status.to_string()),
    }
}
