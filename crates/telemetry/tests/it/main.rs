//! Tests of services and clients over real connections.

mod grpc;
mod hostile;
mod runtime_metrics;
