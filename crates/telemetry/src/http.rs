//! A small HTTP server for what a process tells of itself: `GET` and `HEAD`, one request a connection, everything bounded.
//!
//! A process that trains has no use for more. A stranger who sends slowly, much or nothing holds one of a few threads for a
//! few seconds; the others are told that the server is busy.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Connections at the same time.
const MAX_CONNECTIONS: usize = 32;

/// Longest request line and headers.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// From the connection to the end of the request.
const REQUEST_DEADLINE: Duration = Duration::from_secs(5);

/// Longest time that a client may let its answer wait.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The path, without what is after `?`.
    pub path: String,
    /// What is after `?`.
    pub query: String,
    headers: Vec<(String, String)>,
}

impl HttpRequest {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Writes an answer piece by piece, until it ends or the client is gone.
type Writer = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// What is answered.
pub struct HttpAnswer {
    status: u16,
    content_type: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: Body,
}

enum Body {
    Whole(Vec<u8>),
    Live(Writer),
}

impl HttpAnswer {
    /// Something that was found.
    pub fn new(content_type: &'static str, body: impl Into<Vec<u8>>) -> HttpAnswer {
        HttpAnswer { status: 200, content_type, headers: Vec::new(), body: Body::Whole(body.into()) }
    }

    /// JSON.
    pub fn json(value: &serde_json::Value) -> HttpAnswer {
        HttpAnswer::new("application/json", format!("{value}\n"))
    }

    /// An answer that is written while things happen, as server-sent events. `write` returns when it ends, or with the error of
    /// a client that is gone.
    pub fn live(
        content_type: &'static str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
    ) -> HttpAnswer {
        HttpAnswer { status: 200, content_type, headers: Vec::new(), body: Body::Live(Box::new(write)) }
    }

    /// With one more header.
    pub fn with_header(mut self, name: &'static str, value: &'static str) -> HttpAnswer {
        self.headers.push((name, value));
        self
    }

    /// Nothing under this path.
    pub fn not_found() -> HttpAnswer {
        HttpAnswer::error(404, "there is nothing under this path")
    }

    /// An answer with this status and one line that says why.
    pub fn error(status: u16, why: &str) -> HttpAnswer {
        let content_type = "text/plain; charset=utf-8";
        HttpAnswer { status, content_type, headers: Vec::new(), body: Body::Whole(format!("{why}\n").into()) }
    }
}

/// Why a server cannot start.
#[derive(Debug)]
pub struct ServeError {
    /// Where it was to listen.
    pub address: String,
    /// What the system said.
    pub source: io::Error,
}

impl std::fmt::Display for ServeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot listen on {}", self.address)
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    is_closed: Arc<AtomicBool>,
    listener: Option<std::thread::JoinHandle<()>>,
}

impl HttpServer {
    /// Listens on an address, as `127.0.0.1:9464`; with port 0 the system chooses one.
    pub fn start(
        address: &str,
        answer: impl Fn(&HttpRequest) -> HttpAnswer + Send + Sync + 'static,
    ) -> Result<HttpServer, ServeError> {
        let failed = |source| ServeError { address: address.to_string(), source };
        let mut known = address.to_socket_addrs().map_err(failed)?;
        let first = known.next().ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
        let listener = TcpListener::bind(first).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = is_closed.clone();
        let answer: Arc<dyn Fn(&HttpRequest) -> HttpAnswer + Send + Sync> = Arc::new(answer);
        let accept = move || accept(&listener, &closed, &answer);
        let listener = std::thread::Builder::new().name("http".into()).spawn(accept).map_err(failed)?;
        Ok(HttpServer { address, is_closed, listener: Some(listener) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts. An address of all interfaces is reached through loopback.
        let mut to = self.address;
        if to.ip().is_unspecified() {
            to.set_ip(if to.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
        }
        if TcpStream::connect_timeout(&to, Duration::from_secs(1)).is_ok()
            && let Some(listener) = self.listener.take()
        {
            let _ = listener.join();
        }
    }
}

/// One of the connections that are open; it counts until it is dropped.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn accept(
    listener: &TcpListener,
    is_closed: &Arc<AtomicBool>,
    answer: &Arc<dyn Fn(&HttpRequest) -> HttpAnswer + Send + Sync>,
) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        if is_closed.load(Ordering::Relaxed) {
            return;
        }
        let Ok((mut stream, _)) = accepted else {
            // No descriptors are left, say; others are freed in time.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let _ = stream.set_write_timeout(Some(WRITE_TIMEOUT));
        let counted = Open(open.clone());
        if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
            let _ = write(&mut stream, HttpAnswer::error(503, "too many connections; try again"), Want::Body);
            continue;
        }
        let answer = answer.clone();
        // Without a thread the connection is closed, and the client tries again.
        let _ = std::thread::Builder::new().name("http connection".into()).spawn(move || {
            let _counted = counted;
            let _ = serve(&mut stream, answer.as_ref());
        });
    }
}

/// What a client wants to see of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Body,
    HeadOnly,
}

fn serve(stream: &mut TcpStream, answer: &(dyn Fn(&HttpRequest) -> HttpAnswer + Send + Sync)) -> io::Result<()> {
    match read_request(stream) {
        Ok((request, want)) => write(stream, answer(&request), want)?,
        Err(refused) => write(stream, refused, Want::Body)?,
    }
    // The client reads before it is told that the connection ended: what it sent beyond its request would reset it.
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    let mut rest = [0; 1024];
    for _ in 0..64 {
        if matches!(stream.read(&mut rest), Ok(0) | Err(_)) {
            break;
        }
    }
    Ok(())
}

