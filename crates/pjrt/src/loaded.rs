//! Loaded programs: execution on the devices of a client.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pjrt_sys::*;

use crate::api::{bytes, list};
use crate::buffer::Buffer;
use crate::compile_options::DeviceAssignment;
use crate::device::Device;
use crate::error::Error;
use crate::event::Event;
use crate::executable::Executable;
use crate::handle::{ClientHandle, same_client};

/// An argument of an execution.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// The buffer stays usable.
    Keep(&'a Buffer),
    /// The program may reuse the buffer's memory for an output if it was compiled so; the buffer is deleted then.
    Donate(&'a Buffer),
}

impl<'a> Argument<'a> {
    fn buffer(self) -> &'a Buffer {
        match self {
            Self::Keep(buffer) | Self::Donate(buffer) => buffer,
        }
    }
}

impl<'a> From<&'a Buffer> for Argument<'a> {
    fn from(buffer: &'a Buffer) -> Self {
        Self::Keep(buffer)
    }
}

/// How a program is launched.
#[derive(Clone, Debug, Default)]
pub struct ExecuteOptions {
    /// Not 0: a number that is equal for the launches of one step on all hosts, so that runtimes notice a wrong order.
    pub launch_id: i32,
    /// Where in the caller's program the launch is, for messages of the runtime.
    pub call_location: Option<String>,
    /// Launch on this one device only, with one list of arguments. The caller launches on the others.
    pub device: Option<Device>,
}

/// A running execution.
#[derive(Debug)]
pub struct Launch {
    /// Outputs of each device.
    pub outputs: Vec<Vec<Buffer>>,
    /// Completion on each device.
    pub done: Vec<Event>,
}

impl Launch {
    /// Blocks until all devices are done.
    pub fn wait(&self) -> Result<(), Error> {
        self.done.iter().try_for_each(Event::wait)
    }
}

/// Which replica and partition a device runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogicalDevice {
    /// The replica.
    pub replica: i32,
    /// The partition.
    pub partition: i32,
}

/// A program on the devices of a client. Clones are the same program.
#[derive(Clone)]
pub struct LoadedExecutable {
    handle: Arc<Handle>,
}

struct Handle {
    client: Arc<ClientHandle>,
    raw: NonNull<PJRT_LoadedExecutable>,
    /// Set by `delete`, after which the interface allows nothing but to free the program. Not every plugin keeps count.
    deleted: AtomicBool,
    /// What every launch needs to know, asked once: addressable devices and outputs per device.
    counts: OnceLock<(usize, usize)>,
}

// SAFETY: the interface lets every function on a loaded program be called from any thread.
unsafe impl Send for Handle {}
// SAFETY: as for `Send`; runtimes order concurrent launches themselves.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut args = PJRT_LoadedExecutable_Destroy_Args::new();
        args.executable = self.raw.as_ptr();
        // Nothing can be done about a failure to free.
        // SAFETY: this handle owns the program and is the last one.
        let _ = unsafe { self.client.api.call(slot::PJRT_LoadedExecutable_Destroy, &mut args) };
    }
}

impl fmt::Debug for LoadedExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedExecutable").field("raw", &self.handle.raw).finish()
    }
}

impl LoadedExecutable {
    pub(crate) fn owned(
        client: &Arc<ClientHandle>,
        raw: *mut PJRT_LoadedExecutable,
        call: &'static str,
    ) -> Result<Self, Error> {
        let raw = NonNull::new(raw).ok_or(Error::Answer { call, what: "the executable is null" })?;
        Ok(Self {
            handle: Arc::new(Handle {
                client: client.clone(),
                raw,
                deleted: AtomicBool::new(false),
                counts: OnceLock::new(),
            }),
        })
    }

    /// The C object, as long as it may be used.
    fn raw(&self) -> Result<*mut PJRT_LoadedExecutable, Error> {
        match self.handle.deleted.load(Ordering::Acquire) {
            false => Ok(self.handle.raw.as_ptr()),
            true => Err(Error::input("the program was deleted")),
        }
    }

    fn client(&self) -> &Arc<ClientHandle> {
        &self.handle.client
    }

