//! One register-blocked matmul for every vector width: a block of the result stays in registers while the common
//! dimension goes by.
#![allow(unsafe_code)]

use super::ahead::{Ahead, LINE, near_line};

/// A vector of a machine and what the matmul needs of it.
///
/// # Safety
/// The functions are for callers compiled for the instruction set of the implementation.
pub(super) unsafe trait Lanes {
    type Elem: Copy;
    type Vector: Copy;
    const LANES: usize;

    fn zero() -> Self::Vector;
    fn splat(value: Self::Elem) -> Self::Vector;
    /// `a·b + c`.
    fn multiply_add(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// # Safety
    /// `LANES` elements are readable.
    unsafe fn load(from: *const Self::Elem) -> Self::Vector;
    /// # Safety
    /// `LANES` elements are writable.
    unsafe fn store(to: *mut Self::Elem, value: Self::Vector);
    /// The other lanes are 0.
    ///
    /// # Safety
    /// `count <= LANES` elements are readable.
    unsafe fn load_part(from: *const Self::Elem, count: usize) -> Self::Vector;
    /// # Safety
    /// `count <= LANES` elements are writable.
    unsafe fn store_part(to: *mut Self::Elem, value: Self::Vector, count: usize);
}

/// What the sums start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Zero,
    /// What the result already holds.
    Result,
}

/// The factors of one register block. The element of the left one at row `i` and step `p` is at `i·row + p·step`; packed,
/// `row` is 1 and `step` the height of a panel. The right one has its columns side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factors<T> {
    pub(super) steps: usize,
    pub(super) left: *const T,
    pub(super) left_row: isize,
    pub(super) left_step: isize,
    pub(super) right: *const T,
    pub(super) right_step: isize,
}

/// Where one register block goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<T> {
    pub(super) at: *mut T,
    pub(super) row: isize,
    pub(super) start: Start,
    /// Lanes of the last vector that belong to the result.
    pub(super) last: usize,
}

/// Steps ahead at which lines of a right panel are brought from L2.
const PREFETCH_STEPS: usize = 12;
/// Vectors of a step of a right panel.
const PANEL_VECTORS: usize = 2;

/// One step of a block. The left factor comes with the elements between its rows.
///
/// # Safety
/// As [`block`], for one step.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
unsafe fn step<L: Lanes, const M: usize, const V: usize, const PANEL: usize>(
    sums: &mut [[L::Vector; V]; M],
    (left, left_row): (*const L::Elem, isize),
    right: *const L::Elem,
    last: usize,
) {
    let mut columns = [L::zero(); V];
    for v in 0..V {
        // SAFETY: `V` vectors of the step are readable, of the last one `last` lanes where the factor is not packed.
        columns[v] = unsafe {
            if PANEL > 0 || v + 1 < V {
                L::load(right.add(v * L::LANES))
            } else {
                L::load_part(right.add(v * L::LANES), last)
            }
        };
    }
    // A piece of a panel of narrow vectors stays in L1.
    let vector_bytes = size_of::<L::Vector>();
    if PANEL > 0 && vector_bytes >= LINE {
        for v in 0..V {
            near_line(right.wrapping_add((PANEL_VECTORS * PREFETCH_STEPS + v) * L::LANES).cast());
        }
    }
    for i in 0..M {
        // SAFETY: row `i` of the left factor's step.
        let value = L::splat(unsafe { *left.offset(i as isize * left_row) });
        for v in 0..V {
            sums[i][v] = L::multiply_add(value, columns[v], sums[i][v]);
        }
    }
}

