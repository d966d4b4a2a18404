//! Several rows at a time: memory gives several streams together much more than it gives one.
//!
//! A reduction does so little with each element that it waits for memory. Walking rows side by side keeps more of them on
//! their way, and rows that are folded into one array meet in registers before they do.

use super::ir::{Access, Inst, Lane, Loop, Mode, Reg, Write};
use super::schedule::{Stream, cost, operands, renamed, tidied};
use super::threads::FEW;

/// Rows walked together, as many as fit.
const ROWS: [usize; 3] = [8, 4, 2];
/// Operations of all rows together: more than this and it is not memory that is waited for.
const MOST_OPERATIONS: usize = 64;
/// An operation above this cost is not memory's either.
const MOST_COST: u32 = 2;
/// Groups of rows that are left for threads to share.
const LEAST_GROUPS: usize = 16;

/// A loop over groups of rows, and the arrays of the loop it was made of that its own are.
#[derive(Debug)]
pub(super) struct Groups {
    pub(super) code: Loop,
    /// The first are those of the source, in order.
    pub(super) reads: Vec<usize>,
    pub(super) writes: Vec<usize>,
}

/// The loop with rows side by side; `None` where it is no reduction, or has more to do than to read.
pub(super) fn side_by_side(source: &Loop) -> Option<Groups> {
    let source = tidied(source.clone());
    let rank = source.dims.len();
    let (dim, last) = (rank.checked_sub(2)?, rank - 1);
    let is_merged = |write: &Write| matches!(write.mode, Mode::Combine(_)) && write.access.strides[dim] == 0;
    let reduces = source.insts.iter().any(|inst| matches!(inst, Inst::Reduce(..)));
    if !(reduces || source.writes.iter().any(is_merged)) || !is_light(&source, last) {
        return None;
    }
    if source.writes.iter().any(|write| write.mode == Mode::Store && write.access.strides[dim] == 0)
        || source.insts.iter().any(|inst| matches!(inst, Inst::Index { dim: d, .. } if *d as usize == dim))
    {
        return None;
    }
    let operations = source.insts.iter().filter(|inst| !matches!(inst, Inst::Const { .. })).count();
    let arrays = source.reads.len().max(source.writes.len());
    let least = if source.writes.iter().all(is_merged) { 2 } else { LEAST_GROUPS };
    let fits = |&&rows: &&usize| {
        let size = source.dims[dim];
        size.is_multiple_of(rows)
            && size / rows >= least
            && arrays * rows <= FEW
            && operations * rows <= MOST_OPERATIONS
    };
    let &rows = ROWS.iter().find(fits)?;
    Some(grouped(&source, dim, rows))
}

/// Whether each element takes little, and no element waits for a reduction of its row.
fn is_light(source: &Loop, last: usize) -> bool {
    let streams: Vec<Stream> =
        source.reads.iter().map(|read| Stream { dtype: read.dtype, stride: read.strides[last] }).collect();
    let (uniform, lanes) = (source.uniform(), source.lanes());
    let mut waits: Vec<bool> = Vec::with_capacity(source.insts.len());
    for (at, inst) in source.insts.iter().enumerate() {
        let is_reduction = matches!(inst, Inst::Reduce(..));
        let is_late = is_reduction || operands(inst).any(|reg| waits[reg.0 as usize]);
        if is_late && (!uniform[at] || is_reduction && operands(inst).any(|reg| waits[reg.0 as usize])) {
            return false;
        }
        // Mask registers are few.
        if (!uniform[at] || is_reduction) && lanes[at] == Lane::Mask {
            return false;
        }
        if !uniform[at] && cost(inst, &streams) > MOST_COST {
            return false;
        }
        waits.push(is_late);
    }
    // A uniform value that is repeated along the row is written after the reduction it waits for.
    source.writes.iter().all(|write| write.access.strides[last] == 0 || !waits[write.value.0 as usize])
}

fn grouped(source: &Loop, dim: usize, rows: usize) -> Groups {
    let shifted = |access: &Access, row: usize| {
        let stride = access.strides[dim];
        let mut access = access.clone();
        access.offset = access.offset.wrapping_add(stride.wrapping_mul(row as isize));
        access.strides[dim] = stride.wrapping_mul(rows as isize);
        access
    };
    let mut code = Loop { dims: source.dims.clone(), reads: Vec::new(), insts: Vec::new(), writes: Vec::new() };
    code.dims[dim] /= rows;
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut values: Vec<Vec<Reg>> = vec![Vec::with_capacity(rows); source.writes.len()];
    for row in 0..rows {
        let mut places: Vec<u32> = Vec::with_capacity(source.reads.len());
        for (n, read) in source.reads.iter().enumerate() {
            // What all rows have in common is read once.
            if row > 0 && read.strides[dim] == 0 {
                places.push(n as u32);
                continue;
            }
            places.push(code.reads.len() as u32);
            code.reads.push(shifted(read, row));
            reads.push(n);
        }
        let mut names: Vec<Reg> = Vec::with_capacity(source.insts.len());
        for inst in &source.insts {
            code.insts.push(match *inst {
                Inst::Load(n) => Inst::Load(places[n as usize]),
                _ => renamed(inst, |reg| names[reg.0 as usize]),
            });
            names.push(Reg(code.insts.len() as u32 - 1));
        }
        for (values, write) in values.iter_mut().zip(&source.writes) {
            values.push(names[write.value.0 as usize]);
        }
    }
    for row in 0..rows {
        for (n, write) in source.writes.iter().enumerate() {
            let mut value = values[n][row];
            if write.access.strides[dim] == 0 {
                if row > 0 {
                    continue;
                }
                if let Mode::Combine(fold) = write.mode {
                    let mut pending = values[n].clone();
                    // In pairs: shorter chains, and smaller errors of sums.
                    while pending.len() > 1 {
                        let pairs = pending.chunks(2).map(|pair| match *pair {
                            [a, b] => {
                                code.insts.push(Inst::Binary(fold.binary(), a, b));
                                Reg(code.insts.len() as u32 - 1)
                            }
                            _ => pair[0],
                        });
                        pending = pairs.collect();
                    }
                    value = pending[0];
                }
            }
            code.writes.push(Write { access: shifted(&write.access, row), value, mode: write.mode });
            writes.push(n);
        }
    }
    Groups { code, reads, writes }
}
