//! libtpu's metric service: our client and our server, and what others serve, from old to hostile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use telemetry::grpc::{
    Answering, GrpcCall, GrpcCode, GrpcLimits, GrpcServer, GrpcStatus, Reply, Service, block_on, ready,
};
use telemetry::runtime_metrics::{
    CoreState, DeviceSample, HostMetrics, MetricValue, Patience, RuntimeMetricService, RuntimeSource, RuntimeStatus,
    Sequencer, device_families, names, read_host,
};
use telemetry::{HistogramBuckets, MetricFamily, Registry};
use testkit::{LibtpuServers, Mutator};

use crate::grpc::loopback;

const PATIENCE: Patience =
    Patience { connect: Duration::from_secs(20), call: Duration::from_secs(20), host: Duration::from_secs(60) };

fn read(address: &str, patience: &Patience) -> Result<HostMetrics, GrpcStatus> {
    block_on(read_host(address, patience)).unwrap()
}

/// Values of a metric by device.
fn of_devices(host: &HostMetrics, name: &str) -> BTreeMap<u32, f64> {
    let series = host.metric(name).map_or(&[][..], |metric| &metric.series);
    series.iter().filter_map(|series| Some((series.device?, series.value.as_f64()?))).collect()
}

struct Source {
    registry: Registry,
}

fn sample(device: u32) -> DeviceSample {
    DeviceSample {
        device,
        hbm_total_bytes: Some(16 << 30),
        hbm_used_bytes: Some(u64::from(device) << 30),
        duty_cycle: Some(0.25),
        queue_size: Some(2),
        execution_times: Some(HistogramBuckets {
            bounds: (0..=120).map(|n| 1.189_207_115_002_721f64.powi(n)).collect(),
            counts: (0..122).map(|n| u64::from(n == 40) * 9).collect(),
            sum: 9.0 * 900.0,
        }),
        ..DeviceSample::default()
    }
}

fn status() -> RuntimeStatus {
    let core = CoreState {
        core: 5,
        chip: Some(2),
        core_on_chip: Some(1),
        is_tensor_core: true,
        program_fingerprint: Some("c0ffee".into()),
        launch_id: Some(12),
        sequencers: vec![Sequencer {
            kind: 1,
            run_id: 12,
            hlo_location: Some("train_step".into()),
            ..Sequencer::default()
        }],
        ..CoreState::default()
    };
    RuntimeStatus { host_name: "here".into(), cores: vec![core], unreadable: 0 }
}

impl RuntimeSource for Source {
    fn devices(&self) -> Vec<DeviceSample> {
        (0..2).map(sample).collect()
    }

    fn status(&self, _hlo: bool) -> RuntimeStatus {
        status()
    }

    fn uptime_seconds(&self) -> f64 {
        3.5
    }

