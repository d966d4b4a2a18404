//! The service: profiles for a time are recorded at once, profiles of steps by the training between two of them.
//!
//! The answer has the profile. A client of JAX or XProf writes it to its own folder: what a request says of folders is not
//! looked at, so that nobody who reaches the port can make a training write files.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message;
use runtime::{BackendProfiler, Error, Profile, ValidationError};
use telemetry::AnnouncedProfiler;
use telemetry::grpc::{
    Answering, GrpcAnswer, GrpcCall, GrpcCode, GrpcLimits, GrpcServer, GrpcStatus, Reply, Service, ready,
};
use tokio::sync::watch;

use super::desk::CaptureDesk;
use super::messages::*;

/// The longest time that is recorded: buffers are full long before.
const MAX_DURATION: Duration = Duration::from_secs(600);

/// The most steps that are recorded.
const MAX_STEPS: u64 = 10_000;

/// The longest wait for the moment at which several hosts begin together.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// A training that can be asked for profiles. Ends with it.
#[derive(Debug)]
pub(crate) struct ProfilerServer {
    server: GrpcServer,
    ending: watch::Sender<bool>,
    _announced: Option<AnnouncedProfiler>,
}

impl ProfilerServer {
    /// Listens, and says where in the folder of the run.
    pub(crate) fn start(
        address: SocketAddr,
        profiler: &BackendProfiler,
        desk: &Arc<CaptureDesk>,
        folder: Option<&Path>,
        rank: usize,
    ) -> std::io::Result<ProfilerServer> {
        let (ending, ends) = watch::channel(false);
        let asked = Arc::new(Sessions::default());
        let service = ProfilerService { profiler: profiler.clone(), desk: desk.clone(), sessions: asked, ends };
        // Requests are small; the answers are ours.
        let server = GrpcServer::start(
            address,
            Arc::new(service),
            GrpcLimits { message_bytes: 64 << 10, ..GrpcLimits::default() },
        )?;
        let announce = |folder| AnnouncedProfiler::new(folder, rank, &server.address().to_string());
        let announced = folder.map(announce).transpose()?;
        Ok(ProfilerServer { server, ending, _announced: announced })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

impl Drop for ProfilerServer {
    fn drop(&mut self) {
        // What is being recorded is answered before the server goes.
        self.ending.send_replace(true);
    }
}

struct ProfilerService {
    profiler: BackendProfiler,
    desk: Arc<CaptureDesk>,
    sessions: Arc<Sessions>,
    ends: watch::Receiver<bool>,
}

/// Profiles for a time that can be ended early, by the name their caller gave them.
#[derive(Default)]
struct Sessions {
    running: Mutex<Vec<(String, watch::Sender<bool>)>>,
}

impl Sessions {
    fn begin(self: &Arc<Self>, name: &str) -> (SessionGuard, watch::Receiver<bool>) {
        let (stop, stops) = watch::channel(false);
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_string(), stop));
        (SessionGuard { sessions: self.clone(), name: name.to_string() }, stops)
    }

    fn end(&self, name: &str) {
        for (running, stop) in &*self.running.lock().unwrap_or_else(PoisonError::into_inner) {
            if running == name {
                stop.send_replace(true);
            }
        }
    }
}

struct SessionGuard {
    sessions: Arc<Sessions>,
    name: String,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        let mut running = self.sessions.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = running.iter().position(|(name, _)| *name == self.name) {
            running.swap_remove(at);
        }
    }
}

/// Ends a recording whose caller has vanished.
struct RecordingGuard {
    profiler: BackendProfiler,
    is_over: bool,
}

impl Drop for RecordingGuard {
    fn drop(&mut self) {
        if !self.is_over {
            // Nobody is left to be told.
            let _ = self.profiler.stop();
        }
    }
}

impl Service for ProfilerService {
    fn call(&self, call: GrpcCall) -> Answering {
        match call.method.as_str() {
            PROFILE => match ProfileRequest::decode(call.message.as_slice()) {
                Ok(request) if request.steps > 0 => self.profile_steps(&request),
                Ok(request) => self.profile_time(request),
                Err(error) => ready(Err(malformed(&error))),
            },
            TERMINATE => ready(TerminateRequest::decode(call.message.as_slice()).map_or_else(
                |error| Err(malformed(&error)),
                |request| {
                    self.sessions.end(&request.session_id);
                    Ok(Reply::One(Vec::new()))
                },
            )),
            MONITOR => ready(Ok(Reply::One(MonitorResponse { data: self.desk.status() }.encode_to_vec()))),
            other => ready(Err(GrpcStatus::unimplemented(other))),
        }
    }
}

