//! Hosts of a slice that are made up: each rule that names a culprit, and hosts that are slow, partial, damaged, old or gone.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use operate::hang::{HangCause, HangOptions, HangReport, examine};
use operate::monitor::{MonitorTarget, hosts};
use telemetry::grpc::{Answering, GrpcCall, GrpcCode, GrpcLimits, GrpcServer, GrpcStatus, Reply, Service, ready};
use telemetry::runtime_metrics::{
    CoreState, DeviceSample, QueuedProgram, RuntimeMetricService, RuntimeSource, RuntimeStatus, Sequencer,
};
use testkit::LibtpuServers;

/// Nobody is late on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const HOSTS: usize = 4;
const CORES: usize = 2;

/// A host that says one thing when it is asked first, and another then.
struct Made {
    said: [RuntimeStatus; 2],
    asked: AtomicUsize,
}

impl RuntimeSource for Made {
    fn devices(&self) -> Vec<DeviceSample> {
        Vec::new()
    }

    fn status(&self, _hlo: bool) -> RuntimeStatus {
        self.said[self.asked.fetch_add(1, Ordering::Relaxed).min(1)].clone()
    }

    fn uptime_seconds(&self) -> f64 {
        1.0
    }
}

/// A core in launch 42 of program `ab`, at an all-reduce, with one more queued.
fn core(number: usize) -> CoreState {
    CoreState {
        core: number as i32,
        is_tensor_core: true,
        program_fingerprint: Some("ab".into()),
        launch_id: Some(42),
        sequencers: vec![Sequencer {
            kind: 1,
            program_counter: 700,
            tag: 3,
            run_id: 9,
            hlo_location: Some("all-reduce.3".into()),
        }],
        queued: vec![QueuedProgram { run_id: 10, launch_id: 43, program_fingerprint: "ab".into() }],
        ..CoreState::default()
    }
}

/// What four hosts with two cores each say, all of them the same.
fn slice() -> Vec<RuntimeStatus> {
    let host = |host: usize| RuntimeStatus {
        host_name: format!("t-{host}"),
        cores: (0..CORES).map(|n| core(host * CORES + n)).collect(),
        unreadable: 0,
    };
    (0..HOSTS).map(host).collect()
}

fn server(service: impl Service) -> GrpcServer {
    GrpcServer::start(([127, 0, 0, 1], 0).into(), Arc::new(service), GrpcLimits::default()).unwrap()
}

fn served(first: &RuntimeStatus, last: &RuntimeStatus) -> GrpcServer {
    let made = Made { said: [first.clone(), last.clone()], asked: AtomicUsize::new(0) };
    server(RuntimeMetricService::new(Arc::new(made)))
}

/// Targets of these addresses, named `t-0`, `t-1`, ….
fn targets(addresses: &[String]) -> Vec<MonitorTarget> {
    let named = |(n, target)| MonitorTarget { name: format!("t-{n}"), ..target };
    hosts(&addresses.join(",")).unwrap().into_iter().enumerate().map(named).collect()
}

fn ask(addresses: &[String], patience: Duration) -> HangReport {
    examine(&[], &targets(addresses), &HangOptions { patience, apart: Duration::ZERO })
}

/// Asks hosts that say this first, and then that.
fn asked(first: &[RuntimeStatus], last: &[RuntimeStatus]) -> HangReport {
    let servers: Vec<GrpcServer> = first.iter().zip(last).map(|(first, last)| served(first, last)).collect();
    let addresses: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    ask(&addresses, PATIENCE)
}

/// Hosts that say the same twice, which is a change of what all say.
#[track_caller]
fn check(change: impl Fn(&mut [RuntimeStatus]), cause: HangCause, who: &[&str], part: &str) {
    let mut said = slice();
    change(&mut said);
    let report = asked(&said, &said);
    let [culprit] = &report.culprits[..] else { panic!("{:?}", report.culprits) };
    assert_eq!(
        (culprit.cause, &culprit.processes[..]),
        (cause, &who.iter().map(|w| w.to_string()).collect::<Vec<_>>()[..])
    );
    assert!(culprit.why.contains(part) && !culprit.remedy.is_empty(), "{culprit:?}");
    let text = report.text();
    assert!(text.contains(&format!("culprit: {}", who.join(", "))) && text.contains("4 answer, 0 of "), "{text}");
}

