//! What a device can do, and how much of that programs reach: the physical constants of the estimate.

use chips::{Generation, Slice};
use serde::{Deserialize, Serialize};
use xla::PrimitiveType;

use crate::torus::IciTorus;

/// Rates of one device of a slice.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The generation.
    pub generation: Generation,
    /// Cycles per second, as the compiler counts them.
    pub clock_hz: f64,
    /// Rows and columns of an MXU.
    pub mxu_edge: u64,
    /// Matmuls of bf16, operations per second.
    pub bf16_flops: f64,
    /// Matmuls of types at twice that rate.
    double_rate_types: &'static [&'static str],
    /// Simple operations on f32 elements per second.
    pub vector_ops: f64,
    /// Exponentials, logarithms, roots per second.
    pub transcendentals: f64,
    /// Device memory, bytes per second.
    pub hbm_bytes_per_s: f64,
    /// Vector memory of a core.
    pub vmem_bytes: f64,
    /// Host link, bytes per second and direction.
    pub host_bytes_per_s: f64,
    /// Network between slices, bytes per second and direction.
    pub dcn_bytes_per_s: f64,
    /// Links between the chips.
    pub torus: IciTorus,
    /// How much of the rates programs reach.
    pub reach: Reach,
}

/// Shares of peak rates that programs reach, and fixed costs. Each is calibrated on the measurements its comment names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// Of HBM bandwidth in long copies: `hbm-copy-7x-*` level off at 3205 of 3690 GB/s, v6e copies of 32 MiB at 1358 of 1638.
    pub hbm: f64,
    /// The same of a matmul, whose bytes go mostly one way, into VMEM: `gemm-v5e-v6e-even.csv`. On TPU7x that of its
    /// copies: the one matmul of a published trace reached 0.73, but published decode rates of whole models are met with 0.86.
    pub hbm_of_matmuls: f64,
    /// Of the MXUs' rate in large matmuls: `gemm-7x-32768` 956 of 1153 TFLOP/s, `gemm-v6e-8192` 827 of 918; for
    /// the others what libtpu itself prices 4096 cubed at (v5e 0.968, v5p 0.962, v4 0.89).
    pub mxu: f64,
    /// Of that, in matmuls inside a model: other shapes, work fused to them, operands that do not wait in fast memory. The
    /// 256-wide MXUs of v6e and TPU7x lose more. The training runs of `docs/accuracy.md`.
    pub in_a_model: f64,
    /// Of the compiler's own cycle estimates of matmuls: the same measurements against libtpu's estimates.
    pub cycles: f64,
    /// Of link bandwidth in long transfers: `allgather-7x-2x2x1-*` level off at 178.8 of 180 GB/s.
    pub ici: f64,
    /// Of the data-center network: `psum-dcn-v6e-256`.
    pub dcn: f64,
    /// Of the host link: `v6e-8-host-offload.xplane.pb` has copies of 5.37 GB at 28.4 GB/s to the device and 29.4 from it, of 32.
    pub host: f64,
    /// The same of slices of a stack, as activations are saved by a loop: runs on v6e hide more of them than our schedule lets
    /// them. The training runs of `docs/accuracy.md`.
    pub host_of_slices: f64,
    /// Seconds that an op waits for HBM, before and after its work.
    pub launch_s: f64,
    /// Seconds a program takes beside its ops: `gemm-7x-128` and `hbm-copy-7x-2097152`, where little else is left.
    pub program_s: f64,
    /// Share of the rate of a plain matmul that the tiles of a grouped matmul reach, those that are computed in vain counted. The sparse
    /// models of `docs/accuracy.md`.
    pub grouped: f64,
    /// Seconds to move a row that an index names, on a TensorCore: rows are moved one by one. The sparse models of `docs/accuracy.md`.
    pub indexed_row_s: f64,
    /// Seconds until a collective moves its first byte, beside hops: `allgather-7x-2x2x1-*`.
    pub collective_s: f64,
    /// Seconds for each hop.
    pub hop_s: f64,
}

