//! The client: a connection to a service, and calls on it.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::GrpcLimits;
use super::message::{Messages, broken, framed, send};
use super::status::{GrpcCode, GrpcStatus};

/// A connection to a service.
#[derive(Debug)]
pub struct GrpcChannel {
    requests: SendRequest<Bytes>,
    address: String,
    limits: GrpcLimits,
    driver: JoinHandle<()>,
}

impl Drop for GrpcChannel {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Answers of a call.
#[derive(Debug)]
pub struct Answers {
    body: RecvStream,
    messages: Messages,
    deadline: Instant,
    is_over: bool,
}

impl GrpcChannel {
    /// Connects to `host:port`.
    pub async fn connect(address: &str, limits: &GrpcLimits) -> Result<GrpcChannel, GrpcStatus> {
        let unreachable = |why: &dyn std::fmt::Display| {
            GrpcStatus::new(GrpcCode::Unavailable, format!("{address} cannot be reached: {why}"))
        };
        let late = |_| unreachable(&format!("no answer within {:?}", limits.connect));
        let connecting = async {
            let io = TcpStream::connect(address).await.map_err(|error| unreachable(&error))?;
            let _ = io.set_nodelay(true);
            let mut builder = h2::client::Builder::new();
            builder
                .enable_push(false)
                .max_header_list_size(limits.header_bytes)
                .initial_window_size(1 << 20)
                .initial_connection_window_size(1 << 20);
            builder.handshake::<_, Bytes>(io).await.map_err(|error| unreachable(&error))
        };
        let (requests, connection) = timeout(limits.connect, connecting).await.map_err(late)??;
        let driver = tokio::spawn(async move {
            // How it ended, the calls on it learn.
            let _ = connection.await;
        });
        Ok(GrpcChannel { requests, address: address.to_string(), limits: limits.clone(), driver })
    }

    /// A call with one answer.
    pub async fn unary(&self, method: &str, message: &[u8], patience: Duration) -> Result<Vec<u8>, GrpcStatus> {
        let mut answers = self.streaming(method, message, patience).await?;
        let first = answers.next().await?;
        let first = first.ok_or_else(|| self.wrong("it ended without an answer"))?;
        match answers.next().await? {
            None => Ok(first),
            Some(_) => Err(self.wrong("it gave several answers to one question")),
        }
    }

    /// A call with a stream of answers.
    pub async fn streaming(&self, method: &str, message: &[u8], patience: Duration) -> Result<Answers, GrpcStatus> {
        let now = Instant::now();
        let deadline = now.checked_add(patience).unwrap_or(now + Duration::from_secs(1 << 30));
        let request = self.request(method, patience)?;
        let message = framed(message)?;
        let calling = async {
            let mut requests = self.requests.clone();
            poll_fn(|context| requests.poll_ready(context)).await.map_err(|error| self.failed(&error))?;
            let sent = requests.send_request(request, false);
            let (response, mut stream) = sent.map_err(|error| self.failed(&error))?;
            // A service may answer before it has read everything: what it says is better than that it stopped reading.
            let _ = send(&mut stream, message, true, self.limits.send).await;
            response.await.map_err(|error| self.failed(&error))
        };
        let late = |_| {
            GrpcStatus::new(GrpcCode::DeadlineExceeded, format!("{} gave no answer within {patience:?}", self.address))
        };
        let response = timeout_at(deadline, calling).await.map_err(late)??;
        let (head, body) = response.into_parts();
        if let Some(outcome) = GrpcStatus::from_trailers(&head.headers) {
            outcome?;
        }
        let is_grpc =
            head.headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if head.status != StatusCode::OK || !is_grpc {
            return Err(
                self.wrong(&format!("it is not a gRPC service: it answers HTTP status {}", head.status.as_u16()))
            );
        }
        Ok(Answers { body, messages: Messages::new(self.limits.message_bytes), deadline, is_over: false })
    }

    fn request(&self, method: &str, patience: Duration) -> Result<Request<()>, GrpcStatus> {
        let invalid = |error: &dyn std::fmt::Display| {
            GrpcStatus::new(GrpcCode::InvalidArgument, format!("{}{method}: {error}", self.address))
        };
        let uri = Uri::builder().scheme("http").authority(self.address.as_str()).path_and_query(method).build();
        // Milliseconds in the eight digits that the protocol allows, else seconds.
        let milliseconds = patience.as_millis();
        let left = match milliseconds {
            0..=99_999_999 => format!("{milliseconds}m"),
            _ => format!("{}S", patience.as_secs().min(99_999_999)),
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri.map_err(|error| invalid(&error))?)
            .header("content-type", "application/grpc")
            .header("te", HeaderValue::from_static("trailers"))
            .header("grpc-timeout", left)
            .header("user-agent", concat!("tpubridge/", env!("CARGO_PKG_VERSION")));
        request.body(()).map_err(|error| invalid(&error))
    }

    fn wrong(&self, what: &str) -> GrpcStatus {
        GrpcStatus::new(GrpcCode::Internal, format!("{}: {what}", self.address))
    }

    fn failed(&self, error: &h2::Error) -> GrpcStatus {
        let GrpcStatus { code, message } = broken(error);
        GrpcStatus { code, message: format!("{}: {message}", self.address) }
    }
}

impl Answers {
    /// The next answer; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, GrpcStatus> {
        if self.is_over {
            return Ok(None);
        }
        let late = |_| GrpcStatus::new(GrpcCode::DeadlineExceeded, "the answer did not arrive in time");
        let next = timeout_at(self.deadline, self.messages.next(&mut self.body)).await.map_err(late)?;
        if let Some(message) = next? {
            return Ok(Some(message));
        }
        self.is_over = true;
        let trailers = timeout_at(self.deadline, self.body.trailers()).await.map_err(late)?;
        let trailers = trailers.map_err(|error| broken(&error))?.unwrap_or_default();
        // Without a status the answer may be cut off.
        let outcome = GrpcStatus::from_trailers(&trailers);
        outcome
            .unwrap_or_else(|| Err(GrpcStatus::new(GrpcCode::Unknown, "the answer ended without a status")))
            .map(|()| None)
    }
}
