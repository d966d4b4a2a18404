//! The architecture as a test.

mod arrows;
mod book;
mod names;
mod rules;
mod source;
mod tidy;
