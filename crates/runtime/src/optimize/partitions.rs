//! Programs for several devices tried on the CPU: every partition runs its own program on its parts, as devices would.

use std::sync::Arc;

use compile::Program;
use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions, PartitionRuns, Spread};
use tensor::Literal;

use crate::error::Error;

/// Partitions that run apart; of more, one run computes for all of them.
const MOST_APART: usize = 32;

/// A partitioned program, compiled for the CPU.
pub(super) struct PartitionedProgram {
    cpu: Arc<Cpu>,
    compiled: Compiled,
}

impl PartitionedProgram {
    pub(super) fn new(program: &Program, num_partitions: usize) -> Result<PartitionedProgram, Error> {
        let cpu = Cpu::new(None);
        let partitions = if num_partitions <= MOST_APART { PartitionRuns::Apart } else { PartitionRuns::Together };
        let spread = Spread { num_replicas: 1, num_partitions };
        let options = EngineOptions { spread, partitions, ..EngineOptions::default() };
        let compiled = Compiled::from_module(&cpu, program.verified().clone(), &options).map_err(failed)?;
        Ok(PartitionedProgram { cpu, compiled })
    }

    /// Whole results from whole arguments.
    pub(super) fn run(&self, samples: &[Arc<Literal>]) -> Result<Vec<Literal>, Error> {
        let partitions = self.compiled.spread().num_partitions;
        let mut devices: Vec<Vec<Array>> = vec![Vec::with_capacity(samples.len()); partitions];
        for (whole, sharding) in samples.iter().zip(self.compiled.argument_shardings()) {
            let parts = sharding.split(whole).map_err(failed)?;
            for (device, part) in devices.iter_mut().zip(&parts) {
                device.push(Array::from_literal(self.cpu.memory(), part).map_err(failed)?);
            }
        }
        let results = self.compiled.run(devices, &InterpreterOptions::default()).map_err(failed)?;
        let join = |(n, sharding): (usize, &cpu::Sharding)| {
            let parts: Vec<Literal> =
                results.iter().filter_map(|list| list.get(n)).map(|array| array.to_literal()).collect();
            sharding.join(&parts, 0).map_err(failed)
        };
        self.compiled.result_shardings().iter().enumerate().map(join).collect()
    }
}

fn failed(error: cpu::Error) -> Error {
    Error::Optimization(format!("the CPU device does not run it: {error}"))
}
