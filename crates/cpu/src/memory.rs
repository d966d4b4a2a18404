//! Memory of the device: aligned blocks that are kept for the next run instead of going back to the system.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use tensor::{DType, Literal};

use crate::error::Error;

mod tile;

use tile::Tile;
pub(crate) use tile::Within;

/// Alignment of every array: a cache line and the widest vector.
pub(crate) const ALIGN: usize = 64;
/// What the system's allocator aligns every block to.
const SYSTEM_ALIGN: usize = 16;
/// Smaller blocks come from the system's allocator each time, which is quick for them.
const KEPT_FROM_BYTES: usize = 32 << 10;
/// Bytes kept for later at most.
const KEPT_BYTES: usize = 1 << 30;
/// Blocks of at least this size ask for huge pages: their first touch costs far fewer faults.
const HUGE_FROM_BYTES: usize = 4 << 20;

/// Where arrays come from. Freed blocks are kept, up to a limit, because the first touch of fresh pages costs more than
/// most kernels do.
#[derive(Debug, Default)]
pub struct Arena {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Free blocks by size.
    blocks: BTreeMap<usize, Vec<Block>>,
    bytes: usize,
}

/// A block of aligned memory, freed by whoever holds it. Its bytes are zeros or what an earlier holder left: never
/// uninitialised, so that any of them may be read.
#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    size: usize,
    /// Bytes between the start of what was allocated and `start`.
    before: usize,
}

// SAFETY: a block is plain memory owned by one holder at a time.
unsafe impl Send for Block {}
// SAFETY: shared holders only read the address; access to the bytes is governed by the array that owns the block.
unsafe impl Sync for Block {}

impl Block {
    fn new(size: usize) -> Option<Block> {
        let size = size.max(ALIGN);
        // The system's allocator hands out large blocks as fresh pages, which are zero without being touched. It does so
        // for its own alignment only: ours is made here.
        // SAFETY: the size is not zero.
        let whole = NonNull::new(unsafe { alloc_zeroed(Block::layout(size)?) })?;
        let before = (whole.as_ptr() as usize).next_multiple_of(ALIGN) - whole.as_ptr() as usize;
        // SAFETY: at most the bytes that the layout has more than `size`.
        let start = unsafe { whole.add(before) };
        #[cfg(target_os = "linux")]
        if size >= HUGE_FROM_BYTES {
            let page = 4096;
            let first = (start.as_ptr() as usize).next_multiple_of(page);
            let length = (start.as_ptr() as usize + size - first) / page * page;
            // SAFETY: the range lies in the block just allocated; the call only advises and may fail.
            unsafe { libc::madvise(first as *mut libc::c_void, length, libc::MADV_HUGEPAGE) };
        }
        Some(Block { start, size, before })
    }

    fn layout(size: usize) -> Option<Layout> {
        Layout::from_size_align(size.checked_add(ALIGN - SYSTEM_ALIGN)?, SYSTEM_ALIGN).ok()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(layout) = Block::layout(self.size) else { return };
        // SAFETY: allocated in `new` with this layout, so many bytes before the start.
        unsafe { dealloc(self.start.as_ptr().sub(self.before), layout) };
    }
}

impl Arena {
    /// Memory with nothing kept yet.
    pub fn new() -> Arc<Arena> {
        Arc::default()
    }

    /// Room for `size` bytes: zeros, or what lay in a block that is used again.
    pub(crate) fn allocate(self: &Arc<Arena>, size: usize) -> Result<Storage, Error> {
        let none = || Error::Exhausted(format!("the machine has no {size} bytes for an array"));
        // The system may promise more than there is, and end the process when it is used.
        if size > machine_bytes() {
            return Err(none());
        }
        let block = self.take(size).or_else(|| Block::new(size)).ok_or_else(none)?;
        Ok(Storage { start: block.start, size, owner: Owner::Memory { block: Some(block), home: self.clone() } })
    }

