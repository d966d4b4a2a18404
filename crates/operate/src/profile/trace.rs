//! Writes a profile as a Chrome trace, which Perfetto and `chrome://tracing` open: events as they are read, nothing kept.

use super::error::Error;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use xplane::{Line, LineEvent, Plane, StatValue};

/// A trace being written.
pub struct TraceWriter {
    path: PathBuf,
    out: BufWriter<File>,
    pid: u64,
    tid: u64,
    is_first: bool,
    /// Times count from the first event's line, so that numbers stay short enough for JSON.
    base_ns: Option<i64>,
    failed: Option<std::io::Error>,
}

/// Text of a stat at most.
const LONGEST: usize = 400;

impl TraceWriter {
    /// A new trace in a file.
    pub fn create(path: &Path) -> Result<TraceWriter, Error> {
        let failed = |source| Error::Write { path: path.to_path_buf(), source };
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n").map_err(failed)?;
        Ok(TraceWriter { path: path.to_path_buf(), out, pid: 0, tid: 0, is_first: true, base_ns: None, failed: None })
    }

    /// Ends the trace.
    pub fn finish(mut self) -> Result<(), Error> {
        if self.failed.is_none() {
            let ended = self.out.write_all(b"\n]}\n").and_then(|()| self.out.flush());
            self.failed = ended.err();
        }
        match self.failed {
            Some(source) => Err(Error::Write { path: self.path, source }),
            None => Ok(()),
        }
    }

    pub(super) fn process(&mut self, file: usize, plane: &Plane) {
        self.pid += 1;
        self.tid = 0;
        let name = if file == 0 { plane.name.clone() } else { format!("{} (file {})", plane.name, file + 1) };
        let pid = self.pid;
        self.write(&json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}));
        self.write(&json!({"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}));
    }

    pub(super) fn thread(&mut self, _: &Plane, line: &Line) {
        self.tid += 1;
        let name = if line.display_name.is_empty() { &line.name } else { &line.display_name };
        let (pid, tid) = (self.pid, self.tid);
        self.write(&json!({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}));
        self.write(
            &json!({"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}),
        );
    }

    pub(super) fn event(&mut self, plane: &Plane, line: &Line, event: &LineEvent<'_>) -> ControlFlow<()> {
        let base = *self.base_ns.get_or_insert(line.timestamp_ns);
        let start_ps = line.start_ps(event) - i128::from(base) * 1000;
        let metadata = plane.event_metadata(event.metadata_id);
        let name = metadata.map_or("(unnamed)", |metadata| match &*metadata.display_name {
            "" => &*metadata.name,
            shown => shown,
        });
        let mut args = Map::new();
        if let Some(metadata) = metadata
            && !metadata.display_name.is_empty()
        {
            args.insert("long_name".into(), json!(metadata.name.chars().take(LONGEST).collect::<String>()));
        }
        let shared = metadata.into_iter().flat_map(|metadata| metadata.stats.iter());
        for stat in shared.chain(event.stats()) {
            let Some(key) = plane.stat_name(stat.metadata_id) else { continue };
            let value = match stat.value {
                StatValue::Double(value) => json!(value),
                StatValue::Uint64(value) => json!(value),
                StatValue::Int64(value) => json!(value),
                other => match plane.text(other) {
                    Some(text) => json!(text.chars().take(LONGEST).collect::<String>()),
                    None => continue,
                },
            };
            args.insert(key.to_string(), value);
        }
        let mut record = json!({
            "ph": "X",
            "pid": self.pid,
            "tid": self.tid,
            "ts": start_ps as f64 / 1e6,
            "dur": event.duration_ps.max(0) as f64 / 1e6,
            "name": name.chars().take(LONGEST).collect::<String>(),
        });
        if !args.is_empty() {
            record["args"] = Value::Object(args);
        }
        self.write(&record);
        if self.failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn write(&mut self, record: &Value) {
        if self.failed.is_some() {
            return;
        }
        let separator: &[u8] = if self.is_first { b"" } else { b",\n" };
        self.is_first = false;
        let written = self
            .out
            .write_all(separator)
            .and_then(|()| serde_json::to_writer(&mut self.out, record).map_err(std::io::Error::from));
        self.failed = written.err();
    }
}
