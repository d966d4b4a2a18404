//! Tests of the backend through its public face.

mod backend;
mod buckets;
mod config;
mod errors;
mod optimize;
