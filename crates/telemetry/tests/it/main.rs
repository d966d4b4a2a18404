//! Tests of services and clients over real connections, and of goodput against a peer.

mod goodput;
mod grpc;
mod hostile;
mod runtime_metrics;
