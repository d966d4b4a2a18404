//! What a training tells of itself while it runs: metrics by Prometheus' conventions, its phase and step, and where to ask.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use runtime::{Backend, Compiler, DeviceManager};
use telemetry::{
    Counter, Gauge, Goodput, Histogram, HttpAnswer, HttpServer, MetricFamily, Registry, STATUS_VERSION, ServeError,
    TextFormat, ThreadStatus,
};

use crate::data::{RemoteData, RemoteStats};
use telemetry::ProcessStatus;
use telemetry::otlp::Otlp;
pub(crate) use telemetry::{TrainPhase, TrainingRecord};

/// Upper bounds of the seconds of a step: from toys to models of a whole pod.
const STEP_SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 300.0];

/// Upper bounds of the seconds of a save.
const SAVE_SECONDS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// What scalars were measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalars {
    OfStep,
    OfEvaluation,
}

/// What a training tells of itself. Clones are the same.
#[derive(Clone, Debug)]
pub struct TrainTelemetry {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    registry: Registry,
    started: Instant,
    process: AtomicUsize,
    phase: AtomicUsize,
    /// Microseconds since the start.
    phase_since: AtomicU64,
    step_ended: AtomicU64,
    dispatched: AtomicU64,
    step: AtomicU64,
    program: Mutex<String>,
    devices: Mutex<Option<DeviceManager>>,
    compiler: Mutex<Option<Compiler>>,
    record: Mutex<TrainingRecord>,
    otlp: Mutex<Option<Otlp>>,
    remote: Mutex<Option<RemoteData>>,
    metrics: Metrics,
}

/// Recompilations that a status names.
const MAX_RECOMPILED: usize = 8;

#[derive(Debug)]
struct Metrics {
    step_seconds: Histogram,
    steps: Counter,
    step: Gauge,
    step_time: Gauge,
    tokens: Counter,
    tokens_per_second: Gauge,
    flops_per_second: Gauge,
    mfu: Gauge,
    phases: [Counter; TrainPhase::ALL.len()],
    data_wait: Counter,
    save_seconds: Histogram,
    save_failures: Counter,
    saved_step: Gauge,
    saved_time: Gauge,
    saved_bytes: Gauge,
    attempts: Gauge,
    goodput: Gauge,
    compilations: Counter,
    recompilations: Counter,
    compile_seconds: Counter,
}

impl Metrics {
    fn new(registry: &Registry) -> Metrics {
        let counter = |name, help| registry.counter(name, help, &[]);
        let gauge = |name, help| registry.gauge(name, help, &[]);
        let phase = |phase: TrainPhase| {
            let help = "Seconds that the training spent in each phase.";
            registry.counter("tpubridge_training_phase_seconds_total", help, &[("phase", phase.name())])
        };
        Metrics {
            step_seconds: registry.histogram(
                "tpubridge_training_step_seconds",
                "Seconds from the end of a step to the end of the next, without evaluation, saves and compilation.",
                &[],
                STEP_SECONDS,
            ),
            steps: counter("tpubridge_training_steps_total", "Steps that this process has seen end."),
            step: gauge("tpubridge_training_step", "The last step that has ended, earlier attempts included."),
            step_time: gauge(
                "tpubridge_training_step_timestamp_seconds",
                "When the last step ended, in seconds since 1970; the start of the training before the first.",
            ),
            tokens: counter("tpubridge_training_tokens_total", "Tokens or examples of the steps that have ended."),
            tokens_per_second: gauge(
                "tpubridge_training_tokens_per_second",
                "Tokens or examples per second, of all devices.",
            ),
            flops_per_second: gauge(
                "tpubridge_training_flops_per_second",
                "Operations of the model per second, of all devices, without recomputation.",
            ),
            mfu: gauge(
                "tpubridge_training_mfu",
                "Operations of the model over the peak rate of all devices, from 0 to 1.",
            ),
            phases: TrainPhase::ALL.map(phase),
            data_wait: counter(
                "tpubridge_training_data_wait_seconds_total",
                "Seconds that steps waited for their batch.",
            ),
            save_seconds: registry.histogram(
                "tpubridge_training_checkpoint_save_seconds",
                "Seconds from the copy off the device to a checkpoint that is complete.",
                &[],
                SAVE_SECONDS,
            ),
            save_failures: counter(
                "tpubridge_training_checkpoint_failures_total",
                "Checkpoints that could not be written.",
            ),
            saved_step: gauge("tpubridge_training_checkpoint_step", "Step of the newest complete checkpoint."),
            saved_time: gauge(
                "tpubridge_training_checkpoint_timestamp_seconds",
                "When the newest checkpoint was complete, in seconds since 1970; 0 before the first.",
            ),
            saved_bytes: gauge("tpubridge_training_checkpoint_bytes", "Bytes of the newest complete checkpoint."),
            attempts: gauge("tpubridge_training_attempts", "Times that this training was started, this one included."),
            goodput: gauge(
                "tpubridge_goodput_ratio",
                "Share of wall time of all attempts that went into steps that were kept.",
            ),
            compilations: counter("tpubridge_training_compilations_total", "Programs that this process has compiled."),
            recompilations: counter(
                "tpubridge_training_recompilations_total",
                "Programs of a name that was compiled before, with other shapes say.",
            ),
            compile_seconds: counter(
                "tpubridge_training_compile_seconds_total",
                "Seconds in which this process has compiled, while steps waited or not.",
            ),
        }
    }
}

