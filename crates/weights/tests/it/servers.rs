//! Access to stores on this machine, and a connection to one that fails when told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::{StoreKind, StoreServer};
use weights::Access;

/// Access to a server, with few and quick repetitions.
pub(crate) fn access(server: &StoreServer) -> Access {
    with(server.environment())
}

fn with(environment: Vec<(&str, String)>) -> Access {
    let access = Access { first_pause: Duration::from_millis(1), max_retries: 2, ..Access::default() };
    environment.into_iter().fold(access, |access, (name, value)| access.with(name, &value))
}

/// How requests fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server says that it is overloaded.
    Overloaded,
    /// The connection ends in the middle of the request: the server never sees it.
    CutRequest,
    /// The server does what was asked, and the answer is lost.
    CutAnswer,
    /// The credentials are refused.
    Refused,
    /// The server does not know this header, and does what was asked without it.
    Ignores(&'static str),
}

#[derive(Debug, Default)]
struct Plan {
    requests: usize,
    /// The fault, and the number of the first and the last request it hits.
    fault: Option<(Fault, usize, usize)>,
    /// First lines of requests.
    lines: Vec<String>,
}

/// A way to the server on which requests fail when told to.
pub(crate) struct Proxy {
    kind: StoreKind,
    port: u16,
    plan: Arc<Mutex<Plan>>,
}

impl Proxy {
    pub(crate) fn start(server: &StoreServer) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let plan = Arc::new(Mutex::new(Plan::default()));
        let (theirs, server_port) = (plan.clone(), server.port());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let plan = theirs.clone();
                // A connection that breaks is the client's to notice.
                std::thread::spawn(move || drop(serve(client, server_port, &plan)));
            }
        });
        Proxy { kind: server.kind(), port, plan }
    }

    pub(crate) fn access(&self) -> Access {
        with(StoreServer::environment_of(self.kind, self.port))
    }

    /// Requests from number `first` to `last`, counted from now and from 0, fail.
    pub(crate) fn fail(&self, fault: Fault, first: usize, last: usize) {
        *self.plan.lock().unwrap() = Plan { requests: 0, fault: Some((fault, first, last)), lines: Vec::new() };
    }

    /// Nothing fails from now on; gives the requests since the last call of this or of `fail`.
    pub(crate) fn heal(&self) -> Vec<String> {
        std::mem::take(&mut *self.plan.lock().unwrap()).lines
    }
}

/// Answers one request; the connection ends with it.
fn serve(client: TcpStream, server_port: u16, plan: &Mutex<Plan>) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    let mut body_bytes = 0usize;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            body_bytes = value.trim().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            head.push_str("connection: close\r\n\r\n");
            break;
        }
        if !lower.starts_with("connection:") {
            head.push_str(&line);
        }
    }
    let fault = {
        let mut plan = plan.lock().unwrap();
        let number = plan.requests;
        plan.requests += 1;
        plan.lines.push(head.lines().next().unwrap_or_default().to_string());
        plan.fault.and_then(|(fault, first, last)| (first..=last).contains(&number).then_some(fault))
    };
    if let Some(Fault::Ignores(header)) = fault {
        let is_known = |line: &&str| !line.to_ascii_lowercase().starts_with(&format!("{header}:"));
        head = head.split_inclusive("\r\n").filter(is_known).collect();
    }
    let mut client = client;
    if fault == Some(Fault::CutRequest) {
        let mut half = vec![0; body_bytes / 2];
        reader.read_exact(&mut half)?;
        return client.shutdown(Shutdown::Both);
    }
    let mut body = vec![0; body_bytes];
    reader.read_exact(&mut body)?;
    let refusal = match fault {
        Some(Fault::Overloaded) => Some(("503 Slow Down", "SlowDown")),
        Some(Fault::Refused) => Some(("403 Forbidden", "AccessDenied")),
        _ => None,
    };
    if let Some((status, code)) = refusal {
        let xml = format!("<Error><Code>{code}</Code><Message>on purpose</Message></Error>");
        return write!(client, "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{xml}", xml.len());
    }
    let mut server = TcpStream::connect(("127.0.0.1", server_port))?;
    server.write_all(head.as_bytes())?;
    server.write_all(&body)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    if fault == Some(Fault::CutAnswer) {
        return client.shutdown(Shutdown::Both);
    }
    client.write_all(&answer)
}
