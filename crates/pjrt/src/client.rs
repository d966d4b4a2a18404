//! Clients: live connections to devices.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;

use crate::api::{Api, chars, list, text};
use crate::attribute::{AttributeValue, Encoded};
use crate::buffer::Buffer;
use crate::buffer_type::BufferType;
use crate::compile_options::{CompileOptions, DeviceAssignment};
use crate::device::Device;
use crate::error::Error;
use crate::event::Event;
use crate::executable::Executable;
use crate::handle::{ClientHandle, SharedBytes, same_client};
use crate::key_value::{KeyValueStore, PinnedStore};
use crate::loaded::LoadedExecutable;
use crate::memory::Memory;
use crate::program::EncodedProgram;
use crate::topology::Topology;
use crate::transfer::{BufferSpec, TransferManager};

/// What a client is made with.
#[derive(Clone, Default)]
pub struct ClientOptions {
    /// Options of the plugin, by name.
    pub options: Vec<(String, AttributeValue)>,
    /// How processes of one client find each other. Needed for several hosts only.
    pub key_value_store: Option<Arc<dyn KeyValueStore>>,
}

impl ClientOptions {
    /// Adds an option.
    pub fn option(mut self, name: &str, value: impl Into<AttributeValue>) -> Self {
        self.options.push((name.into(), value.into()));
        self
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("options", &self.options.iter().map(shown).collect::<Vec<_>>())
            .field("key_value_store", &self.key_value_store.is_some())
            .finish()
    }
}

/// An option as it may be shown: secrets are not.
fn shown((name, value): &(String, AttributeValue)) -> String {
    match name.contains("secret") {
        true => format!("{name}=…"),
        false => format!("{name}={value:?}"),
    }
}

/// Where a buffer is put.
#[derive(Clone, Copy, Debug)]
pub enum Placement<'a> {
    /// The default memory of a device.
    Device(&'a Device),
    /// A memory.
    Memory(&'a Memory),
}

/// Host data of a buffer, and how long the runtime may look at it.
#[derive(Clone)]
pub enum HostSource<'a> {
    /// Copied before the call returns.
    Copied(&'a [u8]),
    /// Read until the transfer is done.
    UntilTransferred(SharedBytes),
    /// Possibly used in place as long as the buffer lives. On devices with memory of their own this is as
    /// `UntilTransferred`.
    ZeroCopy(SharedBytes),
}

impl fmt::Debug for HostSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, bytes) = match self {
            Self::Copied(bytes) => ("Copied", bytes.len()),
            Self::UntilTransferred(shared) => ("UntilTransferred", (**shared).as_ref().len()),
            Self::ZeroCopy(shared) => ("ZeroCopy", (**shared).as_ref().len()),
        };
        write!(f, "{name}({bytes} bytes)")
    }
}

/// A live connection to devices. Clones are the same client.
#[derive(Clone)]
pub struct Client {
    handle: Arc<ClientHandle>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("raw", &self.handle.raw).finish()
    }
}

impl Client {
    pub(crate) fn create(api: &Arc<Api>, options: &ClientOptions) -> Result<Self, Error> {
        let encoded = Encoded::new(&options.options)?;
        let store = options.key_value_store.clone().map(PinnedStore::new);
        let mut args = PJRT_Client_Create_Args::new();
        args.create_options = encoded.as_ptr();
        args.num_options = encoded.len();
        if let Some(store) = &store {
            store.register(&mut args);
        }
        // SAFETY: options are borrowed for the call; the store goes into the handle and is dropped after the client.
        unsafe { api.call(slot::PJRT_Client_Create, &mut args)? };
        let call = slot::PJRT_Client_Create.name();
        let raw = NonNull::new(args.client).ok_or(Error::Answer { call, what: "the client is null" })?;
        Ok(Self { handle: Arc::new(ClientHandle { api: api.clone(), raw, _store: store }) })
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.handle.api
    }

