//! Offsets of every field of the extensions' structs, as gcc 12 on x86-64 Linux laid out the headers of API 0.114.

use super::{check_fields, field_rows};

#[test]
fn phase_compile() {
    use pjrt_sys::extensions::phase_compile::*;
    check_fields(&field_rows! {
        PJRT_PhaseCompile_Get_Compiler_Args { struct_size 0, extension_start 8, phase_compiler 16 },
        PJRT_PhaseCompile_Destroy_Compiler_Args { struct_size 0, extension_start 8, phase_compiler 16 },
        PJRT_PhaseCompile_Run_Phase_Args {
            struct_size 0, extension_start 8, phase_compiler 16, input_programs 24, input_programs_sizes 32,
            num_input_programs 40, phases_to_run 48, phases_to_run_sizes 56, num_phases_to_run 64, compile_options
            72, compile_options_size 80, topology 88, output_programs 96, output_programs_sizes 104,
            num_output_programs 112
        },
        PJRT_PhaseCompile_Get_PhaseNames_Args {
            struct_size 0, extension_start 8, phase_compiler 16, phase_names 24, phase_names_sizes 32,
            num_phase_names 40
        },
        PJRT_PhaseCompile_C_Buffers_Destroy_Args {
            struct_size 0, extension_start 8, char_buffers 16, char_buffer_sizes 24, num_char_buffers 32
        },
        PJRT_PhaseCompile_Extension {
            base 0, phase_compile_get_compiler 24, phase_compile_destroy_compiler 32, phase_compile_run_phases 40,
            phase_compile_get_phase_names 48, phase_compile_c_buffers_destroy 56
        },
    });
}

#[test]
fn layouts() {
    use pjrt_sys::extensions::layouts::*;
    check_fields(&field_rows! {
        PJRT_Layouts_MemoryLayout_Destroy_Args { struct_size 0, extension_start 8, layout 16 },
        PJRT_Layouts_MemoryLayout_Serialize_Args {
            struct_size 0, extension_start 8, layout 16, serialized_bytes 24, serialized_bytes_size 32,
            serialized_layout 40, serialized_layout_deleter 48
        },
        PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args { struct_size 0, extension_start 8, buffer 16, layout 24 },
        PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args {
            struct_size 0, extension_start 8, client 16, r#type 24, dims 32, num_dims 40, layout 48
        },
        PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args {
            struct_size 0, extension_start 8, topology_description 16, r#type 24, dims 32, num_dims 40, layout 48
        },
        PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args {
            struct_size 0, extension_start 8, executable 16, num_outputs 24, layouts 32
        },
        PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args {
            struct_size 0, extension_start 8, executable 16, num_parameters 24, layouts 32
        },
        PJRT_Layouts_Extension {
            base 0, PJRT_Layouts_MemoryLayout_Destroy 24, PJRT_Layouts_MemoryLayout_Serialize 32,
            PJRT_Layouts_PJRT_Client_GetDefaultLayout 40, PJRT_Layouts_PJRT_Buffer_MemoryLayout 48,
            PJRT_Layouts_PJRT_Topology_GetDefaultLayout 56, PJRT_Layouts_PJRT_Executable_GetOutputLayouts 64,
            PJRT_Layouts_PJRT_Executable_GetParameterLayouts 72
        },
    });
}

#[test]
fn memory_descriptions() {
    use pjrt_sys::extensions::memory_descriptions::*;
    check_fields(&field_rows! {
        PJRT_DeviceDescription_MemoryDescriptions_Args {
            struct_size 0, extension_start 8, device_description 16, memory_descriptions 24, num_memory_descriptions
            32, default_memory_index 40
        },
        PJRT_MemoryDescription_Kind_Args {
            struct_size 0, extension_start 8, memory_description 16, kind 24, kind_size 32, kind_id 40
        },
        PJRT_MemoryDescriptions_Extension {
            base 0, PJRT_DeviceDescription_MemoryDescriptions 24, PJRT_MemoryDescription_Kind 32
        },
    });
}

