//! What TPU chips and GPUs are compared by.

use serde::Serialize;

use crate::gpu::Gpu;
use crate::price::{self, Price, PriceKind};
use crate::spec::ChipSpec;

/// A TPU chip or a GPU.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a program has a few of these")]
pub enum Accelerator {
    /// One chip of a TPU generation, with the figures the user replaced.
    Tpu(ChipSpec),
    /// A GPU.
    Gpu(&'static Gpu),
}

/// The smallest batches at which a matmul is limited by the matrix units instead of by the memory its weights come from.
///
/// A batch is the number of tokens that one reading of the weights serves: each weight takes two operations for each
/// token, and its bytes once. Activations are taken to be small beside the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ComputeBoundBatch {
    /// bf16 weights from HBM.
    pub bf16: u64,
    /// 8-bit weights from HBM, bf16 arithmetic.
    pub weights_8_bit: u64,
    /// bf16 weights that are in VMEM already, where its bandwidth is known.
    pub bf16_from_vmem: Option<u64>,
}

impl ComputeBoundBatch {
    /// For a bf16 rate in operations per second and a bandwidth in bytes per second.
    pub fn new(bf16_flops_per_s: f64, hbm_bytes_per_s: f64) -> ComputeBoundBatch {
        // Two bytes of a weight in `2 / bandwidth` against two operations for each token in `2 * tokens / rate`.
        let tokens = bf16_flops_per_s / hbm_bytes_per_s;
        ComputeBoundBatch {
            bf16: tokens.ceil() as u64,
            weights_8_bit: (tokens / 2.0).ceil() as u64,
            bf16_from_vmem: None,
        }
    }
}

impl ChipSpec {
    /// The smallest batches that are compute bound.
    pub fn compute_bound_batch(&self) -> ComputeBoundBatch {
        let (rate, hbm) = (self.rates.bf16_tflops.value * 1e12, self.memory.hbm_gb_per_s.value * 1e9);
        let from_vmem = self.memory.vmem_bandwidth_to_hbm.map(|times| rate / (hbm * times.value));
        ComputeBoundBatch {
            bf16_from_vmem: from_vmem.map(|tokens| tokens.ceil() as u64),
            ..ComputeBoundBatch::new(rate, hbm)
        }
    }
}

impl Accelerator {
    /// bf16 peak, 10^12 operations per second.
    pub fn bf16_tflops(&self) -> f64 {
        match self {
            Accelerator::Tpu(spec) => spec.rates.bf16_tflops.value,
            Accelerator::Gpu(gpu) => gpu.bf16_tflops.value,
        }
    }

    /// fp8 peak, 10^12 operations per second.
    pub fn fp8_tflops(&self) -> Option<f64> {
        match self {
            Accelerator::Tpu(spec) => spec.rates.fp8_tflops.value,
            Accelerator::Gpu(gpu) => gpu.fp8_tflops.value,
        }
    }

    /// int8 peak, 10^12 operations per second.
    pub fn int8_tops(&self) -> Option<f64> {
        match self {
            Accelerator::Tpu(spec) => spec.rates.int8_tops.value,
            Accelerator::Gpu(gpu) => Some(gpu.int8_tops.value),
        }
    }

    /// Device memory in bytes, as documented.
    pub fn hbm_bytes(&self) -> u64 {
        match self {
            Accelerator::Tpu(spec) => spec.memory.hbm_bytes_per_chip.value,
            Accelerator::Gpu(gpu) => gpu.memory_bytes.value,
        }
    }

    /// Bandwidth of device memory, 10^9 bytes per second.
    pub fn hbm_gb_per_s(&self) -> f64 {
        match self {
            Accelerator::Tpu(spec) => spec.memory.hbm_gb_per_s.value,
            Accelerator::Gpu(gpu) => gpu.memory_gb_per_s.value,
        }
    }

    /// Watts: the thermal design power of a GPU, the highest measured power of a TPU chip; `None` where not published.
    pub fn power_watts(&self) -> Option<u32> {
        match self {
            Accelerator::Tpu(spec) => spec.power.map(|power| power.value.maximum),
            Accelerator::Gpu(gpu) => Some(gpu.tdp_watts.value),
        }
    }

    /// The smallest batches that are compute bound.
    pub fn compute_bound_batch(&self) -> ComputeBoundBatch {
        match self {
            Accelerator::Tpu(spec) => spec.compute_bound_batch(),
            Accelerator::Gpu(gpu) => {
                ComputeBoundBatch::new(gpu.bf16_tflops.value * 1e12, gpu.memory_gb_per_s.value * 1e9)
            }
        }
    }

    /// Published prices; empty where none was found.
    pub fn prices(&self) -> &[Price] {
        match self {
            Accelerator::Tpu(spec) => &spec.prices,
            Accelerator::Gpu(gpu) => gpu.prices,
        }
    }

    /// The price of an hour under given terms: in `region`, or the lowest where `region` is `None`.
    pub fn price(&self, kind: PriceKind, region: Option<&str>) -> Option<&Price> {
        price::lowest(self.prices(), kind, region)
    }
}
