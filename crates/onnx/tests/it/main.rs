//! Tests of the crate as its users see it.
mod backend;
mod damaged;
mod documents;
