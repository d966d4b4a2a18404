//! What this crate logs: spans of each stage, and targets that an option of the configuration turns on.
//!
//! Spans are `trace` (a program is read and verified), `lower` (its signature and compile options are made), `compile`,
//! `transfer` (host to device or back) and `execute`. They are at level debug but for `compile`, which is at info.

/// Target of one event for each array and program that is placed on a device: `log_device_placement`.
pub const PLACEMENT: &str = "tpubridge::placement";

/// Target of one event for each compilation, with its reason: `log_compiles`.
pub const COMPILES: &str = "tpubridge::compiles";
