//! How long one op takes on the device, and what it waits for: the roofline.

use serde::Serialize;
use xla::{CollectiveKind, PrimitiveType};

use crate::machine::{Machine, VECTOR_LANES};
use crate::torus::Group;
use crate::work::{Matmul, NarrowOperand, Work};

/// What limits an op, or a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Matrix units.
    Matrix,
    /// Vector units.
    Vector,
    /// Device memory.
    Hbm,
    /// Links between chips.
    Ici,
    /// Network between slices.
    Dcn,
    /// Link to the host.
    Host,
    /// Starting ops.
    Launch,
}

impl Bound {
    /// Every one.
    pub const ALL: [Bound; 7] =
        [Bound::Matrix, Bound::Vector, Bound::Hbm, Bound::Ici, Bound::Dcn, Bound::Host, Bound::Launch];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Matrix => "matrix units",
            Bound::Vector => "vector units",
            Bound::Hbm => "device memory",
            Bound::Ici => "chip links",
            Bound::Dcn => "data-center network",
            Bound::Host => "host link",
            Bound::Launch => "op launches",
        }
    }
}

/// Seconds each part of the device needs for an op; they work at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OpTime {
    /// Matrix units.
    pub matrix_s: f64,
    /// Vector units.
    pub vector_s: f64,
    /// Device memory.
    pub hbm_s: f64,
    /// What one part cannot hide of the other: the first block comes before any work, the last one goes after it, and both share VMEM.
    pub unhidden_s: f64,
    /// Fixed cost.
    pub launch_s: f64,
}

impl OpTime {
    /// The whole op.
    pub fn seconds(&self) -> f64 {
        self.matrix_s.max(self.vector_s).max(self.hbm_s) + self.unhidden_s + self.launch_s
    }

    /// What limits it.
    pub fn bound(&self) -> Bound {
        let most = self.matrix_s.max(self.vector_s).max(self.hbm_s);
        if most < self.launch_s {
            Bound::Launch
        } else if most == self.matrix_s {
            Bound::Matrix
        } else if most == self.hbm_s {
            Bound::Hbm
        } else {
            Bound::Vector
        }
    }
}

/// Share of vector work that transfers of the same op do not hide, and the other way round. A published trace of TPU7x: fusions take the
/// longer of both and 0.3 to 0.5 of the shorter; adds and fills of a v6e likewise.
const UNHIDDEN: f64 = 0.4;
/// Bytes that vector units store in a cycle: one register of 8 by 128 words.
const STORED_PER_CYCLE: f64 = 4.0 * VECTOR_LANES;
/// Seconds until a collective within a chip moves its first byte: all-gathers of 48 and 96 bytes in a published trace of TPU7x take 1.6 to 1.7 us.
const IN_CHIP_S: f64 = 1.6e-6;
/// From one op to the next where both sides are in VMEM.
const VMEM_LAUNCH_S: f64 = 20e-9;

impl Machine {
    /// Time of an op that is no collective and no custom kernel.
    pub fn op_time(&self, work: &Work) -> OpTime {
        let hbm_bytes = work.traffic.read.hbm + work.traffic.written.hbm;
        let is_matmul = !work.matmuls.is_empty();
        let matrix_s = match work.cycles {
            // The compiler prices matmuls well, everything else per element instead of per byte.
            Some(cycles) if is_matmul => {
                let priced = cycles as f64 / self.clock_hz / self.reach.cycles;
                // An operand that is converted is multiplied as what it becomes, whatever rate the compiler took.
                let is_converted = work.narrow.iter().any(|operand| self.conversion_ops(operand) > 0.0);
                if is_converted { priced.max(work.flops() / self.bf16_flops) } else { priced }
            }
            _ => work.matmuls.iter().map(|matmul| self.matmul_s(matmul)).sum::<f64>() / self.reach.in_a_model,
        };
        // Beside a matmul vector work hides in the compiler's estimate, but for operands that are converted on their way.
        let computing_s = if is_matmul {
            self.vector_s(work.narrow.iter().map(|operand| self.conversion_ops(operand)).sum(), 0.0)
        } else {
            let cycles_per_s = self.transcendentals / VECTOR_LANES;
            let storing_s = work.stored_bytes / (STORED_PER_CYCLE * cycles_per_s);
            self.vector_s(work.vector_ops, work.transcendentals).max(storing_s)
        };
        let vector_s = work.indexed_rows * self.reach.indexed_row_s
            + work.shuffle_cycles * VECTOR_LANES / self.transcendentals
            + computing_s;
        let hbm_share = if is_matmul { self.reach.hbm_of_matmuls } else { self.reach.hbm };
        let hbm_s = hbm_bytes / (self.hbm_bytes_per_s * hbm_share);
        let unhidden_s = if is_matmul { 0.0 } else { UNHIDDEN * vector_s.min(hbm_s) };
        OpTime { matrix_s, vector_s, hbm_s, unhidden_s, launch_s: self.launch_s(work) }
    }

