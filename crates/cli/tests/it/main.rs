//! The real binary: what it prints, where, and with which exit code.

mod accuracy;
mod cache;
mod check;
mod compile;
mod config;
mod fit;
mod harness;
mod hostile;
mod mesh_training;
mod offline;
mod plan;
mod processes;
mod reference;
mod run;
mod train;
