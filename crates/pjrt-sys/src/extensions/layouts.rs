//! Layouts extension: on-device memory layouts of buffers and executables.

use std::ffi::c_char;

use crate::abi::{args, extension, opaque};
use crate::*;

opaque! {
    /// A memory layout.
    PJRT_Layouts_MemoryLayout,
    /// Backs the text of a layout.
    PJRT_Layouts_SerializedLayout,
}

args! {
    /// Arguments of `PJRT_Layouts_MemoryLayout_Destroy`.
    PJRT_Layouts_MemoryLayout_Destroy_Args {
        layout: *mut PJRT_Layouts_MemoryLayout,
    }
}

args! {
    /// Arguments of `PJRT_Layouts_MemoryLayout_Serialize`.
    PJRT_Layouts_MemoryLayout_Serialize_Args {
        layout: *mut PJRT_Layouts_MemoryLayout,
        serialized_bytes: *const c_char, // out
        serialized_bytes_size: usize, // out
        serialized_layout: *mut PJRT_Layouts_SerializedLayout,
        serialized_layout_deleter: Option<unsafe extern "C" fn(*mut PJRT_Layouts_SerializedLayout)>, // out
    }
}

args! {
    /// Arguments of `PJRT_Layouts_PJRT_Buffer_MemoryLayout`.
    PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args {
        buffer: *mut PJRT_Buffer,
        layout: *mut PJRT_Layouts_MemoryLayout, // out
    }
}

args! {
    /// Arguments of `PJRT_Layouts_PJRT_Client_GetDefaultLayout`.
    PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args {
        client: *mut PJRT_Client,
        r#type: PJRT_Buffer_Type,
        dims: *const i64,
        num_dims: usize,
        layout: *mut PJRT_Layouts_MemoryLayout, // out
    }
}

args! {
    /// Arguments of `PJRT_Layouts_PJRT_Topology_GetDefaultLayout`.
    PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args {
        topology_description: *mut PJRT_TopologyDescription,
        r#type: PJRT_Buffer_Type,
        dims: *const i64,
        num_dims: usize,
        layout: *mut PJRT_Layouts_MemoryLayout, // out
    }
}

args! {
    /// Arguments of `PJRT_Layouts_PJRT_Executable_GetOutputLayouts`. The layouts belong to the executable.
    PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args {
        executable: *mut PJRT_Executable,
        num_outputs: usize, // out
        layouts: *mut *mut PJRT_Layouts_MemoryLayout, // out
    }
}

args! {
    /// Arguments of `PJRT_Layouts_PJRT_Executable_GetParameterLayouts`. The layouts belong to the executable.
    PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args {
        executable: *mut PJRT_Executable,
        num_parameters: usize, // out
        layouts: *mut *mut PJRT_Layouts_MemoryLayout, // out
    }
}

extension! {
    /// The extension record; read its functions through [`slot`].
    PJRT_Layouts_Extension = PJRT_Extension_Type_Layouts {
        PJRT_Layouts_MemoryLayout_Destroy: Call<PJRT_Layouts_MemoryLayout_Destroy_Args>,
        PJRT_Layouts_MemoryLayout_Serialize: Call<PJRT_Layouts_MemoryLayout_Serialize_Args>,
        PJRT_Layouts_PJRT_Client_GetDefaultLayout: Call<PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args>,
        PJRT_Layouts_PJRT_Buffer_MemoryLayout: Call<PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args>,
        PJRT_Layouts_PJRT_Topology_GetDefaultLayout: Call<PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args>,
        PJRT_Layouts_PJRT_Executable_GetOutputLayouts: Call<PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args>,
        PJRT_Layouts_PJRT_Executable_GetParameterLayouts: Call<PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args>,
    }
}
