//! What a device is: the same record for TPU, GPU and CPU.

use chips::{Generation, Gpu, Overrides, Quantity};
use pjrt::{AttributeValue, Device, DeviceDescription};
use serde::Serialize;

use crate::error::Error;

/// What kind of device a backend runs on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// A TPU.
    Tpu,
    /// An NVIDIA GPU.
    Cuda,
    /// The built-in CPU device, or another plugin's.
    Cpu,
    /// Anything else, by the name the plugin gives.
    Other(String),
}

impl Platform {
    pub(crate) fn from_name(name: &str) -> Platform {
        match name {
            "tpu" => Platform::Tpu,
            "cuda" | "gpu" => Platform::Cuda,
            "cpu" => Platform::Cpu,
            other => Platform::Other(other.to_string()),
        }
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Platform::Tpu => "tpu",
            Platform::Cuda => "cuda",
            Platform::Cpu => "cpu",
            Platform::Other(name) => name,
        })
    }
}

/// A device of a backend.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceInfo {
    /// Number of the device, unique over all processes.
    pub id: i32,
    /// The vendor's name of this kind of device.
    pub kind: String,
    /// Generation, for a TPU.
    pub generation: Option<Generation>,
    /// Place in the torus, for a TPU.
    pub coordinates: Option<Vec<i64>>,
    /// Which core of its chip, for a TPU with several devices in a chip.
    pub core_on_chip: Option<i64>,
    /// Which slice, where there are several.
    pub slice_index: Option<i64>,
    /// The process it belongs to.
    pub process_index: i32,
    /// Memory of the device in bytes, as the plugin says, else as the table of chips does.
    pub memory_bytes: Option<u64>,
    /// Peak rates, where they are known.
    pub peak: PeakRates,
}

/// Peak rates of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PeakRates {
    /// bfloat16 matmuls, operations per second.
    pub bf16_flops: Option<f64>,
    /// f32 matmuls, operations per second.
    pub f32_flops: Option<f64>,
    /// int8 matmuls, operations per second.
    pub int8_ops: Option<f64>,
    /// Memory, bytes per second.
    pub memory_bytes_per_s: Option<f64>,
}

impl DeviceInfo {
    pub(crate) fn read(device: &Device, platform: &Platform, overrides: &Overrides) -> Result<DeviceInfo, Error> {
        let description = device.description().map_err(Error::device("describing the device"))?;
        let limit = device.memory_stats().ok().and_then(|stats| stats.bytes_limit);
        Ok(DeviceInfo::of(description, limit, platform, overrides))
    }

    /// A device by its description, present or not; the limit is what the device itself says of its memory.
    pub(crate) fn of(
        description: DeviceDescription,
        limit: Option<i64>,
        platform: &Platform,
        overrides: &Overrides,
    ) -> DeviceInfo {
        let int = |name: &str| description.attribute(name).and_then(AttributeValue::as_int);
        let generation = Generation::from_device_kind(&description.kind);
        let said = limit.or_else(|| int("device_memory_bytes_limit")).and_then(|bytes| u64::try_from(bytes).ok());
        let memory_bytes = memory(generation, said, overrides);
        let peak = match (generation, platform) {
            (Some(generation), _) => peak(generation),
            (None, Platform::Cuda) => {
                Gpu::from_device_kind(&description.kind).map_or_else(PeakRates::default, gpu_peak)
            }
            (None, _) => PeakRates::default(),
        };
        DeviceInfo {
            id: description.id,
            coordinates: description.attribute("coords").and_then(AttributeValue::as_ints).map(<[i64]>::to_vec),
            core_on_chip: int("core_on_chip"),
            slice_index: int("slice_index"),
            process_index: description.process_index,
            kind: description.kind,
            generation,
            memory_bytes,
            peak,
        }
    }
}

/// Memory of one device: what the plugin says, else what the table of chips does. A figure of the user's is believed over
/// the table, and bounds what the plugin says: a device cannot give more than it has.
fn memory(generation: Option<Generation>, said: Option<u64>, overrides: &Overrides) -> Option<u64> {
    let Some(generation) = generation else { return said };
    let spec = generation.spec().with(overrides);
    let usable = spec.memory.usable_hbm_bytes_per_device.value;
    let is_given = overrides.get(generation, Quantity::Memory).is_some();
    match said {
        Some(said) if is_given => Some(said.min(usable)),
        Some(said) => Some(said),
        None => Some(usable),
    }
}

/// Rates of one device of a generation.
fn peak(generation: Generation) -> PeakRates {
    let spec = generation.spec();
    let devices = f64::from(spec.cores.devices_per_chip.value);
    let rate = |tera: f64| tera * 1e12 / devices;
    PeakRates {
        bf16_flops: Some(rate(spec.rates.bf16_tflops.value)),
        f32_flops: None,
        int8_ops: spec.rates.int8_tops.value.map(rate),
        memory_bytes_per_s: Some(spec.memory.hbm_gb_per_s.value * 1e9 / devices),
    }
}

/// Rates of a GPU.
fn gpu_peak(gpu: &Gpu) -> PeakRates {
    PeakRates {
        bf16_flops: Some(gpu.bf16_tflops.value * 1e12),
        f32_flops: Some(gpu.f32_tflops.value * 1e12),
        int8_ops: Some(gpu.int8_tops.value * 1e12),
        memory_bytes_per_s: Some(gpu.memory_gb_per_s.value * 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Gibibytes, Mode};

    #[test]
    fn memory_is_what_the_plugin_says_and_no_more_than_the_user_says() {
        let gib = |gib: f64| Gibibytes::new(gib).unwrap();
        let none = Config::new(Mode::Inference);
        let small = none.clone().v6e_memory_gb(Some(gib(16.0))).v7_memory_gb(Some(gib(96.0)));
        let large = none.clone().v6e_memory_gb(Some(gib(64.0)));
        let check = |config: &Config, generation, said| memory(Some(generation), said, &config.chip_overrides());
        let (v6e, v7) = (Generation::V6e, Generation::Tpu7x);
        let table = check(&none, v6e, None).unwrap();
        assert!((31 << 30..=32 << 30).contains(&table), "{table}");
        // What the runtime keeps for itself stays; the rest follows the user's figure.
        assert_eq!(check(&small, v6e, None), Some(table - (16 << 30)));
        assert_eq!(check(&small, v6e, Some(table)), Some(table - (16 << 30)));
        assert_eq!(check(&large, v6e, Some(table)), Some(table));
        assert_eq!(check(&large, v6e, None), Some(table + (32 << 30)));
        // Two devices share the memory of a TPU7x chip.
        let table = check(&none, v7, None).unwrap();
        assert_eq!(check(&small, v7, None), Some(table - (48 << 30)));
        // Another generation, or no TPU at all: nothing to override.
        assert_eq!(check(&small, Generation::V5e, Some(7)), Some(7));
        assert_eq!(memory(None, Some(7), &small.chip_overrides()), Some(7));
    }
}