#[test]
fn each_rule_names_its_culprit() {
    let every = |status: &mut RuntimeStatus, change: &dyn Fn(&mut CoreState)| status.cores.iter_mut().for_each(change);
    let error = |core: &mut CoreState| core.error = Some("HBM uncorrectable error".into());
    let other = |core: &mut CoreState| {
        core.program_fingerprint = Some("cd".into());
        core.queued[0].program_fingerprint = "cd".into();
    };
    let idle = |core: &mut CoreState| {
        (core.program_fingerprint, core.launch_id) = (None, None);
        core.sequencers.clear();
        core.queued.clear();
    };
    let at_zero = |core: &mut CoreState| {
        (core.sequencers[0].program_counter, core.sequencers[0].hlo_location) = (0, None);
    };
    check(|all| error(&mut all[1].cores[1]), HangCause::CoreError, &["core 3 of t-1"], "HBM uncorrectable");
    // The lowest launch of several.
    check(
        |all| {
            every(&mut all[1], &|core| core.launch_id = Some(41));
            every(&mut all[2], &|core| core.launch_id = Some(40));
        },
        HangCause::Behind,
        &["t-2"],
        "it stays in launch 40 at all-reduce.3, others are in 42",
    );
    let behind_with_nothing = |core: &mut CoreState| {
        core.launch_id = Some(41);
        core.queued.clear();
    };
    check(
        |all| behind_with_nothing(&mut all[2].cores[0]),
        HangCause::WaitsForData,
        &["core 4 of t-2"],
        "nothing is queued",
    );
    // Launches are counted in 32 bits.
    check(
        |all| {
            all.iter_mut().for_each(|host| every(host, &|core| core.launch_id = Some(i32::MIN + 1)));
            every(&mut all[3], &|core| core.launch_id = Some(i32::MAX));
        },
        HangCause::Behind,
        &["t-3"],
        "2147483647",
    );
    check(|all| every(&mut all[0], &other), HangCause::OtherProgram, &["t-0"], "runs program cd");
    // The program that others run is queued: this one is in an earlier one, however many are.
    check(
        |all| all[..3].iter_mut().for_each(|host| every(host, &|core| core.program_fingerprint = Some("01".into()))),
        HangCause::Behind,
        &["t-0", "t-1", "t-2"],
        "still in program 01",
    );
    check(
        |all| {
            let core = &mut all[3].cores[0];
            core.sequencers[0].program_counter = 512;
            core.sequencers[0].hlo_location = Some("fusion.7".into());
        },
        HangCause::OtherPlace,
        &["core 6 of t-3"],
        "fusion.7 (program counter 512), 7 of 8 cores",
    );
    check(|all| every(&mut all[1], &idle), HangCause::WaitsForData, &["t-1"], "no program to run");
    check(|all| every(&mut all[1], &at_zero), HangCause::WaitsForData, &["t-1"], "no program to run");
    check(
        |all| all.iter_mut().for_each(|host| every(host, &idle)),
        HangCause::WaitsForData,
        &["t-0", "t-1", "t-2", "t-3"],
        "no core has a program",
    );
    check(
        |all| every(&mut all[2], &|core| core.queued.clear()),
        HangCause::WaitsForData,
        &["t-2"],
        "nothing is queued behind its program",
    );
    check(
        |_| {},
        HangCause::LinkOrDevice,
        &["t-0", "t-1", "t-2", "t-3"],
        "all 8 cores stay at the same place at all-reduce.3",
    );
    // What is more certain comes first.
    check(
        |all| {
            every(&mut all[0], &other);
            every(&mut all[1], &|core| core.launch_id = Some(7));
            error(&mut all[3].cores[0]);
        },
        HangCause::CoreError,
        &["core 6 of t-3"],
        "HBM",
    );
    // SparseCores have launches of their own, and rest.
    check(
        |all| {
            let sparse = CoreState { core: 100, launch_id: Some(3), ..CoreState::default() };
            all[0].cores.push(sparse);
            every(&mut all[2], &other);
        },
        HangCause::OtherProgram,
        &["t-2"],
        "runs program cd",
    );
}

#[test]
fn what_moves_is_slow_and_does_not_hang() {
    let mut later = slice();
    // One is a launch behind each time, and goes on.
    for (host, status) in later.iter_mut().enumerate() {
        status.cores.iter_mut().for_each(|core| core.launch_id = Some(if host == 2 { 49 } else { 50 }));
    }
    let mut first = slice();
    first[2].cores.iter_mut().for_each(|core| core.launch_id = Some(41));
    let report = asked(&first, &later);
    assert!(!report.hangs && !report.is_blind(), "{:?}", report.culprits);
    assert!(report.text().contains("8 of 8 cores make progress") && report.text().contains("nobody hangs"));
    // In a long program only counters move.
    let mut later = slice();
    later.iter_mut().flat_map(|host| &mut host.cores).for_each(|core| core.sequencers[0].program_counter = 701);
    assert!(!asked(&slice(), &later).hangs);
    // One core that moves is enough: the others wait for it.
    let mut later = slice();
    later[1].cores[0].sequencers[0].tag = 4;
    assert!(!asked(&slice(), &later).hangs);
}

