//! Integration tests of `data`: files that are elsewhere.

mod hostile;
mod remote;
