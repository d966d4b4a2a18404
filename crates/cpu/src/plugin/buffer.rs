//! Buffers: arrays that are there or will be, and their way to the host and to other devices.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pjrt_sys::*;
use tensor::DType;

use super::call::{Failure, entries, handles, list, object};
use super::client::{Client, place, sizes};
use super::element;
use super::event::Event;
use super::ledger::Reservation;
use super::strided;
use crate::memory::{Array, Storage, byte_count, device_bytes, has_spare_bits, is_aligned};
use crate::recorder::{Doing, Working};

/// An array in a device's memory.
pub(crate) struct Data {
    pub(super) array: Array,
    _reservation: Reservation,
}

/// An array that is there or will be.
pub(crate) struct Slot {
    pub(super) event: Event,
    data: OnceLock<Arc<Data>>,
}

impl Slot {
    pub(super) fn pending() -> Arc<Slot> {
        Arc::new(Slot { event: Event::pending(), data: OnceLock::new() })
    }

    /// Fills the slot, once. The share of whoever fills it is gone before anyone is told, so that a buffer deleted by
    /// then has given its memory back.
    pub(super) fn resolve(self: Arc<Self>, outcome: Result<(Array, Reservation), Failure>) {
        let outcome = outcome.map(|(array, reservation)| {
            let _ = self.data.set(Arc::new(Data { array, _reservation: reservation }));
        });
        let event = self.event.clone();
        drop(self);
        event.set(outcome);
    }

    /// Blocks until the array is there.
    pub(super) fn wait(&self) -> Result<Arc<Data>, Failure> {
        self.event.wait()?;
        self.data.get().cloned().ok_or_else(|| Failure::internal("a ready buffer without data"))
    }
}

/// Sizes as callers read them.
pub(crate) struct Shape {
    dims: Vec<i64>,
    minor_to_major: Vec<i64>,
}

impl Shape {
    pub(super) fn new(dims: &[usize]) -> Arc<Shape> {
        let minor_to_major = (0..dims.len() as i64).rev().collect();
        Arc::new(Shape { dims: dims.iter().map(|&d| d as i64).collect(), minor_to_major })
    }
}

/// A buffer.
pub(crate) struct Buffer {
    pub(super) client: Arc<Client>,
    pub(super) memory: usize,
    pub(super) number: PJRT_Buffer_Type,
    shape: Arc<Shape>,
    /// `None` once deleted.
    slot: Mutex<Option<Arc<Slot>>>,
    /// What callers outside hold on to, also after deletion.
    held: Mutex<Vec<Arc<Slot>>>,
}

handles! { PJRT_Buffer => Buffer, }

impl Buffer {
    pub(super) fn new(
        client: Arc<Client>,
        memory: usize,
        number: PJRT_Buffer_Type,
        dims: &[usize],
        slot: Arc<Slot>,
    ) -> Buffer {
        Buffer::with_shape(client, memory, number, Shape::new(dims), slot)
    }

    /// The same with a shape that others share.
    pub(super) fn with_shape(
        client: Arc<Client>,
        memory: usize,
        number: PJRT_Buffer_Type,
        shape: Arc<Shape>,
        slot: Arc<Slot>,
    ) -> Buffer {
        Buffer { client, memory, number, shape, slot: Mutex::new(Some(slot)), held: Mutex::default() }
    }

    /// A buffer that is ready, its memory accounted for.
    pub(super) fn ready(
        client: Arc<Client>,
        memory: usize,
        number: PJRT_Buffer_Type,
        array: Array,
    ) -> Result<Buffer, Failure> {
        let reservation = reserve(&client, memory, array.dtype(), array.dims())?;
        let slot = Slot::pending();
        let dims = array.dims().to_vec();
        slot.clone().resolve(Ok((array, reservation)));
        Ok(Buffer::new(client, memory, number, &dims, slot))
    }

    pub(super) fn into_raw(self) -> *mut PJRT_Buffer {
        Box::into_raw(Box::new(self)).cast()
    }

