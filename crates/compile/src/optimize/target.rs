//! What rewrites must know of the device they rewrite for.

use chips::Generation;

/// Facts about a device, on which it depends what pays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetInfo {
    /// Rows and columns of the MXU, where there is one.
    pub mxu_edge: Option<u32>,
    /// Matmuls in bf16, operations per second, where known.
    pub bf16_flops: Option<f64>,
    /// Bytes of memory, where known.
    pub memory_bytes: Option<u64>,
    /// Memory, bytes per second, where known.
    pub memory_bytes_per_s: Option<f64>,
    /// Share of its time that a matmul loses when its contracting size is not a multiple of the MXU.
    pub ragged_loss: f64,
    /// How often an element must enter a matmul for its conversion to bf16 to pay; `None` where it never does.
    pub bf16_min_reuse: Option<f64>,
    /// Whether what holds for matmuls holds for convolutions.
    pub gains_from_bf16_convolutions: bool,
    /// Whether arithmetic on single elements is faster in bf16 than in f32.
    pub gains_from_bf16_arithmetic: bool,
}

impl TargetInfo {
    /// A device of which nothing is known: it gets only what no device loses by.
    pub const UNKNOWN: TargetInfo = TargetInfo {
        mxu_edge: None,
        bf16_flops: None,
        memory_bytes: None,
        memory_bytes_per_s: None,
        ragged_loss: 0.0,
        bf16_min_reuse: None,
        gains_from_bf16_convolutions: false,
        gains_from_bf16_arithmetic: false,
    };

    /// One device of a TPU generation. Its MXU takes bf16: f32 operands are converted in any case.
    pub fn tpu(generation: Generation) -> TargetInfo {
        let spec = generation.spec();
        let devices = f64::from(spec.cores.devices_per_chip.value);
        TargetInfo {
            mxu_edge: Some(spec.cores.mxu_edge.value),
            bf16_flops: Some(spec.rates.bf16_tflops.value * 1e12 / devices),
            memory_bytes: Some(spec.memory.hbm_bytes_per_chip.value / u64::from(spec.cores.devices_per_chip.value)),
            memory_bytes_per_s: Some(spec.memory.hbm_gb_per_s.value * 1e9 / devices),
            ragged_loss: ragged_loss(spec.cores.mxu_edge.value),
            bf16_min_reuse: Some(0.0),
            gains_from_bf16_convolutions: true,
            gains_from_bf16_arithmetic: true,
        }
    }

    /// A GPU with tensor cores.
    pub fn gpu() -> TargetInfo {
        TargetInfo {
            bf16_min_reuse: Some(GPU_MIN_REUSE),
            gains_from_bf16_convolutions: true,
            gains_from_bf16_arithmetic: true,
            ..TargetInfo::UNKNOWN
        }
    }

    /// This machine's CPU: bf16 pays where it has instructions for it, and not for matrix-vector products. For
    /// convolutions and arithmetic no gain was seen: `docs/optimizer-levels.md`.
    pub fn cpu() -> TargetInfo {
        let bf16_min_reuse = has_bf16_dots().then_some(CPU_MIN_REUSE);
        TargetInfo { bf16_min_reuse, ..TargetInfo::UNKNOWN }
    }
}

/// libtpu's estimates of five matmuls each, given operands that were padded already: v5e from 0.4 % slower to no change, v6e
/// from 2.3 % slower, where a ninth of the work was zeros, to 1.7 % faster.
fn ragged_loss(mxu_edge: u32) -> f64 {
    if mxu_edge > 128 { 0.015 } else { 0.0 }
}

/// Matrix-vector products are bound by memory, and reading f32 to write bf16 only adds to that.
const GPU_MIN_REUSE: f64 = 16.0;

/// Below this the conversion takes longer on the CPU device than the faster matmul saves.
const CPU_MIN_REUSE: f64 = 64.0;

fn has_bf16_dots() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}
