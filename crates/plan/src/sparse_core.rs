//! What SparseCores take to look rows up, beside the TensorCores.
//!
//! The compiler gives no cycles for SparseCores, with and without `--full`. The one measurement is that of JAX's guide "SparseCore Kernel
//! Writing": with all 16 subcores of a core, 4,194,304 rows of 512 bytes are gathered and written in 4.05 ms, on a chip with 16 lanes and two
//! cores for each device (TPU7x). Its kernel shares ids between subcores, not between cores. A subcore then moves a line in 15.4 ns.
//! The same is taken for other generations, which nobody measured. The compiler names the cores that each of its gathers and scatters runs
//! on. Our own look-ups were never timed on a TPU: a row of theirs takes at least what an indexed row takes on a TensorCore.

use kernel::SparseCores;
use xla::{HloModule, InstructionId, Opcode, PrimitiveType};

use crate::machine::Machine;
use crate::work::Work;

/// The thread on which the compiler puts what SparseCores do.
pub(crate) const THREAD: &str = "sparsecore";
/// Bytes of a row that lie next to each other in a tiled array: 128 words.
const LINE_BYTES: f64 = 512.0;
/// Seconds in which a subcore fetches a line and writes it.
const LINE_S: f64 = 15.4e-9;
/// Seconds until SparseCores begin: the same guide adds one to 2 MiB in 120 us on them and in 113 on a TensorCore, of which about 2 are
/// work on either.
const START_S: f64 = 5e-6;

/// Rows that an instruction looks up on SparseCores, and the bytes of each; `None` for all but our kernel.
fn looked_up(module: &HloModule, id: InstructionId) -> Option<(f64, f64)> {
    let instruction = module.instruction(id);
    if *instruction.opcode() != Opcode::CustomCall || !is_lookup(module, id) {
        return None;
    }
    let result = instruction.shape().leaves().next()?;
    let rows = *result.dimensions().first()? as f64;
    (rows > 0.0).then(|| (rows, result.byte_size() as f64 / rows))
}

/// Whether a call is our kernel, by what it takes and gives: a table, ids, and as many rows of the table.
fn is_lookup(module: &HloModule, id: InstructionId) -> bool {
    let instruction = module.instruction(id);
    let shapes: Vec<_> = instruction.operands().iter().map(|&operand| module.instruction(operand).shape()).collect();
    let (&[table, ids], result) = (&shapes[..], instruction.shape()) else { return false };
    !result.is_tuple()
        && instruction.attributes().custom_call_target == kernel::TARGET
        && ids.dimensions() == result.dimensions().get(..1).unwrap_or_default()
        && table.dimensions().len() == 2
        && ids.element_type() == PrimitiveType::S32
        && table.dimensions().get(1) == result.dimensions().get(1)
}

impl Machine {
    /// Seconds of a look-up on SparseCores; `None` for what is none, and for generations without them.
    pub(crate) fn lookup_s(&self, module: &HloModule, id: InstructionId) -> Option<f64> {
        let (rows, row_bytes) = looked_up(module, id)?;
        let workers = SparseCores::of(self.generation).ok()?.workers() as f64;
        Some(self.rows_s(workers, rows, row_bytes).max(START_S + rows * self.reach.indexed_row_s))
    }

    /// Seconds of rows that the compiler gathers or scatters on so many SparseCores, all of a device where it does not say; `None` for
    /// other work, and for generations without them.
    pub(crate) fn offloaded_rows_s(&self, work: &Work, cores: usize) -> Option<f64> {
        let all = SparseCores::of(self.generation).ok()?;
        if work.indexed_rows <= 0.0 {
            return None;
        }
        let cores = if cores == 0 { all.cores } else { cores.min(all.cores) };
        let (read, written) = (work.traffic.read.hbm, work.traffic.written.hbm);
        let row_bytes = (read.min(written) / work.indexed_rows).max(1.0);
        let lines = work.indexed_rows * (row_bytes / LINE_BYTES).ceil();
        let hbm_s = (read + written) / (self.hbm_bytes_per_s * self.reach.hbm);
        Some(START_S + (lines * LINE_S / (cores * all.subcores) as f64).max(hbm_s))
    }

    fn rows_s(&self, workers: f64, rows: f64, row_bytes: f64) -> f64 {
        let lines = rows * (row_bytes / LINE_BYTES).ceil();
        // In and out; a part of a line is a whole one.
        let bytes = 2.0 * lines * LINE_BYTES;
        START_S + (lines * LINE_S / workers).max(bytes / (self.hbm_bytes_per_s * self.reach.hbm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 524,288 rows of 2816 bf16 on TPU7x: 11 lines each, by 16 subcores of each core that the compiler names.
    #[test]
    fn offloaded_rows_take_the_cores_they_run_on() {
        let machine = Machine::of(&"tpu7x-2".parse().unwrap());
        let (rows, row_bytes) = (524_288.0, 5632.0);
        let mut work = Work { indexed_rows: rows, ..Work::default() };
        (work.traffic.read.hbm, work.traffic.written.hbm) = (rows * row_bytes, rows * row_bytes);
        let one = machine.offloaded_rows_s(&work, 1).unwrap();
        let both = machine.offloaded_rows_s(&work, 2).unwrap();
        assert!((one - START_S - rows * 11.0 * LINE_S / 16.0).abs() < 1e-9, "{one}");
        assert!((one - START_S) / (both - START_S) > 1.99);
        assert_eq!(machine.offloaded_rows_s(&work, 0), Some(both));
        assert_eq!(machine.offloaded_rows_s(&Work::default(), 1), None);
    }

    #[test]
    fn lines_are_shared_between_subcores_until_hbm_is_full() {
        let machine = Machine::of(&"v6e-1".parse().unwrap());
        let few = machine.rows_s(8.0, 4096.0, 3072.0);
        assert!((few - START_S - 4096.0 * 6.0 * LINE_S / 8.0).abs() < 1e-12, "{few}");
        // A row of 4 bytes takes a line.
        assert_eq!(machine.rows_s(32.0, 100.0, 4.0), machine.rows_s(32.0, 100.0, 512.0));
        // More subcores than memory can feed.
        let many = machine.rows_s(1e6, 4096.0, 3072.0);
        assert!((many - START_S - 2.0 * 4096.0 * 3072.0 / (machine.hbm_bytes_per_s * machine.reach.hbm)).abs() < 1e-12);
    }
}
