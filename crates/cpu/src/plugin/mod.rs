//! The PJRT API table of this device: every function filled, those it cannot serve answering UNIMPLEMENTED.
#![allow(unsafe_code, non_snake_case)]

use std::sync::OnceLock;

use pjrt_sys::*;

mod buffer;
mod call;
mod client;
mod element;
mod event;
mod executable;
mod execute;
mod extensions;
mod ledger;
mod named;
mod overrides;
mod processes;
mod profiler;
mod settings;
mod strided;
mod topology;
mod transfer;
mod wire;

/// Kind of the devices.
pub(crate) const DEVICE_KIND: &str = "tpubridge_cpu";

/// Version of the platform.
pub(crate) const PLATFORM_VERSION: &str = concat!("tpubridge ", env!("CARGO_PKG_VERSION"));

/// Newest version of StableHLO programs may be written in.
const STABLEHLO_CURRENT: [i64; 3] = [1, 17, 0];

/// Oldest version of StableHLO programs may be written in.
const STABLEHLO_MINIMUM: [i64; 3] = [0, 9, 0];

/// The table, for clients in this process. It lives as long as the process.
pub fn api() -> *const PJRT_Api {
    static TABLE: OnceLock<call::Shared<PJRT_Api>> = OnceLock::new();
    &TABLE.get_or_init(|| call::Shared(table())).0
}

/// The one symbol a plugin exports.
#[unsafe(no_mangle)]
pub extern "C" fn GetPjrtApi() -> *const PJRT_Api {
    api()
}

/// Fills the slots of a table, by the module that has the functions.
macro_rules! fill {
    ($api:ident, $($module:ident: $($name:ident),*;)*) => { $($($api.$name = Some($module::$name);)*)* };
}

/// Declares functions this device cannot serve, and fills their slots.
macro_rules! refuse {
    ($api:ident, $($name:ident: $args:ident,)*) => {$(
        $api.$name = {
            unsafe extern "C" fn refuse(_: *mut $args) -> *mut PJRT_Error {
                call::Failure::unimplemented(concat!(stringify!($name), " is not implemented by this device")).into_raw()
            }
            Some(refuse)
        };
    )*};
}

