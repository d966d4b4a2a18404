//! The real binary: what it prints, where, and with which exit code.

mod accuracy;
mod advice;
mod cache;
mod check;
mod compile;
mod config;
mod documents;
mod estimates;
mod find_batch;
mod fit;
mod harness;
mod hostile;
mod kernels;
mod mesh_training;
mod offline;
mod pipeline;
mod plan;
mod preemption;
mod pretrained;
mod processes;
mod reference;
mod restarts;
mod run;
mod signals;
mod train;
mod train_data;
