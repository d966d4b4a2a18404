//! Events: completion of asynchronous work.

use std::ffi::{c_char, c_void};

use crate::abi::{args, opaque};
use crate::*;

opaque! {
    /// Something that will have happened; owned by whoever received it.
    PJRT_Event,
}

/// Called once with the event's error (or null), whose ownership passes to the callback.
pub type PJRT_Event_OnReadyCallback = unsafe extern "C" fn(*mut PJRT_Error, *mut c_void);

args! {
    /// Arguments of `PJRT_Event_Destroy`.
    PJRT_Event_Destroy_Args {
        event: *mut PJRT_Event,
    }
}

args! {
    /// Arguments of `PJRT_Event_IsReady`.
    PJRT_Event_IsReady_Args {
        event: *mut PJRT_Event,
        is_ready: bool, // out
    }
}

args! {
    /// Arguments of `PJRT_Event_Error`. Allowed only when the event is ready.
    PJRT_Event_Error_Args {
        event: *mut PJRT_Event,
    }
}

args! {
    /// Arguments of `PJRT_Event_Await`.
    PJRT_Event_Await_Args {
        event: *mut PJRT_Event,
    }
}

args! {
    /// Arguments of `PJRT_Event_OnReady`. The callback may run on any thread, also before this call returns.
    PJRT_Event_OnReady_Args {
        event: *mut PJRT_Event,
        callback: Option<PJRT_Event_OnReadyCallback>,
        user_arg: *mut c_void,
    }
}

args! {
    /// Arguments of `PJRT_Event_Create`.
    PJRT_Event_Create_Args {
        event: *mut PJRT_Event, // out
    }
}

args! {
    /// Arguments of `PJRT_Event_Set`.
    PJRT_Event_Set_Args {
        event: *mut PJRT_Event,
        error_code: PJRT_Error_Code,
        error_message: *const c_char,
        error_message_size: usize,
    }
}
