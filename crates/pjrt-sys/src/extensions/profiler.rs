//! Profiler extension: the plugin's own profiler table.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

use crate::abi::{opaque, record, sized};
use crate::*;

opaque! {
    /// A profiling session.
    PLUGIN_Profiler,
    /// An error of the profiler; not a `PJRT_Error`.
    PLUGIN_Profiler_Error,
}

sized! {
    /// Arguments of `error_destroy`.
    PLUGIN_Profiler_Error_Destroy_Args {
        private: *mut c_void,
        error: *mut PLUGIN_Profiler_Error,
    }
}

sized! {
    /// Arguments of `error_message`. `message` lives as long as `error`.
    PLUGIN_Profiler_Error_Message_Args {
        private: *mut c_void,
        error: *const PLUGIN_Profiler_Error,
        message: *const c_char, // out
        message_size: usize, // out
    }
}

sized! {
    /// Arguments of `error_get_code`.
    PLUGIN_Profiler_Error_GetCode_Args {
        private: *mut c_void,
        error: *const PLUGIN_Profiler_Error,
        code: c_int, // out
    }
}

sized! {
    /// Arguments of `create`. `options` is a serialized `ProfileOptions` message.
    PLUGIN_Profiler_Create_Args {
        options: *const c_char,
        options_size: usize,
        profiler: *mut PLUGIN_Profiler, // out
    }
}

sized! {
    /// Arguments of `destroy`, `start` and `stop`.
    PLUGIN_Profiler_Session_Args {
        profiler: *mut PLUGIN_Profiler,
    }
}

sized! {
    /// Arguments of `collect_data`. With `buffer` null a plugin reports the size, and may also point `buffer` to its own
    /// copy of the data, which lives as long as the session.
    PLUGIN_Profiler_CollectData_Args {
        profiler: *mut PLUGIN_Profiler,
        buffer: *mut u8, // out
        buffer_size_in_bytes: usize, // out
    }
}

/// A function of the profiler that can fail.
pub type ProfilerCall<A> = unsafe extern "C" fn(*mut A) -> *mut PLUGIN_Profiler_Error;

record! {
    /// The profiler's own table; read its functions through [`slot`].
    PLUGIN_Profiler_Api {
        struct_size: usize,
        private: *mut c_void,
        error_destroy: Option<VoidCall<PLUGIN_Profiler_Error_Destroy_Args>>,
        error_message: Option<VoidCall<PLUGIN_Profiler_Error_Message_Args>>,
        error_get_code: Option<ProfilerCall<PLUGIN_Profiler_Error_GetCode_Args>>,
        create: Option<ProfilerCall<PLUGIN_Profiler_Create_Args>>,
        destroy: Option<ProfilerCall<PLUGIN_Profiler_Session_Args>>,
        start: Option<ProfilerCall<PLUGIN_Profiler_Session_Args>>,
        stop: Option<ProfilerCall<PLUGIN_Profiler_Session_Args>>,
        collect_data: Option<ProfilerCall<PLUGIN_Profiler_CollectData_Args>>,
    }
}

record! {
    /// The extension record. Its size may be that of the base alone: look at `struct_size` before reading on.
    PJRT_Profiler_Extension {
        base: PJRT_Extension_Base,
        profiler_api: *mut PLUGIN_Profiler_Api,
        traceme_context_id: i64,
    }
}

impl PJRT_Profiler_Extension {
    /// What `base.type` is in this record.
    pub const TYPE: PJRT_Extension_Type = PJRT_Extension_Type_Profiler;
}

/// Where each function of the profiler is.
#[allow(missing_docs)]
pub mod slot {
    use super::*;

    type In<F> = Slot<PLUGIN_Profiler_Api, F>;

    pub const error_destroy: In<VoidCall<PLUGIN_Profiler_Error_Destroy_Args>> =
        Slot::new("PLUGIN_Profiler_Error_Destroy", offset_of!(PLUGIN_Profiler_Api, error_destroy));
    pub const error_message: In<VoidCall<PLUGIN_Profiler_Error_Message_Args>> =
        Slot::new("PLUGIN_Profiler_Error_Message", offset_of!(PLUGIN_Profiler_Api, error_message));
    pub const error_get_code: In<ProfilerCall<PLUGIN_Profiler_Error_GetCode_Args>> =
        Slot::new("PLUGIN_Profiler_Error_GetCode", offset_of!(PLUGIN_Profiler_Api, error_get_code));
    pub const create: In<ProfilerCall<PLUGIN_Profiler_Create_Args>> =
        Slot::new("PLUGIN_Profiler_Create", offset_of!(PLUGIN_Profiler_Api, create));
    pub const destroy: In<ProfilerCall<PLUGIN_Profiler_Session_Args>> =
        Slot::new("PLUGIN_Profiler_Destroy", offset_of!(PLUGIN_Profiler_Api, destroy));
    pub const start: In<ProfilerCall<PLUGIN_Profiler_Session_Args>> =
        Slot::new("PLUGIN_Profiler_Start", offset_of!(PLUGIN_Profiler_Api, start));
    pub const stop: In<ProfilerCall<PLUGIN_Profiler_Session_Args>> =
        Slot::new("PLUGIN_Profiler_Stop", offset_of!(PLUGIN_Profiler_Api, stop));
    pub const collect_data: In<ProfilerCall<PLUGIN_Profiler_CollectData_Args>> =
        Slot::new("PLUGIN_Profiler_CollectData", offset_of!(PLUGIN_Profiler_Api, collect_data));
}
