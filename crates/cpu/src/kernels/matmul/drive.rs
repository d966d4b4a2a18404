//! The loops around a kernel's register block: which parts of the matrices are packed, kept in which cache, and computed
//! by which thread.
//!
//! Columns go by in chunks whose packed form all threads share; within a chunk a task is a block of rows and a range of
//! panels. A task packs its rows once (they stay in L2), and walks panel by panel: a piece of the panel of the right
//! matrix (L1) meets all its rows. With one block of rows only, nothing is shared and each task packs the pieces it meets.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use tensor::DType;

use super::ahead::{Ahead, LINE};
use super::lanes::{Factors, Place, Start};
use super::pack::{self, Rounded, Strip, Sums};
use super::scratch::{Loan, Slot};

/// A register block of one instruction set and the packed form it reads.
pub(super) trait Kernel {
    /// Elements of packed panels and of the sums.
    type Left: Copy;
    type Right: Copy;
    type Sum: Copy;
    /// Rows and columns of the register block: the height of a left panel, the width of a right one.
    const ROWS: usize;
    const COLS: usize;
    /// Panels hold a multiple of this many steps of the common dimension, zeros at the end.
    const STEP: usize;
    /// Steps of a right panel that stay in L1 while the rows of a task go by. A multiple of `STEP`.
    const PIECE: usize;
    /// Up to this many panels of columns, left factors whose steps lie side by side are read as they are.
    const DIRECT_PANELS: usize = 0;
    /// The packed rows of the only task for its columns may take this much: all of them stay in L2, or each piece of them does.
    const ALONE_BYTES: usize = HELD_BYTES;
    /// Whether a register block takes as long for fewer rows.
    const WHOLE_ROWS: bool = false;
    /// Whether the sums of a block start from a row that depends on the right panel alone: [`Kernel::correction`].
    const IS_CORRECTED: bool = false;
    /// The type of `Sum`.
    const SUM: DType;

    /// # Safety
    /// The strip is readable; `to` takes a panel of its steps, rounded up to `STEP`.
    unsafe fn pack_left(strip: &Strip, to: *mut Self::Left);
    /// # Safety
    /// As [`Kernel::pack_left`].
    unsafe fn pack_right(strip: &Strip, to: *mut Self::Right);
    /// What the sums of every block over a piece of a right panel start from, where the kernel says so.
    ///
    /// # Safety
    /// The panel is packed for so many steps; `to` takes `COLS` sums.
    unsafe fn correction(_right: *const Self::Right, _steps: usize, _to: *mut Self::Sum) {
        debug_assert!(false, "sums of this kernel start from zero");
    }
    /// # Safety
    /// The panels are packed; the place is writable for `rows` and `cols`, within the register block.
    unsafe fn multiply(block: Block<Self>, ahead: &mut Ahead);
    /// The same from memory as it is. Only for factors of the type of the sums.
    ///
    /// # Safety
    /// The factors are readable, the right one for `cols` columns only.
    unsafe fn multiply_direct(_rows: usize, _cols: usize, _factors: Factors<Self::Sum>, _place: Place<Self::Sum>) {
        debug_assert!(false, "this kernel works on packed panels");
    }
    /// Rounds sums to the result's type where that is another.
    ///
    /// # Safety
    /// The sums are f32 and readable, the result is writable for the block.
    unsafe fn round_sums(sums: Sums, out: Rounded, rows: usize, cols: usize) {
        // SAFETY: the caller's promise.
        unsafe { pack::round_sums(sums, out, rows, cols) }
    }
    /// Called by a thread before its blocks of a task.
    ///
    /// # Safety
    /// The machine has the kernel's instructions. Followed by [`Kernel::end`] on the same thread.
    unsafe fn begin() {}
    /// # Safety
    /// After [`Kernel::begin`].
    unsafe fn end() {}
}

