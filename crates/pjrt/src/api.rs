//! The loaded table: calls by slot, errors turned into values, and reading of what plugins point to.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::path::PathBuf;
use std::slice;

use pjrt_sys::*;

use crate::error::{Code, Error, Payload};
use crate::version::ApiVersion;

/// Longest chain of extensions that is followed; a longer one is a loop.
const MAX_EXTENSIONS: usize = 256;

/// A plugin's PJRT API table.
pub(crate) struct Api {
    /// Valid for the rest of the process: libraries are never closed.
    pub(crate) table: *const PJRT_Api,
    pub(crate) path: Option<PathBuf>,
    pub(crate) version: ApiVersion,
}

// SAFETY: the table is written before `GetPjrtApi` returns and only read afterwards, by the plugin and by us. The
// interface lets functions of the table be called from any thread.
unsafe impl Send for Api {}
// SAFETY: as for `Send`; nothing here is mutable.
unsafe impl Sync for Api {}

impl Api {
    /// Calls a function of the table.
    ///
    /// # Safety
    /// Pointers in `args` are as the C header demands of this function: handles alive, arrays as long as stated.
    pub(crate) unsafe fn call<A>(&self, slot: Slot<PJRT_Api, Call<A>>, args: &mut A) -> Result<(), Error> {
        // SAFETY: `table` outlives the process and begins with its size; `Plugin` checked both.
        let function = unsafe { slot.read(self.table) };
        let function = function.ok_or(Error::Unsupported { call: slot.name(), plugin: self.version })?;
        // SAFETY: the caller vouches for `args`.
        let error = unsafe { function(args) };
        // SAFETY: `error` is what the function just returned, and is used only here.
        unsafe { self.check(slot.name(), error) }
    }

    /// Calls a function of an extension.
    ///
    /// # Safety
    /// As for [`Api::call`]; and `table` is an extension record of this plugin.
    pub(crate) unsafe fn call_extension<T, A>(
        &self,
        table: *const T,
        slot: Slot<T, Call<A>>,
        args: &mut A,
    ) -> Result<(), Error> {
        // SAFETY: extension records live as long as the plugin and begin with their size.
        let function = unsafe { slot.read(table) };
        let function = function.ok_or(Error::Unsupported { call: slot.name(), plugin: self.version })?;
        // SAFETY: the caller vouches for `args`.
        let error = unsafe { function(args) };
        // SAFETY: `error` is what the function just returned, and is used only here.
        unsafe { self.check(slot.name(), error) }
    }

    /// Turns an answer into a result and frees it.
    ///
    /// # Safety
    /// `error` is null or an error of this plugin that nobody else frees.
    pub(crate) unsafe fn check(&self, call: &'static str, error: *mut PJRT_Error) -> Result<(), Error> {
        if error.is_null() {
            return Ok(());
        }
        let message = self.error_message(error);
        let code = self.error_code(error);
        let payloads = self.error_payloads(error);
        let mut args = PJRT_Error_Destroy_Args::new();
        args.error = error;
        // SAFETY: the table is valid; see `call`.
        if let Some(destroy) = unsafe { slot::PJRT_Error_Destroy.read(self.table) } {
            // SAFETY: `error` is alive and ours to free.
            unsafe { destroy(&mut args) };
        }
        Err(Error::Pjrt { call, code, message, payloads })
    }

    fn error_message(&self, error: *mut PJRT_Error) -> String {
        // SAFETY: the table is valid; see `call`.
        let Some(function) = (unsafe { slot::PJRT_Error_Message.read(self.table) }) else {
            return String::new();
        };
        let mut args = PJRT_Error_Message_Args::new();
        args.error = error;
        // SAFETY: `error` is alive.
        unsafe { function(&mut args) };
        // SAFETY: the message lives as long as `error`.
        unsafe { text(args.message, args.message_size) }
    }

    fn error_code(&self, error: *mut PJRT_Error) -> Code {
        // SAFETY: the table is valid; see `call`.
        let Some(function) = (unsafe { slot::PJRT_Error_GetCode.read(self.table) }) else {
            return Code::Unknown;
        };
        let mut args = PJRT_Error_GetCode_Args::new();
        args.error = error;
        // SAFETY: `error` is alive.
        let failed = unsafe { function(&mut args) };
        // An error about an error: free it and keep what is known.
        // SAFETY: `failed` is what the function just returned.
        match unsafe { self.discard(failed) } {
            true => Code::Unknown,
            false => Code::from_number(args.code),
        }
    }

