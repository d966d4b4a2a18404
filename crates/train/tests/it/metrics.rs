//! Metrics: lines that survive crashes and resumes, event files that TensorBoard reads, and disks that are full.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::{fs, io};

use serde_json::{Value, json};
use testkit::{Needed, require};
use train::metrics::{EventFile, JsonLines, METRICS_VERSION, Metrics, Record, Start, ValueHistogram};

fn record(step: u64) -> Record {
    let record = Record { step, wall_time_seconds: 1000.0 + step as f64, values: Vec::new() };
    record.loss(4.0 / (1.0 + step as f64)).speed(0.5, 1024).mfu(0.25).learning_rate(3e-4)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn steps(path: &Path) -> Vec<u64> {
    lines(path).iter().map(|line| line["step"].as_u64().unwrap()).collect()
}

#[test]
fn a_record_is_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/metrics.jsonl");
    let mut file = JsonLines::open(&path, Start::Fresh);
    file.write(&record(3));
    let odd = Record::new(4).with("nan", f64::NAN).with("up", f64::INFINITY).with("down", f64::NEG_INFINITY);
    file.write(&odd);
    file.flush();
    let expected = json!({"version": METRICS_VERSION, "step": 3, "wall_time_seconds": 1003.0, "loss": 1.0,
        "step_seconds": 0.5, "tokens_per_second": 2048.0, "mfu": 0.25, "learning_rate": 3e-4});
    let found = lines(&path);
    assert_eq!(found[0], expected);
    assert_eq!(
        (&found[1]["nan"], &found[1]["up"], &found[1]["down"]),
        (&json!("NaN"), &json!("Infinity"), &json!("-Infinity"))
    );
    assert!(found[1]["wall_time_seconds"].as_f64().unwrap() > 1.6e9);
    assert_eq!(file.lost(), 0);
}

#[test]
fn a_resumed_run_drops_what_it_makes_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.jsonl");
    let write = |start, from: std::ops::Range<u64>| {
        let mut file = JsonLines::open(&path, start);
        from.for_each(|step| file.write(&record(step)));
    };
    write(Start::AfterStep(7), 0..10);
    write(Start::AfterStep(5), 6..8);
    assert_eq!(steps(&path), [0, 1, 2, 3, 4, 5, 6, 7]);
    // A line that a crash cut off, with and without what looks whole.
    for torn in
        ["{\"version\":1,\"st", "{\"version\":1,\"step\":7}", "{\"version\":1,\"step\":7.5}\n", "\n\n", "\0\0\0"]
    {
        fs::write(&path, [fs::read(&path).unwrap().as_slice(), torn.as_bytes()].concat()).unwrap();
        write(Start::AfterStep(7), 0..0);
        assert_eq!(steps(&path), [0, 1, 2, 3, 4, 5, 6, 7], "{torn:?}");
    }
    // Damage in the middle costs its own lines only.
    let text = fs::read_to_string(&path).unwrap().replace("\"step\":3,", "\"step\":");
    fs::write(&path, text).unwrap();
    write(Start::AfterStep(6), 7..9);
    assert_eq!(steps(&path), [0, 1, 2, 4, 5, 6, 7, 8]);
    // Even a line that has no end.
    fs::write(&path, [fs::read(&path).unwrap(), vec![b'x'; 3 << 20]].concat()).unwrap();
    write(Start::AfterStep(8), 9..10);
    assert_eq!(steps(&path), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    write(Start::Fresh, 0..1);
    assert_eq!(steps(&path), [0]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file is left");
}

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The warnings logged while something is done.
fn warnings(action: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    tracing::subscriber::with_default(subscriber, action);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    text.lines().filter(|line| line.contains("WARN")).map(String::from).collect()
}

#[test]
fn a_full_disk_is_one_warning() {
    // Linux's device that is always full.
    let mut lost = 0;
    let warned = warnings(|| {
        let mut file = JsonLines::open("/dev/full".as_ref(), Start::Fresh);
        (0..5).for_each(|step| file.write(&record(step)));
        file.flush();
        lost = file.lost();
    });
    assert_eq!(lost, 5);
    assert!(warned.len() == 1 && warned[0].contains("/dev/full") && warned[0].contains("goes on"), "{warned:?}");
    // A folder that cannot be made.
    let file = tempfile::NamedTempFile::new().unwrap();
    let warned = warnings(|| {
        let mut metrics = Metrics::none()
            .with_lines(&file.path().join("metrics.jsonl"), Start::AfterStep(3))
            .with_events(&file.path().join("events"), Start::Fresh);
        metrics.write(&record(4));
        metrics.events().unwrap().text(4, "sample", "text");
        metrics.flush();
        assert_eq!(metrics.events().unwrap().lost(), 4);
    });
    assert!(warned.iter().filter(|line| line.contains("metrics cannot be written")).count() == 2, "{warned:?}");
}

/// Prints what TensorBoard's own reader finds in a folder.
const READ: &str = r#"
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
run = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0, "histograms": 0}).Reload()
text = run.Tensors("sample")
print(json.dumps({
    "scalars": {tag: [[e.wall_time, e.step, e.value] for e in run.Scalars(tag)] for tag in run.Tags()["scalars"]},
    "histogram": [[e.step, e.histogram_value.min, e.histogram_value.max, e.histogram_value.num, e.histogram_value.sum,
        list(e.histogram_value.bucket_limit), list(e.histogram_value.bucket)] for e in run.Histograms("weights")],
    "text": [[e.step, [s.decode() for s in e.tensor_proto.string_val]] for e in text],
    "plugin": run.SummaryMetadata("sample").plugin_data.plugin_name,
    "version": run.file_version,
}))
"#;

