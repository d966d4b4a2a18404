//! Writes events, and spans when they end, as lines on standard error.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::filter::Filter;
use crate::args::LogFormat;

thread_local! {
    /// The spans this thread is in, the outermost first.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// What gets every event.
pub(super) struct Lines {
    filter: Filter,
    format: LogFormat,
    spans: Mutex<Spans>,
}

#[derive(Default)]
struct Spans {
    last: u64,
    open: HashMap<u64, Span>,
}

struct Span {
    metadata: &'static Metadata<'static>,
    fields: Fields,
    parent: Option<u64>,
    holders: usize,
    made: Instant,
    /// When the innermost of the threads in it came in.
    entered: Option<Instant>,
    busy: Duration,
}

impl Spans {
    /// A span with those around it, the outermost first.
    fn around(&self, innermost: Option<u64>) -> Vec<&Span> {
        let mut spans: Vec<&Span> = std::iter::successors(innermost.and_then(|id| self.open.get(&id)), |span| {
            span.parent.and_then(|id| self.open.get(&id))
        })
        .collect();
        spans.reverse();
        spans
    }
}

impl Lines {
    pub(super) fn new(filter: Filter, format: LogFormat) -> Lines {
        Lines { filter, format, spans: Mutex::default() }
    }

    fn spans(&self) -> MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, metadata: &Metadata<'_>, spans: &[&Span], fields: &Fields) {
        let time = trust::utc(SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default());
        let line = match self.format {
            LogFormat::Human => human(&time, metadata, spans, fields),
            LogFormat::Json => object(&time, metadata, spans, fields),
        };
        // Nobody can be told that the log cannot be written.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

/// The span that something is in unless it says so itself.
fn current() -> Option<u64> {
    ENTERED.with_borrow(|entered| entered.last().copied())
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.enables(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.most())
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let parent = if attributes.is_contextual() { current() } else { attributes.parent().map(Id::into_u64) };
        let mut spans = self.spans();
        spans.last += 1;
        let id = spans.last;
        // It stays until what is inside of it has ended: its name stands in those lines.
        if let Some(parent) = parent.and_then(|id| spans.open.get_mut(&id)) {
            parent.holders += 1;
        }
        let metadata = attributes.metadata();
        let (made, busy) = (Instant::now(), Duration::ZERO);
        spans.open.insert(id, Span { metadata, fields, parent, holders: 1, made, entered: None, busy });
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        // Not while the spans are held: values that are told may log themselves.
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(span) = self.spans().open.get_mut(&id.into_u64()) {
            fields.0.into_iter().for_each(|(name, text, value)| span.fields.put(name, text, value));
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let inside = if event.is_contextual() { current() } else { event.parent().map(Id::into_u64) };
        let spans = self.spans();
        self.write(event.metadata(), &spans.around(inside), &fields);
    }

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.into_u64()));
        if let Some(span) = self.spans().open.get_mut(&id.into_u64()) {
            span.entered = Some(Instant::now());
        }
    }

    fn exit(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            if let Some(at) = entered.iter().rposition(|&entered| entered == id.into_u64()) {
                entered.remove(at);
            }
        });
        if let Some(span) = self.spans().open.get_mut(&id.into_u64())
            && let Some(entered) = span.entered.take()
        {
            span.busy += entered.elapsed();
        }
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = self.spans().open.get_mut(&id.into_u64()) {
            span.holders += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = self.spans();
        let mut id = id.into_u64();
        let mut has_closed = false;
        // The last to leave a span may be the last that held the one around it.
        loop {
            let Some(span) = spans.open.get_mut(&id) else { return has_closed };
            span.holders -= 1;
            if span.holders > 0 {
                return has_closed;
            }
            has_closed = true;
            let mut fields = Fields::default();
            let (busy, all) = (span.busy, span.made.elapsed());
            fields.put("message", "close".into(), "close".into());
            fields.put("time.busy", format!("{busy:.2?}"), busy.as_secs_f64().into());
            let idle = all.saturating_sub(busy);
            fields.put("time.idle", format!("{idle:.2?}"), idle.as_secs_f64().into());
            self.write(spans.open[&id].metadata, &spans.around(Some(id)), &fields);
            match spans.open.remove(&id).and_then(|span| span.parent) {
                Some(parent) => id = parent,
                None => return has_closed,
            }
        }
    }
}

/// Names and values, as text for people and as JSON.
#[derive(Default)]
struct Fields(Vec<(&'static str, String, Value)>);

impl Fields {
    fn put(&mut self, name: &'static str, text: String, value: Value) {
        self.0.retain(|(known, ..)| *known != name);
        self.0.push((name, text, value));
    }

    /// What is said, then what is known about it.
    fn split(&self) -> (&str, impl Iterator<Item = &(&'static str, String, Value)>) {
        let message = self.0.iter().find(|(name, ..)| *name == "message").map_or("", |(_, text, _)| text);
        (message, self.0.iter().filter(|(name, ..)| *name != "message"))
    }

    fn object(&self) -> Map<String, Value> {
        self.0.iter().map(|(name, _, value)| (name.to_string(), value.clone())).collect()
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        self.put(field.name(), text.clone(), text.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text = if field.name() == "message" { value.to_string() } else { format!("{value:?}") };
        self.put(field.name(), text, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        self.put(field.name(), text.clone(), text.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), format!("{value:?}"), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.to_string(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.to_string(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.to_string(), value.into());
    }
}

/// `time LEVEL span{field=value}: target: message field=value`.
fn human(time: &str, metadata: &Metadata<'_>, spans: &[&Span], fields: &Fields) -> String {
    let mut line = format!("{time} {:>5} ", metadata.level().as_str());
    for span in spans {
        line.push_str(span.metadata.name());
        let known: Vec<String> = span.fields.split().1.map(|(name, text, _)| format!("{name}={text}")).collect();
        if !known.is_empty() {
            let _ = write!(line, "{{{}}}", known.join(" "));
        }
        line.push(':');
    }
    if !spans.is_empty() {
        line.push(' ');
    }
    let (message, known) = fields.split();
    let _ = write!(line, "{}: {message}", metadata.target());
    for (name, text, _) in known {
        let _ = write!(line, " {name}={text}");
    }
    // What others wrote moves no cursor and changes no colour.
    let mut plain = String::with_capacity(line.len() + 1);
    for c in line.chars() {
        if c.is_control() && !matches!(c, '\n' | '\t') { plain.extend(c.escape_unicode()) } else { plain.push(c) }
    }
    plain.push('\n');
    plain
}

fn object(time: &str, metadata: &Metadata<'_>, spans: &[&Span], fields: &Fields) -> String {
    let of = |span: &&Span| {
        let mut object = span.fields.object();
        object.insert("name".into(), span.metadata.name().into());
        Value::Object(object)
    };
    let mut line = json!({
        "timestamp": time,
        "level": metadata.level().as_str(),
        "fields": fields.object(),
        "target": metadata.target(),
    });
    if let (Some(object), Some(innermost)) = (line.as_object_mut(), spans.last()) {
        object.insert("span".into(), of(innermost));
        object.insert("spans".into(), spans.iter().map(of).collect());
    }
    format!("{line}\n")
}
