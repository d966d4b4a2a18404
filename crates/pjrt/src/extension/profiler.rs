//! Profiler: sessions of the plugin's own profiler, whose result is a serialized `XSpace` message.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::Slot;
use pjrt_sys::extensions::profiler::*;

use super::record::Record;
use crate::api::{Api, chars, list, text};
use crate::error::{Code, Error};

/// The profiler of a plugin.
#[derive(Clone, Debug)]
pub struct Profiler {
    record: Record<PLUGIN_Profiler_Api>,
}

/// A profiling session, which is stopped and freed when dropped.
#[derive(Debug)]
pub struct ProfilerSession {
    record: Record<PLUGIN_Profiler_Api>,
    raw: NonNull<PLUGIN_Profiler>,
    running: bool,
}

// SAFETY: the profiler's functions may be called from any thread. Calls on one session must not overlap, which `&mut
// self` sees to; for the same reason there is nothing to share, and `Sync` would allow nothing.
unsafe impl Send for ProfilerSession {}

impl Profiler {
    pub(crate) fn find(api: &Arc<Api>) -> Option<Self> {
        let record: Record<PJRT_Profiler_Extension> = Record::find(api, PJRT_Profiler_Extension::TYPE)?;
        // Some plugins state the size of the base alone though the table is there, as every version has had it: the size
        // cannot be relied on for this field.
        // SAFETY: the record has had this field since the extension exists, and lives as long as the plugin.
        let table = unsafe { (*record.table).profiler_api };
        (!table.is_null()).then(|| Self { record: Record { api: api.clone(), table: table.cast_const() } })
    }

    /// Prepares a session. `options` is a serialized `ProfileOptions` message and may be empty.
    pub fn session(&self, options: &[u8]) -> Result<ProfilerSession, Error> {
        let mut args = PLUGIN_Profiler_Create_Args::new();
        args.options = chars(options);
        args.options_size = options.len();
        // SAFETY: the options are borrowed for the call.
        unsafe { call(&self.record, slot::create, &mut args)? };
        let null = Error::Answer { call: slot::create.name(), what: "the session is null" };
        let raw = NonNull::new(args.profiler).ok_or(null)?;
        Ok(ProfilerSession { record: self.record.clone(), raw, running: false })
    }
}

impl ProfilerSession {
    fn args(&self) -> PLUGIN_Profiler_Session_Args {
        let mut args = PLUGIN_Profiler_Session_Args::new();
        args.profiler = self.raw.as_ptr();
        args
    }

    /// Starts recording.
    pub fn start(&mut self) -> Result<(), Error> {
        // SAFETY: the session is alive.
        unsafe { call(&self.record, slot::start, &mut self.args())? };
        self.running = true;
        Ok(())
    }

    /// Stops recording.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.running = false;
        // SAFETY: the session is alive.
        unsafe { call(&self.record, slot::stop, &mut self.args()) }
    }

    /// What was recorded, as a serialized `XSpace` message.
    pub fn collect(&mut self) -> Result<Vec<u8>, Error> {
        let mut args = PLUGIN_Profiler_CollectData_Args::new();
        args.profiler = self.raw.as_ptr();
        // SAFETY: the session is alive.
        unsafe { call(&self.record, slot::collect_data, &mut args)? };
        if !args.buffer.is_null() {
            // SAFETY: the plugin pointed to its own copy, which lives as long as the session.
            let data: Vec<u8> = unsafe { list(args.buffer.cast_const(), args.buffer_size_in_bytes) };
            return Ok(without_terminator(data));
        }
        let mut data = vec![0u8; args.buffer_size_in_bytes];
        args.buffer = data.as_mut_ptr();
        // SAFETY: `data` has the size the first call reported.
        unsafe { call(&self.record, slot::collect_data, &mut args)? };
        data.truncate(args.buffer_size_in_bytes);
        Ok(without_terminator(data))
    }
}

/// A message without the zero byte that XLA's plugins count as its last one. No field begins with zero.
fn without_terminator(mut data: Vec<u8>) -> Vec<u8> {
    let mut rest = data.as_slice();
    // The fields of an `XSpace` are all of a stated length.
    while let [tag, after @ ..] = rest
        && tag & 7 == 2
        && let Some((length, after)) = varint(after)
        && let Some(after) = usize::try_from(length).ok().and_then(|length| after.get(length..))
    {
        rest = after;
    }
    if rest == [0] {
        data.pop();
    }
    data
}

/// A number and what follows it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (n, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * n as u32)?;
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(n + 1..)?));
        }
    }
    None
}

impl Drop for ProfilerSession {
    fn drop(&mut self) {
        // Nothing can be done about a failure to stop or to free.
        if self.running {
            let _ = self.stop();
        }
        // SAFETY: the session is alive and this is its owner.
        let _ = unsafe { call(&self.record, slot::destroy, &mut self.args()) };
    }
}

/// Calls a function of the profiler, whose errors are of their own type.
///
/// # Safety
/// Pointers in `args` are as the profiler's header demands.
unsafe fn call<A>(
    record: &Record<PLUGIN_Profiler_Api>,
    slot: Slot<PLUGIN_Profiler_Api, ProfilerCall<A>>,
    args: &mut A,
) -> Result<(), Error> {
    // SAFETY: the table lives as long as the plugin and begins with its size.
    let function = unsafe { slot.read(record.table) };
    let function = function.ok_or(Error::Unsupported { call: slot.name(), plugin: record.api.version })?;
    // SAFETY: the caller vouches for `args`.
    let error = unsafe { function(args) };
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the table is valid, and the error is alive until it is freed below, once.
    let (message, code) = unsafe {
        let mut message = PLUGIN_Profiler_Error_Message_Args::new();
        message.error = error;
        if let Some(read) = slot::error_message.read(record.table) {
            read(&mut message);
        }
        let mut code = PLUGIN_Profiler_Error_GetCode_Args::new();
        code.error = error;
        if let Some(read) = slot::error_get_code.read(record.table) {
            read(&mut code);
        }
        let message = text(message.message, message.message_size);
        let mut args = PLUGIN_Profiler_Error_Destroy_Args::new();
        args.error = error;
        if let Some(destroy) = slot::error_destroy.read(record.table) {
            destroy(&mut args);
        }
        (message, code.code)
    };
    let code = u32::try_from(code).map_or(Code::Unknown, Code::from_number);
    Err(Error::Pjrt { call: slot.name(), code, message, payloads: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminator_is_no_part_of_the_message() {
        // Nothing but the terminator, and two fields before it.
        assert_eq!(without_terminator(vec![0]), Vec::<u8>::new());
        let message = vec![0x0a, 2, 8, 0, 0x22, 1, 0];
        assert_eq!(without_terminator(message.clone()), message);
        assert_eq!(without_terminator([message.clone(), vec![0]].concat()), message);
        // What is damaged stays as it is.
        for odd in [vec![], vec![0x0a, 9, 0], vec![0, 0], vec![0x0a, 0xff]] {
            assert_eq!(without_terminator(odd.clone()), odd);
        }
    }
}
