//! `--otlp` and logs for programs: a strict collector that others' messages decode for, one that is gone, and Cloud Logging's
//! fields.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::{Needed, repository, require};

use crate::harness::{Bench, Ran, arg, ran};
use crate::metrics::get;
use crate::train::bench;

/// A collector that lists what is not right (`crates/testkit/python/otlp_server.py`). It ends with this value.
struct Collector {
    child: Child,
    address: String,
}

impl Collector {
    /// One that first tells so many requests to come again.
    fn start(test: &str, busy: usize) -> Option<Collector> {
        let python = require(test, Needed::OperatePython)?;
        let script = repository().join("crates/testkit/python/otlp_server.py");
        let mut command = Command::new(python);
        command.arg(script).arg(busy.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Some(Collector { child, address: format!("127.0.0.1:{}", port.trim()) })
    }

    /// Everything that came.
    fn told(&self) -> Value {
        serde_json::from_str(&get(&self.address, "/", "application/json")).unwrap()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A training of so many steps, with variables of OpenTelemetry.
fn train(bench: &Bench, folder: &str, steps: u64, more: &[&str], variables: &[(&str, &str)]) -> Ran {
    let file = bench.path("tiny.toml");
    let steps = format!("train.steps={steps}");
    let args = ["train", arg(&file), "--folder", folder, "-d", "cpu", "--json", "--with", &steps];
    let mut command = bench.command(&[&args[..], more].concat());
    ran(command.envs(variables.iter().copied()).output().unwrap())
}

fn text<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().unwrap_or_else(|| panic!("{name} in {record}"))
}

#[test]
fn a_strict_collector_understands_what_a_training_sends() {
    let Some(collector) = Collector::start("a_strict_collector_understands_what_a_training_sends", 2) else { return };
    let bench = bench();
    let variables = [
        ("OTEL_SERVICE_NAME", "gpt"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=a%20b"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k1"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "200"),
        ("GOOGLE_CLOUD_PROJECT", "p1"),
    ];
    let address = format!("http://{}", collector.address);
    let ran = train(&bench, "run", 40, &["--otlp", &address, "--log-format", "cloud"], &variables);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let told = collector.told();
    assert_eq!(told["errors"], serde_json::json!([]));
    assert_eq!((told["busy"].as_u64(), told["headers"]["x-key"].as_str()), (Some(2), Some("k1")));
    let [resource] = told["resources"].as_array().unwrap().as_slice() else { panic!("{}", told["resources"]) };
    let of_resource = ["service.name", "team", "tpubridge.process", "tpubridge.run"].map(|name| text(resource, name));
    assert_eq!(of_resource, ["gpt", "a b", "0", "run"]);

    // One trace: the attempt, the steps between records, their phases.
    let spans = told["spans"].as_array().unwrap();
    let by_id: BTreeMap<&str, &Value> = spans.iter().map(|span| (text(span, "id"), span)).collect();
    let roots: Vec<&Value> = spans.iter().filter(|span| text(span, "parent").is_empty()).collect();
    let [attempt] = roots.as_slice() else { panic!("{roots:?}") };
    assert_eq!((text(attempt, "name"), attempt["error"].as_bool()), ("attempt", Some(false)));
    assert_eq!(attempt["attributes"]["tpubridge.ended"], "finished");
    assert_eq!(attempt["attributes"]["tpubridge.step"], 40);
    let mut steps: Vec<(u64, u64)> = Vec::new();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for span in spans.iter().filter(|span| !text(span, "parent").is_empty()) {
        let parent = by_id[text(span, "parent")];
        assert_eq!(text(span, "trace"), text(attempt, "trace"));
        assert!(parent["start"].as_u64() <= span["start"].as_u64() && span["end"].as_u64() <= parent["end"].as_u64());
        *names.entry(text(span, "name")).or_default() += 1;
        match text(span, "name") {
            "steps" => {
                let of = |name: &str| span["attributes"][name].as_u64().unwrap();
                steps.push((of("tpubridge.first_step"), of("tpubridge.step")));
                assert!(span["attributes"]["tpubridge.step_seconds"].as_f64().unwrap() > 0.0, "{span}");
                assert_eq!(text(parent, "name"), "attempt");
            }
            "initialize" | "compile" => assert_eq!(text(parent, "name"), "attempt"),
            _ => assert_eq!(text(parent, "name"), "steps"),
        }
    }
    steps.sort();
    assert_eq!((steps.first().unwrap().0, steps.last().unwrap().1), (0, 40));
    assert!(steps.windows(2).all(|pair| pair[0].1 == pair[1].0), "{steps:?}");
    assert!(["data", "step", "save", "compile", "initialize"].iter().all(|name| names.contains_key(name)), "{names:?}");

    let metrics = told["metrics"].as_array().unwrap();
    let metric = |name: &str, label: &str| {
        let is_it = |metric: &&Value| metric["name"] == name && metric["labels"].to_string().contains(label);
        let metric = metrics.iter().find(is_it).unwrap_or_else(|| panic!("no {name}"));
        (text(metric, "kind"), text(metric, "unit"), metric["value"].as_f64().unwrap())
    };
    assert_eq!(metric("tpubridge_training_steps_total", ""), ("sum", "", 40.0));
    assert_eq!(metric("tpubridge_training_step_seconds", ""), ("histogram", "s", 39.0));
    assert!(metric("tpubridge_training_loss", "").2 > 0.0);
    for signal in ["metrics", "traces", "logs"] {
        assert_eq!(metric("tpubridge_otlp_dropped_total", signal).2, 0.0, "{signal}");
    }

    // Each line of standard error is a record of Cloud Logging, and the collector has it too, in the same span.
    let logs = told["logs"].as_array().unwrap();
    let lines: Vec<Value> = ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let step = |line: &&Value| line["fields"]["step"] == 30 && line["fields"]["loss"].is_number();
    let line = lines.iter().find(step).unwrap_or_else(|| panic!("{}", ran.stderr));
    assert!(text(line, "message").starts_with("step 30/40  ") && text(line, "severity") == "INFO", "{line}");
    assert!(text(line, "time").ends_with('Z'), "{line}");
    let trace = format!("projects/p1/traces/{}", text(attempt, "trace"));
    assert_eq!(text(line, "logging.googleapis.com/trace"), trace);
    let span = text(line, "logging.googleapis.com/spanId");
    assert_eq!(text(by_id[span], "name"), "steps");
    let log = logs.iter().find(|log| log["body"] == line["message"]).unwrap();
    assert_eq!((text(log, "severity"), text(log, "span"), text(log, "trace")), ("INFO", span, text(attempt, "trace")));
    assert_eq!(log["attributes"]["loss"], line["fields"]["loss"]);
}

#[test]
fn a_collector_that_is_gone_changes_nothing() {
    let bench = bench();
    let plain = train(&bench, "plain", 12, &[], &[]);
    // Nobody listens on this port, which only root may take.
    let gone =
        train(&bench, "gone", 12, &["--log-format", "json"], &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")]);
    assert_eq!((plain.code, gone.code), (Some(0), Some(0)), "{}", gone.stderr);
    let loss = |ran: &Ran| serde_json::from_str::<Value>(&ran.stdout).unwrap()["loss"].to_string();
    assert_eq!(loss(&plain), loss(&gone));
    let lines: Vec<Value> = gone.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let warnings = lines.iter().filter(|line| line["level"] == "WARN" && line.to_string().contains("takes no data"));
    assert_eq!(warnings.count(), 1, "{}", gone.stderr);
}

#[test]
fn an_address_that_cannot_be_is_refused_and_an_environment_that_cannot_be_is_a_warning() {
    let bench = bench();
    let refused = train(&bench, "run", 1, &["--otlp", "nowhere"], &[]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("--otlp is no address of HTTP") && refused.stderr.contains("hint: "),
        "{refused:?}"
    );
    let records = train(&bench, "run", 1, &["--otlp", "nowhere", "--log-format", "cloud"], &[]);
    let record: Value = serde_json::from_str(&records.stderr).unwrap();
    assert_eq!(text(&record, "severity"), "ERROR");
    assert!(text(&record["fields"], "hint").contains("docs/howto/monitoring.md"), "{record}");
    let grpc = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    let warned = train(&bench, "run", 1, &[], &grpc);
    assert_eq!(warned.code, Some(0), "{}", warned.stderr);
    assert!(warned.stderr.contains("warning: nothing is sent to an OpenTelemetry collector"), "{}", warned.stderr);
}
