//! The gradient of a maximum over windows: each window adds its source to its first largest element.
//!
//! Windows are taken in lines of lanes: the columns of the dimensions that no window extends over, or where there are
//! none, windows side by side along the last dimension. A line finds the chosen tap of every lane first and then meets
//! the taps once more to add.
#![allow(unsafe_code)]

use super::{Arrays, SelectAndScatter, dense_strides};
use crate::kernels::window::advance;

/// A type whose windows are searched for the largest.
pub(super) trait Number: Copy {
    /// Whether an element stays selected when `next` comes.
    fn keeps(self, next: Self) -> bool;
    fn plus(self, other: Self) -> Self;
}

macro_rules! float {
    ($t:ty) => {
        impl Number for $t {
            #[inline(always)]
            fn keeps(self, next: $t) -> bool {
                self >= next
            }
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }
        }
    };
}
float!(f32);
float!(f64);

/// How often an element may be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meets {
    /// By one window at most: what it gets is known when the window is.
    Once,
    /// By windows that overlap: sums grow in place.
    Often,
}

/// Where the windows of an item lie. Sizes and strides are those of its active dimensions: behind the leading ones and
/// before the columns.
#[derive(Clone, Debug)]
pub(super) struct Pooling {
    dims: Vec<usize>,
    source: Vec<usize>,
    window: Vec<usize>,
    strides: Vec<usize>,
    low: Vec<i64>,
    /// Elements from one index to the next of every active dimension.
    steps: Vec<usize>,
    /// Elements of an item, and of its source.
    size: usize,
    source_size: usize,
    /// Lanes of one window.
    columns: usize,
    meets: Meets,
    /// Whether windows of one meeting each lie side by side and cover everything.
    covers: bool,
}

/// The pointers of one item.
#[derive(Clone, Copy)]
struct Item<T> {
    operand: *const T,
    source: *const T,
    write: *mut T,
    init: T,
    meets: Meets,
}

/// Lanes side by side: `count` windows that are `step` elements apart.
#[derive(Clone, Copy)]
struct Line {
    /// The first window's first element, and its source.
    at: usize,
    source: usize,
    count: usize,
    step: usize,
}

impl Pooling {
    pub(super) fn new(op: &SelectAndScatter) -> Pooling {
        let [dims, source, window] = op.item();
        let active = dims.len() - op.trailing;
        let at = op.leading..op.leading + active;
        let strides = op.window.strides[at.clone()].to_vec();
        let low: Vec<i64> = op.window.padding[at].iter().map(|&(low, _)| low).collect();
        let is_apart = (0..active).all(|d| strides[d] >= window[d] || source[d] <= 1);
        let covers = (0..active).all(|d| low[d] == 0 && strides[d] == window[d] && source[d] * strides[d] == dims[d]);
        Pooling {
            dims: dims[..active].to_vec(),
            source: source[..active].to_vec(),
            window: window[..active].to_vec(),
            strides,
            low,
            steps: dense_strides(dims)[..active].to_vec(),
            size: dims.iter().product(),
            source_size: source.iter().product(),
            columns: dims[active..].iter().product(),
            meets: if is_apart { Meets::Once } else { Meets::Often },
            covers,
        }
    }

    /// Parts of an item that different threads may take: windows of different indices along the first active dimension.
    pub(super) fn parts(&self) -> usize {
        if self.covers && self.outer() > 0 { self.source[0] } else { 1 }
    }

    /// Active dimensions along which windows are in different lines: all but the last where there are no columns.
    fn outer(&self) -> usize {
        self.dims.len() - usize::from(self.columns == 1 && !self.dims.is_empty())
    }

