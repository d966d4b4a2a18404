//! What a training answers while it runs: metrics, status, where to find it, and Prometheus with its alerts on top.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{Needed, repository, require};

use crate::harness::{Bench, arg};
use crate::train::bench;

/// Longest wait for something that takes a few seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// The body of what an address answers.
pub(crate) fn get(address: &str, path: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_string()
}

/// The value of a series without labels.
pub(crate) fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Asks until the answer is as it should be.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A process that is killed with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A training that goes on until it is stopped, and where it answers.
fn start(bench: &Bench, more: &[&str]) -> (Running, String) {
    let file = bench.path("tiny.toml");
    let steps = ["--with", "train.steps=1000000", "--with", "train.save_every=1000"];
    let args = ["train", arg(&file), "--folder", "run", "-d", "cpu", "--metrics", "127.0.0.1:0"];
    answering(&mut bench.command(&[&args[..], &steps, more].concat()))
}

/// Starts a training that is given `--metrics`; where it answers.
pub(crate) fn answering(command: &mut Command) -> (Running, String) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (found, address) = channel();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The rest is read too, so that the training never waits for its reader.
    std::thread::spawn(move || {
        for line in lines.by_ref().map_while(Result::ok) {
            if let Some((_, rest)) = line.split_once("http://") {
                let _ = found.send(rest.trim_end_matches("/metrics").to_string());
            }
        }
    });
    let running = Running(child);
    let address = address.recv_timeout(PATIENCE).expect("the training says where it answers");
    (running, address)
}

#[test]
fn a_training_answers_what_it_is_asked() {
    let bench = bench();
    let (mut running, address) = start(&bench, &[]);
    let plain = "text/plain";
    let text = wait_for("steps", || {
        let text = get(&address, "/metrics", plain);
        value(&text, "tpubridge_training_steps_total").is_some_and(|steps| steps > 20.0).then_some(text)
    });
    assert!(value(&text, "tpubridge_training_loss").unwrap() > 0.0, "{text}");
    assert!(value(&text, "tpubridge_training_tokens_per_second").unwrap() > 0.0, "{text}");
    let goodput = value(&text, "tpubridge_goodput_ratio").unwrap();
    assert!(goodput > 0.0 && goodput <= 1.0, "{text}");
    assert!(text.contains("tpubridge_training_phase_seconds_total{phase=\"compile\"}"), "{text}");
    assert!(text.contains("tpubridge_device_hbm_used_bytes{device=\"0\""), "{text}");
    assert!(get(&address, "/metrics", "application/openmetrics-text").ends_with("# EOF\n"));
    let status: Value = serde_json::from_str(&get(&address, "/status", plain)).unwrap();
    assert_eq!((status["process"].as_u64(), status["pid"].as_u64()), (Some(0), Some(u64::from(running.0.id()))));
    assert!(status["dispatched"].as_u64() >= status["step"].as_u64(), "{status}");
    assert_eq!(status["program"].as_str().unwrap().len(), 16, "{status}");

    let presence: Value =
        serde_json::from_str(&std::fs::read_to_string(bench.path("run/processes/0.json")).unwrap()).unwrap();
    assert_eq!(presence["metrics"], address);
    rustix::process::kill_process(rustix::process::Pid::from_child(&running.0), rustix::process::Signal::TERM).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(75));
    assert!(!bench.path("run/processes/0.json").exists() && !bench.path("run/targets/0.json").exists());

    // The next attempt counts the first one.
    let (_running, address) = start(&bench, &[]);
    wait_for("the second attempt", || {
        (value(&get(&address, "/metrics", plain), "tpubridge_training_attempts") == Some(2.0)).then_some(())
    });
}

#[test]
fn an_address_that_cannot_be_had_is_refused_before_training() {
    let bench = bench();
    let ran = bench.expect(2, &["train", arg(&bench.path("tiny.toml")), "-d", "cpu", "--metrics", "256.0.0.1:99999"]);
    assert!(ran.stderr.contains("cannot listen on 256.0.0.1:99999") && ran.stderr.contains("hint: "), "{}", ran.stderr);
}

fn tool(folder: &Path, name: &str) -> std::path::PathBuf {
    folder.join(name)
}

#[test]
fn promtool_accepts_metrics_and_rules() {
    let test = "promtool_accepts_metrics_and_rules";
    let Some(prometheus) = require(test, Needed::Prometheus) else { return };
    let promtool = tool(prometheus.parent().unwrap(), "promtool");
    let rules = repository().join("monitoring/prometheus");
    for args in [vec!["check", "rules", "rules.yml"], vec!["test", "rules", "rules_test.yml"]] {
        let output = Command::new(&promtool).args(&args).current_dir(&rules).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "promtool {args:?}: {}", String::from_utf8_lossy(&said));
    }
    let bench = bench();
    let (_running, address) = start(&bench, &[]);
    let text = wait_for("an evaluation", || {
        let text = get(&address, "/metrics", "text/plain");
        value(&text, "tpubridge_training_checkpoint_timestamp_seconds").map(|_| text)
    });
    let mut check = Command::new(&promtool);
    let check = check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.trim().is_empty(), "{said}\n{text}");
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Hears what Alertmanager delivers: the status and name of each alert.
fn webhook() -> (String, Receiver<(String, String)>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, heard) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let mut length = 0;
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                if let Some(rest) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = rest.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            for alert in body["alerts"].as_array().unwrap() {
                let text = |value: &Value| value.as_str().unwrap().to_string();
                if sender.send((text(&alert["status"]), text(&alert["labels"]["alertname"]))).is_err() {
                    return;
                }
            }
        }
    });
    (address, heard)
}

