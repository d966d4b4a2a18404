//! Check of Google Compute's metadata server, which libtpu asks what slice it runs on.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::{Check, Context, NetworkAccess};

const NAME: &str = "Google Compute";
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// What the server said.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// It cannot be reached.
    Silent(String),
    /// Something answered that is not the metadata server.
    Foreign,
    /// A machine without this attribute: not a TPU VM.
    NoAccelerator,
    /// A TPU VM of this accelerator type.
    Accelerator(String),
}

pub(super) fn examine(context: &Context<'_>) -> Vec<Check> {
    let NetworkAccess::Online { metadata_server, limit } = context.options.network else {
        return vec![Check::skipped(NAME, "metadata server not asked: offline")];
    };
    let skip_query = "TPU_SKIP_MDS_QUERY";
    vec![match ask(metadata_server, limit) {
        Answer::Accelerator(accelerator) => Check::ok(NAME, format!("TPU VM, accelerator type {accelerator}")),
        Answer::NoAccelerator => Check::ok(NAME, "reachable; this is not a TPU VM"),
        Answer::Foreign => Check::warn(
            NAME,
            format!("{metadata_server} answers, but not as Google's metadata server"),
            format!("export {skip_query}=1 before starting other programs that use libtpu"),
        ),
        Answer::Silent(reason) if !context.tpus.is_empty() => Check::warn(
            NAME,
            format!("this machine has TPUs, but the metadata server cannot be reached ({reason})"),
            format!(
                "let {metadata_server} through the firewall or into the container, or export {skip_query}=1 and set \
                 TPU_ACCELERATOR_TYPE and TPU_WORKER_HOSTNAMES yourself"
            ),
        ),
        Answer::Silent(reason) => Check::ok(
            NAME,
            format!("not on Google Compute ({reason}); other programs that use libtpu need {skip_query}=1 here"),
        ),
    }]
}

fn ask(server: SocketAddr, limit: Duration) -> Answer {
    match exchange(server, limit) {
        Ok(bytes) => read_answer(&bytes),
        Err(e) => Answer::Silent(e.kind().to_string()),
    }
}

fn exchange(server: SocketAddr, limit: Duration) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, limit)?;
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(
        b"GET /computeMetadata/v1/instance/attributes/accelerator-type HTTP/1.1\r\n\
          Host: metadata.google.internal\r\nMetadata-Flavor: Google\r\nConnection: close\r\n\r\n",
    )?;
    let deadline = Instant::now() + limit;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while answer.len() < MAX_ANSWER_BYTES && !is_whole(&answer) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => break,
            read => answer.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(answer)
}

/// An answer as far as it has come: its headers are whole, its body may not be.
struct Parts<'a> {
    status: u16,
    headers: Vec<(String, String)>,
    body: &'a [u8],
}

impl<'a> Parts<'a> {
    fn read(answer: &'a [u8]) -> Option<Self> {
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let status = words.next().filter(|v| v.starts_with("HTTP/1.")).and_then(|_| words.next()?.parse().ok())?;
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(k, v)| (k.trim().to_ascii_lowercase(), v.trim().to_owned()))
            .collect();
        Some(Self { status, headers, body: &answer[end + 4..] })
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }
}

fn is_whole(answer: &[u8]) -> bool {
    Parts::read(answer).is_some_and(|parts| {
        let length = parts.header("content-length").and_then(|n| n.parse::<usize>().ok());
        length.is_some_and(|length| parts.body.len() >= length)
    })
}

fn read_answer(answer: &[u8]) -> Answer {
    let Some(parts) = Parts::read(answer) else { return Answer::Foreign };
    if parts.header("metadata-flavor") != Some("Google") {
        return Answer::Foreign;
    }
    let body = String::from_utf8_lossy(parts.body);
    let text: String = body.trim().chars().take(100).collect();
    if parts.status == 200 && !text.is_empty() { Answer::Accelerator(text) } else { Answer::NoAccelerator }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let check = |text: &str, expected| assert_eq!(read_answer(text.as_bytes()), expected, "{text:?}");
        let google = "Metadata-Flavor: Google\r\nContent-Length: 12\r\n\r\n";
        check(&format!("HTTP/1.1 200 OK\r\n{google}v5litepod-16"), Answer::Accelerator("v5litepod-16".into()));
        check(&format!("HTTP/1.1 404 Not Found\r\n{google}<html></html>"), Answer::NoAccelerator);
        check("HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\nhello", Answer::Foreign);
        check("SSH-2.0-OpenSSH_9.6\r\n", Answer::Foreign);
        check("", Answer::Foreign);
        check("HTTP/1.1 \r\n\r\n", Answer::Foreign);
    }
}