    fn take(&self, size: usize) -> Option<Block> {
        if size < KEPT_FROM_BYTES {
            return None;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // A block up to an eighth larger serves as well.
        let found = *kept.blocks.range(size..=size + size / 8).next()?.0;
        let list = kept.blocks.get_mut(&found)?;
        let block = list.pop();
        if list.is_empty() {
            kept.blocks.remove(&found);
        }
        kept.bytes -= found;
        block
    }

    fn give(&self, block: Block) {
        if block.size < KEPT_FROM_BYTES {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes.saturating_add(block.size) <= KEPT_BYTES {
            kept.bytes += block.size;
            kept.blocks.entry(block.size).or_default().push(block);
        }
    }

    /// Gives everything kept back to the system.
    pub fn trim(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Kept::default();
    }
}

/// Bytes of an array.
pub(crate) struct Storage {
    start: NonNull<u8>,
    size: usize,
    owner: Owner,
}

enum Owner {
    Memory {
        block: Option<Block>,
        home: Arc<Arena>,
    },
    /// Memory of the caller; dropping the value tells the caller that it is free.
    #[allow(dead_code)]
    Foreign(Box<dyn Send + Sync>),
    /// A range of other storage, which only its parts hold or read.
    Part(Arc<Storage>),
    /// Bytes that lie apart in other storage.
    Tile(Box<Tile>),
}

// SAFETY: the bytes are written only before the storage is shared, or by the one who owns it alone.
unsafe impl Send for Storage {}
// SAFETY: shared storage is only read.
unsafe impl Sync for Storage {}

impl Storage {
    /// Memory of the caller, which stays valid and unchanged until `guard` is dropped.
    ///
    /// # Safety
    /// `start` is valid for reads of `size` bytes as long as `guard` lives, and nobody writes there.
    pub(crate) unsafe fn foreign(start: NonNull<u8>, size: usize, guard: Box<dyn Send + Sync>) -> Storage {
        Storage { start, size, owner: Owner::Foreign(guard) }
    }

    /// A range of storage that is shared.
    ///
    /// # Panics
    /// If it does not have the range.
    pub(crate) fn part(whole: &Arc<Storage>, start: usize, size: usize) -> Storage {
        let start = NonNull::from(&whole.bytes()[start..start + size]).cast::<u8>();
        Storage { start, size, owner: Owner::Part(whole.clone()) }
    }

    /// Runs of bytes of storage that is shared, one after the other. They are copied when somebody reads them.
    ///
    /// # Panics
    /// If it does not have them.
    pub(crate) fn tile(whole: &Arc<Storage>, starts: Arc<[usize]>, run_bytes: usize, home: &Arc<Arena>) -> Storage {
        assert!(starts.iter().all(|&start| whole.size.checked_sub(start).is_some_and(|left| left >= run_bytes)));
        let size = starts.len() * run_bytes;
        let within = Within { whole: whole.clone(), starts, run_bytes };
        Storage { start: NonNull::dangling(), size, owner: Owner::Tile(Box::new(Tile::new(within, home.clone()))) }
    }

    /// Where its bytes lie in other storage; `None` where they have their own.
    pub(crate) fn within(&self) -> Option<Within> {
        match &self.owner {
            Owner::Part(whole) => {
                let start = (self.start.as_ptr() as usize).checked_sub(whole.start.as_ptr() as usize)?;
                Some(Within { whole: whole.clone(), starts: [start].into(), run_bytes: self.size })
            }
            Owner::Tile(tile) => tile.within(),
            Owner::Memory { .. } | Owner::Foreign(_) => None,
        }
    }

    /// Gives bytes that lie apart a place of their own, which reading them does too, but cannot refuse.
    pub(crate) fn gather(&self) -> Result<(), Error> {
        match &self.owner {
            Owner::Tile(tile) => tile.copied().map(|_| ()),
            _ => Ok(()),
        }
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        match &self.owner {
            Owner::Tile(tile) => tile.copied_or_abort().start.as_ptr(),
            _ => self.start.as_ptr(),
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Bytes that lay apart in the place of their own that they were given.
    fn gathered(mut self) -> Storage {
        let copy = if let Owner::Tile(tile) = &mut self.owner { tile.take_copy() } else { None };
        copy.unwrap_or(self)
    }

    /// Whether the program may write here once it owns the array.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.owner, Owner::Memory { .. })
    }

    /// What it holds.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `size` initialised bytes while the storage lives; nobody writes to them once it is shared.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.size) }
    }

    /// What it holds, to be changed.
    ///
    /// # Panics
    /// If it is memory of the caller.
    pub(crate) fn own_bytes(&mut self) -> &mut [u8] {
        assert!(self.is_own(), "memory of the caller");
        // SAFETY: own memory, which nobody else holds.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
    }

    /// Writes all of it, and gives what it holds then.
    ///
    /// # Panics
    /// If there are more or fewer bytes than it has, or it is memory of the caller.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> &mut [u8] {
        assert!(bytes.len() == self.size, "{} bytes for {}", bytes.len(), self.size);
        let own = self.own_bytes();
        own.copy_from_slice(bytes);
        own
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Owner::Memory { block, home } = &mut self.owner
            && let Some(block) = block.take()
        {
            home.give(block);
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({} bytes)", self.size)
    }
}

/// An array on the device: dense, row-major, integers of 2 and 4 bits packed (`device_packing`). Cloning shares the bytes.
#[derive(Clone, Debug)]
pub struct Array {
    dtype: DType,
    dims: Vec<usize>,
    storage: Arc<Storage>,
}

impl Array {
    /// An array over storage of the right size.
    pub(crate) fn new(dtype: DType, dims: Vec<usize>, storage: Arc<Storage>) -> Array {
        debug_assert_eq!(device_bytes(dtype, &dims), Some(storage.size()));
        Array { dtype, dims, storage }
    }

    /// A copy of a literal.
    pub fn from_literal(memory: &Arc<Arena>, literal: &Literal) -> Result<Array, Error> {
        Array::from_bytes(memory, literal.dtype(), literal.dims().to_vec(), literal.bytes())
    }

    /// A copy of bytes, as many as type and sizes say.
    pub fn from_bytes(memory: &Arc<Arena>, dtype: DType, dims: Vec<usize>, bytes: &[u8]) -> Result<Array, Error> {
        if byte_count(dtype, &dims) != Some(bytes.len()) {
            return Err(Error::Arguments(format!("{} bytes for an array of {dtype} {dims:?}", bytes.len())));
        }
        let size = device_bytes(dtype, &dims).unwrap_or(bytes.len());
        let mut storage = memory.allocate(size)?;
        match device_packing(dtype) {
            Packing::Bytes => fill_spare_bits(dtype, storage.fill(bytes)),
            Packing::Bits => pack(dtype, bytes, storage.own_bytes()),
        }
        Ok(Array { dtype, dims, storage: Arc::new(storage) })
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Sizes, major to minor.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The elements, as the host has them: each in bytes of its own.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        host_bytes(self.dtype, self.dims.iter().product(), self.storage.bytes())
    }

    /// A copy on the host.
    pub fn to_literal(&self) -> Literal {
        Literal::new(self.dtype, self.dims.clone(), self.bytes().into_owned())
            .expect("the storage has the array's size")
    }

    /// The same, in memory that begins where kernels can read elements of its type: a caller's may begin anywhere.
    pub(crate) fn aligned(self, memory: &Arc<Arena>) -> Result<Array, Error> {
        self.storage.gather()?;
        if is_aligned(self.storage.pointer(), self.dtype) {
            return Ok(self);
        }
        let mut storage = memory.allocate(self.storage.size())?;
        storage.fill(self.storage.bytes());
        Ok(Array { storage: Arc::new(storage), ..self })
    }

    /// The memory, shared.
    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The memory, if nobody else holds it and the device may write to it.
    pub(crate) fn into_own_storage(self) -> Result<Storage, Array> {
        let is_tile = matches!(self.storage.owner, Owner::Tile(_)) && self.storage.gather().is_ok();
        if !is_tile && !self.storage.is_own() {
            return Err(self);
        }
        let Array { dtype, dims, storage } = self;
        Arc::try_unwrap(storage).map(Storage::gathered).map_err(|storage| Array { dtype, dims, storage })
    }
}

/// Bytes of memory that the machine has; where it does not say, more than any has.
pub(crate) fn machine_bytes() -> usize {
    const MOST_BYTES: usize = isize::MAX as usize / 2;
    static BYTES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *BYTES.get_or_init(|| {
        #[cfg(unix)]
        {
            // SAFETY: the calls have no preconditions.
            let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
            let bytes = usize::try_from(pages).ok().zip(usize::try_from(page).ok());
            bytes.and_then(|(pages, page)| pages.checked_mul(page)).unwrap_or(MOST_BYTES)
        }
        #[cfg(not(unix))]
        {
            MOST_BYTES
        }
    })
}

/// How the elements of an array lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Packing {
    /// Each in bytes of its own.
    #[default]
    Bytes,
    /// Elements of 2 or 4 bits one after the other, the first in the lowest bits of a byte.
    Bits,
}

impl Packing {
    /// Bits from one element to the next.
    pub(crate) fn width(self, dtype: DType) -> usize {
        match self {
            Packing::Bytes => 8 * dtype.size_bytes(),
            Packing::Bits => dtype.bits() as usize,
        }
    }

