//! Buffers: arrays on devices, and reading them back.
#![allow(unsafe_code)]

use std::fmt;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use pjrt_sys::*;

use crate::api::{Api, list};
use crate::buffer_type::BufferType;
use crate::device::Device;
use crate::error::Error;
use crate::event::Event;
use crate::handle::{ClientHandle, same_client};
use crate::memory::Memory;

/// An array on a device. Its memory is freed when it is dropped, deleted or donated to an execution; work that still uses
/// it keeps it until then.
pub struct Buffer {
    pub(crate) client: Arc<ClientHandle>,
    raw: NonNull<PJRT_Buffer>,
}

// SAFETY: the interface lets every function on a buffer be called from any thread.
unsafe impl Send for Buffer {}
// SAFETY: as for `Send`; deletion and donation race with other uses only in that those are answered with an error, since
// plugins guard a buffer's device memory.
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut args = PJRT_Buffer_Destroy_Args::new();
        args.buffer = self.raw.as_ptr();
        // Nothing can be done about a failure to free.
        // SAFETY: this handle owns the buffer.
        let _ = unsafe { self.client.api.call(slot::PJRT_Buffer_Destroy, &mut args) };
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("raw", &self.raw).finish()
    }
}

impl Buffer {
    pub(crate) fn owned(client: &Arc<ClientHandle>, raw: *mut PJRT_Buffer, call: &'static str) -> Result<Self, Error> {
        let raw = NonNull::new(raw).ok_or(Error::Answer { call, what: "the buffer is null" })?;
        Ok(Self { client: client.clone(), raw })
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.client.api
    }

    pub(crate) fn raw(&self) -> *mut PJRT_Buffer {
        self.raw.as_ptr()
    }

