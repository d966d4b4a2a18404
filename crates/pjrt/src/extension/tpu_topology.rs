//! TPU topology: counts, bounds and routing of chips, cores and hosts.
#![allow(unsafe_code)]

use std::sync::Arc;

use pjrt_sys::extensions::tpu_topology::*;

use super::record::Record;
use crate::api::{Api, chars};
use crate::error::Error;
use crate::topology::Topology;

/// Most dimensions a TPU topology has.
const MAX_DIMS: usize = 4;

/// Longest name of a routing strategy that is read.
const MAX_ROUTING_NAME_BYTES: usize = 256;

/// Most slice shapes that are asked for.
const MAX_SLICE_CONFIGS: usize = 1 << 14;

/// Shape of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceConfig {
    /// Chips along each dimension.
    pub dims: Vec<i32>,
    /// Whether links close each dimension to a ring.
    pub wrap: Vec<bool>,
    /// Whether the torus is twisted.
    pub twist: bool,
}

/// How chips of a platform sit in a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlatformConfig {
    /// Chips on a tray.
    pub chips_per_tray: i64,
    /// Trays of a host.
    pub trays: i64,
}

/// The TPU topology extension of a plugin. It does not know multi-slice topologies.
#[derive(Clone, Debug)]
pub struct TpuTopology {
    record: Record<PJRT_TpuTopology_Extension>,
}

