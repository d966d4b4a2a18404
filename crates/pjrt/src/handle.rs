//! The C client, kept alive by everything that was made with it.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;

use crate::api::Api;
use crate::error::Error;
use crate::key_value::PinnedStore;

/// Host memory that is shared with the runtime for as long as the runtime needs it.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// The C client and what must outlive it.
pub(crate) struct ClientHandle {
    pub(crate) api: Arc<Api>,
    pub(crate) raw: NonNull<PJRT_Client>,
    pub(crate) _store: Option<PinnedStore>,
}

// SAFETY: the interface lets every function on a client be called from any thread, and ends it from any thread.
unsafe impl Send for ClientHandle {}
// SAFETY: as for `Send`; clients synchronize themselves, as frameworks that run many threads on one client rely on.
unsafe impl Sync for ClientHandle {}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        let mut args = PJRT_Client_Destroy_Args::new();
        args.client = self.raw.as_ptr();
        // Nothing can be done about a failure to free.
        // SAFETY: this is the last handle: every device, memory, buffer, event and loaded executable holds one.
        let _ = unsafe { self.api.call(slot::PJRT_Client_Destroy, &mut args) };
    }
}

/// Refuses to mix objects of two clients, which no plugin could detect.
pub(crate) fn same_client(one: &Arc<ClientHandle>, other: &Arc<ClientHandle>) -> Result<(), Error> {
    match Arc::ptr_eq(one, other) {
        true => Ok(()),
        false => Err(Error::input("objects of two different clients cannot be used together")),
    }
}
