//! Sizes of the structs, as gcc 12 on x86-64 Linux laid out the headers of API 0.114.

macro_rules! rows {
    ($($name:ident $size:literal $struct_size:literal,)*) => {
        [$((stringify!($name), [size_of::<$name>(), $name::STRUCT_SIZE], [$size, $struct_size]),)*]
    };
}

fn check<const N: usize>(rows: [(&'static str, [usize; 2], [usize; 2]); N]) {
    let wrong: Vec<_> = rows.iter().filter(|(_, ours, theirs)| ours != theirs).collect();
    assert!(wrong.is_empty(), "name, [size, STRUCT_SIZE] here, in C: {wrong:#?}");
}

#[test]
fn table_structs() {
    use pjrt_sys::*;
    check(rows! {
        PJRT_Extension_Base 24 24,
        PJRT_Api_Version 24 24,
        PJRT_Error_Destroy_Args 24 24,
        PJRT_Error_Message_Args 40 40,
        PJRT_Error_FunctionTable 56 56,
        PJRT_Error 8 8,
        PJRT_Error_GetCode_Args 32 28,
        PJRT_Error_ForEachPayload_Args 40 40,
        PJRT_NamedValue 56 56,
        PJRT_Plugin_Initialize_Args 16 16,
        PJRT_Plugin_Attributes_Args 32 32,
        PJRT_Event_Destroy_Args 24 24,
        PJRT_Event_IsReady_Args 32 25,
        PJRT_Event_Error_Args 24 24,
        PJRT_Event_Await_Args 24 24,
        PJRT_Event_OnReady_Args 40 40,
        PJRT_Event_Create_Args 24 24,
        PJRT_Event_Set_Args 48 48,
        PJRT_Memory_FunctionTable 40 40,
        PJRT_Memory 8 8,
        PJRT_KeyValueGetCallback_Args 80 80,
        PJRT_KeyValueTryGetCallback_Args 72 72,
        PJRT_KeyValuePutCallback_Args 64 64,
        PJRT_Client_Create_Args 88 88,
        PJRT_Client_Destroy_Args 24 24,
        PJRT_Client_PlatformName_Args 40 40,
        PJRT_Client_ProcessIndex_Args 32 28,
        PJRT_Client_PlatformVersion_Args 40 40,
        PJRT_Client_TopologyDescription_Args 32 32,
        PJRT_Client_Devices_Args 40 40,
        PJRT_Client_AddressableDevices_Args 40 40,
        PJRT_Client_LookupDevice_Args 40 40,
        PJRT_Client_LookupAddressableDevice_Args 40 40,
        PJRT_ProcessInfo 48 48,
        PJRT_Client_UpdateGlobalProcessInfo_Args 40 40,
        PJRT_Client_AddressableMemories_Args 40 40,
        PJRT_Program 48 48,
        PJRT_Client_Compile_Args 56 56,
        PJRT_Client_Load_Args 56 56,
        PJRT_Client_DefaultDeviceAssignment_Args 48 48,
        PJRT_Client_DmaMap_Args 40 40,
        PJRT_Client_DmaUnmap_Args 32 32,
        PJRT_AsyncHostToDeviceTransferManager_Destroy_Args 24 24,
        PJRT_AsyncHostToDeviceTransferManager_TransferData_Args 72 72,
        PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args 40 40,
        PJRT_AsyncHostToDeviceTransferManager_Device_Args 32 32,
        PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args 32 32,
        PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args 40 40,
        PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args 48 48,
        PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args 40 40,
        PJRT_Buffer_MemoryLayout_Tiled 56 56,
        PJRT_Buffer_MemoryLayout_Strides 32 32,
        PJRT_Buffer_MemoryLayout 80 76,
        PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args 80 80,
        PJRT_Client_CreateUninitializedBuffer_Args 80 80,
        PJRT_Client_CreateErrorBuffer_Args 112 112,
        PJRT_Client_CreateAliasBuffer_Args 80 80,
        PJRT_Client_FulfillAliasBuffer_Args 64 64,
        PJRT_Client_BufferFromHostBuffer_Args 120 120,
        PJRT_Client_CreateViewOfDeviceBuffer_Args 112 112,
        PJRT_ShapeSpec 40 36,
        PJRT_Client_CreateBuffersForAsyncHostToDevice_Args 72 72,
        PJRT_DeviceDescription_Id_Args 32 28,
        PJRT_DeviceDescription_ProcessIndex_Args 32 28,
        PJRT_DeviceDescription_Attributes_Args 40 40,
        PJRT_DeviceDescription_Kind_Args 40 40,
        PJRT_DeviceDescription_DebugString_Args 40 40,
        PJRT_DeviceDescription_ToString_Args 40 40,
        PJRT_Device_GetDescription_Args 32 32,
        PJRT_Device_IsAddressable_Args 32 25,
        PJRT_Device_LocalHardwareId_Args 32 28,
        PJRT_Device_AddressableMemories_Args 40 40,
        PJRT_Device_DefaultMemory_Args 32 32,
        PJRT_Device_MemoryStats_Args 208 201,
        PJRT_Device_ClearMemoryStats_Args 24 24,
        PJRT_Device_PoisonExecution_Args 72 72,
        PJRT_Device_GetAttributes_Args 56 56,
        PJRT_Device_CreateAsyncTrackingEvent_Args 48 48,
        PJRT_AsyncTrackingEvent_Destroy_Args 24 24,
        PJRT_Memory_Id_Args 32 28,
        PJRT_Memory_Kind_Args 40 40,
        PJRT_Memory_Kind_Id_Args 32 28,
        PJRT_Memory_DebugString_Args 40 40,
        PJRT_Memory_ToString_Args 40 40,
        PJRT_Memory_AddressableByDevices_Args 40 40,
        PJRT_ExecuteContext_Create_Args 24 24,
        PJRT_ExecuteContext_Destroy_Args 24 24,
        PJRT_Executable_Destroy_Args 24 24,
        PJRT_LoadedExecutable_Destroy_Args 24 24,
        PJRT_LoadedExecutable_GetExecutable_Args 32 32,
        PJRT_LoadedExecutable_GetDeviceAssignment_Args 56 56,
        PJRT_Executable_Name_Args 40 40,
        PJRT_Executable_NumReplicas_Args 32 32,
        PJRT_Executable_NumPartitions_Args 32 32,
        PJRT_LogicalDeviceIds 8 8,
        PJRT_LoadedExecutable_AddressableDevices_Args 40 40,
        PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args 40 40,
        PJRT_Executable_OptimizedProgram_Args 32 32,
        PJRT_LoadedExecutable_Delete_Args 24 24,
        PJRT_LoadedExecutable_IsDeleted_Args 32 25,
        PJRT_Chunk 32 32,
        PJRT_SendCallbackInfo 24 24,
        PJRT_RecvCallbackInfo 24 24,
        PJRT_HloOutputCallbackInfo 32 32,
        PJRT_ExecuteOptions 144 144,
        PJRT_LoadedExecutable_Execute_Args 80 80,
        PJRT_Executable_NumOutputs_Args 32 32,
        PJRT_Executable_SizeOfGeneratedCodeInBytes_Args 32 32,
        PJRT_Executable_Fingerprint_Args 40 40,
        PJRT_Executable_GetCostAnalysis_Args 40 40,
        PJRT_Executable_GetCompiledMemoryStats_Args 144 144,
        PJRT_Executable_OutputElementTypes_Args 40 40,
        PJRT_Executable_OutputDimensions_Args 48 48,
        PJRT_Executable_ParameterMemoryKinds_Args 48 48,
        PJRT_Executable_OutputMemoryKinds_Args 48 48,
        PJRT_Executable_Serialize_Args 56 56,
        PJRT_Executable_GetCompileOptions_Args 56 56,
        PJRT_LoadOptions 32 32,
        PJRT_Executable_DeserializeAndLoad_Args 72 72,
        PJRT_LoadedExecutable_Fingerprint_Args 40 40,
        PJRT_Buffer_Destroy_Args 24 24,
        PJRT_Buffer_ElementType_Args 32 28,
        PJRT_Buffer_Dimensions_Args 40 40,
        PJRT_Buffer_UnpaddedDimensions_Args 40 40,
        PJRT_Buffer_DynamicDimensionIndices_Args 40 40,
        PJRT_Buffer_GetMemoryLayout_Args 104 104,
        PJRT_Buffer_ToHostBuffer_Args 56 56,
        PJRT_Buffer_OnDeviceSizeInBytes_Args 32 32,
        PJRT_Buffer_Delete_Args 24 24,
        PJRT_Buffer_IsDeleted_Args 32 25,
        PJRT_Buffer_CopyRawToHost_Args 56 56,
        PJRT_Buffer_CopyRawToHostFuture_Callback_Args 48 48,
        PJRT_Buffer_CopyRawToHostFuture_Args 64 64,
        PJRT_Buffer_CopyToDevice_Args 40 40,
        PJRT_Buffer_CopyToMemory_Args 40 40,
        PJRT_Buffer_Bitcast_Args 64 64,
        PJRT_Buffer_IsOnCpu_Args 32 25,
        PJRT_Buffer_Device_Args 32 32,
        PJRT_Buffer_Memory_Args 32 32,
        PJRT_Buffer_ReadyEvent_Args 32 32,
        PJRT_Buffer_UnsafePointer_Args 32 32,
        PJRT_Buffer_IncreaseExternalReferenceCount_Args 24 24,
        PJRT_Buffer_DecreaseExternalReferenceCount_Args 24 24,
        PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args 32 32,
        PJRT_Buffer_DonateWithControlDependency_Callback_Args 40 40,
        PJRT_Buffer_DonateWithControlDependency_Args 48 48,
        PJRT_CopyToDeviceStream_Destroy_Args 24 24,
        PJRT_CopyToDeviceStream_AddChunk_Args 40 40,
        PJRT_CopyToDeviceStream_TotalBytes_Args 32 32,
        PJRT_CopyToDeviceStream_GranuleSize_Args 32 32,
        PJRT_CopyToDeviceStream_CurrentBytes_Args 32 32,
        PJRT_TopologyDescription_Create_Args 56 56,
        PJRT_TopologyDescription_Destroy_Args 24 24,
        PJRT_TopologyDescription_PlatformVersion_Args 40 40,
        PJRT_TopologyDescription_PlatformName_Args 40 40,
        PJRT_TopologyDescription_GetDeviceDescriptions_Args 40 40,
        PJRT_TopologyDescription_Serialize_Args 56 56,
        PJRT_TopologyDescription_Deserialize_Args 40 40,
        PJRT_TopologyDescription_Attributes_Args 40 40,
        PJRT_TopologyDescription_Fingerprint_Args 32 32,
        PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args 88 88,
        PJRT_TopologyDescription_GetMemorySpaceKindIds_Args 40 40,
        PJRT_Compile_Args 64 64,
    });
}

#[test]
fn phase_compile_structs() {
    use pjrt_sys::extensions::phase_compile::*;
    check(rows! {
        PJRT_PhaseCompile_Get_Compiler_Args 24 24,
        PJRT_PhaseCompile_Destroy_Compiler_Args 24 24,
        PJRT_PhaseCompile_Run_Phase_Args 120 120,
        PJRT_PhaseCompile_Get_PhaseNames_Args 48 48,
        PJRT_PhaseCompile_C_Buffers_Destroy_Args 40 40,
        PJRT_PhaseCompile_Extension 64 64,
    });
}

#[test]
fn layouts_structs() {
    use pjrt_sys::extensions::layouts::*;
    check(rows! {
        PJRT_Layouts_MemoryLayout_Destroy_Args 24 24,
        PJRT_Layouts_MemoryLayout_Serialize_Args 56 56,
        PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args 32 32,
        PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args 56 56,
        PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args 56 56,
        PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args 40 40,
        PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args 40 40,
        PJRT_Layouts_Extension 80 80,
    });
}

#[test]
fn memory_descriptions_structs() {
    use pjrt_sys::extensions::memory_descriptions::*;
    check(rows! {
        PJRT_DeviceDescription_MemoryDescriptions_Args 48 48,
        PJRT_MemoryDescription_Kind_Args 48 44,
        PJRT_MemoryDescriptions_Extension 40 40,
    });
}

#[test]
fn tpu_executable_structs() {
    use pjrt_sys::extensions::tpu_executable::*;
    check(rows! {
        PJRT_TpuExecutable_GetTargetArguments_Args 56 56,
        PJRT_TpuExecutable_GetHloModuleWithConfig_Args 56 56,
        PJRT_TpuExecutable_RunHloCostAnalysis_Args 80 80,
        PJRT_TpuExecutable_GetCompiledMemoryStats_Args 56 56,
        PJRT_TpuExecutable_SetTpuCompilationEnv_Args 56 56,
        PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString_Args 72 72,
        PJRT_TpuExecutable_IsTpuPredeterminedError_Args 32 25,
        PJRT_TpuExecutable_IsTpuCancellationPlaceholderError_Args 32 25,
        PJRT_TpuExecutable_Extension 96 96,
    });
}

#[test]
fn tpu_topology_structs() {
    use pjrt_sys::extensions::tpu_topology::*;
    check(rows! {
        PJRT_TpuTopology_Subslice_Args 56 56,
        PJRT_TpuTopology_IsSubsliceTopology_Args 24 17,
        PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId_Args 48 48,
        PJRT_TpuTopology_ReplaceHostBounds_Args 40 40,
        PJRT_TpuTopology_IsEnhancedBarrierEnabled_Args 24 17,
        PJRT_TpuTopology_HasLimitedIciConnectivity_Args 24 17,
        PJRT_TpuTopology_IsReachableOverLimitedIci_Args 32 25,
        PJRT_TpuTopology_ProcessCount_Args 24 20,
        PJRT_TpuTopology_ChipsPerProcess_Args 24 20,
        PJRT_TpuTopology_CoreCountPerChip_Args 24 20,
        PJRT_TpuTopology_ChipCount_Args 24 20,
        PJRT_TpuTopology_CoreCount_Args 24 20,
        PJRT_TpuTopology_LogiDeviceCount_Args 24 20,
        PJRT_TpuTopology_LogiDeviceCountPerProcess_Args 24 20,
        PJRT_TpuTopology_LogiDeviceCountPerChip_Args 24 20,
        PJRT_TpuTopology_CoreCountPerProcess_Args 24 20,
        PJRT_TpuTopology_ProcessIds_Args 40 40,
        PJRT_TpuTopology_LogiDeviceIdsOnProcess_Args 40 40,
        PJRT_TpuTopology_ProcIdAndIdxOnProcForChip_Args 32 28,
        PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice_Args 32 28,
        PJRT_TpuTopology_ProcessCoordFromId_Args 48 48,
        PJRT_TpuTopology_ChipIdFromCoord_Args 40 36,
        PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx_Args 40 40,
        PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice_Args 56 52,
        PJRT_TpuTopology_ChipsPerProcessBounds_Args 40 40,
        PJRT_TpuTopology_ChipBounds_Args 40 40,
        PJRT_TpuTopology_ProcessBounds_Args 40 40,
        PJRT_TpuTopology_GetRoutingStrategy_Args 32 32,
        PJRT_TpuTopology_SliceConfig 32 29,
        PJRT_TpuTopology_GetSliceConfig_Args 48 48,
        PJRT_TpuTopology_GetSliceConfigs_Args 48 48,
        PJRT_TpuTopology_GetDefaultPlatformConfig_Args 40 40,
        PJRT_TpuTopology_Extension 272 272,
    });
}

#[test]
fn shardings_structs() {
    use pjrt_sys::extensions::shardings::*;
    check(rows! {
        PJRT_Shardings_PJRT_Executable_ParameterShardings_Args 48 48,
        PJRT_Shardings_PJRT_Executable_OutputShardings_Args 48 48,
        PJRT_Shardings_Extension 40 40,
    });
}

#[test]
fn multi_slice_structs() {
    use pjrt_sys::extensions::multi_slice::*;
    check(rows! {
        PJRT_MultiSlice_Config_Destroy_Args 16 16,
        PJRT_MultiSlice_Config_NumSlices_Args 24 20,
        PJRT_MultiSlice_Config_SliceId_Args 24 20,
        PJRT_MultiSlice_Config_NumDevicesPerSlice_Args 56 56,
        PJRT_MultiSlice_Config_Serialize_Args 48 48,
        PJRT_MultiSlice_Extension 64 64,
    });
}

#[test]
fn megascale_structs() {
    use pjrt_sys::extensions::megascale::*;
    check(rows! {
        PJRT_Megascale_CreateClientContextFromPjRtClient_Args 24 24,
        PJRT_Megascale_CreateDefaultClientContext_Args 16 16,
        PJRT_Megascale_DeleteClientContext_Args 16 16,
        PJRT_Megascale_CreateAoTConfig_Args 32 32,
        PJRT_Megascale_CreateMultiSliceConfig_Args 80 80,
        PJRT_Megascale_DeviceId_To_MegascaleId_Args 24 24,
        PJRT_Megascale_MegascaleId_To_DeviceId_Args 24 24,
        PJRT_Megascale_Extension 248 248,
    });
}

#[test]
fn ffi_structs() {
    use pjrt_sys::extensions::ffi::*;
    check(rows! {
        PJRT_FFI_Type_Info 24 24,
        PJRT_FFI_Type_Register_Args 48 48,
        PJRT_FFI_UserData 16 16,
        PJRT_FFI_UserData_Add_Args 40 40,
        PJRT_FFI_Register_Handler_Args 56 52,
        PJRT_FFI_Extension 48 48,
    });
}

#[test]
fn profiler_structs() {
    use pjrt_sys::extensions::profiler::*;
    check(rows! {
        PLUGIN_Profiler_Error_Destroy_Args 24 24,
        PLUGIN_Profiler_Error_Message_Args 40 40,
        PLUGIN_Profiler_Error_GetCode_Args 32 28,
        PLUGIN_Profiler_Create_Args 32 32,
        PLUGIN_Profiler_Session_Args 16 16,
        PLUGIN_Profiler_CollectData_Args 32 32,
        PLUGIN_Profiler_Api 80 80,
        PJRT_Profiler_Extension 40 40,
    });
}
