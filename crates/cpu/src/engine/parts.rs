//! Arrays of several devices as one, and back. All devices are one machine's memory: what each of them holds whole is
//! shared, a tile whose bytes lie together is a range of the whole array, and only other tiles are copied.

use std::sync::Arc;

use tensor::Literal;

use crate::error::Error;
use crate::interpret::manual::joined_or_summed;
use crate::memory::{Arena, Array, Packing, Storage, byte_count, device_packing};
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
    if let Some(whole) = shared_whole(&held, &dims, sharding) {
        return Ok(Array::new(first.dtype(), dims, whole));
    }
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

/// The storage that tiles are ranges of, if they are all of it in their order: what one program split and the next one joins.
fn shared_whole(held: &[Array], dims: &[usize], sharding: &Sharding) -> Option<Arc<Storage>> {
    let whole = held.first()?.storage().whole()?;
    let size = held.first()?.storage().size();
    if size.checked_mul(sharding.num_tiles()) != Some(whole.size()) {
        return None;
    }
    let is_in_place = |tile: usize| {
        let part = &held[sharding.holder(tile, 0, 0)];
        let rows = sharding.rows(dims, part.dims(), tile, part.dtype().size_bytes());
        let at = (part.storage().pointer() as usize).checked_sub(whole.pointer() as usize);
        let is_of_whole = part.storage().whole().is_some_and(|other| Arc::ptr_eq(other, whole));
        is_of_whole && rows.bytes == size && at.is_some_and(|at| rows.starts == [at])
    };
    (0..sharding.num_tiles()).all(is_in_place).then(|| whole.clone())
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
        let rows = sharding.rows(whole.dims(), &dims, tile, whole.dtype().size_bytes());
        let storage = match rows.starts[..] {
            [start] if rows.bytes == size => Storage::part(whole.storage(), start, size),
            _ => {
                let mut storage = memory.allocate(size)?;
                for (to, &from) in storage.own_bytes().chunks_exact_mut(rows.bytes.max(1)).zip(&rows.starts) {
                    to.copy_from_slice(&bytes[from..from + rows.bytes]);
                }
                storage
            }
        };
        let part = Array::new(whole.dtype(), dims.clone(), Arc::new(storage));
        for &holder in holders {
            *held.get_mut(holder).ok_or_else(uneven)? = Some(part.clone());
        }
    }
    held.into_iter().map(|part| part.ok_or_else(uneven)).collect()
}