    fn families(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}

#[test]
fn what_is_served_is_read() {
    let registry = Registry::new();
    registry.gauge("tpubridge_training_mfu", "MFU.", &[]).set(0.5);
    registry.counter("tpubridge_training_steps_total", "Steps.", &[("phase", "train")]).add(7.0);
    registry.histogram("tpubridge_training_step_seconds", "Steps.", &[], &[0.1, 1.0]).observe(0.5);
    let service = RuntimeMetricService::new(Arc::new(Source { registry }));
    let server = GrpcServer::start(loopback(), Arc::new(service), GrpcLimits::default()).unwrap();
    let host = read(&server.address().to_string(), &PATIENCE).unwrap();
    assert!(host.is_listed);
    assert_eq!(host.failed, []);
    assert_eq!(host.status, Some(status()));
    assert_eq!(of_devices(&host, names::HBM_USAGE), BTreeMap::from([(0, 0.0), (1, (1u64 << 30) as f64)]));
    assert_eq!(of_devices(&host, names::DUTY_CYCLE), BTreeMap::from([(0, 25.0), (1, 25.0)]));
    assert_eq!(of_devices(&host, names::HLO_QUEUE), BTreeMap::from([(0, 2.0), (1, 2.0)]));
    // What no device tells is not listed.
    assert_eq!(host.metric(names::TENSORCORE_UTILIZATION), None);
    let Some(MetricValue::Distribution(times)) = host.metric(names::HLO_TIMING).map(|metric| &metric.series[0].value)
    else {
        panic!("{host:?}")
    };
    assert_eq!((times.count, times.mean), (9, 900.0));
    assert_eq!(
        times.buckets.as_ref().map(|buckets| buckets.counts.clone()),
        sample(0).execution_times.map(|of| of.counts)
    );
    // Metrics of the training, with their labels.
    assert_eq!(host.metric("tpubridge_training_mfu").unwrap().series[0].value, MetricValue::Number(0.5));
    let steps = &host.metric("tpubridge_training_steps_total").unwrap().series[0];
    assert_eq!((steps.value.as_f64(), steps.labels.as_slice()), (Some(7.0), &[("phase".into(), "train".into())][..]));
    let MetricValue::Distribution(step) = &host.metric("tpubridge_training_step_seconds").unwrap().series[0].value
    else {
        panic!("{host:?}")
    };
    assert_eq!(step.buckets.as_ref().map(|buckets| buckets.counts.clone()), Some(vec![0, 1, 0]));
    assert!(host.clock_ahead_seconds.is_some_and(|ahead| ahead <= 0.0), "{host:?}");
}

/// Calls a method with bytes as they are.
fn call(service: &RuntimeMetricService, method: &str, message: &[u8]) -> Result<Vec<u8>, GrpcStatus> {
    let call = GrpcCall {
        method: format!("/tpu.monitoring.runtime.RuntimeMetricService/{method}"),
        message: message.to_vec(),
        deadline: None,
    };
    match block_on(service.call(call)).unwrap()? {
        Reply::One(answer) => Ok(answer),
        Reply::Stream(_) => panic!("one answer was expected"),
    }
}

/// A message with one text as its first field.
fn text(text: &str) -> Vec<u8> {
    let mut message = vec![0x0a, u8::try_from(text.len()).unwrap()];
    message.extend_from_slice(text.as_bytes());
    message
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let service = RuntimeMetricService::new(Arc::new(Source { registry: Registry::new() }));
    let code = |method: &str, message: &[u8]| call(&service, method, message).map_err(|status| status.code);
    assert_eq!(code("GetRuntimeMetric", &text("tpu.nothing")), Err(GrpcCode::NotFound));
    assert_eq!(code("GetRuntimeMetric", b""), Err(GrpcCode::NotFound));
    assert_eq!(code("GetRuntimeMetric", b"\xff"), Err(GrpcCode::InvalidArgument));
    assert_eq!(code("ListSupportedMetrics", &text("[")), Err(GrpcCode::InvalidArgument));
    assert_eq!(code("ListSupportedMetrics", &text(r"(\w{500}){500}")), Err(GrpcCode::InvalidArgument));
    assert_eq!(code("Other", b""), Err(GrpcCode::Unimplemented));
    // A filter lets through what matches.
    let all = call(&service, "ListSupportedMetrics", b"").unwrap();
    let some = call(&service, "ListSupportedMetrics", &text("^hlo\\.")).unwrap();
    assert!(some.len() < all.len());
    assert!(String::from_utf8_lossy(&some).contains(names::HLO_QUEUE));
    assert!(!String::from_utf8_lossy(&some).contains(names::HBM_TOTAL));
    // Whatever arrives, something is answered.
    let mut mutator = Mutator::new(1, vec![text("tpu.runtime.hbm.memory.total.bytes"), text("^hlo"), vec![8, 1]]);
    for _ in 0..1000 {
        let input = mutator.next_input();
        for method in ["GetRuntimeMetric", "ListSupportedMetrics", "GetTpuRuntimeStatus"] {
            let _ = call(&service, method, &input);
        }
    }
}

/// Answers with what our service answers, damaged.
struct Damaged {
    service: RuntimeMetricService,
    mutator: std::sync::Mutex<testkit::Random>,
}

impl Service for Damaged {
    fn call(&self, call: GrpcCall) -> Answering {
        let mut answering = self.service.call(call);
        let answer = answering.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(Reply::One(good))) = answer else {
            return ready(Err(GrpcStatus::new(GrpcCode::Internal, "no answer")));
        };
        let mut random = self.mutator.lock().unwrap();
        let bad = Mutator::new(random.next_u64(), vec![good]).next_input();
        ready(Ok(Reply::One(bad)))
    }
}

