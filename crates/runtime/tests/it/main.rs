//! Tests of the backend through its public face.

mod backend;
mod buckets;
mod config;
mod data;
mod distributed;
mod errors;
mod mesh;
mod metrics;
mod optimize;
mod trainer;
