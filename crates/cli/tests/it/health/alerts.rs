//! Alerts of a training: told, kept, counted, delivered to a server that fails first, and a reason to save and stop.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use super::{bench, train};
use crate::harness::{arg, ran};

/// A server that fails once; what it was sent, with what it answered.
fn webhook() -> (String, Receiver<(u16, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/alerts", listener.local_addr().unwrap());
    let (sender, heard) = channel();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let status = if n == 0 { 503 } else { 200 };
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            if sender.send((status, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    (url, heard)
}

#[test]
fn an_alert_is_told_kept_delivered_and_stops_the_training() {
    let bench = bench();
    let (url, heard) = webhook();
    let rules = format!(
        "every = \"100ms\"\n\n[[alert]]\nname = \"far\"\nmetric = \"tpubridge_training_step\"\nwhen = \"> 20\"\n\
         severity = \"critical\"\nsummary = \"far enough\"\n\
         actions = [\"log\", {{ webhook = \"{url}\" }}, {{ command = [\"/bin/sh\", \"-c\", \"/bin/cat > heard.json\"] }}, \"stop_and_save\"]\n"
    );
    let rules = bench.write("rules.toml", rules);
    let ran = ran(train(&bench, "healthy.toml", &["--folder", "run", "--alerts", arg(&rules)]).output().unwrap());
    assert_eq!(ran.code, Some(75), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("alert far firing (critical): far enough; tpubridge_training_step is "),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("alert far: stopped after step ") && ran.stderr.contains("is saved"), "{}", ran.stderr);
    let kept = std::fs::read_to_string(bench.path("run/alerts.jsonl")).unwrap();
    let kept: Value = serde_json::from_str(kept.lines().next().unwrap()).unwrap();
    assert_eq!(
        (kept["alert"].as_str(), kept["state"].as_str(), kept["run"].as_str()),
        (Some("far"), Some("firing"), Some("run"))
    );
    let audit = std::fs::read_to_string(bench.path("run/audit.jsonl")).unwrap();
    assert!(audit.contains("\"alert.firing\""), "{audit}");
    let delivered: Vec<(u16, Value)> = heard.try_iter().collect();
    assert_eq!(delivered.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [503, 200]);
    assert_eq!(delivered[1].1["alert"], "far");
    let command: Value = serde_json::from_slice(&std::fs::read(bench.path("heard.json")).unwrap()).unwrap();
    assert_eq!(command, delivered[1].1);
}

#[test]
fn rules_that_do_not_parse_are_refused_before_training() {
    let bench = bench();
    let wrong = bench.write("wrong.toml", "[[alert]]\nname = \"a\"\nmetric = \"m\"\nwhen = \"high\"\n");
    let refused = |args: &[&str], parts: &[&str]| {
        let ran = bench.expect(2, &[&["train", "healthy.toml", "-d", "cpu"][..], args].concat());
        for part in parts.iter().chain(&["hint: "]) {
            assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
        }
    };
    refused(&["--alerts", arg(&wrong)], &["wrong.toml", "line 4", "when", "`high` is no condition"]);
    refused(&["--alerts", "nowhere.toml"], &["nowhere.toml"]);
    refused(&["--with", "alerts.off=[\"nothing\"]"], &["off", "`nothing` is no built-in alert"]);
    let file = format!("{}\n[alerts]\nprediction = \"fit.json\"\n", super::HEALTHY);
    bench.write("healthy.toml", file);
    refused(&[], &["prediction", "fit.json"]);
}
