//! The rows of a sort: which items to make of each, and where its elements go.
#![allow(unsafe_code)]

use std::cell::Cell;

use super::keys::{Inverter, Order, Seen};
use super::permute::{counts_from_zero, permute};
use super::radix::{self, Item, Packed, Placed};
use super::{Sort, Ties, merge};
use crate::kernels::Cores;
use crate::kernels::machine::Machine;
use crate::kernels::wide::{WideLoop, wide_loop};

/// Elements below which threads are not worth waking.
const FEW: usize = 1 << 12;
/// Length from which all threads share each row when there are too few rows for all.
const LONG: usize = 1 << 15;

/// Pointers of the operands, shared by the threads, which write different rows.
struct Arrays<'a> {
    reads: &'a [*const u8],
    writes: &'a [*mut u8],
}
// SAFETY: threads write different rows.
unsafe impl Sync for Arrays<'_> {}

/// Who sorts a row.
#[derive(Clone, Copy)]
enum Help<'a> {
    Alone(&'a Cores),
    All(&'a Cores),
}

impl Help<'_> {
    fn machine(&self) -> &Machine {
        let (Help::Alone(cores) | Help::All(cores)) = self;
        &cores.machine
    }
}

/// # Safety
/// As for [`Sort::run`].
pub(super) unsafe fn run(sort: &Sort, reads: &[*const u8], writes: &[*mut u8], cores: &Cores) {
    let rows = sort.outer * sort.inner;
    let total = rows * sort.length;
    if total == 0 {
        return;
    }
    if sort.length == 1 {
        for ((read, write), dtype) in reads.iter().zip(writes).zip(&sort.dtypes) {
            // SAFETY: the arrays have `total` elements and do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(*read, *write, total * dtype.size_bytes()) };
        }
        return;
    }
    let arrays = Arrays { reads, writes };
    let threads = cores.pool.threads();
    if total < FEW || threads == 1 {
        // SAFETY: the rows are those of the arrays.
        (0..rows).for_each(|row| unsafe { sort_row(sort, &arrays, row, Help::Alone(cores)) });
    } else if rows < threads && sort.length >= LONG {
        // SAFETY: as above.
        (0..rows).for_each(|row| unsafe { sort_row(sort, &arrays, row, Help::All(cores)) });
    } else {
        let tasks = rows.min(4 * threads);
        let arrays = &arrays;
        cores.pool.run(tasks, &|_, task| {
            for row in rows * task / tasks..rows * (task + 1) / tasks {
                // SAFETY: as above; each row is in one task.
                unsafe { sort_row(sort, arrays, row, Help::Alone(cores)) };
            }
        });
    }
}

thread_local! {
    static MEMORY: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// Two slices of items in memory that this thread keeps; what is in them is left from earlier uses.
fn with_items<T: Item, R>(length: usize, use_them: impl FnOnce(&mut [T], &mut [T]) -> R) -> R {
    const { assert!(align_of::<T>() <= align_of::<u64>()) };
    let words = (length * size_of::<T>()).div_ceil(size_of::<u64>());
    let mut memory = MEMORY.take();
    if memory.len() < 2 * words {
        memory.resize(2 * words, 0);
    }
    let (items, spare) = memory[..2 * words].split_at_mut(words);
    // SAFETY: items are plain integers, for which any bits will do, and each part holds `length` of them, aligned.
    let result = unsafe {
        use_them(
            std::slice::from_raw_parts_mut(items.as_mut_ptr().cast(), length),
            std::slice::from_raw_parts_mut(spare.as_mut_ptr().cast(), length),
        )
    };
    MEMORY.set(memory);
    result
}

fn sorted<'a, T: Item>(items: &'a mut [T], spare: &'a mut [T], bits: u32, help: Help<'_>) -> &'a mut [T] {
    match help {
        Help::Alone(_) => radix::sort(items, spare, bits),
        Help::All(cores) => radix::sort_shared(items, spare, bits, cores),
    }
}