    /// What is known about the program.
    pub fn executable(&self) -> Result<Executable, Error> {
        let mut args = PJRT_LoadedExecutable_GetExecutable_Args::new();
        args.loaded_executable = self.raw()?;
        // SAFETY: the program is alive.
        unsafe { self.client().api.call(slot::PJRT_LoadedExecutable_GetExecutable, &mut args)? };
        let call = slot::PJRT_LoadedExecutable_GetExecutable.name();
        Executable::owned(&self.client().api, args.executable, Some(self.client().clone()), call)
    }

    /// The devices of this process the program runs on, in the order of argument lists.
    pub fn addressable_devices(&self) -> Result<Vec<Device>, Error> {
        let call = slot::PJRT_LoadedExecutable_AddressableDevices.name();
        self.raw_devices()?.into_iter().map(|raw| Device::new(self.client(), raw, call)).collect()
    }

    fn raw_devices(&self) -> Result<Vec<*mut PJRT_Device>, Error> {
        let mut args = PJRT_LoadedExecutable_AddressableDevices_Args::new();
        args.executable = self.raw()?;
        // SAFETY: the program is alive, and the list lives as long.
        unsafe {
            self.client().api.call(slot::PJRT_LoadedExecutable_AddressableDevices, &mut args)?;
            Ok(list(args.addressable_devices, args.num_addressable_devices))
        }
    }

    /// Number of addressable devices, and of outputs per device.
    fn counts(&self) -> Result<(usize, usize), Error> {
        if let Some(counts) = self.handle.counts.get() {
            return Ok(*counts);
        }
        let counts = (self.raw_devices()?.len(), self.executable()?.num_outputs()?);
        Ok(*self.handle.counts.get_or_init(|| counts))
    }

    /// Replica and partition of each addressable device.
    pub fn logical_devices(&self) -> Result<Vec<LogicalDevice>, Error> {
        let mut args = PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args::new();
        args.executable = self.raw()?;
        // SAFETY: the program is alive, and the list lives as long.
        let ids = unsafe {
            self.client().api.call(slot::PJRT_LoadedExecutable_AddressableDeviceLogicalIds, &mut args)?;
            list(args.addressable_device_logical_ids.cast_const(), args.num_addressable_device_logical_ids)
        };
        Ok(ids.into_iter().map(|id| LogicalDevice { replica: id.replica, partition: id.partition }).collect())
    }

    /// The devices the program runs on, those of other processes included.
    pub fn device_assignment(&self) -> Result<DeviceAssignment, Error> {
        let mut args = PJRT_LoadedExecutable_GetDeviceAssignment_Args::new();
        args.executable = self.raw()?;
        // SAFETY: the program is alive; the bytes live until the deleter is called.
        let serialized = unsafe {
            self.client().api.call(slot::PJRT_LoadedExecutable_GetDeviceAssignment, &mut args)?;
            bytes(args.serialized_bytes, args.serialized_bytes_size)
        };
        if let Some(delete) = args.serialized_device_assignment_deleter {
            // SAFETY: called once, after the bytes were copied.
            unsafe { delete(args.serialized_device_assignment) };
        }
        DeviceAssignment::from_bytes(slot::PJRT_LoadedExecutable_GetDeviceAssignment.name(), &serialized)
    }

    /// Bytes that are equal for equal programs compiled with equal options by the same compiler.
    pub fn fingerprint(&self) -> Result<Vec<u8>, Error> {
        match self.executable()?.fingerprint() {
            // Older plugins have only the loaded program's.
            Err(Error::Unsupported { .. }) => {}
            answer => return answer,
        }
        let mut args = PJRT_LoadedExecutable_Fingerprint_Args::new();
        args.executable = self.raw()?;
        // SAFETY: the program is alive, and the bytes live as long.
        unsafe {
            self.client().api.call(slot::PJRT_LoadedExecutable_Fingerprint, &mut args)?;
            Ok(bytes(args.executable_fingerprint, args.executable_fingerprint_size))
        }
    }

    /// Gives up the program. It ends when its last execution is done; every other use is refused.
    pub fn delete(&self) -> Result<(), Error> {
        let mut args = PJRT_LoadedExecutable_Delete_Args::new();
        args.executable = self.raw()?;
        self.handle.deleted.store(true, Ordering::Release);
        // SAFETY: the program is alive.
        unsafe { self.client().api.call(slot::PJRT_LoadedExecutable_Delete, &mut args) }
    }

    /// Whether the program was given up.
    pub fn is_deleted(&self) -> bool {
        self.handle.deleted.load(Ordering::Acquire)
    }