impl Default for TrainTelemetry {
    fn default() -> TrainTelemetry {
        TrainTelemetry::new()
    }
}

impl TrainTelemetry {
    /// Of a training that begins now.
    pub fn new() -> TrainTelemetry {
        let registry = Registry::new();
        let version = env!("CARGO_PKG_VERSION");
        registry.gauge("tpubridge_build_info", "The release that runs.", &[("version", version)]).set(1.0);
        let metrics = Metrics::new(&registry);
        metrics.step_time.set(telemetry::now_seconds());
        let inner = Inner {
            registry,
            started: Instant::now(),
            process: AtomicUsize::new(0),
            phase: AtomicUsize::new(0),
            phase_since: AtomicU64::new(0),
            step_ended: AtomicU64::new(0),
            dispatched: AtomicU64::new(0),
            step: AtomicU64::new(0),
            program: Mutex::default(),
            devices: Mutex::default(),
            compiler: Mutex::default(),
            record: Mutex::default(),
            otlp: Mutex::default(),
            remote: Mutex::default(),
            metrics,
        };
        TrainTelemetry { inner: Arc::new(inner) }
    }

    /// The metrics, for whoever adds some.
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// Spans of the attempts that begin from now on go there.
    pub fn trace_to(&self, otlp: &Otlp) {
        *lock(&self.inner.otlp) = Some(otlp.clone());
    }

    pub(crate) fn otlp(&self) -> Option<Otlp> {
        lock(&self.inner.otlp).clone()
    }

    /// All metrics as they are now, those of the devices of this process included.
    pub fn gather(&self) -> Vec<MetricFamily> {
        if let Some(devices) = self.lock_devices().as_ref() {
            for (index, device) in devices.devices().iter().enumerate() {
                let Ok(memory) = devices.memory(index) else { continue };
                // Devices of other processes say nothing of what they use.
                let Some(used_bytes) = memory.used_bytes else { continue };
                let labels = [("device", index.to_string()), ("kind", device.kind.clone())];
                let labels = labels.each_ref().map(|(name, value)| (*name, value.as_str()));
                let gauge = |name, help, value: u64| self.inner.registry.gauge(name, help, &labels).set(value as f64);
                gauge("tpubridge_device_hbm_used_bytes", "Bytes of device memory in use.", used_bytes);
                if let Some(limit_bytes) = memory.limit_bytes {
                    gauge("tpubridge_device_hbm_limit_bytes", "Bytes of device memory.", limit_bytes);
                }
            }
        }
        if let Some(compiler) = lock(&self.inner.compiler).as_ref() {
            let stats = compiler.stats();
            let metrics = &self.inner.metrics;
            // A counter leaves out what is negative, as where two ask at once.
            metrics.recompilations.add(stats.recompilations.len() as f64 - metrics.recompilations.get());
            metrics.compile_seconds.add(stats.seconds - metrics.compile_seconds.get());
        }
        if let Some(remote) = lock(&self.inner.remote).as_ref() {
            self.tell_fetched(&remote.stats());
        }
        self.inner.registry.gather()
    }

    /// Tells of data that is fetched from elsewhere.
    pub(crate) fn watch_data(&self, remote: Option<&RemoteData>) {
        *lock(&self.inner.remote) = remote.cloned();
    }

