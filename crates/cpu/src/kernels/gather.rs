//! `gather`: windows of an array, copied from places that index vectors name.
#![allow(unsafe_code)]

use std::ops::Range;

use tensor::DType;

use super::Cores;
use super::copy::index::IndexType;
use super::copy::runs::{self, Level, Store};
use super::copy::starts::{Bounds, Component, Shapes, Starts, numbers, others};
use super::copy::walk::{Dim, Walk};
use super::copy::{self, Address, Side, dense_strides};
use crate::footprint::{Footprint, Written};

/// Index vectors handled together: their places fit the nearest cache.
const BLOCK: usize = 256;
/// The same where every block costs a pass over the operand.
const LONG_BLOCK: usize = 8192;
/// Result bytes below which the work stays on the calling thread.
const PARALLEL_BYTES: usize = 128 << 10;
/// Result bytes from which stores go around the caches.
const STREAM_BYTES: usize = 8 << 20;
/// Windows ahead that are asked for early.
const AHEAD: usize = 2;

/// The dimension numbers of the op.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dims<'a> {
    pub(crate) offset_dims: &'a [i64],
    pub(crate) collapsed_slice_dims: &'a [i64],
    pub(crate) operand_batching_dims: &'a [i64],
    pub(crate) start_indices_batching_dims: &'a [i64],
    pub(crate) start_index_map: &'a [i64],
    pub(crate) index_vector_dim: i64,
}

/// Which loop is inside.
#[derive(Clone, Debug)]
enum Order {
    /// Each window is one run of bytes on both sides.
    Runs { bytes: usize },
    /// Each window is copied whole.
    Windows,
    /// Each window is one element, and those of the result are neighbours.
    Line { unit: usize, index: IndexType, component: Component },
    /// For each element of the window, that of every index vector: windows lie across the rows of the result.
    Elements { unit: usize, window: Vec<Dim>, count: usize },
}

/// A gather of fixed shape, ready to run any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    starts: Starts,
    window: copy::Plan,
    order: Order,
    bytes: usize,
}

impl Plan {
    /// A gather of elements of `width` bytes by indices of type `index`. `None` when the parts do not fit together.
    pub(crate) fn new(
        dims: &Dims<'_>,
        operand: &[usize],
        indices: &[usize],
        index: DType,
        slice_sizes: &[usize],
        width: usize,
    ) -> Option<Plan> {
        let rank = operand.len();
        let collapsed = numbers(dims.collapsed_slice_dims, rank)?;
        let batching = numbers(dims.operand_batching_dims, rank)?;
        let window = others(rank, &[&collapsed, &batching]);
        let batch_rank = (0..indices.len()).filter(|&d| d as i64 != dims.index_vector_dim).count();
        let result_rank = batch_rank + dims.offset_dims.len();
        let offset_dims = numbers(dims.offset_dims, result_rank)?;
        let batch_dims = others(result_rank, &[&offset_dims]);
        // A dropped dimension stands for exactly one element of the operand.
        let single = collapsed.iter().chain(&batching).all(|&d| slice_sizes.get(d) == Some(&1));
        let fits = slice_sizes.len() == rank && slice_sizes.iter().zip(operand).all(|(slice, size)| slice <= size);
        if !single || !fits || window.len() != offset_dims.len() || batch_dims.len() != batch_rank {
            return None;
        }
        let mut result = vec![0; result_rank];
        offset_dims.iter().zip(&window).for_each(|(&d, &w)| result[d] = slice_sizes[w]);
        let batch_sizes = (0..indices.len()).filter(|&d| d as i64 != dims.index_vector_dim).map(|d| indices[d]);
        batch_dims.iter().zip(batch_sizes).for_each(|(&d, size)| result[d] = size);
        let (from, to) = (dense_strides(operand), dense_strides(&result));
        let other: Vec<isize> = batch_dims.iter().map(|&d| to[d]).collect();
        let starts = Starts::new(&Shapes {
            operand,
            indices,
            index,
            vector_dim: dims.index_vector_dim,
            addresses: dims.start_index_map,
            operand_batching: dims.operand_batching_dims,
            indices_batching: dims.start_indices_batching_dims,
            window: slice_sizes,
            other: &other,
            width,
        })?;
        let sizes: Vec<usize> = window.iter().map(|&w| slice_sizes[w]).collect();
        let side = |strides: Vec<isize>| Side { offset: 0, strides };
        let window = copy::Plan::new(
            &sizes,
            &side(window.iter().map(|&w| from[w]).collect()),
            &side(offset_dims.iter().map(|&d| to[d]).collect()),
            width,
        );
        let bytes = starts.count().checked_mul(window.bytes())?;
        let order = Order::of(&window, &starts);
        Some(Plan { starts, window, order, bytes })
    }

