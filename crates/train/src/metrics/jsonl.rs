//! Metrics as JSON lines: one object for each step.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use serde_json::{Map, Value};

use super::appended::Appended;
use super::{Record, Start};

/// Version of the lines, in each of them.
pub const METRICS_VERSION: u32 = 1;

/// Longest line that is kept when a training goes on.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// A file of JSON lines.
///
/// A line is an object with `version`, `step`, `wall_time_seconds` and one number for each value. JSON has no numbers that
/// are not finite: they are the strings `"NaN"`, `"Infinity"` and `"-Infinity"`.
#[derive(Debug)]
pub struct JsonLines {
    file: Appended,
}

impl JsonLines {
    /// Opens a file; what it has is kept up to the step after which the training goes on.
    pub fn open(path: &Path, start: Start) -> JsonLines {
        let kept_bytes = match start {
            Start::Fresh => 0,
            Start::AfterStep(step) => keep_up_to(path, step).unwrap_or_else(|error| {
                if error.kind() != std::io::ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), %error, "earlier metrics cannot be read");
                }
                0
            }),
        };
        JsonLines { file: Appended::open(path, kept_bytes) }
    }

    /// Adds a line.
    pub fn write(&mut self, record: &Record) {
        let mut object = Map::new();
        object.insert("version".into(), METRICS_VERSION.into());
        object.insert("step".into(), record.step.into());
        object.insert("wall_time_seconds".into(), number(record.wall_time_seconds));
        object.extend(record.values.iter().map(|(name, value)| (name.clone(), number(*value))));
        let mut line = Value::Object(object).to_string();
        line.push('\n');
        self.file.append(line.as_bytes());
    }

    /// Puts everything on disk.
    pub fn flush(&mut self) {
        self.file.flush();
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Lines that could not be written.
    pub fn lost(&self) -> u64 {
        self.file.lost()
    }
}

fn number(value: f64) -> Value {
    match serde_json::Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// Leaves the whole lines up to a step in the file, and gives its length then.
fn keep_up_to(path: &Path, last_step: u64) -> std::io::Result<u64> {
    let mut from = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    let mut len = 0;
    // Lines dropped before one that is kept: then the file is written anew, else its end is cut off.
    let mut has_dropped = false;
    let mut kept_after_dropped = false;
    while next_line(&mut from, &mut line)? {
        if is_kept(&line, last_step) {
            len += line.len() as u64;
            kept_after_dropped |= has_dropped;
        } else {
            has_dropped = true;
        }
    }
    if !kept_after_dropped {
        return Ok(len);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = weights::unfinished_file(folder, ".tmp")?;
    let mut from = BufReader::new(File::open(path)?);
    let mut into = std::io::BufWriter::new(file.as_file_mut());
    while next_line(&mut from, &mut line)? {
        if is_kept(&line, last_step) {
            into.write_all(&line)?;
        }
    }
    into.flush()?;
    drop(into);
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(len)
}

/// Reads a line with its end. What is longer than any line of ours comes in pieces, none of which is a line.
fn next_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    use std::io::Read as _;
    line.clear();
    Ok(from.take(MAX_LINE_BYTES).read_until(b'\n', line)? > 0)
}

/// Whether a line is whole and of a step up to the last one. A line cut off by a crash is neither.
fn is_kept(line: &[u8], last_step: u64) -> bool {
    let parsed = line.strip_suffix(b"\n").and_then(|line| serde_json::from_slice::<Value>(line).ok());
    parsed.and_then(|value| value.get("step")?.as_u64()).is_some_and(|step| step <= last_step)
}