/// One register block: packed panels and where their matmul goes.
#[derive(Debug)]
pub(super) struct Block<K: Kernel + ?Sized> {
    pub(super) steps: usize,
    pub(super) left: *const K::Left,
    /// Elements between rows of the left factor where it is not packed: only for whole blocks of a kernel that says so.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) left_row: Option<isize>,
    pub(super) right: *const K::Right,
    /// The row of [`Kernel::correction`], where the kernel has one.
    pub(super) correction: *const K::Sum,
    pub(super) sum: *mut K::Sum,
    pub(super) sum_row: isize,
    pub(super) start: Start,
    pub(super) rows: usize,
    pub(super) cols: usize,
}

/// How a matmul is cut, found by [`Cut::new`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Rows of a task.
    rows: usize,
    /// Steps of the common dimension for which the rows of a task are packed at a time.
    depth: usize,
    /// Columns whose packed form is shared at a time.
    cols: usize,
    pub(super) left: Reading,
    pub(super) right: Reading,
}

/// How a kernel reads a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Packed,
    Direct,
}

/// The packed rows of a task stay below this, a part of L2.
const LEFT_BYTES: usize = 400 << 10;
/// Packed rows of this much stay in L2 while all columns go by.
const HELD_BYTES: usize = 1 << 20;
/// Bytes between panels of packed rows of which only pieces stay in L2: pieces at multiples of a power of two would share its lines.
const APART_BYTES: usize = 8 << 10;
/// The most register blocks one below the other in a task.
const MOST_BLOCKS: usize = 20;
/// A right matrix above this is brought near while the columns before are computed.
const FAR_BYTES: usize = 1 << 20;
/// Packed columns above this are brought near while those before are multiplied.
const FAR_PANELS_BYTES: usize = 2 << 20;
/// The packed columns that threads share stay below this.
const SHARED_BYTES: usize = 8 << 20;
/// Panels packed together so that rows of the source are read in longer runs.
const TOGETHER: usize = 8;
/// Bytes of rows of narrow elements that are read side by side.
const RUN_BYTES: usize = 1024;
/// The most steps packed at a time when sums can be kept in the result.
const DEPTH: usize = 512;

impl Cut {
    pub(super) fn new<K: Kernel>(problem: &super::MatMul) -> Cut {
        let (m, n, k) = (problem.m.max(1), problem.n.max(1), problem.k.max(1));
        let sums_in_result = problem.out.dtype == K::SUM;
        // Other results are rounded once, so their sums must be complete in one go.
        let most_depth = DEPTH.max(K::PIECE);
        let whole_left = m.next_multiple_of(K::ROWS).saturating_mul(k).saturating_mul(size_of::<K::Left>());
        // Rows that are all held packed meet the columns once, and the result goes to memory once.
        let alone = m <= MOST_BLOCKS * K::ROWS && whole_left <= K::ALONE_BYTES;
        let depth = if sums_in_result && !alone { part(k, most_depth, K::STEP) } else { k.next_multiple_of(K::STEP) };
        let left_bytes = size_of::<K::Left>() * depth;
        // Where pieces of rows stay in L2, there is room for more rows of all steps.
        let most_bytes = if depth >= k && K::ALONE_BYTES > HELD_BYTES { K::ALONE_BYTES } else { LEFT_BYTES };
        let most_rows = (most_bytes / left_bytes / K::ROWS * K::ROWS).clamp(4 * K::ROWS, MOST_BLOCKS * K::ROWS);
        let rows = if alone { m.next_multiple_of(K::ROWS) } else { part(m, most_rows, K::ROWS) };
        let right_bytes = size_of::<K::Right>() * depth;
        let most_cols = (SHARED_BYTES / right_bytes / K::COLS * K::COLS).max(8 * K::COLS);
        let cols = part(n, most_cols, K::COLS);
        let plain = problem.lhs.dtype == K::SUM && problem.rhs.dtype == K::SUM && sums_in_result && K::STEP == 1;
        let small = m.saturating_mul(n).saturating_mul(k) <= 48 * 48 * 48;
        // Packed rows pay when many columns meet them.
        let few_columns = n <= 2 * K::COLS && k <= DEPTH && problem.lhs.col_stride == 1;
        // Steps that fill whole tiles need no packing; it pays for many columns, which then meet rows that lie closer.
        let whole_tiles = n <= K::DIRECT_PANELS * K::COLS && problem.lhs.col_stride == 1 && k.is_multiple_of(K::STEP);
        let left = if plain && (small || few_columns) || whole_tiles { Reading::Direct } else { Reading::Packed };
        // A large matrix is fetched ahead of its packing, which pays even for a few rows.
        let few_rows = m <= 2 * K::ROWS && n.saturating_mul(k).saturating_mul(size_of::<K::Right>()) <= FAR_BYTES;
        let right = if plain && problem.rhs.col_stride == 1 && (small || few_columns || few_rows) {
            Reading::Direct
        } else {
            Reading::Packed
        };
        Cut { rows, depth, cols, left, right }
    }
}

