//! The table of a plugin: every function in order, and where each one is.

use std::ffi::c_int;
use std::mem::offset_of;

use crate::abi::{Slot, args};
use crate::*;

args! {
    /// Version of the header a plugin was built with. The plugin fills it in its table.
    PJRT_Api_Version {
        major_version: c_int,
        minor_version: c_int,
    }
}

/// Incremented on incompatible changes. A plugin of another major version cannot be used.
pub const PJRT_API_MAJOR: c_int = 0;

/// Minor version of the header these declarations follow.
pub const PJRT_API_MINOR: c_int = 114;

/// A function of the table that can fail: null means success, anything else is an error the caller frees.
pub type Call<A> = unsafe extern "C" fn(*mut A) -> *mut PJRT_Error;

/// A function of the table that cannot fail.
pub type VoidCall<A> = unsafe extern "C" fn(*mut A);

/// What `GetPjrtApi`, the one symbol a plugin exports, is.
pub type GetPjrtApi = unsafe extern "C" fn() -> *const PJRT_Api;

/// Declares the table, one `Slot` per function, and the list of names and offsets.
macro_rules! api_table {
    ($($name:ident: $ty:ty,)*) => {
        /// The function table of a plugin.
        ///
        /// Only a plugin may hold one by value. A client must not form `&PJRT_Api`: an older plugin's API table ends
        /// earlier than this type. Read functions through [`slot`].
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs)]
        pub struct PJRT_Api {
            pub struct_size: usize,
            pub extension_start: *mut PJRT_Extension_Base,
            pub pjrt_api_version: PJRT_Api_Version,
            $(pub $name: Option<$ty>,)*
        }

        /// Name and offset in bytes of every function of the table, in order.
        pub const SLOTS: &[(&str, usize)] = &[$((stringify!($name), offset_of!(PJRT_Api, $name)),)*];

        /// Where each function of the table is.
        pub mod slot {
            use super::*;
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                pub const $name: Slot<PJRT_Api, $ty> = Slot::new(stringify!($name), offset_of!(PJRT_Api, $name));
            )*
        }
    };
}

impl PJRT_Api {
    /// Bytes of the table these declarations know.
    pub const STRUCT_SIZE: usize = size_of::<PJRT_Api>();

    /// A table for a plugin to fill: size and version set, every function null.
    #[allow(unsafe_code)]
    pub const fn new() -> Self {
        // SAFETY: integers, pointers and nullable functions may all be zero.
        let mut api: Self = unsafe { std::mem::MaybeUninit::zeroed().assume_init() };
        api.struct_size = Self::STRUCT_SIZE;
        api.pjrt_api_version = PJRT_Api_Version::new();
        api.pjrt_api_version.major_version = PJRT_API_MAJOR;
        api.pjrt_api_version.minor_version = PJRT_API_MINOR;
        api
    }
}

impl Default for PJRT_Api {
    fn default() -> Self {
        Self::new()
    }
}

