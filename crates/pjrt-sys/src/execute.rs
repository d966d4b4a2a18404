//! Execution: arguments, options and callbacks of one launch.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::{args, opaque, record};
use crate::*;

opaque! {
    /// Extra arguments of one execution.
    PJRT_ExecuteContext,
    /// How the slices of a multi-slice program are joined.
    PJRT_MultiSlice_Config,
}

/// Receives a chunk a program sends to the host, with the total size in bytes and whether it is the last one.
/// It must call the chunk's deleter.
pub type PJRT_SendCallback =
    unsafe extern "C" fn(*mut PJRT_Chunk, *mut PJRT_CallbackError, usize, bool, *mut c_void) -> *mut PJRT_Error;

/// Receives, and owns, the stream into which the host writes what a program waits for.
pub type PJRT_RecvCallback = unsafe extern "C" fn(*mut PJRT_CopyToDeviceStream, *mut c_void);

/// Receives one operand: replica, partition, data, dimensions, rank, element type, operand index, the caller's
/// argument.
pub type PJRT_HloOutputCallback =
    unsafe extern "C" fn(i64, i64, *const c_void, *const i64, usize, PJRT_Buffer_Type, i64, *mut c_void);

record! {
    /// A send callback and the channel it serves.
    PJRT_SendCallbackInfo {
        channel_id: i64,
        user_arg: *mut c_void,
        send_callback: Option<PJRT_SendCallback>,
    }
}

record! {
    /// A receive callback and the channel it serves.
    PJRT_RecvCallbackInfo {
        channel_id: i64,
        user_arg: *mut c_void,
        recv_callback: Option<PJRT_RecvCallback>,
    }
}

record! {
    /// A callback that receives operands of a running program.
    PJRT_HloOutputCallbackInfo {
        user_arg: *mut c_void,
        callback: Option<PJRT_HloOutputCallback>,
        callback_id: i64,
        num_operands: usize,
    }
}

args! {
    /// Arguments of `PJRT_ExecuteContext_Create`.
    PJRT_ExecuteContext_Create_Args {
        context: *mut PJRT_ExecuteContext, // out
    }
}

args! {
    /// Arguments of `PJRT_ExecuteContext_Destroy`.
    PJRT_ExecuteContext_Destroy_Args {
        context: *mut PJRT_ExecuteContext,
    }
}

args! {
    /// Options of one launch.
    PJRT_ExecuteOptions {
        send_callbacks: *mut *mut PJRT_SendCallbackInfo,
        recv_callbacks: *mut *mut PJRT_RecvCallbackInfo,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: c_int,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: *mut PJRT_ExecuteContext,
        call_location: *const c_char,
        num_tasks: usize,
        task_ids: *mut c_int,
        incarnation_ids: *mut i64,
        multi_slice_config: *mut PJRT_MultiSlice_Config,
        use_major_to_minor_data_layout_for_callbacks: bool,
        hlo_output_callbacks: *mut PJRT_HloOutputCallbackInfo,
        num_hlo_output_callbacks: usize,
    }
}

args! {
    /// Arguments of `PJRT_LoadedExecutable_Execute`. `output_lists` is caller memory, `[num_devices][num_outputs]`;
    /// the caller owns what is written there.
    PJRT_LoadedExecutable_Execute_Args {
        executable: *mut PJRT_LoadedExecutable,
        options: *mut PJRT_ExecuteOptions,
        argument_lists: *const *const *mut PJRT_Buffer,
        num_devices: usize,
        num_args: usize,
        output_lists: *const *mut *mut PJRT_Buffer, // out
        device_complete_events: *mut *mut PJRT_Event, // out
        execute_device: *mut PJRT_Device,
    }
}
