//! Profiler extension: the plugin's own profiler table.

use crate::abi::{opaque, record};
use crate::*;

opaque! {
    /// The profiler's own function table.
    PLUGIN_Profiler_Api,
}

record! {
    /// The extension record. As an argument extension only the context id is set.
    PJRT_Profiler_Extension {
        base: PJRT_Extension_Base,
        profiler_api: *mut PLUGIN_Profiler_Api,
        traceme_context_id: i64,
    }
}