    fn tell_fetched(&self, stats: &RemoteStats) {
        let counter = |name, help, value: f64| {
            let counter = self.inner.registry.counter(name, help, &[]);
            counter.add(value - counter.get());
        };
        let gauge = |name, help, value: f64| self.inner.registry.gauge(name, help, &[]).set(value);
        let RemoteStats { fetched_bytes, read_bytes, requests, repeated, busy_seconds, cache_bytes } = *stats;
        counter(
            "tpubridge_data_fetched_bytes_total",
            "Bytes of data that came over the network.",
            fetched_bytes as f64,
        );
        counter(
            "tpubridge_data_read_bytes_total",
            "Bytes of remote data that were read, from the cache or just fetched.",
            read_bytes as f64,
        );
        counter("tpubridge_data_requests_total", "Requests for data.", requests as f64);
        counter(
            "tpubridge_data_repeated_requests_total",
            "Requests for data that failed and were repeated.",
            repeated as f64,
        );
        counter(
            "tpubridge_data_fetch_seconds_total",
            "Seconds in which at least one request for data was under way.",
            busy_seconds,
        );
        gauge("tpubridge_data_cache_bytes", "Bytes of the folder where remote data is kept.", cache_bytes as f64);
        if let Some(rate) = stats.bytes_per_second() {
            gauge(
                "tpubridge_data_fetch_bytes_per_second",
                "Bytes of data for each second in which some were fetched.",
                rate,
            );
        }
    }

    /// What is trained, on what.
    pub fn record(&self) -> TrainingRecord {
        lock(&self.inner.record).clone()
    }

    /// Says what is trained, on what; a prediction that was given stays.
    pub(crate) fn describe(&self, record: TrainingRecord) {
        let mut known = lock(&self.inner.record);
        let predicted_step_seconds = known.predicted_step_seconds;
        *known = TrainingRecord { predicted_step_seconds, ..record };
    }

    /// Says how long a step was predicted to take.
    pub fn set_predicted_step_seconds(&self, seconds: f64) {
        lock(&self.inner.record).predicted_step_seconds = Some(seconds);
        let help = "Seconds of a step as predicted.";
        self.inner.registry.gauge("tpubridge_training_predicted_step_seconds", help, &[]).set(seconds);
    }

    /// The median seconds of a step, once there were some.
    pub fn median_step_seconds(&self) -> Option<f64> {
        self.inner.metrics.step_seconds.get().quantile(0.5)
    }

    /// Where the training is.
    pub fn status(&self) -> ProcessStatus {
        let inner = &self.inner;
        let now = self.now();
        let since = |then: &AtomicU64| now.saturating_sub(then.load(Ordering::Relaxed)) as f64 / 1e6;
        let phase = TrainPhase::ALL.get(inner.phase.load(Ordering::Relaxed)).copied().unwrap_or(TrainPhase::Other);
        let recompiled = lock(&inner.compiler).as_ref().map(|compiler| compiler.stats().recompilations);
        let recompiled = recompiled.unwrap_or_default();
        let last = recompiled.iter().skip(recompiled.len().saturating_sub(MAX_RECOMPILED));
        ProcessStatus {
            version: STATUS_VERSION,
            process: inner.process.load(Ordering::Relaxed),
            host: telemetry::host_name(),
            pid: std::process::id(),
            phase,
            phase_seconds: since(&inner.phase_since),
            dispatched: inner.dispatched.load(Ordering::Relaxed),
            step: inner.step.load(Ordering::Relaxed),
            step_age_seconds: since(&inner.step_ended),
            program: lock(&inner.program).clone(),
            recompilations: recompiled.len() as u64,
            recompiled: last.map(|again| format!("{}: {}", again.program, again.reason)).collect(),
            threads: ThreadStatus::all(),
        }
    }

    /// Answers `/metrics`, `/status`, `/training` and `/healthz` on an address.
    pub fn serve(&self, address: &str) -> Result<HttpServer, ServeError> {
        let telemetry = self.clone();
        HttpServer::start(address, move |request| match request.path.as_str() {
            "/metrics" => {
                let format = TextFormat::accepted(request.header("accept"));
                HttpAnswer::new(format.content_type(), telemetry::to_text(&telemetry.gather(), format))
            }
            "/status" => HttpAnswer::json(&serde_json::to_value(telemetry.status()).unwrap_or_default()),
            "/training" => HttpAnswer::json(&serde_json::to_value(telemetry.record()).unwrap_or_default()),
            "/healthz" => HttpAnswer::new("text/plain; charset=utf-8", "ok\n"),
            _ => HttpAnswer::not_found(),
        })
    }