/// A block of `M` rows and `V` vectors. `PANEL` is the height of a packed left panel, or 0 for a left factor with strides
/// and a right one of which only the columns of the result may be read.
///
/// # Safety
/// The factors are readable and the place is readable and writable as far as the block and the strides say; compiled for
/// the instruction set of `L`.
// Iterators over arrays of vectors are left as calls by builds that optimise less.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
pub(super) unsafe fn block<L: Lanes, const M: usize, const V: usize, const PANEL: usize>(
    factors: Factors<L::Elem>,
    place: Place<L::Elem>,
    ahead: &mut Ahead,
) {
    // Lines fetched ahead with each run of steps: few enough that none waits for another.
    const FETCHED: usize = 8;
    const RUN_STEPS: usize = 32;
    const NEAR_ROWS: usize = 3;
    // Steps in a row: what counts them would take a part of the instructions that a core begins in a cycle. Wide vectors leave room.
    let unrolled = if size_of::<L::Vector>() < LINE { 4 } else { 1 };
    let Factors { steps, mut left, left_row, left_step, mut right, right_step } = factors;
    let (left_row, left_step) = if PANEL > 0 { (1, PANEL as isize) } else { (left_row, left_step) };
    let right_step = if PANEL > 0 { (PANEL_VECTORS * L::LANES) as isize } else { right_step };
    let mut sums = [[L::zero(); V]; M];
    // Rows of the result are brought near a few at a time: all at once would take every line buffer from the factors.
    let mut near = place.at;
    let mut rows_left = M;
    let mut steps_left = steps;
    while steps_left > 0 {
        if PANEL > 0 {
            ahead.fetch_few::<FETCHED>();
            for _ in 0..NEAR_ROWS.min(rows_left) {
                for v in 0..V {
                    near_line(near.wrapping_add(v * L::LANES).cast());
                }
                near = near.wrapping_offset(place.row);
            }
            rows_left = rows_left.saturating_sub(NEAR_ROWS);
        }
        let run = steps_left.min(RUN_STEPS);
        steps_left -= run;
        let mut steps_of_run = run;
        while PANEL > 0 && unrolled > 1 && steps_of_run >= unrolled {
            for _ in 0..unrolled {
                // SAFETY: the run has so many steps.
                unsafe { step::<L, M, V, PANEL>(&mut sums, (left, left_row), right, place.last) };
                left = left.wrapping_offset(left_step);
                right = right.wrapping_offset(right_step);
            }
            steps_of_run -= unrolled;
        }
        for _ in 0..steps_of_run {
            // SAFETY: a step of the run.
            unsafe { step::<L, M, V, PANEL>(&mut sums, (left, left_row), right, place.last) };
            left = left.wrapping_offset(left_step);
            right = right.wrapping_offset(right_step);
        }
    }
    for i in 0..M {
        for v in 0..V {
            let sum = sums[i][v];
            let at = place.at.wrapping_offset(i as isize * place.row).wrapping_add(v * L::LANES);
            // SAFETY: row `i`, vector `v` of the place, of the last vector `last` lanes.
            unsafe {
                if v + 1 < V {
                    let old = if place.start == Start::Result { L::load(at) } else { L::zero() };
                    L::store(at, L::add(sum, old));
                } else {
                    let old = if place.start == Start::Result { L::load_part(at, place.last) } else { L::zero() };
                    L::store_part(at, L::add(sum, old), place.last);
                }
            }
        }
    }
}

