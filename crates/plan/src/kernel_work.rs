//! The work of a custom kernel, and how long it takes.

use crate::machine::Machine;
use crate::op_time::OpTime;
use crate::work::{Matmul, NarrowOperand, Work};

/// What grouped matmuls are.
pub(crate) const GROUPED: &str = "grouped matmul";
/// What kernels of the loss are.
pub(crate) const LOSS: &str = "loss";
/// Share of the rate of a plain matmul that a kernel of the loss reaches: its exponentials are not all hidden. By the
/// compiler's static cycles of both (`docs/kernel-cycles.md`), on MXUs of 128 and of 256 rows.
const LOSS_REACH: [f64; 2] = [0.95, 0.87];
/// Vector operations that widen a code and bring it into the matrix units, as slots that pass meanwhile. By the static cycles of
/// 8 by 4096 by 4096 and 8 by 8192 by 28672 on v5p, v6e and TPU7x (`benchmarks/results/quant-tpu.md`): 2.2 to 3.7.
pub(crate) const OPS_PER_CODE: f64 = 2.6;

/// What a kernel computes.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelWork {
    /// Family, as text.
    pub family: &'static str,
    /// Matmuls, if any.
    pub(crate) matmuls: Vec<Matmul>,
    pub(crate) vector_ops: f64,
    pub(crate) transcendentals: f64,
    /// Operands that its code converts to the type of its matmuls, each as often as it does so.
    pub(crate) converted: Vec<NarrowOperand>,
    /// Share of the rate of a plain matmul that its matmuls reach; of grouped ones the share of what is computed that was asked for.
    pub(crate) reach: f64,
    /// Bytes it says it moves: blocks that come back are read again.
    pub(crate) hbm_bytes: f64,
    /// Bytes it touches of operands that it does not read whole, such as a cache of pages; all of them otherwise.
    pub(crate) touched_bytes: Option<f64>,
    /// Rows that meet each matrix in the MXU, where they may be fewer than it has: loading the matrix takes as long as a full one.
    pub(crate) rows: Option<f64>,
    pub(crate) order: KernelOrder,
}

/// How the matrix and vector work of a kernel lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelOrder {
    /// Beside each other.
    SideBySide,
    /// Vector work waits for the matmul of its block, and the next matmul for it.
    OneAfterTheOther,
}

impl KernelWork {
    /// A kernel of some matmuls.
    pub(crate) fn of(family: &'static str, matmuls: Vec<Matmul>) -> KernelWork {
        KernelWork {
            family,
            matmuls,
            vector_ops: 0.0,
            transcendentals: 0.0,
            converted: Vec::new(),
            reach: 1.0,
            hbm_bytes: 0.0,
            touched_bytes: None,
            rows: None,
            order: KernelOrder::SideBySide,
        }
    }

    pub(crate) fn with_vector(self, vector_ops: f64, transcendentals: f64) -> KernelWork {
        KernelWork { vector_ops, transcendentals, ..self }
    }

    pub(crate) fn touching(self, bytes: f64) -> KernelWork {
        KernelWork { touched_bytes: Some(bytes), ..self }
    }

    pub(crate) fn of_rows(self, rows: f64) -> KernelWork {
        KernelWork { rows: Some(rows), ..self }
    }

    pub(crate) fn in_order(self, order: KernelOrder) -> KernelWork {
        KernelWork { order, ..self }
    }

    /// Operations of its matmuls.
    pub fn flops(&self) -> f64 {
        self.matmuls.iter().map(|matmul| matmul.flops).sum()
    }

    /// Time on a machine; matrix and vector units work side by side.
    pub fn time(&self, machine: &Machine, work: &Work) -> OpTime {
        let reach = match self.family {
            LOSS => LOSS_REACH[usize::from(machine.mxu_edge > 128)],
            GROUPED => machine.reach.grouped * self.reach,
            _ => self.reach,
        };
        let plain = machine.op_time(work);
        let conversion = |operand: &NarrowOperand| machine.conversion_ops(operand).max(OPS_PER_CODE * operand.elements);
        let conversions: f64 = self.converted.iter().map(conversion).sum();
        let vector_s = machine.vector_s(self.vector_ops + conversions, self.transcendentals);
        // Bytes of a kernel that multiplies go mostly one way, as those of a matmul do.
        let share = if self.matmuls.is_empty() { machine.reach.hbm } else { machine.reach.hbm_of_matmuls };
        let hbm_rate = machine.hbm_bytes_per_s * share;
        let operands_s = match self.touched_bytes {
            Some(bytes) => bytes / hbm_rate,
            None => plain.hbm_s * machine.reach.hbm / share,
        };
        let hbm_s = operands_s.max(self.hbm_bytes / hbm_rate);
        if self.order == KernelOrder::OneAfterTheOther {
            // What a matmul in a model loses to work beside it is counted by itself here.
            let matrix_s = self.matmuls.iter().map(|matmul| machine.matmul_s(matmul)).sum::<f64>() / reach;
            return OpTime { matrix_s: matrix_s + vector_s, vector_s, hbm_s, ..plain };
        }
        let loading = self.rows.map_or(1.0, |rows| (machine.mxu_edge as f64 / rows.max(1.0)).max(1.0));
        OpTime {
            matrix_s: self.matmuls.iter().map(|matmul| machine.matmul_s(matmul)).sum::<f64>() * loading
                / (machine.reach.in_a_model * reach),
            vector_s,
            hbm_s,
            ..plain
        }
    }
}
