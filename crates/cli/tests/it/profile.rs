//! Profiles of trainings: windows of steps, and what is asked for while they run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::Receiver;

use prost::Message;
use xplane::{XEvent, XEventData, XPlane, XSpace};

use crate::harness::{Bench, arg, ran};
use crate::train::bench;

/// The profile in the only file below a folder of profiles.
fn profile_below(folder: &Path) -> (PathBuf, XSpace) {
    let run = std::fs::read_dir(folder.join("plugins/profile")).unwrap().next().unwrap().unwrap().path();
    let files: Vec<PathBuf> = std::fs::read_dir(&run).unwrap().map(|file| file.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    (file.clone(), XSpace::decode(std::fs::read(file).unwrap().as_slice()).unwrap())
}

fn plane<'s>(space: &'s XSpace, name: &str) -> &'s XPlane {
    let names: Vec<&str> = space.planes.iter().map(|plane| plane.name.as_str()).collect();
    space.planes.iter().find(|plane| plane.name == name).unwrap_or_else(|| panic!("no {name}: {names:?}"))
}

/// Names, starts and lengths of a line's events, in picoseconds.
fn events(plane: &XPlane, line: &str) -> Vec<(String, i64, i64)> {
    let one = |event: &XEvent| {
        let Some(XEventData::OffsetPs(start)) = event.data else { panic!("{event:?}") };
        (plane.event_metadata[&event.metadata_id].name.clone(), start, event.duration_ps)
    };
    let lines = plane.lines.iter().filter(|found| line.is_empty() || found.name == line);
    lines.flat_map(|line| line.events.iter().map(one)).collect()
}

/// A training with a profiler at a free port. What it prints is read all the time, so that it never waits for a reader.
struct Running {
    child: Child,
    lines: Receiver<String>,
    address: String,
}

impl Running {
    fn start(bench: &Bench, settings: &[&str]) -> Running {
        let fixed = ["train", "tiny.toml", "-d", "cpu", "--folder", "run", "--profiler", "0"];
        let mut command = bench.command(&[&fixed[..], settings].concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        let mut running = Running { child, lines, address: String::new() };
        let told = running.wait_for("profiler at ");
        running.address = told["profiler at ".len()..].split(": ").next().unwrap().to_string();
        running.wait_for("step 1/");
        running
    }

    /// The next line that begins so; lines before it are dropped.
    fn wait_for(&mut self, start: &str) -> String {
        let line = self.lines.iter().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("it ended before it said {start}"))
    }

    /// Waits for a step that ends from now on.
    fn go_on(&mut self) {
        while self.lines.try_recv().is_ok() {}
        self.wait_for("step ");
    }

