//! Topology descriptions: what to compile for when no device is present.

use std::ffi::{c_char, c_int};

use crate::abi::{args, opaque};
use crate::*;

opaque! {
    /// The devices a program may be compiled for, present or not.
    PJRT_TopologyDescription,
    /// Backs the bytes of a serialized topology.
    PJRT_SerializedTopology,
}

args! {
    /// Arguments of `PJRT_TopologyDescription_Create`.
    PJRT_TopologyDescription_Create_Args {
        topology_name: *const c_char,
        topology_name_size: usize,
        create_options: *const PJRT_NamedValue,
        num_options: usize,
        topology: *mut PJRT_TopologyDescription, // out
    }
}

args! {
    /// Arguments of `PJRT_TopologyDescription_Destroy`.
    PJRT_TopologyDescription_Destroy_Args {
        topology: *mut PJRT_TopologyDescription,
    }
}

args! {
    /// Arguments of `PJRT_TopologyDescription_PlatformVersion`.
    PJRT_TopologyDescription_PlatformVersion_Args {
        topology: *mut PJRT_TopologyDescription,
        platform_version: *const c_char, // out
        platform_version_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_TopologyDescription_PlatformName`.
    PJRT_TopologyDescription_PlatformName_Args {
        topology: *const PJRT_TopologyDescription,
        platform_name: *const c_char, // out
        platform_name_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_TopologyDescription_GetDeviceDescriptions`.
    PJRT_TopologyDescription_GetDeviceDescriptions_Args {
        topology: *const PJRT_TopologyDescription,
        descriptions: *const *mut PJRT_DeviceDescription, // out
        num_descriptions: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_TopologyDescription_Serialize`. The bytes live until the deleter is called, exactly once.
    PJRT_TopologyDescription_Serialize_Args {
        topology: *mut PJRT_TopologyDescription,
        serialized_bytes: *const c_char, // out
        serialized_bytes_size: usize, // out
        serialized_topology: *mut PJRT_SerializedTopology, // out
        serialized_topology_deleter: Option<unsafe extern "C" fn(*mut PJRT_SerializedTopology)>, // out
    }
}

args! {
    /// Arguments of `PJRT_TopologyDescription_Deserialize`.
    PJRT_TopologyDescription_Deserialize_Args {
        serialized_topology: *const c_char,
        serialized_topology_size: usize,
        topology: *mut PJRT_TopologyDescription, // out
    }
}

args! {
    /// Arguments of `PJRT_TopologyDescription_Attributes`.
    PJRT_TopologyDescription_Attributes_Args {
        topology: *mut PJRT_TopologyDescription,
        attributes: *const PJRT_NamedValue, // out
        num_attributes: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_TopologyDescription_Fingerprint`.
    PJRT_TopologyDescription_Fingerprint_Args {
        topology: *const PJRT_TopologyDescription,
        fingerprint: u64, // out
    }
}

args! {
    /// Arguments of `PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace`.
    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args {
        topology: *const PJRT_TopologyDescription,
        memory_space_kind_id: c_int,
        dims: *const i64,
        num_dims: usize,
        element_type: PJRT_Buffer_Type,
        layout: *const PJRT_Buffer_MemoryLayout,
        serialized_shape: *const c_char, // out
        serialized_shape_size: usize, // out
        serialized_shape_deleter: Option<unsafe extern "C" fn(*const c_char)>, // out
    }
}

args! {
    /// Arguments of `PJRT_TopologyDescription_GetMemorySpaceKindIds`.
    PJRT_TopologyDescription_GetMemorySpaceKindIds_Args {
        topology: *const PJRT_TopologyDescription,
        memory_space_kind_ids: *const c_int, // out
        num_memory_space_kind_ids: usize, // out
    }
}
