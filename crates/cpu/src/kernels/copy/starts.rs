//! Index vectors of gather and scatter, turned into places of the operand.
#![allow(unsafe_code)]

use std::ops::Range;

use tensor::DType;

use super::dense_strides;
use super::index::IndexType;
use super::runs::Level;
use super::walk::{Dim, Walk, merged};
use crate::footprint::product;

/// The place of a window that does not lie within the operand.
pub(crate) const OUTSIDE: isize = isize::MIN;

/// What becomes of a window that does not lie within the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// It is moved to the nearest place within.
    Clamp,
    /// Its place is `OUTSIDE`.
    Check,
}

/// How one component of an index vector moves the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Component {
    /// Operand dimension it addresses.
    pub(crate) dim: usize,
    /// Last start at which the window lies within the operand.
    pub(crate) last: i64,
    /// Bytes of the operand per unit of the index.
    pub(crate) stride: isize,
}

/// The parts of a gather or scatter that say where windows start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shapes<'a> {
    pub(crate) operand: &'a [usize],
    pub(crate) indices: &'a [usize],
    pub(crate) index: DType,
    pub(crate) vector_dim: i64,
    /// Operand dimension each component addresses.
    pub(crate) addresses: &'a [i64],
    pub(crate) operand_batching: &'a [i64],
    pub(crate) indices_batching: &'a [i64],
    /// Size of the window along each operand dimension.
    pub(crate) window: &'a [usize],
    /// Distance on the other side (result or updates) along each batch dimension, in elements.
    pub(crate) other: &'a [isize],
    /// Bytes of an element.
    pub(crate) width: usize,
}

/// Places of windows on both sides, by number of their index vector.
#[derive(Clone, Debug)]
pub(crate) struct Starts {
    index: IndexType,
    components: Vec<Component>,
    /// Elements of the index array after the dimension of the components.
    inner: usize,
    /// Batch dimensions: `from` moves the operand, `to` the other side.
    batch: Vec<Dim>,
    count: usize,
}

/// The dimension numbers as indices below `rank`; `None` when one is not.
pub(crate) fn numbers(dims: &[i64], rank: usize) -> Option<Vec<usize>> {
    dims.iter().map(|&d| usize::try_from(d).ok().filter(|&d| d < rank)).collect()
}

/// Dimensions below `rank` that are in none of the lists.
pub(crate) fn others(rank: usize, lists: &[&[usize]]) -> Vec<usize> {
    (0..rank).filter(|d| !lists.iter().any(|list| list.contains(d))).collect()
}

impl Starts {
    /// `None` when the parts do not fit together.
    pub(crate) fn new(shapes: &Shapes<'_>) -> Option<Starts> {
        let &Shapes { operand, indices, window, width, .. } = shapes;
        let vector_dim = usize::try_from(shapes.vector_dim).ok().filter(|&d| d <= indices.len())?;
        let strides = dense_strides(operand);
        let addresses = numbers(shapes.addresses, operand.len())?;
        if window.len() != operand.len() || indices.get(vector_dim).copied().unwrap_or(1) != addresses.len() {
            return None;
        }
        let bytes = |elements: isize| elements.wrapping_mul(width as isize);
        let component = |&dim: &usize| {
            let last = i64::try_from(operand[dim].checked_sub(window[dim])?).ok()?;
            Some(Component { dim, last, stride: bytes(strides[dim]) })
        };
        let operand_batching = numbers(shapes.operand_batching, operand.len())?;
        let indices_batching = numbers(shapes.indices_batching, indices.len())?;
        let batch_dims = others(indices.len(), &[&[vector_dim]]);
        if batch_dims.len() != shapes.other.len() || operand_batching.len() != indices_batching.len() {
            return None;
        }
        let mut batch = Vec::with_capacity(batch_dims.len());
        for (&d, &other) in batch_dims.iter().zip(shapes.other) {
            let mut dim = Dim { count: indices[d], from: 0, to: bytes(other) };
            for (&along, _) in operand_batching.iter().zip(&indices_batching).filter(|&(_, &i)| i == d) {
                if indices[d] > operand[along] {
                    return None;
                }
                dim.from = dim.from.wrapping_add(bytes(strides[along]));
            }
            batch.push(dim);
        }
        let count = product(&batch.iter().map(|dim| dim.count).collect::<Vec<_>>())?;
        Some(Starts {
            index: IndexType::of(shapes.index)?,
            components: addresses.iter().map(component).collect::<Option<_>>()?,
            inner: indices.iter().skip(vector_dim + 1).fold(1, |n: usize, &size| n.saturating_mul(size)).max(1),
            batch: merged(batch),
            count,
        })
    }

