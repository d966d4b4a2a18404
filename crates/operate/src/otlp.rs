//! Sends what a process tells of itself to an OpenTelemetry collector, over HTTP or HTTPS.

use std::io;
use std::time::Duration;

use telemetry::otlp::{OtlpReply, OtlpRequest, OtlpTransport};

use crate::ask::causes;

/// Bytes of an answer that are read.
const MAX_REPLY_BYTES: usize = 64 << 10;

/// The way to a collector: one connection that is kept, no redirects.
pub fn transport() -> io::Result<OtlpTransport> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    weights::choose_cryptography();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let client = client.build().map_err(io::Error::other)?;
    Ok(Box::new(move |request| runtime.block_on(post(&client, request)).map_err(|error| causes(&error.without_url()))))
}

async fn post(client: &reqwest::Client, request: &OtlpRequest<'_>) -> Result<OtlpReply, reqwest::Error> {
    let mut sent = client.post(request.address).timeout(request.timeout);
    for (name, value) in request.headers {
        sent = sent.header(name, value);
    }
    sent = sent.header("content-type", "application/x-protobuf").body(request.body.clone());
    let mut reply = sent.send().await?;
    // A date in its place is left out: the usual pause is as good.
    let retry_after = reply.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let mut body = Vec::new();
    while body.len() < MAX_REPLY_BYTES
        && let Some(piece) = reply.chunk().await?
    {
        body.extend_from_slice(piece.get(..piece.len().min(MAX_REPLY_BYTES - body.len())).unwrap_or_default());
    }
    Ok(OtlpReply { status: reply.status().as_u16(), retry_after: retry_after.map(Duration::from_secs), body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    /// What a collector is sent first, up to the end of the headers, and what the transport makes of its answer.
    fn ask(answer: impl Fn(&mut dyn Write) -> io::Result<()> + Send + 'static) -> (String, Result<OtlpReply, String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://me:secret@{}/v1/logs", listener.local_addr().unwrap());
        let collector = std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                stream.read_line(&mut head).unwrap();
            }
            // The client hangs up when it has read enough.
            let _ = answer(stream.get_mut());
            head
        });
        let headers = [("x-key".to_string(), "k1".to_string())];
        let timeout = Duration::from_secs(20);
        let request = OtlpRequest { address: &address, headers: &headers, body: b"body".to_vec(), timeout };
        let reply = transport().unwrap()(&request);
        (collector.join().unwrap().to_lowercase(), reply)
    }

    #[test]
    fn a_collector_gets_headers_and_may_ask_for_time() {
        let answer = "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno";
        let (head, reply) = ask(|to| to.write_all(answer.as_bytes()));
        assert!(head.starts_with("post /v1/logs http/1.1\r\n") && head.contains("x-key: k1\r\n"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
        let retry_after = Some(Duration::from_secs(7));
        assert_eq!(reply, Ok(OtlpReply { status: 503, retry_after, body: b"no".to_vec() }));
        let (_, reply) =
            ask(|to| to.write_all(b"HTTP/1.1 429 X\r\nRetry-After: Sun, 06 Nov 1994\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(reply.unwrap().retry_after, None);
    }

    #[test]
    fn an_answer_without_end_is_not_read_to_the_end() {
        let (_, reply) = ask(|to| {
            to.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            (0..10_000).try_for_each(|_| to.write_all(&[b'x'; 16 << 10]))
        });
        assert_eq!(reply.unwrap().body.len(), MAX_REPLY_BYTES);
    }

    #[test]
    fn what_is_no_answer_is_told_without_secrets() {
        for garbage in [&b"\x00\xff\xfe"[..], b"HTTP/9.9 abc\r\n\r\n", b"", &[b'a'; 1 << 20]] {
            let (_, reply) = ask(move |to| to.write_all(garbage));
            let why = reply.unwrap_err();
            assert!(!why.is_empty() && !why.contains("secret"), "{why}");
        }
        // Elsewhere is not followed.
        let (_, reply) =
            ask(|to| to.write_all(b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(reply.unwrap().status, 307);
    }
}
