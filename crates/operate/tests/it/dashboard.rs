//! The dashboard over HTTP: what it answers and refuses, runs that come and go, files that are being written, garbage.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use operate::dashboard::{Dashboard, DashboardOptions};
use serde_json::{Value, json};

/// Longest wait for something that takes moments.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(runs: &[&Path]) -> Dashboard {
    let runs = runs.iter().map(|path| path.display().to_string()).collect();
    let options = DashboardOptions { runs, allowed_hosts: vec!["runs.example".into()] };
    Dashboard::start("127.0.0.1:0".parse().unwrap(), &options).unwrap()
}

fn send(dashboard: &Dashboard, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(dashboard.address()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\n{headers}\r\n").unwrap();
    stream
}

/// The head and the body of an answer.
fn ask(dashboard: &Dashboard, path: &str, headers: &str) -> (String, String) {
    let mut answer = String::new();
    send(dashboard, path, headers).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_string(), body.to_string())
}

fn get(dashboard: &Dashboard, path: &str) -> Value {
    let (head, body) = ask(dashboard, path, "Host: localhost\r\n");
    assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
    serde_json::from_str(&body).unwrap()
}

#[track_caller]
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn line(step: u64, loss: f64) -> String {
    format!("{{\"version\":1,\"step\":{step},\"wall_time_seconds\":{}.5,\"loss\":{loss}}}\n", 1000 + step)
}

/// A run with some steps.
fn make_run(folder: &Path, steps: u64) {
    std::fs::create_dir_all(folder.join("metrics")).unwrap();
    let lines: String = (1..=steps).map(|step| line(step, 1.0 / step as f64)).collect();
    std::fs::write(folder.join("metrics/metrics.jsonl"), lines).unwrap();
}