    /// Bytes of the index array up to the last one that is read.
    pub(crate) fn index_reads(&self) -> Option<usize> {
        let (Some(last), Some(rest)) = (self.count.checked_sub(1), self.components.len().checked_sub(1)) else {
            return Some(0);
        };
        // The largest of `first`, by its two parts.
        let rows = (last / self.inner).checked_mul(self.components.len())?.checked_mul(self.inner)?;
        let end = rows.checked_add(last.min(self.inner - 1))?.checked_add(rest.checked_mul(self.inner)?)?;
        end.checked_add(1)?.checked_mul(self.index.bytes())
    }

    /// Bytes by which windows move at most in the operand, by the batch dimensions and by each component up to its `end`.
    /// What an index says beyond that is clamped, or the window is left out.
    pub(crate) fn operand_moves(&self, end: impl Fn(&Component) -> Option<isize>) -> Option<usize> {
        let mut at = 0isize;
        for dim in &self.batch {
            at = at.checked_add(isize::try_from(dim.count.saturating_sub(1)).ok()?.checked_mul(dim.from)?)?;
        }
        for component in &self.components {
            at = at.checked_add(end(component)?)?;
        }
        usize::try_from(at).ok()
    }

    /// Sizes of the batch dimensions, and distances on the other side in bytes.
    pub(crate) fn other_dims(&self) -> Vec<(usize, isize)> {
        self.batch.iter().map(|dim| (dim.count, dim.to)).collect()
    }

