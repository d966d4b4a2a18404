//! Plugin set-up and attributes.

use crate::abi::args;
use crate::*;

args! {
    /// Arguments of `PJRT_Plugin_Initialize`. It must be the first call.
    PJRT_Plugin_Initialize_Args {}
}

args! {
    /// Arguments of `PJRT_Plugin_Attributes`. The attributes live as long as the process.
    PJRT_Plugin_Attributes_Args {
        attributes: *const PJRT_NamedValue, // out
        num_attributes: usize, // out
    }
}
