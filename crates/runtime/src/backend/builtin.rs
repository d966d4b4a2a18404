//! The CPU device that is linked into this program, behind the same PJRT API as any plugin.
#![allow(unsafe_code)]

use pjrt::Plugin;

/// The built-in CPU device.
pub(crate) fn plugin() -> Result<Plugin, pjrt::Error> {
    // SAFETY: the table is a static of this program, of the size it states, with functions that follow the C header.
    unsafe { Plugin::from_api(cpu::api()) }
}
