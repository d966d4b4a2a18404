//! Memory descriptions extension: kinds of memory of a device that need not be present.

use std::ffi::{c_char, c_int};

use crate::abi::{args, extension, opaque};
use crate::*;

opaque! {
    /// One kind of memory of a device description.
    PJRT_MemoryDescription,
}

args! {
    /// Arguments of `PJRT_DeviceDescription_MemoryDescriptions`. `default_memory_index` is `usize::MAX` when there
    /// is no default.
    PJRT_DeviceDescription_MemoryDescriptions_Args {
        device_description: *mut PJRT_DeviceDescription,
        memory_descriptions: *const *const PJRT_MemoryDescription, // out
        num_memory_descriptions: usize, // out
        default_memory_index: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_MemoryDescription_Kind`.
    PJRT_MemoryDescription_Kind_Args {
        memory_description: *const PJRT_MemoryDescription,
        kind: *const c_char, // out
        kind_size: usize, // out
        kind_id: c_int, // out
    }
}

extension! {
    /// The extension record; read its functions through [`slot`].
    PJRT_MemoryDescriptions_Extension = PJRT_Extension_Type_MemoryDescriptions {
        PJRT_DeviceDescription_MemoryDescriptions: Call<PJRT_DeviceDescription_MemoryDescriptions_Args>,
        PJRT_MemoryDescription_Kind: Call<PJRT_MemoryDescription_Kind_Args>,
    }
}