/// The size of even parts of `whole`, none above `most`, each but the last a multiple of `unit`.
fn part(whole: usize, most: usize, unit: usize) -> usize {
    let parts = whole.div_ceil(most.max(unit));
    whole.div_ceil(parts).next_multiple_of(unit)
}

/// Who runs the tasks of a matmul.
pub(super) type Tasks<'a> = &'a dyn Fn(usize, &(dyn Fn(usize, usize) + Sync));

/// One matmul of two matrices.
pub(super) struct Job<'a> {
    pub(super) problem: &'a super::MatMul,
    pub(super) cut: Cut,
    /// Whether the machine multiplies bytes with VNNI.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) vnni: bool,
    /// Rows of this matmul; the pointers are to its first elements.
    pub(super) rows: usize,
    pub(super) lhs: *const u8,
    pub(super) rhs: *const u8,
    pub(super) out: *mut u8,
    /// Panels of the whole right matrix, packed by [`pack_whole`], part by part.
    pub(super) packed: Option<*const u8>,
    /// Called with a worker and a finished block.
    pub(super) finish: Option<&'a (dyn Fn(usize, Range<usize>, Range<usize>) + Sync)>,
    /// Tasks run at the same time.
    pub(super) threads: usize,
}

// SAFETY: the pointers are to matrices that outlive the job; tasks write disjoint blocks of the result.
unsafe impl Sync for Job<'_> {}

/// Panels in memory: panel `j` begins at `start + j·panel`.
#[derive(Clone, Copy)]
struct Panels<T> {
    start: *mut T,
    panel: usize,
}

// SAFETY: an address; the tasks that use it write disjoint panels or only read.
unsafe impl<T> Sync for Panels<T> {}

/// Bytes of the packed form of the whole right matrix, or the most there can be.
pub(super) fn whole_bytes<K: Kernel>(problem: &super::MatMul) -> usize {
    let padded = |size: usize, unit: usize| size.checked_next_multiple_of(unit).unwrap_or(usize::MAX);
    padded(problem.n, K::COLS).saturating_mul(padded(problem.k, K::STEP)).saturating_mul(size_of::<K::Right>())
}

/// Packs one of `parts` parts of the whole right matrix.
///
/// # Safety
/// `rhs` is readable as the problem says, `to` takes [`whole_bytes`].
pub(super) unsafe fn pack_whole<K: Kernel>(
    problem: &super::MatMul,
    rhs: *const u8,
    to: *mut u8,
    part: usize,
    parts: usize,
) {
    let panel = problem.k.next_multiple_of(K::STEP) * K::COLS;
    let panels = problem.n.div_ceil(K::COLS);
    let (first, last) = (panels * part / parts, panels * (part + 1) / parts);
    let cols = first * K::COLS..(last * K::COLS).min(problem.n);
    let to = Panels { start: to.cast::<K::Right>().wrapping_add(first * panel), panel };
    // SAFETY: the caller's promise.
    unsafe { pack_columns::<K>(problem, rhs, cols, 0..problem.k, to) }
}

