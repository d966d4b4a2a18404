//! Arrays of several devices as one, and back. All devices are one machine's memory: what each of them holds whole is
//! shared, and only tiles are copied.

use std::sync::Arc;

use tensor::Literal;

use crate::error::Error;
use crate::interpret::manual::joined_or_summed;
use crate::memory::{Arena, Array, Packing, byte_count, device_packing};
use crate::sharding::Sharding;

/// The whole array from what each partition holds.
pub(super) fn join(memory: &Arc<Arena>, mut held: Vec<Array>, sharding: &Sharding) -> Result<Array, Error> {
    if held.len() != sharding.partitions.len() {
        return Err(Error::Internal("not one part for each partition".into()));
    }
    if sharding.is_replicated() {
        // The others are dropped: a donated array must have one holder.
        return Ok(held.swap_remove(0));
    }
    let first = &held[0];
    let is_plain = device_packing(first.dtype()) == Packing::Bytes && sharding.summands == 1;
    if !is_plain {
        let parts: Vec<Literal> = held.iter().map(Array::to_literal).collect();
        return Array::from_literal(memory, &joined_or_summed(sharding, &parts, 0)?);
    }
    if held.iter().any(|part| part.dims() != first.dims() || part.dtype() != first.dtype()) {
        return Err(Error::Arguments("tiles of different sizes".into()));
    }
    let dims: Option<Vec<usize>> = first.dims().iter().zip(&sharding.tiles).map(|(&d, &t)| d.checked_mul(t)).collect();
    let too_large = || Error::Exhausted("an array too large".into());
    let dims = dims.ok_or_else(too_large)?;
    let mut storage = memory.allocate(byte_count(first.dtype(), &dims).ok_or_else(too_large)?)?;
    let whole = storage.own_bytes();
    for tile in 0..sharding.num_tiles() {
        let part = &held[sharding.holder(tile, 0, 0)];
        let rows = sharding.rows(&dims, part.dims(), tile, part.dtype().size_bytes());
        let bytes = part.storage().bytes();
        for (from, &to) in bytes.chunks_exact(rows.bytes.max(1)).zip(&rows.starts) {
            whole[to..to + rows.bytes].copy_from_slice(from);
        }
    }
    Ok(Array::new(first.dtype(), dims, Arc::new(storage)))
}

/// What each partition holds of an array.
pub(super) fn split(memory: &Arc<Arena>, whole: Array, sharding: &Sharding) -> Result<Vec<Array>, Error> {
    let count = sharding.partitions.len();
    if sharding.is_replicated() {
        return Ok(vec![whole; count]);
    }
    let is_plain = device_packing(whole.dtype()) == Packing::Bytes && sharding.summands == 1;
    if !is_plain {
        let parts = sharding.split(&whole.to_literal())?;
        return parts.iter().map(|part| Array::from_literal(memory, part)).collect();
    }
    let uneven = || Error::Internal("a result that does not split into its tiles".into());
    let dims = sharding.tile_dims(whole.dims()).ok_or_else(uneven)?;
    let size = byte_count(whole.dtype(), &dims).ok_or_else(uneven)?;
    let bytes = whole.storage().bytes();
    let mut held: Vec<Option<Array>> = vec![None; count];
    for (tile, holders) in sharding.partitions.chunks(sharding.copies().max(1)).enumerate() {
        let mut storage = memory.allocate(size)?;
        let rows = sharding.rows(whole.dims(), &dims, tile, whole.dtype().size_bytes());
        for (to, &from) in storage.own_bytes().chunks_exact_mut(rows.bytes.max(1)).zip(&rows.starts) {
            to.copy_from_slice(&bytes[from..from + rows.bytes]);
        }
        let part = Array::new(whole.dtype(), dims.clone(), Arc::new(storage));
        for &holder in holders {
            *held.get_mut(holder).ok_or_else(uneven)? = Some(part.clone());
        }
    }
    held.into_iter().map(|part| part.ok_or_else(uneven)).collect()
}
