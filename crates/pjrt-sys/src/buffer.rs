//! Buffers: arrays on devices, their types and layouts.

use std::ffi::{c_char, c_void};

use crate::abi::{args, opaque, sized};
use crate::*;

opaque! {
    /// An array on a device; owned by whoever received it.
    PJRT_Buffer,
    /// Fulfils an alias buffer exactly once.
    PJRT_FulfillAliasBufferCallback,
}

/// Element type of an array.
pub type PJRT_Buffer_Type = u32;
/// No type.
pub const PJRT_Buffer_Type_INVALID: PJRT_Buffer_Type = 0;
/// Boolean, one byte.
pub const PJRT_Buffer_Type_PRED: PJRT_Buffer_Type = 1;
/// Signed integer, 8 bits.
pub const PJRT_Buffer_Type_S8: PJRT_Buffer_Type = 2;
/// Signed integer, 16 bits.
pub const PJRT_Buffer_Type_S16: PJRT_Buffer_Type = 3;
/// Signed integer, 32 bits.
pub const PJRT_Buffer_Type_S32: PJRT_Buffer_Type = 4;
/// Signed integer, 64 bits.
pub const PJRT_Buffer_Type_S64: PJRT_Buffer_Type = 5;
/// Unsigned integer, 8 bits.
pub const PJRT_Buffer_Type_U8: PJRT_Buffer_Type = 6;
/// Unsigned integer, 16 bits.
pub const PJRT_Buffer_Type_U16: PJRT_Buffer_Type = 7;
/// Unsigned integer, 32 bits.
pub const PJRT_Buffer_Type_U32: PJRT_Buffer_Type = 8;
/// Unsigned integer, 64 bits.
pub const PJRT_Buffer_Type_U64: PJRT_Buffer_Type = 9;
/// Floating point `f16`.
pub const PJRT_Buffer_Type_F16: PJRT_Buffer_Type = 10;
/// Floating point `f32`.
pub const PJRT_Buffer_Type_F32: PJRT_Buffer_Type = 11;
/// Floating point `f64`.
pub const PJRT_Buffer_Type_F64: PJRT_Buffer_Type = 12;
/// bfloat16.
pub const PJRT_Buffer_Type_BF16: PJRT_Buffer_Type = 13;
/// Complex number, 64 bits.
pub const PJRT_Buffer_Type_C64: PJRT_Buffer_Type = 14;
/// Complex number, 128 bits.
pub const PJRT_Buffer_Type_C128: PJRT_Buffer_Type = 15;
/// Floating point `f8e5m2`.
pub const PJRT_Buffer_Type_F8E5M2: PJRT_Buffer_Type = 16;
/// Floating point `f8e4m3fn`.
pub const PJRT_Buffer_Type_F8E4M3FN: PJRT_Buffer_Type = 17;
/// Floating point `f8e4m3b11fnuz`.
pub const PJRT_Buffer_Type_F8E4M3B11FNUZ: PJRT_Buffer_Type = 18;
/// Floating point `f8e5m2fnuz`.
pub const PJRT_Buffer_Type_F8E5M2FNUZ: PJRT_Buffer_Type = 19;
/// Floating point `f8e4m3fnuz`.
pub const PJRT_Buffer_Type_F8E4M3FNUZ: PJRT_Buffer_Type = 20;
/// Signed integer, 4 bits.
pub const PJRT_Buffer_Type_S4: PJRT_Buffer_Type = 21;
/// Unsigned integer, 4 bits.
pub const PJRT_Buffer_Type_U4: PJRT_Buffer_Type = 22;
/// Ordering token, no data.
pub const PJRT_Buffer_Type_TOKEN: PJRT_Buffer_Type = 23;
/// Signed integer, 2 bits.
pub const PJRT_Buffer_Type_S2: PJRT_Buffer_Type = 24;
/// Unsigned integer, 2 bits.
pub const PJRT_Buffer_Type_U2: PJRT_Buffer_Type = 25;
/// Floating point `f8e4m3`.
pub const PJRT_Buffer_Type_F8E4M3: PJRT_Buffer_Type = 26;
/// Floating point `f8e3m4`.
pub const PJRT_Buffer_Type_F8E3M4: PJRT_Buffer_Type = 27;
/// Floating point `f8e8m0fnu`.
pub const PJRT_Buffer_Type_F8E8M0FNU: PJRT_Buffer_Type = 28;
/// Floating point `f4e2m1fn`.
pub const PJRT_Buffer_Type_F4E2M1FN: PJRT_Buffer_Type = 29;
/// Signed integer, 1 bits.
pub const PJRT_Buffer_Type_S1: PJRT_Buffer_Type = 30;
/// Unsigned integer, 1 bits.
pub const PJRT_Buffer_Type_U1: PJRT_Buffer_Type = 31;
/// Floating point `f6e2m3fn`.
pub const PJRT_Buffer_Type_F6E2M3FN: PJRT_Buffer_Type = 32;
/// Floating point `f6e3m2fn`.
pub const PJRT_Buffer_Type_F6E3M2FN: PJRT_Buffer_Type = 33;