/// # Safety
/// `row` is a row of the arrays, and no one else writes it.
unsafe fn sort_row(sort: &Sort, arrays: &Arrays<'_>, row: usize, help: Help<'_>) {
    let base = row / sort.inner * sort.length * sort.inner + row % sort.inner;
    let place = (base, sort.inner, sort.length);
    if let Some(order) = &sort.order {
        // SAFETY: the row is the caller's.
        let is_done = unsafe {
            let (groups, bits) = (order.groups(), order.bits(0));
            let only = sort.dtypes.len() == 1 && order.invertible() == Some(0);
            let alone = |narrow: bool| match narrow {
                true => by_keys::<u32>(sort, order, arrays, place, help),
                false => by_keys::<u64>(sort, order, arrays, place, help),
            };
            only && alone(bits <= 32)
                || if groups == 1 && bits <= 32 {
                    by_packed(sort, order, arrays, place, help)
                } else {
                    by_placed(sort, order, arrays, place, help)
                }
        };
        if is_done {
            return;
        }
    }
    if let Some(comparator) = &sort.comparator {
        // SAFETY: the row is the caller's.
        unsafe {
            let order = merge::sort(comparator, &sort.dtypes, arrays.reads, base, sort.inner, sort.length);
            write_all(sort, arrays, place, |i| order[i] as usize);
        }
    }
}

trait KeyItem: Item {
    fn of(key: u64) -> Self;
}

impl KeyItem for u32 {
    fn of(key: u64) -> u32 {
        key as u32
    }
}

impl KeyItem for u64 {
    fn of(key: u64) -> u64 {
        key
    }
}

/// Sorts the keys of the only operand and makes its elements of them; not done where elements differ from their keys.
///
/// # Safety
/// As for [`sort_row`].
unsafe fn by_keys<T: KeyItem>(
    sort: &Sort,
    order: &Order,
    arrays: &Arrays<'_>,
    (base, stride, length): (usize, usize, usize),
    help: Help<'_>,
) -> bool {
    with_items(length, |items: &mut [T], spare| {
        let out = items.as_mut_ptr();
        // SAFETY: one key for each of the row's `length` elements, as many as items.
        let put = |n: usize, key| unsafe { out.add(n).write(T::of(key)) };
        // SAFETY: the row is the caller's.
        let seen = unsafe { keys(order, arrays, (base, stride, length), put, help) };
        if seen.lossy || seen.unordered {
            return false;
        }
        let items = sorted(items, spare, order.bits(0), help);
        // SAFETY: the row is the caller's, and the width is the type's.
        unsafe { write_keys(order, sort.dtypes[0].size_bytes(), arrays.writes[0], (base, stride), items, help) };
        true
    })
}

/// Gives the key of each element of a row to `put`.
///
/// # Safety
/// As for [`sort_row`].
unsafe fn keys(
    order: &Order,
    arrays: &Arrays<'_>,
    row: (usize, usize, usize),
    put: impl FnMut(usize, u64),
    help: Help<'_>,
) -> Seen {
    struct Keys<'a, P>(&'a Order, &'a [*const u8], (usize, usize, usize), P);
    impl<P: FnMut(usize, u64)> WideLoop for Keys<'_, P> {
        type Output = Seen;

        #[inline(always)]
        fn run(self) -> Seen {
            let Keys(order, reads, (base, stride, length), put) = self;
            // SAFETY: the row is that of the caller of `keys`.
            unsafe { order.keys(0, reads, base, stride, 0..length, put) }
        }
    }
    wide_loop(help.machine(), Keys(order, arrays.reads, row, put))
}

/// Writes the elements that keys were made of.
///
/// # Safety
/// The array has a row of as many elements of this width as there are items.
unsafe fn write_keys<T: Item>(
    order: &Order,
    width: usize,
    write: *mut u8,
    (base, stride): (usize, usize),
    items: &[T],
    help: Help<'_>,
) {
    let inverse = order.inverter();
    struct Elements<'a, T, E, F>(&'a [T], Inverter, *mut E, usize, F);
    impl<T: Item, E, F: Fn(u64) -> E> WideLoop for Elements<'_, T, E, F> {
        type Output = ();

        #[inline(always)]
        fn run(self) {
            let Elements(items, inverse, first, stride, narrow) = self;
            for (i, item) in items.iter().enumerate() {
                // SAFETY: the promise of the caller of `write_keys`.
                unsafe { first.add(i * stride).write(narrow(inverse.element(item.key()))) };
            }
        }
    }
    macro_rules! each {
        ($ty:ty) => {{
            let first = write.cast::<$ty>().wrapping_add(base);
            wide_loop(help.machine(), Elements(items, inverse, first, stride, |element| element as $ty))
        }};
    }
    match width {
        1 => each!(u8),
        2 => each!(u16),
        4 => each!(u32),
        _ => each!(u64),
    }
}