fn read_with_tensorboard(python: &Path, folder: &Path) -> Value {
    let output = Command::new(python).args(["-c", READ]).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn tensorboard_reads_event_files() {
    let Some(python) = require("tensorboard_reads_event_files", Needed::Python) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut metrics = Metrics::none().with_events(folder.path(), Start::Fresh);
    (0..10).for_each(|step| metrics.write(&record(step)));
    let events = metrics.events().unwrap();
    events.text(2, "sample", "Grüße,\n*Markdown*");
    events.histogram(3, "weights", &ValueHistogram::of((0..80).map(f64::from).chain([f64::NAN])));
    let name = events.path().file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.starts_with("events.out.tfevents.") && events.lost() == 0, "{name}");
    drop(metrics);
    // The run goes on after step 5: steps 6 to 9 of the first file are no more.
    let mut events = EventFile::create(folder.path(), Start::AfterStep(5));
    (6..8).for_each(|step| events.scalars(&record(step).with("again", 1.0)));
    events.flush();

    let found = read_with_tensorboard(&python, folder.path());
    let loss: Vec<Value> =
        (0..8u64).map(|step| json!([1000.0 + step as f64, step, f64::from(4.0f32 / (1.0 + step as f32))])).collect();
    assert_eq!(found["scalars"]["loss"], Value::from(loss));
    assert_eq!(found["scalars"]["again"], json!([[1006.0, 6, 1.0], [1007.0, 7, 1.0]]));
    let names: Vec<&String> = found["scalars"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["loss", "step_seconds", "tokens_per_second", "mfu", "learning_rate", "again"]);
    assert_eq!((&found["text"], &found["plugin"]), (&json!([[2, ["Grüße,\n*Markdown*"]]]), &json!("text")));
    assert_eq!(found["version"], json!(2.0));
    let histogram = &found["histogram"][0];
    assert_eq!((&histogram[0], &histogram[1], &histogram[2]), (&json!(3), &json!(0.0), &json!(79.0)));
    assert_eq!((&histogram[3], &histogram[4]), (&json!(80.0), &json!(3160.0)));
    assert_eq!(histogram[6], Value::from(vec![2.0; 40]));
    let limits: Vec<f64> = histogram[5].as_array().unwrap().iter().map(|limit| limit.as_f64().unwrap()).collect();
    assert!(limits.len() == 40 && limits.is_sorted() && limits[39] == 79.0);
}
