//! Programs made at random, mutated and kept from earlier findings, run compiled and by the interpreter.

mod campaign;
mod corpus;
mod differential;
mod regressions;