    /// Before the first byte comes from HBM and after the last one goes there the core waits; ops on values in VMEM follow each other
    /// without a gap. A published trace of TPU7x: 10 to 20 ns for ops within VMEM, 0.5 to 0.6 us for one side in HBM, 1.2 us for both.
    pub(crate) fn launch_s(&self, work: &Work) -> f64 {
        let sides = [work.traffic.read.hbm, work.traffic.written.hbm];
        VMEM_LAUNCH_S + sides.iter().filter(|bytes| **bytes > 0.0).count() as f64 * self.reach.launch_s
    }

    /// Time of a custom kernel whose work nobody knows: the compiler's static cycles of its code where it gives them, which a full
    /// compilation does, else the bytes of its operands.
    pub(crate) fn kernel_time(&self, work: &Work) -> OpTime {
        let time = self.op_time(work);
        let cycles_s = work.cycles.map_or(0.0, |cycles| cycles as f64 / self.clock_hz);
        OpTime { matrix_s: time.matrix_s.max(cycles_s), ..time }
    }

    /// Vector operations that make an operand of a matmul what the matrix units take; none where they take it as it is.
    ///
    /// By the static cycles of decode matmuls of 8 by 4096 by 4096 (`benchmarks/results/quant-tpu.md`), which are all
    /// conversion: for an element they take 3.1 operations of `i8` on v5e and 2.5 on v6e, 4.1 and 3.6 of `i4`, 8.4 and 7.6 of
    /// `f8E4M3FN`, 13.9, 12.6 and on TPU7x 13.2 of `f4E2M1FN`.
    pub(crate) fn conversion_ops(&self, operand: &NarrowOperand) -> f64 {
        use PrimitiveType::{F4E2M1Fn, S4, S8, U4, U8};
        let is_integer = |element: PrimitiveType| matches!(element, S8 | U8 | S4 | U4);
        // Integers beside floats become floats; floats of 8 bits enter beside any other where the units know them.
        let is_mixed = is_integer(operand.element) != is_integer(operand.beside);
        if self.is_double_rate(operand.element) && !(is_mixed && is_integer(operand.element)) {
            return 0.0;
        }
        // With MXUs of 128 rows, and of 256.
        let each = match operand.element {
            S8 | U8 => [3.0, 2.6],
            S4 | U4 => [4.0, 3.6],
            F4E2M1Fn => [14.0, 13.0],
            element if element.bits() < 8 => [5.0, 4.5],
            _ => [8.4, 7.6],
        };
        each[usize::from(self.mxu_edge > 128)] * operand.elements
    }

    /// Time of a program of one op.
    pub(crate) fn alone_s(&self, work: &Work) -> f64 {
        let time = match work.matmuls[..] {
            [matmul] => self.matmul_alone(&matmul, work),
            _ => self.op_time(work),
        };
        time.seconds() + self.reach.program_s
    }

    /// Time of a collective among a group, from its first to its last byte. Links within a chip are nearly as fast as HBM: there the
    /// bytes that come from HBM and go to it count too.
    pub(crate) fn collective_s(&self, kind: CollectiveKind, payload_bytes: u64, group: &Group, hbm_bytes: f64) -> f64 {
        let rate = self.torus.link_bytes_per_s * self.reach.ici;
        let transfer_s = group.transfer_s(kind, payload_bytes, rate);
        if group.is_within_chip() {
            return transfer_s + IN_CHIP_S + hbm_bytes / (self.hbm_bytes_per_s * self.reach.hbm);
        }
        // A permute is a copy to a neighbour; everything else is set up between all members.
        let start_s = if kind == CollectiveKind::CollectivePermute { 0.0 } else { self.reach.collective_s };
        transfer_s + start_s + group.hops() as f64 * self.reach.hop_s
    }

    /// Time of vector arithmetic.
    pub(crate) fn vector_s(&self, ops: f64, transcendentals: f64) -> f64 {
        ops / self.vector_ops + transcendentals / self.transcendentals
    }

    /// Time of a matmul without the compiler's estimate: sizes rounded up to the MXU.
    pub(crate) fn matmul_s(&self, matmul: &Matmul) -> f64 {
        let padded = |size: u64| {
            let edge = self.mxu_edge;
            if size == 0 { 1.0 } else { (size.div_ceil(edge) * edge) as f64 / size as f64 }
        };
        let waste = padded(matmul.contracted) * padded(matmul.columns);
        matmul.flops * waste / (self.matmul_flops(matmul.element) * self.reach.mxu)
    }
}
