//! One request to the metadata server: plain HTTP to an address of the machine itself, bounded in time and size.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Longest line of a response's head.
const MAX_LINE_BYTES: u64 = 8 << 10;
/// Most lines of a response's head.
const MAX_LINES: usize = 100;
/// Longest body that is read; answers are a word.
const MAX_BODY_BYTES: u64 = 4 << 10;
/// How long connecting may take: the server is on the same machine.
const CONNECT: Duration = Duration::from_secs(5);

/// What the server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// Says which value it was, so that a change is not missed between two requests.
    pub(super) etag: Option<String>,
    pub(super) body: String,
}

/// Gets a path. `patience` is how long the server may keep silent.
pub(super) fn get(host: &str, path: &str, patience: Duration) -> io::Result<Response> {
    // A host without a port is on the usual one.
    let address = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        host.to_string()
    } else {
        format!("{host}:80")
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for socket in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&socket, CONNECT) {
            Ok(stream) => return ask(stream, host, path, patience),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn ask(mut stream: TcpStream, host: &str, path: &str, patience: Duration) -> io::Result<Response> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(CONNECT))?;
    // Of version 1.0, so that the body is neither cut into chunks nor followed by another.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nMetadata-Flavor: Google\r\nConnection: close\r\n\r\n")?;
    stream.flush()?;
    read(BufReader::new(stream))
}

fn read(mut reader: impl BufRead) -> io::Result<Response> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
    let mut line = || -> io::Result<String> {
        let mut line = String::new();
        let read = reader.by_ref().take(MAX_LINE_BYTES).read_line(&mut line)?;
        if read == 0 || !line.ends_with('\n') {
            return Err(wrong("the head of the answer ends early or has no end"));
        }
        Ok(line.trim_end().to_string())
    };
    let first = line()?;
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(|| wrong("the answer is not HTTP"))?;
    let (mut etag, mut length) = (None, MAX_BODY_BYTES);
    for n in 0.. {
        if n > MAX_LINES {
            return Err(wrong("the head of the answer has no end"));
        }
        let line = line()?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            match name.to_ascii_lowercase().as_str() {
                // It goes into the next request: only what cannot break its line.
                "etag" => etag = Some(value.trim().chars().filter(char::is_ascii_alphanumeric).collect()),
                "content-length" => length = value.trim().parse::<u64>().unwrap_or(0).min(MAX_BODY_BYTES),
                _ => {}
            }
        }
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    Ok(Response { status, etag, body: String::from_utf8_lossy(&body).trim().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_bounded() {
        let good = "HTTP/1.1 200 OK\r\nETag: a1b2\r\nContent-Length: 4\r\n\r\nTRUEtrailing";
        let expected = Response { status: 200, etag: Some("a1b2".into()), body: "TRUE".into() };
        assert_eq!(read(good.as_bytes()).unwrap(), expected);
        let split = "HTTP/1.0 200 OK\nEtag: x y\u{e4}\r\nbad header\r\n\r\nFALSE\n";
        assert_eq!(read(split.as_bytes()).unwrap().etag.as_deref(), Some("xy"));
        for bad in ["", "HTTP/1.1 200 OK", "SSH-2.0\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\na: b\r\n"] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(read(io::repeat(b'a').take(1 << 30).chain(io::empty()).into_buffered()).is_err());
        let endless = b"HTTP/1.1 200 OK\r\n\r\n".chain(io::repeat(b'T'));
        assert_eq!(read(endless.into_buffered()).unwrap().body.len() as u64, MAX_BODY_BYTES);
        let heads = b"HTTP/1.1 200 OK\r\n".chain("a: b\r\n".repeat(1000).leak().as_bytes());
        assert!(read(heads.into_buffered()).is_err());
    }

    trait IntoBuffered: Read + Sized {
        fn into_buffered(self) -> BufReader<Self> {
            BufReader::new(self)
        }
    }

    impl<R: Read> IntoBuffered for R {}
}
