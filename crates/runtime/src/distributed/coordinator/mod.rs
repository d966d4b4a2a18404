//! Our own coordinator: process 0 serves a key-value store over TCP and listens for signs of life of all processes.
//!
//! It trusts its network, as such services do: anyone who reaches its port can read and write keys, but not crash it or make it
//! hold more than its bounds.

mod client;
mod server;

pub use client::Connected;
pub use server::Server;
