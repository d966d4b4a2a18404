//! Cases on the devices of a PJRT plugin: the device computes, the checks are made here.
//!
//! A plugin may end its process, hang, or print as it likes. So it only ever runs in a child: this program, started again
//! as `tpu check-worker`.

mod message;
mod rewrite;
mod serve;
mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use compile::worker::WorkerCommand;
use cpu::interpret::{Interpreter, InterpreterOptions, InterpreterValue, TensorValue};
use hlo::{ElementType, Type, Verified};
use message::Output;
use pjrt::discover::Discovery;
use tensor::{DType, Literal};
use worker::Worker;

use super::engine::Verdict;
use crate::failure::Failure;
use crate::plugins;

pub(crate) use serve::serve;

/// The processes that hold a plugin, as many as cases run at the same time.
#[derive(Debug)]
pub(crate) struct Devices {
    launch: WorkerCommand,
    name: String,
    /// Processes without a case.
    idle: Mutex<Vec<Worker>>,
}

impl Devices {
    /// Starts a first process, so that a plugin that cannot be used is an error and not thousands of failed cases.
    pub(crate) fn open(plugin: &Path, stop: &AtomicBool) -> Result<Devices, Failure> {
        let (name, path) = find(plugin)?;
        let mut launch = WorkerCommand::this_program(["check-worker".into(), path.clone().into_os_string()])
            .map_err(|e| Failure::new(format!("cannot find this program's own file: {e}")))?;
        launch.env.extend(plugins::environment(&name));
        let first = Worker::start(&launch, stop).map_err(|trouble| {
            Failure::new(format!("{} cannot be used: {trouble}", path.display()))
                .hint("`tpu info --plugin FILE` shows what a plugin offers, `tpu doctor` what is wrong with it")
        })?;
        let name = format!("{name}: {}", first.device());
        Ok(Devices { launch, name, idle: Mutex::new(vec![first]) })
    }

    /// The plugin and its first device, in words.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs a case without its checks on a device, then the checks on what came back.
    pub(crate) fn run(
        &self,
        module: &Verified,
        function: &str,
        options: &InterpreterOptions,
        stop: &AtomicBool,
    ) -> Verdict {
        let split = match rewrite::split(module, function) {
            Ok(split) => split,
            Err(why) => return Verdict::Skipped(format!("not for plugins: {why}")),
        };
        let outputs = match self.execute(&split.program, stop) {
            Ok(outputs) => outputs,
            Err(why) => return Verdict::Failed(why),
        };
        let values = match values(&split.types, outputs) {
            Ok(values) => values,
            Err(why) => return Verdict::Failed(why),
        };
        match Interpreter::new(&split.checks, options.clone()).run(rewrite::CHECKS, values) {
            Ok(_) => Verdict::Passed,
            Err(error) => Verdict::Failed(compile::with_causes(&error)),
        }
    }

    fn execute(&self, program: &[u8], stop: &AtomicBool) -> Result<Vec<Output>, String> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle().pop();
        let started = match waiting {
            Some(worker) => Ok(worker),
            None => Worker::start(&self.launch, stop),
        };
        let mut worker = started.map_err(|trouble| trouble.to_string())?;
        // In trouble the process goes with the worker, and the next case starts another.
        let answer = worker.execute(program, stop).map_err(|trouble| trouble.to_string())?;
        idle().push(worker);
        answer
    }
}

/// The plugin's short name and file, from a path or a name.
fn find(plugin: &Path) -> Result<(String, PathBuf), Failure> {
    let is_name = plugin.components().count() == 1 && !plugin.exists();
    let found = if is_name {
        let name = plugin.to_string_lossy();
        pjrt::discover::first(&Discovery::from_environment(), &name)
    } else {
        let only = Discovery { explicit: Some(plugin.into()), variables: BTreeMap::new(), python_timeout: None };
        pjrt::discover::plugins(&only).found.into_iter().find(|found| found.path == plugin)
    };
    found.map(|found| (found.name, found.path)).ok_or_else(|| {
        Failure::new(format!("{} is not a plugin", plugin.display()))
            .hint("--plugin takes the path of a PJRT plugin's shared library, or a name that `tpu info` lists")
    })
}

/// What a device gave, as values of the types the program has.
fn values(types: &[Type], outputs: Vec<Output>) -> Result<Vec<InterpreterValue>, String> {
    if types.len() != outputs.len() {
        return Err(format!("the device gave {} results, not {}", outputs.len(), types.len()));
    }
    let value = |(ty, output): (&Type, Output)| {
        let wrong = || format!("the device gave {} {:?} for {ty}", output.element_type, output.dims);
        let Type::Tensor(expected) = ty else { return Err(wrong()) };
        let ElementType::Plain(dtype) = expected.element else { return Err(wrong()) };
        if output.element_type != hlo_name(dtype) || output.dims[..] != expected.dims[..] {
            return Err(wrong());
        }
        let dims: Option<Vec<usize>> = output.dims.iter().map(|&d| usize::try_from(d).ok()).collect();
        let literal = dims.and_then(|dims| Literal::new(dtype, dims, output.bytes.clone())).ok_or_else(wrong)?;
        Ok(InterpreterValue::Tensor(TensorValue::from_literal(&literal)))
    };
    types.iter().zip(outputs).map(value).collect()
}

/// The name HLO has for an element type.
fn hlo_name(dtype: DType) -> String {
    match dtype {
        DType::Bool => "pred".into(),
        DType::C64 => "c64".into(),
        DType::C128 => "c128".into(),
        integer if integer.is_signed_integer() => format!("s{}", integer.bits()),
        integer if integer.is_integer() => format!("u{}", integer.bits()),
        float => float.name().to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_type_has_the_name_plugins_use() {
        for &dtype in DType::ALL {
            let name = hlo_name(dtype);
            assert!(pjrt::BufferType::from_name(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn results_of_another_type_are_refused() {
        let types = [Type::tensor([2], DType::I8)];
        let check = |element_type: &str, dims: &[i64], bytes: &[u8]| {
            let output = Output { element_type: element_type.into(), dims: dims.into(), bytes: bytes.into() };
            values(&types, vec![output]).is_ok()
        };
        assert!(check("s8", &[2], &[1, 2]));
        assert!(!check("u8", &[2], &[1, 2]));
        assert!(!check("s8", &[1], &[1]));
        assert!(!check("s8", &[2], &[1, 2, 3]));
        assert!(values(&types, Vec::new()).is_err());
    }
}
