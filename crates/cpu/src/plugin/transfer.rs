//! Transfers in pieces: buffers of one memory that a caller fills bit by bit.
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};

use pjrt_sys::*;
use tensor::DType;

use super::buffer::{Buffer, Slot, reserve, zeros};
use super::call::{Failure, bytes, entries, handles, list, object, text};
use super::client::{Client, sizes};
use super::element;
use super::event::Event;
use super::ledger::Reservation;
use crate::memory::{Arena, Array, byte_count};

/// A buffer being filled.
struct Filling {
    number: PJRT_Buffer_Type,
    dtype: DType,
    dims: Vec<usize>,
    size_bytes: usize,
    slot: Arc<Slot>,
    home: Arc<Arena>,
    /// `None` once the last piece came or the transfer failed.
    staged: Mutex<Option<(Vec<u8>, Reservation)>>,
}

impl Filling {
    fn put(&self, offset: i64, data: &[u8], last: bool) -> Result<(), Failure> {
        let mut staged = self.staged.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((into, _)) = staged.as_mut() else {
            return Err(Failure::new(PJRT_Error_Code_FAILED_PRECONDITION, "the transfer is over"));
        };
        let place = usize::try_from(offset).ok().and_then(|from| into.get_mut(from..from.checked_add(data.len())?));
        let place = place
            .ok_or_else(|| Failure::invalid(format!("{} bytes at {offset} are outside the buffer", data.len())))?;
        place.copy_from_slice(data);
        if last && let Some((bytes, reservation)) = staged.take() {
            let array = Array::from_bytes(&self.home, self.dtype, self.dims.clone(), &bytes)?;
            self.slot.clone().resolve(Ok((array, reservation)));
        }
        Ok(())
    }
}

/// Buffers of one memory being filled.
pub(crate) struct Manager {
    client: Arc<Client>,
    memory: usize,
    buffers: Vec<Filling>,
}

handles! { PJRT_AsyncHostToDeviceTransferManager => Manager, }

impl Drop for Manager {
    fn drop(&mut self) {
        for buffer in &self.buffers {
            buffer.slot.clone().resolve(Err(Failure::new(PJRT_Error_Code_CANCELLED, "the transfer was given up")));
        }
    }
}

impl Manager {
    fn buffer(&self, index: i32) -> Result<&Filling, Failure> {
        let buffer = usize::try_from(index).ok().and_then(|n| self.buffers.get(n));
        buffer.ok_or_else(|| Failure::invalid(format!("there is no buffer {index} in this transfer")))
    }
}

entries! {
    fn PJRT_Client_CreateBuffersForAsyncHostToDevice(args: PJRT_Client_CreateBuffersForAsyncHostToDevice_Args) {
        let memory = object(args.memory)?;
        let client = memory.client()?;
        let make = |spec: &PJRT_ShapeSpec| {
            let dtype = element::from_number(spec.element_type)?;
            // SAFETY: the caller's specification says how long its list is.
            let dims = unsafe { sizes(spec.dims, spec.num_dims) }?;
            let reservation = reserve(&client, memory.index, dtype, &dims)?;
            let size_bytes = byte_count(dtype, &dims)
                .ok_or_else(|| Failure::invalid(format!("an array of sizes {dims:?} is too large")))?;
            let staged = Mutex::new(Some((zeros(size_bytes)?, reservation)));
            let (slot, home) = (Slot::pending(), client.cpu.memory().clone());
            Ok(Filling { number: spec.element_type, dtype, dims, size_bytes, slot, home, staged })
        };
        let buffers = list(args.shape_specs, args.num_shape_specs).iter().map(make).collect::<Result<_, Failure>>()?;
        let manager = Manager { client: client.clone(), memory: memory.index, buffers };
        args.transfer_manager = Box::into_raw(Box::new(manager)).cast();
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_Destroy(args: PJRT_AsyncHostToDeviceTransferManager_Destroy_Args) {
        if !args.transfer_manager.is_null() {
            drop(Box::from_raw(args.transfer_manager.cast::<Manager>()));
        }
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_TransferData(args: PJRT_AsyncHostToDeviceTransferManager_TransferData_Args) {
        let size = usize::try_from(args.transfer_size).map_err(|_| Failure::invalid("a negative size"))?;
        let data = bytes(args.data.cast(), size);
        object(args.transfer_manager)?.buffer(args.buffer_index)?.put(args.offset, data, args.is_last_transfer)?;
        args.done_with_h2d_transfer = Event::done(Ok(())).into_raw();
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_TransferLiteral(args: PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args) {
        let buffer = object(args.transfer_manager)?.buffer(args.buffer_index)?;
        buffer.put(0, bytes(args.data.cast(), buffer.size_bytes), true)?;
        args.done_with_h2d_transfer = Event::done(Ok(())).into_raw();
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(args: PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args) {
        let manager = object(args.transfer_manager)?;
        let buffer = manager.buffer(args.buffer_index)?;
        let made = Buffer::new(manager.client.clone(), manager.memory, buffer.number, &buffer.dims, buffer.slot.clone());
        args.buffer_out = made.into_raw();
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_Device(args: PJRT_AsyncHostToDeviceTransferManager_Device_Args) {
        let manager = object(args.transfer_manager)?;
        args.device_out = manager.client.devices[manager.client.memories[manager.memory].device_index()].raw();
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_BufferCount(args: PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args) {
        args.buffer_count = object(args.transfer_manager)?.buffers.len();
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_BufferSize(args: PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args) {
        args.buffer_size = object(args.transfer_manager)?.buffer(args.buffer_index)?.size_bytes;
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_SetBufferError(args: PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args) {
        let buffer = object(args.transfer_manager)?.buffer(args.buffer_index)?;
        buffer.staged.lock().unwrap_or_else(PoisonError::into_inner).take();
        buffer.slot.clone().resolve(Err(Failure::new(args.error_code, text(args.error_message, args.error_message_size))));
        Ok(())
    }

    fn PJRT_AsyncHostToDeviceTransferManager_AddMetadata(args: PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args) {
        object(args.transfer_manager)?;
        Ok(())
    }
}