macro_rules! scalars {
    ($($(#[$doc:meta])* $method:ident -> $ty:ty = $slot:ident($args:ident).$field:ident;)*) => {
        impl TpuTopology {
            $(
                $(#[$doc])*
                pub fn $method(&self, topology: &Topology) -> Result<$ty, Error> {
                    self.record.api.same(topology.api())?;
                    let mut args = $args::new();
                    args.topology = topology.raw();
                    // SAFETY: the topology is alive and of this plugin.
                    unsafe { self.record.call(slot::$slot, &mut args)? };
                    Ok(args.$field)
                }
            )*
        }
    };
}

scalars! {
    /// Hosts.
    process_count -> i32 = process_count(PJRT_TpuTopology_ProcessCount_Args).process_count;
    /// Chips of each host.
    chips_per_process -> i32 = chips_per_process(PJRT_TpuTopology_ChipsPerProcess_Args).chips_per_process;
    /// Chips.
    chip_count -> i32 = chip_count(PJRT_TpuTopology_ChipCount_Args).chip_count;
    /// Cores.
    core_count -> i32 = core_count(PJRT_TpuTopology_CoreCount_Args).core_count_of_default_type;
    /// Cores of each chip.
    cores_per_chip -> i32 =
        core_count_per_chip(PJRT_TpuTopology_CoreCountPerChip_Args).core_count_of_default_type_per_chip;
    /// Cores of each host.
    cores_per_process -> i32 =
        core_count_per_process(PJRT_TpuTopology_CoreCountPerProcess_Args).core_count_of_default_type_per_process;
    /// Devices as programs see them.
    device_count -> i32 =
        logical_device_count(PJRT_TpuTopology_LogiDeviceCount_Args).logical_device_count_of_default_type;
    /// Devices of each chip.
    devices_per_chip -> i32 = logical_device_count_per_chip(PJRT_TpuTopology_LogiDeviceCountPerChip_Args)
        .logical_device_count_of_default_type_per_chip;
    /// Devices of each host.
    devices_per_process -> i32 = logical_device_count_per_process(PJRT_TpuTopology_LogiDeviceCountPerProcess_Args)
        .logical_device_count_of_default_type_per_process;
    /// Whether it is a part of a larger slice.
    is_subslice -> bool = is_subslice_topology(PJRT_TpuTopology_IsSubsliceTopology_Args).is_subslice_topology;
    /// Whether some pairs of chips cannot reach each other directly.
    has_limited_ici_connectivity -> bool =
        has_limited_ici_connectivity(PJRT_TpuTopology_HasLimitedIciConnectivity_Args).has_limited_ici_connectivity;
}

macro_rules! bounds {
    ($($(#[$doc:meta])* $method:ident = $slot:ident($args:ident).$data:ident, $max:ident, $count:ident;)*) => {
        impl TpuTopology {
            $(
                $(#[$doc])*
                pub fn $method(&self, topology: &Topology) -> Result<Vec<i32>, Error> {
                    self.record.api.same(topology.api())?;
                    let mut bounds = [0; MAX_DIMS];
                    let mut args = $args::new();
                    args.topology = topology.raw();
                    args.$data = bounds.as_mut_ptr();
                    args.$max = MAX_DIMS;
                    // SAFETY: the topology is alive and of this plugin; `bounds` has the stated length.
                    unsafe { self.record.call(slot::$slot, &mut args)? };
                    Ok(bounds.into_iter().take(args.$count).collect())
                }
            )*
        }
    };
}

bounds! {
    /// Chips along each dimension.
    chip_bounds = chip_bounds(PJRT_TpuTopology_ChipBounds_Args)
        .chip_bounds, chip_bounds_max_dims, chip_bounds_num_dims;
    /// Hosts along each dimension.
    process_bounds = process_bounds(PJRT_TpuTopology_ProcessBounds_Args)
        .process_bounds, process_bounds_max_dims, process_bounds_num_dims;
    /// Chips of a host along each dimension.
    chips_per_process_bounds = chips_per_process_bounds(PJRT_TpuTopology_ChipsPerProcessBounds_Args)
        .chip_per_process_bounds, chip_per_process_bounds_max_dims, chip_per_process_bounds_num_dims;
}

impl TpuTopology {
    pub(crate) fn find(api: &Arc<Api>) -> Option<Self> {
        Record::find(api, PJRT_TpuTopology_Extension::TYPE).map(|record| Self { record })
    }

    /// How messages find their way, such as `mesh`.
    pub fn routing_strategy(&self, topology: &Topology) -> Result<String, Error> {
        self.record.api.same(topology.api())?;
        let mut name = [0u8; MAX_ROUTING_NAME_BYTES];
        let mut args = PJRT_TpuTopology_GetRoutingStrategy_Args::new();
        args.topology = topology.raw();
        args.routing_strategy = name.as_mut_ptr().cast();
        args.routing_strategy_len = name.len();
        // SAFETY: the topology is alive and of this plugin; `name` has the stated length.
        unsafe { self.record.call(slot::get_routing_strategy, &mut args)? };
        let written = &name[..args.routing_strategy_len.min(name.len())];
        let end = written.iter().position(|byte| *byte == 0).unwrap_or(written.len());
        Ok(String::from_utf8_lossy(&written[..end]).into_owned())
    }

    /// A part of a topology, by the chips of a host and the hosts along each dimension.
    pub fn subslice(
        &self,
        topology: &Topology,
        chips_per_host_bounds: &[i32],
        host_bounds: &[i32],
    ) -> Result<Topology, Error> {
        self.record.api.same(topology.api())?;
        let mut args = PJRT_TpuTopology_Subslice_Args::new();
        args.topology = topology.raw();
        args.chips_per_host_bounds = chips_per_host_bounds.as_ptr();
        args.chips_per_host_bounds_num_dims = chips_per_host_bounds.len();
        args.host_bounds = host_bounds.as_ptr();
        args.host_bounds_num_dims = host_bounds.len();
        // SAFETY: the topology is alive and of this plugin; the bounds are borrowed for the call.
        unsafe { self.record.call(slot::subslice, &mut args)? };
        Topology::owned(&self.record.api, args.subslice_topology, slot::subslice.name())
    }

    /// The shapes of slices a platform such as `tpu7x` comes in.
    pub fn slice_configs(&self, platform: &str) -> Result<Vec<SliceConfig>, Error> {
        let empty = PJRT_TpuTopology_SliceConfig { dim_size: 0, dimensions: [0; 4], wrap: [false; 4], twist: false };
        let mut configs = vec![empty; MAX_SLICE_CONFIGS];
        let mut args = PJRT_TpuTopology_GetSliceConfigs_Args::new();
        args.platform_type_name = chars(platform.as_bytes());
        args.platform_type_name_len = platform.len();
        args.slice_configs = configs.as_mut_ptr();
        args.max_slice_configs = configs.len();
        // SAFETY: the name is borrowed for the call; `configs` has the stated length.
        unsafe { self.record.call(slot::get_slice_configs, &mut args)? };
        configs.truncate(args.num_slice_configs);
        let read = |config: PJRT_TpuTopology_SliceConfig| SliceConfig {
            dims: config.dimensions.into_iter().take(config.dim_size).collect(),
            wrap: config.wrap.into_iter().take(config.dim_size).collect(),
            twist: config.twist,
        };
        Ok(configs.into_iter().map(read).collect())
    }

    /// How chips of a platform sit in a host.
    pub fn platform_config(&self, platform: &str) -> Result<PlatformConfig, Error> {
        let mut args = PJRT_TpuTopology_GetDefaultPlatformConfig_Args::new();
        args.platform_type_name = chars(platform.as_bytes());
        args.platform_type_name_len = platform.len();
        // SAFETY: the name is borrowed for the call.
        unsafe { self.record.call(slot::get_default_platform_config, &mut args)? };
        Ok(PlatformConfig { chips_per_tray: args.num_chips_per_tray, trays: args.num_trays })
    }
}
