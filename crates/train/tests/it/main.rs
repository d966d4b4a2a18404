//! Tests of trainings through their public face.

mod batch_size;
mod data;
mod imported;
mod low_precision;
mod metrics;
#[path = "../../../runtime/tests/it/processes.rs"]
mod processes;
mod rows;
mod stops;
mod trainer;
mod wrapped;