/// Starts a server of Debian's with its data in the test's folder.
fn server(bench: &Bench, program: &Path, args: &[String]) -> Running {
    let log =
        std::fs::File::create(bench.path(&format!("{}.log", program.file_name().unwrap().to_string_lossy()))).unwrap();
    let mut command = Command::new(program);
    command.args(args).current_dir(bench.path("")).stdout(Stdio::null()).stderr(log);
    Running(command.spawn().unwrap())
}

#[test]
fn prometheus_scrapes_all_processes_and_alertmanager_hears_of_one_that_is_gone() {
    let test = "prometheus_scrapes_all_processes_and_alertmanager_hears_of_one_that_is_gone";
    let Some(prometheus) = require(test, Needed::Prometheus) else { return };
    let Some(alertmanager) = require(test, Needed::Alertmanager) else { return };
    let bench = bench();
    let coordinator = format!("127.0.0.1:{}", free_port());
    let mesh = ["--mesh", "data=4", "--processes", "4", "--coordinator", &coordinator];
    let processes = ["0", "1", "2", "3"].map(|id| [&mesh[..], &["--process-id", id]].concat());
    let started: Vec<_> = std::thread::scope(|scope| {
        let threads = processes.each_ref().map(|more| scope.spawn(|| start(&bench, more)));
        threads.map(|thread| thread.join().unwrap()).into_iter().collect()
    });

    let (hook, heard) = webhook();
    let (prometheus_port, manager_port) = (free_port(), free_port());
    // The rules as they are, but nobody waits for minutes.
    let rules = std::fs::read_to_string(repository().join("monitoring/prometheus/rules.yml")).unwrap();
    bench.write("rules.yml", rules.replace("for: 1m", "for: 1s"));
    let config = std::fs::read_to_string(repository().join("monitoring/prometheus/prometheus.yml")).unwrap();
    let targets = bench.path("run/targets/*.json");
    let config = config.replace("/runs/*/targets/*.json", arg(&targets)).replace("15s", "1s");
    let alerting =
        format!("alerting:\n  alertmanagers: [{{ static_configs: [{{ targets: ['127.0.0.1:{manager_port}'] }}] }}]\n");
    bench.write("prometheus.yml", format!("{config}{alerting}"));
    let receiver = format!("webhook_configs: [{{ url: 'http://{hook}/', send_resolved: true }}]");
    let route = "{ receiver: test, group_wait: 0s, group_interval: 1s, group_by: [alertname] }";
    bench.write("alertmanager.yml", format!("route: {route}\nreceivers: [{{ name: test, {receiver} }}]\n"));
    let listen = |port: u16| format!("--web.listen-address=127.0.0.1:{port}");
    let manager_args = ["--config.file=alertmanager.yml", "--storage.path=alerts", "--cluster.listen-address="];
    let manager_args = manager_args.map(String::from).into_iter().chain([listen(manager_port)]);
    let _manager = server(&bench, &alertmanager, &manager_args.collect::<Vec<_>>());
    let prometheus_args = ["--config.file=prometheus.yml", "--storage.tsdb.path=data"].map(String::from);
    let prometheus_args: Vec<_> = prometheus_args.into_iter().chain([listen(prometheus_port)]).collect();
    let _prometheus = server(&bench, &prometheus, &prometheus_args);

    let address = format!("127.0.0.1:{prometheus_port}");
    let query = |expression: &str| -> Vec<Value> {
        let Ok(mut stream) = TcpStream::connect(&address) else { return Vec::new() };
        let path = format!("/api/v1/query?query={expression}");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let body: Option<Value> = answer.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok());
        body.and_then(|body| body["data"]["result"].as_array().cloned()).unwrap_or_default()
    };
    wait_for("all four processes in Prometheus", || {
        (query("tpubridge_training_step%20%3E%2010").len() == 4).then_some(())
    });
    let mut labels: Vec<_> = query("up").iter().map(|sample| sample["metric"]["process"].to_string()).collect();
    labels.sort();
    assert_eq!(labels, [r#""0""#, r#""1""#, r#""2""#, r#""3""#]);

    // One process is paused: it answers nobody, and the alert is delivered; when it goes on, so is the end of the alert.
    let signal = |signal| {
        let process = rustix::process::Pid::from_child(&started[2].0.0);
        rustix::process::kill_process(process, signal).unwrap();
    };
    signal(rustix::process::Signal::STOP);
    let hear = |status: &str| {
        let wanted = (status.to_string(), "TpubridgeProcessGone".to_string());
        wait_for(status, || heard.try_iter().find(|alert| *alert == wanted))
    };
    hear("firing");
    signal(rustix::process::Signal::CONT);
    hear("resolved");
}