#[test]
fn damaged_answers_hide_nothing_else_and_harm_nothing() {
    let service = RuntimeMetricService::new(Arc::new(Source { registry: Registry::new() }));
    let damaged = Damaged { service, mutator: std::sync::Mutex::new(testkit::Random::new(7)) };
    let server = GrpcServer::start(loopback(), Arc::new(damaged), GrpcLimits::default()).unwrap();
    let address = server.address().to_string();
    let mut read_well = 0;
    for _ in 0..100 {
        let host = read(&address, &PATIENCE).unwrap();
        read_well += usize::from(!host.metrics.is_empty());
        device_families(&[]);
    }
    assert!(read_well > 0);
}

#[test]
fn libtpu_of_every_version_is_read() {
    let test = "libtpu_of_every_version_is_read";
    let modes = ["new", "old", "v3", "slow", "partial", "garbage", "ahead", "empty"];
    let Some(servers) = LibtpuServers::start(test, &modes) else { return };
    let read_mode = |mode: &str, patience: &Patience| {
        read(&servers.address(modes.iter().position(|known| *known == mode).unwrap()), patience).unwrap()
    };
    let gib = |n: u32| f64::from(n) * (1u64 << 30) as f64;

    let new = read_mode("new", &PATIENCE);
    assert!(new.is_listed && new.failed.is_empty(), "{new:?}");
    assert_eq!(of_devices(&new, names::HBM_USAGE), (0..8).map(|n| (n, gib(n))).collect());
    assert_eq!(of_devices(&new, names::HLO_QUEUE), (0..8).map(|n| (n, f64::from(n))).collect());
    // A metric that nobody knew when this was written.
    let future = &new.metric("tpu.future.metric.nobody.knows").unwrap().series[0];
    assert_eq!(future.value, MetricValue::Text("a text of the future".into()));
    let latency =
        &new.metric("megascale.dcn_transfer_latencies.microsecond.cumulative.distribution").unwrap().series[0];
    assert_eq!(latency.labels, [("buffer-size".to_string(), "8MB+".to_string())]);
    let MetricValue::Distribution(latency) = &latency.value else { panic!("{latency:?}") };
    // All four lie between 2000 and 4000.
    assert_eq!((latency.count, latency.p50), (4, Some(3000.0)));
    let cores = new.status.unwrap().cores;
    assert_eq!((cores.len(), cores[3].launch_id, cores[3].program_fingerprint.as_deref()), (8, Some(42), Some("abcd")));
    assert_eq!(cores[3].sequencers[0].hlo_location.as_deref(), Some("fusion.1"));
    assert!(new.clock_ahead_seconds.is_some_and(|ahead| ahead.abs() < 60.0));

    let old = read_mode("old", &PATIENCE);
    assert!(
        !old.is_listed && old.failed.iter().all(|(name, _)| name.starts_with("megascale") || name.starts_with("tpu"))
    );
    assert_eq!(of_devices(&old, names::HLO_QUEUE), (0..8).map(|n| (n, f64::from(n))).collect());
    assert_eq!(old.status, None);

    assert_eq!(of_devices(&read_mode("v3", &PATIENCE), names::DUTY_CYCLE).len(), 4);

    // One metric that is never answered costs its own time, and hides no other.
    let patience = Patience { call: Duration::from_millis(300), ..PATIENCE };
    let slow = read_mode("slow", &patience);
    assert_eq!(slow.failed.len(), 1, "{slow:?}");
    assert_eq!((slow.metrics.len(), of_devices(&slow, names::HBM_TOTAL).len()), (7, 8));
    // With no time at all nothing is told, and nothing hangs.
    let none = Patience { host: Duration::ZERO, ..PATIENCE };
    assert_eq!(read_mode("new", &none).metrics, []);

    let partial = read_mode("partial", &PATIENCE);
    let failed: Vec<&str> = partial.failed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((failed, partial.metrics.len()), (vec!["tpu.broken.1", "tpu.broken.2"], 8));

    let garbage = read_mode("garbage", &PATIENCE);
    let failed: Vec<&str> = garbage.failed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((failed, garbage.metrics.len()), (vec![names::HBM_USAGE, names::HLO_QUEUE], 6));
    assert_eq!(garbage.status, None);

    let ahead = read_mode("ahead", &PATIENCE).clock_ahead_seconds.unwrap();
    assert!((7000.0..7300.0).contains(&ahead), "{ahead}");
    let empty = read_mode("empty", &PATIENCE);
    assert!(empty.is_listed && empty.metrics.is_empty());
}