    pub(super) fn device(&self) -> usize {
        self.client.memories[self.memory].device_index()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Slot>>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn slot(&self) -> Result<Arc<Slot>, Failure> {
        self.lock().clone().ok_or_else(deleted)
    }

    /// Takes the array away: the buffer is deleted.
    pub(super) fn delete(&self) {
        self.lock().take();
    }

    pub(super) fn dims(&self) -> Vec<usize> {
        self.shape.dims.iter().map(|&d| d as usize).collect()
    }

    /// Whether it has these sizes; one that is `None` may be any.
    pub(super) fn has_dims(&self, wanted: &[Option<usize>]) -> bool {
        let have = &self.shape.dims;
        have.len() == wanted.len()
            && have.iter().zip(wanted).all(|(&d, want)| want.is_none_or(|want| want == d as usize))
    }

    fn dtype(&self) -> Result<DType, Failure> {
        element::from_number(self.number)
    }

    /// Bytes on the host, each element in bytes of its own.
    fn bytes(&self) -> Result<usize, Failure> {
        Ok(self.dims().iter().product::<usize>() * self.dtype()?.size_bytes())
    }

    /// Bytes on the device.
    pub(super) fn device_bytes(&self) -> Result<usize, Failure> {
        device_bytes(self.dtype()?, &self.dims()).ok_or_else(|| Failure::invalid("an array that is too large"))
    }

    fn copy_to(&self, client: Arc<Client>, memory: usize) -> Result<Buffer, Failure> {
        let source = self.slot()?;
        let dims = self.dims();
        let reservation = reserve(&client, memory, self.dtype()?, &dims)?;
        let slot = Slot::pending();
        let target = slot.clone();
        let from = source.clone();
        source.event.on_ready(Box::new(move |outcome| {
            let copied = outcome.and_then(|()| from.wait()).map(|data| (data.array.clone(), reservation));
            drop(from);
            target.resolve(copied);
        }));
        Ok(Buffer::new(client, memory, self.number, &dims, slot))
    }
}

fn deleted() -> Failure {
    Failure::invalid("the buffer has been deleted or donated")
}

/// Accounts for an array in a memory.
pub(super) fn reserve(client: &Client, memory: usize, dtype: DType, dims: &[usize]) -> Result<Reservation, Failure> {
    let bytes = device_bytes(dtype, dims)
        .ok_or_else(|| Failure::invalid(format!("an array of sizes {dims:?} is too large")))?;
    client.devices[client.memories[memory].device_index()].ledger.reserve(bytes as u64, 0, label(dtype, dims))
}

/// Memory for an array, or an error where the machine has not that much.
pub(super) fn zeros(size_bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size_bytes).map_err(|_| {
        Failure::new(PJRT_Error_Code_RESOURCE_EXHAUSTED, format!("the machine has no {size_bytes} bytes for a buffer"))
    })?;
    bytes.resize(size_bytes, 0);
    Ok(bytes)
}

/// Tells a caller that memory it lent is no longer used.
struct Lent(Event);

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.set(Ok(()));
    }
}

/// A copy of memory of the caller.
///
/// # Safety
/// All elements at every position `dims` and `strides` give are readable from `data`.
unsafe fn device_array(
    client: &Client,
    dtype: DType,
    dims: &[usize],
    data: *const c_void,
    strides: &[i64],
) -> Result<Array, Failure> {
    let width = dtype.size_bytes();
    if !data.is_null() && strides == strided::row_major(dims, width) {
        let total = byte_count(dtype, dims)
            .ok_or_else(|| Failure::invalid(format!("an array of sizes {dims:?} is too large")))?;
        // SAFETY: by the contract above, a dense array.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), total) };
        return Ok(Array::from_bytes(client.cpu.memory(), dtype, dims.to_vec(), bytes)?);
    }
    // SAFETY: by the contract above.
    let bytes = unsafe { strided::gather(data, dims, strides, width) }?;
    Ok(Array::from_bytes(client.cpu.memory(), dtype, dims.to_vec(), &bytes)?)
}

/// How a buffer is named in messages.
pub(super) fn label(dtype: DType, dims: &[usize]) -> Arc<str> {
    let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
    format!("{dtype}[{}]", dims.join(",")).into()
}

/// Caller memory that a copy goes to when the array is there.
struct Target(*mut c_void);

// SAFETY: the caller keeps the memory until the copy's event is ready, whatever thread makes the copy.
unsafe impl Send for Target {}