    fn error_payloads(&self, error: *mut PJRT_Error) -> Vec<Payload> {
        unsafe extern "C" fn visit(
            key: *const c_char,
            key_size: usize,
            value: *const c_char,
            value_size: usize,
            user: *mut c_void,
        ) {
            // Nothing in here unwinds but allocation failure, which aborts.
            // SAFETY: `user` is the vector below, and the plugin calls this only during the call.
            let payloads = unsafe { &mut *user.cast::<Vec<Payload>>() };
            // SAFETY: the plugin says how long key and value are.
            payloads.push(unsafe { Payload { key: text(key, key_size), value: bytes(value, value_size) } });
        }
        // SAFETY: the table is valid; see `call`.
        let Some(function) = (unsafe { slot::PJRT_Error_ForEachPayload.read(self.table) }) else {
            return Vec::new();
        };
        let mut payloads = Vec::new();
        let mut args = PJRT_Error_ForEachPayload_Args::new();
        args.error = error;
        args.visitor = Some(visit);
        args.user_arg = (&raw mut payloads).cast();
        // SAFETY: `error` is alive, and the visitor matches its argument.
        let failed = unsafe { function(&mut args) };
        // SAFETY: `failed` is what the function just returned.
        unsafe { self.discard(failed) };
        payloads
    }

    /// Frees an error unread; whether there was one.
    ///
    /// # Safety
    /// `error` is null or an error of this plugin that nobody else frees.
    unsafe fn discard(&self, error: *mut PJRT_Error) -> bool {
        if error.is_null() {
            return false;
        }
        let mut args = PJRT_Error_Destroy_Args::new();
        args.error = error;
        // SAFETY: the table is valid; see `call`.
        if let Some(destroy) = unsafe { slot::PJRT_Error_Destroy.read(self.table) } {
            // SAFETY: the caller vouches for `error`.
            unsafe { destroy(&mut args) };
        }
        true
    }

    /// Refuses to mix handles of two plugins, which no plugin could detect.
    pub(crate) fn same(&self, other: &Api) -> Result<(), Error> {
        match std::ptr::eq(self.table, other.table) {
            true => Ok(()),
            false => Err(Error::input("objects of two different plugins cannot be used together")),
        }
    }

    /// Records of the extension chain, as type and address.
    pub(crate) fn extensions(&self) -> Vec<(PJRT_Extension_Type, *const PJRT_Extension_Base)> {
        // SAFETY: `Plugin` checked that the table reaches past its head.
        let mut next: *const PJRT_Extension_Base = unsafe { (*self.table.cast::<TableHead>()).extension_start };
        let mut found = Vec::new();
        while !next.is_null() && found.len() < MAX_EXTENSIONS {
            // SAFETY: every record begins with its base and lives as long as the plugin.
            let base = unsafe { next.read() };
            if base.struct_size < PJRT_Extension_Base::STRUCT_SIZE {
                break;
            }
            found.push((base.r#type, next));
            next = base.next;
        }
        found
    }

    /// The record of one extension.
    pub(crate) fn extension<T>(&self, id: PJRT_Extension_Type) -> Option<*const T> {
        self.extensions().into_iter().find(|(found, _)| *found == id).map(|(_, record)| record.cast())
    }
}

/// What every table has, however short.
#[repr(C)]
pub(crate) struct TableHead {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut PJRT_Extension_Base,
    pub(crate) version: PJRT_Api_Version,
}

/// Copies text a plugin points to.
///
/// # Safety
/// `data` is null or points to `size` readable bytes.
pub(crate) unsafe fn text(data: *const c_char, size: usize) -> String {
    // SAFETY: as the caller promises.
    String::from_utf8_lossy(&unsafe { bytes(data, size) }).into_owned()
}

/// Copies bytes a plugin points to.
///
/// # Safety
/// `data` is null or points to `size` readable bytes.
pub(crate) unsafe fn bytes(data: *const c_char, size: usize) -> Vec<u8> {
    // SAFETY: as the caller promises.
    unsafe { list(data.cast::<u8>(), size) }
}

/// Copies an array a plugin points to.
///
/// # Safety
/// `data` is null or points to `count` initialized elements.
pub(crate) unsafe fn list<T: Copy>(data: *const T, count: usize) -> Vec<T> {
    if data.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts(data, count) }.to_vec()
}

/// The pointer form in which the interface takes byte strings.
pub(crate) fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}
