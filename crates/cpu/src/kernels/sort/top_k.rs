//! The largest elements of each row, largest first.
#![allow(unsafe_code)]

use std::ops::Range;

use tensor::DType;

use super::keys::Order;
use super::{Direction, Key, Nans, SortOrder, Ties, Transform};
use crate::footprint::{Footprint, Written, product};
use crate::kernels::Cores;
use crate::kernels::wide::{WideLoop, wide_loop};

/// Elements that are passed over together where none is large enough.
const CHUNK: usize = 128;
/// Elements below which threads are not worth waking.
const FEW: usize = 1 << 13;

/// The `k` largest of each row by `totalOrder`, equal ones in the order they have.
#[derive(Clone, Debug)]
pub(crate) struct TopK {
    rows: usize,
    length: usize,
    k: usize,
    dtype: DType,
    order: Order,
}

struct Arrays {
    operand: *const u8,
    values: *mut u8,
    indices: *mut i32,
}
// SAFETY: threads write different rows.
unsafe impl Sync for Arrays {}

impl TopK {
    /// A search in `rows` rows of `length` elements; `None` for types without order.
    pub(crate) fn new(rows: usize, length: usize, k: usize, dtype: DType) -> Option<TopK> {
        i32::try_from(length).ok()?;
        rows.checked_mul(length)?;
        let key = Key { operand: 0, transform: Transform::None, direction: Direction::Descending, nans: Nans::Ordered };
        let order = Order::new(SortOrder { keys: vec![key], ties: Ties::Kept }, &[dtype])?;
        (k <= length).then_some(TopK { rows, length, k, dtype, order })
    }

    /// What it touches: operand, the largest values and their places.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let bytes = |length: usize, width: usize| product(&[self.rows, length, width]);
        let width = self.dtype.size_bytes();
        let results = [bytes(self.k, width)?, bytes(self.k, size_of::<i32>())?];
        Some(Footprint { reads: vec![bytes(self.length, width)?], writes: results.map(Written::Whole).to_vec() })
    }

    /// Searches.
    ///
    /// # Safety
    /// `operand` points to `rows · length` elements, `values` and `indices` to `rows · k` elements that overlap nothing.
    pub(crate) unsafe fn run(&self, operand: *const u8, values: *mut u8, indices: *mut i32, cores: &Cores) {
        let arrays = Arrays { operand, values, indices };
        if self.k == 0 {
            return;
        }
        if self.rows * self.length < FEW {
            // SAFETY: the rows are those of the arrays.
            unsafe { self.search_wide(&arrays, 0..self.rows, cores) };
            return;
        }
        let tasks = self.rows.min(4 * cores.pool.threads());
        let arrays = &arrays;
        cores.pool.run(tasks, &|_, task| {
            let rows = self.rows * task / tasks..self.rows * (task + 1) / tasks;
            // SAFETY: as above; each row is in one task.
            unsafe { self.search_wide(arrays, rows, cores) };
        });
    }

    /// # Safety
    /// As for [`TopK::search`].
    unsafe fn search_wide(&self, arrays: &Arrays, rows: Range<usize>, cores: &Cores) {
        struct Search<'a>(&'a TopK, &'a Arrays, Range<usize>);
        impl WideLoop for Search<'_> {
            type Output = ();

            #[inline(always)]
            fn run(self) {
                // SAFETY: the promise of the caller of `search_wide`.
                unsafe { self.0.search(self.1, self.2.start, self.2.end) }
            }
        }
        wide_loop(&cores.machine, Search(self, arrays, rows));
    }

    /// # Safety
    /// The rows are those of the arrays, and no one else writes them.
    #[inline(always)]
    unsafe fn search(&self, arrays: &Arrays, begin: usize, end: usize) {
        // Keys of 64 bits leave no room for the place beside them.
        // SAFETY: the caller's promise.
        unsafe {
            if self.order.bits(0) <= 32 {
                self.rows_of::<u64>(
                    arrays,
                    begin,
                    end,
                    |key, place| key << 32 | u64::from(place),
                    |item| (item >> 32, item as u32),
                );
            } else {
                self.rows_of::<u128>(
                    arrays,
                    begin,
                    end,
                    |key, place| u128::from(key) << 32 | u128::from(place),
                    |item| ((item >> 32) as u64, item as u32),
                );
            }
        }
    }

    /// Keeps candidates no larger than the worst of the best `k` so far; when there are twice as many, the worse half goes.
    ///
    /// # Safety
    /// As for [`TopK::search`].
    #[inline(always)]
    unsafe fn rows_of<T: Copy + Ord>(
        &self,
        arrays: &Arrays,
        begin: usize,
        end: usize,
        pack: impl Fn(u64, u32) -> T,
        unpack: impl Fn(T) -> (u64, u32),
    ) {
        let (k, length) = (self.k, self.length);
        let room = (2 * k).max(k + 64);
        let mut best: Vec<T> = Vec::with_capacity(room.min(length));
        for row in begin..end {
            best.clear();
            let mut limit = u64::MAX;
            let mut begin = 0;
            let mut keys = [0u64; CHUNK];
            while begin < length {
                let end = (begin + CHUNK).min(length);
                let out = keys.as_mut_ptr();
                // SAFETY: the row has `length` elements, and a chunk has at most as many as there are keys.
                unsafe {
                    self.order.keys(0, &[arrays.operand], row * length, 1, begin..end, |n, key| out.add(n).write(key))
                };
                let keys = &keys[..end - begin];
                // An equal key further on is not among the first `k` once there are that many.
                if best.len() < k || keys.iter().fold(false, |any, &key| any | (key < limit)) {
                    for (n, &key) in keys.iter().enumerate() {
                        if key < limit || best.len() < k {
                            best.push(pack(key, (begin + n) as u32));
                        }
                        if best.len() == room {
                            best.select_nth_unstable(k - 1);
                            best.truncate(k);
                            limit = unpack(best[k - 1]).0;
                        }
                    }
                }
                begin = end;
            }
            if best.len() > k {
                best.select_nth_unstable(k - 1);
                best.truncate(k);
            }
            best.sort_unstable();
            for (n, &item) in best.iter().enumerate() {
                let place = unpack(item).1;
                let (to, from) = (row * k + n, row * length + place as usize);
                let width = self.dtype.size_bytes();
                // SAFETY: both elements are of the row.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        arrays.operand.add(from * width),
                        arrays.values.add(to * width),
                        width,
                    );
                    arrays.indices.add(to).write(place as i32);
                }
            }
        }
    }
}