    /// Bytes from an element to the one so many elements on, where that begins a byte.
    pub(crate) fn bytes(self, dtype: DType, elements: isize) -> isize {
        match self {
            Packing::Bytes => elements.wrapping_mul(dtype.size_bytes() as isize),
            Packing::Bits => elements.wrapping_mul(dtype.bits() as isize) / 8,
        }
    }
}

/// How the device keeps elements of a type.
pub(crate) fn device_packing(dtype: DType) -> Packing {
    if dtype.is_integer() && dtype.bits() < 8 { Packing::Bits } else { Packing::Bytes }
}

/// Bytes of an array on the device; `None` if too many to address.
pub(crate) fn device_bytes(dtype: DType, dims: &[usize]) -> Option<usize> {
    let bytes = byte_count(dtype, dims)?;
    match device_packing(dtype) {
        Packing::Bytes => Some(bytes),
        Packing::Bits => Some(bytes.div_ceil(8 / dtype.bits() as usize)),
    }
}

/// The elements of an array of the device as the host has them.
pub(crate) fn host_bytes(dtype: DType, count: usize, bytes: &[u8]) -> Cow<'_, [u8]> {
    match device_packing(dtype) {
        Packing::Bytes => Cow::Borrowed(bytes),
        Packing::Bits => {
            let mut unpacked = vec![0; count];
            unpack(dtype, bytes, &mut unpacked);
            Cow::Owned(unpacked)
        }
    }
}