#[test]
fn tpu_executable() {
    use pjrt_sys::extensions::tpu_executable::*;
    check_fields(&field_rows! {
        PJRT_TpuExecutable_GetTargetArguments_Args {
            struct_size 0, serialized_executable 8, serialized_executable_size 16, target_arguments 24,
            target_arguments_size 32, target_arguments_ptr 40, target_arguments_deleter 48
        },
        PJRT_TpuExecutable_GetHloModuleWithConfig_Args {
            struct_size 0, serialized_executable 8, serialized_executable_size 16, hlo_module_with_config 24,
            hlo_module_with_config_size 32, hlo_module_with_config_ptr 40, hlo_module_with_config_deleter 48
        },
        PJRT_TpuExecutable_RunHloCostAnalysis_Args {
            struct_size 0, target_arguments 8, target_arguments_size 16, hlo_module 24, hlo_module_size 32,
            num_hlo_modules 40, analysis_results 48, num_analysis_results 56, analysis_results_ptr 64,
            analysis_results_deleter 72
        },
        PJRT_TpuExecutable_GetCompiledMemoryStats_Args {
            struct_size 0, serialized_executable 8, serialized_executable_size 16, compiled_memory_stats 24,
            compiled_memory_stats_size 32, compiled_memory_stats_ptr 40, compiled_memory_stats_deleter 48
        },
        PJRT_TpuExecutable_SetTpuCompilationEnv_Args {
            struct_size 0, serialized_compilation_environments 8, serialized_compilation_environments_size 16,
            result_compilation_environments 24, result_compilation_environments_size 32,
            result_compilation_environments_ptr 40, result_compilation_environments_deleter 48
        },
        PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString_Args {
            struct_size 0, serialized_compilation_environments 8, serialized_compilation_environments_size 16,
            field_name 24, field_name_size 32, field_value 40, field_value_size 48, field_value_ptr 56,
            field_value_deleter 64
        },
        PJRT_TpuExecutable_IsTpuPredeterminedError_Args {
            struct_size 0, serialized_status 8, serialized_status_size 16, is_predetermined 24
        },
        PJRT_TpuExecutable_IsTpuCancellationPlaceholderError_Args {
            struct_size 0, serialized_status 8, serialized_status_size 16, is_cancellation_placeholder 24
        },
        PJRT_TpuExecutable_Extension {
            base 0, get_target_arguments 24, get_hlo_module_with_config 32, get_core_program_abi_version 40,
            get_compiled_memory_stats 48, run_hlo_cost_analysis 56, set_tpu_compilation_env 64,
            get_tpu_compilation_env_field_as_string 72, is_tpu_predetermined_error 80,
            is_tpu_cancellation_placeholder_error 88
        },
    });
}

