//! A plugin written for tests: a PJRT API table whose length, holes, failures and timing the test decides.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::mem::offset_of;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use pjrt::{Error, Plugin};
use pjrt_sys::*;

/// A full table. Tests change or cut it before they use it.
pub(crate) fn table() -> PJRT_Api {
    let mut api = PJRT_Api::new();
    api.PJRT_Error_Destroy = Some(error_destroy);
    api.PJRT_Error_Message = Some(error_message);
    api.PJRT_Error_GetCode = Some(error_get_code);
    api.PJRT_Error_ForEachPayload = Some(error_for_each_payload);
    api.PJRT_Plugin_Initialize = Some(initialize);
    api.PJRT_Plugin_Attributes = Some(failing_attributes);
    api.PJRT_Event_Destroy = Some(event_destroy);
    api.PJRT_Event_IsReady = Some(event_is_ready);
    api.PJRT_Event_Error = Some(event_error);
    api.PJRT_Event_OnReady = Some(event_on_ready);
    api.PJRT_Client_Create = Some(client_create);
    api.PJRT_Client_Destroy = Some(client_destroy);
    api.PJRT_Client_AddressableDevices = Some(client_addressable_devices);
    api.PJRT_Client_BufferFromHostBuffer = Some(buffer_from_host);
    api.PJRT_Buffer_Dimensions = Some(buffer_dimensions);
    api.PJRT_Buffer_ToHostBuffer = Some(buffer_to_host);
    api.PJRT_Buffer_Destroy = Some(buffer_destroy);
    api
}

/// Loads a table as a client sees it: for good, and of the length it states.
pub(crate) fn load(api: PJRT_Api) -> Result<Plugin, Error> {
    let table = Box::leak(Box::new(api));
    // SAFETY: the table is leaked, and its functions follow the header.
    unsafe { Plugin::from_api(table) }
}

/// The end of a slot, where an older plugin's API table may end.
pub(crate) const AFTER_INITIALIZE: usize = offset_of!(PJRT_Api, PJRT_Plugin_Initialize) + size_of::<usize>();

// ---- errors

struct FakeError {
    code: u32,
    message: String,
    payloads: Vec<(String, Vec<u8>)>,
}

pub(crate) fn error(code: u32, message: &str, payloads: &[(&str, &[u8])]) -> *mut PJRT_Error {
    let payloads = payloads.iter().map(|(key, value)| (key.to_string(), value.to_vec())).collect();
    Box::into_raw(Box::new(FakeError { code, message: message.into(), payloads })).cast()
}

unsafe extern "C" fn error_destroy(args: *mut PJRT_Error_Destroy_Args) {
    // SAFETY: errors of this plugin are boxes made by `error`, freed once.
    drop(unsafe { Box::from_raw((*args).error.cast::<FakeError>()) });
}

unsafe extern "C" fn error_message(args: *mut PJRT_Error_Message_Args) {
    // SAFETY: the client gives a live error of this plugin.
    unsafe {
        let error = &*(*args).error.cast::<FakeError>();
        (*args).message = error.message.as_ptr().cast();
        (*args).message_size = error.message.len();
    }
}

unsafe extern "C" fn error_get_code(args: *mut PJRT_Error_GetCode_Args) -> *mut PJRT_Error {
    // SAFETY: the client gives a live error of this plugin.
    unsafe { (*args).code = (*(*args).error.cast::<FakeError>()).code };
    null_mut()
}

unsafe extern "C" fn error_for_each_payload(args: *mut PJRT_Error_ForEachPayload_Args) -> *mut PJRT_Error {
    // SAFETY: the client gives a live error of this plugin and a visitor for it.
    unsafe {
        for (key, value) in &(*(*args).error.cast::<FakeError>()).payloads {
            let visit = (*args).visitor.unwrap();
            visit(key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len(), (*args).user_arg);
        }
    }
    null_mut()
}

unsafe extern "C" fn callback_error(code: u32, message: *const c_char, size: usize) -> *mut PJRT_Error {
    // SAFETY: the callback gives text of this length.
    let message = unsafe { std::slice::from_raw_parts(message.cast::<u8>(), size) };
    error(code, std::str::from_utf8(message).unwrap(), &[])
}