    /// The process and devices that train.
    pub(crate) fn begin(&self, backend: &Backend) {
        self.inner.process.store(backend.rank(), Ordering::Relaxed);
        let labels = [("process", backend.rank().to_string()), ("device", backend.device().kind.clone())];
        let labels = labels.each_ref().map(|(name, value)| (*name, value.as_str()));
        let help = "The process of the training, and the kind of its devices.";
        self.inner.registry.gauge("tpubridge_training_info", help, &labels).set(1.0);
        *self.lock_devices() = Some(DeviceManager::new(backend));
        *lock(&self.inner.compiler) = Some(backend.compiler().clone());
    }

    /// The training has ended: devices are no longer asked.
    pub(crate) fn end(&self) {
        *self.lock_devices() = None;
        *lock(&self.inner.compiler) = None;
    }

    pub(crate) fn in_phase(&self, phase: TrainPhase) {
        self.inner.phase.store(phase as usize, Ordering::Relaxed);
        self.inner.phase_since.store(self.now(), Ordering::Relaxed);
    }

    pub(crate) fn spent(&self, phase: TrainPhase, seconds: f64) {
        if let Some(counter) = self.inner.metrics.phases.get(phase as usize) {
            counter.add(seconds);
        }
        if phase == TrainPhase::Data {
            self.inner.metrics.data_wait.add(seconds);
        }
    }

    /// The training goes on after a step, as the attempt of this number.
    pub(crate) fn resumed(&self, step: u64, attempts: u64) {
        self.inner.step.store(step, Ordering::Relaxed);
        self.inner.dispatched.store(step, Ordering::Relaxed);
        self.inner.metrics.step.set(step as f64);
        self.inner.metrics.attempts.set(attempts as f64);
    }

    pub(crate) fn compiled(&self, program: &str) {
        self.inner.metrics.compilations.increment();
        program.clone_into(&mut lock(&self.inner.program));
    }

    pub(crate) fn dispatched(&self, step: u64) {
        self.inner.dispatched.store(step, Ordering::Relaxed);
    }

    /// A step has ended so many seconds after the one before.
    pub(crate) fn step_ended(&self, step: u64, seconds: Option<f64>, tokens: Option<u64>) {
        self.inner.step.store(step, Ordering::Relaxed);
        self.inner.step_ended.store(self.now(), Ordering::Relaxed);
        let metrics = &self.inner.metrics;
        metrics.step.set(step as f64);
        metrics.step_time.set(telemetry::now_seconds());
        metrics.steps.increment();
        metrics.tokens.add(tokens.unwrap_or(0) as f64);
        if let Some(seconds) = seconds {
            metrics.step_seconds.observe(seconds);
        }
    }

    /// The rates of all devices since the last record.
    pub(crate) fn rates(&self, tokens_per_second: Option<f64>, flops_per_second: Option<f64>, mfu: Option<f64>) {
        let metrics = &self.inner.metrics;
        let set = |gauge: &Gauge, value: Option<f64>| value.into_iter().for_each(|value| gauge.set(value));
        set(&metrics.tokens_per_second, tokens_per_second);
        set(&metrics.flops_per_second, flops_per_second);
        set(&metrics.mfu, mfu);
    }

    /// The scalars of a record, each a gauge: a task may measure what it likes.
    pub(crate) fn measured(&self, of: Scalars, values: &BTreeMap<String, f64>) {
        let (prefix, of) = match of {
            Scalars::OfStep => ("tpubridge_training_", "of the last step that was recorded"),
            Scalars::OfEvaluation => ("tpubridge_training_evaluation_", "on validation data"),
        };
        for (name, value) in values {
            let metric = telemetry::metric_name(&format!("{prefix}{name}"));
            self.inner.registry.gauge(&metric, &format!("{name} {of}."), &[]).set(*value);
        }
    }

    /// A checkpoint is complete.
    pub(crate) fn saved(&self, step: u64, seconds: f64, size_bytes: u64) {
        let metrics = &self.inner.metrics;
        metrics.save_seconds.observe(seconds);
        metrics.saved_step.set(step as f64);
        metrics.saved_time.set(telemetry::now_seconds());
        metrics.saved_bytes.set(size_bytes as f64);
    }

    pub(crate) fn save_failed(&self) {
        self.inner.metrics.save_failures.increment();
    }

    pub(crate) fn goodput(&self, goodput: &Goodput) {
        self.inner.metrics.goodput.set(goodput.ratio());
        for (part, seconds) in goodput.parts() {
            let help = "Seconds of wall time of all attempts, by what they went into.";
            self.inner.registry.gauge("tpubridge_goodput_seconds", help, &[("part", part)]).set(seconds);
        }
    }

    fn lock_devices(&self) -> std::sync::MutexGuard<'_, Option<DeviceManager>> {
        lock(&self.inner.devices)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.inner.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
