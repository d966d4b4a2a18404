//! Multi-slice extension: reading and serializing a multi-slice configuration.

use std::ffi::c_char;

use crate::abi::{extension, opaque, sized};
use crate::*;

opaque! {
    /// Backs the map from slice to device count.
    PJRT_MultiSlice_NumDevicesPerSlice,
    /// Backs a serialized configuration.
    PJRT_MultiSlice_SerializedConfig,
}

sized! {
    /// Arguments of `PJRT_MultiSlice_Config_Destroy`.
    PJRT_MultiSlice_Config_Destroy_Args {
        config: *mut PJRT_MultiSlice_Config,
    }
}

sized! {
    /// Arguments of `PJRT_MultiSlice_Config_NumSlices`.
    PJRT_MultiSlice_Config_NumSlices_Args {
        config: *mut PJRT_MultiSlice_Config,
        num_slices: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_MultiSlice_Config_SliceId`.
    PJRT_MultiSlice_Config_SliceId_Args {
        config: *mut PJRT_MultiSlice_Config,
        slice_id: i32, // out
    }
}

sized! {
    /// Arguments of `PJRT_MultiSlice_Config_NumDevicesPerSlice`.
    PJRT_MultiSlice_Config_NumDevicesPerSlice_Args {
        config: *mut PJRT_MultiSlice_Config,
        num_devices_per_slice_map: usize, // out
        slice_ids: *const i32, // out
        num_devices: *const i32, // out
        devices_per_slice_map: *mut PJRT_MultiSlice_NumDevicesPerSlice, // out
        devices_per_slice_map_deleter: Option<unsafe extern "C" fn(*mut PJRT_MultiSlice_NumDevicesPerSlice)>, // out
    }
}

sized! {
    /// Arguments of `PJRT_MultiSlice_Config_Serialize`.
    PJRT_MultiSlice_Config_Serialize_Args {
        config: *mut PJRT_MultiSlice_Config,
        serialized: *const c_char, // out
        size: usize, // out
        serialized_config: *mut PJRT_MultiSlice_SerializedConfig, // out
        serialized_config_deleter: Option<unsafe extern "C" fn(*mut PJRT_MultiSlice_SerializedConfig)>, // out
    }
}

extension! {
    /// The extension record; read its functions through [`slot`].
    PJRT_MultiSlice_Extension = PJRT_Extension_Type_MultiSlice {
        config_destroy: Call<PJRT_MultiSlice_Config_Destroy_Args>,
        config_num_slices: Call<PJRT_MultiSlice_Config_NumSlices_Args>,
        config_slice_id: Call<PJRT_MultiSlice_Config_SliceId_Args>,
        config_num_devices_per_slice: Call<PJRT_MultiSlice_Config_NumDevicesPerSlice_Args>,
        config_serialize: Call<PJRT_MultiSlice_Config_Serialize_Args>,
    }
}