    /// Number of index vectors.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn components(&self) -> &[Component] {
        &self.components
    }

    /// Batch dimensions, outermost first: `from` moves the operand, `to` the other side.
    pub(crate) fn batch(&self) -> &[Dim] {
        &self.batch
    }

    /// The one component of each index vector, when vectors have one, lie side by side, and move both sides evenly:
    /// how it moves the operand, and the bytes per vector on the other side.
    pub(crate) fn line(&self) -> Option<(IndexType, Component, isize)> {
        let step = match self.batch[..] {
            [] => 0,
            [Dim { from: 0, to, .. }] => to,
            _ => return None,
        };
        match self.components[..] {
            [component] if self.inner == 1 => Some((self.index, component, step)),
            _ => None,
        }
    }

    /// The component of an index vector, as it stands in the array.
    ///
    /// # Safety
    /// `indices` holds the index array.
    pub(crate) unsafe fn component(&self, indices: *const u8, vector: usize, component: usize) -> i64 {
        let at = self.first(vector) + component * self.inner;
        // SAFETY: an element of the index array.
        unsafe { self.index.read(indices.wrapping_add(at * self.index.bytes())) }
    }

    /// Places of both sides that come from the batch dimensions alone.
    pub(crate) fn batch_place(&self, vector: usize) -> (isize, isize) {
        let walk = Walk::new(&self.batch, vector);
        (walk.from(), walk.to())
    }

    #[inline(always)]
    fn first(&self, vector: usize) -> usize {
        if self.inner == 1 {
            return vector * self.components.len();
        }
        vector / self.inner * (self.components.len() * self.inner) + vector % self.inner
    }

    /// Byte offsets of a range of windows, in the operand and on the other side.
    ///
    /// # Safety
    /// `indices` holds the index array; the slices are as long as the range, which lies below `count`; the machine has
    /// `level`.
    #[allow(clippy::too_many_arguments)]
    pub(crate) unsafe fn places(
        &self,
        indices: *const u8,
        range: Range<usize>,
        bounds: Bounds,
        operand: &mut [isize],
        other: &mut [isize],
        level: Level,
    ) {
        if range.is_empty() {
            return;
        }
        if let [] | [Dim { from: 0, .. }] = self.batch[..] {
            let step = self.batch.first().map_or(0, |dim| dim.to);
            operand.fill(0);
            other.iter_mut().enumerate().for_each(|(i, at)| *at = (range.start + i) as isize * step);
        } else {
            let mut walk = Walk::new(&self.batch, range.start);
            for (operand, other) in operand.iter_mut().zip(other) {
                (*operand, *other) = (walk.from(), walk.to());
                walk.step();
            }
        }
        for component in 0..self.components.len() {
            // SAFETY: the caller's promise; the type is the one the array was planned with.
            unsafe {
                match self.index {
                    IndexType::I8 => self.add::<i8>(indices, range.start, component, bounds, operand, level),
                    IndexType::I16 => self.add::<i16>(indices, range.start, component, bounds, operand, level),
                    IndexType::I32 => self.add::<i32>(indices, range.start, component, bounds, operand, level),
                    IndexType::I64 => self.add::<i64>(indices, range.start, component, bounds, operand, level),
                    IndexType::U8 => self.add::<u8>(indices, range.start, component, bounds, operand, level),
                    IndexType::U16 => self.add::<u16>(indices, range.start, component, bounds, operand, level),
                    IndexType::U32 => self.add::<u32>(indices, range.start, component, bounds, operand, level),
                    IndexType::U64 => self.add::<u64>(indices, range.start, component, bounds, operand, level),
                }
            }
        }
    }

    /// Adds what one component contributes to the places.
    ///
    /// # Safety
    /// As `places`, with indices of type `T`.
    #[allow(clippy::too_many_arguments)]
    unsafe fn add<T: Copy + TryInto<i64>>(
        &self,
        indices: *const u8,
        start: usize,
        component: usize,
        bounds: Bounds,
        places: &mut [isize],
        level: Level,
    ) {
        let Component { last, stride, .. } = self.components[component];
        let indices = indices.cast::<T>();
        if self.inner == 1 {
            let step = self.components.len();
            let line = Line { indices: indices.wrapping_add(start * step + component), step, last, stride };
            // SAFETY: vectors that follow one another, of which the component is at a fixed distance.
            unsafe {
                match (level, bounds) {
                    #[cfg(target_arch = "x86_64")]
                    (Level::Avx512, _) => line.add_avx512(bounds, places),
                    (_, Bounds::Clamp) => line.add::<false>(places),
                    (_, Bounds::Check) => line.add::<true>(places),
                }
            }
            return;
        }
        for (i, place) in places.iter_mut().enumerate() {
            let at = self.first(start + i) + component * self.inner;
            let line = Line { indices: indices.wrapping_add(at), step: 0, last, stride };
            // SAFETY: an element of the index array.
            unsafe {
                match bounds {
                    Bounds::Clamp => line.add::<false>(std::slice::from_mut(place)),
                    Bounds::Check => line.add::<true>(std::slice::from_mut(place)),
                }
            }
        }
    }
}

/// Indices at a fixed distance, and how each moves a place.
struct Line<T> {
    indices: *const T,
    step: usize,
    last: i64,
    stride: isize,
}

impl<T: Copy + TryInto<i64>> Line<T> {
    /// # Safety
    /// There is an index for each place, and the machine has AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn add_avx512(&self, bounds: Bounds, places: &mut [isize]) {
        // SAFETY: the caller's promise.
        unsafe {
            match bounds {
                Bounds::Clamp => self.add::<false>(places),
                Bounds::Check => self.add::<true>(places),
            }
        }
    }

    /// # Safety
    /// There is an index for each place.
    #[inline(always)]
    unsafe fn add<const CHECK: bool>(&self, places: &mut [isize]) {
        if self.step == 1 {
            // SAFETY: the caller's promise.
            return unsafe { self.add_at::<CHECK>(places, 1) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.add_at::<CHECK>(places, self.step) }
    }

    /// # Safety
    /// There is an index for each place.
    #[inline(always)]
    unsafe fn add_at<const CHECK: bool>(&self, places: &mut [isize], step: usize) {
        for (i, place) in places.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let index = unsafe { self.indices.wrapping_add(i * step).read_unaligned() }.try_into().unwrap_or(i64::MAX);
            let within = index.clamp(0, self.last);
            let moved = place.wrapping_add((within as isize).wrapping_mul(self.stride));
            *place = if CHECK && ((index != within) | (*place == OUTSIDE)) { OUTSIDE } else { moved };
        }
    }
}
