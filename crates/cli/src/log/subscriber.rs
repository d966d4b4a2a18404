//! Writes events, and spans when they end, as lines on standard error.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::entry::{Entry, Fields};
use super::filter::Filter;
use super::output;

thread_local! {
    /// The spans this thread is in, the outermost first.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// What gets every event.
pub(super) struct Lines {
    filter: Filter,
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
    pub(super) fn new(filter: Filter) -> Lines {
        Lines { filter, spans: Mutex::default() }
    }

    fn spans(&self) -> MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(metadata: &Metadata<'_>, spans: &[&Span], fields: &Fields) {
    output::write(&Entry {
        level: *metadata.level(),
        target: metadata.target(),
        place: metadata.file().zip(metadata.line()),
        spans: spans.iter().map(|span| (span.metadata.name(), &span.fields)).collect(),
        fields,
    });
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
            fields.0.into_iter().for_each(|(name, text, value)| span.fields.put(&name, text, value));
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let inside = if event.is_contextual() { current() } else { event.parent().map(Id::into_u64) };
        let spans = self.spans();
        write(event.metadata(), &spans.around(inside), &fields);
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
            write(spans.open[&id].metadata, &spans.around(Some(id)), &fields);
            match spans.open.remove(&id).and_then(|span| span.parent) {
                Some(parent) => id = parent,
                None => return has_closed,
            }
        }
    }
}