/// Answers as it is told, after a while.
struct Says {
    answer: Result<Vec<u8>, GrpcCode>,
    after: Duration,
}

impl Service for Says {
    fn call(&self, _: GrpcCall) -> Answering {
        let answer = match &self.answer {
            Ok(bytes) => Ok(Reply::One(bytes.clone())),
            Err(code) => Err(GrpcStatus::new(*code, "not here")),
        };
        let after = self.after;
        match after.is_zero() {
            true => ready(answer),
            false => Box::pin(async move {
                tokio::time::sleep(after).await;
                answer
            }),
        }
    }
}

/// A status on the wire: a core that is one, and one that is none.
const PARTIAL: &[u8] = b"\x0a\x01h\x12\x09\x08\x01\x12\x05\x22\x01\xab\x28\x2a\x12\x01\xff";

#[test]
fn hosts_that_are_slow_partial_damaged_old_or_gone() {
    let says = |answer, after: u64| server(Says { answer, after: Duration::from_millis(after) });
    let slow = says(Ok(PARTIAL.to_vec()), 300);
    let garbage = says(Ok(b"\xff\xff\xff\xff garbage".to_vec()), 0);
    let old = says(Err(GrpcCode::Unimplemented), 0);
    let addresses = [&slow, &garbage, &old].map(|server| server.address().to_string());
    let report = ask(&addresses, PATIENCE);
    // Nobody is blamed for what nobody knows.
    assert_eq!(report.culprits, [], "{}", report.text());
    let text = report.text();
    for part in ["t-0", "1 cores could not be read", "t-1", "its answer is of no use", "does not tell what cores do"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!report.is_blind() && ask(&addresses[1..], PATIENCE).is_blind());
    let record = serde_json::to_value(&report).unwrap();
    assert_eq!(record["hosts"][0]["last"]["cores"][0]["launch_id"], 42, "{record:#}");
    assert!(record["hosts"][1]["error"].as_str().unwrap().contains("damaged"), "{record:#}");

    // Beside hosts that say nothing of use, those that are gone or silent are still named, whatever the others do.
    let well = slice();
    let well = served(&well[0], &well[0]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let addresses = [well.address().to_string(), gone, silent.local_addr().unwrap().to_string(), addresses[1].clone()];
    let report = ask(&addresses, Duration::from_secs(1));
    let found: Vec<(HangCause, &str)> =
        report.culprits.iter().map(|culprit| (culprit.cause, culprit.processes[0].as_str())).collect();
    assert_eq!(found, [(HangCause::Gone, "t-1"), (HangCause::Stopped, "t-2")], "{}", report.text());

    // A name that nobody knows, and a pod that has not started.
    let mut unknown = targets(&["host.invalid".into(), "t-9".into()]);
    unknown[1] = MonitorTarget {
        name: "p-0".into(),
        address: None,
        note: Some("the pod has no address: its phase is Pending".into()),
    };
    let report = examine(&[], &unknown, &HangOptions { patience: PATIENCE, apart: Duration::ZERO });
    let causes: Vec<HangCause> = report.culprits.iter().map(|culprit| culprit.cause).collect();
    assert_eq!(causes, [HangCause::Unreachable; 2], "{}", report.text());
    assert!(report.culprits[1].why.contains("Pending"), "{}", report.text());
}

#[test]
fn hosts_of_every_libtpu_and_clocks_that_differ() {
    let modes = ["new", "ahead", "old", "garbage"];
    let Some(servers) = LibtpuServers::start("hosts_of_every_libtpu_and_clocks_that_differ", &modes) else { return };
    let addresses: Vec<String> = (0..modes.len()).map(|place| servers.address(place)).collect();
    let report = ask(&addresses, PATIENCE);
    // They say the same each time: those that can be judged stay where they are, whatever their clocks show.
    let [culprit] = &report.culprits[..] else { panic!("{}", report.text()) };
    assert_eq!(
        (culprit.cause, &culprit.processes[..]),
        (HangCause::LinkOrDevice, &["t-0".to_string(), "t-1".into()][..])
    );
    assert!(culprit.why.contains("all 16 cores") && culprit.why.contains("fusion.1"), "{culprit:?}");
}