/// Rates measured on a user's own chips, each in place of the one in [`Reach`]; absent ones keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRates {
    /// Share of HBM bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hbm: Option<f64>,
    /// Share of the MXUs' rate in matmuls inside a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matmul: Option<f64>,
    /// Share of link bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ici: Option<f64>,
    /// Seconds that an op waits for HBM, on each side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_s: Option<f64>,
}

impl MeasuredRates {
    /// Every rate with the bounds of what can be true.
    pub(crate) fn bounded(&self) -> [(&'static str, Option<f64>, (f64, f64)); 4] {
        [
            ("hbm", self.hbm, (0.3, 1.0)),
            ("matmul", self.matmul, (0.2, 1.0)),
            ("ici", self.ici, (0.2, 1.0)),
            ("launch_s", self.launch_s, (0.0, 5e-6)),
        ]
    }
}

impl Machine {
    /// With rates that were measured.
    pub fn calibrated(mut self, rates: &MeasuredRates) -> Machine {
        let reach = &mut self.reach;
        if let Some(hbm) = rates.hbm {
            reach.hbm_of_matmuls *= hbm / reach.hbm;
            reach.hbm = hbm;
        }
        reach.ici = rates.ici.unwrap_or(reach.ici);
        reach.launch_s = rates.launch_s.unwrap_or(reach.launch_s);
        if let Some(matmul) = rates.matmul {
            // The compiler's cycles and our own count are off by the same share.
            reach.cycles *= matmul / (reach.mxu * reach.in_a_model);
            reach.in_a_model = matmul / reach.mxu;
        }
        self
    }
}

/// The constants that were chosen by training runs, not by a measurement of their own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedConstants {
    /// [`Reach::in_a_model`] of generations with MXUs of 128 rows.
    pub in_a_model: f64,
    /// The same of v6e.
    pub in_a_model_v6e: f64,
    /// The same of TPU7x.
    pub in_a_model_tpu7x: f64,
    /// [`Reach::host_of_slices`] of v6e.
    pub host_v6e: f64,
    /// [`Reach::grouped`].
    pub grouped: f64,
    /// [`Reach::indexed_row_s`].
    pub indexed_row_s: f64,
}

impl Default for FittedConstants {
    fn default() -> FittedConstants {
        FittedConstants {
            in_a_model: 0.97,
            in_a_model_v6e: 0.84,
            in_a_model_tpu7x: 0.91,
            host_v6e: 1.6,
            grouped: 0.65,
            indexed_row_s: 10e-9,
        }
    }
}

impl FittedConstants {
    pub(crate) const COUNT: usize = 6;

    /// With one of them, by its place, times a factor.
    pub(crate) fn scaled(mut self, index: usize, factor: f64) -> FittedConstants {
        let fields = [
            &mut self.in_a_model,
            &mut self.in_a_model_v6e,
            &mut self.in_a_model_tpu7x,
            &mut self.host_v6e,
            &mut self.grouped,
            &mut self.indexed_row_s,
        ];
        if let Some(field) = fields.into_iter().nth(index) {
            *field *= factor;
        }
        self
    }
}

impl Machine {
    /// The device of a slice.
    pub fn of(slice: &Slice) -> Machine {
        Machine::with_constants(slice, &FittedConstants::default())
    }

    /// The device of a slice, with other fitted constants.
    pub(crate) fn with_constants(slice: &Slice, fitted: &FittedConstants) -> Machine {
        let spec = slice.spec();
        let devices = f64::from(spec.cores.devices_per_chip.value);
        let cores_per_device = f64::from(spec.cores.tensor_cores_per_chip.value) / devices;
        let clock_hz = spec.cores.clock_ghz.value * 1e9;
        let network = &spec.network;
        Machine {
            generation: slice.generation(),
            clock_hz,
            mxu_edge: u64::from(spec.cores.mxu_edge.value),
            bf16_flops: spec.rates.bf16_tflops.value * 1e12 / devices,
            double_rate_types: spec.rates.double_rate_types.value,
            vector_ops: VECTOR_LANES * vector_slots(slice.generation()) * clock_hz * cores_per_device,
            transcendentals: VECTOR_LANES * clock_hz * cores_per_device,
            hbm_bytes_per_s: spec.memory.hbm_gb_per_s.value * 1e9 / devices,
            vmem_bytes: spec.memory.vmem_bytes_per_core.value as f64,
            host_bytes_per_s: spec.host.pcie_gb_per_s_per_chip.map_or(DEFAULT_HOST_GB_PER_S, |f| f.value) * 1e9
                / devices,
            dcn_bytes_per_s: network.dcn_gb_per_s_per_chip.map_or(DEFAULT_DCN_GB_PER_S, |f| f.value) * 1e9 / devices,
            torus: IciTorus::of(slice),
            reach: Reach::of(slice.generation(), fitted),
        }
    }