#[test]
fn tpu_topology() {
    use pjrt_sys::extensions::tpu_topology::*;
    check_fields(&field_rows! {
        PJRT_TpuTopology_Subslice_Args {
            struct_size 0, topology 8, chips_per_host_bounds 16, chips_per_host_bounds_num_dims 24, host_bounds 32,
            host_bounds_num_dims 40, subslice_topology 48
        },
        PJRT_TpuTopology_IsSubsliceTopology_Args { struct_size 0, topology 8, is_subslice_topology 16 },
        PJRT_TpuTopology_SubsliceDeviceIdFromFullDeviceId_Args {
            struct_size 0, client_topology 8, subslice_topology 16, subslice_origin 24, subslice_origin_dim_num 32,
            full_device_id 40, subslice_device_id 44
        },
        PJRT_TpuTopology_ReplaceHostBounds_Args {
            struct_size 0, topology 8, host_bounds 16, host_bounds_dim_num 24, new_topology 32
        },
        PJRT_TpuTopology_IsEnhancedBarrierEnabled_Args { struct_size 0, topology 8, is_enhanced_barrier_enabled 16 },
        PJRT_TpuTopology_HasLimitedIciConnectivity_Args { struct_size 0, topology 8, has_limited_ici_connectivity 16 },
        PJRT_TpuTopology_IsReachableOverLimitedIci_Args {
            struct_size 0, topology 8, source_chip_id 16, dest_chip_id 20, is_reachable_over_limited_ici 24
        },
        PJRT_TpuTopology_ProcessCount_Args { struct_size 0, topology 8, process_count 16 },
        PJRT_TpuTopology_ChipsPerProcess_Args { struct_size 0, topology 8, chips_per_process 16 },
        PJRT_TpuTopology_CoreCountPerChip_Args { struct_size 0, topology 8, core_count_of_default_type_per_chip 16 },
        PJRT_TpuTopology_ChipCount_Args { struct_size 0, topology 8, chip_count 16 },
        PJRT_TpuTopology_CoreCount_Args { struct_size 0, topology 8, core_count_of_default_type 16 },
        PJRT_TpuTopology_LogiDeviceCount_Args { struct_size 0, topology 8, logical_device_count_of_default_type 16 },
        PJRT_TpuTopology_LogiDeviceCountPerProcess_Args {
            struct_size 0, topology 8, logical_device_count_of_default_type_per_process 16
        },
        PJRT_TpuTopology_LogiDeviceCountPerChip_Args {
            struct_size 0, topology 8, logical_device_count_of_default_type_per_chip 16
        },
        PJRT_TpuTopology_CoreCountPerProcess_Args {
            struct_size 0, topology 8, core_count_of_default_type_per_process 16
        },
        PJRT_TpuTopology_ProcessIds_Args {
            struct_size 0, topology 8, max_process_ids 16, process_ids 24, num_process_ids 32
        },
        PJRT_TpuTopology_LogiDeviceIdsOnProcess_Args {
            struct_size 0, topology 8, process_id 16, max_logical_device_ids 20, logical_device_of_default_type_ids
            24, num_logical_device_ids 32
        },
        PJRT_TpuTopology_ProcIdAndIdxOnProcForChip_Args {
            struct_size 0, topology 8, chip_id 16, process_id 20, index_on_process 24
        },
        PJRT_TpuTopology_ProcIdAndIdxOnProcForLogiDevice_Args {
            struct_size 0, topology 8, device_id 16, process_id 20, index_on_process 24
        },
        PJRT_TpuTopology_ProcessCoordFromId_Args {
            struct_size 0, topology 8, process_id 16, coords_max_dims 24, coords 32, coords_num_dims 40
        },
        PJRT_TpuTopology_ChipIdFromCoord_Args { struct_size 0, topology 8, coords 16, coords_num_dims 24, chip_id 32 },
        PJRT_TpuTopology_LogiDeviceIdFromChipCoordAndIdx_Args {
            struct_size 0, topology 8, chip_coords 16, chip_coords_num_dims 24, logical_device_index_on_chip 32,
            logical_device_of_default_type_id 36
        },
        PJRT_TpuTopology_ChipCoordAndIdxForLogiDevice_Args {
            struct_size 0, topology 8, device_id 16, chip_coords_max_dims 24, chip_coords 32, chip_coords_num_dims
            40, device_index_on_chip 48
        },
        PJRT_TpuTopology_ChipsPerProcessBounds_Args {
            struct_size 0, topology 8, chip_per_process_bounds_max_dims 16, chip_per_process_bounds 24,
            chip_per_process_bounds_num_dims 32
        },
        PJRT_TpuTopology_ChipBounds_Args {
            struct_size 0, topology 8, chip_bounds_max_dims 16, chip_bounds 24, chip_bounds_num_dims 32
        },
        PJRT_TpuTopology_ProcessBounds_Args {
            struct_size 0, topology 8, process_bounds_max_dims 16, process_bounds 24, process_bounds_num_dims 32
        },
        PJRT_TpuTopology_GetRoutingStrategy_Args {
            struct_size 0, topology 8, routing_strategy 16, routing_strategy_len 24
        },
        PJRT_TpuTopology_SliceConfig { dim_size 0, dimensions 8, wrap 24, twist 28 },
        PJRT_TpuTopology_GetSliceConfig_Args {
            struct_size 0, platform_type_name 8, platform_type_name_len 16, slice_name 24, slice_name_len 32,
            slice_config 40
        },
        PJRT_TpuTopology_GetSliceConfigs_Args {
            struct_size 0, platform_type_name 8, platform_type_name_len 16, slice_configs 24, max_slice_configs 32,
            num_slice_configs 40
        },
        PJRT_TpuTopology_GetDefaultPlatformConfig_Args {
            struct_size 0, platform_type_name 8, platform_type_name_len 16, num_chips_per_tray 24, num_trays 32
        },
        PJRT_TpuTopology_Extension {
            base 0, subslice 24, is_subslice_topology 32, subslice_device_id_from_full_device_id 40,
            replace_host_bounds 48, is_enhanced_barrier_enabled 56, has_limited_ici_connectivity 64,
            is_reachable_over_limited_ici 72, process_count 80, chips_per_process 88, core_count_per_chip 96,
            chip_count 104, core_count 112, logical_device_count_per_process 120, logical_device_count 128,
            logical_device_count_per_chip 136, core_count_per_process 144, process_ids 152,
            logical_device_ids_on_process 160, proc_id_and_idx_on_proc_for_chip 168,
            proc_id_and_idx_on_proc_for_logi_device 176, process_coord_from_id 184, chip_id_from_coord 192,
            logical_device_id_from_chip_coord_and_idx 200, chip_coord_and_idx_for_logi_device 208,
            chips_per_process_bounds 216, chip_bounds 224, process_bounds 232, get_routing_strategy 240,
            get_slice_config 248, get_slice_configs 256, get_default_platform_config 264
        },
    });
}

