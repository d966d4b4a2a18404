//! What a server counts, for `/metrics`.

use std::time::Duration;

use telemetry::{Counter, Gauge, Histogram, Registry};

use crate::engine::Engine;
use crate::pages::PageCounts;
use crate::request::TokenEvent;

const SECONDS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// Counts and times of requests.
#[derive(Clone)]
pub(crate) struct ServerMetrics {
    requests: Counter,
    refused: Counter,
    cancelled: Counter,
    generated: Counter,
    prompt: Counter,
    running: Gauge,
    waiting: Gauge,
    compiled: Gauge,
    cache_bytes: Gauge,
    decoded_rows: Counter,
    decoded_places: Counter,
    pages: PageMetrics,
    first_token: Histogram,
    whole: Histogram,
}

/// Pages of the KV cache.
#[derive(Clone)]
struct PageMetrics {
    used: Gauge,
    shared: Gauge,
    cached: Gauge,
    free: Gauge,
    prefix_hits: Counter,
    prefix_tokens: Counter,
    copied: Counter,
    evicted: Counter,
    on_host: Gauge,
    offloaded: Counter,
    restored: Counter,
    preempted: Counter,
}

impl PageMetrics {
    fn new(registry: &Registry) -> PageMetrics {
        let counter = |name: &str, help: &str| registry.counter(&format!("tpubridge_serve_{name}_total"), help, &[]);
        let gauge = |state: &str| {
            let help = "Pages of the KV cache: of running requests, with what earlier ones left, and empty.";
            registry.gauge("tpubridge_serve_kv_pages", help, &[("state", state)])
        };
        PageMetrics {
            used: gauge("used"),
            shared: registry.gauge("tpubridge_serve_kv_shared_pages", "Pages of several running requests.", &[]),
            cached: gauge("cached"),
            free: gauge("free"),
            prefix_hits: counter("prefix_hits", "Requests that found a part of their prompt in the KV cache."),
            prefix_tokens: counter("prefix_tokens", "Tokens of prompts that were found in the KV cache."),
            copied: counter("kv_pages_copied", "Pages copied because their content goes on differently."),
            evicted: counter("kv_pages_evicted", "Pages whose content was given up for others."),
            on_host: registry.gauge("tpubridge_serve_kv_host_pages", "Pages in the host's memory.", &[]),
            offloaded: counter("kv_pages_offloaded", "Pages that went to the host's memory."),
            restored: counter("kv_pages_restored", "Pages that came back from the host's memory."),
            preempted: counter("preemptions", "Requests that gave up their pages, to be computed again."),
        }
    }

    fn set(&self, counts: &PageCounts) {
        for (gauge, count) in [
            (&self.used, counts.used),
            (&self.shared, counts.shared),
            (&self.cached, counts.cached),
            (&self.free, counts.free),
            (&self.on_host, counts.on_host),
        ] {
            gauge.set(count as f64);
        }
        for (counter, count) in [
            (&self.prefix_hits, counts.prefix_hits),
            (&self.prefix_tokens, counts.prefix_tokens),
            (&self.copied, counts.copied),
            (&self.evicted, counts.evicted),
            (&self.offloaded, counts.offloaded),
            (&self.restored, counts.restored),
            (&self.preempted, counts.preempted),
        ] {
            counter.add(count as f64 - counter.get());
        }
    }
}

impl ServerMetrics {
    pub(crate) fn new(registry: &Registry) -> ServerMetrics {
        let counter = |name: &str, help: &str| registry.counter(name, help, &[]);
        let gauge = |name: &str, help: &str| registry.gauge(name, help, &[]);
        let histogram = |name: &str, help: &str| registry.histogram(name, help, &[], &SECONDS);
        ServerMetrics {
            requests: counter("tpubridge_serve_requests_total", "Requests taken."),
            refused: counter("tpubridge_serve_refused_total", "Requests refused."),
            cancelled: counter("tpubridge_serve_cancelled_total", "Requests whose client went away."),
            generated: counter("tpubridge_serve_generated_tokens_total", "Tokens generated."),
            prompt: counter("tpubridge_serve_prompt_tokens_total", "Tokens of prompts."),
            running: gauge("tpubridge_serve_running_requests", "Requests that have a row of the KV cache."),
            waiting: gauge("tpubridge_serve_waiting_requests", "Requests that wait for a row."),
            compiled: gauge("tpubridge_serve_compiled_programs", "Programs compiled since the start."),
            cache_bytes: gauge("tpubridge_serve_kv_cache_bytes", "Bytes of the KV cache."),
            decoded_rows: counter("tpubridge_serve_decoded_rows_total", "Rows with a request, of all decode steps."),
            decoded_places: counter(
                "tpubridge_serve_decoded_places_total",
                "Rows that decode steps computed: programs are for powers of two.",
            ),
            pages: PageMetrics::new(registry),
            first_token: histogram("tpubridge_serve_first_token_seconds", "Time to the first token."),
            whole: histogram("tpubridge_serve_request_seconds", "Time of a whole request."),
        }
    }

    pub(crate) fn ready(&self, engine: &Engine) {
        self.cache_bytes.set(engine.cache_bytes() as f64);
        self.load(engine);
    }

    pub(crate) fn load(&self, engine: &Engine) {
        self.running.set(engine.num_running() as f64);
        self.waiting.set(engine.num_waiting() as f64);
        self.compiled.set(engine.num_compiled() as f64);
        let decoded = engine.decode_counts();
        self.decoded_rows.add(decoded.rows as f64 - self.decoded_rows.get());
        self.decoded_places.add(decoded.places as f64 - self.decoded_places.get());
        self.pages.set(&engine.page_counts());
    }

    pub(crate) fn token(&self, event: &TokenEvent) {
        if event.token.is_some() {
            self.generated.increment();
        }
    }

    pub(crate) fn taken(&self, prompt: usize) {
        self.requests.increment();
        self.prompt.add(prompt as f64);
    }

    pub(crate) fn refused(&self) {
        self.refused.increment();
    }

    pub(crate) fn cancelled(&self) {
        self.cancelled.increment();
    }

    pub(crate) fn first_token(&self, after: Duration) {
        self.first_token.observe(after.as_secs_f64());
    }

    pub(crate) fn whole(&self, after: Duration) {
        self.whole.observe(after.as_secs_f64());
    }
}