api_table! {
    PJRT_Error_Destroy: VoidCall<PJRT_Error_Destroy_Args>,
    PJRT_Error_Message: VoidCall<PJRT_Error_Message_Args>,
    PJRT_Error_GetCode: Call<PJRT_Error_GetCode_Args>,
    PJRT_Plugin_Initialize: Call<PJRT_Plugin_Initialize_Args>,
    PJRT_Plugin_Attributes: Call<PJRT_Plugin_Attributes_Args>,
    PJRT_Event_Destroy: Call<PJRT_Event_Destroy_Args>,
    PJRT_Event_IsReady: Call<PJRT_Event_IsReady_Args>,
    PJRT_Event_Error: Call<PJRT_Event_Error_Args>,
    PJRT_Event_Await: Call<PJRT_Event_Await_Args>,
    PJRT_Event_OnReady: Call<PJRT_Event_OnReady_Args>,
    PJRT_Client_Create: Call<PJRT_Client_Create_Args>,
    PJRT_Client_Destroy: Call<PJRT_Client_Destroy_Args>,
    PJRT_Client_PlatformName: Call<PJRT_Client_PlatformName_Args>,
    PJRT_Client_ProcessIndex: Call<PJRT_Client_ProcessIndex_Args>,
    PJRT_Client_PlatformVersion: Call<PJRT_Client_PlatformVersion_Args>,
    PJRT_Client_Devices: Call<PJRT_Client_Devices_Args>,
    PJRT_Client_AddressableDevices: Call<PJRT_Client_AddressableDevices_Args>,
    PJRT_Client_LookupDevice: Call<PJRT_Client_LookupDevice_Args>,
    PJRT_Client_LookupAddressableDevice: Call<PJRT_Client_LookupAddressableDevice_Args>,
    PJRT_Client_AddressableMemories: Call<PJRT_Client_AddressableMemories_Args>,
    PJRT_Client_Compile: Call<PJRT_Client_Compile_Args>,
    PJRT_Client_DefaultDeviceAssignment: Call<PJRT_Client_DefaultDeviceAssignment_Args>,
    PJRT_Client_BufferFromHostBuffer: Call<PJRT_Client_BufferFromHostBuffer_Args>,
    PJRT_DeviceDescription_Id: Call<PJRT_DeviceDescription_Id_Args>,
    PJRT_DeviceDescription_ProcessIndex: Call<PJRT_DeviceDescription_ProcessIndex_Args>,
    PJRT_DeviceDescription_Attributes: Call<PJRT_DeviceDescription_Attributes_Args>,
    PJRT_DeviceDescription_Kind: Call<PJRT_DeviceDescription_Kind_Args>,
    PJRT_DeviceDescription_DebugString: Call<PJRT_DeviceDescription_DebugString_Args>,
    PJRT_DeviceDescription_ToString: Call<PJRT_DeviceDescription_ToString_Args>,
    PJRT_Device_GetDescription: Call<PJRT_Device_GetDescription_Args>,
    PJRT_Device_IsAddressable: Call<PJRT_Device_IsAddressable_Args>,
    PJRT_Device_LocalHardwareId: Call<PJRT_Device_LocalHardwareId_Args>,
    PJRT_Device_AddressableMemories: Call<PJRT_Device_AddressableMemories_Args>,
    PJRT_Device_DefaultMemory: Call<PJRT_Device_DefaultMemory_Args>,
    PJRT_Device_MemoryStats: Call<PJRT_Device_MemoryStats_Args>,
    PJRT_Memory_Id: Call<PJRT_Memory_Id_Args>,
    PJRT_Memory_Kind: Call<PJRT_Memory_Kind_Args>,
    PJRT_Memory_DebugString: Call<PJRT_Memory_DebugString_Args>,
    PJRT_Memory_ToString: Call<PJRT_Memory_ToString_Args>,
    PJRT_Memory_AddressableByDevices: Call<PJRT_Memory_AddressableByDevices_Args>,
    PJRT_Executable_Destroy: Call<PJRT_Executable_Destroy_Args>,
    PJRT_Executable_Name: Call<PJRT_Executable_Name_Args>,
    PJRT_Executable_NumReplicas: Call<PJRT_Executable_NumReplicas_Args>,
    PJRT_Executable_NumPartitions: Call<PJRT_Executable_NumPartitions_Args>,
    PJRT_Executable_NumOutputs: Call<PJRT_Executable_NumOutputs_Args>,
    PJRT_Executable_SizeOfGeneratedCodeInBytes: Call<PJRT_Executable_SizeOfGeneratedCodeInBytes_Args>,
    PJRT_Executable_GetCostAnalysis: Call<PJRT_Executable_GetCostAnalysis_Args>,
    PJRT_Executable_OutputMemoryKinds: Call<PJRT_Executable_OutputMemoryKinds_Args>,
    PJRT_Executable_OptimizedProgram: Call<PJRT_Executable_OptimizedProgram_Args>,
    PJRT_Executable_Serialize: Call<PJRT_Executable_Serialize_Args>,
    PJRT_LoadedExecutable_Destroy: Call<PJRT_LoadedExecutable_Destroy_Args>,
    PJRT_LoadedExecutable_GetExecutable: Call<PJRT_LoadedExecutable_GetExecutable_Args>,
    PJRT_LoadedExecutable_AddressableDevices: Call<PJRT_LoadedExecutable_AddressableDevices_Args>,
    PJRT_LoadedExecutable_Delete: Call<PJRT_LoadedExecutable_Delete_Args>,
    PJRT_LoadedExecutable_IsDeleted: Call<PJRT_LoadedExecutable_IsDeleted_Args>,
    PJRT_LoadedExecutable_Execute: Call<PJRT_LoadedExecutable_Execute_Args>,
    PJRT_Executable_DeserializeAndLoad: Call<PJRT_Executable_DeserializeAndLoad_Args>,
    PJRT_LoadedExecutable_Fingerprint: Call<PJRT_LoadedExecutable_Fingerprint_Args>,
    PJRT_Buffer_Destroy: Call<PJRT_Buffer_Destroy_Args>,
    PJRT_Buffer_ElementType: Call<PJRT_Buffer_ElementType_Args>,
    PJRT_Buffer_Dimensions: Call<PJRT_Buffer_Dimensions_Args>,
    PJRT_Buffer_UnpaddedDimensions: Call<PJRT_Buffer_UnpaddedDimensions_Args>,
    PJRT_Buffer_DynamicDimensionIndices: Call<PJRT_Buffer_DynamicDimensionIndices_Args>,
    PJRT_Buffer_GetMemoryLayout: Call<PJRT_Buffer_GetMemoryLayout_Args>,
    PJRT_Buffer_OnDeviceSizeInBytes: Call<PJRT_Buffer_OnDeviceSizeInBytes_Args>,
    PJRT_Buffer_Device: Call<PJRT_Buffer_Device_Args>,
    PJRT_Buffer_Memory: Call<PJRT_Buffer_Memory_Args>,
    PJRT_Buffer_Delete: Call<PJRT_Buffer_Delete_Args>,
    PJRT_Buffer_IsDeleted: Call<PJRT_Buffer_IsDeleted_Args>,
    PJRT_Buffer_CopyToDevice: Call<PJRT_Buffer_CopyToDevice_Args>,
    PJRT_Buffer_ToHostBuffer: Call<PJRT_Buffer_ToHostBuffer_Args>,
    PJRT_Buffer_IsOnCpu: Call<PJRT_Buffer_IsOnCpu_Args>,
    PJRT_Buffer_ReadyEvent: Call<PJRT_Buffer_ReadyEvent_Args>,
    PJRT_Buffer_UnsafePointer: Call<PJRT_Buffer_UnsafePointer_Args>,
    PJRT_Buffer_IncreaseExternalReferenceCount: Call<PJRT_Buffer_IncreaseExternalReferenceCount_Args>,
    PJRT_Buffer_DecreaseExternalReferenceCount: Call<PJRT_Buffer_DecreaseExternalReferenceCount_Args>,
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer: Call<PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args>,
    PJRT_CopyToDeviceStream_Destroy: Call<PJRT_CopyToDeviceStream_Destroy_Args>,
    PJRT_CopyToDeviceStream_AddChunk: Call<PJRT_CopyToDeviceStream_AddChunk_Args>,
    PJRT_CopyToDeviceStream_TotalBytes: Call<PJRT_CopyToDeviceStream_TotalBytes_Args>,
    PJRT_CopyToDeviceStream_GranuleSize: Call<PJRT_CopyToDeviceStream_GranuleSize_Args>,
    PJRT_CopyToDeviceStream_CurrentBytes: Call<PJRT_CopyToDeviceStream_CurrentBytes_Args>,
    PJRT_TopologyDescription_Create: Call<PJRT_TopologyDescription_Create_Args>,
    PJRT_TopologyDescription_Destroy: Call<PJRT_TopologyDescription_Destroy_Args>,
    PJRT_TopologyDescription_PlatformName: Call<PJRT_TopologyDescription_PlatformName_Args>,
    PJRT_TopologyDescription_PlatformVersion: Call<PJRT_TopologyDescription_PlatformVersion_Args>,
    PJRT_TopologyDescription_GetDeviceDescriptions: Call<PJRT_TopologyDescription_GetDeviceDescriptions_Args>,
    PJRT_TopologyDescription_Serialize: Call<PJRT_TopologyDescription_Serialize_Args>,
    PJRT_TopologyDescription_Attributes: Call<PJRT_TopologyDescription_Attributes_Args>,
    PJRT_Compile: Call<PJRT_Compile_Args>,
    PJRT_Executable_OutputElementTypes: Call<PJRT_Executable_OutputElementTypes_Args>,
    PJRT_Executable_OutputDimensions: Call<PJRT_Executable_OutputDimensions_Args>,
    PJRT_Buffer_CopyToMemory: Call<PJRT_Buffer_CopyToMemory_Args>,
    PJRT_Client_CreateViewOfDeviceBuffer: Call<PJRT_Client_CreateViewOfDeviceBuffer_Args>,
    PJRT_Executable_Fingerprint: Call<PJRT_Executable_Fingerprint_Args>,
    PJRT_Client_TopologyDescription: Call<PJRT_Client_TopologyDescription_Args>,
    PJRT_Executable_GetCompiledMemoryStats: Call<PJRT_Executable_GetCompiledMemoryStats_Args>,
    PJRT_Memory_Kind_Id: Call<PJRT_Memory_Kind_Id_Args>,
    PJRT_ExecuteContext_Create: Call<PJRT_ExecuteContext_Create_Args>,
    PJRT_ExecuteContext_Destroy: Call<PJRT_ExecuteContext_Destroy_Args>,
    PJRT_Buffer_CopyRawToHost: Call<PJRT_Buffer_CopyRawToHost_Args>,
    PJRT_AsyncHostToDeviceTransferManager_Destroy: Call<PJRT_AsyncHostToDeviceTransferManager_Destroy_Args>,
    PJRT_AsyncHostToDeviceTransferManager_TransferData: Call<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>,
    PJRT_Client_CreateBuffersForAsyncHostToDevice: Call<PJRT_Client_CreateBuffersForAsyncHostToDevice_Args>,
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer: Call<PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args>,
    PJRT_AsyncHostToDeviceTransferManager_Device: Call<PJRT_AsyncHostToDeviceTransferManager_Device_Args>,
    PJRT_AsyncHostToDeviceTransferManager_BufferCount: Call<PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args>,
    PJRT_AsyncHostToDeviceTransferManager_BufferSize: Call<PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args>,
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError: Call<PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args>,
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata: Call<PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args>,
    PJRT_Client_DmaMap: Call<PJRT_Client_DmaMap_Args>,
    PJRT_Client_DmaUnmap: Call<PJRT_Client_DmaUnmap_Args>,
    PJRT_Client_CreateUninitializedBuffer: Call<PJRT_Client_CreateUninitializedBuffer_Args>,
    PJRT_Client_UpdateGlobalProcessInfo: Call<PJRT_Client_UpdateGlobalProcessInfo_Args>,
    PJRT_TopologyDescription_Deserialize: Call<PJRT_TopologyDescription_Deserialize_Args>,
    PJRT_Client_CreateAliasBuffer: Call<PJRT_Client_CreateAliasBuffer_Args>,
    PJRT_Client_FulfillAliasBuffer: Call<PJRT_Client_FulfillAliasBuffer_Args>,
    PJRT_LoadedExecutable_GetDeviceAssignment: Call<PJRT_LoadedExecutable_GetDeviceAssignment_Args>,
    PJRT_Client_CreateErrorBuffer: Call<PJRT_Client_CreateErrorBuffer_Args>,
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral: Call<PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args>,
    PJRT_Buffer_CopyRawToHostFuture: Call<PJRT_Buffer_CopyRawToHostFuture_Args>,
    PJRT_Device_PoisonExecution: Call<PJRT_Device_PoisonExecution_Args>,
    PJRT_Device_CreateAsyncTrackingEvent: Call<PJRT_Device_CreateAsyncTrackingEvent_Args>,
    PJRT_AsyncTrackingEvent_Destroy: Call<PJRT_AsyncTrackingEvent_Destroy_Args>,
    PJRT_Executable_GetCompileOptions: Call<PJRT_Executable_GetCompileOptions_Args>,
    PJRT_Buffer_DonateWithControlDependency: Call<PJRT_Buffer_DonateWithControlDependency_Args>,
    PJRT_Event_Create: Call<PJRT_Event_Create_Args>,
    PJRT_Event_Set: Call<PJRT_Event_Set_Args>,
    PJRT_Device_GetAttributes: Call<PJRT_Device_GetAttributes_Args>,
    PJRT_Client_Load: Call<PJRT_Client_Load_Args>,
    PJRT_LoadedExecutable_AddressableDeviceLogicalIds: Call<PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args>,
    PJRT_Buffer_Bitcast: Call<PJRT_Buffer_Bitcast_Args>,
    PJRT_Error_ForEachPayload: Call<PJRT_Error_ForEachPayload_Args>,
    PJRT_TopologyDescription_Fingerprint: Call<PJRT_TopologyDescription_Fingerprint_Args>,
    PJRT_Executable_ParameterMemoryKinds: Call<PJRT_Executable_ParameterMemoryKinds_Args>,
    PJRT_Device_ClearMemoryStats: Call<PJRT_Device_ClearMemoryStats_Args>,
    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace: Call<PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args>,
    PJRT_TopologyDescription_GetMemorySpaceKindIds: Call<PJRT_TopologyDescription_GetMemorySpaceKindIds_Args>,
}
