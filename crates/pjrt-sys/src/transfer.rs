//! Transfers from host to device: managers that fill buffers in pieces, and chunked streams.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::{args, opaque, record};
use crate::*;

opaque! {
    /// Buffers of one memory that are being filled piece by piece.
    PJRT_AsyncHostToDeviceTransferManager,
    /// A chunked stream into a device, given to a receive callback.
    PJRT_CopyToDeviceStream,
}

args! {
    /// Element type and dimensions of a buffer to be made.
    PJRT_ShapeSpec {
        dims: *const i64,
        num_dims: usize,
        element_type: PJRT_Buffer_Type,
    }
}

args! {
    /// Arguments of `PJRT_Client_CreateBuffersForAsyncHostToDevice`.
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args {
        client: *mut PJRT_Client,
        shape_specs: *mut PJRT_ShapeSpec,
        num_shape_specs: usize,
        device_layouts: *mut *mut PJRT_Buffer_MemoryLayout,
        num_device_layouts: usize,
        memory: *mut PJRT_Memory,
        transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager, // out
    }
}

args! {
    /// Arguments of `PJRT_AsyncHostToDeviceTransferManager_Destroy`.
    PJRT_AsyncHostToDeviceTransferManager_Destroy_Args {
        transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
    }
}

args! {
    /// Arguments of `PJRT_AsyncHostToDeviceTransferManager_TransferData`.
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args {
        transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
        buffer_index: c_int,
        data: *const c_void,
        offset: i64,
        transfer_size: i64,
        is_last_transfer: bool,
        done_with_h2d_transfer: *mut PJRT_Event, // out
    }
}

args! {
    /// Arguments of `PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer`.
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args {
        transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
        buffer_index: c_int,
        buffer_out: *mut PJRT_Buffer, // out
    }
}

args! {
    /// Arguments of `PJRT_AsyncHostToDeviceTransferManager_Device`.
    PJRT_AsyncHostToDeviceTransferManager_Device_Args {
        transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
        device_out: *mut PJRT_Device, // out
    }
}

args! {
    /// Arguments of `PJRT_AsyncHostToDeviceTransferManager_BufferCount`.
    PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args {
        transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
        buffer_count: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_AsyncHostToDeviceTransferManager_BufferSize`.
    PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args {
        transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
        buffer_index: c_int,
        buffer_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_AsyncHostToDeviceTransferManager_SetBufferError`.
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args {
        transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
        buffer_index: c_int,
        error_code: PJRT_Error_Code,
        error_message: *const c_char,
        error_message_size: usize,
    }
}

args! {
    /// Arguments of `PJRT_AsyncHostToDeviceTransferManager_AddMetadata`.
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args {
        transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
        transfer_metadata: *const PJRT_NamedValue,
        num_metadata: usize,
    }
}

args! {
    /// Arguments of `PJRT_AsyncHostToDeviceTransferManager_TransferLiteral`.
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args {
        transfer_manager: *mut PJRT_AsyncHostToDeviceTransferManager,
        buffer_index: c_int,
        data: *const c_void,
        shape_dims: *const i64,
        shape_num_dims: usize,
        shape_element_type: PJRT_Buffer_Type,
        shape_layout: *mut PJRT_Buffer_MemoryLayout,
        done_with_h2d_transfer: *mut PJRT_Event, // out
    }
}

record! {
    /// A piece of data with its deleter.
    PJRT_Chunk {
        data: *mut c_void,
        size: usize,
        deleter: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
        deleter_arg: *mut c_void,
    }
}

args! {
    /// Arguments of `PJRT_CopyToDeviceStream_Destroy`.
    PJRT_CopyToDeviceStream_Destroy_Args {
        stream: *mut PJRT_CopyToDeviceStream,
    }
}

args! {
    /// Arguments of `PJRT_CopyToDeviceStream_AddChunk`.
    PJRT_CopyToDeviceStream_AddChunk_Args {
        stream: *mut PJRT_CopyToDeviceStream,
        chunk: *mut PJRT_Chunk,
        transfer_complete: *mut PJRT_Event, // out
    }
}

args! {
    /// Arguments of `PJRT_CopyToDeviceStream_TotalBytes`.
    PJRT_CopyToDeviceStream_TotalBytes_Args {
        stream: *mut PJRT_CopyToDeviceStream,
        total_bytes: i64, // out
    }
}

args! {
    /// Arguments of `PJRT_CopyToDeviceStream_GranuleSize`.
    PJRT_CopyToDeviceStream_GranuleSize_Args {
        stream: *mut PJRT_CopyToDeviceStream,
        granule_size_in_bytes: i64, // out
    }
}

args! {
    /// Arguments of `PJRT_CopyToDeviceStream_CurrentBytes`.
    PJRT_CopyToDeviceStream_CurrentBytes_Args {
        stream: *mut PJRT_CopyToDeviceStream,
        current_bytes: i64, // out
    }
}