#[test]
fn shardings() {
    use pjrt_sys::extensions::shardings::*;
    check_fields(&field_rows! {
        PJRT_Shardings_PJRT_Executable_ParameterShardings_Args {
            struct_size 0, extension_start 8, executable 16, num_parameters 24, shardings 32, sharding_sizes 40
        },
        PJRT_Shardings_PJRT_Executable_OutputShardings_Args {
            struct_size 0, extension_start 8, executable 16, num_outputs 24, shardings 32, sharding_sizes 40
        },
        PJRT_Shardings_Extension {
            base 0, PJRT_Shardings_PJRT_Executable_ParameterShardings 24,
            PJRT_Shardings_PJRT_Executable_OutputShardings 32
        },
    });
}

#[test]
fn multi_slice() {
    use pjrt_sys::extensions::multi_slice::*;
    check_fields(&field_rows! {
        PJRT_MultiSlice_Config_Destroy_Args { struct_size 0, config 8 },
        PJRT_MultiSlice_Config_NumSlices_Args { struct_size 0, config 8, num_slices 16 },
        PJRT_MultiSlice_Config_SliceId_Args { struct_size 0, config 8, slice_id 16 },
        PJRT_MultiSlice_Config_NumDevicesPerSlice_Args {
            struct_size 0, config 8, num_devices_per_slice_map 16, slice_ids 24, num_devices 32,
            devices_per_slice_map 40, devices_per_slice_map_deleter 48
        },
        PJRT_MultiSlice_Config_Serialize_Args {
            struct_size 0, config 8, serialized 16, size 24, serialized_config 32, serialized_config_deleter 40
        },
        PJRT_MultiSlice_Extension {
            base 0, config_destroy 24, config_num_slices 32, config_slice_id 40, config_num_devices_per_slice 48,
            config_serialize 56
        },
    });
}

#[test]
fn megascale() {
    use pjrt_sys::extensions::megascale::*;
    check_fields(&field_rows! {
        PJRT_Megascale_CreateClientContextFromPjRtClient_Args { struct_size 0, client 8, client_context 16 },
        PJRT_Megascale_CreateDefaultClientContext_Args { struct_size 0, client_context 8 },
        PJRT_Megascale_DeleteClientContext_Args { struct_size 0, client_context 8 },
        PJRT_Megascale_CreateAoTConfig_Args { struct_size 0, topology 8, num_slices 16, multi_slice_config 24 },
        PJRT_Megascale_CreateMultiSliceConfig_Args {
            struct_size 0, topology 8, num_slices 16, local_slice_id 20, local_host_id 24, endpoint_addresses 32,
            endpoint_addresses_size 40, dcn_topology 48, dcn_topology_size 56, client_context 64, multi_slice_config
            72
        },
        PJRT_Megascale_DeviceId_To_MegascaleId_Args {
            struct_size 0, slice_id 8, per_slice_device_id 12, megascale_id 16
        },
        PJRT_Megascale_MegascaleId_To_DeviceId_Args {
            struct_size 0, megascale_id 8, slice_id 16, per_slice_device_id 20
        },
        PJRT_Megascale_Extension {
            base 0, create_client_context_from_pjrt_client 24, create_default_client_context 32,
            delete_client_context 40, create_aot_config 48, create_multi_slice_config 56, delete_multi_slice_config
            64, multi_slice_config_num_slices 72, multi_slice_config_slice_id 80,
            multi_slice_config_get_num_devices_per_slice 88, multi_slice_config_serialize 96,
            client_context_initialize 104, client_context_unblock_pending_work 112, client_context_megascale_port
            120, create_megascale_collectives 128, device_id_to_megascale_id 136, megascale_id_to_device_id 144,
            register_megascale_error_handler 152, unregister_megascale_error_handler 160, error_aggregator_create
            168, error_aggregator_delete 176, error_digest_delete 184, error_aggregator_add_error 192,
            error_aggregator_process_and_shutdown 200, error_aggregator_log_error_digest 208, error_aggregator_size
            216, error_aggregator_active 224, get_interface_addresses_helper 232, get_or_create_runtime_error 240
        },
    });
}

#[test]
fn ffi() {
    use pjrt_sys::extensions::ffi::*;
    check_fields(&field_rows! {
        PJRT_FFI_Type_Info { deleter 0, serialize 8, deserialize 16 },
        PJRT_FFI_Type_Register_Args {
            struct_size 0, extension_start 8, type_name 16, type_name_size 24, type_id 32, type_info 40
        },
        PJRT_FFI_UserData { type_id 0, data 8 },
        PJRT_FFI_UserData_Add_Args { struct_size 0, extension_start 8, context 16, user_data 24 },
        PJRT_FFI_Register_Handler_Args {
            struct_size 0, target_name 8, target_name_size 16, handler 24, platform_name 32, platform_name_size 40,
            traits 48
        },
        PJRT_FFI_Extension { base 0, type_register 24, user_data_add 32, register_handler 40 },
    });
}
