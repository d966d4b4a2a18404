//! A matmul that is a program of its own: what the compiler brings into VMEM before it begins, passes through the matrix units, windows.

use kernel::LEAST_PASS;

use crate::machine::Machine;
use crate::op_time::OpTime;
use crate::work::{Matmul, Work};

/// Share of VMEM that an argument may take which the compiler prefetches before the program begins; the rest is for windows.
const PREFETCH_SHARE: f64 = 0.8;
/// Where neither side fits into VMEM, what is summed over is split into windows of as many bytes, and partial sums wait in VMEM.
const SPLIT_BYTES: f64 = 1024.0;
/// Cycles to take a register of partial sums up again and put it back, as far as the passes do not hide it: 8192 to 16384 cubed on v6e 0.24
/// to 0.43, on v5e 0.1 to 0.33. Published matmuls with results of 16 bits show nothing of it (8192 cubed on v6e, 32768 cubed on TPU7x).
const CYCLES_PER_PARTIAL_SUM: f64 = 0.3;
/// Bytes of a window: the first one is read before the first pass, the last one written after the last.
const WINDOW_BYTES: f64 = 4e6;

impl Machine {
    /// Time of a matmul in a program of its own.
    ///
    /// The compiler marks one argument as *cross-program prefetch*: the largest that fits is copied into VMEM while the call is on its
    /// way, and the program finds it there. So 64 by 4096 by 11008 takes 20 us on a v6e, which could not read 90 MB in less than 55.
    pub(crate) fn matmul_alone(&self, matmul: &Matmul, work: &Work) -> OpTime {
        let (columns, contracted) = (matmul.columns.max(1) as f64, matmul.contracted.max(1) as f64);
        let rows = (matmul.flops / (2.0 * columns * contracted)).max(1.0);
        let width = f64::from(matmul.element.bits()) / 8.0;
        // With one row, column or summed element nothing is left for the matrix units.
        let is_matmul = rows > 1.5 && matmul.columns > 1 && matmul.contracted > 1;
        let sides = [rows * contracted * width, contracted * columns * width];
        let fitting = sides.into_iter().filter(|bytes| *bytes <= PREFETCH_SHARE * self.vmem_bytes);
        let prefetched = if is_matmul { fitting.fold(0.0, f64::max) } else { 0.0 };
        let read = (work.traffic.read.hbm - prefetched).max(0.0);
        let written = work.traffic.written.hbm;
        let rate = self.hbm_bytes_per_s * self.reach.hbm_of_matmuls;
        let passes_s = self.passes_s(matmul, rows, columns).min(self.passes_s(matmul, columns, rows));
        let is_split = prefetched == 0.0 && written >= 4.0 * rows * columns;
        let splits = if is_split { contracted * width / SPLIT_BYTES } else { 0.0 };
        let partial_sums_s = splits * rows * columns * CYCLES_PER_PARTIAL_SUM / self.transcendentals;
        let windows_s = (read.min(WINDOW_BYTES) + written.min(WINDOW_BYTES)) / rate;
        OpTime {
            matrix_s: if is_matmul { passes_s + partial_sums_s + windows_s } else { 0.0 },
            vector_s: 0.0,
            hbm_s: (read + written) / rate,
            unhidden_s: 0.0,
            launch_s: self.launch_s(work),
        }
    }

    /// Rows stream past tiles of the other side. What a pass leaves is added up by other units, as often for types at twice the rate as
    /// for bf16: that is what keeps matmuls from the peak.
    fn passes_s(&self, matmul: &Matmul, rows: f64, columns: f64) -> f64 {
        let edge = self.mxu_edge as f64;
        let padded = |size: f64, to: f64| (size / to).ceil() * to;
        let rows = padded(rows, 8.0).max(LEAST_PASS * edge);
        let flops = 2.0 * rows * padded(columns, edge) * padded(matmul.contracted as f64, edge);
        flops / self.matmul_flops(matmul.element) + flops * (1.0 / self.reach.mxu - 1.0) / self.bf16_flops
    }
}

#[cfg(test)]
mod tests {
    use xla::{PrimitiveType, SpaceBytes, Traffic};

    use super::*;

    fn seconds(slice: &str, (m, n, k): (u64, u64, u64)) -> f64 {
        let flops = 2.0 * m as f64 * n as f64 * k as f64;
        let matmul = Matmul { flops, element: PrimitiveType::Bf16, contracted: k, columns: n };
        let read = SpaceBytes { hbm: 2.0 * (m * k + k * n) as f64, ..SpaceBytes::default() };
        let written = SpaceBytes { hbm: 4.0 * (m * n) as f64, ..SpaceBytes::default() };
        let work = Work { matmuls: vec![matmul], traffic: Traffic { read, written }, ..Work::default() };
        Machine::of(&slice.parse().unwrap()).matmul_alone(&matmul, &work).seconds()
    }

    /// Published times, without the call: `gemm-v5e-v6e-even.csv`.
    #[test]
    fn matmuls_take_what_was_measured() {
        for (slice, sides, microseconds) in [
            // Weights that were prefetched, whichever side they are, and weights that are too large for it.
            ("v6e-1", (64, 11008, 4096), 19.8),
            ("v6e-1", (8, 16384, 8192), 181.0),
            ("v5e-1", (16384, 16, 4096), 186.0),
            ("v6e-1", (1, 4096, 4096), 23.0),
            ("v6e-1", (6144, 6144, 6144), 563.0),
            ("v6e-1", (8192, 8192, 8192), 1587.0),
            ("v5e-1", (6144, 6144, 6144), 2412.0),
        ] {
            let error = seconds(slice, sides) / (microseconds / 1e6) - 1.0;
            assert!(error.abs() < 0.15, "{slice} {sides:?}: {error}");
        }
    }

    #[test]
    fn sides_may_be_swapped() {
        let (wide, tall) = (seconds("v6e-1", (64, 4096, 4096)), seconds("v6e-1", (4096, 64, 4096)));
        assert!((wide / tall - 1.0).abs() < 1e-9, "{wide} {tall}");
    }
}