/// Elements of 2 or 4 bits, each into a byte of its own.
pub(crate) fn unpack(dtype: DType, packed: &[u8], to: &mut [u8]) {
    let bits = dtype.bits();
    let per_byte = 8 / bits as usize;
    let spare = 8 - bits;
    let is_signed = dtype.is_signed_integer();
    // The elements of each byte, found once.
    let element = |byte: u8, n: usize| {
        let high = byte >> (n as u32 * bits) << spare;
        if is_signed { ((high as i8) >> spare) as u8 } else { high >> spare }
    };
    let elements: [[u8; 4]; 256] =
        std::array::from_fn(|byte| std::array::from_fn(|n| element(byte as u8, n % per_byte)));
    for (to, &byte) in to.chunks_mut(per_byte).zip(packed) {
        to.copy_from_slice(&elements[usize::from(byte)][..to.len()]);
    }
}

/// Elements of 2 or 4 bits, side by side; what lies above them in a byte does not count.
pub(crate) fn pack(dtype: DType, from: &[u8], to: &mut [u8]) {
    let bits = dtype.bits();
    let low = (1u8 << bits) - 1;
    for (to, from) in to.iter_mut().zip(from.chunks(8 / bits as usize)) {
        *to = from.iter().rev().fold(0, |byte, &element| byte << bits | element & low);
    }
}

/// Bytes of an array with each element in bytes of its own; `None` if too many to address.
pub(crate) fn byte_count(dtype: DType, dims: &[usize]) -> Option<usize> {
    dims.iter().try_fold(dtype.size_bytes(), |n, &d| n.checked_mul(d)).filter(|&n| isize::try_from(n).is_ok())
}

