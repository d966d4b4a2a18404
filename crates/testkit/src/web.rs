//! A web server of one file on this machine that answers ranges as it is told to: rightly, or as a hostile or a broken one would.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// How a server answers a request for a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebFault {
    /// The connection ends after so many bytes of the body.
    CutAfter(usize),
    /// It says that it is overloaded.
    Overloaded,
    /// It says how long the answer is, and sends less.
    Short,
    /// It sends chunks that never end, after the right bytes.
    Endless,
    /// It sends more than was asked for, in chunks.
    Longer,
    /// It sends another range.
    OtherRange,
    /// It sends the whole file.
    IgnoresRange,
    /// It says that the file has so many bytes.
    Size(u64),
    /// It says that the range ends at the largest number there is.
    RangeOverflow,
    /// It has another version of the file.
    Tag(&'static str),
    /// It says that the bytes are packed.
    Packed,
    /// It sends the client elsewhere.
    Redirect(String),
    /// It knows no such file.
    Missing,
    /// It is not allowed.
    Refused,
}

#[derive(Debug, Default)]
struct Plan {
    fault: Option<WebFault>,
    /// Requests that are answered rightly before.
    spared: usize,
    /// Requests that the fault hits then.
    times: usize,
    requests: Vec<String>,
    sent_bytes: u64,
}

/// A server of one file.
#[derive(Clone, Debug)]
pub struct WebServer {
    port: u16,
    plan: Arc<Mutex<Plan>>,
}

impl WebServer {
    /// Serves these bytes, under any name, with an entity tag or without one.
    pub fn start(bytes: Vec<u8>, tag: Option<&'static str>) -> WebServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let plan = Arc::new(Mutex::new(Plan::default()));
        let (theirs, bytes) = (plan.clone(), Arc::new(bytes));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (plan, bytes) = (theirs.clone(), bytes.clone());
                // A connection that breaks is the client's to notice.
                std::thread::spawn(move || drop(serve(client, &bytes, tag, &plan)));
            }
        });
        WebServer { port, plan }
    }

    /// The address of a file.
    pub fn address(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }

    /// The next requests, so many of them, are answered so.
    pub fn fail(&self, fault: WebFault, times: usize) {
        self.fail_after(0, fault, times);
    }

    /// After so many requests, the next are answered so.
    pub fn fail_after(&self, spared: usize, fault: WebFault, times: usize) {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        (plan.fault, plan.spared, plan.times) = (Some(fault), spared, times);
    }

    /// Ranges that were asked for since the last call, and bytes of bodies that were sent; nothing fails from now on.
    pub fn heal(&self) -> (Vec<String>, u64) {
        let plan = std::mem::take(&mut *self.plan.lock().unwrap_or_else(PoisonError::into_inner));
        (plan.requests, plan.sent_bytes)
    }
}

fn serve(client: TcpStream, bytes: &[u8], tag: Option<&str>, plan: &Mutex<Plan>) -> std::io::Result<()> {
    // Head and body are two writes: the second must not wait for the first to be acknowledged.
    client.set_nodelay(true)?;
    let mut reader = BufReader::new(client.try_clone()?);
    let mut client = client;
    loop {
        let mut range = None;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                let (start, end) = value.trim().split_once('-').unwrap_or_default();
                range = start.parse::<usize>().ok().zip(end.parse::<usize>().ok());
            }
            if line == "\r\n" {
                break;
            }
        }
        let fault = {
            let mut plan = plan.lock().unwrap_or_else(PoisonError::into_inner);
            plan.requests.push(range.map_or("all".into(), |(start, end)| format!("{start}-{end}")));
            let hits = plan.spared == 0 && plan.times > 0;
            match plan.spared {
                0 => plan.times = plan.times.saturating_sub(1),
                _ => plan.spared -= 1,
            }
            plan.fault.clone().filter(|_| hits)
        };
        let count = |sent: usize| plan.lock().unwrap_or_else(PoisonError::into_inner).sent_bytes += sent as u64;
        let simple = match &fault {
            Some(WebFault::Overloaded) => Some("503 Service Unavailable\r\n".to_string()),
            Some(WebFault::Missing) => Some("404 Not Found\r\n".to_string()),
            Some(WebFault::Refused) => Some("403 Forbidden\r\n".to_string()),
            Some(WebFault::Redirect(to)) => Some(format!("302 Found\r\nlocation: {to}\r\n")),
            _ => None,
        };
        if let Some(answer) = simple {
            write!(client, "HTTP/1.1 {answer}content-length: 0\r\n\r\n")?;
            continue;
        }
        let size = bytes.len();
        let (start, end) = range.unwrap_or((0, size.saturating_sub(1)));
        let end = end.min(size.saturating_sub(1));
        let body = bytes.get(start..=end).unwrap_or_default();
        let tag = match &fault {
            Some(WebFault::Tag(other)) => Some(*other),
            _ => tag,
        };
        let mut head = String::new();
        if let Some(tag) = tag {
            head.push_str(&format!("etag: \"{tag}\"\r\n"));
        }
        if fault == Some(WebFault::Packed) {
            head.push_str("content-encoding: gzip\r\n");
        }
        if fault == Some(WebFault::IgnoresRange) || range.is_none() {
            write!(client, "HTTP/1.1 200 OK\r\n{head}content-length: {size}\r\n\r\n")?;
            client.write_all(bytes)?;
            count(size);
            continue;
        }
        let said_size = match fault {
            Some(WebFault::Size(size)) => size,
            _ => size as u64,
        };
        let said = match fault {
            Some(WebFault::OtherRange) => format!("{}-{}", start + 1, end + 1),
            Some(WebFault::RangeOverflow) => format!("{start}-{}", u64::MAX),
            _ => format!("{start}-{end}"),
        };
        head.push_str(&format!("content-range: bytes {said}/{said_size}\r\n"));
        match fault {
            Some(fault @ (WebFault::Endless | WebFault::Longer)) => {
                // The client wants a length before it reads; the chunks say otherwise.
                write!(client, "HTTP/1.1 206 Partial Content\r\n{head}transfer-encoding: chunked\r\n\r\n")?;
                write!(client, "{:x}\r\n", body.len())?;
                client.write_all(body)?;
                client.write_all(b"\r\n")?;
                let more = vec![7; 1 << 16];
                loop {
                    write!(client, "{:x}\r\n", more.len())?;
                    client.write_all(&more)?;
                    client.write_all(b"\r\n")?;
                    count(more.len());
                    if fault == WebFault::Longer {
                        client.write_all(b"0\r\n\r\n")?;
                        break;
                    }
                }
            }
            _ => {
                write!(client, "HTTP/1.1 206 Partial Content\r\n{head}content-length: {}\r\n\r\n", body.len())?;
                let sent = match fault {
                    Some(WebFault::CutAfter(sent)) => sent.min(body.len()),
                    Some(WebFault::Short) => body.len() / 2,
                    _ => body.len(),
                };
                client.write_all(&body[..sent])?;
                count(sent);
                if sent < body.len() {
                    return client.shutdown(Shutdown::Both);
                }
            }
        }
    }
}