    /// What it touches: operand, indices, result. Starts are clamped, whatever the indices say.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        if self.bytes == 0 {
            return Some(Footprint { reads: vec![0, 0], writes: vec![Written::Whole(0)] });
        }
        let moves = |component: &Component| isize::try_from(component.last).ok()?.checked_mul(component.stride);
        let operand = self.starts.operand_moves(moves)?.checked_add(self.window.reads()?)?;
        let result = self.window.covers(&self.starts.other_dims())?;
        Some(Footprint {
            reads: vec![operand, self.starts.index_reads()?],
            writes: vec![Written::Whole(Some(result).filter(|&bytes| bytes == self.bytes)?)],
        })
    }

    /// Gathers into `to`, on all threads when it is worth it. Starts are clamped so that windows lie in the operand.
    ///
    /// # Safety
    /// `operand` and `indices` hold arrays of the planned shapes, `to` is writable for the result and overlaps neither.
    pub(crate) unsafe fn run(&self, operand: *const u8, indices: *const u8, to: *mut u8, cores: &Cores) {
        let threads = cores.pool.threads();
        let count = self.starts.count();
        if self.bytes == 0 {
            return;
        }
        let (operand, indices, to) = (Address::new(operand), Address::new(indices), Address::new(to));
        let positions = match &self.order {
            Order::Elements { count, .. } => *count,
            _ => 1,
        };
        if threads < 2 || self.bytes < PARALLEL_BYTES {
            // SAFETY: the caller's promise.
            return unsafe { self.part(operand, indices, to, 0..count, 0..positions, cores) };
        }
        let tasks = threads * 4;
        let bound = |n: usize, t: usize| (n as u128 * t as u128 / tasks as u128) as usize;
        if count >= tasks * 2 {
            cores.pool.run(tasks, &|_, t| {
                let range = bound(count, t)..bound(count, t + 1);
                // SAFETY: the caller's promise; tasks write the windows of different index vectors.
                unsafe { self.part(operand, indices, to, range, 0..positions, cores) };
            });
        } else if positions >= tasks {
            cores.pool.run(tasks, &|_, t| {
                let range = bound(positions, t)..bound(positions, t + 1);
                // SAFETY: the caller's promise; tasks write different elements of the windows.
                unsafe { self.part(operand, indices, to, 0..count, range, cores) };
            });
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.part(operand, indices, to, 0..count, 0..positions, cores) }
        }
    }

    /// Gathers the windows of some index vectors, and of each the elements in a range of positions.
    ///
    /// # Safety
    /// As `run`.
    unsafe fn part(
        &self,
        operand: Address,
        indices: Address,
        to: Address,
        vectors: Range<usize>,
        positions: Range<usize>,
        cores: &Cores,
    ) {
        let (operand, to) = (operand.get().cast_const(), to.get());
        let level = Level::of(&cores.machine);
        let store = if self.bytes >= STREAM_BYTES { Store::Streaming } else { Store::Cached };
        let store = store.on(&cores.machine);
        if let Order::Line { unit, index, component } = self.order {
            // SAFETY: the caller's promise; places are clamped.
            return unsafe { line(level, unit, index, component, operand, indices.get(), to, vectors) };
        }
        let (mut near_froms, mut near_tos) = ([0isize; BLOCK], [0isize; BLOCK]);
        let (mut far_froms, mut far_tos) = (Vec::new(), Vec::new());
        // Each position of the windows passes over the operand once per block: with many, blocks are long.
        let (block, froms, tos) = if positions.len() > 1 && vectors.len() > BLOCK {
            far_froms.resize(vectors.len().min(LONG_BLOCK), 0);
            far_tos.resize(vectors.len().min(LONG_BLOCK), 0);
            (LONG_BLOCK, &mut far_froms[..], &mut far_tos[..])
        } else {
            (BLOCK, &mut near_froms[..], &mut near_tos[..])
        };
        let mut start = vectors.start;
        while start < vectors.end {
            let end = vectors.end.min(start + block);
            let n = end - start;
            let (froms, tos) = (&mut froms[..n], &mut tos[..n]);
            // SAFETY: the caller's promise; places are clamped, so each window lies in the operand and in the result.
            unsafe {
                self.starts.places(indices.get(), start..end, Bounds::Clamp, froms, tos, level);
                match &self.order {
                    Order::Line { .. } => {}
                    Order::Runs { bytes } => self::windows(level, store, *bytes, operand, froms, to, tos),
                    Order::Windows => {
                        for (&from, &at) in froms.iter().zip(tos.iter()) {
                            self.window.run(operand.wrapping_offset(from), to.wrapping_offset(at), cores);
                        }
                    }
                    Order::Elements { unit, window, .. } => {
                        // Places are far apart and unordered: those of the next position are asked for early.
                        let ahead = window.last().map_or(0, |dim| dim.from);
                        let mut walk = Walk::new(window, positions.start);
                        for _ in positions.clone() {
                            let (from, to) = (operand.wrapping_offset(walk.from()), to.wrapping_offset(walk.to()));
                            elements(*unit, from, froms, to, tos, ahead);
                            walk.step();
                        }
                    }
                }
            }
            start = end;
        }
        runs::finish(store);
    }
}

