//! The queue that others put records into, and the thread that sends them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use prost::Message as _;

use super::messages::{
    ExportResponse, LogRecord, LogsRequest, MetricsRequest, Resource, ResourceLogs, ResourceMetrics, ResourceSpans,
    Scope, ScopeLogs, ScopeMetrics, ScopeSpans, Span, TraceRequest,
};
use super::record::{self, OtlpSignal, SaidRecord, SpanContext, SpanRecord, unix_nanos};
use super::settings::OtlpSettings;
use crate::family::MetricFamily;
use crate::registry::{Counter, Registry};

/// Spans that wait at most, and log records.
const MAX_WAITING: usize = 8192;

/// Bytes of all that waits, at most.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// Spans or log records in one request.
const MAX_BATCH: usize = 512;

/// Spans and log records are collected for so long before they are sent.
const SEND_EVERY: Duration = Duration::from_secs(1);

/// Longest wait that a collector may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// How long the end of a process waits for what is left to be sent.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

thread_local! {
    /// Whether this thread sends: what it logs is not sent, or there would be no end.
    static IS_SENDER: Cell<bool> = const { Cell::new(false) };
}

/// One request to a collector.
#[derive(Clone, Debug)]
pub struct OtlpRequest<'a> {
    /// Where it goes.
    pub address: &'a str,
    /// Further headers; values may be secrets.
    pub headers: &'a [(String, String)],
    /// The body, of type `application/x-protobuf`.
    pub body: Vec<u8>,
    /// How long all of it may take.
    pub timeout: Duration,
}

/// What a collector answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtlpReply {
    /// Status of HTTP.
    pub status: u16,
    /// How long it asks to be left alone (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// The body, or as much of it as is worth reading.
    pub body: Vec<u8>,
}

