//! One file of figures per generation.

mod tpu7x;
mod v2;
mod v3;
mod v4;
mod v5e;
mod v5p;
mod v6e;

use crate::generation::Generation;
use crate::spec::{ChipSpec, HostCount, MachineType, RuntimeReserve};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// v4 and later; read off the limits libtpu reports for slices of 1 to 18432 devices.
const RESERVE_512: RuntimeReserve = RuntimeReserve { bytes_per_device: 512, rounded_to_bytes: 512 };
/// v2 and v3; read off the limits libtpu reports for slices of 8 to 2048 devices.
const RESERVE_1024: RuntimeReserve = RuntimeReserve { bytes_per_device: 1024, rounded_to_bytes: 16384 };

/// Slices of the three-dimensional generations that are smaller than a 4x4x4 cube.
const BELOW_A_CUBE: &[[u32; 3]] = &[[2, 2, 1], [2, 2, 2], [2, 2, 4], [2, 4, 4]];

/// Slices of v5e and v6e.
const UP_TO_16X16: &[[u32; 3]] =
    &[[1, 1, 1], [2, 2, 1], [2, 4, 1], [4, 4, 1], [4, 8, 1], [8, 8, 1], [8, 16, 1], [16, 16, 1]];

const fn machine(
    name: &'static str,
    chips: u32,
    vcpus: Option<u32>,
    dram_gb: Option<u32>,
    hosts: HostCount,
) -> MachineType {
    MachineType { name, chips, vcpus, dram_gb, hosts }
}

impl Generation {
    /// The `device_kind` a PJRT device of this generation reports: `TPU v5 lite`.
    pub fn device_kind(self) -> &'static str {
        self.spec().names.device_kind.value
    }

    /// Every figure of this generation, as published or measured.
    pub fn spec(self) -> &'static ChipSpec {
        spec(self)
    }

    /// The generation whose devices report this `device_kind`.
    pub fn from_device_kind(device_kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|g| g.device_kind() == device_kind)
    }

    /// The generation behind a PCI function. Where generations share a device id, the subsystem id decides.
    pub fn from_pci(vendor: u16, device: u16, subsystem: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|g| {
            let id = g.spec().names.pci.value;
            id.vendor == vendor && id.device == device && id.subsystem.is_none_or(|s| s == subsystem)
        })
    }
}

fn spec(generation: Generation) -> &'static ChipSpec {
    match generation {
        Generation::V2 => &v2::SPEC,
        Generation::V3 => &v3::SPEC,
        Generation::V4 => &v4::SPEC,
        Generation::V5e => &v5e::SPEC,
        Generation::V5p => &v5p::SPEC,
        Generation::V6e => &v6e::SPEC,
        Generation::Tpu7x => &tpu7x::SPEC,
    }
}