// ---- plugin

unsafe extern "C" fn initialize(_: *mut PJRT_Plugin_Initialize_Args) -> *mut PJRT_Error {
    null_mut()
}

pub(crate) unsafe extern "C" fn failing_initialize(_: *mut PJRT_Plugin_Initialize_Args) -> *mut PJRT_Error {
    error(PJRT_Error_Code_ABORTED, "another process holds the device", &[])
}

unsafe extern "C" fn failing_attributes(_: *mut PJRT_Plugin_Attributes_Args) -> *mut PJRT_Error {
    error(PJRT_Error_Code_UNAVAILABLE, "not now", &[("type.googleapis.com/x", &[0, 159, 146]), ("empty", &[])])
}

// ---- events

/// An event that is done when the test says so.
#[derive(Default)]
pub(crate) struct FakeEvent {
    state: Mutex<EventState>,
}

#[derive(Default)]
struct EventState {
    outcome: Option<Result<(), u32>>,
    waiting: Vec<(PJRT_Event_OnReadyCallback, usize)>,
    /// Host memory to fill before the event is done: address, bytes.
    write: Option<(usize, Vec<u8>)>,
}

fn outcome_error(outcome: Result<(), u32>) -> *mut PJRT_Error {
    outcome.map_or_else(|code| error(code, "the work failed", &[]), |()| null_mut())
}

impl FakeEvent {
    /// Does the work and calls whoever waits.
    pub(crate) fn finish(&self, outcome: Result<(), u32>) {
        let mut state = self.state.lock().unwrap();
        state.outcome = Some(outcome);
        if let Some((address, bytes)) = state.write.take() {
            // SAFETY: the client keeps the memory alive until the event is done.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for (callback, user_arg) in waiting {
            // SAFETY: the client registered this callback with this argument.
            unsafe { callback(outcome_error(outcome), user_arg as *mut c_void) };
        }
    }
}

/// A new event as the client owns it, and as the test sees it.
fn new_event(control: &Control) -> (*mut PJRT_Event, Arc<FakeEvent>) {
    let event = Arc::new(FakeEvent::default());
    control.events.lock().unwrap().push(event.clone());
    (Arc::into_raw(event.clone()).cast_mut().cast(), event)
}

/// # Safety
/// `event` is an event of this plugin, alive.
unsafe fn event<'a>(event: *mut PJRT_Event) -> &'a FakeEvent {
    // SAFETY: as the caller promises.
    unsafe { &*event.cast::<FakeEvent>() }
}

unsafe extern "C" fn event_destroy(args: *mut PJRT_Event_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: the client gives back its reference, once.
    drop(unsafe { Arc::from_raw((*args).event.cast_const().cast::<FakeEvent>()) });
    null_mut()
}

unsafe extern "C" fn event_is_ready(args: *mut PJRT_Event_IsReady_Args) -> *mut PJRT_Error {
    // SAFETY: the client gives a live event of this plugin.
    unsafe { (*args).is_ready = event((*args).event).state.lock().unwrap().outcome.is_some() };
    null_mut()
}

unsafe extern "C" fn event_error(args: *mut PJRT_Event_Error_Args) -> *mut PJRT_Error {
    // SAFETY: the client gives a live event of this plugin, which is done.
    outcome_error(unsafe { event((*args).event) }.state.lock().unwrap().outcome.unwrap())
}

unsafe extern "C" fn event_on_ready(args: *mut PJRT_Event_OnReady_Args) -> *mut PJRT_Error {
    // SAFETY: the client gives a live event of this plugin and a callback with its argument.
    unsafe {
        let mut state = event((*args).event).state.lock().unwrap();
        match state.outcome {
            None => state.waiting.push(((*args).callback.unwrap(), (*args).user_arg as usize)),
            Some(outcome) => {
                drop(state);
                (*args).callback.unwrap()(outcome_error(outcome), (*args).user_arg);
            }
        }
    }
    null_mut()
}

// ---- client and buffers

/// A value, or code and message.
pub(crate) type KeyValueAnswer = Result<Vec<u8>, (u32, String)>;