    pub(crate) fn raw(&self) -> *mut PJRT_Client {
        self.handle.raw.as_ptr()
    }

    fn own(&self, client: &Arc<ClientHandle>) -> Result<(), Error> {
        same_client(&self.handle, client)
    }

    /// The profiler of the client's plugin, if it has one.
    pub fn profiler(&self) -> Option<crate::extension::Profiler> {
        crate::extension::Profiler::find(&self.handle.api)
    }

    /// The platform, such as `tpu` or `cpu`.
    pub fn platform_name(&self) -> Result<String, Error> {
        let mut args = PJRT_Client_PlatformName_Args::new();
        args.client = self.raw();
        // SAFETY: the client is alive, and the text lives as long.
        unsafe {
            self.api().call(slot::PJRT_Client_PlatformName, &mut args)?;
            Ok(text(args.platform_name, args.platform_name_size))
        }
    }

    /// Version of the platform in words.
    pub fn platform_version(&self) -> Result<String, Error> {
        let mut args = PJRT_Client_PlatformVersion_Args::new();
        args.client = self.raw();
        // SAFETY: the client is alive, and the text lives as long.
        unsafe {
            self.api().call(slot::PJRT_Client_PlatformVersion, &mut args)?;
            Ok(text(args.platform_version, args.platform_version_size))
        }
    }

    /// Index of this process among those of the program.
    pub fn process_index(&self) -> Result<i32, Error> {
        let mut args = PJRT_Client_ProcessIndex_Args::new();
        args.client = self.raw();
        // SAFETY: the client is alive.
        unsafe { self.api().call(slot::PJRT_Client_ProcessIndex, &mut args)? };
        Ok(args.process_index)
    }

    /// All devices, those of other processes included.
    pub fn devices(&self) -> Result<Vec<Device>, Error> {
        let mut args = PJRT_Client_Devices_Args::new();
        args.client = self.raw();
        // SAFETY: the client is alive, and the list lives as long.
        let devices = unsafe {
            self.api().call(slot::PJRT_Client_Devices, &mut args)?;
            list(args.devices, args.num_devices)
        };
        let call = slot::PJRT_Client_Devices.name();
        devices.into_iter().map(|raw| Device::new(&self.handle, raw, call)).collect()
    }

    /// The devices this process can use.
    pub fn addressable_devices(&self) -> Result<Vec<Device>, Error> {
        let mut args = PJRT_Client_AddressableDevices_Args::new();
        args.client = self.raw();
        // SAFETY: the client is alive, and the list lives as long.
        let devices = unsafe {
            self.api().call(slot::PJRT_Client_AddressableDevices, &mut args)?;
            list(args.addressable_devices, args.num_addressable_devices)
        };
        let call = slot::PJRT_Client_AddressableDevices.name();
        devices.into_iter().map(|raw| Device::new(&self.handle, raw, call)).collect()
    }

    /// The device with an id.
    pub fn device(&self, id: i32) -> Result<Device, Error> {
        let mut args = PJRT_Client_LookupDevice_Args::new();
        args.client = self.raw();
        args.id = id;
        // SAFETY: the client is alive.
        unsafe { self.api().call(slot::PJRT_Client_LookupDevice, &mut args)? };
        Device::new(&self.handle, args.device, slot::PJRT_Client_LookupDevice.name())
    }

    /// The device with a number on this host.
    pub fn device_by_local_hardware_id(&self, local_hardware_id: i32) -> Result<Device, Error> {
        let mut args = PJRT_Client_LookupAddressableDevice_Args::new();
        args.client = self.raw();
        args.local_hardware_id = local_hardware_id;
        // SAFETY: the client is alive.
        unsafe { self.api().call(slot::PJRT_Client_LookupAddressableDevice, &mut args)? };
        Device::new(&self.handle, args.addressable_device, slot::PJRT_Client_LookupAddressableDevice.name())
    }