impl Target {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Runs `copy` on the bytes when they are there, and gives the event of it.
fn when_ready(slot: &Arc<Slot>, copy: impl FnOnce(&[u8]) + Send + 'static) -> *mut PJRT_Event {
    let done = Event::pending();
    let (finished, from) = (done.clone(), slot.clone());
    slot.event.on_ready(Box::new(move |outcome| {
        let copied = outcome.and_then(|()| from.wait()).and_then(|data| {
            data.array.storage().gather()?;
            copy(&data.array.bytes());
            Ok(())
        });
        drop(from);
        finished.set(copied);
    }));
    done.into_raw()
}

entries! {
    fn PJRT_Client_BufferFromHostBuffer(args: PJRT_Client_BufferFromHostBuffer_Args) {
        let (client, memory) = place(args.device, args.memory)?;
        let dtype = element::from_number(args.r#type)?;
        let dims = sizes(args.dims, args.num_dims)?;
        let width = dtype.size_bytes();
        // The layout on the device is ours to choose; a layout that only names an order is satisfied by any.
        strided::layout_strides(args.device_layout, &dims, width)?;
        let strides = match list(args.byte_strides, args.num_byte_strides) {
            [] => strided::row_major(&dims, width),
            strides if strides.len() == dims.len() => strides.to_vec(),
            _ => return Err(Failure::invalid("strides of another rank")),
        };
        let reservation = reserve(&client, memory, dtype, &dims)?;
        let lending = [PJRT_HostBufferSemantics_kImmutableZeroCopy, PJRT_HostBufferSemantics_kMutableZeroCopy];
        let is_shared = lending.contains(&args.host_buffer_semantics) && !has_spare_bits(dtype);
        let total = byte_count(dtype, &dims)
            .ok_or_else(|| Failure::invalid(format!("an array of sizes {dims:?} is too large")))?;
        let is_dense = strides == strided::row_major(&dims, width);
        let _working = Working::copies(Doing::CopyIn { bytes: total as u64 });
        let (array, done) = match NonNull::new(args.data.cast_mut().cast::<u8>()) {
            // Memory that begins between elements is copied: kernels read whole ones.
            Some(start) if is_shared && total > 0 && is_dense && is_aligned(args.data.cast(), dtype) => {
                let done = Event::pending();
                // The caller keeps the memory as it is until the event, which comes when the array is gone.
                let storage = Storage::foreign(start, total, Box::new(Lent(done.clone())));
                (Array::new(dtype, dims.clone(), Arc::new(storage)), done)
            }
            // Copied before this returns: a caller that may change the data then cannot harm us.
            _ => (device_array(&client, dtype, &dims, args.data, &strides)?, Event::done(Ok(()))),
        };
        let slot = Slot::pending();
        slot.clone().resolve(Ok((array, reservation)));
        args.buffer = Buffer::new(client, memory, args.r#type, &dims, slot).into_raw();
        args.done_with_host_buffer = done.into_raw();
        Ok(())
    }

    fn PJRT_Client_CreateViewOfDeviceBuffer(args: PJRT_Client_CreateViewOfDeviceBuffer_Args) {
        let (client, memory) = place(args.device, args.memory)?;
        let dtype = element::from_number(args.element_type)?;
        let dims = sizes(args.dims, args.num_dims)?;
        let strides = strided::layout_strides(args.layout, &dims, dtype.size_bytes())?;
        let array = device_array(&client, dtype, &dims, args.device_buffer_ptr, &strides)?;
        args.buffer = Buffer::ready(client, memory, args.element_type, array)?.into_raw();
        // The data was copied, so the original is free at once.
        if let Some(free) = args.on_delete_callback {
            free(args.device_buffer_ptr, args.on_delete_callback_arg);
        }
        Ok(())
    }

    fn PJRT_Client_CreateUninitializedBuffer(args: PJRT_Client_CreateUninitializedBuffer_Args) {
        let (client, memory) = place(args.device, args.memory)?;
        let dtype = element::from_number(args.shape_element_type)?;
        let dims = sizes(args.shape_dims, args.shape_num_dims)?;
        let reservation = reserve(&client, memory, dtype, &dims)?;
        let bytes = byte_count(dtype, &dims)
            .ok_or_else(|| Failure::invalid(format!("an array of sizes {dims:?} is too large")))?;
        let bytes = zeros(bytes)?;
        let array = Array::from_bytes(client.cpu.memory(), dtype, dims.clone(), &bytes)?;
        let slot = Slot::pending();
        slot.clone().resolve(Ok((array, reservation)));
        args.buffer = Buffer::new(client, memory, args.shape_element_type, &dims, slot).into_raw();
        Ok(())
    }

    fn PJRT_Client_CreateErrorBuffer(args: PJRT_Client_CreateErrorBuffer_Args) {
        let (client, memory) = place(std::ptr::null_mut(), args.memory)?;
        let dims = sizes(args.shape_dims, args.shape_num_dims)?;
        let slot = Slot::pending();
        let message = super::call::text(args.error_message, args.error_message_size);
        slot.clone().resolve(Err(Failure::new(args.error_code, message)));
        args.buffer = Buffer::new(client, memory, args.shape_element_type, &dims, slot).into_raw();
        Ok(())
    }

    fn PJRT_Buffer_Destroy(args: PJRT_Buffer_Destroy_Args) {
        if !args.buffer.is_null() {
            drop(Box::from_raw(args.buffer.cast::<Buffer>()));
        }
        Ok(())
    }

    fn PJRT_Buffer_ElementType(args: PJRT_Buffer_ElementType_Args) {
        args.r#type = object(args.buffer)?.number;
        Ok(())
    }

    fn PJRT_Buffer_Dimensions(args: PJRT_Buffer_Dimensions_Args) {
        let dims = &object(args.buffer)?.shape.dims;
        (args.dims, args.num_dims) = (dims.as_ptr(), dims.len());
        Ok(())
    }

    fn PJRT_Buffer_UnpaddedDimensions(args: PJRT_Buffer_UnpaddedDimensions_Args) {
        let dims = &object(args.buffer)?.shape.dims;
        (args.unpadded_dims, args.num_dims) = (dims.as_ptr(), dims.len());
        Ok(())
    }

    fn PJRT_Buffer_DynamicDimensionIndices(args: PJRT_Buffer_DynamicDimensionIndices_Args) {
        object(args.buffer)?;
        (args.dynamic_dim_indices, args.num_dynamic_dims) = (std::ptr::NonNull::dangling().as_ptr(), 0);
        Ok(())
    }

    fn PJRT_Buffer_GetMemoryLayout(args: PJRT_Buffer_GetMemoryLayout_Args) {
        let order = &object(args.buffer)?.shape.minor_to_major;
        let mut tiled = PJRT_Buffer_MemoryLayout_Tiled::new();
        (tiled.minor_to_major, tiled.minor_to_major_size) = (order.as_ptr(), order.len());
        args.layout = PJRT_Buffer_MemoryLayout::new();
        args.layout.layout.tiled = tiled;
        args.layout.r#type = PJRT_Buffer_MemoryLayout_Type_Tiled;
        Ok(())
    }

    fn PJRT_Buffer_OnDeviceSizeInBytes(args: PJRT_Buffer_OnDeviceSizeInBytes_Args) {
        args.on_device_size_in_bytes = object(args.buffer)?.device_bytes()?;
        Ok(())
    }

    fn PJRT_Buffer_Device(args: PJRT_Buffer_Device_Args) {
        let buffer = object(args.buffer)?;
        args.device = buffer.client.devices[buffer.device()].raw();
        Ok(())
    }

    fn PJRT_Buffer_Memory(args: PJRT_Buffer_Memory_Args) {
        let buffer = object(args.buffer)?;
        args.memory = buffer.client.memories[buffer.memory].raw();
        Ok(())
    }

    fn PJRT_Buffer_Delete(args: PJRT_Buffer_Delete_Args) {
        object(args.buffer)?.delete();
        Ok(())
    }

    fn PJRT_Buffer_IsDeleted(args: PJRT_Buffer_IsDeleted_Args) {
        args.is_deleted = object(args.buffer)?.lock().is_none();
        Ok(())
    }

    fn PJRT_Buffer_CopyToDevice(args: PJRT_Buffer_CopyToDevice_Args) {
        let device = object(args.dst_device)?;
        args.dst_buffer = object(args.buffer)?.copy_to(device.client()?, device.default_memory())?.into_raw();
        Ok(())
    }

    fn PJRT_Buffer_CopyToMemory(args: PJRT_Buffer_CopyToMemory_Args) {
        let memory = object(args.dst_memory)?;
        args.dst_buffer = object(args.buffer)?.copy_to(memory.client()?, memory.index)?.into_raw();
        Ok(())
    }

    fn PJRT_Buffer_ToHostBuffer(args: PJRT_Buffer_ToHostBuffer_Args) {
        let buffer = object(args.src)?;
        let bytes = buffer.bytes()?;
        // What failed has no bytes: the caller is not to make room for them.
        if let Some(Err(failure)) = buffer.slot()?.event.outcome() {
            return Err(failure);
        }
        if args.dst.is_null() {
            args.dst_size = bytes;
            return Ok(());
        }
        if args.dst_size < bytes {
            return Err(Failure::invalid(format!("the buffer has {bytes} bytes, the memory given only {}", args.dst_size)));
        }
        let (dims, width) = (buffer.dims(), buffer.dtype()?.size_bytes());
        let strides = strided::layout_strides(args.host_layout, &dims, width)?;
        let target = Target(args.dst);
        args.event = when_ready(&buffer.slot()?, move |bytes| {
            let _working = Working::copies(Doing::CopyOut { bytes: bytes.len() as u64 });
            // SAFETY: the caller keeps `dst`, large enough for this layout, until the event.
            unsafe { strided::spread(bytes, target.get(), &dims, &strides, width) };
        });
        Ok(())
    }

    fn PJRT_Buffer_CopyRawToHost(args: PJRT_Buffer_CopyRawToHost_Args) {
        let buffer = object(args.buffer)?;
        let range = usize::try_from(args.offset).ok().zip(usize::try_from(args.transfer_size).ok());
        let total = buffer.bytes()?;
        let end = range.and_then(|(offset, size)| offset.checked_add(size)).filter(|&end| end <= total);
        let (Some((offset, _)), Some(end)) = (range, end) else {
            return Err(Failure::invalid(format!("{} bytes from {} are not in the buffer", args.transfer_size, args.offset)));
        };
        let target = Target(args.dst);
        args.event = when_ready(&buffer.slot()?, move |bytes| {
            let bytes = &bytes[offset..end];
            // SAFETY: the caller keeps `dst`, of `transfer_size` bytes, until the event.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.get().cast(), bytes.len()) };
        });
        Ok(())
    }

    fn PJRT_Buffer_IsOnCpu(args: PJRT_Buffer_IsOnCpu_Args) {
        object(args.buffer)?;
        args.is_on_cpu = true;
        Ok(())
    }

    fn PJRT_Buffer_ReadyEvent(args: PJRT_Buffer_ReadyEvent_Args) {
        let event = match object(args.buffer)?.slot() {
            Ok(slot) => slot.event.clone(),
            Err(failure) => Event::done(Err(failure)),
        };
        args.event = event.into_raw();
        Ok(())
    }

    fn PJRT_Buffer_UnsafePointer(args: PJRT_Buffer_UnsafePointer_Args) {
        let data = object(args.buffer)?.slot()?.wait()?;
        data.array.storage().gather()?;
        args.buffer_pointer = data.array.storage().pointer() as usize;
        Ok(())
    }

    fn PJRT_Buffer_IncreaseExternalReferenceCount(args: PJRT_Buffer_IncreaseExternalReferenceCount_Args) {
        let buffer = object(args.buffer)?;
        let slot = buffer.slot()?;
        buffer.held.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        Ok(())
    }

    fn PJRT_Buffer_DecreaseExternalReferenceCount(args: PJRT_Buffer_DecreaseExternalReferenceCount_Args) {
        let held = object(args.buffer)?.held.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match held {
            Some(_) => Ok(()),
            None => Err(Failure::invalid("nothing outside refers to the buffer")),
        }
    }

    fn PJRT_Buffer_OpaqueDeviceMemoryDataPointer(args: PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args) {
        let data = object(args.buffer)?.slot()?.wait()?;
        data.array.storage().gather()?;
        args.device_memory_ptr = data.array.storage().pointer().cast();
        Ok(())
    }
}
