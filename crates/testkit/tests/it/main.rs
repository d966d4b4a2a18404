//! The architecture as a test.

mod arrows;
mod book;
mod rules;
mod source;
mod tidy;