fn table() -> PJRT_Api {
    let mut api = PJRT_Api::new();
    api.extension_start = (&raw const extensions::LAYOUTS.0.base).cast_mut();
    fill! {
        api,
        call: PJRT_Error_Destroy, PJRT_Error_Message, PJRT_Error_GetCode, PJRT_Error_ForEachPayload;
        topology: PJRT_Plugin_Initialize, PJRT_Plugin_Attributes, PJRT_TopologyDescription_Create, PJRT_TopologyDescription_Destroy, PJRT_TopologyDescription_PlatformName, PJRT_TopologyDescription_PlatformVersion, PJRT_TopologyDescription_GetDeviceDescriptions, PJRT_TopologyDescription_Serialize, PJRT_TopologyDescription_Attributes, PJRT_TopologyDescription_Deserialize, PJRT_TopologyDescription_Fingerprint, PJRT_TopologyDescription_GetMemorySpaceKindIds;
        event: PJRT_Event_Destroy, PJRT_Event_IsReady, PJRT_Event_Error, PJRT_Event_Await, PJRT_Event_OnReady, PJRT_Event_Create, PJRT_Event_Set;
        client: PJRT_Client_Create, PJRT_Client_Destroy, PJRT_Client_PlatformName, PJRT_Client_ProcessIndex, PJRT_Client_PlatformVersion, PJRT_Client_Devices, PJRT_Client_AddressableDevices, PJRT_Client_LookupDevice, PJRT_Client_LookupAddressableDevice, PJRT_Client_AddressableMemories, PJRT_Client_DefaultDeviceAssignment, PJRT_DeviceDescription_Id, PJRT_DeviceDescription_ProcessIndex, PJRT_DeviceDescription_Attributes, PJRT_DeviceDescription_Kind, PJRT_DeviceDescription_DebugString, PJRT_DeviceDescription_ToString, PJRT_Device_GetDescription, PJRT_Device_IsAddressable, PJRT_Device_LocalHardwareId, PJRT_Device_AddressableMemories, PJRT_Device_DefaultMemory, PJRT_Device_MemoryStats, PJRT_Memory_Id, PJRT_Memory_Kind, PJRT_Memory_DebugString, PJRT_Memory_ToString, PJRT_Memory_AddressableByDevices, PJRT_Client_TopologyDescription, PJRT_Memory_Kind_Id, PJRT_Client_DmaMap, PJRT_Client_DmaUnmap, PJRT_Client_UpdateGlobalProcessInfo, PJRT_Device_GetAttributes, PJRT_Device_ClearMemoryStats, PJRT_Device_CreateAsyncTrackingEvent, PJRT_AsyncTrackingEvent_Destroy;
        buffer: PJRT_Client_BufferFromHostBuffer, PJRT_Buffer_Destroy, PJRT_Buffer_ElementType, PJRT_Buffer_Dimensions, PJRT_Buffer_UnpaddedDimensions, PJRT_Buffer_DynamicDimensionIndices, PJRT_Buffer_GetMemoryLayout, PJRT_Buffer_OnDeviceSizeInBytes, PJRT_Buffer_Device, PJRT_Buffer_Memory, PJRT_Buffer_Delete, PJRT_Buffer_IsDeleted, PJRT_Buffer_CopyToDevice, PJRT_Buffer_ToHostBuffer, PJRT_Buffer_IsOnCpu, PJRT_Buffer_ReadyEvent, PJRT_Buffer_UnsafePointer, PJRT_Buffer_IncreaseExternalReferenceCount, PJRT_Buffer_DecreaseExternalReferenceCount, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, PJRT_Buffer_CopyToMemory, PJRT_Client_CreateViewOfDeviceBuffer, PJRT_Buffer_CopyRawToHost, PJRT_Client_CreateUninitializedBuffer, PJRT_Client_CreateErrorBuffer;
        transfer: PJRT_AsyncHostToDeviceTransferManager_Destroy, PJRT_AsyncHostToDeviceTransferManager_TransferData, PJRT_Client_CreateBuffersForAsyncHostToDevice, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, PJRT_AsyncHostToDeviceTransferManager_Device, PJRT_AsyncHostToDeviceTransferManager_BufferCount, PJRT_AsyncHostToDeviceTransferManager_BufferSize, PJRT_AsyncHostToDeviceTransferManager_SetBufferError, PJRT_AsyncHostToDeviceTransferManager_AddMetadata, PJRT_AsyncHostToDeviceTransferManager_TransferLiteral;
        executable: PJRT_Client_Compile, PJRT_Executable_Destroy, PJRT_Executable_Name, PJRT_Executable_NumReplicas, PJRT_Executable_NumPartitions, PJRT_Executable_NumOutputs, PJRT_Executable_SizeOfGeneratedCodeInBytes, PJRT_Executable_GetCostAnalysis, PJRT_Executable_OutputMemoryKinds, PJRT_Executable_OptimizedProgram, PJRT_Executable_Serialize, PJRT_LoadedExecutable_Destroy, PJRT_LoadedExecutable_GetExecutable, PJRT_LoadedExecutable_AddressableDevices, PJRT_LoadedExecutable_Delete, PJRT_LoadedExecutable_IsDeleted, PJRT_Executable_DeserializeAndLoad, PJRT_LoadedExecutable_Fingerprint, PJRT_Compile, PJRT_Executable_OutputElementTypes, PJRT_Executable_OutputDimensions, PJRT_Executable_Fingerprint, PJRT_Executable_GetCompiledMemoryStats, PJRT_LoadedExecutable_GetDeviceAssignment, PJRT_Executable_GetCompileOptions, PJRT_Client_Load, PJRT_LoadedExecutable_AddressableDeviceLogicalIds, PJRT_Executable_ParameterMemoryKinds;
        execute: PJRT_LoadedExecutable_Execute, PJRT_ExecuteContext_Create, PJRT_ExecuteContext_Destroy;
    }
    refuse! {
        api,
        PJRT_CopyToDeviceStream_Destroy: PJRT_CopyToDeviceStream_Destroy_Args,
        PJRT_CopyToDeviceStream_AddChunk: PJRT_CopyToDeviceStream_AddChunk_Args,
        PJRT_CopyToDeviceStream_TotalBytes: PJRT_CopyToDeviceStream_TotalBytes_Args,
        PJRT_CopyToDeviceStream_GranuleSize: PJRT_CopyToDeviceStream_GranuleSize_Args,
        PJRT_CopyToDeviceStream_CurrentBytes: PJRT_CopyToDeviceStream_CurrentBytes_Args,
        PJRT_Client_CreateAliasBuffer: PJRT_Client_CreateAliasBuffer_Args,
        PJRT_Client_FulfillAliasBuffer: PJRT_Client_FulfillAliasBuffer_Args,
        PJRT_Buffer_CopyRawToHostFuture: PJRT_Buffer_CopyRawToHostFuture_Args,
        PJRT_Device_PoisonExecution: PJRT_Device_PoisonExecution_Args,
        PJRT_Buffer_DonateWithControlDependency: PJRT_Buffer_DonateWithControlDependency_Args,
        PJRT_Buffer_Bitcast: PJRT_Buffer_Bitcast_Args,
        PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace: PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args,
    }
    api
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_slot_is_null() {
        let table = api();
        for (name, offset) in SLOTS {
            // SAFETY: every slot of our own table is one pointer within it.
            let slot = unsafe { table.byte_add(*offset).cast::<usize>().read() };
            assert_ne!(slot, 0, "{name}");
        }
    }
}