    /// Selects and scatters windows `parts` of an item.
    ///
    /// # Safety
    /// The arrays are those of the op, of elements `T`; no one else writes these parts, which are all where there is
    /// one only.
    #[inline(always)]
    pub(super) unsafe fn run<T: Number>(
        &self,
        arrays: &Arrays,
        item: usize,
        parts: std::ops::Range<usize>,
        init: T,
        taps: &mut Taps,
    ) {
        // SAFETY: the item is within the arrays.
        let item = unsafe {
            Item {
                operand: arrays.operand.cast::<T>().add(item * self.size),
                source: arrays.source.cast::<T>().add(item * self.source_size),
                write: arrays.write.cast::<T>().add(item * self.size),
                init,
                meets: self.meets,
            }
        };
        if !self.covers {
            // SAFETY: the whole item, which has one part.
            unsafe { std::slice::from_raw_parts_mut(item.write, self.size) }.fill(init);
        }
        if self.source_size == 0 || self.size == 0 {
            return;
        }
        let active = self.dims.len();
        let outer = self.outer();
        let is_along = outer < active;
        let whole = if is_along { self.whole() } else { 0..1 };
        let mut index = vec![0; active];
        let mut inside = vec![(0, 0); active];
        let mut rest = self.source[..outer].to_vec();
        let mut first = 0;
        if outer > 0 && self.covers {
            index[0] = parts.start;
            first = parts.start * self.source[1..].iter().product::<usize>() * self.columns;
            rest[0] = parts.end;
        }
        let mut is_left = outer == 0 || index[0] < rest[0];
        while is_left {
            let is_met = (0..outer).all(|d| {
                inside[d] = self.inside(d, index[d]);
                inside[d].0 < inside[d].1
            });
            // Along the last dimension the windows that lie inside are one line, the others are alone. They come in order:
            // where they overlap, sums are in this order too.
            let windows = if is_along { self.source[outer] } else { 1 };
            let mut at = 0;
            while is_met && at < windows {
                let together = if at == whole.start { whole.len().max(1) } else { 1 };
                if is_along {
                    inside[outer] = self.inside(outer, at);
                }
                if !is_along || inside[outer].0 < inside[outer].1 {
                    let place = self.taps(&inside, taps);
                    let (count, step) = if is_along { (together, self.strides[outer]) } else { (self.columns, 1) };
                    // SAFETY: taps inside the item, of the last window of a line too; each has all columns.
                    unsafe { item.line(Line { at: place, source: first + at, count, step }, &taps.places) };
                }
                at += together;
            }
            first += if is_along { self.source[outer] } else { self.columns };
            is_left = advance(&mut index[..outer], &rest);
        }
    }

    /// The windows along the last dimension that lie inside.
    fn whole(&self) -> std::ops::Range<usize> {
        let last = self.dims.len() - 1;
        let count = self.source[last];
        let is_whole = |at: usize| {
            let (from, to) = self.inside(last, at);
            to - from == self.window[last]
        };
        let begin = (0..count).find(|&at| is_whole(at)).unwrap_or(count);
        // The last whole window is the last one or cut off by the padding: few to look at.
        let end = (begin..count).rev().find(|&at| is_whole(at)).map_or(begin, |at| at + 1);
        begin..end
    }

    /// The part of a window that lies inside, along one dimension.
    fn inside(&self, d: usize, at: usize) -> (usize, usize) {
        let begin = (at * self.strides[d]) as i64 - self.low[d];
        let end = begin + self.window[d] as i64;
        let clamp = |n: i64| n.clamp(0, self.dims[d] as i64) as usize;
        (clamp(begin), clamp(end))
    }

    /// The elements of a window in their order, from its first, whose place this says. Most windows are like the one
    /// before.
    #[inline(always)]
    fn taps(&self, inside: &[(usize, usize)], taps: &mut Taps) -> usize {
        let sizes = inside.iter().map(|&(from, to)| to - from);
        if !sizes.clone().eq(taps.sizes.iter().copied()) || taps.places.is_empty() {
            taps.make(sizes, &self.steps);
        }
        inside.iter().zip(&self.steps).map(|(&(from, _), step)| from * step).sum()
    }
}

/// The elements of windows of some sizes, as distances from the first.
#[derive(Debug, Default)]
pub(super) struct Taps {
    sizes: Vec<usize>,
    places: Vec<usize>,
}

impl Taps {
    #[inline(never)]
    fn make(&mut self, sizes: impl Iterator<Item = usize>, steps: &[usize]) {
        self.sizes.clear();
        self.sizes.extend(sizes);
        self.places.clear();
        self.places.push(0);
        for (&size, &step) in self.sizes.iter().zip(steps) {
            // Every place so far becomes `size` places, from the back.
            let before = self.places.len();
            self.places.resize(before * size, 0);
            for n in (0..before).rev() {
                let base = self.places[n];
                for k in (0..size).rev() {
                    self.places[n * size + k] = base + k * step;
                }
            }
        }
    }
}

