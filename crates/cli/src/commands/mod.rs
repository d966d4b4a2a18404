//! One file or folder per command.

pub(crate) mod accuracy;
pub(crate) mod cache;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod chips;
pub(crate) mod compare;
pub(crate) mod compile;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod hlo;
pub(crate) mod info;
pub(crate) mod key;
pub(crate) mod man;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod quickstart;
pub(crate) mod run;
pub(crate) mod setup;
pub(crate) mod train;
pub(crate) mod worker;
