//! What a training tells of itself: the newest lines of its metrics file, or its metrics endpoint.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;
use telemetry::MetricFamily;

use super::collect::MonitorError;
use super::endpoint::{self, Endpoint};

/// Bytes at the end of a metrics file that are read.
const TAIL_BYTES: u64 = 256 << 10;
/// Points of a curve that are kept.
const MAX_POINTS: usize = 256;

/// Where a run is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunSource {
    /// The folder of a `tpu train` run.
    Folder(PathBuf),
    /// The address of its `--metrics`.
    Endpoint(Endpoint),
}

/// What a run told last.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WatchedRun {
    /// As it was named.
    pub run: String,
    /// The newest step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Seconds since that was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// Its loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Seconds of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_seconds: Option<f64>,
    /// Tokens a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// MFU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
    /// Why nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Losses and seconds of steps, oldest first.
    #[serde(skip)]
    pub losses: Vec<f64>,
    /// As `losses`.
    #[serde(skip)]
    pub step_times: Vec<f64>,
}

impl RunSource {
    /// A run by its folder, or by the address of its endpoint: `http://host:9464` or `http://host:9464/metrics`.
    pub fn new(text: &str) -> Result<RunSource, MonitorError> {
        if text.contains("://") {
            let endpoint = Endpoint::new(text).map_err(|why| MonitorError::Run { run: text.into(), why })?;
            return Ok(RunSource::Endpoint(endpoint));
        }
        let folder = Path::new(text);
        if !folder.is_dir() {
            return Err(MonitorError::Run { run: text.into(), why: "there is no such folder".into() });
        }
        Ok(RunSource::Folder(folder.to_path_buf()))
    }

    /// Reads it now. What cannot be read is told in the record: the run may be about to start.
    pub fn read(&self) -> WatchedRun {
        let (run, read) = match self {
            RunSource::Folder(folder) => (folder.display().to_string(), read_folder(folder)),
            RunSource::Endpoint(endpoint) => (
                endpoint.to_string(),
                endpoint.read().map(|families| of_endpoint(&families)).map_err(|error| error.to_string()),
            ),
        };
        match read {
            Ok(record) => WatchedRun { run, ..record },
            Err(why) => WatchedRun { run, error: Some(why), ..WatchedRun::default() },
        }
    }
}

fn read_folder(folder: &Path) -> Result<WatchedRun, String> {
    let path = folder.join("metrics").join("metrics.jsonl");
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(&path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let start = size.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line may be cut, and the last is being written until it has its end.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().skip(usize::from(start > 0));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    Ok(of_lines(lines, now))
}

/// Lines that are no records are passed over.
fn of_lines<'a>(lines: impl Iterator<Item = &'a str>, now: f64) -> WatchedRun {
    let mut record = WatchedRun::default();
    for line in lines {
        let Ok(Value::Object(values)) = serde_json::from_str::<Value>(line) else { continue };
        let number = |name: &str| values.get(name).and_then(number);
        let Some(step) = values.get("step").and_then(Value::as_u64) else { continue };
        record.step = Some(step);
        record.age_seconds = number("wall_time_seconds").map(|wrote| (now - wrote).max(0.0)).or(record.age_seconds);
        record.loss = number("loss").or(record.loss);
        record.step_seconds = number("step_seconds").or(record.step_seconds);
        record.tokens_per_second = number("tokens_per_second").or(record.tokens_per_second);
        record.mfu = number("mfu").or(record.mfu);
        record.losses.extend(number("loss"));
        record.step_times.extend(number("step_seconds"));
    }
    for points in [&mut record.losses, &mut record.step_times] {
        points.drain(..points.len().saturating_sub(MAX_POINTS));
    }
    record
}

/// A number, or one of the texts that stand for what JSON has no number for.
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        value => value.as_f64(),
    }
}

fn of_endpoint(families: &[MetricFamily]) -> WatchedRun {
    let value = |name: &str| endpoint::value(families, name);
    WatchedRun {
        step: value("tpubridge_training_step").filter(|step| *step >= 0.0).map(|step| step as u64),
        loss: value("tpubridge_training_loss"),
        step_seconds: value("tpubridge_training_step_seconds"),
        tokens_per_second: value("tpubridge_training_tokens_per_second"),
        mfu: value("tpubridge_training_mfu"),
        ..WatchedRun::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_count_and_bad_ones_do_not() {
        let lines = [
            r#"{"version":1,"step":10,"wall_time_seconds":100.0,"loss":3.0,"step_seconds":0.5}"#,
            "no json",
            r#"{"loss":1}"#,
            r#"{"version":1,"step":20,"wall_time_seconds":110.0,"loss":"NaN","step_seconds":0.4,"mfu":0.5}"#,
            r#"{"version":1,"step":20,"wall_time_seconds":111.0,"evaluation_loss":2.0}"#,
        ];
        let record = of_lines(lines.into_iter(), 113.0);
        assert_eq!((record.step, record.age_seconds, record.step_seconds), (Some(20), Some(2.0), Some(0.4)));
        assert!(record.loss.is_some_and(f64::is_nan));
        assert_eq!(record.step_times, [0.5, 0.4]);
        // A clock that is ahead of ours.
        assert_eq!(of_lines(lines.into_iter(), 0.0).age_seconds, Some(0.0));
    }

    #[test]
    fn a_file_that_is_being_written_or_long_is_read_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let source = RunSource::new(folder.path().to_str().unwrap()).unwrap();
        assert!(source.read().error.is_some());
        std::fs::create_dir(folder.path().join("metrics")).unwrap();
        let line = |step: u64| format!("{{\"step\":{step},\"loss\":{step}.5}}\n");
        let mut text: String = (0..20_000).map(line).collect();
        text.push_str("{\"step\":99999,\"lo");
        std::fs::write(folder.path().join("metrics/metrics.jsonl"), text).unwrap();
        let record = source.read();
        assert_eq!((record.step, record.loss, record.losses.len()), (Some(19_999), Some(19_999.5), MAX_POINTS));
        assert!(RunSource::new("/nowhere").unwrap_err().to_string().contains("no such folder"));
    }
}
