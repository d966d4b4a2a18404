//! Arrays of several devices as one, and back. All devices are one machine's memory: what each of them holds whole is
//! shared, and a tile is a part of the whole array. Tiles whose bytes lie apart are copied only if they are read by themselves.

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
    let whole = held.first()?.storage().within()?.whole;
    let size = held.first()?.storage().size();
    if size.checked_mul(sharding.num_tiles()) != Some(whole.size()) {
        return None;
    }
    let is_in_place = |tile: usize| {
        let part = &held[sharding.holder(tile, 0, 0)];
        part.storage().within().is_some_and(|within| {
            let rows = sharding.rows(dims, part.dims(), tile, part.dtype().size_bytes());
            Arc::ptr_eq(&within.whole, &whole) && rows.bytes == within.run_bytes && *rows.starts == *within.starts
        })
    };
    (0..sharding.num_tiles()).all(is_in_place).then_some(whole)
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
    whole.storage().gather()?;
    let mut held: Vec<Option<Array>> = vec![None; count];
    for (tile, holders) in sharding.partitions.chunks(sharding.copies().max(1)).enumerate() {
        let rows = sharding.rows(whole.dims(), &dims, tile, whole.dtype().size_bytes());
        let storage = match rows.starts[..] {
            [start] if rows.bytes == size => Storage::part(whole.storage(), start, size),
            _ => Storage::tile(whole.storage(), rows.starts.into(), rows.bytes, memory),
        };
        let part = Array::new(whole.dtype(), dims.clone(), Arc::new(storage));
        for &holder in holders {
            *held.get_mut(holder).ok_or_else(uneven)? = Some(part.clone());
        }
    }
    held.into_iter().map(|part| part.ok_or_else(uneven)).collect()
}

#[cfg(test)]
mod tests {
    use tensor::DType;

    use super::*;
    use crate::sharding::from_text;

    fn whole(memory: &Arc<Arena>) -> Array {
        Array::from_bytes(memory, DType::U8, vec![4, 6], &(0..24).collect::<Vec<u8>>()).unwrap()
    }

    #[test]
    fn what_was_split_is_joined_without_a_copy() {
        let memory = Arena::new();
        for text in ["{devices=[4,1]<=[4]}", "{devices=[1,2,2]<=[4] last_tile_dim_replicate}", "{devices=[2,2]<=[4]}"] {
            let sharding = from_text(text, 2, 4).unwrap();
            let array = whole(&memory);
            let address = array.storage().pointer();
            let held = split(&memory, array.clone(), &sharding).unwrap();
            let joined = join(&memory, held, &sharding).unwrap();
            assert_eq!((joined.storage().pointer(), joined.to_literal()), (address, array.to_literal()), "{text}");
            // With no other holder the program may write there.
            drop(array);
            assert!(joined.into_own_storage().is_ok(), "{text}");
        }
    }

    #[test]
    fn tiles_that_were_read_are_joined_by_copying() {
        let memory = Arena::new();
        let sharding = from_text("{devices=[1,2]<=[2]}", 2, 2).unwrap();
        let array = whole(&memory);
        let held = split(&memory, array.clone(), &sharding).unwrap();
        assert_eq!(*held[1].bytes(), [3, 4, 5, 9, 10, 11, 15, 16, 17, 21, 22, 23]);
        let joined = join(&memory, held, &sharding).unwrap();
        assert_ne!(joined.storage().pointer(), array.storage().pointer());
        assert_eq!(joined.to_literal(), array.to_literal());
    }

    #[test]
    fn a_tile_that_is_given_away_is_one_copy() {
        let memory = Arena::new();
        let sharding = from_text("{devices=[1,2]<=[2]}", 2, 2).unwrap();
        let mut held = split(&memory, whole(&memory), &sharding).unwrap();
        let mut own = held.swap_remove(0).into_own_storage().unwrap();
        own.own_bytes()[0] = 99;
        assert_eq!(own.bytes(), [99, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20]);
        assert_eq!(held[0].bytes()[0], 3);
    }

    #[test]
    fn tiles_of_another_split_are_not_taken_for_the_whole() {
        let memory = Arena::new();
        let columns = from_text("{devices=[1,2]<=[2]}", 2, 2).unwrap();
        let mut held = split(&memory, whole(&memory), &columns).unwrap();
        held.swap(0, 1);
        let joined = join(&memory, held, &columns).unwrap();
        assert_eq!(joined.bytes()[..6], [3, 4, 5, 0, 1, 2]);
    }
}
