//! Runs a case op by op with the reference interpreter.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cpu::interpret::{Interpreter, Options};
use hlo::Verified;

/// Ops one case may execute: a bound that, unlike time, is the same on every machine.
const MAX_STEPS: u64 = 1 << 30;

/// Runs a function without arguments until it ends, a check fails, or the flag is set.
pub(crate) fn run(module: &Verified, function: &str, stop: Arc<AtomicBool>) -> Result<(), cpu::Error> {
    let options = Options { max_steps: Some(MAX_STEPS), stop: Some(stop), ..Options::default() };
    Interpreter::new(module, options).run(function, Vec::new()).map(drop)
}
