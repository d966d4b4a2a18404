//! SparseCores as kernels see them: how many, how many subcores, lanes and memory.

use chips::Generation;

use crate::error::Error;

/// The SparseCores of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseCores {
    /// Cores. TPU7x has two devices on a chip, each with its own.
    pub cores: usize,
    /// Vector subcores of a core, each with its own memory and DMA engine.
    pub subcores: usize,
    /// 32-bit lanes of a vector.
    pub lanes: usize,
    /// Vector memory of a subcore.
    pub vmem_bytes: u64,
}

/// Of the memory of a subcore, what a kernel can have: the compiler keeps the rest.
const USABLE: f64 = 0.78;

impl SparseCores {
    /// Those of a generation. Figures are those of JAX 0.10.2 (`tpu_info.py`). libtpu refuses kernels for v4, whose SparseCores
    /// it does not show, and for v5e and older, which have none (18 November 2026).
    pub fn of(generation: Generation) -> Result<SparseCores, Error> {
        let (cores, lanes, vmem_bytes) = match generation {
            Generation::V5p => (4, 8, 512 << 10),
            Generation::V6e => (2, 8, 256 << 10),
            Generation::Tpu7x => (2, 16, 512 << 10),
            _ => return Err(Error::NoSparseCores(generation)),
        };
        Ok(SparseCores { cores, subcores: 16, lanes, vmem_bytes })
    }

    /// Subcores of all cores.
    pub fn workers(&self) -> usize {
        self.cores * self.subcores
    }

    pub(crate) fn usable_bytes(&self) -> u64 {
        (self.vmem_bytes as f64 * USABLE) as u64
    }
}
