//! What the dashboard answers: its page, the runs, their curves, their reports, and what changes as it does.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use telemetry::{HttpAnswer, HttpRequest};

use super::reports;
use super::watch::{Runs, Shared};

/// Version of the records.
const DASHBOARD_VERSION: u32 = 1;
/// Pages that hear of changes at the same time: fewer than connections, so that there are some left to ask.
const MAX_LISTENERS: usize = 16;
/// Between two messages to a page.
const SEND_EVERY: Duration = Duration::from_millis(200);
/// Longest silence; a page that is gone is noticed when it is written to.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Buckets of a curve: as many as are asked for, within these.
const BUCKETS: std::ops::RangeInclusive<usize> = 10..=2000;

/// The files of the page: path, type, contents.
const PAGE: &[(&str, &str, &str)] = &[
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/dashboard.css", "text/css; charset=utf-8", include_str!("page/dashboard.css")),
    ("/dashboard.js", "text/javascript; charset=utf-8", include_str!("page/dashboard.js")),
    ("/chart.js", "text/javascript; charset=utf-8", include_str!("page/chart.js")),
    ("/tables.js", "text/javascript; charset=utf-8", include_str!("page/tables.js")),
];

/// The page loads its own files and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A report is a page of its own, without a way to the dashboard's answers or anywhere else.
const REPORT_POLICY: &str = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; \
                             style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers requests.
#[derive(Debug)]
pub(super) struct Answers {
    shared: Arc<Shared>,
    /// Names besides `localhost` under which the dashboard is reached.
    allowed_hosts: Vec<String>,
    listeners: Arc<AtomicUsize>,
}

impl Answers {
    pub(super) fn new(shared: Arc<Shared>, allowed_hosts: Vec<String>) -> Answers {
        Answers { shared, allowed_hosts, listeners: Arc::default() }
    }

    pub(super) fn answer(&self, request: &HttpRequest) -> HttpAnswer {
        if !is_allowed(request.header("host"), &self.allowed_hosts) {
            return HttpAnswer::error(403, "this name is not one of the dashboard; --allow-host NAME adds it");
        }
        let path = request.path.as_str();
        if let Some((_, content_type, text)) = PAGE.iter().find(|(known, _, _)| *known == path) {
            return secured(HttpAnswer::new(content_type, *text), PAGE_POLICY);
        }
        // Pages of other sites have no business here. A link to the page itself is fine.
        if request.header("sec-fetch-site") == Some("cross-site") {
            return HttpAnswer::error(403, "other sites may not ask the dashboard");
        }
        match path.trim_start_matches('/').split('/').collect::<Vec<_>>()[..] {
            ["api", "runs"] => HttpAnswer::json(&all_runs(&self.shared.lock())),
            ["api", "runs", id, "curves"] => self.curves(id, &request.query),
            ["api", "events"] => self.events(),
            ["runs", id, "reports", place] => self.report(id, place),
            _ => HttpAnswer::not_found(),
        }
    }

    fn curves(&self, id: &str, query: &str) -> HttpAnswer {
        let asked = query.split('&').find_map(|part| part.strip_prefix("buckets=")?.parse::<usize>().ok());
        let buckets = asked.unwrap_or(600).clamp(*BUCKETS.start(), *BUCKETS.end());
        let runs = self.shared.lock();
        let run = id.parse::<u64>().ok().and_then(|id| Some((id, runs.runs.get(&id)?)));
        run.map_or_else(HttpAnswer::not_found, |(id, run)| HttpAnswer::json(&run.curves(id, buckets)))
    }

    fn report(&self, id: &str, place: &str) -> HttpAnswer {
        let found = || {
            let runs = self.shared.lock();
            let run = runs.runs.get(&id.parse().ok()?)?;
            Some((run.folder.clone(), run.report(place.parse().ok()?)?.clone()))
        };
        let Some((folder, report)) = found() else { return HttpAnswer::not_found() };
        match reports::read(&folder, &report) {
            Ok(bytes) => secured(HttpAnswer::new("text/html; charset=utf-8", bytes), REPORT_POLICY),
            Err(error) => HttpAnswer::error(404, &format!("{} cannot be read: {error}", report.path)),
        }
    }

    fn events(&self) -> HttpAnswer {
        let listening = Listening::new(&self.listeners);
        let Some(listening) = listening else {
            return HttpAnswer::error(503, "too many pages are open; close one");
        };
        let shared = self.shared.clone();
        HttpAnswer::live("text/event-stream", move |to| {
            let _listening = listening;
            tell(&shared, to)
        })
    }
}

fn secured(answer: HttpAnswer, policy: &'static str) -> HttpAnswer {
    answer.with_header("Content-Security-Policy", policy).with_header("Referrer-Policy", "no-referrer")
}