/// Packs panels of `cols`, which begin at a panel's start.
///
/// # Safety
/// `rhs` is readable there, and `to` takes the panels.
unsafe fn pack_columns<K: Kernel>(
    problem: &super::MatMul,
    rhs: *const u8,
    cols: Range<usize>,
    steps: Range<usize>,
    to: Panels<K::Right>,
) {
    // A few panels at a time, some steps of each.
    const RUN: usize = 64;
    // Of rows of the source that lie side by side, this much is read at a time.
    const ROW_BYTES: usize = 1024;
    let rhs_operand = &problem.rhs;
    let together = (ROW_BYTES / (K::COLS * rhs_operand.dtype.size_bytes())).max(TOGETHER);
    let mut first = cols.start;
    while first < cols.end {
        let group = first..(first + together * K::COLS).min(cols.end);
        let run = if problem.rhs.col_stride == 1 { RUN.next_multiple_of(K::STEP) } else { steps.len().max(1) };
        let mut step = steps.start;
        while step < steps.end {
            let run = run.min(steps.end - step);
            for col in group.clone().step_by(K::COLS) {
                let at = step as isize * problem.rhs.row_stride + col as isize * problem.rhs.col_stride;
                let strip = Strip {
                    dtype: rhs_operand.dtype,
                    packing: rhs_operand.packing,
                    at: rhs.wrapping_offset(rhs_operand.bytes(at)),
                    lane: problem.rhs.col_stride,
                    step: problem.rhs.row_stride,
                    lanes: K::COLS.min(group.end - col),
                    steps: run,
                };
                let place = (col - cols.start) / K::COLS * to.panel + (step - steps.start) * K::COLS;
                // SAFETY: the strip is a part of the matrix, the place a part of the panel.
                unsafe { K::pack_right(&strip, to.start.add(place)) };
            }
            step += run;
        }
        first = group.end;
    }
}

/// Where a task's right panels come from.
enum Right<T> {
    /// Packed: panel 0 is the first of the chunk.
    Panels(Panels<T>),
    /// The task packs the pieces it meets.
    Matrix,
    /// The matrix is read as it is.
    Direct,
}

/// When sums become elements of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounding {
    /// They are of its type.
    None,
    /// After each register block.
    Blocks,
    /// After each group of panels.
    Groups,
}

/// What one task computes.
struct Part {
    worker: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    steps: Range<usize>,
}

/// Computes a matmul.
///
/// # Safety
/// The job's pointers are to matrices as the problem says; the machine has the kernel's instructions.
pub(super) unsafe fn drive<K: Kernel>(job: &Job<'_>, tasks: Tasks<'_>) {
    let problem = job.problem;
    let mut cut = job.cut;
    if job.finish.is_some() && job.rows > cut.rows {
        cut.rows = part(job.rows, finish_rows::<K>(job.rows, job.threads).min(cut.rows), K::ROWS);
    }
    let job = &Job { cut, ..*job };
    let row_blocks = job.rows.div_ceil(cut.rows);
    let shares = row_blocks > 1 && job.packed.is_none() && cut.right == Reading::Packed;
    // Alone, a task walks all columns: its packed rows serve longer.
    let chunk_cols = if shares { cut.cols } else { problem.n };
    // The rows a worker holds packed; beyond these workers rows are packed for each task.
    const REMEMBERED: usize = 64;
    let held: [AtomicUsize; REMEMBERED] = [const { AtomicUsize::new(usize::MAX) }; REMEMBERED];

    let mut col = 0;
    while col < problem.n {
        let cols = col..(col + chunk_cols).min(problem.n);
        let panels = cols.len().div_ceil(K::COLS);
        let is_cut = job.finish.is_some() && row_blocks >= 2 * job.threads;
        let groups = if is_cut { 1 } else { groups(row_blocks, panels, job.threads) };
        let mut depth_index = 0;
        loop {
            let step = depth_index * cut.depth;
            let steps = step..(step + cut.depth).min(problem.k);
            let padded = steps.len().next_multiple_of(K::STEP);
            let loan = shares.then(|| Loan::take(Slot::Shared, panels * K::COLS * padded * size_of::<K::Right>()));
            let right = match (&loan, job.packed) {
                (Some(loan), _) => {
                    let shared = Panels { start: loan.at::<K::Right>(), panel: padded * K::COLS };
                    // SAFETY: the matrix is readable, and the loan has room for the chunk.
                    unsafe { pack_shared::<K>(job, cols.clone(), steps.clone(), shared, tasks) };
                    Right::Panels(shared)
                }
                (None, Some(whole)) => {
                    let panel = problem.k.next_multiple_of(K::STEP) * K::COLS;
                    let start = whole.cast::<K::Right>().wrapping_add(col / K::COLS * panel + step * K::COLS);
                    Right::Panels(Panels { start: start.cast_mut(), panel })
                }
                (None, None) if cut.right == Reading::Direct => Right::Direct,
                (None, None) => Right::Matrix,
            };
            tasks(row_blocks * groups, &|worker, task| {
                let (block, group) = (task / groups, task % groups);
                let first = panels * group / groups;
                let last = panels * (group + 1) / groups;
                let part = Part {
                    worker,
                    rows: block * cut.rows..((block + 1) * cut.rows).min(job.rows),
                    cols: cols.start + first * K::COLS..(cols.start + last * K::COLS).min(cols.end),
                    steps: steps.clone(),
                };
                let held = held.get(worker);
                let this = block + depth_index * row_blocks;
                let is_held = held.is_some_and(|held| held.swap(this, Ordering::Relaxed) == this);
                // SAFETY: the part is within the matrices; tasks write disjoint blocks.
                unsafe { compute::<K>(job, &part, &right, cols.start, is_held) };
            });
            depth_index += 1;
            if depth_index * cut.depth >= problem.k {
                break;
            }
        }
        col = cols.end;
    }
}

