//! Offsets of every field of the table's structs, as gcc 12 on x86-64 Linux laid out the header of API 0.114.

use super::{check_fields, field_rows};

#[test]
fn errors_and_events() {
    use pjrt_sys::*;
    check_fields(&field_rows! {
        PJRT_Extension_Base { struct_size 0, r#type 8, next 16 },
        PJRT_Api_Version { struct_size 0, extension_start 8, major_version 16, minor_version 20 },
        PJRT_Error_Destroy_Args { struct_size 0, extension_start 8, error 16 },
        PJRT_Error_Message_Args { struct_size 0, extension_start 8, error 16, message 24, message_size 32 },
        PJRT_Error_FunctionTable {
            struct_size 0, instance_size 8, extension_start 16, destroy 24, message 32, get_code 40,
            for_each_payload 48
        },
        PJRT_Error { vtable 0 },
        PJRT_Error_GetCode_Args { struct_size 0, extension_start 8, error 16, code 24 },
        PJRT_Error_ForEachPayload_Args { struct_size 0, extension_start 8, error 16, visitor 24, user_arg 32 },
        PJRT_NamedValue { struct_size 0, extension_start 8, name 16, name_size 24, r#type 32, value 40, value_size 48 },
        PJRT_Plugin_Initialize_Args { struct_size 0, extension_start 8 },
        PJRT_Plugin_Attributes_Args { struct_size 0, extension_start 8, attributes 16, num_attributes 24 },
        PJRT_Event_Destroy_Args { struct_size 0, extension_start 8, event 16 },
        PJRT_Event_IsReady_Args { struct_size 0, extension_start 8, event 16, is_ready 24 },
        PJRT_Event_Error_Args { struct_size 0, extension_start 8, event 16 },
        PJRT_Event_Await_Args { struct_size 0, extension_start 8, event 16 },
        PJRT_Event_OnReady_Args { struct_size 0, extension_start 8, event 16, callback 24, user_arg 32 },
        PJRT_Event_Create_Args { struct_size 0, extension_start 8, event 16 },
        PJRT_Event_Set_Args {
            struct_size 0, extension_start 8, event 16, error_code 24, error_message 32, error_message_size 40
        },
    });
}

#[test]
fn clients_and_key_values() {
    use pjrt_sys::*;
    check_fields(&field_rows! {
        PJRT_KeyValueGetCallback_Args {
            struct_size 0, extension_start 8, key 16, key_size 24, timeout_in_ms 32, callback_error 40, user_arg 48,
            value 56, value_size 64, value_deleter_callback 72
        },
        PJRT_KeyValueTryGetCallback_Args {
            struct_size 0, extension_start 8, key 16, key_size 24, callback_error 32, user_arg 40, value 48,
            value_size 56, value_deleter_callback 64
        },
        PJRT_KeyValuePutCallback_Args {
            struct_size 0, extension_start 8, key 16, key_size 24, value 32, value_size 40, callback_error 48,
            user_arg 56
        },
        PJRT_Client_Create_Args {
            struct_size 0, extension_start 8, create_options 16, num_options 24, kv_get_callback 32, kv_get_user_arg
            40, kv_put_callback 48, kv_put_user_arg 56, client 64, kv_try_get_callback 72, kv_try_get_user_arg 80
        },
        PJRT_Client_Destroy_Args { struct_size 0, extension_start 8, client 16 },
        PJRT_Client_PlatformName_Args {
            struct_size 0, extension_start 8, client 16, platform_name 24, platform_name_size 32
        },
        PJRT_Client_ProcessIndex_Args { struct_size 0, extension_start 8, client 16, process_index 24 },
        PJRT_Client_PlatformVersion_Args {
            struct_size 0, extension_start 8, client 16, platform_version 24, platform_version_size 32
        },
        PJRT_Client_TopologyDescription_Args { struct_size 0, extension_start 8, client 16, topology 24 },
        PJRT_Client_Devices_Args { struct_size 0, extension_start 8, client 16, devices 24, num_devices 32 },
        PJRT_Client_AddressableDevices_Args {
            struct_size 0, extension_start 8, client 16, addressable_devices 24, num_addressable_devices 32
        },
        PJRT_Client_LookupDevice_Args { struct_size 0, extension_start 8, client 16, id 24, device 32 },
        PJRT_Client_LookupAddressableDevice_Args {
            struct_size 0, extension_start 8, client 16, local_hardware_id 24, addressable_device 32
        },
        PJRT_ProcessInfo {
            struct_size 0, task_id 8, incarnation_id 16, state 24, error_code 28, error_message 32,
            error_message_size 40
        },
        PJRT_Client_UpdateGlobalProcessInfo_Args {
            struct_size 0, extension_start 8, client 16, process_infos 24, num_process_infos 32
        },
        PJRT_Client_AddressableMemories_Args {
            struct_size 0, extension_start 8, client 16, addressable_memories 24, num_addressable_memories 32
        },
        PJRT_Client_Compile_Args {
            struct_size 0, extension_start 8, client 16, program 24, compile_options 32, compile_options_size 40,
            executable 48
        },
        PJRT_Client_Load_Args {
            struct_size 0, extension_start 8, client 16, executable 24, compile_options 32, compile_options_size 40,
            loaded_executable 48
        },
        PJRT_Client_DefaultDeviceAssignment_Args {
            struct_size 0, extension_start 8, client 16, num_replicas 24, num_partitions 28, default_assignment_size
            32, default_assignment 40
        },
        PJRT_Client_DmaMap_Args { struct_size 0, extension_start 8, client 16, data 24, size 32 },
        PJRT_Client_DmaUnmap_Args { struct_size 0, extension_start 8, client 16, data 24 },
        PJRT_Client_CreateUninitializedBuffer_Args {
            struct_size 0, extension_start 8, client 16, shape_dims 24, shape_num_dims 32, shape_element_type 40,
            shape_layout 48, device 56, memory 64, buffer 72
        },
        PJRT_Client_CreateErrorBuffer_Args {
            struct_size 0, extension_start 8, client 16, error_code 24, error_message 32, error_message_size 40,
            shape_dims 48, shape_num_dims 56, shape_element_type 64, shape_layout 72, memory 80, buffer 88, payload
            96, num_payload 104
        },
        PJRT_Client_CreateAliasBuffer_Args {
            struct_size 0, extension_start 8, client 16, memory 24, shape_dims 32, shape_num_dims 40,
            shape_element_type 48, shape_layout 56, alias_buffer 64, fulfill_alias_buffer_cb 72
        },
        PJRT_Client_FulfillAliasBuffer_Args {
            struct_size 0, extension_start 8, client 16, buffer 24, status_code 32, error_message 40,
            error_message_size 48, fulfill_alias_buffer_cb 56
        },
        PJRT_Client_BufferFromHostBuffer_Args {
            struct_size 0, extension_start 8, client 16, data 24, r#type 32, dims 40, num_dims 48, byte_strides 56,
            num_byte_strides 64, host_buffer_semantics 72, device 80, memory 88, device_layout 96,
            done_with_host_buffer 104, buffer 112
        },
        PJRT_Client_CreateViewOfDeviceBuffer_Args {
            struct_size 0, extension_start 8, client 16, device_buffer_ptr 24, dims 32, num_dims 40, element_type
            48, layout 56, device 64, on_delete_callback 72, on_delete_callback_arg 80, stream 88, buffer 96, memory
            104
        },
        PJRT_Client_CreateBuffersForAsyncHostToDevice_Args {
            struct_size 0, extension_start 8, client 16, shape_specs 24, num_shape_specs 32, device_layouts 40,
            num_device_layouts 48, memory 56, transfer_manager 64
        },
    });
}

#[test]
fn devices_and_memories() {
    use pjrt_sys::*;
    check_fields(&field_rows! {
        PJRT_Memory_FunctionTable {
            struct_size 0, extension_start 8, instance_struct_size 16, get_user_data 24, set_user_data 32
        },
        PJRT_Memory { vtable 0 },
        PJRT_DeviceDescription_Id_Args { struct_size 0, extension_start 8, device_description 16, id 24 },
        PJRT_DeviceDescription_ProcessIndex_Args {
            struct_size 0, extension_start 8, device_description 16, process_index 24
        },
        PJRT_DeviceDescription_Attributes_Args {
            struct_size 0, extension_start 8, device_description 16, num_attributes 24, attributes 32
        },
        PJRT_DeviceDescription_Kind_Args {
            struct_size 0, extension_start 8, device_description 16, device_kind 24, device_kind_size 32
        },
        PJRT_DeviceDescription_DebugString_Args {
            struct_size 0, extension_start 8, device_description 16, debug_string 24, debug_string_size 32
        },
        PJRT_DeviceDescription_ToString_Args {
            struct_size 0, extension_start 8, device_description 16, to_string 24, to_string_size 32
        },
        PJRT_Device_GetDescription_Args { struct_size 0, extension_start 8, device 16, device_description 24 },
        PJRT_Device_IsAddressable_Args { struct_size 0, extension_start 8, device 16, is_addressable 24 },
        PJRT_Device_LocalHardwareId_Args { struct_size 0, extension_start 8, device 16, local_hardware_id 24 },
        PJRT_Device_AddressableMemories_Args {
            struct_size 0, extension_start 8, device 16, memories 24, num_memories 32
        },
        PJRT_Device_DefaultMemory_Args { struct_size 0, extension_start 8, device 16, memory 24 },
        PJRT_Device_MemoryStats_Args {
            struct_size 0, extension_start 8, device 16, bytes_in_use 24, peak_bytes_in_use 32,
            peak_bytes_in_use_is_set 40, num_allocs 48, num_allocs_is_set 56, largest_alloc_size 64,
            largest_alloc_size_is_set 72, bytes_limit 80, bytes_limit_is_set 88, bytes_reserved 96,
            bytes_reserved_is_set 104, peak_bytes_reserved 112, peak_bytes_reserved_is_set 120,
            bytes_reservable_limit 128, bytes_reservable_limit_is_set 136, largest_free_block_bytes 144,
            largest_free_block_bytes_is_set 152, pool_bytes 160, pool_bytes_is_set 168, peak_pool_bytes 176,
            peak_pool_bytes_is_set 184, peak_allocated_bytes 192, peak_allocated_bytes_is_set 200
        },
        PJRT_Device_ClearMemoryStats_Args { struct_size 0, extension_start 8, device 16 },
        PJRT_Device_PoisonExecution_Args {
            struct_size 0, extension_start 8, device 16, launch_id 24, error_code 28, error_message 32,
            error_message_size 40, poisoned 48, payload 56, num_payload 64
        },
        PJRT_Device_GetAttributes_Args {
            struct_size 0, extension_start 8, device 16, attributes 24, num_attributes 32, device_attributes 40,
            attributes_deleter 48
        },
        PJRT_Device_CreateAsyncTrackingEvent_Args {
            struct_size 0, extension_start 8, device 16, description 24, description_size 32, event 40
        },
        PJRT_AsyncTrackingEvent_Destroy_Args { struct_size 0, extension_start 8, event 16 },
        PJRT_Memory_Id_Args { struct_size 0, extension_start 8, memory 16, id 24 },
        PJRT_Memory_Kind_Args { struct_size 0, extension_start 8, memory 16, kind 24, kind_size 32 },
        PJRT_Memory_Kind_Id_Args { struct_size 0, extension_start 8, memory 16, kind_id 24 },
        PJRT_Memory_DebugString_Args {
            struct_size 0, extension_start 8, memory 16, debug_string 24, debug_string_size 32
        },
        PJRT_Memory_ToString_Args { struct_size 0, extension_start 8, memory 16, to_string 24, to_string_size 32 },
        PJRT_Memory_AddressableByDevices_Args {
            struct_size 0, extension_start 8, memory 16, devices 24, num_devices 32
        },
    });
}

#[test]
fn topologies() {
    use pjrt_sys::*;
    check_fields(&field_rows! {
        PJRT_TopologyDescription_Create_Args {
            struct_size 0, extension_start 8, topology_name 16, topology_name_size 24, create_options 32,
            num_options 40, topology 48
        },
        PJRT_TopologyDescription_Destroy_Args { struct_size 0, extension_start 8, topology 16 },
        PJRT_TopologyDescription_PlatformVersion_Args {
            struct_size 0, extension_start 8, topology 16, platform_version 24, platform_version_size 32
        },
        PJRT_TopologyDescription_PlatformName_Args {
            struct_size 0, extension_start 8, topology 16, platform_name 24, platform_name_size 32
        },
        PJRT_TopologyDescription_GetDeviceDescriptions_Args {
            struct_size 0, extension_start 8, topology 16, descriptions 24, num_descriptions 32
        },
        PJRT_TopologyDescription_Serialize_Args {
            struct_size 0, extension_start 8, topology 16, serialized_bytes 24, serialized_bytes_size 32,
            serialized_topology 40, serialized_topology_deleter 48
        },
        PJRT_TopologyDescription_Deserialize_Args {
            struct_size 0, extension_start 8, serialized_topology 16, serialized_topology_size 24, topology 32
        },
        PJRT_TopologyDescription_Attributes_Args {
            struct_size 0, extension_start 8, topology 16, attributes 24, num_attributes 32
        },
        PJRT_TopologyDescription_Fingerprint_Args { struct_size 0, extension_start 8, topology 16, fingerprint 24 },
        PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args {
            struct_size 0, extension_start 8, topology 16, memory_space_kind_id 24, dims 32, num_dims 40,
            element_type 48, layout 56, serialized_shape 64, serialized_shape_size 72, serialized_shape_deleter 80
        },
        PJRT_TopologyDescription_GetMemorySpaceKindIds_Args {
            struct_size 0, extension_start 8, topology 16, memory_space_kind_ids 24, num_memory_space_kind_ids 32
        },
    });
}

#[test]
fn buffers_and_transfers() {
    use pjrt_sys::*;
    check_fields(&field_rows! {
        PJRT_AsyncHostToDeviceTransferManager_Destroy_Args { struct_size 0, extension_start 8, transfer_manager 16 },
        PJRT_AsyncHostToDeviceTransferManager_TransferData_Args {
            struct_size 0, extension_start 8, transfer_manager 16, buffer_index 24, data 32, offset 40,
            transfer_size 48, is_last_transfer 56, done_with_h2d_transfer 64
        },
        PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args {
            struct_size 0, extension_start 8, transfer_manager 16, buffer_index 24, buffer_out 32
        },
        PJRT_AsyncHostToDeviceTransferManager_Device_Args {
            struct_size 0, extension_start 8, transfer_manager 16, device_out 24
        },
        PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args {
            struct_size 0, extension_start 8, transfer_manager 16, buffer_count 24
        },
        PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args {
            struct_size 0, extension_start 8, transfer_manager 16, buffer_index 24, buffer_size 32
        },
        PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args {
            struct_size 0, extension_start 8, transfer_manager 16, buffer_index 24, error_code 28, error_message 32,
            error_message_size 40
        },
        PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args {
            struct_size 0, extension_start 8, transfer_manager 16, transfer_metadata 24, num_metadata 32
        },
        PJRT_Buffer_MemoryLayout_Tiled {
            struct_size 0, extension_start 8, minor_to_major 16, minor_to_major_size 24, tile_dims 32,
            tile_dim_sizes 40, num_tiles 48
        },
        PJRT_Buffer_MemoryLayout_Strides { struct_size 0, extension_start 8, byte_strides 16, num_byte_strides 24 },
        PJRT_Buffer_MemoryLayout { struct_size 0, extension_start 8, layout 16, r#type 72 },
        PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args {
            struct_size 0, extension_start 8, transfer_manager 16, buffer_index 24, data 32, shape_dims 40,
            shape_num_dims 48, shape_element_type 56, shape_layout 64, done_with_h2d_transfer 72
        },
        PJRT_ShapeSpec { struct_size 0, extension_start 8, dims 16, num_dims 24, element_type 32 },
        PJRT_Chunk { data 0, size 8, deleter 16, deleter_arg 24 },
        PJRT_Buffer_Destroy_Args { struct_size 0, extension_start 8, buffer 16 },
        PJRT_Buffer_ElementType_Args { struct_size 0, extension_start 8, buffer 16, r#type 24 },
        PJRT_Buffer_Dimensions_Args { struct_size 0, extension_start 8, buffer 16, dims 24, num_dims 32 },
        PJRT_Buffer_UnpaddedDimensions_Args {
            struct_size 0, extension_start 8, buffer 16, unpadded_dims 24, num_dims 32
        },
        PJRT_Buffer_DynamicDimensionIndices_Args {
            struct_size 0, extension_start 8, buffer 16, dynamic_dim_indices 24, num_dynamic_dims 32
        },
        PJRT_Buffer_GetMemoryLayout_Args { struct_size 0, extension_start 8, buffer 16, layout 24 },
        PJRT_Buffer_ToHostBuffer_Args {
            struct_size 0, extension_start 8, src 16, host_layout 24, dst 32, dst_size 40, event 48
        },
        PJRT_Buffer_OnDeviceSizeInBytes_Args {
            struct_size 0, extension_start 8, buffer 16, on_device_size_in_bytes 24
        },
        PJRT_Buffer_Delete_Args { struct_size 0, extension_start 8, buffer 16 },
        PJRT_Buffer_IsDeleted_Args { struct_size 0, extension_start 8, buffer 16, is_deleted 24 },
        PJRT_Buffer_CopyRawToHost_Args {
            struct_size 0, extension_start 8, buffer 16, dst 24, offset 32, transfer_size 40, event 48
        },
        PJRT_Buffer_CopyRawToHostFuture_Callback_Args {
            struct_size 0, callback_data 8, error_code 16, error_message 24, error_message_size 32, dst 40
        },
        PJRT_Buffer_CopyRawToHostFuture_Args {
            struct_size 0, extension_start 8, buffer 16, offset 24, transfer_size 32, event 40, callback_data 48,
            future_ready_callback 56
        },
        PJRT_Buffer_CopyToDevice_Args { struct_size 0, extension_start 8, buffer 16, dst_device 24, dst_buffer 32 },
        PJRT_Buffer_CopyToMemory_Args { struct_size 0, extension_start 8, buffer 16, dst_memory 24, dst_buffer 32 },
        PJRT_Buffer_Bitcast_Args {
            struct_size 0, extension_start 8, buffer 16, element_type 24, dims 32, num_dims 40, device_layout 48,
            out_buffer 56
        },
        PJRT_Buffer_IsOnCpu_Args { struct_size 0, extension_start 8, buffer 16, is_on_cpu 24 },
        PJRT_Buffer_Device_Args { struct_size 0, extension_start 8, buffer 16, device 24 },
        PJRT_Buffer_Memory_Args { struct_size 0, extension_start 8, buffer 16, memory 24 },
        PJRT_Buffer_ReadyEvent_Args { struct_size 0, extension_start 8, buffer 16, event 24 },
        PJRT_Buffer_UnsafePointer_Args { struct_size 0, extension_start 8, buffer 16, buffer_pointer 24 },
        PJRT_Buffer_IncreaseExternalReferenceCount_Args { struct_size 0, extension_start 8, buffer 16 },
        PJRT_Buffer_DecreaseExternalReferenceCount_Args { struct_size 0, extension_start 8, buffer 16 },
        PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args {
            struct_size 0, extension_start 8, buffer 16, device_memory_ptr 24
        },
        PJRT_Buffer_DonateWithControlDependency_Callback_Args {
            struct_size 0, callback_data 8, error_code 16, error_message 24, error_message_size 32
        },
        PJRT_Buffer_DonateWithControlDependency_Args {
            struct_size 0, extension_start 8, buffer 16, callback_data 24, dependency_ready_callback 32, out_buffer
            40
        },
        PJRT_CopyToDeviceStream_Destroy_Args { struct_size 0, extension_start 8, stream 16 },
        PJRT_CopyToDeviceStream_AddChunk_Args {
            struct_size 0, extension_start 8, stream 16, chunk 24, transfer_complete 32
        },
        PJRT_CopyToDeviceStream_TotalBytes_Args { struct_size 0, extension_start 8, stream 16, total_bytes 24 },
        PJRT_CopyToDeviceStream_GranuleSize_Args {
            struct_size 0, extension_start 8, stream 16, granule_size_in_bytes 24
        },
        PJRT_CopyToDeviceStream_CurrentBytes_Args { struct_size 0, extension_start 8, stream 16, current_bytes 24 },
    });
}

#[test]
fn executables() {
    use pjrt_sys::*;
    check_fields(&field_rows! {
        PJRT_Program { struct_size 0, extension_start 8, code 16, code_size 24, format 32, format_size 40 },
        PJRT_ExecuteContext_Create_Args { struct_size 0, extension_start 8, context 16 },
        PJRT_ExecuteContext_Destroy_Args { struct_size 0, extension_start 8, context 16 },
        PJRT_Executable_Destroy_Args { struct_size 0, extension_start 8, executable 16 },
        PJRT_LoadedExecutable_Destroy_Args { struct_size 0, extension_start 8, executable 16 },
        PJRT_LoadedExecutable_GetExecutable_Args {
            struct_size 0, extension_start 8, loaded_executable 16, executable 24
        },
        PJRT_LoadedExecutable_GetDeviceAssignment_Args {
            struct_size 0, extension_start 8, executable 16, serialized_bytes 24, serialized_bytes_size 32,
            serialized_device_assignment 40, serialized_device_assignment_deleter 48
        },
        PJRT_Executable_Name_Args {
            struct_size 0, extension_start 8, executable 16, executable_name 24, executable_name_size 32
        },
        PJRT_Executable_NumReplicas_Args { struct_size 0, extension_start 8, executable 16, num_replicas 24 },
        PJRT_Executable_NumPartitions_Args { struct_size 0, extension_start 8, executable 16, num_partitions 24 },
        PJRT_LogicalDeviceIds { replica 0, partition 4 },
        PJRT_LoadedExecutable_AddressableDevices_Args {
            struct_size 0, extension_start 8, executable 16, addressable_devices 24, num_addressable_devices 32
        },
        PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args {
            struct_size 0, extension_start 8, executable 16, addressable_device_logical_ids 24,
            num_addressable_device_logical_ids 32
        },
        PJRT_Executable_OptimizedProgram_Args { struct_size 0, extension_start 8, executable 16, program 24 },
        PJRT_LoadedExecutable_Delete_Args { struct_size 0, extension_start 8, executable 16 },
        PJRT_LoadedExecutable_IsDeleted_Args { struct_size 0, extension_start 8, executable 16, is_deleted 24 },
        PJRT_SendCallbackInfo { channel_id 0, user_arg 8, send_callback 16 },
        PJRT_RecvCallbackInfo { channel_id 0, user_arg 8, recv_callback 16 },
        PJRT_HloOutputCallbackInfo { user_arg 0, callback 8, callback_id 16, num_operands 24 },
        PJRT_ExecuteOptions {
            struct_size 0, extension_start 8, send_callbacks 16, recv_callbacks 24, num_send_ops 32, num_recv_ops
            40, launch_id 48, non_donatable_input_indices 56, num_non_donatable_input_indices 64, context 72,
            call_location 80, num_tasks 88, task_ids 96, incarnation_ids 104, multi_slice_config 112,
            use_major_to_minor_data_layout_for_callbacks 120, hlo_output_callbacks 128, num_hlo_output_callbacks 136
        },
        PJRT_LoadedExecutable_Execute_Args {
            struct_size 0, extension_start 8, executable 16, options 24, argument_lists 32, num_devices 40, num_args
            48, output_lists 56, device_complete_events 64, execute_device 72
        },
        PJRT_Executable_NumOutputs_Args { struct_size 0, extension_start 8, executable 16, num_outputs 24 },
        PJRT_Executable_SizeOfGeneratedCodeInBytes_Args {
            struct_size 0, extension_start 8, executable 16, size_in_bytes 24
        },
        PJRT_Executable_Fingerprint_Args {
            struct_size 0, extension_start 8, executable 16, executable_fingerprint 24, executable_fingerprint_size
            32
        },
        PJRT_Executable_GetCostAnalysis_Args {
            struct_size 0, extension_start 8, executable 16, num_properties 24, properties 32
        },
        PJRT_Executable_GetCompiledMemoryStats_Args {
            struct_size 0, extension_start 8, executable 16, generated_code_size_in_bytes 24, argument_size_in_bytes
            32, output_size_in_bytes 40, alias_size_in_bytes 48, temp_size_in_bytes 56,
            host_generated_code_size_in_bytes 64, host_argument_size_in_bytes 72, host_output_size_in_bytes 80,
            host_alias_size_in_bytes 88, host_temp_size_in_bytes 96, peak_memory_in_bytes 104, total_size_in_bytes
            112, total_allocation_bytes 120, indefinite_allocations 128, peak_unpadded_heap_bytes 136
        },
        PJRT_Executable_OutputElementTypes_Args {
            struct_size 0, extension_start 8, executable 16, output_types 24, num_output_types 32
        },
        PJRT_Executable_OutputDimensions_Args {
            struct_size 0, extension_start 8, executable 16, num_outputs 24, dims 32, dim_sizes 40
        },
        PJRT_Executable_ParameterMemoryKinds_Args {
            struct_size 0, extension_start 8, executable 16, num_parameters 24, memory_kinds 32, memory_kind_sizes
            40
        },
        PJRT_Executable_OutputMemoryKinds_Args {
            struct_size 0, extension_start 8, executable 16, num_outputs 24, memory_kinds 32, memory_kind_sizes 40
        },
        PJRT_Executable_Serialize_Args {
            struct_size 0, extension_start 8, executable 16, serialized_bytes 24, serialized_bytes_size 32,
            serialized_executable 40, serialized_executable_deleter 48
        },
        PJRT_Executable_GetCompileOptions_Args {
            struct_size 0, extension_start 8, executable 16, serialized_bytes 24, serialized_bytes_size 32,
            serialized_compile_options 40, serialized_compile_options_deleter 48
        },
        PJRT_LoadOptions { struct_size 0, computation_origin 8, computation_origin_size 16, multi_slice_config 24 },
        PJRT_Executable_DeserializeAndLoad_Args {
            struct_size 0, extension_start 8, client 16, serialized_executable 24, serialized_executable_size 32,
            loaded_executable 40, overridden_serialized_compile_options 48,
            overridden_serialized_compile_options_size 56, load_options 64
        },
        PJRT_LoadedExecutable_Fingerprint_Args {
            struct_size 0, extension_start 8, executable 16, executable_fingerprint 24, executable_fingerprint_size
            32
        },
        PJRT_Compile_Args {
            struct_size 0, extension_start 8, topology 16, program 24, compile_options 32, compile_options_size 40,
            client 48, executable 56
        },
    });
}
