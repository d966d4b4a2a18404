//! Transfers in pieces: buffers that are made first and filled as data arrives.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;

use crate::api::chars;
use crate::attribute::{AttributeValue, Encoded};
use crate::buffer::Buffer;
use crate::buffer_type::BufferType;
use crate::device::Device;
use crate::error::{Code, Error};
use crate::event::Event;
use crate::handle::{ClientHandle, SharedBytes};
use crate::memory::Memory;

/// A buffer to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// Element type.
    pub element_type: BufferType,
    /// Dimensions.
    pub dims: Vec<i64>,
}

/// Whether more pieces of a buffer follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkPosition {
    /// More follow.
    More,
    /// The buffer is complete with this one.
    Last,
}

/// Buffers of one memory that are filled piece by piece.
pub struct TransferManager {
    client: Arc<ClientHandle>,
    raw: NonNull<PJRT_AsyncHostToDeviceTransferManager>,
    count: usize,
}

// SAFETY: the interface lets every function on a transfer manager be called from any thread.
unsafe impl Send for TransferManager {}
// SAFETY: as for `Send`; a manager exists so that several threads can feed it, and synchronizes them.
unsafe impl Sync for TransferManager {}

impl Drop for TransferManager {
    fn drop(&mut self) {
        let mut args = PJRT_AsyncHostToDeviceTransferManager_Destroy_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        // Nothing can be done about a failure to free.
        // SAFETY: this handle owns the manager.
        let _ = unsafe { self.client.api.call(slot::PJRT_AsyncHostToDeviceTransferManager_Destroy, &mut args) };
    }
}

impl fmt::Debug for TransferManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransferManager").field("raw", &self.raw).field("count", &self.count).finish()
    }
}

impl TransferManager {
    pub(crate) fn create(
        client: &Arc<ClientHandle>,
        raw_client: *mut PJRT_Client,
        memory: &Memory,
        buffers: &[BufferSpec],
    ) -> Result<Self, Error> {
        let spec = |buffer: &BufferSpec| {
            let mut spec = PJRT_ShapeSpec::new();
            spec.dims = buffer.dims.as_ptr();
            spec.num_dims = buffer.dims.len();
            spec.element_type = buffer.element_type.number();
            spec
        };
        let mut specs: Vec<PJRT_ShapeSpec> = buffers.iter().map(spec).collect();
        let mut args = PJRT_Client_CreateBuffersForAsyncHostToDevice_Args::new();
        args.client = raw_client;
        args.shape_specs = specs.as_mut_ptr();
        args.num_shape_specs = specs.len();
        args.memory = memory.raw();
        // SAFETY: client and memory are alive and belong together, as the caller checked; the shapes are borrowed for the
        // call.
        unsafe { client.api.call(slot::PJRT_Client_CreateBuffersForAsyncHostToDevice, &mut args)? };
        let call = slot::PJRT_Client_CreateBuffersForAsyncHostToDevice.name();
        let raw = NonNull::new(args.transfer_manager).ok_or(Error::Answer { call, what: "the manager is null" })?;
        Ok(Self { client: client.clone(), raw, count: buffers.len() })
    }

    /// How many buffers there are.
    pub fn buffer_count(&self) -> usize {
        self.count
    }

    /// Runtimes end the process on an index that does not exist.
    fn index(&self, buffer: usize) -> Result<i32, Error> {
        let known = Some(buffer).filter(|index| *index < self.count).and_then(|index| i32::try_from(index).ok());
        known.ok_or_else(|| Error::input(format!("no buffer {buffer} among {} that are transferred", self.count)))
    }

    /// Bytes a buffer takes on the device.
    pub fn buffer_bytes(&self, buffer: usize) -> Result<usize, Error> {
        let mut args = PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        args.buffer_index = self.index(buffer)?;
        // SAFETY: the manager is alive and has such a buffer.
        unsafe { self.client.api.call(slot::PJRT_AsyncHostToDeviceTransferManager_BufferSize, &mut args)? };
        Ok(args.buffer_size)
    }