/// Whether an address is one that elements of a type may lie at.
pub(crate) fn is_aligned(start: *const u8, dtype: DType) -> bool {
    (start as usize).is_multiple_of(dtype.size_bytes().next_power_of_two())
}

/// Whether bytes of a caller may differ from ours for equal elements: those of types smaller than a byte.
pub(crate) fn has_spare_bits(dtype: DType) -> bool {
    dtype.bits() < 8
}

/// Makes each byte the one our kernels know for its element: callers leave the bits above a small element as they are.
fn fill_spare_bits(dtype: DType, bytes: &mut [u8]) {
    if !has_spare_bits(dtype) {
        return;
    }
    let spare = 8 - dtype.bits();
    for byte in bytes {
        *byte = if dtype.is_bool() {
            u8::from(*byte != 0)
        } else if dtype.is_signed_integer() {
            (((*byte << spare) as i8) >> spare) as u8
        } else {
            (*byte << spare) >> spare
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_blocks_are_kept_and_reused() {
        let memory = Arena::new();
        let first = memory.allocate(1 << 20).unwrap();
        let address = first.pointer();
        assert_eq!(address as usize % ALIGN, 0);
        assert!(first.bytes().iter().all(|&byte| byte == 0));
        drop(first);
        let second = memory.allocate((1 << 20) - 100).unwrap();
        assert_eq!(second.pointer(), address);
        drop(second);
        memory.trim();
        assert_eq!(memory.kept.lock().unwrap().bytes, 0);
    }

    #[test]
    fn an_array_holds_a_copy() {
        let memory = Arena::new();
        let literal = Literal::new(DType::I32, [2], vec![1, 0, 0, 0, 2, 0, 0, 0]).unwrap();
        let array = Array::from_literal(&memory, &literal).unwrap();
        assert_eq!(array.to_literal(), literal);
        let other = array.clone();
        let array = array.into_own_storage().unwrap_err();
        drop(other);
        assert!(array.into_own_storage().is_ok());
    }

    #[test]
    fn memory_of_a_caller_is_copied_where_elements_cannot_lie() {
        let memory = Arena::new();
        let bytes: Vec<u8> = (0..64).collect();
        let start = (0..16).find(|&n| is_aligned(bytes[n..].as_ptr(), DType::C128)).unwrap();
        for (offset, is_kept) in [(0, true), (4, false), (8, false), (1, false)] {
            let at = NonNull::from(&bytes[start + offset]);
            // SAFETY: the bytes outlive the array, and nobody writes to them.
            let storage = unsafe { Storage::foreign(at, 16, Box::new(())) };
            let array = Array::new(DType::C128, vec![1], Arc::new(storage)).aligned(&memory).unwrap();
            assert_eq!(array.bytes(), &bytes[start + offset..][..16]);
            assert!(is_aligned(array.storage().pointer(), DType::C128));
            assert_eq!(array.storage().pointer().cast_const() == at.as_ptr().cast_const(), is_kept, "at {offset}");
        }
    }

    #[test]
    fn bits_above_a_small_element_do_not_count() {
        let memory = Arena::new();
        let check = |dtype, given: [u8; 3], kept: [u8; 3]| {
            let array = Array::from_bytes(&memory, dtype, vec![3], &given).unwrap();
            assert_eq!(array.to_literal().bytes(), kept, "{dtype}");
        };
        check(DType::I4, [0x0f, 0x17, 0xf8], [0xff, 0x07, 0xf8]);
        check(DType::I2, [0x03, 0x01, 0x0e], [0xff, 0x01, 0xfe]);
        check(DType::U4, [0xff, 0x17, 0x08], [0x0f, 0x07, 0x08]);
        check(DType::F4E2M1FN, [0xff, 0x17, 0x08], [0x0f, 0x07, 0x08]);
        check(DType::Bool, [0x60, 0x01, 0x00], [1, 1, 0]);
        check(DType::U8, [0x60, 0xff, 0x00], [0x60, 0xff, 0x00]);
    }
}
