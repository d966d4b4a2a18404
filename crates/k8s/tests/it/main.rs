//! Tests of the crate from outside: manifests against the published schemas and against those of `xpk`.

mod cases;
mod cluster;
mod image;
mod refused;
mod schemas;
mod server;
mod xpk;