impl Order {
    fn of(window: &copy::Plan, starts: &Starts) -> Order {
        if let Some(unit @ (1 | 2 | 4 | 8 | 16)) = window.run_bytes() {
            return match starts.line() {
                Some((index, component, step)) if step == unit as isize => Order::Line { unit, index, component },
                _ => Order::Elements { unit, window: Vec::new(), count: 1 },
            };
        }
        if let Some(bytes) = window.run_bytes() {
            return Order::Runs { bytes };
        }
        let batch_inside =
            starts.count() >= 8 && starts.batch().last().is_some_and(|batch| batch.to > 0 && batch.to <= 16);
        match window.units() {
            Some((unit, window)) if batch_inside => {
                let count = window.iter().fold(1, |n: usize, dim| n.saturating_mul(dim.count));
                Order::Elements { unit, window, count }
            }
            _ => Order::Windows,
        }
    }
}

/// Copies one run per window.
///
/// # Safety
/// Every place is that of a readable and a writable run.
unsafe fn windows(
    level: Level,
    store: Store,
    bytes: usize,
    operand: *const u8,
    froms: &[isize],
    to: *mut u8,
    tos: &[isize],
) {
    for (i, (&from, &at)) in froms.iter().zip(tos).enumerate() {
        if let Some(&ahead) = froms.get(i + AHEAD) {
            runs::prefetch_run(operand.wrapping_offset(ahead), bytes.min(1024));
        }
        // SAFETY: the caller's promise.
        unsafe { runs::run(level, store, operand.wrapping_offset(from), to.wrapping_offset(at), bytes) };
    }
}

