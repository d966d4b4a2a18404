//! gRPC over HTTP/2 without encryption: calls with one request and one answer or a stream of answers.
//!
//! Both sides bound what the other may send: sizes of messages and headers, connections, streams, and how long each may
//! take. There is no authentication: a server listens on the loopback address unless someone asks for more.

mod client;
mod message;
mod server;
mod status;

use std::future::Future;
use std::time::Duration;

pub use client::{Answers, GrpcChannel};
pub use server::{Answering, GrpcAnswer, GrpcCall, GrpcServer, Reply, Sender, Service, ready};
pub use status::{GrpcCode, GrpcStatus};

/// What the other side may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcLimits {
    /// Bytes of a message that is received.
    pub message_bytes: usize,
    /// Bytes of the headers of a message.
    pub header_bytes: u32,
    /// Connections of a server at the same time; further ones are closed at once.
    pub connections: usize,
    /// Calls of a connection at the same time; a client keeps further ones until one ends.
    pub streams: u32,
    /// How long a connection may take to be made, until HTTP/2 is agreed on.
    pub connect: Duration,
    /// How long a request may take to arrive.
    pub request: Duration,
    /// How long the other side may take none of what is sent to it.
    pub send: Duration,
    /// How long a connection may stay without a call.
    pub idle: Duration,
    /// How long the other side may take to answer a ping. One is sent when nothing else tells that it is alive.
    pub ping: Duration,
}

impl Default for GrpcLimits {
    fn default() -> GrpcLimits {
        GrpcLimits {
            message_bytes: 1 << 20,
            header_bytes: 16 << 10,
            connections: 16,
            streams: 8,
            connect: Duration::from_secs(10),
            request: Duration::from_secs(20),
            send: Duration::from_secs(30),
            idle: Duration::from_secs(300),
            ping: Duration::from_secs(20),
        }
    }
}

/// Runs a client's work on this thread until it is done.
///
/// # Errors
/// The system gives no more of what a runtime needs.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T, GrpcStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| GrpcStatus::new(GrpcCode::Unavailable, format!("no runtime for gRPC: {error}")))?;
    Ok(runtime.block_on(work))
}

/// HTTP/2's default, which no peer may refuse.
const FRAME_BYTES: usize = 16 << 10;
