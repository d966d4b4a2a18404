//! Changing sizes padded to a few that are compiled.

mod model;
pub(crate) mod padding;
mod sizes;

pub use model::{BucketReport, BucketUse, BucketedProgram, Padded};
pub use sizes::{BucketSource, Bucketing, Buckets, Dimension};