/// Whether a request is for this dashboard. A page of another site whose name was made to lead here sends that name: names are
/// therefore those of this machine or those that were allowed. Numbers cannot be made to lead elsewhere.
fn is_allowed(host: Option<&str>, allowed: &[String]) -> bool {
    let Some(host) = host else { return false };
    let name = match (host.strip_prefix('['), host.rsplit_once(':')) {
        (Some(rest), _) => rest.split_once(']').map_or("", |(address, _)| address),
        (None, Some((name, port))) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        (None, _) => host,
    };
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || allowed.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// A page that hears of changes; it counts until it is dropped.
struct Listening(Arc<AtomicUsize>);

impl Listening {
    fn new(count: &Arc<AtomicUsize>) -> Option<Listening> {
        let before = count.fetch_add(1, Ordering::Relaxed);
        let listening = Listening(count.clone());
        (before < MAX_LISTENERS).then_some(listening)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn all_runs(runs: &Runs) -> Value {
    let all: Vec<Value> = runs.runs.iter().map(|(id, run)| run.summary(*id)).collect();
    json!({ "version": DASHBOARD_VERSION, "runs": all, "waiting": runs.waiting, "has_more": runs.has_more })
}

/// What a page has been told.
#[derive(Debug, Default)]
struct Told {
    version: Option<u64>,
    /// What is looked for, and whether there is more.
    sources: Option<Value>,
    runs: BTreeMap<u64, ToldRun>,
}

#[derive(Debug)]
struct ToldRun {
    version: u64,
    generation: u64,
    next_line: u64,
}

impl Told {
    /// The messages that tell what is new.
    fn news(&mut self, runs: &Runs) -> String {
        let mut text = String::new();
        let mut say = |event: &str, data: &Value| text.push_str(&format!("event: {event}\ndata: {data}\n\n"));
        let sources = json!({ "version": DASHBOARD_VERSION, "waiting": runs.waiting, "has_more": runs.has_more });
        if self.sources.as_ref() != Some(&sources) {
            say("sources", &sources);
            self.sources = Some(sources);
        }
        self.runs.retain(|id, _| {
            let is_there = runs.runs.contains_key(id);
            if !is_there {
                say("gone", &json!({ "id": id }));
            }
            is_there
        });
        for (id, run) in &runs.runs {
            let now = ToldRun { version: run.version, generation: run.generation, next_line: run.next_line };
            let told = self.runs.get(id);
            if told.is_none_or(|told| told.version != run.version) {
                say("run", &run.summary(*id));
            }
            if let Some(told) = told {
                let lines = run.lines_from(*id, told.next_line).filter(|_| told.generation == run.generation);
                match lines {
                    None => say("reload", &json!({ "id": id, "generation": run.generation })),
                    Some(lines) if run.next_line > told.next_line => say("lines", &lines),
                    Some(_) => {}
                }
            }
            self.runs.insert(*id, now);
        }
        self.version = Some(runs.version);
        text
    }
}

/// Tells a page what is, and then what changes, until it is gone or the dashboard ends.
fn tell(shared: &Shared, to: &mut dyn Write) -> io::Result<()> {
    let mut told = Told::default();
    to.write_all(b"retry: 1000\n\n")?;
    loop {
        let news = {
            let runs = match told.version {
                None => shared.lock(),
                Some(version) => shared.wait_for_change(version, HEARTBEAT),
            };
            if runs.is_closed {
                return Ok(());
            }
            told.news(&runs)
        };
        to.write_all(if news.is_empty() { b": nothing is new\n\n" } else { news.as_bytes() })?;
        to.flush()?;
        if shared.pause(SEND_EVERY) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_here_are_known() {
        let allowed = ["trainer.example".to_string()];
        for host in ["localhost", "LocalHost:8080", "127.0.0.1:1", "[::1]:8080", "10.0.0.7", "Trainer.example:80"] {
            assert!(is_allowed(Some(host), &allowed), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "[::1", "[x]:1", "a:b"]
        {
            assert!(!is_allowed(Some(host), &allowed), "{host}");
        }
        assert!(!is_allowed(None, &allowed));
    }

    #[test]
    fn pages_that_listen_are_counted() {
        let count = Arc::new(AtomicUsize::new(0));
        let all: Vec<_> = (0..MAX_LISTENERS).map(|_| Listening::new(&count).unwrap()).collect();
        assert!(Listening::new(&count).is_none());
        drop(all);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    /// Everything that the page names is there, and nothing is from elsewhere.
    #[test]
    fn the_page_is_whole_and_refers_to_nothing_else() {
        let page = PAGE[0].2;
        for (path, _, text) in PAGE {
            assert!(!text.contains("http://") || *path == "/chart.js", "{path}");
            assert!(!text.contains("https://") && !text.contains("@import"), "{path}");
            assert!(!text.contains("innerHTML") && !text.contains("eval("), "{path}");
        }
        assert!(page.contains("dashboard.css") && page.contains("dashboard.js"));
        assert!(!page.contains(" style=") && !page.contains("onclick"));
    }
}