/// How requests travel: the answer, or in one line why there is none. It is called by the thread that sends.
pub type OtlpTransport = Box<dyn FnMut(&OtlpRequest<'_>) -> Result<OtlpReply, String> + Send>;

/// When what fails is tried again.
#[derive(Clone, Copy, Debug)]
pub struct OtlpRetry {
    /// After the first failure; twice as long after each further one.
    pub first: Duration,
    /// Times a request is tried.
    pub tries: u32,
}

impl Default for OtlpRetry {
    fn default() -> OtlpRetry {
        OtlpRetry { first: Duration::from_secs(1), tries: 5 }
    }
}

/// Takes what is to be sent, from any thread, and never waits. Clones are the same.
#[derive(Clone, Debug)]
pub struct Otlp {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// Where the process is now.
    context: Mutex<Option<SpanContext>>,
    sent: [Counter; OtlpSignal::ALL.len()],
    dropped: [Counter; OtlpSignal::ALL.len()],
}

#[derive(Debug, Default)]
struct Waiting {
    spans: VecDeque<Span>,
    logs: VecDeque<LogRecord>,
    bytes: usize,
    /// When whoever waits for the end gives up, once it waits.
    ends_at: Option<Instant>,
    has_ended: bool,
}

impl Otlp {
    /// Sends a span that has ended.
    pub fn span(&self, span: SpanRecord) {
        let span = span.into_message();
        let bytes = span.encoded_len();
        let mut waiting = self.shared.waiting();
        match waiting.spans.len() < MAX_WAITING && waiting.bytes + bytes <= MAX_WAITING_BYTES {
            true => {
                waiting.bytes += bytes;
                waiting.spans.push_back(span);
            }
            false => self.shared.drop_some(OtlpSignal::Traces, 1),
        }
    }

    /// Sends a log record, as said in the span that the process is in.
    pub fn log(&self, said: SaidRecord) {
        if IS_SENDER.get() {
            return;
        }
        let log = said.into_message(self.context());
        let bytes = log.encoded_len();
        let mut waiting = self.shared.waiting();
        match waiting.logs.len() < MAX_WAITING && waiting.bytes + bytes <= MAX_WAITING_BYTES {
            true => {
                waiting.bytes += bytes;
                waiting.logs.push_back(log);
            }
            false => self.shared.drop_some(OtlpSignal::Logs, 1),
        }
    }

    /// Says where the process is, for what it logs.
    pub fn enter(&self, context: Option<SpanContext>) {
        *self.shared.context.lock().unwrap_or_else(PoisonError::into_inner) = context;
    }

    /// Where the process is.
    pub fn context(&self) -> Option<SpanContext> {
        *self.shared.context.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drop_some(&self, signal: OtlpSignal, count: u64) {
        if let Some(dropped) = self.dropped.get(signal as usize) {
            dropped.add(count as f64);
        }
    }

    /// Waits until a time, or until somebody waits for the end; whether nobody does.
    fn sleep_until(&self, until: Instant) -> bool {
        let mut waiting = self.waiting();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if waiting.ends_at.is_some() || left.is_zero() {
                return waiting.ends_at.is_none();
            }
            waiting = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Sends until it is dropped; then what is left, for a few seconds at most.
#[derive(Debug)]
pub struct OtlpExporter {
    otlp: Otlp,
}

impl OtlpExporter {
    /// Starts the thread that sends. `gather` tells the metrics; how much is sent and dropped is counted in `registry`.
    pub fn start(
        settings: OtlpSettings,
        transport: OtlpTransport,
        retry: OtlpRetry,
        registry: &Registry,
        gather: impl Fn() -> Vec<MetricFamily> + Send + 'static,
    ) -> io::Result<OtlpExporter> {
        let counter =
            |name, help| OtlpSignal::ALL.map(|signal| registry.counter(name, help, &[("signal", signal.name())]));
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            changed: Condvar::new(),
            context: Mutex::default(),
            sent: counter("tpubridge_otlp_sent_total", "Points, spans and log records that a collector took."),
            dropped: counter(
                "tpubridge_otlp_dropped_total",
                "Points, spans and log records that no collector took, or that found the queue full.",
            ),
        });
        let sender = Sender {
            shared: shared.clone(),
            resource: Resource { attributes: record::of_labels(settings.resource.clone()) },
            settings,
            transport,
            retry,
            gather: Box::new(gather),
            started_unix_nanos: unix_nanos(SystemTime::now()),
            is_failing: false,
        };
        std::thread::Builder::new().name("otlp".into()).spawn(move || sender.run())?;
        Ok(OtlpExporter { otlp: Otlp { shared } })
    }

    /// Where to put what is to be sent.
    pub fn otlp(&self) -> &Otlp {
        &self.otlp
    }
}

impl Drop for OtlpExporter {
    fn drop(&mut self) {
        let shared = &self.otlp.shared;
        let ends_at = Instant::now() + LAST_PATIENCE;
        let mut waiting = shared.waiting();
        waiting.ends_at = Some(ends_at);
        shared.changed.notify_all();
        while !waiting.has_ended {
            let left = ends_at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::warn!("the OpenTelemetry collector did not take everything before the end");
                return;
            }
            waiting = shared.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What the thread works with.
struct Sender {
    shared: Arc<Shared>,
    settings: OtlpSettings,
    transport: OtlpTransport,
    retry: OtlpRetry,
    resource: Resource,
    gather: Box<dyn Fn() -> Vec<MetricFamily> + Send>,
    started_unix_nanos: u64,
    /// Whether the last request failed, which was told.
    is_failing: bool,
}

impl Sender {
    fn run(mut self) {
        IS_SENDER.set(true);
        let mut metrics_at = Instant::now() + self.settings.metrics_every;
        loop {
            let goes_on = self.shared.sleep_until(metrics_at.min(Instant::now() + SEND_EVERY));
            self.send_waiting();
            if Instant::now() >= metrics_at || !goes_on {
                self.send_metrics();
                metrics_at = Instant::now() + self.settings.metrics_every;
            }
            if !goes_on {
                break;
            }
        }
        self.shared.waiting().has_ended = true;
        self.shared.changed.notify_all();
    }

    /// Sends the spans and log records that wait now, in pieces.
    fn send_waiting(&mut self) {
        loop {
            let (spans, logs) = {
                let mut waiting = self.shared.waiting();
                let (spans, logs) = (waiting.spans.len().min(MAX_BATCH), waiting.logs.len().min(MAX_BATCH));
                let spans: Vec<Span> = waiting.spans.drain(..spans).collect();
                let logs: Vec<LogRecord> = waiting.logs.drain(..logs).collect();
                let taken = spans.iter().map(|span| span.encoded_len()).sum::<usize>()
                    + logs.iter().map(|log| log.encoded_len()).sum::<usize>();
                waiting.bytes = waiting.bytes.saturating_sub(taken);
                (spans, logs)
            };
            if spans.is_empty() && logs.is_empty() {
                return;
            }
            if !spans.is_empty() {
                let count = spans.len() as u64;
                let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans }];
                let resource = Some(self.resource.clone());
                let request = TraceRequest { resource_spans: vec![ResourceSpans { resource, scope_spans }] };
                self.deliver(OtlpSignal::Traces, count, request.encode_to_vec());
            }
            if !logs.is_empty() {
                let count = logs.len() as u64;
                let scope_logs = vec![ScopeLogs { scope: Some(scope()), log_records: logs }];
                let resource = Some(self.resource.clone());
                let request = LogsRequest { resource_logs: vec![ResourceLogs { resource, scope_logs }] };
                self.deliver(OtlpSignal::Logs, count, request.encode_to_vec());
            }
        }
    }

    fn send_metrics(&mut self) {
        if self.settings.address(OtlpSignal::Metrics).is_none() {
            return;
        }
        let metrics = record::metrics((self.gather)(), self.started_unix_nanos, unix_nanos(SystemTime::now()));
        let count = record::points(&metrics);
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics }];
        let resource = Some(self.resource.clone());
        let request = MetricsRequest { resource_metrics: vec![ResourceMetrics { resource, scope_metrics }] };
        self.deliver(OtlpSignal::Metrics, count, request.encode_to_vec());
    }

    /// Sends one request, again where that may help. What is not taken is counted.
    fn deliver(&mut self, signal: OtlpSignal, count: u64, body: Vec<u8>) {
        // Nobody wants it: that is no loss.
        let Some(address) = self.settings.address(signal).map(String::from) else { return };
        let headers = self.settings.headers.clone();
        let mut request = OtlpRequest { address: &address, headers: &headers, body, timeout: self.settings.timeout };
        let mut pause = self.retry.first;
        for n in 1..=self.retry.tries {
            let left = self.shared.waiting().ends_at.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            request.timeout = left.map_or(self.settings.timeout, |left| left.min(self.settings.timeout));
            let (why, wait) = match (self.transport)(&request) {
                Ok(reply) if (200..300).contains(&reply.status) => return self.taken(signal, count, &reply.body),
                Ok(reply) if matches!(reply.status, 429 | 502 | 503 | 504) => {
                    (format!("it answers {}", reply.status), reply.retry_after.map(|wait| wait.min(MAX_RETRY_AFTER)))
                }
                Ok(reply) => {
                    self.failed(&format!("it answers {}", reply.status));
                    break;
                }
                Err(why) => (why, None),
            };
            self.failed(&why);
            if n == self.retry.tries {
                break;
            }
            let until = Instant::now() + wait.unwrap_or(pause);
            if !self.shared.sleep_until(until) && !self.wait_at_the_end(until) {
                break;
            }
            pause *= 2;
        }
        self.shared.drop_some(signal, count);
    }

    /// Waits until a time if that is before the end; whether it is.
    fn wait_at_the_end(&self, until: Instant) -> bool {
        let is_before = self.shared.waiting().ends_at.is_none_or(|end| until < end);
        if is_before {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        is_before
    }

    /// Counts what a collector took, and what it says that it did not.
    fn taken(&mut self, signal: OtlpSignal, count: u64, body: &[u8]) {
        let partial = ExportResponse::decode(body).ok().and_then(|response| response.partial_success);
        let rejected = partial.as_ref().map_or(0, |partial| u64::try_from(partial.rejected).unwrap_or(0)).min(count);
        if let Some(sent) = self.shared.sent.get(signal as usize) {
            sent.add((count - rejected) as f64);
        }
        if rejected > 0 {
            self.shared.drop_some(signal, rejected);
            let why = partial.map_or_else(String::new, |partial| partial.error_message);
            let why: String = why.chars().take(200).collect();
            return self.failed(&format!("it rejects {rejected} of {count} {}: {why}", signal.name()));
        }
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(collector = self.settings.places(), "the OpenTelemetry collector takes data again");
        }
    }

    /// Tells the first of several failures; the others would say the same.
    fn failed(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let collector = self.settings.places();
            tracing::warn!(collector, why, "the OpenTelemetry collector takes no data; the training goes on");
        }
    }
}

