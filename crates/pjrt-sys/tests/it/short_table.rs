//! Slots answer from the table's own size, not from the type's.
#![allow(unsafe_code)]

use std::ffi::c_int;

use pjrt_sys::*;

unsafe extern "C" fn initialize(_: *mut PJRT_Plugin_Initialize_Args) -> *mut PJRT_Error {
    std::ptr::null_mut()
}

/// A table as an early plugin has it: it ends after `PJRT_Plugin_Initialize`.
#[repr(C)]
struct Short {
    struct_size: usize,
    extension_start: *mut PJRT_Extension_Base,
    version: PJRT_Api_Version,
    error_destroy: Option<VoidCall<PJRT_Error_Destroy_Args>>,
    error_message: Option<VoidCall<PJRT_Error_Message_Args>>,
    error_get_code: Option<Call<PJRT_Error_GetCode_Args>>,
    initialize: Option<Call<PJRT_Plugin_Initialize_Args>>,
}

#[test]
fn a_slot_past_the_end_or_null_is_none() {
    let mut version = PJRT_Api_Version::new();
    version.minor_version = 3 as c_int;
    let table = Short {
        struct_size: size_of::<Short>(),
        extension_start: std::ptr::null_mut(),
        version,
        error_destroy: None,
        error_message: None,
        error_get_code: None,
        initialize: Some(initialize),
    };
    let api: *const PJRT_Api = (&raw const table).cast();
    // SAFETY: `table` opens with its size and has the functions of the header as far as that reaches.
    unsafe {
        assert!(slot::PJRT_Plugin_Initialize.read(api).is_some());
        assert!(slot::PJRT_Error_Destroy.read(api).is_none());
        assert!(slot::PJRT_Plugin_Attributes.read(api).is_none());
        assert!(slot::PJRT_TopologyDescription_GetMemorySpaceKindIds.read(api).is_none());
    }
}

#[test]
fn new_sets_the_size_and_nothing_else() {
    let args = PJRT_Event_IsReady_Args::new();
    assert_eq!(args.struct_size, 25);
    assert!(args.extension_start.is_null() && args.event.is_null() && !args.is_ready);
}