/// What a test sees of a client. The test passes its address as the option `control`.
#[derive(Default)]
pub(crate) struct Control {
    /// Every event the client handed out.
    pub(crate) events: Mutex<Vec<Arc<FakeEvent>>>,
    pub(crate) clients_alive: AtomicI64,
    pub(crate) buffers_alive: AtomicUsize,
    /// What the key-value callbacks answered.
    pub(crate) key_values: Mutex<Vec<KeyValueAnswer>>,
}

struct FakeBuffer {
    control: &'static Control,
    dims: Vec<i64>,
    bytes: Vec<u8>,
}

static DEVICE: u8 = 0;

unsafe extern "C" fn client_create(args: *mut PJRT_Client_Create_Args) -> *mut PJRT_Error {
    // SAFETY: tests give exactly one option, the address of a leaked `Control`.
    unsafe {
        let args = &mut *args;
        assert_eq!(args.num_options, 1);
        let control = &*((*args.create_options).value.int64_value as *const Control);
        control.clients_alive.fetch_add(1, SeqCst);
        args.client = std::ptr::from_ref(control).cast_mut().cast();
        if args.kv_put_callback.is_some() {
            use_key_values(args, control);
        }
    }
    null_mut()
}

/// Puts a key, gets it back, and asks for one that is missing, as a multi-host client would.
///
/// # Safety
/// `args` holds all three callbacks.
unsafe fn use_key_values(args: &PJRT_Client_Create_Args, control: &Control) {
    let mut make_error: PJRT_CallbackError = callback_error;
    let read = |failed: *mut PJRT_Error, value: *mut c_char, size: usize, free: Option<unsafe extern "C" fn(_)>| {
        if !failed.is_null() {
            // SAFETY: the callback made the error with `callback_error`.
            let error = unsafe { Box::from_raw(failed.cast::<FakeError>()) };
            return Err((error.code, error.message));
        }
        if value.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: the callback lends a value of this size until its deleter is called.
        let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size) }.to_vec();
        // SAFETY: called once, after the value was copied.
        unsafe { free.unwrap()(value) };
        Ok(bytes)
    };
    let key = "address/0";
    let mut put = PJRT_KeyValuePutCallback_Args::new();
    (put.key, put.key_size) = (key.as_ptr().cast(), key.len());
    (put.value, put.value_size) = (b"host:1234".as_ptr().cast(), 9);
    put.callback_error = &mut make_error;
    put.user_arg = args.kv_put_user_arg;
    // SAFETY: the arguments are as the header demands.
    let failed = unsafe { args.kv_put_callback.unwrap()(&mut put) };
    let answer_put = read(failed, null_mut(), 0, None);

    let mut get = PJRT_KeyValueGetCallback_Args::new();
    (get.key, get.key_size) = (key.as_ptr().cast(), key.len());
    get.timeout_in_ms = 1000;
    get.callback_error = &mut make_error;
    get.user_arg = args.kv_get_user_arg;
    // SAFETY: as above.
    let failed = unsafe { args.kv_get_callback.unwrap()(&mut get) };
    let answer_get = read(failed, get.value, get.value_size, get.value_deleter_callback);

    let mut missing = PJRT_KeyValueTryGetCallback_Args::new();
    (missing.key, missing.key_size) = ("missing".as_ptr().cast(), 7);
    missing.callback_error = &mut make_error;
    missing.user_arg = args.kv_try_get_user_arg;
    // SAFETY: as above.
    let failed = unsafe { args.kv_try_get_callback.unwrap()(&mut missing) };
    let answer_missing = read(failed, missing.value, missing.value_size, missing.value_deleter_callback);
    control.key_values.lock().unwrap().extend([answer_put, answer_get, answer_missing]);
}

unsafe extern "C" fn client_destroy(args: *mut PJRT_Client_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: a client is the address of a leaked `Control`.
    unsafe { &*(*args).client.cast::<Control>() }.clients_alive.fetch_sub(1, SeqCst);
    null_mut()
}