/// How long the runtime may look at host data.
pub type PJRT_HostBufferSemantics = u32;
/// Only during the call.
pub const PJRT_HostBufferSemantics_kImmutableOnlyDuringCall: PJRT_HostBufferSemantics = 0;
/// Until the done event of the transfer.
pub const PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes: PJRT_HostBufferSemantics = 1;
/// As long as the buffer lives, never written.
pub const PJRT_HostBufferSemantics_kImmutableZeroCopy: PJRT_HostBufferSemantics = 2;
/// As long as the buffer lives, possibly written.
pub const PJRT_HostBufferSemantics_kMutableZeroCopy: PJRT_HostBufferSemantics = 3;

/// Which member of `PJRT_Buffer_MemoryLayout_Kind` is set.
pub type PJRT_Buffer_MemoryLayout_Type = u32;
/// `tiled`.
pub const PJRT_Buffer_MemoryLayout_Type_Tiled: PJRT_Buffer_MemoryLayout_Type = 0;
/// `strides`.
pub const PJRT_Buffer_MemoryLayout_Type_Strides: PJRT_Buffer_MemoryLayout_Type = 1;

args! {
    /// Minor-to-major order of dimensions with tiles; `tile_dims` is the concatenation of `num_tiles` lists whose
    /// lengths are in `tile_dim_sizes`.
    PJRT_Buffer_MemoryLayout_Tiled {
        minor_to_major: *const i64,
        minor_to_major_size: usize,
        tile_dims: *const i64,
        tile_dim_sizes: *const usize,
        num_tiles: usize,
    }
}

args! {
    /// Bytes to step per dimension; may be negative.
    PJRT_Buffer_MemoryLayout_Strides {
        byte_strides: *const i64,
        num_byte_strides: usize,
    }
}

/// The two ways to say a layout, told apart by `PJRT_Buffer_MemoryLayout::type`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub union PJRT_Buffer_MemoryLayout_Kind {
    pub tiled: PJRT_Buffer_MemoryLayout_Tiled,
    pub strides: PJRT_Buffer_MemoryLayout_Strides,
}

impl std::fmt::Debug for PJRT_Buffer_MemoryLayout_Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PJRT_Buffer_MemoryLayout_Kind")
    }
}

args! {
    /// Layout of an array, either tiled or strided.
    PJRT_Buffer_MemoryLayout {
        layout: PJRT_Buffer_MemoryLayout_Kind,
        r#type: PJRT_Buffer_MemoryLayout_Type,
    }
}

args! {
    /// Arguments of `PJRT_Buffer_Destroy`.
    PJRT_Buffer_Destroy_Args {
        buffer: *mut PJRT_Buffer,
    }
}

