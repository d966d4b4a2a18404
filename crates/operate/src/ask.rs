//! One `GET` within a time, bounded; and many at once. How it fails says where to look.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Bytes of an answer at most.
const MAX_BYTES: usize = 4 << 20;

/// Questions at the same time.
const MAX_AT_ONCE: usize = 64;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskError {
    /// Its name is not known.
    Unknown(String),
    /// Nothing comes back from its machine: it is gone, or the link to it is broken.
    Unreachable(String),
    /// Its machine answers, but nobody listens there: the process is gone.
    Refused,
    /// It was connected to, and says nothing: it is stopped, or its machine has no time for it.
    Silent(Duration),
    /// What it says is no answer.
    Wrong(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Unknown(why) => write!(f, "its address is not known: {why}"),
            AskError::Unreachable(why) => write!(f, "its machine does not answer: {why}"),
            AskError::Refused => f.write_str("nobody listens there"),
            AskError::Silent(patience) => {
                write!(f, "the connection is open, but no answer came within {:.1} s", patience.as_secs_f64())
            }
            AskError::Wrong(why) => write!(f, "its answer is of no use: {why}"),
        }
    }
}

/// The body that `http://ADDRESS/PATH` answers.
pub fn get(address: &str, path: &str, patience: Duration) -> Result<String, AskError> {
    let deadline = Instant::now() + patience;
    let unknown = |error: std::io::Error| AskError::Unknown(error.to_string());
    let mut stream = Err(AskError::Unknown("it has none".into()));
    for known in address.to_socket_addrs().map_err(unknown)? {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream = TcpStream::connect_timeout(&known, left).map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => AskError::Refused,
            ErrorKind::TimedOut => AskError::Unreachable(format!("no connection within {:.1} s", left.as_secs_f64())),
            _ => AskError::Unreachable(error.to_string()),
        });
        if stream.is_ok() {
            break;
        }
    }
    let mut stream = stream?;
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => AskError::Silent(patience),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => AskError::Refused,
        _ => AskError::Wrong(error.to_string()),
    };
    stream.set_write_timeout(Some(patience)).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(AskError::Silent(patience));
        }
        stream.set_read_timeout(Some(left)).map_err(failed)?;
        match stream.read(&mut piece).map_err(failed)? {
            0 => break,
            count => answer.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
        if answer.len() > MAX_BYTES {
            return Err(AskError::Wrong(format!("its answer has more than {MAX_BYTES} bytes")));
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| AskError::Wrong("it is no HTTP".into()))?;
    match head.split(' ').nth(1).unwrap_or_default() {
        "200" => Ok(body.to_string()),
        status => Err(AskError::Wrong(format!("it answers {}", status.chars().take(3).collect::<String>()))),
    }
}

/// Asks for all at once; answers in the order of what is asked for.
pub(crate) fn all<Q: Sync, A: Send>(questions: &[Q], ask: impl Fn(&Q) -> A + Sync) -> Vec<A> {
    let mut answers: Vec<(usize, A)> = Vec::new();
    for (first, some) in questions.chunks(MAX_AT_ONCE).enumerate() {
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            for (n, question) in some.iter().enumerate() {
                let (sender, ask) = (sender.clone(), &ask);
                scope.spawn(move || drop(sender.send((first * MAX_AT_ONCE + n, ask(question)))));
            }
        });
        drop(sender);
        answers.extend(receiver);
    }
    answers.sort_by_key(|(n, _)| *n);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// An error with its causes, in one line.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use telemetry::{HttpAnswer, HttpServer};

    const SHORT: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn how_it_fails_says_where_to_look() {
        let server = HttpServer::start("127.0.0.1:0", |request| match request.path.as_str() {
            "/a" => HttpAnswer::new("text/plain", "yes"),
            _ => HttpAnswer::not_found(),
        })
        .unwrap();
        let address = server.address().to_string();
        assert_eq!(get(&address, "/a", LONG).unwrap(), "yes");
        assert!(matches!(get(&address, "/b", LONG), Err(AskError::Wrong(why)) if why.contains("404")));
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent_address = silent.local_addr().unwrap().to_string();
        assert_eq!(get(&silent_address, "/", SHORT), Err(AskError::Silent(SHORT)));
        drop(silent);
        assert_eq!(get(&silent_address, "/", LONG), Err(AskError::Refused));
        assert!(matches!(get("no port", "/", SHORT), Err(AskError::Unknown(_))));
    }

    #[test]
    fn answers_come_in_the_order_of_questions() {
        let questions: Vec<usize> = (0..200).collect();
        assert_eq!(all(&questions, |n| n * 2), questions.iter().map(|n| n * 2).collect::<Vec<_>>());
    }
}
