//! Matmul of few rows with a weight of codes and scales by group: codes are widened in vector memory, block by block, so that no
//! wider weight is ever written.
//!
//! Groups share a pass through the matrix units: activations of a group have rows of their own, with zeros at the places of other
//! groups. Codes of 4 bits become `bf16` by three bit operations for two of them: placed in the mantissa of 128 they read as
//! 128 + 8 + code, and the sum of the activations times 136 is subtracted afterwards.

mod composite;
mod matmul;

pub use composite::{decomposition, prepared};
pub(super) use composite::{matmul_for, matmul_plain, prepared_for};
pub use matmul::matmul;

use chips::Generation;
use tensor::{DType, Spec};

use super::divisor;
use crate::cost::packed_bytes;
use crate::error::Error;
use crate::kernel::CostEstimate;

const KERNEL: &str = "quantized matmul";

/// Rows that fill an MXU of 256; on those of 128 it costs nothing.
const DEPTH: usize = 256;
/// Most rows of activations: with more the compiler's own matmul of a dequantized weight is faster.
const MOST_ROWS: usize = 256;
/// Bytes of a block of codes. Larger ones take fewer steps, of some 600 cycles each, and longer until the first has arrived; by
/// the static cycles of `benchmarks/results/quant-tpu.md`.
const BLOCK_BYTES: u64 = 4 << 20;
/// Longest block: every part of it is written out in the body.
const MOST_INNER: usize = 8192;
/// Widths of blocks, best first.
const COLUMNS: [usize; 4] = [1024, 512, 256, 128];

/// Shapes of a matmul: `[rows, inner] x [inner, columns] -> [rows, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizedMatmul {
    /// Rows of activations.
    pub rows: usize,
    /// Input features.
    pub inner: usize,
    /// Output features.
    pub columns: usize,
    /// Input features that share a scale.
    pub group: usize,
    /// Type of the activations.
    pub x: DType,
    /// Type of the codes.
    pub codes: DType,
}

/// Tile sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizedTiles {
    /// Input features.
    pub inner: usize,
    /// Output features.
    pub columns: usize,
}

impl QuantizedTiles {
    /// Sizes as far as they divide, largest first.
    pub fn preferred(shape: &QuantizedMatmul, generation: Generation) -> Option<QuantizedTiles> {
        let has_room = generation.spec().memory.vmem_bytes_per_core.value >= 32 << 20;
        let most_bytes = if has_room { BLOCK_BYTES } else { BLOCK_BYTES / 8 };
        // Blocks of scales have whole tiles of 8 rows, or all rows.
        let step = (8 * shape.group).next_multiple_of(shape.depth());
        COLUMNS.iter().find_map(|&most_columns| {
            let columns = divisor(shape.columns, 128, most_columns)?;
            let row_bytes = columns as u64 * u64::from(shape.codes.bits()) / 8;
            let most = usize::try_from(most_bytes / row_bytes.max(1)).unwrap_or(MOST_INNER).min(MOST_INNER);
            let whole = Some(shape.inner).filter(|inner| *inner <= most);
            Some(QuantizedTiles { inner: whole.or_else(|| divisor(shape.inner, step, most))?, columns })
        })
    }
}

impl QuantizedMatmul {
    /// Input features of one pass through the matrix units.
    pub(crate) fn depth(&self) -> usize {
        let group = self.group.max(1);
        if self.inner.is_multiple_of(DEPTH) && (DEPTH.is_multiple_of(group) || group.is_multiple_of(DEPTH)) {
            return DEPTH;
        }
        [256, 128, 64, 32].into_iter().find(|&depth| group.is_multiple_of(depth)).unwrap_or(group)
    }

    /// Groups of one pass.
    pub(crate) fn parts(&self) -> usize {
        (self.depth() / self.group.max(1)).max(1)
    }

    /// Rows of activations of one group, in whole tiles.
    pub(crate) fn padded_rows(&self) -> usize {
        self.rows.next_multiple_of(if self.parts() > 1 { 8 } else { 16 })
    }

    /// Whether codes are placed in the mantissa of a larger number.
    pub(crate) fn is_offset(&self) -> bool {
        self.codes == DType::I4
    }

    fn check(&self, tiles: &QuantizedTiles) -> Result<(), Error> {
        self.check_shape()?;
        let refuse = |message: String| Err(Error::Shape { kernel: KERNEL, message });
        let unit = self.group.max(self.depth());
        if tiles.inner == 0 || !self.inner.is_multiple_of(tiles.inner) || !tiles.inner.is_multiple_of(unit) {
            return refuse(format!(
                "tiles of {} input features, {} and groups of {}",
                tiles.inner, self.inner, self.group
            ));
        }
        if tiles.columns == 0 || !self.columns.is_multiple_of(tiles.columns) {
            return refuse(format!("tiles of {} output features do not divide {}", tiles.columns, self.columns));
        }
        Ok(())
    }

    fn check_shape(&self) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::Shape { kernel: KERNEL, message });
        let tile = match self.codes {
            DType::I4 => 64,
            DType::I8 | DType::F8E4M3FN | DType::F8E5M2 => 32,
            other => return refuse(format!("codes of {other}")),
        };
        if !matches!(self.x, DType::BF16 | DType::F32) {
            return refuse(format!("activations of {}", self.x));
        }
        if self.group == 0 || !self.group.is_multiple_of(tile) || !self.inner.is_multiple_of(self.group) {
            let message =
                format!("groups of {} of {} input features: multiples of {tile} that divide", self.group, self.inner);
            return refuse(message);
        }
        if self.rows == 0 || self.rows > MOST_ROWS {
            return refuse(format!("{} rows of activations: at most {MOST_ROWS}", self.rows));
        }
        Ok(())
    }

    /// Activations as the kernel reads them.
    pub(crate) fn prepared_spec(&self) -> Spec {
        Spec::new(DType::BF16, [self.parts() * self.padded_rows(), self.inner])
    }

    pub(crate) fn codes_spec(&self) -> Spec {
        Spec::new(self.codes, [self.inner, self.columns])
    }

    pub(crate) fn scales_spec(&self) -> Spec {
        Spec::new(DType::F32, [self.inner / self.group.max(1), self.columns])
    }

    pub(crate) fn out_spec(&self) -> Spec {
        Spec::new(DType::F32, [self.rows, self.columns])
    }

    pub(crate) fn cost(&self) -> CostEstimate {
        let flops = 2 * (self.rows as u64).saturating_mul(self.inner as u64).saturating_mul(self.columns as u64);
        let arrays = [self.prepared_spec(), self.codes_spec(), self.scales_spec(), self.out_spec()];
        CostEstimate { flops, transcendentals: 0, bytes_accessed: arrays.iter().map(packed_bytes).sum() }
    }
}