/// Rows of a task whose blocks are handed on: few, so that a block of whole rows stays in L2 and the arrays that are read
/// and written with it go by in long runs, and enough of them for all threads.
fn finish_rows<K: Kernel>(rows: usize, threads: usize) -> usize {
    rows.div_ceil(4 * threads.max(1)).clamp(4 * K::ROWS, 8 * K::ROWS)
}

/// Into how many ranges of panels a chunk is cut so that threads end at about the same time.
fn groups(row_blocks: usize, panels: usize, threads: usize) -> usize {
    // Ranges of one block of rows are even; blocks are not, and seldom a multiple of the threads.
    let tasks = threads.saturating_mul(if row_blocks == 1 { 4 } else { 12 });
    if threads <= 1 { 1 } else { tasks.div_ceil(row_blocks.max(1)).min(panels).max(1) }
}

/// Packs a chunk of columns, all threads taking part.
///
/// # Safety
/// As [`pack_columns`].
unsafe fn pack_shared<K: Kernel>(
    job: &Job<'_>,
    cols: Range<usize>,
    steps: Range<usize>,
    to: Panels<K::Right>,
    tasks: Tasks<'_>,
) {
    let panels = cols.len().div_ceil(K::COLS);
    let parts = if job.threads <= 1 { 1 } else { (4 * job.threads).min(panels) };
    let to = &to;
    tasks(parts, &|_, part| {
        let (first, last) = (panels * part / parts, panels * (part + 1) / parts);
        let mine = cols.start + first * K::COLS..(cols.start + last * K::COLS).min(cols.end);
        let place = Panels { start: to.start.wrapping_add(first * to.panel), panel: to.panel };
        // SAFETY: the caller's promise; the parts are disjoint.
        unsafe { pack_columns::<K>(job.problem, job.rhs, mine, steps.clone(), place) };
    });
}

/// Packs some rows, `height` of them a panel.
///
/// # Safety
/// The left matrix is readable, `to` takes the panels.
unsafe fn pack_rows<K: Kernel>(
    job: &Job<'_>,
    rows: Range<usize>,
    steps: &Range<usize>,
    height: usize,
    to: *mut K::Left,
    panel: usize,
) {
    let lhs = &job.problem.lhs;
    for (index, row) in rows.clone().step_by(height).enumerate() {
        let at = row as isize * lhs.row_stride + steps.start as isize * lhs.col_stride;
        let strip = Strip {
            dtype: lhs.dtype,
            packing: lhs.packing,
            at: job.lhs.wrapping_offset(lhs.bytes(at)),
            lane: lhs.row_stride,
            step: lhs.col_stride,
            lanes: height.min(rows.end - row),
            steps: steps.len(),
        };
        // SAFETY: the strip is a part of the matrix; each panel has its own place.
        unsafe { K::pack_left(&strip, to.add(index * panel)) };
    }
}

