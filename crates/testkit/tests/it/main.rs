//! The architecture as a test.

mod tidy;