unsafe extern "C" fn client_addressable_devices(args: *mut PJRT_Client_AddressableDevices_Args) -> *mut PJRT_Error {
    struct Devices([*const u8; 1]);
    // SAFETY: nothing but the address of a static.
    unsafe impl Sync for Devices {}
    static DEVICES: Devices = Devices([&raw const DEVICE]);
    // SAFETY: the client gives arguments to fill.
    unsafe {
        (*args).addressable_devices = DEVICES.0.as_ptr().cast();
        (*args).num_addressable_devices = 1;
    }
    null_mut()
}

unsafe extern "C" fn buffer_from_host(args: *mut PJRT_Client_BufferFromHostBuffer_Args) -> *mut PJRT_Error {
    // SAFETY: the client gives dense bytes for one-dimensional `u8` arrays, which is all these tests make.
    unsafe {
        let args = &mut *args;
        let control: &'static Control = &*args.client.cast::<Control>();
        let dims = std::slice::from_raw_parts(args.dims, args.num_dims).to_vec();
        let bytes = std::slice::from_raw_parts(args.data.cast::<u8>(), dims[0] as usize).to_vec();
        control.buffers_alive.fetch_add(1, SeqCst);
        args.buffer = Box::into_raw(Box::new(FakeBuffer { control, dims, bytes })).cast();
        args.done_with_host_buffer = new_event(control).0;
    }
    null_mut()
}

unsafe extern "C" fn buffer_dimensions(args: *mut PJRT_Buffer_Dimensions_Args) -> *mut PJRT_Error {
    // SAFETY: the client gives a live buffer of this plugin.
    unsafe {
        let buffer = &*(*args).buffer.cast::<FakeBuffer>();
        (*args).dims = buffer.dims.as_ptr();
        (*args).num_dims = buffer.dims.len();
    }
    null_mut()
}

unsafe extern "C" fn buffer_to_host(args: *mut PJRT_Buffer_ToHostBuffer_Args) -> *mut PJRT_Error {
    // SAFETY: the client gives a live buffer of this plugin, and memory of the size it was told.
    unsafe {
        let args = &mut *args;
        let buffer = &*args.src.cast::<FakeBuffer>();
        if args.dst.is_null() {
            args.dst_size = buffer.bytes.len();
            return null_mut();
        }
        let (raw, event) = new_event(buffer.control);
        event.state.lock().unwrap().write = Some((args.dst as usize, buffer.bytes.clone()));
        args.event = raw;
    }
    null_mut()
}

unsafe extern "C" fn buffer_destroy(args: *mut PJRT_Buffer_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: buffers of this plugin are boxes, freed once.
    let buffer = unsafe { Box::from_raw((*args).buffer.cast::<FakeBuffer>()) };
    buffer.control.buffers_alive.fetch_sub(1, SeqCst);
    null_mut()
}

/// A chain of extension records: one known, one from the future, then a loop back to the first.
pub(crate) fn looping_extensions() -> *mut PJRT_Extension_Base {
    let record = |id| {
        let size = size_of::<PJRT_Extension_Base>();
        Box::leak(Box::new(PJRT_Extension_Base { struct_size: size, r#type: id, next: null_mut() }))
    };
    let first: *mut PJRT_Extension_Base = record(PJRT_Extension_Type_PhaseCompile);
    let second: *mut PJRT_Extension_Base = record(1000);
    // SAFETY: both were just leaked.
    unsafe {
        (*first).next = second;
        (*second).next = first;
    }
    first
}

/// No table at all.
pub(crate) fn load_null() -> Result<Plugin, Error> {
    // SAFETY: null is allowed.
    unsafe { Plugin::from_api(null()) }
}

/// A table of a plugin newer than the declarations: it has more functions at its end.
pub(crate) fn load_newer() -> Result<Plugin, Error> {
    #[repr(C)]
    struct Newer {
        known: PJRT_Api,
        more: [usize; 7],
    }
    let mut newer = Box::new(Newer { known: table(), more: [0xdead; 7] });
    newer.known.struct_size = size_of::<Newer>();
    newer.known.pjrt_api_version.minor_version = PJRT_API_MINOR + 50;
    // SAFETY: the table is leaked, and its functions follow the header as far as that is known.
    unsafe { Plugin::from_api(&raw const Box::leak(newer).known) }
}
