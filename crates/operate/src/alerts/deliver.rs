//! Telling others: each webhook and each command has a bounded queue and a thread of its own, so that one that hangs holds up
//! nobody; what fails is tried again, later each time.

use std::collections::VecDeque;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::config::AlertAction;
use super::event::AlertEvent;
use crate::ask::causes;

/// Events that wait for one place. The oldest are dropped when there are more.
const MAX_WAITING: usize = 64;

/// Places at most; rules name them, so there are few.
const MAX_PLACES: usize = 64;

/// How long a server or a command may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// When what fails is tried again.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// After the first failure; twice as long after each further one.
    pub first: Duration,
    /// Longest wait.
    pub longest: Duration,
    /// Times it is tried.
    pub tries: u32,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(300), tries: 12 }
    }
}

/// Those who are told.
#[derive(Debug, Default)]
pub struct Deliveries {
    backoff: Backoff,
    places: Vec<(AlertAction, Arc<Queue>)>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<AlertEvent>,
    is_busy: bool,
    is_closed: bool,
}

/// Why it was not told.
enum Refusal {
    /// It may work another time.
    Later(String),
    /// It will not.
    Never(String),
}

impl Deliveries {
    /// With other times than the usual ones.
    pub fn new(backoff: Backoff) -> Deliveries {
        Deliveries { backoff, places: Vec::new() }
    }

    /// Puts an event into the queue of a webhook or a command; never waits.
    pub fn send(&mut self, action: &AlertAction, event: &AlertEvent) {
        if !matches!(action, AlertAction::Webhook(_) | AlertAction::Command(_)) {
            return;
        }
        let known = self.places.iter().find(|(known, _)| known == action).map(|(_, queue)| queue.clone());
        let Some(queue) = known.or_else(|| self.open(action)) else { return };
        let mut waiting = queue.lock();
        if waiting.events.len() >= MAX_WAITING {
            waiting.events.pop_front();
            tracing::warn!(place = place(action), "too many alerts wait to be delivered; the oldest is dropped");
        }
        waiting.events.push_back(event.clone());
        queue.changed.notify_all();
    }

