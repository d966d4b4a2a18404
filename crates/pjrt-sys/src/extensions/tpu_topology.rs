//! TPU topology extension: counts, coordinates and bounds of chips, cores and hosts.

use std::ffi::c_char;

use crate::abi::{extension, record, sized};
use crate::*;

sized! {
    /// Arguments of `PJRT_TpuTopology_Subslice`.
    PJRT_TpuTopology_Subslice_Args {
        topology: *const PJRT_TopologyDescription,
        chips_per_host_bounds: *const i32,
        chips_per_host_bounds_num_dims: usize,
        host_bounds: *const i32,
        host_bounds_num_dims: usize,
        subslice_topology: *mut PJRT_TopologyDescription, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_IsSubsliceTopology`.
    PJRT_TpuTopology_IsSubsliceTopology_Args {
        topology: *const PJRT_TopologyDescription,
        is_subslice_topology: bool, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId`.
    PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId_Args {
        client_topology: *const PJRT_TopologyDescription,
        subslice_topology: *const PJRT_TopologyDescription,
        subslice_origin: *const i32,
        subslice_origin_dim_num: usize,
        full_device_id: i32,
        subslice_device_id: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ReplaceHostBounds`.
    PJRT_TpuTopology_ReplaceHostBounds_Args {
        topology: *const PJRT_TopologyDescription,
        host_bounds: *const i32,
        host_bounds_dim_num: usize,
        new_topology: *mut PJRT_TopologyDescription, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_IsEnhancedBarrierEnabled`.
    PJRT_TpuTopology_IsEnhancedBarrierEnabled_Args {
        topology: *const PJRT_TopologyDescription,
        is_enhanced_barrier_enabled: bool, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_HasLimitedIciConnectivity`.
    PJRT_TpuTopology_HasLimitedIciConnectivity_Args {
        topology: *const PJRT_TopologyDescription,
        has_limited_ici_connectivity: bool, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_IsReachableOverLimitedIci`.
    PJRT_TpuTopology_IsReachableOverLimitedIci_Args {
        topology: *const PJRT_TopologyDescription,
        source_chip_id: i32,
        dest_chip_id: i32,
        is_reachable_over_limited_ici: bool, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ProcessCount`.
    PJRT_TpuTopology_ProcessCount_Args {
        topology: *const PJRT_TopologyDescription,
        process_count: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ChipsPerProcess`.
    PJRT_TpuTopology_ChipsPerProcess_Args {
        topology: *const PJRT_TopologyDescription,
        chips_per_process: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_CoreCountPerChip`.
    PJRT_TpuTopology_CoreCountPerChip_Args {
        topology: *const PJRT_TopologyDescription,
        core_count_of_default_type_per_chip: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ChipCount`.
    PJRT_TpuTopology_ChipCount_Args {
        topology: *const PJRT_TopologyDescription,
        chip_count: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_CoreCount`.
    PJRT_TpuTopology_CoreCount_Args {
        topology: *const PJRT_TopologyDescription,
        core_count_of_default_type: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_LogiDeviceCount`.
    PJRT_TpuTopology_LogiDeviceCount_Args {
        topology: *const PJRT_TopologyDescription,
        logical_device_count_of_default_type: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_LogiDeviceCountPerProcess`.
    PJRT_TpuTopology_LogiDeviceCountPerProcess_Args {
        topology: *const PJRT_TopologyDescription,
        logical_device_count_of_default_type_per_process: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_LogiDeviceCountPerChip`.
    PJRT_TpuTopology_LogiDeviceCountPerChip_Args {
        topology: *const PJRT_TopologyDescription,
        logical_device_count_of_default_type_per_chip: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_CoreCountPerProcess`.
    PJRT_TpuTopology_CoreCountPerProcess_Args {
        topology: *const PJRT_TopologyDescription,
        core_count_of_default_type_per_process: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ProcessIds`.
    PJRT_TpuTopology_ProcessIds_Args {
        topology: *const PJRT_TopologyDescription,
        max_process_ids: i32,
        process_ids: *mut i32,
        num_process_ids: usize, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_LogiDeviceIdsOnProcess`.
    PJRT_TpuTopology_LogiDeviceIdsOnProcess_Args {
        topology: *const PJRT_TopologyDescription,
        process_id: i32,
        max_logical_device_ids: i32,
        logical_device_of_default_type_ids: *mut i32,
        num_logical_device_ids: usize, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ProcIdAndIdxOnProcForChip`.
    PJRT_TpuTopology_ProcIdAndIdxOnProcForChip_Args {
        topology: *const PJRT_TopologyDescription,
        chip_id: i32,
        process_id: i32, // out
        index_on_process: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice`.
    PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice_Args {
        topology: *const PJRT_TopologyDescription,
        device_id: i32,
        process_id: i32, // out
        index_on_process: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ProcessCoordFromId`.
    PJRT_TpuTopology_ProcessCoordFromId_Args {
        topology: *const PJRT_TopologyDescription,
        process_id: i32,
        coords_max_dims: usize,
        coords: *mut i32,
        coords_num_dims: usize, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ChipIdFromCoord`.
    PJRT_TpuTopology_ChipIdFromCoord_Args {
        topology: *const PJRT_TopologyDescription,
        coords: *const i32,
        coords_num_dims: usize,
        chip_id: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx`.
    PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx_Args {
        topology: *const PJRT_TopologyDescription,
        chip_coords: *const i32,
        chip_coords_num_dims: usize,
        logical_device_index_on_chip: i32,
        logical_device_of_default_type_id: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice`.
    PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice_Args {
        topology: *const PJRT_TopologyDescription,
        device_id: i32,
        chip_coords_max_dims: usize,
        chip_coords: *mut i32,
        chip_coords_num_dims: usize, // out
        device_index_on_chip: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ChipsPerProcessBounds`.
    PJRT_TpuTopology_ChipsPerProcessBounds_Args {
        topology: *const PJRT_TopologyDescription,
        chip_per_process_bounds_max_dims: usize,
        chip_per_process_bounds: *mut i32,
        chip_per_process_bounds_num_dims: usize, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ChipBounds`.
    PJRT_TpuTopology_ChipBounds_Args {
        topology: *const PJRT_TopologyDescription,
        chip_bounds_max_dims: usize,
        chip_bounds: *mut i32,
        chip_bounds_num_dims: usize, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_ProcessBounds`.
    PJRT_TpuTopology_ProcessBounds_Args {
        topology: *const PJRT_TopologyDescription,
        process_bounds_max_dims: usize,
        process_bounds: *mut i32,
        process_bounds_num_dims: usize, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_GetRoutingStrategy`.
    PJRT_TpuTopology_GetRoutingStrategy_Args {
        topology: *const PJRT_TopologyDescription,
        routing_strategy: *mut c_char,
        routing_strategy_len: usize,
    }
}

record! {
    /// Shape of a slice: the first `dim_size` entries count.
    PJRT_TpuTopology_SliceConfig {
        dim_size: usize,
        dimensions: [i32; 4],
        wrap: [bool; 4],
        twist: bool,
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_GetSliceConfig`.
    PJRT_TpuTopology_GetSliceConfig_Args {
        platform_type_name: *const c_char,
        platform_type_name_len: usize,
        slice_name: *const c_char,
        slice_name_len: usize,
        slice_config: *mut PJRT_TpuTopology_SliceConfig, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_GetSliceConfigs`.
    PJRT_TpuTopology_GetSliceConfigs_Args {
        platform_type_name: *const c_char,
        platform_type_name_len: usize,
        slice_configs: *mut PJRT_TpuTopology_SliceConfig,
        max_slice_configs: usize,
        num_slice_configs: usize, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuTopology_GetDefaultPlatformConfig`.
    PJRT_TpuTopology_GetDefaultPlatformConfig_Args {
        platform_type_name: *const c_char,
        platform_type_name_len: usize,
        num_chips_per_tray: i64, // out
        num_trays: i64, // out
    }
}

extension! {
    /// The extension record; read its functions through [`slot`].
    PJRT_TpuTopology_Extension = PJRT_Extension_Type_TpuTopology {
        subslice: Call<PJRT_TpuTopology_Subslice_Args>,
        is_subslice_topology: Call<PJRT_TpuTopology_IsSubsliceTopology_Args>,
        subslice_device_id_from_full_device_id: Call<PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId_Args>,
        replace_host_bounds: Call<PJRT_TpuTopology_ReplaceHostBounds_Args>,
        is_enhanced_barrier_enabled: Call<PJRT_TpuTopology_IsEnhancedBarrierEnabled_Args>,
        has_limited_ici_connectivity: Call<PJRT_TpuTopology_HasLimitedIciConnectivity_Args>,
        is_reachable_over_limited_ici: Call<PJRT_TpuTopology_IsReachableOverLimitedIci_Args>,
        process_count: Call<PJRT_TpuTopology_ProcessCount_Args>,
        chips_per_process: Call<PJRT_TpuTopology_ChipsPerProcess_Args>,
        core_count_per_chip: Call<PJRT_TpuTopology_CoreCountPerChip_Args>,
        chip_count: Call<PJRT_TpuTopology_ChipCount_Args>,
        core_count: Call<PJRT_TpuTopology_CoreCount_Args>,
        logical_device_count_per_process: Call<PJRT_TpuTopology_LogiDeviceCountPerProcess_Args>,
        logical_device_count: Call<PJRT_TpuTopology_LogiDeviceCount_Args>,
        logical_device_count_per_chip: Call<PJRT_TpuTopology_LogiDeviceCountPerChip_Args>,
        core_count_per_process: Call<PJRT_TpuTopology_CoreCountPerProcess_Args>,
        process_ids: Call<PJRT_TpuTopology_ProcessIds_Args>,
        logical_device_ids_on_process: Call<PJRT_TpuTopology_LogiDeviceIdsOnProcess_Args>,
        proc_id_and_idx_on_proc_for_chip: Call<PJRT_TpuTopology_ProcIdAndIdxOnProcForChip_Args>,
        proc_id_and_idx_on_proc_for_logi_device: Call<PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice_Args>,
        process_coord_from_id: Call<PJRT_TpuTopology_ProcessCoordFromId_Args>,
        chip_id_from_coord: Call<PJRT_TpuTopology_ChipIdFromCoord_Args>,
        logical_device_id_from_chip_coord_and_idx: Call<PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx_Args>,
        chip_coord_and_idx_for_logi_device: Call<PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice_Args>,
        chips_per_process_bounds: Call<PJRT_TpuTopology_ChipsPerProcessBounds_Args>,
        chip_bounds: Call<PJRT_TpuTopology_ChipBounds_Args>,
        process_bounds: Call<PJRT_TpuTopology_ProcessBounds_Args>,
        get_routing_strategy: Call<PJRT_TpuTopology_GetRoutingStrategy_Args>,
        get_slice_config: Call<PJRT_TpuTopology_GetSliceConfig_Args>,
        get_slice_configs: Call<PJRT_TpuTopology_GetSliceConfigs_Args>,
        get_default_platform_config: Call<PJRT_TpuTopology_GetDefaultPlatformConfig_Args>,
    }
}