    /// Asks it to stop, and waits for that: its exit code.
    fn stop(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_window_has_whole_steps_with_their_ops() {
    let bench = bench();
    let steps = ["--with", "train.steps=9", "--with", "profile.steps=4..7,8..=8"];
    let told =
        bench.expect(0, &[&["train", "tiny.toml", "-d", "cpu", "--folder", "run"][..], &steps[..]].concat()).stderr;
    assert!(told.contains("profile of 3 steps: ") && told.contains("profile of 1 steps: "), "{told}");
    let run = bench.path("run/metrics/plugins/profile/steps-4-6");
    let file = std::fs::read_dir(run).unwrap().next().unwrap().unwrap().path();
    let space = XSpace::decode(std::fs::read(file).unwrap().as_slice()).unwrap();
    assert!(space.errors.is_empty() && space.warnings.is_empty(), "{:?}", space.warnings);
    let device = plane(&space, "/device:TPU:0");
    let marked = events(device, "Steps");
    assert_eq!(marked.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), ["4", "5", "6"]);
    let launches = events(device, "XLA Modules");
    assert_eq!(launches.len(), 3, "{launches:?}");
    // Every op lies in a launch, every launch in its step.
    let is_within = |inner: &(String, i64, i64), outer: &(String, i64, i64)| {
        outer.1 <= inner.1 && inner.1 + inner.2 <= outer.1 + outer.2
    };
    for (launch, step) in launches.iter().zip(&marked) {
        assert!(is_within(launch, step), "{launch:?} {step:?}");
    }
    let ops = events(device, "XLA Ops");
    assert!(ops.len() >= 3 * 20, "{}", ops.len());
    assert!(ops.iter().all(|op| launches.iter().any(|launch| is_within(op, launch))));
    // Ops have their kernels, scopes and lines.
    let names: BTreeMap<i64, &str> = device.stat_metadata.iter().map(|(id, stat)| (*id, stat.name.as_str())).collect();
    let stats = |wanted: &str| -> Vec<String> {
        let all = device.event_metadata.values().flat_map(|metadata| &metadata.stats);
        all.filter(|stat| names[&stat.metadata_id] == wanted).map(|stat| format!("{:?}", stat.value)).collect()
    };
    assert!(stats("tf_op").iter().any(|scope| scope.contains("attention")), "{:?}", stats("tf_op"));
    assert!(stats("source").iter().any(|line| line.contains(".rs:")), "{:?}", stats("source"));
    assert!(stats("hlo_category").len() >= 20);
    // The host marks the same steps, with their phases inside.
    let host = events(plane(&space, "/host:CPU"), "");
    let of = |name: &str| host.iter().filter(|event| event.0 == name).collect::<Vec<_>>();
    assert_eq!(of("train").len(), 3);
    for phase in ["data", "wait", "dispatch", "log"] {
        assert!(of(phase).len() >= 3, "{phase}");
        assert!(of(phase).iter().all(|event| of("train").iter().any(|step| is_within(event, step))), "{phase}");
    }
    assert_eq!(of("save").len(), 1);
}

#[test]
fn steps_take_as_long_in_a_profile_as_in_the_metrics() {
    let bench = bench();
    // Larger than the tiny one, so that what lies between two clocks is little against a step.
    let sizes = ["model.n_embd=64", "data.validation_fraction=0.5", "train.batch_size=32", "train.steps=12"];
    let with: Vec<&str> = sizes.iter().chain(&["profile.steps=3..=12"]).flat_map(|set| ["--with", *set]).collect();
    bench.expect(
        0,
        &[&["train", "tiny.toml", "-d", "cpu", "--folder", "run", "--with", "train.save_every=100"][..], &with[..]]
            .concat(),
    );
    let metrics = std::fs::read_to_string(bench.path("run/metrics/metrics.jsonl")).unwrap();
    let records = metrics.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let measured: Vec<f64> = records
        .filter(|record| record["step"].as_u64() >= Some(3))
        .filter_map(|record| record["step_seconds"].as_f64())
        .collect();
    let (_, space) = profile_below(&bench.path("run/metrics"));
    let profiled: Vec<f64> = events(plane(&space, "/device:TPU:0"), "Steps")
        .iter()
        .map(|(_, _, duration)| *duration as f64 * 1e-12)
        .collect();
    assert_eq!((measured.len(), profiled.len()), (10, 10));
    // The last step of a profile ends with its launch. Two clocks, one training: sums of nine steps.
    let (measured, profiled): (f64, f64) = (measured[..9].iter().sum(), profiled[..9].iter().sum());
    assert!((profiled / measured - 1.0).abs() < 0.1, "{profiled} s in the profile, {measured} s in the metrics");
}

#[test]
fn a_training_is_profiled_while_it_runs() {
    let bench = bench();
    let mut running = Running::start(&bench, &["--with", "train.steps=1000000", "--with", "train.save_every=1000000"]);
    let told = bench.json(&["profile", "run", "--steps", "3"]);
    assert_eq!(told["address"], running.address.as_str());
    let steps: Vec<u64> = told["steps"].as_array().unwrap().iter().map(|step| step.as_u64().unwrap()).collect();
    assert_eq!(steps, (steps[0]..steps[0] + 3).collect::<Vec<_>>());
    let space = XSpace::decode(std::fs::read(bench.path(told["path"].as_str().unwrap())).unwrap().as_slice()).unwrap();
    let marked: Vec<String> = events(plane(&space, "/device:TPU:0"), "Steps").into_iter().map(|step| step.0).collect();
    assert_eq!(marked, steps.iter().map(u64::to_string).collect::<Vec<_>>());
    // By address and for a time, to another folder.
    let out = bench.path("elsewhere");
    bench.expect(0, &["profile", &running.address, "--seconds", "0.2", "--out", arg(&out)]);
    let (_, space) = profile_below(&out);
    assert!(!events(plane(&space, "/device:TPU:0"), "XLA Ops").is_empty());
    // Two at once: one is told to wait. Then the training goes on.
    let start = || {
        let mut command = bench.command(&["profile", &running.address, "--seconds", "600", "--out", arg(&out)]);
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut first = start();
    let refused = loop {
        let second = bench.run(&["profile", &running.address, "--seconds", "0.01", "--out", arg(&out)]);
        if second.code == Some(2) {
            break second;
        }
        // It came while the second was recorded, and was the one that was told to wait.
        if first.try_wait().unwrap().is_some() {
            first = start();
        }
    };
    assert!(
        refused.stderr.contains("another profile is being recorded") && refused.stderr.contains("hint: "),
        "{}",
        refused.stderr
    );
    // The first vanishes, and others are served.
    first.kill().unwrap();
    first.wait().unwrap();
    while bench.run(&["profile", "run", "--steps", "1", "--out", arg(&out)]).code != Some(0) {}
    running.go_on();
    assert!(bench.path("run/processes/0.json").exists());
    // One that is asked for when the training stops is answered, with what there is or with why not.
    let last = bench
        .command(&["profile", &running.address, "--steps", "10000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    running.go_on();
    assert_eq!(running.stop(), Some(75));
    let last = ran(last.wait_with_output().unwrap());
    assert!(last.code == Some(0) || last.stderr.contains("hint: "), "{last:?}");
    assert!(!bench.path("run/processes/0.json").exists());
    let gone = bench.expect(2, &["profile", "run", "--steps", "1"]).stderr;
    assert!(gone.contains("no process 0 of it trains") && gone.contains("--profiler"), "{gone}");
}

#[test]
fn what_cannot_be_profiled_is_refused() {
    let bench = bench();
    let train =
        |settings: &[&str]| bench.expect(2, &[&["train", "tiny.toml", "-d", "cpu"][..], settings].concat()).stderr;
    for (windows, why) in [
        ("0..3", "the first step"),
        ("5..5", "no steps"),
        ("5..9,8..12", "in front of it"),
        ("5", "no window"),
        ("a..b", "no window"),
    ] {
        let told = train(&["--folder", "run", "--with", &format!("profile.steps=\"{windows}\"")]);
        assert!(told.contains(why) && told.contains("hint: "), "{windows}: {told}");
    }
    let told = train(&["--with", "profile.steps=3..5"]);
    assert!(told.contains("no folder") && told.contains("profile.folder"), "{told}");
    let told = train(&["--profiler", "nonsense"]);
    assert!(told.contains("`nonsense` is no port"), "{told}");
    let told = bench.expect(2, &["profile", "nowhere"]).stderr;
    assert!(told.contains("no folder of a run and no HOST:PORT"), "{told}");
    let told = bench.expect(2, &["profile", "127.0.0.1:1", "--seconds", "1"]).stderr;
    assert!(told.contains("127.0.0.1:1 cannot be reached") && told.contains("hint: "), "{told}");
    for wrong in [["--seconds", "0"], ["--seconds", "-1"], ["--steps", "0"]] {
        assert!(bench.run(&[&["profile", "127.0.0.1:1"][..], &wrong[..]].concat()).code == Some(2), "{wrong:?}");
    }
}

/// What XProf's client says or writes.
fn xprof(python: &Path, args: &[&str]) -> String {
    let script = testkit::repository().join("crates/testkit/python/xprof_client.py");
    let output = std::process::Command::new(python).arg(script).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// XProf's tools read a profile, and see as many steps, with their ops, scopes and lines.
fn check_xprof_reads(python: &Path, file: &Path, steps: usize) {
    let space = XSpace::decode(std::fs::read(file).unwrap().as_slice()).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&xprof(python, &["read", arg(file)])).unwrap();
    let device = plane(&space, "/device:TPU:0");
    let marked: Vec<f64> = events(device, "Steps").iter().map(|(_, _, duration)| *duration as f64 * 1e-9).collect();
    let seen: Vec<f64> = answer["step_ms"].as_array().unwrap().iter().map(|step| step.as_f64().unwrap()).collect();
    assert_eq!((seen.len(), marked.len()), (steps, steps), "{seen:?} {marked:?}");
    assert!(seen.iter().zip(&marked).all(|(seen, marked)| (seen - marked).abs() < 0.01), "{seen:?} {marked:?}");
    // Self times of ops add up to what the ops of our profile take: none is nested in another here but in loops.
    let launches: f64 = events(device, "XLA Modules").iter().map(|launch| launch.2 as f64 * 1e-6).sum();
    let self_us = answer["self_us"].as_f64().unwrap();
    assert!(self_us > 0.5 * launches && self_us < 1.01 * launches, "{self_us} us of {launches} us");
    let has = |list: &str, part: &str| {
        answer[list].as_array().unwrap().iter().any(|name| name.as_str().unwrap().contains(part))
    };
    for (list, part) in [
        ("ops", "dot."),
        ("ops", "fusion."),
        ("categories", "loop fusion"),
        ("scopes", "attention"),
        ("lines", "XLA Ops"),
        ("lines", "Source code"),
        ("lines", "/host:CPU"),
    ] {
        assert!(has(list, part), "{part} is not in {}", answer[list]);
    }
    assert!(answer["overview_rows"].as_u64() > Some(0) && answer["op_profile_ps"].as_u64() > Some(0), "{answer}");
    assert_eq!(answer["launches"].as_u64(), Some(events(device, "XLA Modules").len() as u64));
}

#[test]
fn xprof_reads_windows_and_captures_by_itself() {
    let test = "xprof_reads_windows_and_captures_by_itself";
    let Some(python) = testkit::require(test, testkit::Needed::XprofPython) else { return };
    let bench = bench();
    let steps = ["--with", "train.steps=1000000", "--with", "train.save_every=1000000", "--with", "profile.steps=2..6"];
    let mut running = Running::start(&bench, &steps);
    running.wait_for("profile of 4 steps");
    let (window, _) = profile_below(&bench.path("run/metrics"));
    check_xprof_reads(&python, &window, 4);
    // JAX's own client writes what it gets to its own folder, and nothing appears in the run's.
    xprof(&python, &["capture", &running.address, arg(&bench.path("captured")), "300"]);
    let (captured, space) = profile_below(&bench.path("captured"));
    assert!(captured.file_name().unwrap().to_string_lossy().ends_with(".xplane.pb"));
    assert!(!events(plane(&space, "/device:TPU:0"), "Steps").is_empty());
    assert_eq!(std::fs::read_dir(bench.path("run/metrics/plugins/profile")).unwrap().count(), 1);
    let told = xprof(&python, &["monitor", &running.address]);
    assert!(told.contains("s a step"), "{told}");
    assert_eq!(running.stop(), Some(75));
}