    /// Seconds that bytes take between host and device, one way.
    pub(crate) fn host_s(&self, bytes: f64, of: HostTransfer) -> f64 {
        let reach = match of {
            HostTransfer::WholeBuffer => self.reach.host,
            HostTransfer::Slice => self.reach.host_of_slices,
        };
        bytes / (self.host_bytes_per_s * reach)
    }

    /// Matmuls of a type, operations per second. f32 is multiplied as bf16 unless asked otherwise.
    pub fn matmul_flops(&self, element: PrimitiveType) -> f64 {
        if self.is_double_rate(element) { 2.0 * self.bf16_flops } else { self.bf16_flops }
    }

    /// Whether the matrix units take a type as it is, at twice the rate.
    pub(crate) fn is_double_rate(&self, element: PrimitiveType) -> bool {
        self.double_rate_types.iter().any(|name| name.eq_ignore_ascii_case(stablehlo_name(element)))
    }
}

impl Reach {
    fn of(generation: Generation, fitted: &FittedConstants) -> Reach {
        let common = Reach {
            hbm: 0.86,
            hbm_of_matmuls: 0.88,
            mxu: 0.965,
            in_a_model: fitted.in_a_model,
            cycles: 1.0,
            ici: 0.99,
            dcn: 0.7,
            host: 0.9,
            host_of_slices: 0.9,
            launch_s: 0.5e-6,
            program_s: 0.7e-6,
            grouped: fitted.grouped,
            indexed_row_s: fitted.indexed_row_s,
            collective_s: 10e-6,
            hop_s: 1e-6,
        };
        match generation {
            Generation::V4 => Reach { mxu: 0.89, ..common },
            Generation::V6e => {
                let (in_a_model, host_of_slices) = (fitted.in_a_model_v6e, fitted.host_v6e);
                Reach { hbm_of_matmuls: 0.93, mxu: 0.9, in_a_model, cycles: 1.1, host_of_slices, ..common }
            }
            Generation::Tpu7x => {
                let in_a_model = fitted.in_a_model_tpu7x;
                Reach { hbm_of_matmuls: 0.86, mxu: 0.83, in_a_model, cycles: 0.97, ..common }
            }
            _ => common,
        }
    }
}

/// What moves between host and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostTransfer {
    WholeBuffer,
    /// A part of an array that is read or written in place.
    Slice,
}

/// Lanes of a vector unit: 8 by 128.
pub(crate) const VECTOR_LANES: f64 = 1024.0;

/// Vector operations a core starts in a cycle.
fn vector_slots(generation: Generation) -> f64 {
    match generation {
        Generation::V2 | Generation::V3 | Generation::V4 => 2.0,
        _ => 4.0,
    }
}

/// Where no figure is published: a PCIe 4.0 x16 link.
const DEFAULT_HOST_GB_PER_S: f64 = 32.0;
/// Where no figure is published: 50 Gb/s.
const DEFAULT_DCN_GB_PER_S: f64 = 6.25;

pub(crate) fn stablehlo_name(element: PrimitiveType) -> &'static str {
    match element {
        PrimitiveType::S8 => "i8",
        PrimitiveType::S4 => "i4",
        PrimitiveType::F8E5M2 => "f8E5M2",
        PrimitiveType::F8E4M3Fn => "f8E4M3FN",
        PrimitiveType::F8E4M3B11Fnuz => "f8E4M3B11FNUZ",
        other => other.name(),
    }
}