/// Gathers single elements whose places are clamped indices times a distance.
///
/// # Safety
/// As `Plan::run`, for a plan of this order.
#[allow(clippy::too_many_arguments)]
unsafe fn line(
    level: Level,
    unit: usize,
    index: IndexType,
    component: Component,
    operand: *const u8,
    indices: *const u8,
    to: *mut u8,
    vectors: Range<usize>,
) {
    /// # Safety
    /// As `line`, with `T` of the element's width and `I` of the index type.
    unsafe fn each<T: Copy, I: Copy + TryInto<i64>>(
        Component { last, stride, .. }: Component,
        operand: *const u8,
        indices: *const u8,
        to: *mut u8,
        vectors: Range<usize>,
    ) {
        let (indices, to) = (indices.cast::<I>(), to.cast::<T>());
        for i in vectors {
            // SAFETY: a clamped index names an element of the operand.
            unsafe {
                let index = indices.wrapping_add(i).read_unaligned().try_into().unwrap_or(i64::MAX).clamp(0, last);
                let from = operand.wrapping_offset((index as isize).wrapping_mul(stride)).cast::<T>();
                to.wrapping_add(i).write_unaligned(from.read_unaligned());
            }
        }
    }
    /// # Safety
    /// As `line`, with `T` of the element's width.
    unsafe fn of_type<T: Copy>(
        index: IndexType,
        component: Component,
        operand: *const u8,
        indices: *const u8,
        to: *mut u8,
        vectors: Range<usize>,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            match index {
                IndexType::I8 => each::<T, i8>(component, operand, indices, to, vectors),
                IndexType::I16 => each::<T, i16>(component, operand, indices, to, vectors),
                IndexType::I32 => each::<T, i32>(component, operand, indices, to, vectors),
                IndexType::I64 => each::<T, i64>(component, operand, indices, to, vectors),
                IndexType::U8 => each::<T, u8>(component, operand, indices, to, vectors),
                IndexType::U16 => each::<T, u16>(component, operand, indices, to, vectors),
                IndexType::U32 => each::<T, u32>(component, operand, indices, to, vectors),
                IndexType::U64 => each::<T, u64>(component, operand, indices, to, vectors),
            }
        }
    }
    // SAFETY: the caller's promise; places are 32-bit numbers where the vector kernel is taken.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if level == Level::Avx512
            && (unit, index) == (4, IndexType::I32)
            && (component.last as isize).checked_mul(component.stride).is_some_and(|end| end <= i32::MAX as isize)
        {
            return line_avx512(component, operand, indices, to, vectors);
        }
        let _ = level;
        match unit {
            1 => of_type::<u8>(index, component, operand, indices, to, vectors),
            2 => of_type::<u16>(index, component, operand, indices, to, vectors),
            4 => of_type::<u32>(index, component, operand, indices, to, vectors),
            8 => of_type::<u64>(index, component, operand, indices, to, vectors),
            _ => of_type::<u128>(index, component, operand, indices, to, vectors),
        }
    }
}

/// Elements of four bytes by 32-bit indices, sixteen at a time.
///
/// # Safety
/// As `line`, on a machine with AVX-512; the last place is a 32-bit number.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn line_avx512(
    Component { last, stride, .. }: Component,
    operand: *const u8,
    indices: *const u8,
    to: *mut u8,
    vectors: Range<usize>,
) {
    use std::arch::x86_64::*;
    let (zero, last) = (_mm512_setzero_si512(), _mm512_set1_epi32(last as i32));
    let stride = _mm512_set1_epi32(stride as i32);
    let mut at = vectors.start;
    while at < vectors.end {
        let mask = if vectors.end - at >= 16 { !0 } else { (1u16 << (vectors.end - at)) - 1 };
        // SAFETY: the mask keeps to the vectors; a clamped index names an element of the operand.
        unsafe {
            let index = _mm512_maskz_loadu_epi32(mask, indices.cast::<i32>().add(at));
            let place = _mm512_mullo_epi32(_mm512_max_epi32(zero, _mm512_min_epi32(index, last)), stride);
            let value = _mm512_mask_i32gather_epi32::<1>(zero, mask, place, operand.cast());
            _mm512_mask_storeu_epi32(to.cast::<i32>().add(at), mask, value);
        }
        at += 16;
    }
}

/// Copies one element per window.
///
/// # Safety
/// Every place is that of a readable and a writable element of `unit` bytes.
unsafe fn elements(unit: usize, operand: *const u8, froms: &[isize], to: *mut u8, tos: &[isize], ahead: isize) {
    // SAFETY: the caller's promise.
    unsafe {
        match unit {
            1 => elements_as::<u8>(operand, froms, to, tos, ahead),
            2 => elements_as::<u16>(operand, froms, to, tos, ahead),
            4 => elements_as::<u32>(operand, froms, to, tos, ahead),
            8 => elements_as::<u64>(operand, froms, to, tos, ahead),
            _ => elements_as::<u128>(operand, froms, to, tos, ahead),
        }
    }
}

