//! The client: everything that a host tells, within a time, whatever of it fails.

use std::time::{Duration, SystemTime};

use futures_util::stream::{self, StreamExt};
use prost::Message;
use serde::Serialize;
use tokio::time::Instant;

use super::messages::{GetTpuRuntimeStatusRequest, ListSupportedMetricsRequest, MetricRequest};
use super::reading::{self, ListedMetric, MetricReading};
use super::status::RuntimeStatus;
use super::{GET, LIST, STATUS, names};
use crate::grpc::{GrpcChannel, GrpcCode, GrpcLimits, GrpcStatus};

/// Calls under way at the same time.
const CALLS: usize = 8;

/// Bytes of an answer at most.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// How long a host may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For the connection.
    pub connect: Duration,
    /// For one answer.
    pub call: Duration,
    /// For everything.
    pub host: Duration,
}

impl Patience {
    /// So long for everything, and a third of it for the connection and for each answer.
    pub fn within(host: Duration) -> Patience {
        Patience { connect: host / 3, call: host / 3, host }
    }
}

/// What a host told.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostMetrics {
    /// Whether the service listed its metrics; else those that are known were asked for.
    pub is_listed: bool,
    /// Its metrics that have values.
    pub metrics: Vec<MetricReading>,
    /// Metrics that the service lists and did not tell, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<(String, String)>,
    /// What its cores do; `None` where the service does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RuntimeStatus>,
    /// Seconds by which its clock is ahead of ours, as far as the times of its values tell. They are as old as the service
    /// lets them be: a clock that is behind and values that are old look alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_ahead_seconds: Option<f64>,
    /// Seconds that it took.
    pub seconds: f64,
}

impl HostMetrics {
    /// A metric by its name.
    pub fn metric(&self, name: &str) -> Option<&MetricReading> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}

/// Asks the service at `HOST:PORT` for everything it has. What fails is told, and hides nothing else; an error means that
/// nothing could be asked.
pub async fn read_host(address: &str, patience: &Patience) -> Result<HostMetrics, GrpcStatus> {
    let asking = Asking::start(address, patience).await?;
    let (listed, status) = futures_util::future::join(asking.list(), asking.status()).await;
    let mut told = HostMetrics { status: status.ok(), ..HostMetrics::default() };
    let metrics = match listed {
        Ok((listed, unreadable)) => {
            told.is_listed = true;
            if unreadable > 0 {
                told.failed.push(("".into(), format!("{unreadable} names could not be read")));
            }
            listed
        }
        // Older libtpu cannot list, and says so; where the list was lost, the known metrics may still be told.
        Err(status) => {
            if status.code != GrpcCode::Unimplemented {
                told.failed.push(("".into(), format!("the list of metrics: {status}")));
            }
            names::KNOWN.iter().map(|name| ListedMetric { name: name.to_string(), unit: String::new() }).collect()
        }
    };
    let ask = |metric: ListedMetric| {
        let asking = &asking;
        async move {
            let answer = asking.metric(&metric.name).await;
            (metric.name, answer, SystemTime::now())
        }
    };
    let mut answers = stream::iter(metrics).map(ask).buffered(CALLS);
    while let Some((name, answer, now)) = answers.next().await {
        match answer {
            Ok(Some(metric)) => {
                let newest = metric.series.iter().filter_map(|series| series.time).max();
                if let Some(ahead) = newest.map(|time| seconds_between(now, time)) {
                    told.clock_ahead_seconds = Some(told.clock_ahead_seconds.map_or(ahead, |known| known.max(ahead)));
                }
                told.metrics.push(metric);
            }
            Ok(None) => {}
            // Not every libtpu has every metric that is known.
            Err(status) if !told.is_listed && is_absent(&status) => {}
            Err(status) => told.failed.push((name, status.to_string())),
        }
    }
    told.seconds = asking.started.elapsed().as_secs_f64();
    Ok(told)
}

/// Why a host did not say what its cores do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusFailure {
    /// There is no connection to it.
    Connect(GrpcStatus),
    /// It was connected to, and gave no answer, or none that can be read.
    Call(GrpcStatus),
}

/// Asks the service at `HOST:PORT` what its cores do, and nothing else.
pub async fn read_status(address: &str, patience: &Patience) -> Result<RuntimeStatus, StatusFailure> {
    let asking = Asking::start(address, patience).await.map_err(StatusFailure::Connect)?;
    asking.status().await.map_err(StatusFailure::Call)
}

fn is_absent(status: &GrpcStatus) -> bool {
    matches!(
        status.code,
        GrpcCode::NotFound | GrpcCode::InvalidArgument | GrpcCode::Unimplemented | GrpcCode::FailedPrecondition
    )
}

/// Seconds from one time to another, negative where that is earlier.
fn seconds_between(from: SystemTime, to: SystemTime) -> f64 {
    match to.duration_since(from) {
        Ok(ahead) => ahead.as_secs_f64(),
        Err(behind) => -behind.duration().as_secs_f64(),
    }
}

/// A connection and the time that is left.
struct Asking {
    channel: GrpcChannel,
    started: Instant,
    patience: Patience,
}

impl Asking {
    async fn start(address: &str, patience: &Patience) -> Result<Asking, GrpcStatus> {
        let started = Instant::now();
        let limits = GrpcLimits { message_bytes: MAX_ANSWER_BYTES, connect: patience.connect, ..GrpcLimits::default() };
        let channel = GrpcChannel::connect(address, &limits).await?;
        Ok(Asking { channel, started, patience: *patience })
    }

    async fn ask(&self, method: &str, request: &impl Message) -> Result<Vec<u8>, GrpcStatus> {
        let left = self.patience.host.saturating_sub(self.started.elapsed());
        if left.is_zero() {
            return Err(GrpcStatus::new(GrpcCode::DeadlineExceeded, "the time for this host is over"));
        }
        self.channel.unary(method, &request.encode_to_vec(), self.patience.call.min(left)).await
    }

    async fn list(&self) -> Result<(Vec<ListedMetric>, usize), GrpcStatus> {
        let answer = self.ask(LIST, &ListSupportedMetricsRequest::default()).await?;
        let (listed, unreadable) = reading::listed(&answer).map_err(damaged)?;
        match listed.is_empty() && unreadable > 0 {
            true => Err(GrpcStatus::new(GrpcCode::DataLoss, "no name in it could be read")),
            false => Ok((listed, unreadable)),
        }
    }

    async fn metric(&self, name: &str) -> Result<Option<MetricReading>, GrpcStatus> {
        let request = MetricRequest { metric_name: name.to_string(), skip_node_aggregation: false };
        let answer = self.ask(GET, &request).await?;
        reading::metric(name, &answer).map_err(damaged)
    }

    async fn status(&self) -> Result<RuntimeStatus, GrpcStatus> {
        let answer = self.ask(STATUS, &GetTpuRuntimeStatusRequest { include_hlo_info: true }).await?;
        RuntimeStatus::read(&answer).map_err(damaged)
    }
}

fn damaged(error: prost::DecodeError) -> GrpcStatus {
    GrpcStatus::new(GrpcCode::DataLoss, format!("the answer is damaged: {error}"))
}
