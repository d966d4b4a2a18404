//! The architecture as a test.

mod arrows;
mod book;
mod cloud_tpu;
mod names;
mod rules;
mod source;
mod tidy;