fn scope() -> Scope {
    Scope { name: "tpubridge".into(), version: env!("CARGO_PKG_VERSION").into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::{SpanId, TraceId};
    use std::sync::mpsc::{Receiver, Sender as ChannelSender, channel};

    /// Longest wait for something that happens at once.
    const LONG: Duration = Duration::from_secs(60);

    fn settings() -> OtlpSettings {
        let quick = |name: &str| (name == "OTEL_METRIC_EXPORT_INTERVAL").then(|| "3600000".to_string());
        OtlpSettings::read(Some("http://c"), quick).unwrap().unwrap()
    }

    fn span() -> SpanRecord {
        let context = SpanContext { trace: TraceId::new(), span: SpanId::new() };
        let (parent, name, attributes) = (None, "steps", Vec::new());
        SpanRecord { context, parent, name, time_unix_nanos: (2, 1), attributes, error: None }
    }

    /// A collector that answers what it is told to, one after the other, and then takes everything; what it got.
    fn collector(replies: Vec<Result<OtlpReply, String>>) -> (OtlpTransport, Receiver<(String, Vec<u8>)>) {
        let (got, all): (ChannelSender<(String, Vec<u8>)>, _) = channel();
        let mut replies = replies.into_iter();
        let transport = move |request: &OtlpRequest<'_>| {
            let _ = got.send((request.address.to_string(), request.body.clone()));
            replies.next().unwrap_or_else(|| Ok(OtlpReply { status: 200, ..OtlpReply::default() }))
        };
        (Box::new(transport), all)
    }

    fn status(status: u16) -> Result<OtlpReply, String> {
        Ok(OtlpReply { status, retry_after: Some(Duration::ZERO), body: Vec::new() })
    }

    fn start(transport: OtlpTransport, registry: &Registry) -> OtlpExporter {
        let retry = OtlpRetry { first: Duration::from_millis(1), tries: 4 };
        let gathered = registry.clone();
        OtlpExporter::start(settings(), transport, retry, registry, move || gathered.gather()).unwrap()
    }

    fn counted(registry: &Registry, name: &str, signal: &str) -> f64 {
        registry.counter(&format!("tpubridge_otlp_{name}_total"), "", &[("signal", signal)]).get()
    }

    #[test]
    fn what_waits_is_sent_at_the_end_with_the_last_metrics() {
        let registry = Registry::new();
        let (transport, got) = collector(Vec::new());
        let exporter = start(transport, &registry);
        let sent = span();
        exporter.otlp().enter(Some(sent.context));
        exporter.otlp().span(sent.clone());
        let (level, message) = (tracing::Level::INFO, "hello".to_string());
        exporter.otlp().log(SaidRecord { time_unix_nanos: 5, level, message, attributes: Vec::new() });
        drop(exporter);
        let requests: Vec<_> = got.try_iter().collect();
        let addresses: Vec<_> = requests.iter().map(|(address, _)| address.as_str()).collect();
        assert_eq!(addresses, ["http://c/v1/traces", "http://c/v1/logs", "http://c/v1/metrics"]);
        let traces = TraceRequest::decode(requests[0].1.as_slice()).unwrap();
        let told = &traces.resource_spans[0].scope_spans[0].spans[0];
        assert_eq!((told.start_time_unix_nano, told.end_time_unix_nano), (2, 2));
        let logs = LogsRequest::decode(requests[1].1.as_slice()).unwrap();
        assert_eq!(logs.resource_logs[0].scope_logs[0].log_records[0].span_id, told.span_id);
        let attributes = &traces.resource_spans[0].resource.as_ref().unwrap().attributes;
        assert!(attributes.iter().any(|attribute| attribute.key == "service.name"));
        assert_eq!((counted(&registry, "sent", "traces"), counted(&registry, "dropped", "traces")), (1.0, 0.0));
    }

    #[test]
    fn a_busy_collector_is_asked_again_and_one_that_refuses_is_not() {
        let registry = Registry::new();
        let (transport, got) = collector(vec![status(429), Err("gone".into()), status(503), status(200), status(400)]);
        let exporter = start(transport, &registry);
        exporter.otlp().span(span());
        let same: Vec<_> = (0..4).map(|_| got.recv_timeout(LONG).unwrap()).collect();
        assert!(same.windows(2).all(|pair| pair[0] == pair[1]), "a request that is tried again is the same");
        exporter.otlp().span(span());
        drop(exporter);
        assert_eq!((counted(&registry, "sent", "traces"), counted(&registry, "dropped", "traces")), (1.0, 1.0));
    }

    #[test]
    fn what_a_collector_never_takes_is_dropped_and_counted() {
        let registry = Registry::new();
        let (transport, got) = collector((0..4).map(|_| status(503)).collect());
        let exporter = start(transport, &registry);
        exporter.otlp().span(span());
        (0..4).for_each(|_| drop(got.recv_timeout(LONG).unwrap()));
        drop(exporter);
        assert_eq!((counted(&registry, "sent", "traces"), counted(&registry, "dropped", "traces")), (0.0, 1.0));
        // The metrics at the end tell of it.
        let (_, last) = got.try_iter().last().unwrap();
        let metrics = MetricsRequest::decode(last.as_slice()).unwrap();
        let names = metrics.resource_metrics[0].scope_metrics[0].metrics.iter().map(|metric| metric.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["tpubridge_otlp_dropped_total", "tpubridge_otlp_sent_total"]);
    }

    #[test]
    fn what_is_rejected_in_part_is_counted_in_part() {
        let registry = Registry::new();
        let partial_success = Some(super::super::messages::PartialSuccess { rejected: 1, error_message: "no".into() });
        let body = ExportResponse { partial_success }.encode_to_vec();
        let (transport, _got) = collector(vec![Ok(OtlpReply { status: 200, retry_after: None, body })]);
        let exporter = start(transport, &registry);
        (0..3).for_each(|_| exporter.otlp().span(span()));
        drop(exporter);
        assert_eq!((counted(&registry, "sent", "traces"), counted(&registry, "dropped", "traces")), (2.0, 1.0));
    }

    #[test]
    fn a_collector_that_hangs_holds_up_nobody() {
        let registry = Registry::new();
        let (began, has_begun) = channel();
        let (go_on, held) = channel::<()>();
        let transport = move |_: &OtlpRequest<'_>| {
            let _ = began.send(());
            let _ = held.recv_timeout(LONG);
            status(200)
        };
        let exporter = start(Box::new(transport), &registry);
        exporter.otlp().span(span());
        has_begun.recv_timeout(LONG).unwrap();
        // The queue fills while the collector holds the first request; nothing waits.
        (0..MAX_WAITING + 100).for_each(|_| exporter.otlp().span(span()));
        assert_eq!(exporter.otlp().shared.waiting().spans.len(), MAX_WAITING);
        assert_eq!(counted(&registry, "dropped", "traces"), 100.0);
        let text = "x".repeat(16 << 10);
        for _ in 0..2 * MAX_WAITING_BYTES / text.len() {
            let said = SaidRecord {
                time_unix_nanos: 1,
                level: tracing::Level::ERROR,
                message: text.clone(),
                attributes: Vec::new(),
            };
            exporter.otlp().log(said);
        }
        assert!(exporter.otlp().shared.waiting().bytes <= MAX_WAITING_BYTES);
        assert!(counted(&registry, "dropped", "logs") > 100.0);
        drop(go_on);
    }
}
