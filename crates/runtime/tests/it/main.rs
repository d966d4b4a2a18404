//! Tests of the backend through its public face.

mod backend;
mod bucketed_jit;
mod buckets;
mod config;
mod coordinator;
mod distributed;
mod errors;
mod etcd;
mod jit;
mod mesh;
mod metadata;
mod optimize;
mod pools;
mod processes;
mod recognised;
mod together;