    /// Element type.
    pub fn element_type(&self) -> Result<BufferType, Error> {
        let mut args = PJRT_Buffer_ElementType_Args::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive.
        unsafe { self.api().call(slot::PJRT_Buffer_ElementType, &mut args)? };
        Ok(BufferType::from_number(args.r#type))
    }

    /// Dimensions.
    pub fn dims(&self) -> Result<Vec<i64>, Error> {
        let mut args = PJRT_Buffer_Dimensions_Args::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive, and the list lives as long.
        unsafe {
            self.api().call(slot::PJRT_Buffer_Dimensions, &mut args)?;
            Ok(list(args.dims, args.num_dims))
        }
    }

    /// Dimensions as they are now, where some are dynamic; otherwise as [`dims`](Self::dims).
    pub fn unpadded_dims(&self) -> Result<Vec<i64>, Error> {
        let mut args = PJRT_Buffer_UnpaddedDimensions_Args::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive, and the list lives as long.
        unsafe {
            self.api().call(slot::PJRT_Buffer_UnpaddedDimensions, &mut args)?;
            Ok(list(args.unpadded_dims, args.num_dims))
        }
    }

    /// Bytes the array takes on the device, padding included.
    pub fn on_device_bytes(&self) -> Result<usize, Error> {
        let mut args = PJRT_Buffer_OnDeviceSizeInBytes_Args::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive.
        unsafe { self.api().call(slot::PJRT_Buffer_OnDeviceSizeInBytes, &mut args)? };
        Ok(args.on_device_size_in_bytes)
    }

    /// The device the array is on.
    pub fn device(&self) -> Result<Device, Error> {
        let mut args = PJRT_Buffer_Device_Args::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive.
        unsafe { self.api().call(slot::PJRT_Buffer_Device, &mut args)? };
        Device::new(&self.client, args.device, slot::PJRT_Buffer_Device.name())
    }

    /// The memory the array is in.
    pub fn memory(&self) -> Result<Memory, Error> {
        let mut args = PJRT_Buffer_Memory_Args::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive.
        unsafe { self.api().call(slot::PJRT_Buffer_Memory, &mut args)? };
        Memory::new(&self.client, args.memory, slot::PJRT_Buffer_Memory.name())
    }

    /// Whether the array is in memory the CPU reads directly.
    pub fn is_on_cpu(&self) -> Result<bool, Error> {
        let mut args = PJRT_Buffer_IsOnCpu_Args::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive.
        unsafe { self.api().call(slot::PJRT_Buffer_IsOnCpu, &mut args)? };
        Ok(args.is_on_cpu)
    }

    /// An event for the moment when the data is there.
    pub fn ready_event(&self) -> Result<Event, Error> {
        let mut args = PJRT_Buffer_ReadyEvent_Args::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive.
        unsafe { self.api().call(slot::PJRT_Buffer_ReadyEvent, &mut args)? };
        let call = slot::PJRT_Buffer_ReadyEvent.name();
        Event::owned(&self.client, args.event).ok_or(Error::Answer { call, what: "the event is null" })
    }

    /// Reads the array: dense, the last dimension fastest, elements smaller than a byte in a whole one.
    pub fn to_host(&self) -> Result<HostRead, Error> {
        // Without a layout the plugin would write in the order of the device.
        let rank = self.dims()?.len();
        let minor_to_major: Vec<i64> = (0..rank as i64).rev().collect();
        let mut tiled = PJRT_Buffer_MemoryLayout_Tiled::new();
        tiled.minor_to_major = minor_to_major.as_ptr();
        tiled.minor_to_major_size = rank;
        let mut layout = PJRT_Buffer_MemoryLayout::new();
        layout.layout = PJRT_Buffer_MemoryLayout_Kind { tiled };
        layout.r#type = PJRT_Buffer_MemoryLayout_Type_Tiled;
        let mut args = PJRT_Buffer_ToHostBuffer_Args::new();
        args.src = self.raw();
        args.host_layout = &mut layout;
        // SAFETY: the buffer is alive; without memory the call only reports a size.
        unsafe { self.api().call(slot::PJRT_Buffer_ToHostBuffer, &mut args)? };
        let memory = HostMemory::new(args.dst_size);
        args.dst = memory.data.cast();
        args.dst_size = memory.size;
        args.event = std::ptr::null_mut();
        // SAFETY: the buffer is alive; `memory` has the size the first call reported and is kept until the event.
        unsafe { self.api().call(slot::PJRT_Buffer_ToHostBuffer, &mut args)? };
        self.read_into(memory, args.event, slot::PJRT_Buffer_ToHostBuffer.name())
    }

    /// Reads bytes as they lie on the device, padding and tiles included.
    pub fn raw_to_host(&self, offset: usize, size: usize) -> Result<HostRead, Error> {
        let on_device = self.on_device_bytes()?;
        let end = offset.checked_add(size).filter(|end| *end <= on_device);
        let (Some(_), Ok(raw_offset), Ok(raw_size)) = (end, i64::try_from(offset), i64::try_from(size)) else {
            return Err(Error::input(format!(
                "{size} bytes at offset {offset} are not within a buffer of {on_device} bytes"
            )));
        };
        let memory = HostMemory::new(size);
        let mut args = PJRT_Buffer_CopyRawToHost_Args::new();
        args.buffer = self.raw();
        args.dst = memory.data.cast();
        args.offset = raw_offset;
        args.transfer_size = raw_size;
        // SAFETY: the buffer is alive; `memory` has the stated size and is kept until the event.
        unsafe { self.api().call(slot::PJRT_Buffer_CopyRawToHost, &mut args)? };
        self.read_into(memory, args.event, slot::PJRT_Buffer_CopyRawToHost.name())
    }

    fn read_into(&self, memory: HostMemory, event: *mut PJRT_Event, call: &'static str) -> Result<HostRead, Error> {
        match Event::owned(&self.client, event) {
            Some(event) => Ok(HostRead { event, memory: Some(memory) }),
            None => {
                // Without an event nobody knows when the plugin is done with the memory.
                std::mem::forget(memory);
                Err(Error::Answer { call, what: "the event is null" })
            }
        }
    }

    /// Copies the array to another device of the same client.
    pub fn copy_to_device(&self, device: &Device) -> Result<Buffer, Error> {
        same_client(&self.client, &device.client)?;
        let mut args = PJRT_Buffer_CopyToDevice_Args::new();
        args.buffer = self.raw();
        args.dst_device = device.raw();
        // SAFETY: buffer and device are alive and of one client.
        unsafe { self.api().call(slot::PJRT_Buffer_CopyToDevice, &mut args)? };
        Buffer::owned(&self.client, args.dst_buffer, slot::PJRT_Buffer_CopyToDevice.name())
    }

    /// Copies the array to another memory of the same client.
    pub fn copy_to_memory(&self, memory: &Memory) -> Result<Buffer, Error> {
        same_client(&self.client, &memory.client)?;
        let mut args = PJRT_Buffer_CopyToMemory_Args::new();
        args.buffer = self.raw();
        args.dst_memory = memory.raw();
        // SAFETY: buffer and memory are alive and of one client.
        unsafe { self.api().call(slot::PJRT_Buffer_CopyToMemory, &mut args)? };
        Buffer::owned(&self.client, args.dst_buffer, slot::PJRT_Buffer_CopyToMemory.name())
    }

    /// Gives the device memory back now. The array cannot be used afterwards.
    pub fn delete(&self) -> Result<(), Error> {
        let mut args = PJRT_Buffer_Delete_Args::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive.
        unsafe { self.api().call(slot::PJRT_Buffer_Delete, &mut args) }
    }

    /// Whether the array was deleted or donated.
    pub fn is_deleted(&self) -> Result<bool, Error> {
        let mut args = PJRT_Buffer_IsDeleted_Args::new();
        args.buffer = self.raw();
        // SAFETY: the buffer is alive.
        unsafe { self.api().call(slot::PJRT_Buffer_IsDeleted, &mut args)? };
        Ok(args.is_deleted)
    }
}

/// Host memory a plugin writes into. It is held as a pointer, because the plugin writes while we own it.
struct HostMemory {
    data: *mut u8,
    size: usize,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for HostMemory {}
// SAFETY: nothing is reachable through a shared reference.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    fn new(size: usize) -> Self {
        let data = Box::into_raw(vec![0u8; size].into_boxed_slice());
        Self { data: data.cast(), size }
    }

    /// To be called only when nobody writes any more.
    fn into_vec(self) -> Vec<u8> {
        let (data, size) = (self.data, self.size);
        std::mem::forget(self);
        // SAFETY: `new` made this box, and `forget` left it to us.
        unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, size)) }.into_vec()
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: `new` made this box, and nobody else frees it.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.data, self.size)) });
    }
}

/// An array on its way to the host. Wait for it, or await it as a future.
#[must_use = "the array arrives here"]
pub struct HostRead {
    event: Event,
    /// `None` once it was handed out.
    memory: Option<HostMemory>,
}

impl fmt::Debug for HostRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostRead").field("event", &self.event).finish()
    }
}

impl HostRead {
    /// Blocks until the array has arrived.
    pub fn wait(mut self) -> Result<Vec<u8>, Error> {
        self.event.wait()?;
        self.take()
    }

    fn take(&mut self) -> Result<Vec<u8>, Error> {
        let taken = || Error::input("the array was handed out before");
        self.memory.take().map(HostMemory::into_vec).ok_or_else(taken)
    }
}

impl Future for HostRead {
    type Output = Result<Vec<u8>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.event).poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(self.take()),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for HostRead {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            // The plugin may still be writing.
            self.event.keep_until_ready(memory);
        }
    }
}