impl ProfilerService {
    fn profile_steps(&self, request: &ProfileRequest) -> Answering {
        if request.steps > MAX_STEPS {
            let message = format!("a profile of {} steps; at most {MAX_STEPS} are recorded", request.steps);
            return ready(Err(GrpcStatus::new(GrpcCode::InvalidArgument, message)));
        }
        let emit = request.emit_xspace;
        match self.desk.ask(request.steps) {
            Err(status) => ready(Err(status)),
            Ok(outcome) => Box::pin(async move {
                let gone =
                    |_| GrpcStatus::new(GrpcCode::Aborted, "the training has ended before the profile was recorded");
                answer(outcome.await.map_err(gone)??, emit)
            }),
        }
    }

    fn profile_time(&self, request: ProfileRequest) -> Answering {
        let opts = request.opts.unwrap_or_default();
        let milliseconds = if opts.duration_ms > 0 { opts.duration_ms } else { request.duration_ms };
        let duration = Duration::from_millis(milliseconds);
        if duration.is_zero() || duration > MAX_DURATION {
            let most = MAX_DURATION.as_secs();
            let message = format!("a profile of {milliseconds} ms; it must be at least 1 ms and at most {most} s");
            return ready(Err(GrpcStatus::new(GrpcCode::InvalidArgument, message)));
        }
        let (profiler, mut ends) = (self.profiler.clone(), self.ends.clone());
        let (guard, mut stops) = self.sessions.begin(&request.session_id);
        let emit = request.emit_xspace;
        Box::pin(async move {
            let _guard = guard;
            tokio::time::sleep(delay(opts.start_timestamp_ns)).await;
            profiler.start().map_err(|error| refused(&error))?;
            let mut recording = RecordingGuard { profiler: profiler.clone(), is_over: false };
            let time = std::pin::pin!(tokio::time::sleep(duration));
            let ended = std::pin::pin!(ends.wait_for(|ends| *ends));
            let stopped = std::pin::pin!(stops.wait_for(|stops| *stops));
            first_of(time, ended, stopped).await;
            recording.is_over = true;
            // Many events take a while: on a thread of its own, so that other calls are answered.
            let collecting = tokio::task::spawn_blocking(move || profiler.finish());
            let lost = |error: tokio::task::JoinError| {
                GrpcStatus::new(GrpcCode::Internal, format!("the profile is lost: {error}"))
            };
            let profile = collecting.await.map_err(lost)?.map_err(|error| refused(&error))?;
            answer(
                profile
                    .ok_or_else(|| GrpcStatus::new(GrpcCode::Aborted, "the profile was ended by another request"))?,
                emit,
            )
        })
    }
}

/// Waits for the first of three.
async fn first_of(
    mut one: std::pin::Pin<&mut impl Future>,
    mut other: std::pin::Pin<&mut impl Future>,
    mut third: std::pin::Pin<&mut impl Future>,
) {
    std::future::poll_fn(|context| {
        let is_ready = one.as_mut().poll(context).is_ready()
            || other.as_mut().poll(context).is_ready()
            || third.as_mut().poll(context).is_ready();
        if is_ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// How long to wait for a moment, in nanoseconds since 1970. Clocks may differ: one that is far off is not waited for.
fn delay(start_timestamp_ns: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(Duration::from_nanos(start_timestamp_ns).saturating_sub(now))
        .filter(|delay| *delay <= MAX_DELAY)
        .unwrap_or_default()
}

fn malformed(error: &prost::DecodeError) -> GrpcStatus {
    GrpcStatus::new(GrpcCode::InvalidArgument, format!("the request cannot be read: {error}"))
}

/// Why nothing can be recorded.
pub(crate) fn refused(error: &Error) -> GrpcStatus {
    let code = match error {
        Error::Validation(ValidationError::ProfileBusy) => GrpcCode::AlreadyExists,
        Error::Configuration(_) => GrpcCode::FailedPrecondition,
        _ => GrpcCode::Internal,
    };
    GrpcStatus::new(code, compile::with_causes(error))
}

fn answer(profile: Profile, emit_xspace: bool) -> GrpcAnswer {
    let Profile { bytes, steps } = profile;
    let mut response = ProfileResponse { steps: Some(ProfiledSteps { numbers: steps }), ..ProfileResponse::default() };
    if emit_xspace {
        response.xspace = Some(bytes);
    } else {
        response.tool_data = vec![ProfileToolData { name: XPLANE_TOOL.into(), data: bytes }];
    }
    Ok(Reply::One(response.encode_to_vec()))
}
