//! The iteration space of a loop: sizes and byte strides, brought into the form that runs best.

use super::ir::{Access, Inst, Loop, Mode, Reg, Write};
use super::schedule::{renamed, tidied};

/// Where an array lies, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) offset: isize,
    pub(super) strides: Vec<isize>,
}

/// The space a schedule is run over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nest {
    pub(super) dims: Vec<usize>,
    pub(super) reads: Vec<Placed>,
    pub(super) writes: Vec<Placed>,
    /// Bytes from a row to the next.
    pub(super) read_steps: Vec<isize>,
    pub(super) write_steps: Vec<isize>,
}

impl Nest {
    pub(super) fn new(source: &Loop) -> Nest {
        let placed = |access: &Access| {
            let bytes = access.dtype.size_bytes() as isize;
            Placed {
                offset: access.offset.wrapping_mul(bytes),
                strides: access.strides.iter().map(|s| s.wrapping_mul(bytes)).collect(),
            }
        };
        let reads: Vec<Placed> = source.reads.iter().map(placed).collect();
        let writes: Vec<Placed> = source.writes.iter().map(|w| placed(&w.access)).collect();
        let rank = source.dims.len();
        let step = |p: &Placed| if rank >= 2 { p.strides[rank - 2] } else { 0 };
        let (read_steps, write_steps) = (reads.iter().map(step).collect(), writes.iter().map(step).collect());
        Nest { dims: source.dims.clone(), reads, writes, read_steps, write_steps }
    }
}

fn accesses_mut(source: &mut Loop) -> impl Iterator<Item = &mut Access> {
    source.reads.iter_mut().chain(source.writes.iter_mut().map(|w| &mut w.access))
}

fn accesses(source: &Loop) -> impl Iterator<Item = &Access> {
    source.reads.iter().chain(source.writes.iter().map(|w| &w.access))
}

pub(super) fn reduces(source: &Loop) -> bool {
    source.insts.iter().any(|inst| matches!(inst, Inst::Reduce(..)))
}

/// Whether an instruction asks for the position along a dimension.
fn indexes(source: &Loop, dim: usize) -> bool {
    source.insts.iter().any(|inst| matches!(inst, Inst::Index { dim: d, .. } if *d as usize == dim))
}

fn remove_dim(source: &mut Loop, dim: usize) {
    source.dims.remove(dim);
    for access in accesses_mut(source) {
        access.strides.remove(dim);
    }
    for inst in &mut source.insts {
        if let Inst::Index { dim: d, .. } = inst
            && *d as usize > dim
        {
            *d -= 1;
        }
    }
}

/// The loop without dimensions of size 1, and the dimensions of the source that are left.
///
/// Reductions of rows of one element are the element itself. Where every size is 1 the last dimension is kept.
pub(super) fn without_ones(source: Loop) -> (Loop, Vec<usize>) {
    let mut source = tidied(source);
    let mut kept: Vec<usize> = (0..source.dims.len()).collect();
    let is_row_one = source.dims.last() == Some(&1);
    if is_row_one {
        let mut names: Vec<Reg> = Vec::with_capacity(source.insts.len());
        for at in 0..source.insts.len() {
            // A register stands for itself, a reduction for its operand.
            let name = match source.insts[at] {
                Inst::Reduce(_, value) => names[value.0 as usize],
                _ => Reg(at as u32),
            };
            names.push(name);
        }
        source.insts = source.insts.iter().map(|inst| renamed(inst, |r| names[r.0 as usize])).collect();
        for write in &mut source.writes {
            write.value = names[write.value.0 as usize];
        }
        source = tidied(source);
    }
    for dim in (0..source.dims.len()).rev() {
        if source.dims[dim] != 1 {
            continue;
        }
        if indexes(&source, dim) {
            for inst in &mut source.insts {
                if let Inst::Index { lane, dim: d } = *inst
                    && d as usize == dim
                {
                    *inst = Inst::Const { lane, bits: 0 };
                }
            }
        }
        if source.dims.len() == 1 {
            accesses_mut(&mut source).for_each(|access| access.strides[0] = 0);
        } else {
            remove_dim(&mut source, dim);
            kept.remove(dim);
        }
    }
    // Combining an element value along a row is a reduction of the row; a uniform one counts once for each row, which is
    // each element where another dimension took the place of rows of one element.
    let last = source.dims.len() - 1;
    let uniform = source.uniform();
    for at in 0..source.writes.len() {
        let Write { access, value, mode } = &source.writes[at];
        if let Mode::Combine(fold) = *mode
            && access.strides[last] == 0
            && (is_row_one || !uniform[value.0 as usize])
            && source.dims[last] > 1
        {
            source.insts.push(Inst::Reduce(fold, *value));
            source.writes[at].value = Reg(source.insts.len() as u32 - 1);
        }
    }
    (source, kept)
}

/// The loop with neighbouring dimensions joined where every array allows it.
pub(super) fn joined(mut source: Loop) -> Loop {
    let last = source.dims.len() - 1;
    let combines_rows = |w: &Write| w.mode != Mode::Store && w.access.strides[last] == 0;
    let row_is_fixed = reduces(&source) || source.writes.iter().any(combines_rows);
    let mut dim = source.dims.len() - 1;
    while dim > 0 {
        let outer = dim - 1;
        let size = source.dims[dim];
        let fits = accesses(&source)
            .all(|a| isize::try_from(size).ok().and_then(|n| a.strides[dim].checked_mul(n)) == Some(a.strides[outer]));
        let fixed = row_is_fixed && dim == source.dims.len() - 1;
        let joint = source.dims[outer].checked_mul(size);
        if let Some(joint) = joint
            && fits
            && !fixed
            && !indexes(&source, dim)
            && !indexes(&source, outer)
        {
            source.dims[dim] = joint;
            remove_dim(&mut source, outer);
        }
        dim = outer;
    }
    source
}

/// Below this a row is too short for vectors.
const SHORT_ROW: usize = 8;

/// The loop with another dimension as its row, where the row is short and that is allowed and better.
pub(super) fn exchanged(mut source: Loop) -> Loop {
    let last = source.dims.len() - 1;
    let repeats = |w: &Write| w.mode == Mode::Store && w.access.strides.contains(&0);
    if source.dims[last] >= SHORT_ROW || last == 0 || reduces(&source) || source.writes.iter().any(repeats) {
        return source;
    }
    let reduced = |dim: usize| source.writes.iter().any(|w| w.access.strides[dim] == 0);
    // About the time for one element: contiguous rows move at full speed, gathered ones several times slower.
    let time = |dim: usize| {
        let moved: usize = accesses(&source)
            .map(|a| match a.strides[dim] {
                0 => 0,
                1 => 1,
                _ => 4,
            })
            .sum();
        (1.0 + moved as f64) + 40.0 / source.dims[dim] as f64
    };
    let best =
        (0..=last).filter(|&d| d == last || !reduced(d)).min_by(|&a, &b| time(a).total_cmp(&time(b))).unwrap_or(last);
    if best == last || time(best) * 1.2 > time(last) {
        return source;
    }
    source.dims.swap(best, last);
    for access in accesses_mut(&mut source) {
        access.strides.swap(best, last);
    }
    for inst in &mut source.insts {
        if let Inst::Index { dim, .. } = inst {
            *dim = match *dim as usize {
                d if d == best => last as u32,
                d if d == last => best as u32,
                d => d as u32,
            };
        }
    }
    source
}
