//! The architecture as a test.

mod arrows;
mod rules;
mod source;
mod tidy;
