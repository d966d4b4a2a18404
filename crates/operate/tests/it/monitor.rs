//! Many hosts at once: each answers for itself, and one that vanishes is gone.

use std::sync::Arc;
use std::time::Duration;

use operate::alerts::{AlertEngine, AlertsConfig};
use operate::diagnose::{DiagnoseSource, IssueKind, diagnose};
use operate::monitor::{HostMonitor, HostState, HostsSnapshot, MonitorTarget, OwnHost, families, hosts, to_table};
use telemetry::grpc::{GrpcLimits, GrpcServer};
use telemetry::runtime_metrics::{DeviceSample, RuntimeMetricService, RuntimeSource, RuntimeStatus};
use telemetry::{MetricFamily, Registry, TextFormat, TrainingRecord, to_text};
use testkit::LibtpuServers;

const PATIENCE: Duration = Duration::from_secs(60);

struct Host {
    devices: u32,
    registry: Registry,
}

impl RuntimeSource for Host {
    fn devices(&self) -> Vec<DeviceSample> {
        let device = |device| DeviceSample {
            device,
            hbm_total_bytes: Some(16 << 30),
            hbm_used_bytes: Some(8 << 30),
            duty_cycle: Some(0.5),
            ..DeviceSample::default()
        };
        (0..self.devices).map(device).collect()
    }

    fn status(&self, _hlo: bool) -> RuntimeStatus {
        RuntimeStatus::default()
    }

    fn uptime_seconds(&self) -> f64 {
        1.0
    }

    fn families(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}

fn host(devices: u32) -> GrpcServer {
    let registry = Registry::new();
    registry.gauge("tpubridge_training_mfu", "MFU.", &[]).set(0.4);
    let service = RuntimeMetricService::new(Arc::new(Host { devices, registry }));
    GrpcServer::start(([127, 0, 0, 1], 0).into(), Arc::new(service), GrpcLimits::default()).unwrap()
}

fn states(snapshot: &HostsSnapshot) -> Vec<(HostState, usize)> {
    snapshot.hosts.iter().map(|host| (host.state, host.devices.len())).collect()
}

/// The address of a port that nobody listens at.
fn nobody() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn hosts_that_vanish_and_come_back_are_told_apart_from_those_that_never_were() {
    let servers: Vec<GrpcServer> = (0..20).map(|_| host(4)).collect();
    let mut list: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    list.push(nobody());
    list.push("host.invalid".into());
    let mut monitor = HostMonitor::new(hosts(&list.join(",")).unwrap(), Vec::new(), PATIENCE).unwrap();
    let first = monitor.look();
    let mut expected = vec![(HostState::Up, 4); 20];
    expected.extend([(HostState::NoService, 0), (HostState::Unreachable, 0)]);
    assert_eq!(states(&first), expected);
    assert!(!first.is_complete());

    let mut servers = servers;
    let address = servers[7].address();
    drop(servers.remove(7));
    let second = monitor.look();
    expected[7] = (HostState::Gone, 0);
    assert_eq!(states(&second), expected);
    assert!(second.hosts[7].gone_seconds.is_some());
    let table = to_table(&second);
    assert!(table.contains(&format!("{address}: gone for")), "{table}");
    assert!(table.contains("host.invalid: no answer"), "{table}");
    assert!(table.contains("8.00/16.0 GiB") && table.contains("50 %"), "{table}");

    let text = to_text(&families(&second), TextFormat::Prometheus);
    assert!(text.contains(&format!("tpubridge_monitor_host_up{{host=\"{address}\"}} 0\n")), "{text}");
    assert_eq!(text.matches("tpubridge_monitor_host_up{").count(), 22);
    assert_eq!(text.matches("tpubridge_device_duty_cycle_ratio{").count(), 19 * 4);
    assert_eq!(text.matches("tpubridge_training_mfu{").count(), 19);
    assert!(text.contains("libtpu_tpu_runtime_hbm_memory_usage_bytes{"), "{text}");

    let service = RuntimeMetricService::new(Arc::new(Host { devices: 2, registry: Registry::new() }));
    let _back = GrpcServer::start(address, Arc::new(service), GrpcLimits::default()).unwrap();
    expected[7] = (HostState::Up, 2);
    assert_eq!(states(&monitor.look()), expected);
}

#[test]
fn the_record_has_a_version_and_what_was_told() {
    let server = host(1);
    let mut monitor = HostMonitor::new(hosts(&server.address().to_string()).unwrap(), Vec::new(), PATIENCE).unwrap();
    let record = serde_json::to_value(monitor.look()).unwrap();
    assert_eq!(record["version"], 1);
    let host = &record["hosts"][0];
    assert_eq!(host["state"], "up");
    assert_eq!(host["devices"][0]["hbm_used_bytes"], 8u64 << 30);
    assert_eq!(host["devices"][0]["duty_cycle"], 0.5);
    let names: Vec<&str> = host["metrics"].as_array().unwrap().iter().filter_map(|m| m["name"].as_str()).collect();
    assert!(names.contains(&"tpu.runtime.uptime.seconds.gauge"), "{names:?}");
}

#[test]
fn hosts_of_every_libtpu_side_by_side() {
    let modes = ["new", "old", "v3", "partial", "garbage", "ahead", "empty"];
    let Some(servers) = LibtpuServers::start("hosts_of_every_libtpu_side_by_side", &modes) else { return };
    let list: Vec<String> = (0..modes.len()).map(|place| servers.address(place)).collect();
    let mut monitor = HostMonitor::new(hosts(&list.join(",")).unwrap(), Vec::new(), PATIENCE).unwrap();
    let snapshot = monitor.look();
    let counts: Vec<usize> = snapshot.hosts.iter().map(|host| host.devices.len()).collect();
    assert_eq!(counts, [8, 8, 8, 8, 8, 8, 0]);
    let duty = |host: usize, device: usize| snapshot.hosts[host].devices[device].sample.duty_cycle;
    // Of chips on v3, of devices elsewhere.
    assert_eq!([duty(0, 1), duty(0, 7), duty(2, 1), duty(2, 7)], [Some(0.2), Some(0.8), Some(0.1), Some(0.4)]);
    assert_eq!(snapshot.hosts[4].devices[0].sample.hbm_used_bytes, None);
    assert_eq!(snapshot.hosts[0].devices[5].launch_id, Some(42));
    let table = to_table(&snapshot);
    assert!(table.contains("its clock is 120 min ahead"), "{table}");
    assert!(table.contains("tpu.broken.1") && table.contains("(and 1 more)"), "{table}");
    assert!(table.contains("tells of no device"), "{table}");
    let text = to_text(&families(&snapshot), TextFormat::OpenMetrics);
    assert!(text.contains("buffer_size=\"8MB+\""), "{text}");
}

/// A host whose libtpu lists how its chips and links are, under the names and in the texts of its SDK.
struct Hot {
    throttle: &'static str,
    link: &'static str,
}

impl telemetry::grpc::Service for Hot {
    fn call(&self, call: telemetry::grpc::GrpcCall) -> telemetry::grpc::Answering {
        use telemetry::grpc::{GrpcCode, GrpcStatus, Reply, ready};
        // A field of a message: its number, and bytes.
        let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8][..], bytes].concat();
        let (names, values) = (["tpu_throttle_score", "ici_link_health"], [self.throttle, self.link]);
        let answer = match call.method.rsplit('/').next() {
            Some("ListSupportedMetrics") => Some(names.map(|name| field(1, &field(1, name.as_bytes()))).concat()),
            Some("GetRuntimeMetric") => names.iter().zip(values).find_map(|(name, value)| {
                let is_asked = call.message.windows(name.len()).any(|part| part == name.as_bytes());
                // MetricResponse.metric { name, metrics { gauge { as_string } } }
                let gauge = field(3, &field(3, value.as_bytes()));
                is_asked.then(|| field(1, &[field(1, name.as_bytes()), field(3, &gauge)].concat()))
            }),
            _ => None,
        };
        ready(answer.map(Reply::One).ok_or_else(|| GrpcStatus::new(GrpcCode::Unimplemented, "not here")))
    }
}