/// The height of even register blocks. Tiles are computed whole: a lower block of them would save nothing.
fn block_height<K: Kernel>(rows: usize) -> usize {
    if K::WHOLE_ROWS { K::ROWS } else { rows.div_ceil(rows.div_ceil(K::ROWS).max(1)).max(1) }
}

/// Computes one part of the result, or adds to it the products of the part's steps.
///
/// # Safety
/// The part is within the matrices, `right` holds its panels, and no other thread writes its block. `is_held` says that
/// this thread's last part had the same rows and steps.
unsafe fn compute<K: Kernel>(job: &Job<'_>, part: &Part, right: &Right<K::Right>, chunk: usize, is_held: bool) {
    // Finished blocks of this many sums are handed on: still near, their rows long.
    const FINISH_SUMS: usize = 64 << 10;
    let (problem, cut) = (job.problem, job.cut);
    let padded = part.steps.len().next_multiple_of(K::STEP);
    let left_panels = part.rows.len().div_ceil(K::ROWS);
    let is_held_whole = left_panels * padded * K::ROWS * size_of::<K::Left>() <= HELD_BYTES;
    let left_panel = padded * K::ROWS + if is_held_whole { 0 } else { APART_BYTES / size_of::<K::Left>() };
    let height = block_height::<K>(part.rows.len());
    // Whole blocks may be read as they are; rows that do not fill one are packed.
    let direct_rows = match cut.left {
        Reading::Packed => 0,
        // Rows of tiles that cross lines would take twice the loads.
        Reading::Direct if K::DIRECT_PANELS > 0 => {
            let row_bytes = problem.lhs.row_stride.wrapping_mul(size_of::<K::Left>() as isize);
            let is_aligned = (job.lhs as usize | row_bytes as usize).is_multiple_of(LINE);
            if is_aligned { part.rows.len() / K::ROWS * K::ROWS } else { 0 }
        }
        Reading::Direct => part.rows.len(),
    };
    let packed_panels = (part.rows.len() - direct_rows).div_ceil(K::ROWS);
    let left = (packed_panels > 0).then(|| Loan::take(Slot::Left, packed_panels * left_panel * size_of::<K::Left>()));
    if let Some(left) = left.as_ref().filter(|left| !(is_held && left.kept)) {
        let rows = part.rows.start + direct_rows..part.rows.end;
        // SAFETY: the rows are within the matrix, and the loan has room for their panels.
        unsafe { pack_rows::<K>(job, rows, &part.steps, height, left.at(), left_panel) };
    }
    // Panels that are packed and met together: rows of the source are then read in longer runs, and pieces of the left matrix that do
    // not all stay in L2 meet more columns each time.
    let mut together = match right {
        Right::Matrix if problem.rhs.col_stride == 1 => TOGETHER,
        Right::Matrix | Right::Panels(_) if !is_held_whole => TOGETHER,
        _ => 1,
    };
    let mut piece = K::PIECE;
    // A few rows take less time than narrow elements take to be read: of these, more columns and fewer steps.
    let right_bits = problem.rhs.packing.width(problem.rhs.dtype);
    if matches!(right, Right::Matrix) && together > 1 && right_bits <= 8 && part.rows.len() <= 2 * K::ROWS {
        together = (8 * RUN_BYTES / (K::COLS * right_bits)).max(TOGETHER);
        piece = (piece * TOGETHER / together).next_multiple_of(K::STEP);
    }
    let piece_steps = piece.min(padded.max(K::STEP));
    let own = matches!(right, Right::Matrix)
        .then(|| Loan::take(Slot::Right, together * piece_steps * K::COLS * size_of::<K::Right>()));
    let group_cols = together * K::COLS;
    // Sums that are complete after one piece are rounded block by block, while they are in L1.
    let rounding = match problem.out.dtype == K::SUM {
        true => Rounding::None,
        false if part.steps.len() <= piece_steps => Rounding::Blocks,
        false => Rounding::Groups,
    };
    let (sums_rows, sums_row) = match rounding {
        Rounding::None => (0, 0),
        Rounding::Blocks => (K::ROWS, K::COLS),
        Rounding::Groups => (left_panels * K::ROWS, group_cols),
    };
    let sums = (sums_rows > 0).then(|| Loan::take(Slot::Sums, sums_rows * sums_row * size_of::<K::Sum>()));
    let round = |sums: &Loan, rows: Range<usize>, cols: Range<usize>| {
        let at = rows.start as isize * problem.out.row_stride + cols.start as isize;
        let at = job.out.wrapping_offset(at * problem.out.dtype.size_bytes() as isize);
        let out = Rounded { at, dtype: problem.out.dtype, row: problem.out.row_stride };
        // SAFETY: the sums of these rows and columns were just stored; the block of the result is this part's.
        unsafe { K::round_sums(Sums { at: sums.at(), row: sums_row }, out, rows.len(), cols.len()) };
    };

    let correction_loan = K::IS_CORRECTED.then(|| Loan::take(Slot::Correction, K::COLS * size_of::<K::Sum>()));
    let correction = correction_loan.as_ref().map_or(std::ptr::null_mut(), Loan::at::<K::Sum>);

    // SAFETY: the caller promises the instructions.
    unsafe { K::begin() };
    let is_last = part.steps.end >= problem.k;
    let right_bytes = problem.n.saturating_mul(problem.k).saturating_mul(right_bits) / 8;
    let is_far = matches!(right, Right::Matrix) && right_bytes > FAR_BYTES;
    let mut done = part.cols.start;
    for group in part.cols.clone().step_by(group_cols) {
        let group = group..(group + group_cols).min(part.cols.end);
        let mut piece = 0;
        loop {
            let steps = piece_steps.min(part.steps.len() - piece);
            let step = part.steps.start + piece;
            let start = if step == 0 { Start::Zero } else { Start::Result };
            let panels = match right {
                Right::Panels(panels) => {
                    let index = (group.start - chunk) / K::COLS;
                    Panels {
                        start: panels.start.wrapping_add(index * panels.panel + piece * K::COLS),
                        panel: panels.panel,
                    }
                }
                Right::Matrix => {
                    let start = own.as_ref().map_or(std::ptr::null_mut(), Loan::at);
                    let panels = Panels { start, panel: steps.next_multiple_of(K::STEP) * K::COLS };
                    // SAFETY: the group is a part of the matrix, and the loan has room for its piece.
                    unsafe { pack_columns::<K>(problem, job.rhs, group.clone(), step..step + steps, panels) };
                    panels
                }
                Right::Direct => Panels { start: std::ptr::null_mut(), panel: 0 },
            };
            let mut ahead = Ahead::NOTHING;
            if is_far {
                let end = piece + steps;
                ahead = if end < part.steps.len() {
                    Ahead::new(
                        &problem.rhs,
                        job.rhs,
                        &group,
                        &(step + steps..part.steps.end.min(step + steps + piece_steps)),
                    )
                } else {
                    let next = group.end..(group.end + group_cols).min(part.cols.end);
                    Ahead::new(
                        &problem.rhs,
                        job.rhs,
                        &next,
                        &(part.steps.start..part.steps.end.min(part.steps.start + piece_steps)),
                    )
                };
            }
            // Packed panels that the next blocks read come from beyond L2 where all of them together are larger.
            if let Right::Panels(all) = right
                && part.cols.len() * part.steps.len() * size_of::<K::Right>() > FAR_PANELS_BYTES
            {
                let end = piece + steps;
                let (col, at) = if end < part.steps.len() { (group.start, end) } else { (group.end, 0) };
                if col < part.cols.end {
                    let steps = piece_steps.min(part.steps.len() - at).next_multiple_of(K::STEP);
                    let at = all.start.wrapping_add((col - chunk) / K::COLS * all.panel + at * K::COLS);
                    ahead = Ahead::run(at.cast_const().cast(), steps * K::COLS * size_of::<K::Right>());
                }
            }
            let fetches = ahead.lines().div_ceil(left_panels * group.len().div_ceil(K::COLS));
            for (panel, col) in group.clone().step_by(K::COLS).enumerate() {
                let cols = K::COLS.min(group.end - col);
                if K::IS_CORRECTED {
                    let right = panels.start.cast_const().wrapping_add(panel * panels.panel);
                    // SAFETY: the right panel is packed for these steps; the loan has room for a row.
                    unsafe { K::correction(right, steps, correction) };
                }
                for (index, row) in part.rows.clone().step_by(height).enumerate() {
                    let rows = height.min(part.rows.end - row);
                    ahead.allow(fetches);
                    let (sum, sum_row) = match &sums {
                        Some(sums) => {
                            let at = match rounding {
                                Rounding::Groups => index * height * sums_row + panel * K::COLS,
                                _ => 0,
                            };
                            (sums.at::<K::Sum>().wrapping_add(at), sums_row as isize)
                        }
                        None => {
                            let at = row as isize * problem.out.row_stride + col as isize;
                            (job.out.cast::<K::Sum>().wrapping_offset(at), problem.out.row_stride)
                        }
                    };
                    let packed = left.as_ref().filter(|_| row - part.rows.start >= direct_rows).map(|left| {
                        let panel = index - direct_rows / height;
                        left.at::<K::Left>().cast_const().wrapping_add(panel * left_panel + piece * K::ROWS)
                    });
                    let (block_left, left_row) = match packed {
                        None if K::DIRECT_PANELS > 0 => {
                            let lhs = &problem.lhs;
                            let at = row as isize * lhs.row_stride + step as isize;
                            (Some(job.lhs.cast::<K::Left>().wrapping_offset(at)), Some(lhs.row_stride))
                        }
                        packed => (packed, None),
                    };
                    if let (Some(left), false) = (block_left, matches!(right, Right::Direct)) {
                        let right = panels.start.cast_const().wrapping_add(panel * panels.panel);
                        // SAFETY: the right panel is packed, the left one too or a whole block; the block of the result is this part's.
                        unsafe {
                            K::multiply(
                                Block { steps, left, left_row, right, correction, sum, sum_row, start, rows, cols },
                                &mut ahead,
                            )
                        };
                        if let (Rounding::Blocks, Some(sums)) = (rounding, &sums) {
                            round(sums, row..row + rows, col..col + cols);
                        }
                        continue;
                    }
                    let (lhs, rhs) = (&problem.lhs, &problem.rhs);
                    let (left, left_row, left_step) = match packed {
                        Some(left) => (left.cast::<K::Sum>(), 1, K::ROWS as isize),
                        None => {
                            let at = row as isize * lhs.row_stride + step as isize * lhs.col_stride;
                            (job.lhs.cast::<K::Sum>().wrapping_offset(at), lhs.row_stride, lhs.col_stride)
                        }
                    };
                    let (right, right_step) = match right {
                        Right::Direct => {
                            let at = step as isize * rhs.row_stride + col as isize;
                            (job.rhs.cast::<K::Sum>().wrapping_offset(at), rhs.row_stride)
                        }
                        _ => (
                            panels.start.cast::<K::Sum>().cast_const().wrapping_add(panel * panels.panel),
                            K::COLS as isize,
                        ),
                    };
                    let factors = Factors { steps, left, left_row, left_step, right, right_step };
                    // SAFETY: the matrices are readable and of the type of the sums, as are packed panels of them.
                    unsafe { K::multiply_direct(rows, cols, factors, Place { at: sum, row: sum_row, start, last: 0 }) };
                }
            }
            piece += steps;
            if piece >= part.steps.len() {
                break;
            }
        }
        if !is_last {
            continue;
        }
        if let (Rounding::Groups, Some(sums)) = (rounding, &sums) {
            round(sums, part.rows.clone(), group.clone());
        }
        if let Some(finish) = job.finish
            && ((group.end - done) * part.rows.len() >= FINISH_SUMS || group.end == part.cols.end)
        {
            finish(part.worker, part.rows.clone(), done..group.end);
            done = group.end;
        }
    }
    // SAFETY: begun above.
    unsafe { K::end() };
}
