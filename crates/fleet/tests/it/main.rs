//! Tests of the crate from outside: setup with fake installers and wheels, doctor on fake machines.

mod doctor;
mod fake;
mod job;
mod launch;
mod plugins;
mod real_machines;
mod setup;
mod simulation;
mod workers;
