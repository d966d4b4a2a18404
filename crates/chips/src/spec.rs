//! The record of one generation: what is known about a chip, its memory, network, host and names.

use std::borrow::Cow;

use serde::Serialize;

use crate::figure::Figure;
use crate::generation::{Generation, PciId};
use crate::price::{self, Price, PriceKind};
use crate::shape::{ShapeRule, TwistRule, WrapRule};

/// Everything known about one generation. Rates and bandwidths are per chip unless the field says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChipSpec {
    /// Which generation.
    pub generation: Generation,
    /// Cores and their units.
    pub cores: Cores,
    /// Matrix rates.
    pub rates: Rates,
    /// Memories.
    pub memory: MemorySpec,
    /// Links between chips and the slices they form.
    pub network: NetworkSpec,
    /// The machine the chips sit in.
    pub host: HostSpec,
    /// What the generation is called, and where.
    pub names: Names,
    /// Measured power of a chip.
    pub power: Option<Figure<PowerWatts>>,
    /// Published prices; empty where none was found.
    pub prices: Cow<'static, [Price]>,
}

/// Cores and their units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cores {
    /// TensorCores on a chip.
    pub tensor_cores_per_chip: Figure<u32>,
    /// PJRT (and JAX) devices per chip: one where a megacore fuses two TensorCores.
    pub devices_per_chip: Figure<u32>,
    /// Matrix units in a TensorCore.
    pub mxus_per_core: Figure<u32>,
    /// Rows, and columns, of a matrix unit.
    pub mxu_edge: Figure<u32>,
    /// Operations (a multiply and an add are two) all matrix units of a core do in a cycle at the bf16 rate.
    pub matrix_ops_per_cycle_per_core: Figure<u64>,
    /// Clock.
    pub clock_ghz: Figure<f64>,
    /// SparseCores on a chip.
    pub sparse_cores_per_chip: Option<Figure<u32>>,
}

/// Peak matrix rates of a chip in 10^12 operations per second; `None` inside a figure means no native rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// bfloat16.
    pub bf16_tflops: Figure<f64>,
    /// int8.
    pub int8_tops: Figure<Option<f64>>,
    /// int4.
    pub int4_tops: Figure<Option<f64>>,
    /// 8-bit floats.
    pub fp8_tflops: Figure<Option<f64>>,
    /// StableHLO element types whose matmuls run at twice the bf16 rate.
    pub double_rate_types: Figure<&'static [&'static str]>,
}

/// Memories of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemorySpec {
    /// HBM of a chip as documented.
    pub hbm_bytes_per_chip: Figure<u64>,
    /// What the compiler lets one device use in a slice of 2x2 chips; see [`ChipSpec::usable_hbm_bytes_per_device`].
    pub usable_hbm_bytes_per_device: Figure<u64>,
    /// What every further device in a slice takes from that.
    pub runtime_reserve: Figure<RuntimeReserve>,
    /// HBM bandwidth of a chip, 10^9 bytes per second.
    pub hbm_gb_per_s: Figure<f64>,
    /// Bandwidth of vector memory over that of HBM.
    pub vmem_bandwidth_to_hbm: Option<Figure<f64>>,
    /// Vector memory of a TensorCore.
    pub vmem_bytes_per_core: Figure<u64>,
    /// On-chip memory shared by the cores; zero on all but v4.
    pub cmem_bytes_per_chip: Figure<u64>,
}

/// The HBM a device sets aside for each device of its slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RuntimeReserve {
    /// Bytes per device of the slice.
    pub bytes_per_device: u64,
    /// The sum is rounded up to a multiple of this.
    pub rounded_to_bytes: u64,
}

/// Links between chips and the slices they form.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NetworkSpec {
    /// Inter-chip links of a chip.
    pub ici_links_per_chip: Figure<u32>,
    /// One direction of one link, 10^9 bytes per second.
    pub ici_gb_per_s_per_link_one_way: Option<Figure<f64>>,
    /// All links of a chip, both directions together, 10^9 bytes per second, as documented.
    pub ici_gb_per_s_per_chip_both_ways: Option<Figure<f64>>,
    /// Dimensions of the torus.
    pub torus_dimensions: Figure<u32>,
    /// Which slices can be had.
    pub shapes: Figure<ShapeRule>,
    /// Which of their dimensions close into rings.
    pub wrap: Figure<WrapRule>,
    /// Which of them can be twisted.
    pub twist: Figure<TwistRule>,
    /// Chips in a pod.
    pub pod_chips: Figure<u32>,
    /// All-reduce bandwidth of a whole pod, 10^12 bytes per second.
    pub pod_all_reduce_tb_per_s: Option<Figure<f64>>,
    /// Bisection bandwidth of a whole pod, 10^12 bytes per second.
    pub pod_bisection_tb_per_s: Option<Figure<f64>>,
    /// Data-centre network share of a chip, 10^9 bytes per second.
    pub dcn_gb_per_s_per_chip: Option<Figure<f64>>,
}

