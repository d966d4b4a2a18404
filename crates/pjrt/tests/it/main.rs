//! The client against fakes, against libtpu and against XLA's CPU plugin.

mod block_on;
mod fake;
mod libtpu;
mod negotiation;
mod pending;
mod plugins;
mod programs;
mod together;
mod xla_cpu;
