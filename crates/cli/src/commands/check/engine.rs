//! What runs the cases: the interpreter, the compiler, or a plugin.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cpu::interpret::{Interpreter, InterpreterOptions};
use cpu::{Compiled, Cpu, EngineOptions, ExecutionMode, Folding};
use hlo::Verified;

use super::plugin::Devices;
use crate::args::CheckMode;
use crate::failure::Failure;
use crate::plugins;

/// Ops one case may execute: a bound that, unlike time, is the same on every machine.
const MAX_STEPS: u64 = 1 << 30;

/// How a case ended, before the list of expected failures is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

/// Runs cases; those that run at the same time share it.
#[derive(Clone, Debug)]
pub(crate) enum Engine {
    Interpreter,
    Compiler(Arc<Cpu>),
    Plugin(Arc<Devices>),
}

impl Engine {
    pub(crate) fn new(mode: CheckMode) -> Result<Engine, Failure> {
        Ok(match mode {
            CheckMode::Interpreter => Engine::Interpreter,
            CheckMode::Compiled => Engine::Compiler(Cpu::with_isa(None, plugins::forced_isa()?).map_err(Failure::new)?),
        })
    }

    /// The devices of a plugin, given by its path or its name.
    pub(crate) fn plugin(plugin: &Path, stop: &AtomicBool) -> Result<Engine, Failure> {
        Devices::open(plugin, stop).map(|devices| Engine::Plugin(Arc::new(devices)))
    }

    /// The mode, as reports and lists of expected failures name it.
    pub(crate) fn mode(&self) -> &'static str {
        match self {
            Engine::Interpreter => "interpreter",
            Engine::Compiler(_) => "compiled",
            Engine::Plugin(_) => "plugin",
        }
    }

    /// What the cases run on.
    pub(crate) fn device(&self) -> &str {
        match self {
            Engine::Interpreter | Engine::Compiler(_) => "cpu",
            Engine::Plugin(devices) => devices.name(),
        }
    }

    /// Runs a function without arguments until it ends, a check fails, or the flag is set.
    pub(crate) fn run(&self, module: &Verified, function: &str, stop: Arc<AtomicBool>) -> Verdict {
        let options = InterpreterOptions {
            max_steps: Some(MAX_STEPS),
            stop: Some(Arc::clone(&stop)),
            ..InterpreterOptions::default()
        };
        let ended = match self {
            Engine::Interpreter => Interpreter::new(module, options).run(function, Vec::new()).map(drop),
            Engine::Compiler(cpu) => {
                // Inputs are constants: folded, they would never reach a kernel.
                let (mode, folding) = (ExecutionMode::Compiled, Folding::Nothing);
                let compile = EngineOptions { mode, folding, entry: Some(function), ..EngineOptions::default() };
                let compiled = Compiled::from_module(cpu, module.clone(), &compile);
                compiled.and_then(|compiled| compiled.run(vec![Vec::new()], &options)).map(drop)
            }
            Engine::Plugin(devices) => return devices.run(module, function, &options, &stop),
        };
        match ended {
            Ok(()) => Verdict::Passed,
            Err(error) => Verdict::Failed(compile::with_causes(&error)),
        }
    }
}