    /// The device of the memory.
    pub fn device(&self) -> Result<Device, Error> {
        let mut args = PJRT_AsyncHostToDeviceTransferManager_Device_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        // SAFETY: the manager is alive.
        unsafe { self.client.api.call(slot::PJRT_AsyncHostToDeviceTransferManager_Device, &mut args)? };
        let call = slot::PJRT_AsyncHostToDeviceTransferManager_Device.name();
        Device::new(&self.client, args.device_out, call)
    }

    /// Copies `range` of `data` into a buffer at `offset` bytes. The data is kept alive until the event.
    pub fn transfer(
        &self,
        buffer: usize,
        offset: usize,
        data: &SharedBytes,
        range: Range<usize>,
        piece: ChunkPosition,
    ) -> Result<Event, Error> {
        let bytes = (**data).as_ref().get(range.clone()).ok_or_else(|| {
            Error::input(format!("bytes {range:?} are not within the {} that were given", (**data).as_ref().len()))
        })?;
        let room = self.buffer_bytes(buffer)?;
        let end = offset.checked_add(bytes.len()).filter(|end| *end <= room);
        let (Some(_), Ok(raw_offset), Ok(size)) = (end, i64::try_from(offset), i64::try_from(bytes.len())) else {
            return Err(Error::input(format!(
                "{} bytes at offset {offset} do not fit a buffer of {room} bytes",
                bytes.len()
            )));
        };
        let mut args = PJRT_AsyncHostToDeviceTransferManager_TransferData_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        args.buffer_index = self.index(buffer)?;
        args.data = bytes.as_ptr().cast();
        args.offset = raw_offset;
        args.transfer_size = size;
        args.is_last_transfer = piece == ChunkPosition::Last;
        // SAFETY: the manager is alive and has such a buffer with room for the data, which is kept alive below.
        unsafe { self.client.api.call(slot::PJRT_AsyncHostToDeviceTransferManager_TransferData, &mut args)? };
        let call = slot::PJRT_AsyncHostToDeviceTransferManager_TransferData.name();
        match Event::owned(&self.client, args.done_with_h2d_transfer) {
            Some(event) => {
                event.keep_until_ready(data.clone());
                Ok(event)
            }
            None => {
                // Without an event nobody knows when the runtime is done with the memory.
                std::mem::forget(data.clone());
                Err(Error::Answer { call, what: "the event is null" })
            }
        }
    }

    /// Takes a buffer out, complete or not. It can be used as an argument at once. Each can be taken once.
    pub fn buffer(&self, buffer: usize) -> Result<Buffer, Error> {
        let mut args = PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        args.buffer_index = self.index(buffer)?;
        // SAFETY: the manager is alive and has such a buffer.
        unsafe { self.client.api.call(slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, &mut args)? };
        let call = slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer.name();
        Buffer::owned(&self.client, args.buffer_out, call)
    }

    /// Makes a buffer fail: whatever waits for it gets this error.
    pub fn fail(&self, buffer: usize, code: Code, message: &str) -> Result<(), Error> {
        let mut args = PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        args.buffer_index = self.index(buffer)?;
        args.error_code = code.number();
        args.error_message = chars(message.as_bytes());
        args.error_message_size = message.len();
        // SAFETY: the manager is alive and has such a buffer; the message is borrowed for the call.
        unsafe { self.client.api.call(slot::PJRT_AsyncHostToDeviceTransferManager_SetBufferError, &mut args) }
    }

    /// Attaches notes for the runtime's tracing.
    pub fn add_metadata(&self, metadata: &[(String, AttributeValue)]) -> Result<(), Error> {
        let metadata = Encoded::new(metadata)?;
        let mut args = PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args::new();
        args.transfer_manager = self.raw.as_ptr();
        args.transfer_metadata = metadata.as_ptr();
        args.num_metadata = metadata.len();
        // SAFETY: the manager is alive; the metadata is borrowed for the call.
        unsafe { self.client.api.call(slot::PJRT_AsyncHostToDeviceTransferManager_AddMetadata, &mut args) }
    }
}