    /// The memories this process can use.
    pub fn memories(&self) -> Result<Vec<Memory>, Error> {
        let mut args = PJRT_Client_AddressableMemories_Args::new();
        args.client = self.raw();
        // SAFETY: the client is alive, and the list lives as long.
        let memories = unsafe {
            self.api().call(slot::PJRT_Client_AddressableMemories, &mut args)?;
            list(args.addressable_memories, args.num_addressable_memories)
        };
        let call = slot::PJRT_Client_AddressableMemories.name();
        memories.into_iter().map(|raw| Memory::new(&self.handle, raw, call)).collect()
    }

    /// The topology of the client's devices.
    pub fn topology(&self) -> Result<Topology, Error> {
        let mut args = PJRT_Client_TopologyDescription_Args::new();
        args.client = self.raw();
        // SAFETY: the client is alive.
        unsafe { self.api().call(slot::PJRT_Client_TopologyDescription, &mut args)? };
        let call = slot::PJRT_Client_TopologyDescription.name();
        Topology::of_client(self.api(), args.topology, &self.handle, call)
    }

    /// The assignment of devices the runtime would choose.
    pub fn default_device_assignment(&self, replicas: usize, partitions: usize) -> Result<DeviceAssignment, Error> {
        /// More devices than any client has.
        const MAX_DEVICES: usize = 1 << 24;
        let count = replicas.checked_mul(partitions).filter(|count| *count <= MAX_DEVICES).ok_or_else(|| {
            Error::input(format!("{replicas} replicas of {partitions} partitions are more than any client has"))
        })?;
        let mut ids = vec![0; count];
        let mut args = PJRT_Client_DefaultDeviceAssignment_Args::new();
        args.client = self.raw();
        // Both are bounded by `MAX_DEVICES` unless the other is zero, and then nothing is written.
        args.num_replicas = replicas.min(MAX_DEVICES) as i32;
        args.num_partitions = partitions.min(MAX_DEVICES) as i32;
        args.default_assignment_size = count;
        args.default_assignment = ids.as_mut_ptr();
        // SAFETY: the client is alive; `ids` has the stated length.
        unsafe { self.api().call(slot::PJRT_Client_DefaultDeviceAssignment, &mut args)? };
        DeviceAssignment::new(replicas, partitions, ids.into_iter().map(i64::from).collect())
    }

    /// Compiles and loads a program.
    pub fn compile(&self, program: &EncodedProgram, options: &CompileOptions) -> Result<LoadedExecutable, Error> {
        let options = options.to_bytes();
        let program = program.raw();
        let mut args = PJRT_Client_Compile_Args::new();
        args.client = self.raw();
        args.program = &program.raw;
        args.compile_options = chars(&options);
        args.compile_options_size = options.len();
        // SAFETY: the client is alive; program and options are borrowed for the call.
        unsafe { self.api().call(slot::PJRT_Client_Compile, &mut args)? };
        LoadedExecutable::owned(&self.handle, args.executable, slot::PJRT_Client_Compile.name())
    }

    /// Loads a program that was compiled for a topology like this client's.
    pub fn load(&self, executable: &Executable) -> Result<LoadedExecutable, Error> {
        self.api().same(executable.api())?;
        let mut args = PJRT_Client_Load_Args::new();
        args.client = self.raw();
        args.executable = executable.raw();
        // SAFETY: client and executable are alive and of one plugin.
        unsafe { self.api().call(slot::PJRT_Client_Load, &mut args)? };
        LoadedExecutable::owned(&self.handle, args.loaded_executable, slot::PJRT_Client_Load.name())
    }