args! {
    /// Arguments of `PJRT_Buffer_ElementType`.
    PJRT_Buffer_ElementType_Args {
        buffer: *mut PJRT_Buffer,
        r#type: PJRT_Buffer_Type, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_Dimensions`.
    PJRT_Buffer_Dimensions_Args {
        buffer: *mut PJRT_Buffer,
        dims: *const i64, // out
        num_dims: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_UnpaddedDimensions`.
    PJRT_Buffer_UnpaddedDimensions_Args {
        buffer: *mut PJRT_Buffer,
        unpadded_dims: *const i64, // out
        num_dims: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_DynamicDimensionIndices`.
    PJRT_Buffer_DynamicDimensionIndices_Args {
        buffer: *mut PJRT_Buffer,
        dynamic_dim_indices: *const usize, // out
        num_dynamic_dims: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_GetMemoryLayout`.
    PJRT_Buffer_GetMemoryLayout_Args {
        buffer: *mut PJRT_Buffer,
        layout: PJRT_Buffer_MemoryLayout, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_ToHostBuffer`. With `dst` null it only reports `dst_size`.
    PJRT_Buffer_ToHostBuffer_Args {
        src: *mut PJRT_Buffer,
        host_layout: *mut PJRT_Buffer_MemoryLayout,
        dst: *mut c_void, // out
        dst_size: usize, // out
        event: *mut PJRT_Event, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_OnDeviceSizeInBytes`.
    PJRT_Buffer_OnDeviceSizeInBytes_Args {
        buffer: *mut PJRT_Buffer,
        on_device_size_in_bytes: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_Delete`.
    PJRT_Buffer_Delete_Args {
        buffer: *mut PJRT_Buffer,
    }
}

args! {
    /// Arguments of `PJRT_Buffer_IsDeleted`.
    PJRT_Buffer_IsDeleted_Args {
        buffer: *mut PJRT_Buffer,
        is_deleted: bool, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_CopyRawToHost`.
    PJRT_Buffer_CopyRawToHost_Args {
        buffer: *mut PJRT_Buffer,
        dst: *mut c_void,
        offset: i64,
        transfer_size: i64,
        event: *mut PJRT_Event, // out
    }
}

sized! {
    /// Arguments of `PJRT_Buffer_CopyRawToHostFuture_Callback`.
    PJRT_Buffer_CopyRawToHostFuture_Callback_Args {
        callback_data: *mut c_void,
        error_code: PJRT_Error_Code,
        error_message: *const c_char,
        error_message_size: usize,
        dst: *mut c_void,
    }
}

args! {
    /// Arguments of `PJRT_Buffer_CopyRawToHostFuture`.
    PJRT_Buffer_CopyRawToHostFuture_Args {
        buffer: *mut PJRT_Buffer,
        offset: i64,
        transfer_size: i64,
        event: *mut PJRT_Event, // out
        callback_data: *mut c_void, // out
        future_ready_callback: Option<unsafe extern "C" fn(*mut PJRT_Buffer_CopyRawToHostFuture_Callback_Args)>, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_CopyToDevice`.
    PJRT_Buffer_CopyToDevice_Args {
        buffer: *mut PJRT_Buffer,
        dst_device: *mut PJRT_Device,
        dst_buffer: *mut PJRT_Buffer, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_CopyToMemory`.
    PJRT_Buffer_CopyToMemory_Args {
        buffer: *mut PJRT_Buffer,
        dst_memory: *mut PJRT_Memory,
        dst_buffer: *mut PJRT_Buffer, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_Bitcast`.
    PJRT_Buffer_Bitcast_Args {
        buffer: *mut PJRT_Buffer,
        element_type: PJRT_Buffer_Type,
        dims: *const i64,
        num_dims: usize,
        device_layout: *mut PJRT_Buffer_MemoryLayout,
        out_buffer: *mut PJRT_Buffer, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_IsOnCpu`.
    PJRT_Buffer_IsOnCpu_Args {
        buffer: *mut PJRT_Buffer,
        is_on_cpu: bool, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_Device`.
    PJRT_Buffer_Device_Args {
        buffer: *mut PJRT_Buffer,
        device: *mut PJRT_Device, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_Memory`.
    PJRT_Buffer_Memory_Args {
        buffer: *mut PJRT_Buffer,
        memory: *mut PJRT_Memory, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_ReadyEvent`. A deleted or donated buffer gives an event that is an error at once.
    PJRT_Buffer_ReadyEvent_Args {
        buffer: *mut PJRT_Buffer,
        event: *mut PJRT_Event, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_UnsafePointer`.
    PJRT_Buffer_UnsafePointer_Args {
        buffer: *mut PJRT_Buffer,
        buffer_pointer: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Buffer_IncreaseExternalReferenceCount`.
    PJRT_Buffer_IncreaseExternalReferenceCount_Args {
        buffer: *mut PJRT_Buffer,
    }
}

args! {
    /// Arguments of `PJRT_Buffer_DecreaseExternalReferenceCount`.
    PJRT_Buffer_DecreaseExternalReferenceCount_Args {
        buffer: *mut PJRT_Buffer,
    }
}

args! {
    /// Arguments of `PJRT_Buffer_OpaqueDeviceMemoryDataPointer`.
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args {
        buffer: *mut PJRT_Buffer,
        device_memory_ptr: *mut c_void, // out
    }
}

sized! {
    /// Arguments of `PJRT_Buffer_DonateWithControlDependency_Callback`.
    PJRT_Buffer_DonateWithControlDependency_Callback_Args {
        callback_data: *mut c_void,
        error_code: PJRT_Error_Code,
        error_message: *const c_char,
        error_message_size: usize,
    }
}

args! {
    /// Arguments of `PJRT_Buffer_DonateWithControlDependency`.
    PJRT_Buffer_DonateWithControlDependency_Args {
        buffer: *mut PJRT_Buffer,
        callback_data: *mut c_void, // out
        dependency_ready_callback: Option<unsafe extern "C" fn(*mut PJRT_Buffer_DonateWithControlDependency_Callback_Args)>, // out
        out_buffer: *mut PJRT_Buffer, // out
    }
}
