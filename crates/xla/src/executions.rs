//! How often each computation runs in one execution of the program, loops multiplied through the call graph.

use crate::module::{ComputationId, HloModule, InstructionId};
use crate::opcode::Opcode;
use crate::trip_count::TripCount;

/// Executions per step of each computation.
#[derive(Clone, Debug)]
pub struct Executions {
    counts: Vec<u64>,
    loops: Vec<(InstructionId, TripCount)>,
    conditionals: Vec<InstructionId>,
}

impl Executions {
    /// How often a computation runs. Functions applied per element (`to_apply` of a reduction, a sort, a collective)
    /// count 0.
    pub fn of(&self, computation: ComputationId) -> u64 {
        self.counts.get(computation.0 as usize).copied().unwrap_or(0)
    }

    /// How often an instruction runs.
    pub fn of_instruction(&self, module: &HloModule, id: InstructionId) -> u64 {
        self.of(module.instruction(id).computation)
    }

    /// Every loop that runs, callers first, with its trip count.
    pub fn loops(&self) -> &[(InstructionId, TripCount)] {
        &self.loops
    }

    /// Loops whose trip count is not known. They are counted as one iteration, so totals are lower bounds.
    pub fn unknown_loops(&self) -> impl Iterator<Item = (InstructionId, &str)> {
        self.loops.iter().filter_map(|(id, trips)| match trips {
            TripCount::Unknown { reason } => Some((*id, reason.as_str())),
            TripCount::Known(_) => None,
        })
    }

    /// Conditionals that run. All their branches are counted, so totals are upper bounds.
    pub fn conditionals(&self) -> &[InstructionId] {
        &self.conditionals
    }
}

impl HloModule {
    /// Counts executions from the entry computation downwards.
    pub fn executions(&self) -> Executions {
        let mut counts = vec![0u64; self.computations.len()];
        counts[self.entry.0 as usize] = 1;
        let (mut loops, mut conditionals) = (Vec::new(), Vec::new());
        let mut callers_first = self.callees_first();
        callers_first.reverse();
        for computation in callers_first {
            let here = counts[computation.0 as usize];
            if here == 0 {
                continue;
            }
            for &id in self.order(computation) {
                let instruction = self.instruction(id);
                let mut add = |callee: ComputationId, times: u64| {
                    let count = &mut counts[callee.0 as usize];
                    *count = count.saturating_add(here.saturating_mul(times));
                };
                match (&instruction.opcode, &*instruction.called) {
                    (Opcode::While, &[body, condition]) => {
                        let trips = self.trip_count(id);
                        let n = if let TripCount::Known(n) = trips { n } else { 1 };
                        loops.push((id, trips));
                        add(body, n);
                        add(condition, n.saturating_add(1));
                    }
                    (Opcode::Conditional, branches) => {
                        conditionals.push(id);
                        branches.iter().for_each(|&branch| add(branch, 1));
                    }
                    // `async-update` and `async-done` name the computation that `async-start` already ran.
                    (Opcode::Fusion | Opcode::Call | Opcode::AsyncStart | Opcode::CustomCall, callees) => {
                        callees.iter().for_each(|&callee| add(callee, 1));
                    }
                    _ => {}
                }
            }
        }
        Executions { counts, loops, conditionals }
    }
}