/// Sorts keys of up to 32 bits with their places.
///
/// # Safety
/// As for [`sort_row`].
unsafe fn by_packed(
    sort: &Sort,
    order: &Order,
    arrays: &Arrays<'_>,
    row: (usize, usize, usize),
    help: Help<'_>,
) -> bool {
    let (base, stride, length) = row;
    let at = |n: usize| if order.ties() == Ties::Kept { n } else { length - 1 - n };
    with_items(length, |items: &mut [Packed], spare| {
        let out = items.as_mut_ptr();
        // SAFETY: the row is the caller's; one key for each of its `length` elements, as many as items.
        let put = |n: usize, key: u64| unsafe { out.add(n).write(Packed(key << 32 | n as u64)) };
        // SAFETY: as above.
        let seen = unsafe {
            match order.ties() {
                Ties::Kept => keys(order, arrays, row, put, help),
                Ties::Reversed => order.keys(0, arrays.reads, base, stride, (0..length).rev(), put),
            }
        };
        if seen.unordered {
            return false;
        }
        let items = sorted(items, spare, order.bits(0), help);
        let from_key = order.invertible().filter(|_| !seen.lossy);
        // SAFETY: the places are of the row.
        unsafe {
            if let Some(operand) = from_key {
                let width = sort.dtypes[operand].size_bytes();
                write_keys(order, width, arrays.writes[operand], (base, stride), items, help);
            }
            write_others(sort, arrays, row, from_key, |i| at(items[i].0 as u32 as usize));
        }
        true
    })
}

/// Sorts by keys of any width, the last group of keys first.
///
/// # Safety
/// As for [`sort_row`].
unsafe fn by_placed(
    sort: &Sort,
    order: &Order,
    arrays: &Arrays<'_>,
    row: (usize, usize, usize),
    help: Help<'_>,
) -> bool {
    let (base, stride, length) = row;
    let at = |n: usize| if order.ties() == Ties::Kept { n } else { length - 1 - n };
    let mut places: Vec<u32> = (0..length as u32).collect();
    for group in (0..order.groups()).rev() {
        let is_ordered = with_items(length, |items: &mut [Placed], spare| {
            let (out, from) = (items.as_mut_ptr(), &places);
            let walk = from.iter().map(|&n| at(n as usize));
            // SAFETY: the row is the caller's; one key for each of its `length` elements, as many as items.
            let seen = unsafe {
                order.keys(group, arrays.reads, base, stride, walk, |n, key| {
                    out.add(n).write(Placed { key, place: from[n] });
                })
            };
            if seen.unordered {
                return false;
            }
            let items = sorted(items, spare, order.bits(group), help);
            places.iter_mut().zip(items.iter()).for_each(|(place, item)| *place = item.place);
            true
        });
        if !is_ordered {
            return false;
        }
    }
    // SAFETY: the places are of the row.
    unsafe { write_all(sort, arrays, row, |i| at(places[i] as usize)) };
    true
}

/// # Safety
/// As for [`sort_row`]; every place is in the row.
unsafe fn write_all(sort: &Sort, arrays: &Arrays<'_>, row: (usize, usize, usize), place: impl Fn(usize) -> usize) {
    // SAFETY: the caller's promise.
    unsafe { write_others(sort, arrays, row, None, place) }
}

/// # Safety
/// As for [`sort_row`]; every place is in the row.
unsafe fn write_others(
    sort: &Sort,
    arrays: &Arrays<'_>,
    row: (usize, usize, usize),
    except: Option<usize>,
    place: impl Fn(usize) -> usize,
) {
    let (base, stride, length) = row;
    for (operand, dtype) in sort.dtypes.iter().enumerate() {
        if except == Some(operand) {
            continue;
        }
        let (width, read, write) = (dtype.size_bytes(), arrays.reads[operand], arrays.writes[operand]);
        // SAFETY: the row and the places are the caller's, and the width is the type's.
        unsafe {
            if width == 4 && dtype.is_integer() && counts_from_zero(read.cast(), row) {
                (0..length).for_each(|i| write.cast::<u32>().add(base + i * stride).write(place(i) as u32));
            } else {
                permute(width, read, write, row, &place);
            }
        }
    }
}
