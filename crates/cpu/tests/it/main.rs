//! Tests of the device: programs of this repository, programs nobody here wrote, and programs that ask for too much.

mod attention;
mod blocks;
mod conformance;
mod corpus;
mod guarded;
mod hostile;
mod limits;
mod manual;
mod optimized;
mod paged;
mod partitions;
mod passes;
mod plugin;
mod plugin_jax;
mod profiler;
mod programs;
mod quantized;
mod refused;
mod steady;
mod united;