/// # Safety
/// As `elements`, with `T` of the element's width.
unsafe fn elements_as<T: Copy>(operand: *const u8, froms: &[isize], to: *mut u8, tos: &[isize], ahead: isize) {
    let far = ahead.unsigned_abs() >= 64;
    for (&from, &at) in froms.iter().zip(tos) {
        // SAFETY: the caller's promise.
        unsafe {
            let from = operand.wrapping_offset(from);
            if far {
                runs::prefetch(from.wrapping_offset(ahead));
            }
            let value = from.cast::<T>().read_unaligned();
            to.wrapping_offset(at).cast::<T>().write_unaligned(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::copy::tests::{Numbers, all_cores, indices, position};
    use super::*;

    struct Case<'a> {
        dims: Dims<'a>,
        operand: &'a [usize],
        indices: &'a [usize],
        slice_sizes: &'a [usize],
    }

    /// The op as the specification words it, one element at a time.
    fn naive(case: &Case<'_>, from: &[u8], index: &[i64], width: usize) -> Vec<u8> {
        let dims = &case.dims;
        let (rank, vector_dim) = (case.operand.len(), dims.index_vector_dim as usize);
        let batch: Vec<usize> = (0..case.indices.len()).filter(|&d| d != vector_dim).map(|d| case.indices[d]).collect();
        let window: Vec<usize> = (0..rank)
            .filter(|&d| !dims.collapsed_slice_dims.contains(&(d as i64)))
            .filter(|&d| !dims.operand_batching_dims.contains(&(d as i64)))
            .collect();
        let result_rank = batch.len() + window.len();
        let batch_dims: Vec<usize> = (0..result_rank).filter(|&d| !dims.offset_dims.contains(&(d as i64))).collect();
        let mut sizes = vec![0; result_rank];
        batch_dims.iter().zip(&batch).for_each(|(&d, &size)| sizes[d] = size);
        dims.offset_dims.iter().zip(&window).for_each(|(&d, &w)| sizes[d as usize] = case.slice_sizes[w]);
        let mut result = Vec::new();
        for at in indices(&sizes) {
            let mut place = vec![0usize; rank];
            for (component, &d) in dims.start_index_map.iter().enumerate() {
                let mut vector: Vec<usize> = batch_dims.iter().map(|&d| at[d]).collect();
                vector.insert(vector_dim, component);
                vector.truncate(case.indices.len());
                let last = (case.operand[d as usize] - case.slice_sizes[d as usize]) as i64;
                place[d as usize] = index[position(&vector, case.indices)].clamp(0, last) as usize;
            }
            for (&operand, &i) in dims.operand_batching_dims.iter().zip(dims.start_indices_batching_dims) {
                let i = i as usize - usize::from(i as usize > vector_dim);
                place[operand as usize] += at[batch_dims[i]];
            }
            for (&d, &w) in dims.offset_dims.iter().zip(&window) {
                place[w] += at[d as usize];
            }
            let at = position(&place, case.operand) * width;
            result.extend_from_slice(&from[at..at + width]);
        }
        result
    }

    fn check(case: &Case<'_>) {
        let mut numbers = Numbers(7);
        let cores = all_cores();
        let count = case.indices.iter().product::<usize>();
        let index: Vec<i64> = (0..count).map(|_| numbers.below(14) as i64 - 3).collect();
        for (width, dtype) in [(1, DType::I8), (2, DType::I16), (4, DType::I32), (8, DType::I64), (16, DType::I32)] {
            let from = numbers.bytes(case.operand.iter().product::<usize>() * width);
            let expected = naive(case, &from, &index, width);
            let plan =
                Plan::new(&case.dims, case.operand, case.indices, dtype, case.slice_sizes, width).expect("it fits");
            let size = dtype.size_bytes();
            let stored: Vec<u8> = index.iter().flat_map(|i| i.to_le_bytes()[..size].to_vec()).collect();
            for cores in &cores {
                let mut to = vec![0xa5; expected.len() + 64];
                // SAFETY: the arrays have the planned shapes.
                unsafe { plan.run(from.as_ptr(), stored.as_ptr(), to.as_mut_ptr(), cores) };
                assert!(to[..expected.len()] == expected, "{:?} of {width} on {:?}", case.dims, cores.machine);
                assert!(to[expected.len()..].iter().all(|&byte| byte == 0xa5));
            }
        }
    }

    const PLAIN: Dims<'_> = Dims {
        offset_dims: &[],
        collapsed_slice_dims: &[],
        operand_batching_dims: &[],
        start_indices_batching_dims: &[],
        start_index_map: &[0],
        index_vector_dim: 1,
    };

    #[test]
    fn gathers() {
        let rows = Dims { offset_dims: &[1], collapsed_slice_dims: &[0], ..PLAIN };
        check(&Case { dims: rows, operand: &[9, 37], indices: &[5, 1], slice_sizes: &[1, 37] });
        check(&Case { dims: rows, operand: &[9, 37], indices: &[5], slice_sizes: &[1, 37] });
        check(&Case { dims: rows, operand: &[9, 37], indices: &[5], slice_sizes: &[1, 20] });
        check(&Case { dims: rows, operand: &[9, 37], indices: &[0], slice_sizes: &[1, 37] });
        check(&Case { dims: rows, operand: &[9, 37], indices: &[5], slice_sizes: &[1, 0] });
        check(&Case { dims: rows, operand: &[9, 700], indices: &[300], slice_sizes: &[1, 700] });
        let columns = Dims { offset_dims: &[0], collapsed_slice_dims: &[1], start_index_map: &[1], ..PLAIN };
        check(&Case { dims: columns, operand: &[5, 9], indices: &[20, 1], slice_sizes: &[5, 1] });
        check(&Case { dims: columns, operand: &[900, 9], indices: &[33, 1], slice_sizes: &[900, 1] });
        let elements = Dims { collapsed_slice_dims: &[0], ..PLAIN };
        check(&Case { dims: elements, operand: &[9], indices: &[700, 1], slice_sizes: &[1] });
        let scalar = Dims { offset_dims: &[0], index_vector_dim: 0, ..PLAIN };
        check(&Case { dims: scalar, operand: &[9], indices: &[1], slice_sizes: &[4] });
        let scalar = Dims { offset_dims: &[0], collapsed_slice_dims: &[0], index_vector_dim: 0, ..PLAIN };
        check(&Case { dims: scalar, operand: &[9, 4], indices: &[], slice_sizes: &[1, 4] });
        let windows = Dims { offset_dims: &[1, 2], start_index_map: &[1, 0], ..PLAIN };
        check(&Case { dims: windows, operand: &[6, 7], indices: &[4, 2], slice_sizes: &[2, 3] });
        let outside = Dims { offset_dims: &[0, 2], start_index_map: &[1, 0], index_vector_dim: 0, ..PLAIN };
        check(&Case { dims: outside, operand: &[6, 7], indices: &[2, 12], slice_sizes: &[2, 3] });
        let between = Dims {
            offset_dims: &[1],
            collapsed_slice_dims: &[1],
            start_index_map: &[0, 1],
            index_vector_dim: 1,
            ..PLAIN
        };
        check(&Case { dims: between, operand: &[6, 7], indices: &[3, 2, 4], slice_sizes: &[2, 1] });
        let batched = Dims {
            offset_dims: &[2],
            collapsed_slice_dims: &[1],
            operand_batching_dims: &[0],
            start_indices_batching_dims: &[0],
            start_index_map: &[1],
            index_vector_dim: 2,
        };
        check(&Case { dims: batched, operand: &[4, 6, 5], indices: &[4, 3, 1], slice_sizes: &[1, 1, 5] });
        let batched = Dims { start_indices_batching_dims: &[1], ..batched };
        check(&Case { dims: batched, operand: &[4, 6, 5], indices: &[3, 4, 1], slice_sizes: &[1, 1, 5] });
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let rows = Dims { offset_dims: &[1], collapsed_slice_dims: &[0], ..PLAIN };
        let refused = |operand: &[usize], indices: &[usize], index, sizes: &[usize]| {
            assert!(Plan::new(&rows, operand, indices, index, sizes, 4).is_none());
        };
        refused(&[9, 7], &[5, 1], DType::I32, &[1, 8]);
        refused(&[9, 7], &[5, 1], DType::I32, &[0, 7]);
        refused(&[9, 7], &[5, 2], DType::I32, &[1, 7]);
        refused(&[9, 7], &[5, 1], DType::F32, &[1, 7]);
        refused(&[0, 7], &[5, 1], DType::I32, &[1, 7]);
    }
}
