//! The server: one thread that accepts connections, reads requests, and sends what a service answers.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Ping, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use super::message::{Messages, framed, send};
use super::status::{GrpcCode, GrpcStatus};
use super::{FRAME_BYTES, GrpcLimits};

/// How long calls under way have to end after a server was told to stop.
const STOP: Duration = Duration::from_secs(2);

/// Streams that were reset and are still remembered.
const RESET_STREAMS: usize = 32;

/// A call as a service sees it.
#[derive(Debug)]
pub struct GrpcCall {
    /// As in `/package.Service/Method`.
    pub method: String,
    /// The request, serialized.
    pub message: Vec<u8>,
    /// When the caller gives up.
    pub deadline: Option<Instant>,
}

/// Where a stream of answers is sent to. A send fails once the caller is gone.
pub type Sender = mpsc::Sender<Result<Vec<u8>, GrpcStatus>>;

/// What a service answers.
#[derive(Debug)]
pub enum Reply {
    /// One message.
    One(Vec<u8>),
    /// Messages as they come; an error ends them.
    Stream(mpsc::Receiver<Result<Vec<u8>, GrpcStatus>>),
}

impl Reply {
    /// A stream of answers, of which so many may wait to be sent.
    pub fn stream(waiting: usize) -> (Sender, Reply) {
        let (sender, receiver) = mpsc::channel(waiting.max(1));
        (sender, Reply::Stream(receiver))
    }
}

/// An answer.
pub type GrpcAnswer = Result<Reply, GrpcStatus>;

/// An answer that is being made. It is dropped when the caller gives up or vanishes.
pub type Answering = Pin<Box<dyn Future<Output = GrpcAnswer> + Send>>;

/// What a server serves. It may have several services of gRPC: they differ in the method of a call.
pub trait Service: Send + Sync + 'static {
    /// Begins to answer. It must not block: all calls share a thread.
    fn call(&self, call: GrpcCall) -> Answering;
}

/// An answer that is known at once.
pub fn ready(answer: GrpcAnswer) -> Answering {
    Box::pin(std::future::ready(answer))
}

/// A server, which stops when it is dropped: calls under way have two seconds to end.
#[derive(Debug)]
pub struct GrpcServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl GrpcServer {
    /// Listens at an address; port 0 takes a free one.
    pub fn start(address: SocketAddr, service: Arc<dyn Service>, limits: GrpcLimits) -> io::Result<GrpcServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopping) = watch::channel(false);
        let thread = std::thread::Builder::new().name("grpc".into());
        let thread = thread.spawn(move || runtime.block_on(accept(listener, service, limits, stopping)))?;
        Ok(GrpcServer { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for GrpcServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A call that panicked was told; there is nothing to add.
            let _ = thread.join();
        }
    }
}

async fn accept(
    listener: TcpListener,
    service: Arc<dyn Service>,
    limits: GrpcLimits,
    mut stopping: watch::Receiver<bool>,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(error = &error as &dyn std::error::Error, "the gRPC server cannot listen"),
    };
    let mut connections = JoinSet::new();
    loop {
        let accepted = {
            let mut stop = pin!(stopping.wait_for(|stop| *stop));
            poll_fn(|context| {
                if stop.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                // Those that have ended make room.
                while let Poll::Ready(Some(_)) = connections.poll_join_next(context) {}
                listener.poll_accept(context).map(Some)
            })
            .await
        };
        match accepted {
            None => break,
            Some(Ok((io, _))) if connections.len() < limits.connections => {
                connections.spawn(connection(io, service.clone(), limits.clone(), stopping.clone()));
            }
            Some(Ok(_)) => tracing::debug!("a connection over the limit is closed"),
            // Out of descriptors, or a peer that is gone already: the next may be better, but not at once.
            Some(Err(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    drop(listener);
    let _ = timeout(STOP, async { while connections.join_next().await.is_some() {} }).await;
}

/// What a connection meets next.
enum Met {
    Asked(Box<(Request<RecvStream>, SendResponse<Bytes>)>),
    Tick,
    Pong,
    Stop,
    End,
}

async fn connection(io: TcpStream, service: Arc<dyn Service>, limits: GrpcLimits, mut stopping: watch::Receiver<bool>) {
    // Answers are small and awaited: they should not wait for more to come.
    let _ = io.set_nodelay(true);
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_bytes)
        .max_concurrent_reset_streams(RESET_STREAMS)
        .max_pending_accept_reset_streams(RESET_STREAMS)
        .max_send_buffer_size(FRAME_BYTES * 4);
    let Ok(Ok(mut connection)) = timeout(limits.connect, builder.handshake::<_, Bytes>(io)).await else { return };
    let mut ping_pong = connection.ping_pong();
    let mut is_pinged = false;
    let mut is_stopping = false;
    let mut calls: JoinSet<()> = JoinSet::new();
    let mut idle_since = Instant::now();
    let mut ticks = interval(limits.ping);
    ticks.tick().await;
    loop {
        let met = {
            let mut stop = pin!(stopping.wait_for(|stop| *stop));
            poll_fn(|context| {
                while let Poll::Ready(Some(_)) = calls.poll_join_next(context) {
                    idle_since = Instant::now();
                }
                if !is_stopping && stop.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Met::Stop);
                }
                if let Some(pings) = ping_pong.as_mut().filter(|_| is_pinged)
                    && let Poll::Ready(pong) = pings.poll_pong(context)
                {
                    return Poll::Ready(if pong.is_ok() { Met::Pong } else { Met::End });
                }
                if ticks.poll_tick(context).is_ready() {
                    return Poll::Ready(Met::Tick);
                }
                connection.poll_accept(context).map(|accepted| match accepted {
                    Some(Ok(call)) => Met::Asked(Box::new(call)),
                    _ => Met::End,
                })
            })
            .await
        };
        match met {
            Met::Asked(call) => {
                let (request, respond) = *call;
                calls.spawn(serve(request, respond, service.clone(), limits.clone()));
            }
            Met::Pong => is_pinged = false,
            Met::Stop => {
                is_stopping = true;
                connection.graceful_shutdown();
            }
            // No answer to the last ping: the other side is gone, and its calls with it.
            Met::Tick if is_pinged => return,
            Met::Tick if calls.is_empty() && idle_since.elapsed() >= limits.idle => connection.graceful_shutdown(),
            Met::Tick => {
                is_pinged = ping_pong.as_mut().is_some_and(|pings| pings.send_ping(Ping::opaque()).is_ok());
            }
            Met::End => return,
        }
    }
}

