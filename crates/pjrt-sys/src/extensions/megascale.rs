//! Megascale extension: configurations and device ids of multi-slice programs. Tables of error handling and networking are left opaque.

use std::ffi::c_char;

use crate::abi::{extension, opaque, sized};
use crate::*;

opaque! {
    /// Context of multi-slice communication.
    PJRT_Megascale_ClientContext,
}

sized! {
    /// Arguments of `PJRT_Megascale_CreateClientContextFromPjRtClient`.
    PJRT_Megascale_CreateClientContextFromPjRtClient_Args {
        client: *mut PJRT_Client,
        client_context: *mut PJRT_Megascale_ClientContext, // out
    }
}

sized! {
    /// Arguments of `PJRT_Megascale_CreateDefaultClientContext`.
    PJRT_Megascale_CreateDefaultClientContext_Args {
        client_context: *mut PJRT_Megascale_ClientContext, // out
    }
}

sized! {
    /// Arguments of `PJRT_Megascale_DeleteClientContext`.
    PJRT_Megascale_DeleteClientContext_Args {
        client_context: *mut PJRT_Megascale_ClientContext,
    }
}

sized! {
    /// Arguments of `PJRT_Megascale_CreateAoTConfig`.
    PJRT_Megascale_CreateAoTConfig_Args {
        topology: *const PJRT_TopologyDescription,
        num_slices: i32,
        multi_slice_config: *mut PJRT_MultiSlice_Config, // out
    }
}

sized! {
    /// Arguments of `PJRT_Megascale_CreateMultiSliceConfig`.
    PJRT_Megascale_CreateMultiSliceConfig_Args {
        topology: *const PJRT_TopologyDescription,
        num_slices: i32,
        local_slice_id: i32,
        local_host_id: i32,
        endpoint_addresses: *const c_char,
        endpoint_addresses_size: i32,
        dcn_topology: *const c_char,
        dcn_topology_size: i32,
        client_context: *mut PJRT_Megascale_ClientContext,
        multi_slice_config: *mut PJRT_MultiSlice_Config, // out
    }
}

sized! {
    /// Arguments of `PJRT_Megascale_DeviceId_To_MegascaleId`.
    PJRT_Megascale_DeviceId_To_MegascaleId_Args {
        slice_id: i32,
        per_slice_device_id: i32,
        megascale_id: i64, // out
    }
}

sized! {
    /// Arguments of `PJRT_Megascale_MegascaleId_To_DeviceId`.
    PJRT_Megascale_MegascaleId_To_DeviceId_Args {
        megascale_id: i64,
        slice_id: i32, // out
        per_slice_device_id: i32, // out
    }
}

extension! {
    /// The extension record; read its functions through [`slot`].
    PJRT_Megascale_Extension = PJRT_Extension_Type_Megascale {
        create_client_context_from_pjrt_client: Call<PJRT_Megascale_CreateClientContextFromPjRtClient_Args>,
        create_default_client_context: Call<PJRT_Megascale_CreateDefaultClientContext_Args>,
        delete_client_context: Call<PJRT_Megascale_DeleteClientContext_Args>,
        create_aot_config: Call<PJRT_Megascale_CreateAoTConfig_Args>,
        create_multi_slice_config: Call<PJRT_Megascale_CreateMultiSliceConfig_Args>,
        delete_multi_slice_config: Unused,
        multi_slice_config_num_slices: Unused,
        multi_slice_config_slice_id: Unused,
        multi_slice_config_get_num_devices_per_slice: Unused,
        multi_slice_config_serialize: Unused,
        client_context_initialize: Unused,
        client_context_unblock_pending_work: Unused,
        client_context_megascale_port: Unused,
        create_megascale_collectives: Unused,
        device_id_to_megascale_id: Call<PJRT_Megascale_DeviceId_To_MegascaleId_Args>,
        megascale_id_to_device_id: Call<PJRT_Megascale_MegascaleId_To_DeviceId_Args>,
        register_megascale_error_handler: Unused,
        unregister_megascale_error_handler: Unused,
        error_aggregator_create: Unused,
        error_aggregator_delete: Unused,
        error_digest_delete: Unused,
        error_aggregator_add_error: Unused,
        error_aggregator_process_and_shutdown: Unused,
        error_aggregator_log_error_digest: Unused,
        error_aggregator_size: Unused,
        error_aggregator_active: Unused,
        get_interface_addresses_helper: Unused,
        get_or_create_runtime_error: Unused,
    }
}
