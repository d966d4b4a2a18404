//! The client: asks a training, or any program that serves JAX's profiler service, for a profile.

use std::time::Duration;

use prost::Message;
use runtime::Profile;
use telemetry::grpc::{GrpcChannel, GrpcCode, GrpcLimits, GrpcStatus, block_on};

use super::messages::*;
use crate::error::Error;

/// The largest profile that is taken.
const MAX_PROFILE_BYTES: usize = 2 << 30;

/// How long an answer may take beyond what is recorded.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long a profile of steps may take: nobody knows how long a step does.
const STEPS_PATIENCE: Duration = Duration::from_secs(3600);

/// How much is recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CaptureLength {
    /// The next steps of a training.
    Steps(u64),
    /// From now on.
    Time(Duration),
}

/// Asks the profiler at `HOST:PORT`.
pub fn capture(address: &str, length: CaptureLength) -> Result<Profile, Error> {
    let mut request =
        ProfileRequest { emit_xspace: true, session_id: format!("tpu-{}", std::process::id()), ..Default::default() };
    let patience = match length {
        CaptureLength::Steps(steps) => {
            request.steps = steps;
            STEPS_PATIENCE
        }
        CaptureLength::Time(time) => {
            let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
            request.duration_ms = milliseconds;
            request.opts = Some(ProfileOptions { duration_ms: milliseconds, start_timestamp_ns: 0 });
            time.saturating_add(PATIENCE)
        }
    };
    let limits = GrpcLimits { message_bytes: MAX_PROFILE_BYTES, ..GrpcLimits::default() };
    let answered = block_on(async {
        let channel = GrpcChannel::connect(address, &limits).await?;
        channel.unary(PROFILE, &request.encode_to_vec(), patience).await
    });
    let answered = answered.and_then(|answered| answered).map_err(|status| failed(address, &status))?;
    let unreadable = |error: prost::DecodeError| {
        Error::new(format!("{address} answers what is no profile: {error}")).hint("is it the port of a profiler?")
    };
    let response = ProfileResponse::decode(answered.as_slice()).map_err(unreadable)?;
    if matches!(length, CaptureLength::Steps(_)) && response.steps.is_none() {
        return Err(
            Error::new(format!("{address} is a profiler that knows no steps")).hint("ask for a time: --seconds 2")
        );
    }
    let steps = response.steps.map_or_else(Vec::new, |steps| steps.numbers);
    let of_tool = response.tool_data.into_iter().find(|tool| tool.name.ends_with(XPLANE_TOOL)).map(|tool| tool.data);
    // A server that does not know the wish may have written the profile to its own folder.
    let bytes = response.xspace.filter(|bytes| !bytes.is_empty()).or(of_tool).ok_or_else(|| {
        Error::new(format!("{address} recorded nothing, or keeps its profile to itself"))
            .hint("is the program running? JAX before 0.8 writes profiles on its own machine: use its own client there")
    })?;
    Ok(Profile { bytes, steps })
}

fn failed(address: &str, status: &GrpcStatus) -> Error {
    let hint = match status.code {
        GrpcCode::AlreadyExists => "wait until the other profile is complete, and ask again",
        GrpcCode::Unavailable => {
            "is the training running, and was it started with --profiler? A host that is not this one needs a way there"
        }
        GrpcCode::FailedPrecondition => "the device must have a profiler: the CPU device and TPUs have one",
        GrpcCode::Aborted => "the training has ended; start it again, or give it more steps",
        _ => "the log of the training may say more",
    };
    Error::new(format!("no profile from {address}: {status}")).hint(hint)
}
