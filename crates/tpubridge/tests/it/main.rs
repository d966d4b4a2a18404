//! Tests of the library as a user sees it.

mod errors;
mod examples;