/// Defines `$name`: the block for a number of rows and vectors known at run time, compiled with the given features.
macro_rules! block_of {
    ($name:ident, [$(#[$feature:meta])*], rows: $($m:literal)*) => {
        /// # Safety
        /// As [`block`](super::lanes::block) for `rows` and `vectors`, which are within the kernel's block.
        // Inlined: a copy of the factors through memory would be read in wider pieces than it was written in, and would wait
        // for every store before it.
        #[inline(always)]
        pub(super) unsafe fn $name<L: super::lanes::Lanes, const PANEL: usize>(
            rows: usize,
            vectors: usize,
            factors: super::lanes::Factors<L::Elem>,
            place: super::lanes::Place<L::Elem>,
            ahead: &mut super::ahead::Ahead,
        ) {
            $(#[$feature])*
            unsafe fn exact<L: super::lanes::Lanes, const M: usize, const V: usize, const PANEL: usize>(
                factors: super::lanes::Factors<L::Elem>,
                place: super::lanes::Place<L::Elem>,
                ahead: &mut super::ahead::Ahead,
            ) {
                // SAFETY: the caller's promise.
                unsafe { super::lanes::block::<L, M, V, PANEL>(factors, place, ahead) }
            }
            // SAFETY: the caller's promise.
            unsafe {
                match (rows, vectors) {
                    $(($m, 1) => exact::<L, $m, 1, PANEL>(factors, place, ahead),
                      ($m, 2) => exact::<L, $m, 2, PANEL>(factors, place, ahead),)*
                    _ => debug_assert!(false, "no block of {rows} rows and {vectors} vectors"),
                }
            }
        }
    };
}
pub(super) use block_of;

/// Implements [`Lanes`] for a vector by the intrinsics of an instruction set.
macro_rules! lanes_of {
    ($name:ident: [$elem:ty; $lanes:literal] in $vector:ty, splat: $splat:ident, add: $add:ident, load: $load:ident,
     store: $store:ident, multiply_add: |$a:ident, $b:ident, $c:ident| $fma:expr,
     load_part: |$from:ident, $count:ident| $load_part:expr,
     store_part: |$to:ident, $value:ident, $stored:ident| $store_part:expr) => {
        // SAFETY: the intrinsics are of the instruction set that callers are compiled for.
        unsafe impl super::lanes::Lanes for $name {
            type Elem = $elem;
            type Vector = $vector;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn zero() -> $vector {
                Self::splat(0.0)
            }
            #[inline(always)]
            fn splat(value: $elem) -> $vector {
                // SAFETY: the instruction set is there, as the trait says; so for the rest.
                unsafe { $splat(value) }
            }
            #[inline(always)]
            fn multiply_add($a: $vector, $b: $vector, $c: $vector) -> $vector {
                // SAFETY: as above.
                unsafe { $fma }
            }
            #[inline(always)]
            fn add(a: $vector, b: $vector) -> $vector {
                // SAFETY: as above.
                unsafe { $add(a, b) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $elem) -> $vector {
                // SAFETY: the caller's promise.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn store(to: *mut $elem, value: $vector) {
                // SAFETY: the caller's promise.
                unsafe { $store(to, value) }
            }
            #[inline(always)]
            unsafe fn load_part($from: *const $elem, $count: usize) -> $vector {
                // SAFETY: the caller's promise, which the expression keeps to.
                unsafe { $load_part }
            }
            #[inline(always)]
            unsafe fn store_part($to: *mut $elem, $value: $vector, $stored: usize) {
                // SAFETY: the caller's promise, which the expression keeps to.
                unsafe { $store_part }
            }
        }
    };
}
pub(super) use lanes_of;

/// Defines the kernel of a block of `$rows` rows and two vectors, of which `$piece` steps stay in L1, whose panels are packed
/// by `$pack` and whose sums are rounded by `$round`.
macro_rules! kernel_of {
    ($name:ty, $lanes:ty, $dtype:expr, $rows:expr, $piece:expr, $block:ident, $pack:expr, $round:expr) => {
        impl super::drive::Kernel for $name {
            type Left = <$lanes as super::lanes::Lanes>::Elem;
            type Right = <$lanes as super::lanes::Lanes>::Elem;
            type Sum = <$lanes as super::lanes::Lanes>::Elem;
            const ROWS: usize = $rows;
            const COLS: usize = 2 * <$lanes as super::lanes::Lanes>::LANES;
            const STEP: usize = 1;
            const PIECE: usize = $piece;
            const SUM: DType = $dtype;

            unsafe fn pack_left(strip: &super::pack::Strip, to: *mut <$lanes as super::lanes::Lanes>::Elem) {
                // SAFETY: the caller's promise.
                unsafe { $pack(strip, Self::ROWS, to) }
            }
            unsafe fn pack_right(strip: &super::pack::Strip, to: *mut <$lanes as super::lanes::Lanes>::Elem) {
                // SAFETY: the caller's promise.
                unsafe { $pack(strip, Self::COLS, to) }
            }
            #[inline(always)]
            unsafe fn multiply(b: super::drive::Block<Self>, ahead: &mut super::ahead::Ahead) {
                let vectors = b.cols.div_ceil(Self::COLS / 2);
                let factors = super::lanes::Factors {
                    steps: b.steps,
                    left: b.left,
                    left_row: 1,
                    left_step: Self::ROWS as isize,
                    right: b.right,
                    right_step: Self::COLS as isize,
                };
                let last = b.cols - (vectors - 1) * (Self::COLS / 2);
                let place = super::lanes::Place { at: b.sum, row: b.sum_row, start: b.start, last };
                // SAFETY: the caller's promise.
                unsafe { $block::<$lanes, { $rows }>(b.rows, vectors, factors, place, ahead) }
            }
            #[inline(always)]
            unsafe fn multiply_direct(
                rows: usize,
                cols: usize,
                factors: super::lanes::Factors<<$lanes as super::lanes::Lanes>::Elem>,
                place: super::lanes::Place<<$lanes as super::lanes::Lanes>::Elem>,
            ) {
                let vectors = cols.div_ceil(Self::COLS / 2);
                let place = super::lanes::Place { last: cols - (vectors - 1) * (Self::COLS / 2), ..place };
                let mut ahead = super::ahead::Ahead::NOTHING;
                // SAFETY: the caller's promise.
                unsafe { $block::<$lanes, 0>(rows, vectors, factors, place, &mut ahead) }
            }
            unsafe fn round_sums(sums: super::pack::Sums, out: super::pack::Rounded, rows: usize, cols: usize) {
                // SAFETY: the caller's promise.
                unsafe { $round(sums, out, rows, cols) }
            }
        }
    };
}
pub(super) use kernel_of;