fn append(folder: &Path, text: &str) {
    let path = folder.join("metrics/metrics.jsonl");
    std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// The first run once it is as it should be.
#[track_caller]
fn run_when(dashboard: &Dashboard, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    wait_for(what, || {
        let runs = get(dashboard, "/api/runs");
        runs["runs"].get(0).filter(|run| is_so(run)).cloned()
    })
}

/// Hears of what changes.
struct Events(BufReader<TcpStream>);

impl Events {
    fn new(dashboard: &Dashboard) -> Events {
        let stream = send(dashboard, "/api/events", "Host: 127.0.0.1\r\n");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Events(BufReader::new(stream))
    }

    /// The next event of a name.
    #[track_caller]
    fn next(&mut self, name: &str) -> Value {
        let mut event = String::new();
        loop {
            let mut text = String::new();
            assert!(self.0.read_line(&mut text).unwrap() > 0, "the connection ended before `{name}`");
            if let Some(known) = text.strip_prefix("event: ") {
                event = known.trim().to_string();
            }
            if let Some(data) = text.strip_prefix("data: ").filter(|_| event == name) {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

#[test]
fn lines_are_told_as_they_come_and_half_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    make_run(folder.path(), 10);
    let dashboard = start(&[folder.path()]);
    run_when(&dashboard, "the run", |run| run["step"] == 10);
    let mut events = Events::new(&dashboard);
    assert_eq!(events.next("run")["newest"]["loss"], 0.1);
    let new = line(11, 7.0);
    let (first, rest) = new.split_at(20);
    append(folder.path(), first);
    append(folder.path(), rest);
    let told = events.next("lines");
    assert_eq!((&told["first_line"], &told["lines"]), (&json!(10), &json!([[11, 1011.5, { "loss": 7.0 }]])));
    let curves = get(&dashboard, "/api/runs/0/curves?buckets=100");
    assert_eq!((&curves["next_line"], &curves["curves"]["loss"]["points"]), (&json!(11), &json!(11)));
    // A line that is half there is not told until it is whole.
    append(folder.path(), "{\"step\":12,\"loss\":");
    append(folder.path(), "\"NaN\"}\n");
    assert_eq!(events.next("lines")["lines"], json!([[12, 0.0, { "loss": "NaN" }]]));
    // A training that begins anew cuts its file.
    make_run(folder.path(), 2);
    assert_eq!(events.next("reload")["generation"], 1);
    let curves = get(&dashboard, "/api/runs/0/curves");
    assert_eq!((&curves["generation"], &curves["curves"]["loss"]["mean"]), (&json!(1), &json!([1.0, 0.5])));
}

#[test]
fn runs_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, one) = (folder.path().join("runs"), folder.path().join("runs/one"));
    let pattern = folder.path().join("later-*");
    let dashboard = start(&[&runs, &pattern]);
    let mut events = Events::new(&dashboard);
    wait_for("the sources", || {
        (get(&dashboard, "/api/runs")["waiting"].as_array().map(Vec::len) == Some(2)).then_some(())
    });
    make_run(&one, 3);
    assert_eq!(events.next("run")["folder"], one.display().to_string());
    make_run(&folder.path().join("later-a"), 1);
    wait_for("the second run", || (get(&dashboard, "/api/runs")["runs"].as_array()?.len() == 2).then_some(()));
    std::fs::remove_dir_all(&one).unwrap();
    assert_eq!(events.next("gone")["id"], 0);
    let (head, _) = ask(&dashboard, "/api/runs/0/curves", "Host: localhost\r\n");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    // It comes back under its number.
    make_run(&one, 4);
    wait_for("the first run", || {
        let all = get(&dashboard, "/api/runs");
        all["runs"].as_array()?.iter().any(|run| run["id"] == 0 && run["step"] == 4).then_some(())
    });
}

#[test]
fn garbage_is_passed_over_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path();
    make_run(run, 5);
    append(run, "no json\n{}\n[1]\n\u{0}\u{0}\n{\"step\":-1}\n{\"step\":6,\"loss\":{\"a\":1}}\n");
    append(run, &format!("{}\n", "[".repeat(50_000)));
    append(run, &line(7, 3.0));
    let garbage = [0xff, 0x00, b'{', b'\n', b'[', b'\n'].repeat(1000);
    for name in ["alerts.jsonl", "training.json", "report.html", "goodput/0.jsonl", "processes/0.json", "processes/x"] {
        std::fs::create_dir_all(run.join(name).parent().unwrap()).unwrap();
        std::fs::write(run.join(name), &garbage).unwrap();
    }
    let dashboard = start(&[run]);
    let seen = run_when(&dashboard, "the run", |run| run["step"] == 7 && !run["reports"][0].is_null());
    assert_eq!((&seen["unreadable_lines"], &seen["lines"]), (&json!(6), &json!(7)), "{seen}");
    assert_eq!((&seen["processes"], &seen["goodput"]), (&json!([]), &json!([])));
    assert_eq!((&seen["state"], &seen["alerts"]["firing"]), (&json!("stopped"), &json!([])));
    // What cannot be read is told, and does not end the rest.
    std::fs::remove_file(run.join("metrics/metrics.jsonl")).unwrap();
    std::fs::create_dir(run.join("metrics/metrics.jsonl")).unwrap();
    let seen = run_when(&dashboard, "the problem", |run| !run["problem"].is_null());
    assert!(seen["problem"].as_str().unwrap().contains("metrics.jsonl cannot be read"), "{seen}");
}

#[test]
fn what_a_run_tells_besides_metrics_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path();
    make_run(run, 5);
    let attempt = telemetry::Attempt::new(
        1000.0,
        0,
        5,
        telemetry::Spent { step_seconds: 6.0, compile_seconds: 2.0, ..telemetry::Spent::default() },
    );
    telemetry::GoodputFile::open(&run.join("goodput/0.jsonl")).write(&attempt);
    let alert = r#"{"version":1,"time_seconds":1.0,"state":"firing","alert":"loss-nan","severity":"critical","metric":"m","labels":{}}"#;
    std::fs::write(run.join("alerts.jsonl"), format!("{alert}\n")).unwrap();
    std::fs::write(run.join("fit.html"), "<title>A fit</title><script>report()</script>").unwrap();
    std::fs::write(run.join("host.xplane.pb"), "").unwrap();
    let announced = telemetry::ProcessPresence::new(0).announce(run).unwrap();
    let dashboard = start(&[run]);
    let seen = run_when(&dashboard, "the run", |run| run["state"] == "running" && !run["reports"][0].is_null());
    assert_eq!(seen["goodput"][0]["ratio"], 0.75);
    assert_eq!(seen["alerts"]["firing"][0]["alert"], "loss-nan");
    assert_eq!((&seen["reports"][0]["title"], &seen["profiles"]), (&json!("A fit"), &json!(["host.xplane.pb"])));
    assert_eq!(seen["processes"][0]["pid"], std::process::id());
    // The report is a page that can neither ask the dashboard nor load anything.
    let (head, body) = ask(&dashboard, "/runs/0/reports/0", "Host: localhost\r\n");
    assert!(head.contains("Content-Security-Policy: sandbox allow-scripts; default-src 'none'"), "{head}");
    assert_eq!(body, "<title>A fit</title><script>report()</script>");
    drop(announced);
    run_when(&dashboard, "the end of its process", |run| run["state"] == "stopped");
}

