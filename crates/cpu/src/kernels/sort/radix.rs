//! Stable sorting of items by an unsigned key, digit by digit.
#![allow(unsafe_code)]

use crate::kernels::Cores;

/// What is sorted.
pub(super) trait Item: Copy + Default + Send + Sync {
    /// Smaller first.
    fn key(self) -> u64;
    /// Sorts a few items, stably.
    fn sort_few(items: &mut [Self]);
}

/// A key alone.
impl Item for u32 {
    #[inline]
    fn key(self) -> u64 {
        u64::from(self)
    }

    fn sort_few(items: &mut [u32]) {
        items.sort_unstable();
    }
}

/// A key of 32 bits above its place; places are ascending before the sort, so that the item itself is a total order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Packed(pub(super) u64);

impl Item for Packed {
    #[inline]
    fn key(self) -> u64 {
        self.0 >> 32
    }

    fn sort_few(items: &mut [Packed]) {
        items.sort_unstable();
    }
}

/// A key alone.
impl Item for u64 {
    #[inline]
    fn key(self) -> u64 {
        self
    }

    fn sort_few(items: &mut [u64]) {
        items.sort_unstable();
    }
}

/// A key and its place.
#[derive(Clone, Copy, Default)]
pub(super) struct Placed {
    pub(super) key: u64,
    pub(super) place: u32,
}

impl Item for Placed {
    #[inline]
    fn key(self) -> u64 {
        self.key
    }

    fn sort_few(items: &mut [Placed]) {
        items.sort_by_key(|item| item.key);
    }
}

/// Below this many items comparisons are quicker than counting.
const FEW: usize = 192;
/// Bits of a digit: as many streams of writes as the nearest cache keeps.
const WIDTH: u32 = 8;
const SIZE: usize = 1 << WIDTH;
/// From this many on, threads share one sort.
const SHARED: usize = 1 << 15;

/// Sorts items by the low `bits` of their keys; the result is in one of the two slices, which is returned.
pub(super) fn sort<'a, T: Item>(items: &'a mut [T], spare: &'a mut [T], bits: u32) -> &'a mut [T] {
    if items.len() < FEW {
        T::sort_few(items);
        items
    } else {
        by_digits(items, spare, bits)
    }
}

/// Counts of all digits first, then one stable pass for each digit that tells anything apart.
fn by_digits<'a, T: Item>(items: &'a mut [T], spare: &'a mut [T], bits: u32) -> &'a mut [T] {
    const MAX_DIGITS: usize = 8;
    let digits = (bits.div_ceil(WIDTH) as usize).min(MAX_DIGITS);
    let length = items.len();
    let (mut from, mut to) = (items, &mut spare[..length]);
    let mut counts = [[0u32; SIZE]; MAX_DIGITS];
    for item in from.iter() {
        let mut key = item.key();
        for count in &mut counts[..digits] {
            count[key as usize & (SIZE - 1)] += 1;
            key >>= WIDTH;
        }
    }
    for (digit, count) in counts[..digits].iter_mut().enumerate() {
        let shift = digit as u32 * WIDTH;
        let first = (from[0].key() >> shift) as usize & (SIZE - 1);
        if count[first] as usize == length {
            continue;
        }
        let mut sum = 0;
        for place in count.iter_mut() {
            sum += std::mem::replace(place, sum);
        }
        let out = to.as_mut_ptr();
        for &item in from.iter() {
            let place = &mut count[(item.key() >> shift) as usize & (SIZE - 1)];
            // SAFETY: the counts are of these items, so that every place is below their number.
            unsafe { out.add(*place as usize).write(item) };
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    from
}

/// A pointer that threads share; each touches its own part.
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);
// SAFETY: those who use it write disjoint parts.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    /// # Safety
    /// No one else touches the items meanwhile, and they exist.
    unsafe fn part<'a>(self, begin: usize, end: usize) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(begin), end - begin) }
    }
}

/// Sorts with all threads: each a part, then the parts are merged two by two, each merge cut into pieces for the threads.
pub(super) fn sort_shared<'a, T: Item>(
    items: &'a mut [T],
    spare: &'a mut [T],
    bits: u32,
    cores: &Cores,
) -> &'a mut [T] {
    let length = items.len();
    let threads = cores.pool.threads().next_power_of_two();
    if threads < 2 || length < SHARED {
        return sort(items, spare, bits);
    }
    let mut width = length.div_ceil(threads);
    let (mut from, mut to) = (items, &mut spare[..length]);
    let (a, b) = (Shared(from.as_mut_ptr()), Shared(to.as_mut_ptr()));
    cores.pool.run(threads, &|_, task| {
        let (a, b) = (a, b);
        let (begin, end) = ((task * width).min(length), ((task + 1) * width).min(length));
        // SAFETY: parts of different tasks do not overlap.
        let (part, other) = unsafe { (a.part(begin, end), b.part(begin, end)) };
        let home = part.as_ptr();
        let sorted = sort(part, other, bits);
        if !std::ptr::eq(sorted.as_ptr(), home) {
            // SAFETY: as above; the sorted items are in the other slice.
            unsafe { a.part(begin, end) }.copy_from_slice(sorted);
        }
    });
    while width < length {
        let out = Shared(to.as_mut_ptr());
        let source = &*from;
        let pairs = length.div_ceil(2 * width);
        let pieces = threads.div_ceil(pairs).max(1);
        cores.pool.run(pairs * pieces, &|_, task| {
            #[allow(clippy::redundant_locals)] // The closure takes the whole wrapper, not the pointer in it.
            let out = out;
            let (pair, piece) = (task / pieces, task % pieces);
            let begin = pair * 2 * width;
            let (middle, end) = ((begin + width).min(length), (begin + 2 * width).min(length));
            let (left, right) = (&source[begin..middle], &source[middle..end]);
            let total = left.len() + right.len();
            let (first, last) = (total * piece / pieces, total * (piece + 1) / pieces);
            let (i, j) = (split(left, right, first), split(left, right, last));
            // SAFETY: pieces of different tasks do not overlap.
            let to = unsafe { out.part(begin + first, begin + last) };
            merge(&left[i..j], &right[first - i..last - j], to);
        });
        std::mem::swap(&mut from, &mut to);
        width *= 2;
    }
    from
}

/// How many of the first `count` merged items come from `left`.
fn split<T: Item>(left: &[T], right: &[T], count: usize) -> usize {
    let (mut low, mut high) = (count.saturating_sub(right.len()), count.min(left.len()));
    while low < high {
        let middle = (low + high) / 2;
        // `middle` is too few if the next of the left is not after the last taken of the right.
        if left[middle].key() <= right[count - middle - 1].key() {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Merges two sorted slices, the left one first among equals.
fn merge<T: Item>(left: &[T], right: &[T], to: &mut [T]) {
    let (mut i, mut j, mut n) = (0, 0, 0);
    while i < left.len() && j < right.len() {
        let (a, b) = (left[i], right[j]);
        let take_right = b.key() < a.key();
        to[n] = if take_right { b } else { a };
        i += usize::from(!take_right);
        j += usize::from(take_right);
        n += 1;
    }
    let rest = left.len() - i;
    to[n..n + rest].copy_from_slice(&left[i..]);
    to[n + rest..].copy_from_slice(&right[j..]);
}