    /// Loads a program from what [`Executable::serialize`] gave. With options, those replace the stored ones.
    pub fn deserialize(&self, serialized: &[u8], options: Option<&CompileOptions>) -> Result<LoadedExecutable, Error> {
        let options = options.map(CompileOptions::to_bytes);
        let mut args = PJRT_Executable_DeserializeAndLoad_Args::new();
        args.client = self.raw();
        args.serialized_executable = chars(serialized);
        args.serialized_executable_size = serialized.len();
        if let Some(options) = &options {
            args.overridden_serialized_compile_options = chars(options);
            args.overridden_serialized_compile_options_size = options.len();
        }
        // SAFETY: the client is alive; the bytes are borrowed for the call.
        unsafe { self.api().call(slot::PJRT_Executable_DeserializeAndLoad, &mut args)? };
        let call = slot::PJRT_Executable_DeserializeAndLoad.name();
        LoadedExecutable::owned(&self.handle, args.loaded_executable, call)
    }

    /// Copies an array to a device. Elements smaller than a byte take a whole one in `source`. Without strides the array
    /// is dense with the last dimension fastest; strides are in bytes and may not be negative.
    ///
    /// The event says when the runtime no longer looks at `source`; what is shared is kept alive until then, so there is
    /// no need to wait for it.
    pub fn buffer_from_host(
        &self,
        source: HostSource<'_>,
        element_type: BufferType,
        dims: &[i64],
        byte_strides: Option<&[i64]>,
        placement: Placement<'_>,
    ) -> Result<(Buffer, Event), Error> {
        let (bytes, semantics, shared) = match &source {
            HostSource::Copied(bytes) => (*bytes, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall, None),
            HostSource::UntilTransferred(shared) => {
                let semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
                ((**shared).as_ref(), semantics, Some(shared.clone()))
            }
            HostSource::ZeroCopy(shared) => {
                ((**shared).as_ref(), PJRT_HostBufferSemantics_kImmutableZeroCopy, Some(shared.clone()))
            }
        };
        check_extent(bytes.len(), element_type, dims, byte_strides)?;
        let mut args = PJRT_Client_BufferFromHostBuffer_Args::new();
        args.client = self.raw();
        args.data = bytes.as_ptr().cast();
        args.r#type = element_type.number();
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        if let Some(byte_strides) = byte_strides {
            args.byte_strides = byte_strides.as_ptr();
            args.num_byte_strides = byte_strides.len();
        }
        args.host_buffer_semantics = semantics;
        match placement {
            Placement::Device(device) => {
                self.own(&device.client)?;
                args.device = device.raw();
            }
            Placement::Memory(memory) => {
                self.own(&memory.client)?;
                args.memory = memory.raw();
            }
        }
        // SAFETY: client and place are alive and belong together; `bytes` covers every element, as was checked, and is
        // kept alive below for as long as the semantics demand.
        let result = unsafe { self.api().call(slot::PJRT_Client_BufferFromHostBuffer, &mut args) };
        let call = slot::PJRT_Client_BufferFromHostBuffer.name();
        result?;
        let done = Event::owned(&self.handle, args.done_with_host_buffer);
        match (&done, shared) {
            (Some(done), Some(shared)) => done.keep_until_ready(shared),
            // Without an event nobody knows when the runtime is done with the memory.
            (None, Some(shared)) => std::mem::forget(shared),
            (_, None) => {}
        }
        let buffer = Buffer::owned(&self.handle, args.buffer, call)?;
        let done = done.ok_or(Error::Answer { call, what: "the event is null" })?;
        Ok((buffer, done))
    }

    /// Makes a buffer whose contents nobody has set, to be written by programs it is donated to.
    pub fn uninitialized_buffer(
        &self,
        element_type: BufferType,
        dims: &[i64],
        placement: Placement<'_>,
    ) -> Result<Buffer, Error> {
        let mut args = PJRT_Client_CreateUninitializedBuffer_Args::new();
        args.client = self.raw();
        args.shape_dims = dims.as_ptr();
        args.shape_num_dims = dims.len();
        args.shape_element_type = element_type.number();
        match placement {
            Placement::Device(device) => {
                self.own(&device.client)?;
                args.device = device.raw();
            }
            Placement::Memory(memory) => {
                self.own(&memory.client)?;
                args.memory = memory.raw();
            }
        }
        // SAFETY: client and place are alive and belong together; the dimensions are borrowed for the call.
        unsafe { self.api().call(slot::PJRT_Client_CreateUninitializedBuffer, &mut args)? };
        Buffer::owned(&self.handle, args.buffer, slot::PJRT_Client_CreateUninitializedBuffer.name())
    }

