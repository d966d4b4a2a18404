//! Reads a Chrome trace, as XProf writes it beside an XSpace, into the collector.
//!
//! The file is read three times, because names of threads may stand anywhere in it: for the names, for the runs of
//! programs, and for everything else.

use super::collect::{Collector, Device, LineKind, OpRun, Step, core_of};
use super::error::Error;
use super::host::HostId;
use super::nest::{Closed, Nest, Picoseconds};
use super::ops::{OpFacts, Program};
use super::record::CoreKind;
use super::space::{framework_name, started_by};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Bytes of a trace at most, unpacked.
const LIMIT_BYTES: u64 = 1 << 30;
/// Events of a thread that are put into order as they pass.
const WINDOW: usize = 1 << 16;
/// Threads at most.
const MOST_THREADS: usize = 1 << 14;

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    ph: String,
    #[serde(default)]
    pid: Value,
    #[serde(default)]
    tid: Value,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    args: Map<String, Value>,
}

impl Event {
    fn number(&self, key: &str) -> Option<f64> {
        let number = match self.args.get(key)? {
            Value::Number(number) => number.as_f64()?,
            Value::String(text) => text.parse().ok()?,
            _ => return None,
        };
        (number.is_finite() && number >= 0.0).then_some(number)
    }

    fn integer(&self, key: &str) -> Option<u64> {
        match self.args.get(key)? {
            Value::Number(number) => number.as_u64().or_else(|| number.as_i64().map(|number| number as u64)),
            Value::String(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn text(&self, key: &str) -> &str {
        self.args.get(key).and_then(Value::as_str).unwrap_or("")
    }

    /// Start and length by the device's own clock, where that is given whole.
    fn device_span(&self) -> Option<(u64, u64)> {
        self.integer("device_offset_ps").zip(self.integer("device_duration_ps"))
    }

    fn length_ps(&self) -> u64 {
        self.device_span().map_or((self.dur.max(0.0) * 1e6) as u64, |(_, length)| length)
    }

    fn shown_start(&self) -> Picoseconds {
        (self.ts.clamp(-1e18, 1e18) * 1e6) as Picoseconds
    }

    fn start(&self) -> Picoseconds {
        self.device_span().map_or_else(|| self.shown_start(), |(start, _)| Picoseconds::from(start))
    }
}

/// Hands every event to a function.
struct Events<'a>(&'a mut dyn FnMut(Event));

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace: an object with traceEvents, or a list of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut is_trace = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                is_trace = true;
                map.next_value_seed(Events(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if is_trace { Ok(()) } else { Err(serde::de::Error::custom("no traceEvents")) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(event) = list.next_element()? {
            (self.0)(event);
        }
        Ok(())
    }
}

/// Reads all events of a file.
fn each(path: &Path, mut event: impl FnMut(Event)) -> Result<(), Error> {
    let failed = |source| Error::Read { path: path.to_path_buf(), source };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let is_packed = std::io::BufRead::fill_buf(&mut file).map_err(failed)?.starts_with(&[0x1f, 0x8b]);
    let unpacked: Box<dyn Read> =
        if is_packed { Box::new(flate2::bufread::MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut limited = unpacked.take(LIMIT_BYTES);
    let mut reader = serde_json::Deserializer::from_reader(BufReader::new(&mut limited));
    let read = Events(&mut event).deserialize(&mut reader).and_then(|()| reader.end());
    drop(reader);
    match read {
        Ok(()) => Ok(()),
        Err(_) if limited.limit() == 0 => Err(Error::TooLarge { path: path.to_path_buf(), limit_bytes: LIMIT_BYTES }),
        Err(source) => Err(Error::Trace { path: path.to_path_buf(), source }),
    }
}

type ThreadKey = (String, String);

enum Thread {
    Device { device: usize, core: CoreKind, kind: LineKind, nest: Nest<OpRun> },
    Host { nest: Nest<HostId> },
}

/// Reads a trace.
pub(super) fn read(path: &Path, file: usize, collector: &mut Collector) -> Result<(), Error> {
    let (processes, names) = names(path)?;
    let mut devices: HashMap<String, (usize, CoreKind)> = HashMap::new();
    let mut sorted: Vec<_> = processes.iter().collect();
    sorted.sort();
    for (pid, name) in sorted {
        if let Some(core) = core_of(name) {
            let device = Device { name: name.clone(), file, core, ..Device::default() };
            if let Some(device) = collector.device(device) {
                devices.insert(pid.clone(), (device, core));
            }
        }
    }
    let kind_of = |pid: &str, tid: &str, core: CoreKind| {
        let name = names.get(&(pid.to_string(), tid.to_string())).map_or("", String::as_str);
        LineKind::of(core, tid.parse().unwrap_or(0), name)
    };
    each(path, |event| {
        let (pid, tid) = (id(&event.pid), id(&event.tid));
        if let Some(&(device, core)) = devices.get(&pid)
            && event.ph == "X"
            && kind_of(&pid, &tid, core) == LineKind::Modules
        {
            let program = Program::of_run(&event.name);
            collector.devices[device].run(program, event.shown_start(), event.length_ps());
        }
    })?;
    let mut threads: HashMap<ThreadKey, Thread> = HashMap::new();
    each(path, |event| {
        if event.ph != "X" {
            return;
        }
        let key = (id(&event.pid), id(&event.tid));
        if !threads.contains_key(&key) {
            if threads.len() >= MOST_THREADS {
                return;
            }
            let thread = match devices.get(&key.0) {
                Some(&(device, core)) => {
                    Thread::Device { device, core, kind: kind_of(&key.0, &key.1, core), nest: Nest::new(WINDOW) }
                }
                None if processes.get(&key.0).is_none_or(|name| name.starts_with("/host")) => {
                    Thread::Host { nest: Nest::new(WINDOW) }
                }
                None => return,
            };
            threads.insert(key.clone(), thread);
        }
        if let Some(thread) = threads.get_mut(&key) {
            enter(thread, &event, collector);
        }
    })?;
    for thread in threads.values_mut() {
        match thread {
            Thread::Device { device, nest, .. } => nest.finish(&mut |closed| collector.op(*device, &closed)),
            Thread::Host { nest } => nest.finish(&mut |closed| collector.host.add(&closed)),
        }
    }
    collector.note("a Chrome trace states neither peak rates nor programs: the XSpace beside it says more".into());
    Ok(())
}

fn enter(thread: &mut Thread, event: &Event, collector: &mut Collector) {
    let length_ps = event.length_ps();
    match thread {
        Thread::Host { nest } => {
            if let Some(number) = event.integer("step_num") {
                let step = Step { name: number.to_string(), start: event.shown_start(), length_ps };
                collector.host_step(step);
            }
            if length_ps > 0 {
                let id = collector.host.intern(&event.name);
                nest.push(event.shown_start(), length_ps, id, &mut |closed| collector.host.add(&closed));
            }
        }
        Thread::Device { device, core, kind, nest } => match kind {
            LineKind::Ops => {
                let op = collector.ops.intern(described(event, *core, &collector.devices[*device]));
                let run = OpRun { op, count: 1, flops: None, hbm_bytes: None };
                nest.push(event.start(), length_ps, run, &mut |closed| collector.op(*device, &closed));
            }
            LineKind::Stream => {
                let named = event.text("hlo_op").rsplit("::").next().unwrap_or("");
                if named.is_empty() && !event.args.contains_key("correlation_id") {
                    return;
                }
                let mut facts = described(event, *core, &collector.devices[*device]);
                if !named.is_empty() {
                    facts.name = named.to_string();
                    facts.expression = event.name.clone();
                } else {
                    let is_copy = event.args.contains_key("memcpy_details");
                    facts.category = if is_copy { "memory copy" } else { "kernel" }.into();
                }
                let what = OpRun { op: collector.ops.intern(facts), count: 1, flops: None, hbm_bytes: None };
                let start = event.start();
                let closed = Closed { what, start, total_ps: length_ps, self_ps: length_ps, is_outermost: true };
                collector.op(*device, &closed);
            }
            LineKind::AsyncOps => {
                let mut facts = described(event, *core, &collector.devices[*device]);
                facts.name = started_by(&facts.expression).unwrap_or(&facts.name).to_string();
                let op = collector.ops.intern(facts);
                collector.devices[*device].transfer(op, length_ps);
            }
            LineKind::Steps => {
                let step = Step { name: event.name.clone(), start: event.start(), length_ps };
                collector.devices[*device].step(step);
            }
            LineKind::Marks => collector.devices[*device].wait(&event.name, length_ps),
            LineKind::Modules | LineKind::Other => {}
        },
    }
}

/// What an event says of its op.
fn described(event: &Event, core: CoreKind, device: &Device) -> OpFacts {
    let mut program = Program { id: event.integer("program_id"), name: event.text("hlo_module").to_string() };
    if program == Program::default()
        && let Some(running) = device.program_at(event.shown_start())
    {
        program = running.clone();
    }
    let bytes = event.number("bytes_accessed").unwrap_or(0.0);
    OpFacts {
        program,
        name: event.name.clone(),
        core,
        category: event.text("hlo_category").to_string(),
        expression: event.text("long_name").to_string(),
        scope: framework_name(event.text("tf_op")),
        source: event.text("source").to_string(),
        flops: event.number("flops").or_else(|| event.number("model_flops")).unwrap_or(0.0),
        hbm_bytes: bytes,
        bytes,
    }
}

/// Names of processes by their number, and of threads by both.
type Names = (HashMap<String, String>, HashMap<ThreadKey, String>);

fn names(path: &Path) -> Result<Names, Error> {
    let (mut processes, mut threads) = (HashMap::new(), HashMap::new());
    each(path, |event| {
        if event.ph != "M" || processes.len() + threads.len() >= 4 * MOST_THREADS {
            return;
        }
        let name = event.text("name").to_string();
        match event.name.as_str() {
            "process_name" => drop(processes.insert(id(&event.pid), name)),
            "thread_name" => drop(threads.insert((id(&event.pid), id(&event.tid)), name)),
            _ => {}
        }
    })?;
    Ok((processes, threads))
}

/// Numbers of processes and threads may be numbers or text.
fn id(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}