#[test]
fn built_in_alerts_fire_by_what_libtpu_tells_of_chips_and_links() {
    let told = |throttle, link, platform: &str| {
        let server =
            GrpcServer::start(([127, 0, 0, 1], 0).into(), Arc::new(Hot { throttle, link }), GrpcLimits::default());
        let server = server.unwrap();
        let own = OwnHost::at(Some(MonitorTarget::new(&server.address().to_string()).unwrap()));
        let training = TrainingRecord { platform: platform.into(), ..TrainingRecord::default() };
        let mut engine = AlertEngine::new(AlertsConfig::default().rules());
        let mut fired = Vec::new();
        for seconds in 0..70 {
            let families = own.families(&training);
            let events = engine.evaluate(&families, 1e9 + f64::from(seconds));
            fired.extend(events.into_iter().map(|event| (event.alert, event.labels.get("location").cloned())));
        }
        fired
    };
    let at = |alert: &str, place: &str| (alert.to_string(), Some(place.to_string()));
    let both = [at("throttled", "1"), at("ici_unhealthy", "tray1.chip3.ici1.int")];
    assert_eq!(told("1-4", "tray1.chip3.ici1.int: 10", "tpu"), both);
    assert_eq!(told("1-0", "tray1.chip3.ici1.int: 3", "tpu"), []);
    // Trainings on other devices ask nobody.
    assert_eq!(told("1-4", "tray1.chip3.ici1.int: 10", "cpu"), []);
}

#[test]
fn a_host_is_diagnosed_whatever_program_uses_its_chips() {
    let hot = Hot { throttle: "2-3", link: "tray1.chip3.ici1.int: 7" };
    let hot = GrpcServer::start(([127, 0, 0, 1], 0).into(), Arc::new(hot), GrpcLimits::default()).unwrap();
    let diagnosis = diagnose(&DiagnoseSource::new(&hot.address().to_string()).unwrap()).unwrap();
    let kinds: Vec<IssueKind> = diagnosis.issues.iter().map(|issue| issue.kind).collect();
    assert_eq!(kinds, [IssueKind::Throttled, IssueKind::IciUnhealthy], "{}", diagnosis.text());
    assert!(diagnosis.text().contains("its metric service answers"), "{}", diagnosis.text());
    assert!(diagnosis.text().contains("7 of 10, its trouble lasts"), "{}", diagnosis.text());
}
