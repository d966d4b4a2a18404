//! The CPU device as a PJRT plugin: a library that exports `GetPjrtApi` and nothing else.

pub use cpu::GetPjrtApi;