    /// Starts the program, with one list of arguments for each of [`addressable_devices`](Self::addressable_devices).
    ///
    /// An argument is donated on every device or on none. Errors of the program itself arrive with the events.
    pub fn execute(&self, arguments: &[Vec<Argument<'_>>], options: &ExecuteOptions) -> Result<Launch, Error> {
        let num_args = self.check_arguments(arguments, options)?;
        let (_, num_outputs) = self.counts()?;
        let num_devices = arguments.len();
        let kept: Vec<i64> =
            (0..num_args).filter(|i| matches!(arguments[0][*i], Argument::Keep(_))).map(|i| i as i64).collect();
        let call_location = options.call_location.as_deref().map(CString::new).transpose();
        let call_location = call_location.map_err(|_| Error::input("the call location holds a zero byte"))?;

        let raw_arguments: Vec<Vec<*mut PJRT_Buffer>> =
            arguments.iter().map(|list| list.iter().map(|argument| argument.buffer().raw()).collect()).collect();
        let argument_lists: Vec<*const *mut PJRT_Buffer> = raw_arguments.iter().map(|list| list.as_ptr()).collect();
        let mut raw_outputs = vec![vec![std::ptr::null_mut::<PJRT_Buffer>(); num_outputs]; num_devices];
        let output_lists: Vec<*mut *mut PJRT_Buffer> = raw_outputs.iter_mut().map(|list| list.as_mut_ptr()).collect();
        let mut raw_events = vec![std::ptr::null_mut::<PJRT_Event>(); num_devices];

        let mut raw_options = PJRT_ExecuteOptions::new();
        raw_options.launch_id = options.launch_id;
        raw_options.non_donatable_input_indices = kept.as_ptr();
        raw_options.num_non_donatable_input_indices = kept.len();
        if let Some(call_location) = &call_location {
            raw_options.call_location = call_location.as_ptr();
        }
        let mut args = PJRT_LoadedExecutable_Execute_Args::new();
        args.executable = self.raw()?;
        args.options = &mut raw_options;
        args.argument_lists = argument_lists.as_ptr();
        args.num_devices = num_devices;
        args.num_args = num_args;
        args.output_lists = output_lists.as_ptr();
        args.device_complete_events = raw_events.as_mut_ptr();
        if let Some(device) = &options.device {
            args.execute_device = device.raw();
        }
        // SAFETY: program, buffers and device are alive and of one client; lists have the stated lengths, outputs as many
        // places as the program has outputs; everything borrowed lives until the end of this function.
        unsafe { self.client().api.call(slot::PJRT_LoadedExecutable_Execute, &mut args)? };

        let call = slot::PJRT_LoadedExecutable_Execute.name();
        // Every output is taken before the first bad one is reported, so that none is lost.
        let take = |list: Vec<*mut PJRT_Buffer>| -> Vec<Result<Buffer, Error>> {
            list.into_iter().map(|raw| Buffer::owned(self.client(), raw, call)).collect()
        };
        let outputs: Vec<Vec<Result<Buffer, Error>>> = raw_outputs.into_iter().map(take).collect();
        let done = raw_events.into_iter().filter_map(|raw| Event::owned(self.client(), raw)).collect();
        let outputs = outputs.into_iter().map(|list| list.into_iter().collect()).collect::<Result<_, _>>()?;
        Ok(Launch { outputs, done })
    }

    /// Checks what runtimes do not: shapes of the lists and where buffers belong. Answers the number of arguments.
    fn check_arguments(&self, arguments: &[Vec<Argument<'_>>], options: &ExecuteOptions) -> Result<usize, Error> {
        let expected = match &options.device {
            Some(device) => {
                same_client(self.client(), &device.client)?;
                1
            }
            None => self.counts()?.0,
        };
        if arguments.len() != expected || arguments.is_empty() {
            return Err(Error::input(format!(
                "the program runs on {expected} devices, but there are {} lists of arguments",
                arguments.len()
            )));
        }
        let first = &arguments[0];
        for list in arguments {
            if list.len() != first.len() {
                return Err(Error::input("the lists of arguments are of different lengths"));
            }
            for (index, (one, other)) in first.iter().zip(list).enumerate() {
                if std::mem::discriminant(one) != std::mem::discriminant(other) {
                    return Err(Error::input(format!("argument {index} is donated on some devices only")));
                }
                same_client(self.client(), &other.buffer().client)?;
            }
        }
        Ok(first.len())
    }
}
