//! Profiles on demand: a training serves JAX's profiler service, so that `tpu profile`, XProf and JAX's own tools can ask it.

mod address;
mod client;
mod desk;
mod messages;
mod service;

pub use address::ProfilerAddress;
pub use client::{CaptureLength, capture};
pub(crate) use desk::{Asked, CaptureDesk};
pub(crate) use service::{ProfilerServer, refused};
