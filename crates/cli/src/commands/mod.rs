//! One file or folder per command.

pub(crate) mod accuracy;
pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod calibrate;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod chips;
pub(crate) mod classify;
pub(crate) mod compare;
pub(crate) mod compile;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod cost;
#[cfg(feature = "cloud")]
pub(crate) mod cp;
pub(crate) mod dashboard;
pub(crate) mod diagnose;
pub(crate) mod doctor;
#[cfg(feature = "cloud")]
pub(crate) mod down;
pub(crate) mod embed;
pub(crate) mod eval;
#[cfg(feature = "cloud")]
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod export;
#[cfg(feature = "cloud")]
mod fan_out;
pub(crate) mod fit;
pub(crate) mod generate;
pub(crate) mod hang;
pub(crate) mod hlo;
#[cfg(feature = "cloud")]
mod idle;
pub(crate) mod info;
#[cfg(feature = "cloud")]
pub(crate) mod job;
#[cfg(feature = "k8s")]
pub(crate) mod k8s;
pub(crate) mod key;
pub(crate) mod launch;
#[cfg(feature = "cloud")]
pub(crate) mod logs;
#[cfg(feature = "cloud")]
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod monitor;
pub(crate) mod plan;
mod plan_job;
pub(crate) mod profile;
pub(crate) mod quantize;
pub(crate) mod quickstart;
pub(crate) mod run;
pub(crate) mod runtime_metrics;
pub(crate) mod serve;
pub(crate) mod setup;
#[cfg(feature = "cloud")]
mod slices;
#[cfg(feature = "cloud")]
pub(crate) mod ssh;
pub(crate) mod train;
pub(crate) mod transcribe;
#[cfg(feature = "cloud")]
pub(crate) mod up;
pub(crate) mod weights;
pub(crate) mod worker;
