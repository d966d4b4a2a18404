//! Tests of the backend through its public face.

mod backend;
mod batch_size;
mod bucketed_jit;
mod buckets;
mod config;
mod data;
mod distributed;
mod errors;
mod mesh;
mod metadata;
mod metrics;
mod optimize;
mod together;
mod trainer;
