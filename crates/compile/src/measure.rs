//! Figures of a report, read from what the compiler left behind, which is decoded here and handed on.

use xla::{BufferAssignment, HloModule, MemorySpace};

use crate::blob;
use crate::cache::Blob;
use crate::optimized::{OptimizedProgram, decode_buffers, decode_module, find};
use crate::report::{Report, ReportBuffer, ReportCollective, ReportMemory};
use crate::worker::Compiled;

/// How many of the largest buffers a report names.
const LARGEST: usize = 12;

/// Fills the figures that come from the compiler's own statistics and from the compiled program, and gives that where all of it
/// could be read.
pub(crate) fn fill(report: &mut Report, compiled: &Compiled, blobs: &[Blob]) -> Option<OptimizedProgram> {
    report.memory.limit = compiled.hbm_limit_bytes.map_or(0, unsigned);
    report.compiler_flops = compiled.flops;
    report.bytes_accessed = compiled.bytes_accessed;
    report.fingerprint = compiled.fingerprint.clone();
    report.compile_seconds = compiled.compile_seconds;
    report.executable_bytes = find(blobs, blob::EXECUTABLE).map(|b| b.len() as u64);
    report.notes.extend(compiled.notes.iter().cloned());
    if let Some(stats) = &compiled.memory {
        report.memory = ReportMemory {
            limit: report.memory.limit,
            arguments: unsigned(stats.arguments),
            outputs: unsigned(stats.outputs),
            aliased: unsigned(stats.aliased),
            temporaries: unsigned(stats.temporaries),
            constants: None,
            code: Some(unsigned(stats.code)),
            peak: stats.peak.map(unsigned),
            total: stats.total_allocation.map_or_else(
                || unsigned(stats.arguments + stats.outputs - stats.aliased + stats.temporaries + stats.code),
                unsigned,
            ),
            host_temporaries: Some(unsigned(stats.host_temporaries)),
        };
    }
    let module = match decode_module(blobs) {
        Ok(module) => module?,
        Err(error) => {
            report.notes.push(format!("the optimized program could not be read: {error}"));
            return None;
        }
    };
    work(report, &module);
    match decode_buffers(blobs) {
        Ok(assignment) => {
            if let Some(assignment) = &assignment {
                buffers(report, &module, assignment);
            }
            Some(OptimizedProgram { module, buffers: assignment })
        }
        Err(error) => {
            report.notes.push(format!("the buffer assignment could not be read: {error}"));
            None
        }
    }
}

fn unsigned(bytes: i64) -> u64 {
    u64::try_from(bytes).unwrap_or(0)
}

fn work(report: &mut Report, module: &HloModule) {
    let executions = module.executions();
    let cost = module.cost(&executions);
    report.dot_flops = Some(cost.matmul_flops + cost.kernel_flops);
    let each = module.collectives(&executions);
    report.collectives = module
        .collective_totals(&executions)
        .iter()
        .map(|total| ReportCollective {
            kind: total.kind.to_string(),
            instructions: total.instructions,
            executions: total.executions,
            bytes: total.payload_bytes,
            group_size: each.iter().filter(|c| c.kind == total.kind).map(|c| c.group_size).max().unwrap_or(0),
        })
        .collect();
    for (loop_, why) in executions.unknown_loops() {
        let name = module.instruction(loop_).name();
        report.notes.push(format!("loop {name} is counted once: its trip count is unknown ({why})"));
    }
}

fn buffers(report: &mut Report, module: &HloModule, assignment: &BufferAssignment) {
    let summary = assignment.summary(MemorySpace::HBM);
    report.memory.arguments = summary.argument_bytes;
    report.memory.outputs = summary.output_bytes;
    report.memory.aliased = summary.aliased_bytes;
    report.memory.constants = Some(summary.constant_bytes);
    report.memory.temporaries = summary.temporary_bytes;
    report.memory.total = summary.total_bytes();
    report.memory.host_temporaries = Some(assignment.summary(MemorySpace::HOST).temporary_bytes);
    report.largest_buffers = assignment
        .largest(MemorySpace::HBM, LARGEST)
        .into_iter()
        .map(|(_, assigned)| {
            let instruction = assignment.defining_instruction(module, assigned.buffer);
            ReportBuffer {
                instruction: assignment.describe(module, assigned.buffer),
                shape: instruction.map_or_else(String::new, |id| module.instruction(id).shape().to_string()),
                bytes: assigned.size_bytes,
                source: instruction
                    .and_then(|id| module.instruction(id).metadata())
                    .map(|m| m.op_name.clone())
                    .filter(|name| !name.is_empty()),
            }
        })
        .collect();
}