#[test]
fn a_long_file_is_read_in_parts_and_its_curves_are_short() {
    let folder = tempfile::tempdir().unwrap();
    make_run(folder.path(), 40_000);
    append(folder.path(), &line(40_001, 1e9));
    let dashboard = start(&[folder.path()]);
    run_when(&dashboard, "the last step", |run| run["step"] == 40_001);
    let curves = get(&dashboard, "/api/runs/0/curves?buckets=200");
    let loss = &curves["curves"]["loss"];
    assert_eq!(loss["points"], 40_001);
    let count = loss["mean"].as_array().unwrap().len();
    assert!((50..=200).contains(&count), "{count}");
    let most = loss["max"].as_array().unwrap().iter().filter_map(Value::as_f64).fold(0.0, f64::max);
    assert_eq!(most, 1e9);
    // However many are asked for.
    let (_, body) = ask(&dashboard, "/api/runs/0/curves?buckets=999999999", "Host: localhost\r\n");
    assert!(body.len() < 1 << 20, "{}", body.len());
}

#[test]
fn strangers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    make_run(&run, 5);
    std::fs::write(folder.path().join("secret.html"), "secret").unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret.html"), run.join("secret.html")).unwrap();
    let dashboard = start(&[&run]);
    run_when(&dashboard, "the run", |run| run["step"] == 5);
    let status = |path: &str, headers: &str| ask(&dashboard, path, headers).0[9..12].to_string();
    for host in ["localhost:8080", "127.0.0.1", "[::1]:80", "runs.example"] {
        assert_eq!(status("/api/runs", &format!("Host: {host}\r\n")), "200", "{host}");
    }
    // A name that was made to lead here, and none.
    for headers in ["Host: evil.example\r\n", "Host: localhost.evil.example:8080\r\n", ""] {
        for path in ["/", "/api/runs", "/api/events", "/dashboard.js"] {
            assert_eq!(status(path, headers), "403", "{path} {headers}");
        }
    }
    let cross = "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n";
    assert_eq!((status("/api/runs", cross).as_str(), status("/", cross).as_str()), ("403", "200"));
    for path in [
        "/../secret.html",
        "/runs/0/reports/../../../secret.html",
        "/runs/0/reports/secret.html",
        "/runs/0/reports/0",
        "/runs/0/reports/-1",
        "/runs/99999999999999999999/reports/0",
        "/runs/0/reports/%2e%2e%2fsecret.html",
        "/api/runs/1/curves",
        "/api/runs/x/curves",
        "/metrics/metrics.jsonl",
        "//etc/passwd",
    ] {
        assert_eq!(status(path, "Host: localhost\r\n"), "404", "{path}");
    }
    let (head, page) = ask(&dashboard, "/", "Host: localhost\r\n");
    assert!(head.contains("default-src 'none'; script-src 'self'") && head.contains("X-Frame-Options: DENY"), "{head}");
    assert!(page.contains("<main>"), "{page}");
}

#[test]
fn pages_beyond_the_limit_do_not_keep_others_out() {
    let folder = tempfile::tempdir().unwrap();
    make_run(folder.path(), 5);
    let dashboard = start(&[folder.path()]);
    let mut listening: Vec<Events> = (0..16).map(|_| Events::new(&dashboard)).collect();
    listening.iter_mut().for_each(|events| drop(events.next("sources")));
    assert!(ask(&dashboard, "/api/events", "Host: localhost\r\n").0.starts_with("HTTP/1.1 503 "));
    get(&dashboard, "/api/runs");
    // The end of the dashboard ends what it tells.
    drop(dashboard);
    let mut rest = String::new();
    listening[0].0.read_to_string(&mut rest).unwrap();
}