/// The machine the chips sit in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HostSpec {
    /// Chips in one physical host.
    pub chips_per_host: Figure<u32>,
    /// Memory of a host.
    pub dram_gib: Option<Figure<f64>>,
    /// Virtual processors of a host.
    pub vcpus: Option<Figure<u32>>,
    /// Network cards.
    pub nic: Option<Figure<&'static str>>,
    /// Host link of a chip, 10^9 bytes per second.
    pub pcie_gb_per_s_per_chip: Option<Figure<f64>>,
    /// Compute Engine machine types, the usual one for a given number of chips first.
    pub machine_types: Figure<&'static [MachineType]>,
}

/// A Compute Engine machine type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MachineType {
    /// `ct5lp-hightpu-4t`.
    pub name: &'static str,
    /// Chips in one machine.
    pub chips: u32,
    /// Virtual processors.
    pub vcpus: Option<u32>,
    /// Memory as the machine type states it.
    pub dram_gb: Option<u32>,
    /// Whether several of them can form one slice.
    pub hosts: HostCount,
}

/// How many machines of a type a slice may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HostCount {
    /// The slice is the machine.
    One,
    /// One or more machines form a slice.
    Any,
}

/// What the number in an accelerator type counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountUnit {
    /// Chips: `v5litepod-16` is 16 chips.
    Chips,
    /// TensorCores: `v4-8` is 4 chips.
    Cores,
}

/// What a generation is called.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Names {
    /// `device_kind` of a PJRT device.
    pub device_kind: Figure<&'static str>,
    /// `chip_config_name` that makes libtpu's topology as the real slice.
    pub chip_config_name: Figure<&'static str>,
    /// What stands before the dash of an accelerator type: `v5litepod`.
    pub accelerator_prefix: &'static str,
    /// What the number after the dash counts.
    pub count_unit: Figure<CountUnit>,
    /// Value of the TPU API's `AcceleratorConfig.Type`; `None` where the API lacks the generation.
    pub tpu_api_type: Figure<Option<&'static str>>,
    /// TPU VM image for the TPU API.
    pub runtime_version: Option<Figure<&'static str>>,
    /// Value of the node label `cloud.google.com/gke-tpu-accelerator`.
    pub gke_accelerator: Option<Figure<&'static str>>,
    /// PCI id of a chip.
    pub pci: Figure<PciId>,
}

/// Measured power of one chip in watts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PowerWatts {
    /// Lowest.
    pub minimum: u32,
    /// Mean.
    pub mean: u32,
    /// Highest.
    pub maximum: u32,
}

impl ChipSpec {
    /// Whether one device is two TensorCores working as one.
    pub fn is_megacore(&self) -> bool {
        self.cores.devices_per_chip.value < self.cores.tensor_cores_per_chip.value
    }

    /// What the compiler lets one device use in a slice of this many devices.
    ///
    /// Equals libtpu's `device_memory_bytes_limit`: each device reserves a little for every other one of its slice.
    pub fn usable_hbm_bytes_per_device(&self, devices_per_slice: u32) -> u64 {
        let reserve = self.memory.runtime_reserve.value;
        let taken = |devices: u64| {
            let bytes = devices.saturating_mul(reserve.bytes_per_device);
            bytes.div_ceil(reserve.rounded_to_bytes).saturating_mul(reserve.rounded_to_bytes)
        };
        let reference = 4 * u64::from(self.cores.devices_per_chip.value);
        (self.memory.usable_hbm_bytes_per_device.value + taken(reference))
            .saturating_sub(taken(devices_per_slice.into()))
    }

    /// Peak rate of one device for matmuls of a StableHLO element type, in operations per second.
    ///
    /// A documented rate above bf16 is taken as documented; where the compiler doubles the rate of a type without a
    /// documented one, it is twice bf16; everything else runs as bf16.
    pub fn peak_ops_per_device(&self, element_type: &str) -> f64 {
        let bf16 = self.rates.bf16_tflops.value;
        let doubled = self.rates.double_rate_types.value.iter().any(|t| t.eq_ignore_ascii_case(element_type));
        let documented = match element_type {
            "i8" | "si8" | "ui8" => self.rates.int8_tops.value,
            t if doubled && t.to_ascii_lowercase().starts_with("f8") => self.rates.fp8_tflops.value,
            _ => None,
        };
        let per_chip = match documented.filter(|rate| *rate > bf16) {
            Some(rate) => rate,
            None if doubled => 2.0 * bf16,
            None => bf16,
        };
        per_chip * 1e12 / f64::from(self.cores.devices_per_chip.value)
    }

    /// HBM bandwidth of one device in bytes per second.
    pub fn hbm_bytes_per_s_per_device(&self) -> f64 {
        self.memory.hbm_gb_per_s.value * 1e9 / f64::from(self.cores.devices_per_chip.value)
    }

    /// Operations the matrix units of one device do in a cycle at the bf16 rate.
    pub fn matrix_ops_per_cycle_per_device(&self) -> u64 {
        let cores = &self.cores;
        let per_chip = cores.matrix_ops_per_cycle_per_core.value * u64::from(cores.tensor_cores_per_chip.value);
        per_chip / u64::from(cores.devices_per_chip.value)
    }

    /// The price of a chip-hour under given terms: in `region`, or the lowest where `region` is `None`.
    ///
    /// A price that holds in any region (a published commitment, an override) answers for every region.
    pub fn price(&self, kind: PriceKind, region: Option<&str>) -> Option<&Price> {
        price::lowest(&self.prices, kind, region)
    }
}