    /// Makes buffers in a memory that are filled piece by piece.
    pub fn transfer_to(&self, memory: &Memory, buffers: &[BufferSpec]) -> Result<TransferManager, Error> {
        self.own(&memory.client)?;
        TransferManager::create(&self.handle, self.raw(), memory, buffers)
    }
}

/// Checks that `available` bytes hold every element of the array.
fn check_extent(
    available: usize,
    element_type: BufferType,
    dims: &[i64],
    byte_strides: Option<&[i64]>,
) -> Result<(), Error> {
    let element_bytes = element_type
        .host_bytes()
        .ok_or_else(|| Error::input(format!("arrays of {element_type} cannot be copied from the host")))?;
    if let Some(dim) = dims.iter().find(|dim| **dim < 0) {
        return Err(Error::input(format!("dimension {dim} of an array is negative")));
    }
    if let Some(strides) = byte_strides {
        if strides.len() != dims.len() {
            return Err(Error::input(format!("{} strides for {} dimensions", strides.len(), dims.len())));
        }
        if let Some(stride) = strides.iter().find(|stride| **stride < 0) {
            return Err(Error::input(format!("stride {stride} of an array is negative")));
        }
    }
    let needed = || -> Option<usize> {
        if dims.contains(&0) {
            return Some(0);
        }
        match byte_strides {
            None => dims.iter().try_fold(element_bytes, |bytes, dim| bytes.checked_mul(usize::try_from(*dim).ok()?)),
            Some(strides) => dims.iter().zip(strides).try_fold(element_bytes, |bytes, (dim, stride)| {
                let last = usize::try_from(dim - 1).ok()?.checked_mul(usize::try_from(*stride).ok()?)?;
                bytes.checked_add(last)
            }),
        }
    };
    let enough = match (needed(), byte_strides) {
        (Some(needed), None) => needed == available,
        (Some(needed), Some(_)) => needed <= available,
        (None, _) => false,
    };
    match enough {
        true => Ok(()),
        false => Err(Error::input(format!(
            "an array of {element_type} with dimensions {dims:?} does not fit {available} bytes of host data"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_data_must_hold_the_array() {
        let check = |bytes, dims: &[i64], strides: Option<&[i64]>| check_extent(bytes, BufferType::F32, dims, strides);
        assert!(check(24, &[2, 3], None).is_ok());
        assert!(check(4, &[], None).is_ok());
        assert!(check(0, &[5, 0], None).is_ok());
        assert!(check(23, &[2, 3], None).is_err());
        assert!(check(25, &[2, 3], None).is_err());
        assert!(check(24, &[2, -3], None).is_err());
        assert!(check(24, &[i64::MAX, i64::MAX], None).is_err());
        assert!(check(24, &[2, 3], Some(&[4, 8])).is_ok());
        assert!(check(28, &[2, 3], Some(&[16, 4])).is_ok());
        assert!(check(27, &[2, 3], Some(&[16, 4])).is_err());
        assert!(check(4, &[1000, 1000], Some(&[0, 0])).is_ok());
        assert!(check(24, &[2, 3], Some(&[4])).is_err());
        assert!(check(24, &[2, 3], Some(&[-4, 8])).is_err());
        assert!(check(24, &[2, 3], Some(&[i64::MAX, i64::MAX])).is_err());
        assert!(check_extent(8, BufferType::S4, &[8], None).is_ok());
        assert!(check_extent(8, BufferType::Token, &[8], None).is_err());
    }
}