/// Answers one call.
async fn serve(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    service: Arc<dyn Service>,
    limits: GrpcLimits,
) {
    let deadline = request.headers().get("grpc-timeout").and_then(duration);
    let left = deadline.unwrap_or(Duration::MAX);
    let outcome = {
        let answer = timeout(left, answer(request, &service, &limits, deadline));
        let mut answer = pin!(answer);
        poll_fn(|context| {
            // The caller gave up.
            if respond.poll_reset(context).is_ready() {
                return Poll::Ready(None);
            }
            answer.as_mut().poll(context).map(Some)
        })
        .await
    };
    let outcome = match outcome {
        None => return,
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) => Err(GrpcStatus::new(GrpcCode::DeadlineExceeded, "the caller's time is over")),
    };
    let reply = match outcome {
        Ok(reply) => reply,
        Err(status) => {
            // Headers and trailers in one.
            let mut response = headers();
            response.headers_mut().extend(GrpcStatus::trailers(Err(&status)));
            let _ = respond.send_response(response, true);
            return;
        }
    };
    let Ok(mut stream) = respond.send_response(headers(), false) else { return };
    let sent = match timeout(left, messages(reply, &mut stream, &limits)).await {
        Ok(sent) => sent,
        Err(_) => Err(GrpcStatus::new(GrpcCode::DeadlineExceeded, "the caller's time is over")),
    };
    let _ = stream.send_trailers(GrpcStatus::trailers(sent.as_ref().map(|_| ())));
}

async fn messages(reply: Reply, stream: &mut SendStream<Bytes>, limits: &GrpcLimits) -> Result<(), GrpcStatus> {
    match reply {
        Reply::One(message) => send(stream, framed(&message)?, false, limits.send).await,
        Reply::Stream(mut messages) => {
            loop {
                let next = {
                    let mut next = pin!(messages.recv());
                    // A caller that left is noticed between two messages too.
                    poll_fn(|context| match stream.poll_reset(context) {
                        Poll::Ready(_) => Poll::Ready(None),
                        Poll::Pending => next.as_mut().poll(context),
                    })
                    .await
                };
                match next {
                    Some(message) => send(stream, framed(&message?)?, false, limits.send).await?,
                    None => return Ok(()),
                }
            }
        }
    }
}

async fn answer(
    request: Request<RecvStream>,
    service: &Arc<dyn Service>,
    limits: &GrpcLimits,
    left: Option<Duration>,
) -> GrpcAnswer {
    let (head, mut body) = request.into_parts();
    let kind = head.headers.get("content-type").map_or(&b""[..], HeaderValue::as_bytes);
    if head.method != Method::POST || !kind.starts_with(b"application/grpc") {
        return Err(GrpcStatus::new(
            GrpcCode::InvalidArgument,
            "this is a gRPC service: requests are POST of application/grpc",
        ));
    }
    let mut messages = Messages::new(limits.message_bytes);
    let message = timeout(limits.request, async {
        let message = messages.next(&mut body).await?;
        let message =
            message.ok_or_else(|| GrpcStatus::new(GrpcCode::InvalidArgument, "the request has no message"))?;
        match messages.next(&mut body).await? {
            None => Ok(message),
            Some(_) => Err(GrpcStatus::new(GrpcCode::Unimplemented, "the request has several messages")),
        }
    });
    let late = |_| GrpcStatus::new(GrpcCode::DeadlineExceeded, "the request did not arrive in time");
    let message = message.await.map_err(late)??;
    let deadline = left.and_then(|left| Instant::now().checked_add(left));
    service.call(GrpcCall { method: head.uri.path().to_string(), message, deadline }).await
}

fn headers() -> Response<()> {
    let mut response = Response::new(());
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity"));
    response
}

/// A `grpc-timeout`: up to eight digits and a unit.
fn duration(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_the_protocol_says() {
        let read = |text: &'static str| duration(&HeaderValue::from_static(text));
        assert_eq!(read("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(read("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        for wrong in ["", "S", "-1S", "123456789S", "1", "1x", "+1S"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
