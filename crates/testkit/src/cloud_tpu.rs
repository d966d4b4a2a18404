//! Google's Cloud TPU API on this machine (`crates/testkit/python/cloud_tpu_server.py`): strict, slow, and failing as told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::present::{Needed, repository, require};

/// A stand-in with a project of its own. It ends with this value.
#[derive(Debug)]
pub struct CloudTpuServer {
    child: Child,
    port: u16,
}

impl CloudTpuServer {
    /// Starts it with settings, a JSON object that the script explains, or reports the skip of a test.
    pub fn start(test: &str, settings: &str) -> Option<CloudTpuServer> {
        let python = require(test, Needed::FleetPython)?;
        let script = repository().join("crates/testkit/python/cloud_tpu_server.py");
        let mut command = Command::new(python);
        command.arg(script).arg(settings).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut line).expect("the server speaks");
        let port = line.trim().parse().unwrap_or_else(|_| panic!("the server printed `{line}`"));
        Some(CloudTpuServer { child, port })
    }

    /// Its port on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What a client is told instead of Google's address.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Tells the server something: `settings`, `faults`, `advance`, `preempt` or `state`, with its JSON. Gives the answer's JSON.
    pub fn tell(&self, what: &str, json: &str) -> String {
        self.told("POST", what, json)
    }

    /// Everything that was asked, made and deleted until now, as JSON.
    pub fn record(&self) -> String {
        self.told("GET", "record", "")
    }

    fn told(&self, method: &str, what: &str, json: &str) -> String {
        let (head, body) = self.ask(method, &format!("/admin/{what}"), json);
        assert!(head.contains(" 200 "), "the server said {head}, {body} to {what} {json}");
        body
    }

    /// Asks as a client without manners does, for the head and the body of the answer.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> (String, String) {
        let request = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("it speaks HTTP");
        (head.into(), body.into())
    }
}

impl Drop for CloudTpuServer {
    fn drop(&mut self) {
        // It ends when its standard input does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