/// How far from the first of some lanes one lies, whose windows are `step` apart: `STEP` where that is not 0.
#[inline(always)]
fn spread<const STEP: usize>(lane: usize, step: usize) -> usize {
    lane * if STEP == 0 { step } else { STEP }
}

// Loops over lanes are written out: closures in them became functions of their own, without the machine's vectors.
impl<T: Number> Item<T> {
    /// Selects and scatters a line.
    ///
    /// # Safety
    /// The taps of every window and the sources are within the item.
    #[inline(always)]
    unsafe fn line(&self, line: Line, taps: &[usize]) {
        // SAFETY: the caller's promise.
        unsafe {
            match line.step {
                1 => self.lanes::<1>(line, taps),
                2 => self.lanes::<2>(line, taps),
                3 => self.lanes::<3>(line, taps),
                _ => self.lanes::<0>(line, taps),
            }
        }
    }

    /// # Safety
    /// As [`Item::line`]; `STEP` is the line's step, or 0.
    #[inline(always)]
    unsafe fn lanes<const STEP: usize>(&self, line: Line, taps: &[usize]) {
        let mut done = 0;
        // SAFETY: lanes below the line's count.
        unsafe {
            while done + 16 <= line.count {
                self.some::<16, STEP>(line, done, taps);
                done += 16;
            }
            while done + 4 <= line.count {
                self.some::<4, STEP>(line, done, taps);
                done += 4;
            }
            while done < line.count {
                self.some::<1, STEP>(line, done, taps);
                done += 1;
            }
        }
    }

    /// `N` lanes from `first`.
    ///
    /// # Safety
    /// As [`Item::lanes`].
    #[inline(always)]
    unsafe fn some<const N: usize, const STEP: usize>(&self, line: Line, first: usize, taps: &[usize]) {
        let Some((&tap, rest)) = taps.split_first() else { return };
        let base = line.at + spread::<STEP>(first, line.step);
        // SAFETY: of all reads and writes here: lanes of the line, at its taps.
        unsafe {
            let operand = self.operand.add(base);
            let mut best = lanes_at::<T, N, STEP>(operand.add(tap), line.step);
            let mut chosen = [0u32; N];
            for (n, &tap) in rest.iter().enumerate() {
                let next = lanes_at::<T, N, STEP>(operand.add(tap), line.step);
                for lane in 0..N {
                    let keeps = best[lane].keeps(next[lane]);
                    best[lane] = if keeps { best[lane] } else { next[lane] };
                    chosen[lane] = if keeps { chosen[lane] } else { n as u32 + 1 };
                }
            }
            let source = lanes_at::<T, N, 1>(self.source.add(line.source + first), 1);
            let write = self.write.add(base);
            if self.meets == Meets::Once {
                let mut sums = source;
                for lane in 0..N {
                    sums[lane] = self.init.plus(source[lane]);
                }
                for (n, &tap) in taps.iter().enumerate() {
                    for lane in 0..N {
                        let value = if chosen[lane] == n as u32 { sums[lane] } else { self.init };
                        *write.add(tap + spread::<STEP>(lane, line.step)) = value;
                    }
                }
                return;
            }
            // From the last tap: of the windows of these lanes that meet an element, the first meets it with the last.
            for (n, &tap) in taps.iter().enumerate().rev() {
                for lane in 0..N {
                    let to = write.add(tap + spread::<STEP>(lane, line.step));
                    *to = if chosen[lane] == n as u32 { (*to).plus(source[lane]) } else { *to };
                }
            }
        }
    }
}

/// The elements of `N` lanes.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn lanes_at<T: Copy, const N: usize, const STEP: usize>(from: *const T, step: usize) -> [T; N] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut lanes = [*from; N];
        for lane in 0..N {
            lanes[lane] = *from.add(spread::<STEP>(lane, step));
        }
        lanes
    }
}
