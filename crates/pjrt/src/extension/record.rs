//! An extension record of a plugin, and calls through it.
#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use pjrt_sys::{Call, PJRT_Extension_Type, Slot};

use crate::api::Api;
use crate::error::Error;

/// An extension record of type `T`.
pub(crate) struct Record<T> {
    pub(crate) api: Arc<Api>,
    pub(crate) table: *const T,
}

impl<T> Clone for Record<T> {
    fn clone(&self) -> Self {
        Self { api: self.api.clone(), table: self.table }
    }
}

impl<T> fmt::Debug for Record<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("table", &self.table).finish()
    }
}

// SAFETY: a record is part of the plugin's API table: written before the table is handed out, only read afterwards, and its
// functions may be called from any thread.
unsafe impl<T> Send for Record<T> {}
// SAFETY: as for `Send`.
unsafe impl<T> Sync for Record<T> {}

impl<T> Record<T> {
    pub(crate) fn find(api: &Arc<Api>, id: PJRT_Extension_Type) -> Option<Self> {
        api.extension(id).map(|table| Self { api: api.clone(), table })
    }

    /// # Safety
    /// Pointers in `args` are as the C header demands of this function.
    pub(crate) unsafe fn call<A>(&self, slot: Slot<T, Call<A>>, args: &mut A) -> Result<(), Error> {
        // SAFETY: `table` is a record of this plugin; the caller vouches for `args`.
        unsafe { self.api.call_extension(self.table, slot, args) }
    }
}
