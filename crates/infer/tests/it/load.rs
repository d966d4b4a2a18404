//! A server under load: 1,000 requests, 64 at a time, none lost or wrong, in memory that does not grow.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::serving::{folder, serve};

const REQUESTS: usize = 1_000;
const AT_ONCE: usize = 64;
/// Requests after which memory is looked at first: every program is compiled, every thread has its arena.
const SETTLED: usize = 400;
/// Memory that may come on top until the end.
const GROWTH_KB: u64 = 24 << 10;

/// One connection that asks again and again.
struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    fn new(address: SocketAddr) -> Client {
        let connection = TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        connection.set_nodelay(true).unwrap();
        Client { reader: BufReader::new(connection) }
    }

    fn send(&mut self, body: &Value) {
        let body = body.to_string();
        let head = format!("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        self.reader.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
    }

    /// The status and the body of an answer.
    fn ask(&mut self, body: &Value) -> (String, Value) {
        self.send(body);
        let mut status = String::new();
        self.reader.read_line(&mut status).unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).unwrap();
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut text = vec![0; length];
        self.reader.read_exact(&mut text).unwrap();
        (status, serde_json::from_slice(&text).unwrap_or_default())
    }
}

/// One of seven requests: greedy, drawn by a seed, or of a form.
fn request(kind: usize) -> Value {
    let prompt = format!("question {kind}: {}", "and so on, ".repeat(kind));
    let mut body = json!({"prompt": prompt, "max_tokens": 6, "temperature": 0, "ignore_eos": true});
    match kind {
        5 => (body["temperature"], body["seed"]) = (json!(1.0), json!(7)),
        6 => {
            let schema = json!({"enum": ["yes", "no"]});
            body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
        }
        _ => {}
    }
    body
}

fn memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

#[test]
fn a_thousand_requests_get_what_each_gets_alone_in_bounded_memory() {
    let model = tempfile::tempdir().unwrap();
    folder(model.path());
    let (server, stop) = serve(model.path(), &[], 256);
    let address = server.address().unwrap();
    let running = {
        let stop = stop.clone();
        std::thread::spawn(move || server.run(&stop, Duration::from_secs(60)))
    };
    let text_of = |answer: &Value| answer["choices"][0]["text"].as_str().unwrap().to_string();
    let mut client = Client::new(address);
    let alone: BTreeMap<usize, String> = (0..7).map(|kind| (kind, text_of(&client.ask(&request(kind)).1))).collect();
    assert!(["\"yes\"", "\"no\""].contains(&alone[&6].as_str()), "{alone:?}");
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let settled = std::sync::OnceLock::new();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let mut client = Client::new(address);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= REQUESTS {
                        return;
                    }
                    let kind = number % 7;
                    if number % 50 == 49 {
                        // Some go away in the middle.
                        let mut gone = Client::new(address);
                        let mut body = request(kind);
                        (body["stream"], body["max_tokens"]) = (json!(true), json!(100));
                        gone.send(&body);
                        let mut line = String::new();
                        gone.reader.read_line(&mut line).unwrap();
                        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
                    }
                    let (status, answer) = client.ask(&request(kind));
                    assert!(status.starts_with("HTTP/1.1 200"), "{status}: {answer}");
                    assert_eq!(text_of(&answer), alone[&kind], "request {number}");
                    if done.fetch_add(1, Ordering::Relaxed) + 1 == SETTLED {
                        settled.set(memory_kb()).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), REQUESTS);
    let (before, after) = (*settled.get().unwrap(), memory_kb());
    assert!(after <= before + GROWTH_KB, "memory grew from {before} to {after} kB");
    stop.store(true, Ordering::Relaxed);
    running.join().unwrap().unwrap();
}