fn read_request(stream: &mut TcpStream) -> Result<(HttpRequest, Want), HttpAnswer> {
    let gone = |_| HttpAnswer::error(408, "the request did not arrive in time");
    let deadline = Instant::now() + REQUEST_DEADLINE;
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    let end = loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if head.len() > MAX_HEAD_BYTES {
            return Err(HttpAnswer::error(431, "the request is too long"));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(HttpAnswer::error(408, "the request did not arrive in time"));
        }
        stream.set_read_timeout(Some(left)).map_err(gone)?;
        match stream.read(&mut piece) {
            Ok(0) => return Err(HttpAnswer::error(400, "the request ended early")),
            Ok(count) => head.extend_from_slice(piece.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(gone(error)),
        }
    };
    parse(head.get(..end).unwrap_or_default())
}

fn parse(head: &[u8]) -> Result<(HttpRequest, Want), HttpAnswer> {
    let bad = || HttpAnswer::error(400, "this is no HTTP request");
    let text = std::str::from_utf8(head).map_err(|_| bad())?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad());
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return Err(bad());
    }
    let want = match method {
        "GET" => Want::Body,
        "HEAD" => Want::HeadOnly,
        _ => return Err(HttpAnswer::error(405, "only GET and HEAD are answered")),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string())).collect();
    Ok((HttpRequest { path: path.to_string(), query: query.to_string(), headers }, want))
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

fn write(stream: &mut TcpStream, answer: HttpAnswer, want: Want) -> io::Result<()> {
    let HttpAnswer { status, content_type, headers, body } = answer;
    // No page of ours loads anything from elsewhere, and none may be put into a frame of another.
    let mut head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {content_type}\r\nConnection: close\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n",
        reason(status)
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Body::Whole(bytes) = &body {
        head.push_str(&format!("Content-Length: {}\r\n", bytes.len()));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    match body {
        _ if want == Want::HeadOnly => Ok(()),
        Body::Whole(bytes) => stream.write_all(&bytes),
        Body::Live(write) => write(stream),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> HttpServer {
        HttpServer::start("127.0.0.1:0", |request| match request.path.as_str() {
            "/hello" => HttpAnswer::new("text/plain", format!("hello {}", request.query)),
            "/more" => HttpAnswer::new("text/plain", "").with_header("X-More", "yes"),
            "/live" => HttpAnswer::live("text/event-stream", |to| (0..3).try_for_each(|n| writeln!(to, "data: {n}\n"))),
            _ => HttpAnswer::not_found(),
        })
        .unwrap()
    }

    fn ask(server: &HttpServer, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[track_caller]
    fn check(server: &HttpServer, request: &[u8], starts: &str, ends: &str) {
        let answer = ask(server, request);
        assert!(answer.starts_with(starts) && answer.ends_with(ends), "{answer}");
    }

    #[test]
    fn requests_are_answered() {
        let server = server();
        check(&server, b"GET /hello?you HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\nhello you");
        check(&server, b"HEAD /hello?you HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "Content-Length: 9\r\n\r\n");
        check(&server, b"GET /live HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "data: 0\n\ndata: 1\n\ndata: 2\n\n");
        assert!(ask(&server, b"GET /more HTTP/1.1\r\n\r\n").contains("\r\nX-More: yes\r\n"));
        check(&server, b"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ", "there is nothing under this path\n");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let server = server();
        check(&server, b"POST /hello HTTP/1.1\r\n\r\n", "HTTP/1.1 405 ", "\n");
        check(&server, b"\xff\xfe\r\n\r\n", "HTTP/1.1 400 ", "\n");
        check(&server, b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", "HTTP/1.1 400 ", "\n");
        check(&server, b"GET /a b HTTP/1.1\r\n\r\n", "HTTP/1.1 400 ", "\n");
        check(&server, &[b'a'; MAX_HEAD_BYTES + 4096], "HTTP/1.1 431 ", "\n");
        let mut cut = TcpStream::connect(server.address()).unwrap();
        cut.write_all(b"GET /hello HT").unwrap();
        cut.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        cut.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }

    #[test]
    fn connections_beyond_the_limit_are_told_to_try_again() {
        let server = server();
        let silent: Vec<_> = (0..MAX_CONNECTIONS).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        // Connections are accepted in order: this one is turned away, whatever it would send.
        check(&server, b"", "HTTP/1.1 503 ", "\n");
        drop(silent);
        // Those who are gone are noticed one by one. Who is turned away may be reset while it sends.
        let try_again = || {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            let _ = stream.write_all(b"GET /hello HTTP/1.1\r\n\r\n");
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            answer.starts_with("HTTP/1.1 200 ")
        };
        assert!(std::iter::repeat_with(try_again).take(100_000).any(|is_answered| is_answered));
    }

    #[test]
    fn an_address_in_use_is_named() {
        let server = server();
        let address = server.address().to_string();
        let error = HttpServer::start(&address, |_| HttpAnswer::not_found()).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot listen on {address}"));
        drop(server);
        HttpServer::start(&address, |_| HttpAnswer::not_found()).unwrap();
    }
}