    /// Waits until everything is told, but not longer than this. What is left is lost.
    pub fn flush(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        for (action, queue) in &self.places {
            let mut waiting = queue.lock();
            while waiting.is_busy || !waiting.events.is_empty() {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    tracing::warn!(place = place(action), "alerts were not delivered before the end");
                    break;
                }
                waiting = queue.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    fn open(&mut self, action: &AlertAction) -> Option<Arc<Queue>> {
        if self.places.len() >= MAX_PLACES {
            return None;
        }
        let queue = Arc::new(Queue::default());
        let (theirs, to, backoff) = (queue.clone(), action.clone(), self.backoff);
        let thread = std::thread::Builder::new().name("alerts".into());
        if let Err(error) = thread.spawn(move || theirs.work(&to, backoff)) {
            tracing::warn!(place = place(action), %error, "alerts cannot be delivered");
            return None;
        }
        self.places.push((action.clone(), queue.clone()));
        Some(queue)
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        for (_, queue) in &self.places {
            queue.lock().is_closed = true;
            queue.changed.notify_all();
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next event; `None` when nobody sends any more.
    fn next(&self) -> Option<AlertEvent> {
        let mut waiting = self.lock();
        waiting.is_busy = false;
        self.changed.notify_all();
        loop {
            if let Some(event) = waiting.events.pop_front() {
                waiting.is_busy = true;
                return Some(event);
            }
            if waiting.is_closed {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits before another try; whether there is one.
    fn pause(&self, pause: Duration) -> bool {
        let deadline = Instant::now() + pause;
        let mut waiting = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if waiting.is_closed || left.is_zero() {
                return !waiting.is_closed;
            }
            waiting = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn work(&self, action: &AlertAction, backoff: Backoff) {
        while let Some(event) = self.next() {
            let mut pause = backoff.first;
            for n in 1..=backoff.tries {
                let why = match tell(action, &event) {
                    Ok(()) => break,
                    Err(Refusal::Never(why)) => {
                        tracing::warn!(place = place(action), alert = event.alert, why, "an alert is refused");
                        break;
                    }
                    Err(Refusal::Later(why)) => why,
                };
                tracing::warn!(
                    place = place(action),
                    alert = event.alert,
                    tries = n,
                    why,
                    "an alert is not delivered yet"
                );
                if n == backoff.tries || !self.pause(pause) {
                    break;
                }
                pause = (pause * 2).min(backoff.longest);
            }
        }
    }
}

/// How a place is named in a log. An address may hold a secret: only its host is shown.
fn place(action: &AlertAction) -> &str {
    match action {
        AlertAction::Webhook(url) => {
            let rest = url.split_once("://").map_or("", |(_, rest)| rest);
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            authority.rsplit_once('@').map_or(authority, |(_, host)| host)
        }
        AlertAction::Command(words) => words.first().map_or("", String::as_str),
        AlertAction::Log => "log",
        AlertAction::StopAndSave => "stop_and_save",
    }
}

fn tell(action: &AlertAction, event: &AlertEvent) -> Result<(), Refusal> {
    match action {
        AlertAction::Webhook(url) => post(url, &event.payload().to_string()),
        AlertAction::Command(words) => run(words, event),
        AlertAction::Log | AlertAction::StopAndSave => Ok(()),
    }
}

fn post(url: &str, body: &str) -> Result<(), Refusal> {
    // An error may name the address, and with it a secret.
    let later = |error: reqwest::Error| Refusal::Later(causes(&error.without_url()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Refusal::Later(error.to_string()))?;
    weights::choose_cryptography();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(PATIENCE);
    let client = client.build().map_err(later)?;
    let request = client.post(url).header("Content-Type", "application/json").body(body.to_string());
    let status = runtime.block_on(async { request.send().await }).map_err(later)?.status();
    let is_theirs = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    match status.is_success() {
        true => Ok(()),
        false if is_theirs => Err(Refusal::Later(format!("it answers {status}"))),
        false => Err(Refusal::Never(format!("it answers {status}"))),
    }
}

fn run(words: &[String], event: &AlertEvent) -> Result<(), Refusal> {
    let Some((program, args)) = words.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("TPUBRIDGE_ALERT", &event.alert).env("TPUBRIDGE_ALERT_STATE", event.state.name());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Refusal::Never(error.to_string()),
        _ => Refusal::Later(error.to_string()),
    })?;
    // The record is shorter than what a pipe holds: one that is not read holds nobody up.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(format!("{}\n", event.payload()).as_bytes());
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(Refusal::Later(status.to_string())),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Refusal::Later(format!("it did not end within {} s", PATIENCE.as_secs())));
            }
            Err(error) => return Err(Refusal::Later(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::{AlertEngine, AlertsConfig};
    use std::io::{BufRead, BufReader, Read};
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, channel};

    const QUICK: Backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(4), tries: 6 };
    const LONG: Duration = Duration::from_secs(60);

    fn event() -> AlertEvent {
        let text = "builtin = false\n[[alert]]\nname = \"a\"\nmetric = \"g\"\nwhen = \"> 1\"\nsummary = \"too high\"\n";
        let registry = telemetry::Registry::new();
        registry.gauge("g", "G.", &[]).set(2.5);
        let mut engine = AlertEngine::new(AlertsConfig::parse(text).unwrap().rules());
        engine.evaluate(&registry.gather(), 1000.0).remove(0)
    }

    /// A server that answers these statuses one after the other, then 200; the bodies it got.
    fn server(statuses: Vec<u16>) -> (String, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook?token=secret", listener.local_addr().unwrap());
        let (sender, bodies) = channel();
        std::thread::spawn(move || {
            for (n, stream) in listener.incoming().enumerate() {
                let mut stream = BufReader::new(stream.unwrap());
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    stream.read_line(&mut line).unwrap();
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                let status = statuses.get(n).copied().unwrap_or(200);
                // A status of 0 is a connection that breaks.
                if status > 0 {
                    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                    stream.get_mut().write_all(answer.as_bytes()).unwrap();
                }
                sender.send(format!("{status} {}", String::from_utf8(body).unwrap())).unwrap();
            }
        });
        (url, bodies)
    }

    #[test]
    fn a_webhook_that_fails_first_is_told_again() {
        let (url, bodies) = server(vec![503, 0, 429]);
        let mut deliveries = Deliveries::new(QUICK);
        deliveries.send(&AlertAction::Webhook(url), &event());
        let got: Vec<String> = bodies.iter().take(4).collect();
        let statuses: Vec<&str> = got.iter().map(|body| body.split(' ').next().unwrap()).collect();
        assert_eq!(statuses, ["503", "0", "429", "200"]);
        let record: serde_json::Value = serde_json::from_str(got[3].split_once(' ').unwrap().1).unwrap();
        assert_eq!((record["alert"].as_str(), record["state"].as_str()), (Some("a"), Some("firing")));
        assert_eq!(record["text"], "alert a firing (warning): too high; g is 2.5, rule: > 1");
        deliveries.flush(LONG);
    }

    #[test]
    fn a_webhook_that_refuses_is_not_asked_again() {
        let (url, bodies) = server(vec![404]);
        let mut deliveries = Deliveries::new(QUICK);
        let action = AlertAction::Webhook(url);
        deliveries.send(&action, &event());
        deliveries.flush(LONG);
        deliveries.send(&action, &event());
        deliveries.flush(LONG);
        let statuses: Vec<String> = bodies.try_iter().map(|body| body[..3].to_string()).collect();
        assert_eq!(statuses, ["404", "200"]);
        assert!(!place(&action).contains("secret"), "{}", place(&action));
    }

    #[test]
    fn one_that_hangs_holds_up_nobody() {
        // Accepts connections, and never answers.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let hangs = AlertAction::Webhook(format!("http://{}/", silent.local_addr().unwrap()));
        let (url, bodies) = server(vec![]);
        let mut deliveries = Deliveries::new(QUICK);
        for _ in 0..3 * MAX_WAITING {
            deliveries.send(&hangs, &event());
        }
        deliveries.send(&AlertAction::Webhook(url), &event());
        assert!(bodies.recv_timeout(LONG).unwrap().starts_with("200"));
        assert!(deliveries.places[0].1.lock().events.len() <= MAX_WAITING);
        deliveries.flush(Duration::from_millis(1));
    }

    #[test]
    fn a_command_gets_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let (file, tried) = (folder.path().join("got"), folder.path().join("tried"));
        // It fails the first time.
        let script = format!(
            "[ -e {0} ] || {{ touch {0}; exit 1; }}; cat > {1}.tmp; echo $TPUBRIDGE_ALERT >> {1}.tmp; mv {1}.tmp {1}",
            tried.display(),
            file.display()
        );
        let mut deliveries = Deliveries::new(QUICK);
        deliveries.send(&AlertAction::Command(["sh", "-c", &script].map(String::from).to_vec()), &event());
        deliveries.send(&AlertAction::Command(vec!["/nowhere/at/all".into()]), &event());
        deliveries.flush(LONG);
        let got = std::fs::read_to_string(file).unwrap();
        assert!(got.starts_with("{\"version\":1") && got.ends_with("}\na\n"), "{got}");
    }
}
