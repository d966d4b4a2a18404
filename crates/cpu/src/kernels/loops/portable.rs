//! Runs a schedule on any machine: each instruction over a tile of elements, then the next instruction.
#![allow(unsafe_code)]

use std::cell::RefCell;

use super::Rows;
use super::ir::{Compare, Inst, Lane, Mode, Reg};
use super::portable_formats as formats;
use super::portable_kernels::{Isa, Kernel, LANES, PARTIALS};
use super::portable_ops::{self as ops, Splatted, Spread};
use super::schedule::{Phase, Rate, Schedule, Step, fills_lane, lane_bytes, operands};
use crate::kernels::machine::Machine;

/// Elements of a tile: a few tiles fit the first cache, and a tile outlasts the call of its kernel.
const TILE: usize = 512;
/// Between tiles, so that neighbours do not fall on the same cache lines.
const TILE_GAP_BYTES: usize = 192;
const CELL_BYTES: usize = LANES * 8;
const ALIGN_BYTES: usize = 64;

/// Where an operand lies: `bases[base] + offset + start·step`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    base: u32,
    offset: u32,
    step: isize,
}

/// How many values an operation works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// The elements of the tile.
    Exact,
    /// The elements of the tile, rounded up to whole lanes.
    Lanes,
    /// A whole tile, however long the row is.
    Tile,
    /// One uniform cell.
    Cell,
    /// One element.
    One,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    kernel: Kernel,
    width: Width,
    out: Place,
    a: Place,
    b: Place,
    c: Place,
    extra: i64,
    /// The dimension whose position is added to `extra`.
    index: Option<u32>,
}

#[derive(Debug, Default)]
struct PhaseOps {
    before: Vec<Op>,
    /// Arrays are operands and results themselves: for whole lanes, and reads that are not written.
    direct: Vec<Op>,
    /// Elements are copied to tiles and from tiles.
    copied: Vec<Op>,
    after: Vec<Op>,
}

/// A schedule made of kernels.
#[derive(Debug)]
pub(super) struct Program {
    once: Vec<Op>,
    phases: Vec<PhaseOps>,
    finish: Vec<Op>,
    arena_bytes: usize,
    reads: usize,
    writes: usize,
    slots: usize,
    rank: usize,
    /// Reads and writes that may be the same memory.
    may_alias: Vec<(u32, u32)>,
}

thread_local! {
    static ARENA: RefCell<Vec<[u64; 8]>> = const { RefCell::new(Vec::new()) };
}

impl Program {
    pub(super) fn new(schedule: &Schedule, machine: &Machine) -> Program {
        Builder::new(schedule, Isa::of(machine)).build()
    }

    /// Runs the rows.
    ///
    /// # Safety
    /// The rows are as [`Rows`] says, for the schedule of this program.
    pub(super) unsafe fn run(&self, rows: &mut Rows) {
        ARENA.with_borrow_mut(|arena| {
            let words = self.arena_bytes.div_ceil(ALIGN_BYTES) + 1;
            if arena.len() < words {
                arena.resize(words, [0; 8]);
            }
            let start = arena.as_mut_ptr().cast::<u8>();
            // Vec<[u64; 8]> is aligned to 8 only.
            let start = start.wrapping_add(start.align_offset(ALIGN_BYTES));
            // SAFETY: the arena holds what the program needs, and the caller's promise holds for the rest.
            unsafe { self.run_in(start, rows) }
        });
    }

    /// # Safety
    /// As for [`Program::run`]; `arena` has room for `arena_bytes`.
    unsafe fn run_in(&self, arena: *mut u8, rows: &mut Rows) {
        let count = 1 + self.reads + self.writes + self.slots;
        let mut few = [std::ptr::null_mut::<u8>(); 32];
        let mut many = Vec::new();
        let bases: &mut [*mut u8] = if count <= few.len() {
            &mut few[..count]
        } else {
            many.resize(count, std::ptr::null_mut());
            &mut many
        };
        bases[0] = arena;
        // SAFETY: the arrays of `rows` have one entry for each read, write, slot and dimension.
        let (reads, writes, slots, index, read_steps, write_steps) = unsafe {
            (
                std::slice::from_raw_parts(rows.reads, self.reads),
                std::slice::from_raw_parts(rows.writes, self.writes),
                std::slice::from_raw_parts(rows.slots, self.slots),
                std::slice::from_raw_parts_mut(rows.index, self.rank),
                std::slice::from_raw_parts(rows.read_steps, self.reads),
                std::slice::from_raw_parts(rows.write_steps, self.writes),
            )
        };
        for (base, read) in bases[1..].iter_mut().zip(reads) {
            *base = read.cast_mut();
        }
        bases[1 + self.reads..][..self.writes].copy_from_slice(writes);
        bases[1 + self.reads + self.writes..].copy_from_slice(slots);
        let aliased = self.may_alias.iter().any(|&(r, w)| std::ptr::eq(reads[r as usize], writes[w as usize]));
        // SAFETY: each place was made for these bases, and the caller promises the elements behind them.
        unsafe {
            run_ops(&self.once, bases, index, 0, 1);
            for row in 0..rows.rows {
                if row > 0 {
                    for (base, step) in bases[1..].iter_mut().zip(read_steps.iter().chain(write_steps)) {
                        *base = base.wrapping_offset(*step);
                    }
                    index[self.rank - 2] += 1;
                }
                for phase in &self.phases {
                    run_ops(&phase.before, bases, index, 0, rows.count.min(TILE));
                    let mut start = 0;
                    while start < rows.count {
                        let n = (rows.count - start).min(TILE);
                        let ops = if aliased || !n.is_multiple_of(LANES) { &phase.copied } else { &phase.direct };
                        run_ops(ops, bases, index, start, n);
                        start += n;
                    }
                    run_ops(&phase.after, bases, index, 0, 1);
                }
                run_ops(&self.finish, bases, index, 0, 1);
            }
        }
    }
}

/// # Safety
/// As for [`Program::run`].
#[inline]
unsafe fn run_ops(ops: &[Op], bases: &[*mut u8], index: &[i64], start: usize, n: usize) {
    let at =
        |place: &Place| bases[place.base as usize].wrapping_offset(place.offset as isize + place.step * start as isize);
    for op in ops {
        let count = match op.width {
            Width::Exact => n,
            Width::Lanes => n.next_multiple_of(LANES),
            Width::Tile => TILE,
            Width::Cell => LANES,
            Width::One => 1,
        };
        let extra = match op.index {
            None => op.extra,
            Some(dim) => index[dim as usize] + if dim as usize + 1 == index.len() { start as i64 } else { 0 },
        };
        // SAFETY: the places are valid for the count of the operation.
        unsafe { (op.kernel)(count, at(&op.out), at(&op.a), at(&op.b), at(&op.c), extra) }
    }
}

/// What a register is while operations are made.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Its uniform cell, or its place in this phase.
    place: Option<Place>,
    /// Its uniform value over a whole tile.
    splat: Option<Place>,
}

struct Builder<'a> {
    schedule: &'a Schedule,
    isa: Isa,
    program: Program,
    known: Vec<Known>,
    /// Tiles not in use in this phase, by bytes of a value.
    free: Vec<(usize, Place)>,
}

impl<'a> Builder<'a> {
    fn new(schedule: &'a Schedule, isa: Isa) -> Builder<'a> {
        let may_alias = (0..schedule.writes.len())
            .flat_map(|w| schedule.same_place(w).iter().map(move |&r| (r, w as u32)))
            .collect();
        Builder {
            schedule,
            isa,
            program: Program {
                once: Vec::new(),
                phases: Vec::new(),
                finish: Vec::new(),
                arena_bytes: 0,
                reads: schedule.reads.len(),
                writes: schedule.writes.len(),
                slots: schedule.slots.len(),
                rank: schedule.rank,
                may_alias,
            },
            known: vec![Known::default(); schedule.insts.len()],
            free: Vec::new(),
        }
    }

    fn build(mut self) -> Program {
        // A uniform operand of a kernel without a form for it is spread over a tile where it is computed.
        for phase in &self.schedule.phases {
            for step in &phase.steps {
                for reg in self.spread_operands(step) {
                    if self.known[reg.0 as usize].splat.is_none() {
                        let width = lane_bytes(self.lane(reg));
                        self.known[reg.0 as usize].splat = Some(self.reserve(TILE * width + TILE_GAP_BYTES));
                    }
                }
            }
        }
        let mut once = Vec::new();
        for &reg in &self.schedule.once {
            self.uniform(reg, &mut once);
        }
        self.program.once = once;
        for phase in &self.schedule.phases {
            let ops = self.phase(phase);
            self.program.phases.push(ops);
        }
        let mut finish = Vec::new();
        for &reg in &self.schedule.finish {
            self.uniform(reg, &mut finish);
        }
        for &write in &self.schedule.row_writes {
            let value = self.schedule.writes[write as usize].value;
            let place = self.known[value.0 as usize].place.unwrap_or_default();
            finish.push(self.store(write, place, Width::One));
        }
        self.program.finish = finish;
        self.program
    }

    fn lane(&self, reg: Reg) -> Lane {
        self.schedule.lanes[reg.0 as usize]
    }

    fn is_uniform(&self, reg: Reg) -> bool {
        self.schedule.rates[reg.0 as usize] != Rate::Element
    }

    fn reserve(&mut self, bytes: usize) -> Place {
        let offset = self.program.arena_bytes as u32;
        self.program.arena_bytes += bytes.next_multiple_of(ALIGN_BYTES);
        Place { base: 0, offset, step: 0 }
    }

    fn tile(&mut self, width: usize) -> Place {
        match self.free.iter().position(|(w, _)| *w == width) {
            Some(at) => self.free.swap_remove(at).1,
            None => self.reserve(TILE * width + TILE_GAP_BYTES),
        }
    }

    fn read_base(&self, read: u32) -> u32 {
        1 + read
    }

    fn write_base(&self, write: u32) -> u32 {
        (1 + self.program.reads) as u32 + write
    }

    fn slot_place(&self, slot: u32) -> Place {
        let base = (1 + self.program.reads + self.program.writes) as u32 + slot;
        Place { base, offset: 0, step: lane_bytes(self.schedule.slots[slot as usize]) as isize }
    }

    fn op(&self, kernel: Kernel, width: Width, out: Place, args: [Place; 3], extra: i64) -> Op {
        Op { kernel, width, out, a: args[0], b: args[1], c: args[2], extra, index: None }
    }

    /// The uniform operands of a step that must lie over a tile.
    fn spread_operands(&self, step: &Step) -> Vec<Reg> {
        let all = |inst: &Inst| operands(inst).filter(|&r| self.is_uniform(r)).collect::<Vec<_>>();
        match step {
            Step::Compute(reg) => {
                let inst = &self.schedule.insts[reg.0 as usize];
                if self.direct_kernel(inst).is_some() { Vec::new() } else { all(inst) }
            }
            Step::Fold(reg) => all(&self.schedule.insts[reg.0 as usize]),
            Step::Write(n) => {
                let value = self.schedule.writes[*n as usize].value;
                if self.is_uniform(value) { vec![value] } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    }

    /// The kernel of an element instruction that takes its uniform operands as they are.
    fn direct_kernel(&self, inst: &Inst) -> Option<(Kernel, [Reg; 3])> {
        let splatted = |r: Reg| if self.is_uniform(r) { Splatted::Yes } else { Splatted::No };
        let spread = |a: Reg, b: Reg| match (self.is_uniform(a), self.is_uniform(b)) {
            (true, false) => Spread::First,
            (false, true) => Spread::Second,
            _ => Spread::None,
        };
        match *inst {
            Inst::Binary(op, a, b) => Some((ops::binary(op, self.lane(a), spread(a, b), self.isa)?, [a, b, b])),
            Inst::Compare(op, a, b) => {
                let (op, a, b) = ordered(op, a, b);
                Some((ops::compare(op, self.lane(a), spread(a, b), self.isa)?, [a, b, b]))
            }
            Inst::Select(m, a, b) if !self.is_uniform(m) => {
                Some((ops::select(self.lane(a), splatted(a), splatted(b), self.isa)?, [m, a, b]))
            }
            _ => None,
        }
    }

    /// The operations of an instruction on full operands; `out` is where the result goes.
    fn compute(&mut self, inst: &Inst, args: [Place; 3], lane: Lane, out: Place, width: Width) -> Vec<Op> {
        let isa = self.isa;
        let first = operands(inst).next().map(|r| self.lane(r));
        let from = first.unwrap_or(lane);
        let kernel = match *inst {
            Inst::Load(_) | Inst::Reduce(..) => None,
            Inst::Const { bits, .. } => {
                return vec![self.op(ops::from_extra(lane, isa), width, out, args, bits as i64)];
            }
            Inst::Index { dim, .. } => {
                let along = dim as usize + 1 == self.schedule.rank;
                let kernel = if along { ops::counting(lane, isa) } else { ops::from_extra(lane, isa) };
                return vec![Op { index: Some(dim), ..self.op(kernel, width, out, args, 0) }];
            }
            Inst::Unary(op, _) => ops::unary(op, from, isa),
            Inst::Binary(op, ..) => ops::binary(op, from, Spread::None, isa),
            Inst::Fma(..) => Some(ops::fused(lane, isa)),
            Inst::Compare(op, a, b) => {
                let (op, first, _) = ordered(op, a, b);
                let args = if first == a { args } else { [args[1], args[0], args[2]] };
                return ops::compare(op, from, Spread::None, isa)
                    .map(|kernel| vec![self.op(kernel, width, out, args, 0)])
                    .unwrap_or_default();
            }
            Inst::Select(..) => ops::select(lane, Splatted::No, Splatted::No, isa),
            Inst::Round(dtype, _) => Some(formats::round(dtype, isa)),
            Inst::Bitcast(_) => Some(formats::copied(lane, isa)),
            Inst::Convert { source, target, .. } => match formats::convert(source, target, isa) {
                (None, _) => Some(formats::copied(lane, isa)),
                (Some(kernel), None) => Some(kernel),
                (Some(kernel), Some(then)) => {
                    // The result's own tile is free until the second kernel, which may not work in place.
                    let between = self.reserve(TILE * 4 + TILE_GAP_BYTES);
                    return vec![
                        self.op(kernel, width, between, args, 0),
                        self.op(then, width, out, [between, between, between], 0),
                    ];
                }
            },
        };
        // An operation that the lane lacks leaves its operand: the lowering makes no such loops.
        let kernel = kernel.unwrap_or_else(|| formats::copied(lane, isa));
        vec![self.op(kernel, width, out, args, 0)]
    }

    /// Computes a uniform register into its cell, and over a tile where that is wanted.
    fn uniform(&mut self, reg: Reg, ops: &mut Vec<Op>) {
        let inst = self.schedule.insts[reg.0 as usize];
        let lane = self.lane(reg);
        let cell = self.reserve(CELL_BYTES);
        let mut args = [Place::default(); 3];
        for (arg, operand) in args.iter_mut().zip(operands(&inst)) {
            *arg = self.known[operand.0 as usize].place.unwrap_or_default();
        }
        if let Inst::Load(n) = inst {
            let stream = self.schedule.reads[n as usize];
            let source = Place { base: self.read_base(n), offset: 0, step: 0 };
            ops.push(self.op(formats::load(stream.dtype, 0, self.isa), Width::Cell, cell, [source; 3], 0));
        } else {
            ops.extend(self.compute(&inst, args, lane, cell, Width::Cell));
        }
        self.spread(reg, cell, ops);
    }

    fn spread(&mut self, reg: Reg, cell: Place, ops: &mut Vec<Op>) {
        self.known[reg.0 as usize].place = Some(cell);
        if let Some(splat) = self.known[reg.0 as usize].splat {
            let kernel = ops::splat(self.lane(reg), self.isa);
            ops.push(self.op(kernel, Width::Tile, splat, [cell; 3], 0));
        }
    }

    fn store(&self, write: u32, value: Place, width: Width) -> Op {
        let sink = &self.schedule.writes[write as usize];
        let kernel = match sink.mode {
            Mode::Store => formats::store(sink.dtype, sink.stride, self.isa),
            Mode::Combine(fold) => formats::fold(fold, self.lane(sink.value), self.isa).combine,
        };
        let step = sink.stride * sink.dtype.size_bytes() as isize;
        let out = Place { base: self.write_base(write), offset: 0, step };
        self.op(kernel, width, out, [value; 3], sink.stride as i64)
    }

    fn phase(&mut self, phase: &Phase) -> PhaseOps {
        let mut ops = PhaseOps::default();
        for &reg in &phase.uniforms {
            self.uniform(reg, &mut ops.before);
        }
        let mut partials = Vec::new();
        for step in &phase.steps {
            if let Step::Fold(reg) = step
                && let Inst::Reduce(fold, _) = self.schedule.insts[reg.0 as usize]
            {
                let lane = self.lane(*reg);
                let kernels = formats::fold(fold, lane, self.isa);
                let partial = self.reserve(PARTIALS * lane_bytes(lane));
                partials.push((*reg, partial));
                ops.before.push(self.op(kernels.start, Width::One, partial, [partial; 3], 0));
            }
        }
        ops.copied = self.walk(phase, &partials, Arrays::Copied);
        ops.direct = self.walk(phase, &partials, Arrays::Direct);
        for (reg, partial) in partials {
            if let Inst::Reduce(fold, _) = self.schedule.insts[reg.0 as usize] {
                let cell = self.reserve(CELL_BYTES);
                let kernels = formats::fold(fold, self.lane(reg), self.isa);
                ops.after.push(self.op(kernels.end, Width::One, cell, [partial; 3], 0));
                self.spread(reg, cell, &mut ops.after);
            }
        }
        ops
    }

    fn walk(&mut self, phase: &Phase, partials: &[(Reg, Place)], arrays: Arrays) -> Vec<Op> {
        self.free.clear();
        let mut ops = Vec::new();
        let last_uses = self.last_uses(phase);
        let mut tiles: Vec<(Reg, usize, Place)> = Vec::new();
        // Writes whose values are computed in their place.
        let mut in_place: Vec<u32> = Vec::new();
        for (at, step) in phase.steps.iter().enumerate() {
            match *step {
                Step::Compute(reg) => {
                    let write = if arrays == Arrays::Direct { self.own_write(reg, &phase.steps[at..]) } else { None };
                    in_place.extend(write);
                    self.element(reg, arrays, write, &mut ops, &mut tiles);
                }
                Step::Fold(reg) => {
                    let Inst::Reduce(fold, value) = self.schedule.insts[reg.0 as usize] else { continue };
                    let kernels = formats::fold(fold, self.lane(reg), self.isa);
                    let partial = partials.iter().find(|(r, _)| *r == reg).map(|(_, p)| *p).unwrap_or_default();
                    let value = self.operand(value, Spreading::Tile);
                    ops.push(self.op(kernels.fold, Width::Exact, partial, [value; 3], 0));
                }
                Step::Spill { value, slot } => {
                    let place = self.operand(value, Spreading::Tile);
                    let kernel = formats::copied(self.lane(value), self.isa);
                    ops.push(self.op(kernel, Width::Lanes, self.slot_place(slot), [place; 3], 0));
                }
                Step::Reload { value, slot } => {
                    self.known[value.0 as usize].place = Some(self.slot_place(slot));
                }
                Step::ReloadWrite { value, write } => {
                    let dtype = self.schedule.writes[write as usize].dtype;
                    let step = dtype.size_bytes() as isize;
                    let source = Place { base: self.write_base(write), offset: 0, step };
                    if arrays == Arrays::Direct && fills_lane(dtype) {
                        self.known[value.0 as usize].place = Some(source);
                    } else {
                        let width = lane_bytes(self.lane(value));
                        let tile = self.tile(width);
                        tiles.push((value, width, tile));
                        self.known[value.0 as usize].place = Some(tile);
                        let kernel = formats::load(dtype, 1, self.isa);
                        ops.push(self.op(kernel, Width::Exact, tile, [source; 3], 1));
                    }
                }
                Step::Write(n) if in_place.contains(&n) => {}
                Step::Write(n) => {
                    let value = self.operand(self.schedule.writes[n as usize].value, Spreading::Tile);
                    ops.push(self.store(n, value, Width::Exact));
                }
            }
            tiles.retain(|(reg, width, tile)| {
                let dead = last_uses[reg.0 as usize] <= at;
                if dead {
                    self.free.push((*width, *tile));
                }
                !dead
            });
        }
        ops
    }

    /// The write among `steps` of a computed value that lies in its array as it does in a tile.
    fn own_write(&self, reg: Reg, steps: &[Step]) -> Option<u32> {
        let is_load = matches!(self.schedule.insts[reg.0 as usize], Inst::Load(_));
        let write = steps.iter().find_map(|step| match *step {
            Step::Write(n) if self.schedule.writes[n as usize].value == reg => Some(n),
            _ => None,
        })?;
        let sink = &self.schedule.writes[write as usize];
        let is_plain = matches!(sink.mode, Mode::Store) && sink.stride == 1 && fills_lane(sink.dtype);
        (is_plain && !is_load).then_some(write)
    }

    /// Computes a register into a tile, or into the array of `write`.
    fn element(
        &mut self,
        reg: Reg,
        arrays: Arrays,
        write: Option<u32>,
        ops: &mut Vec<Op>,
        tiles: &mut Vec<(Reg, usize, Place)>,
    ) {
        let inst = self.schedule.insts[reg.0 as usize];
        let lane = self.lane(reg);
        if let Inst::Load(n) = inst {
            let stream = self.schedule.reads[n as usize];
            let bytes = stream.dtype.size_bytes();
            if arrays == Arrays::Direct && stream.stride == 1 && fills_lane(stream.dtype) {
                let place = Place { base: self.read_base(n), offset: 0, step: bytes as isize };
                self.known[reg.0 as usize].place = Some(place);
                return;
            }
        }
        let width = lane_bytes(lane);
        let tile = match write {
            Some(write) => Place { base: self.write_base(write), offset: 0, step: width as isize },
            None => {
                let tile = self.tile(width);
                tiles.push((reg, width, tile));
                tile
            }
        };
        self.known[reg.0 as usize].place = Some(tile);
        if let Inst::Load(n) = inst {
            let stream = self.schedule.reads[n as usize];
            let step = stream.stride * stream.dtype.size_bytes() as isize;
            let source = Place { base: self.read_base(n), offset: 0, step };
            let kernel = formats::load(stream.dtype, stream.stride, self.isa);
            ops.push(self.op(kernel, Width::Exact, tile, [source; 3], stream.stride as i64));
        } else if let Some((kernel, args)) = self.direct_kernel(&inst) {
            let args = args.map(|r| self.operand(r, Spreading::Cell));
            ops.push(self.op(kernel, Width::Lanes, tile, args, 0));
        } else {
            let mut args = [Place::default(); 3];
            for (arg, operand) in args.iter_mut().zip(operands(&inst)) {
                *arg = self.operand(operand, Spreading::Tile);
            }
            ops.extend(self.compute(&inst, args, lane, tile, Width::Lanes));
        }
    }

    fn operand(&self, reg: Reg, spreading: Spreading) -> Place {
        let known = &self.known[reg.0 as usize];
        match spreading {
            Spreading::Tile if self.is_uniform(reg) => known.splat.or(known.place).unwrap_or_default(),
            _ => known.place.unwrap_or_default(),
        }
    }

    /// The last step that uses each register.
    fn last_uses(&self, phase: &Phase) -> Vec<usize> {
        let mut last = vec![0; self.schedule.insts.len()];
        for (at, step) in phase.steps.iter().enumerate() {
            match step {
                Step::Compute(reg) | Step::Fold(reg) => {
                    last[reg.0 as usize] = at;
                    operands(&self.schedule.insts[reg.0 as usize]).for_each(|r| last[r.0 as usize] = at);
                }
                Step::Spill { value, .. } | Step::Reload { value, .. } | Step::ReloadWrite { value, .. } => {
                    last[value.0 as usize] = at;
                }
                Step::Write(n) => last[self.schedule.writes[*n as usize].value.0 as usize] = at,
            }
        }
        last
    }
}

/// Whether arrays are used in place of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrays {
    Direct,
    Copied,
}

/// Which form of a uniform register a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spreading {
    Cell,
    Tile,
}

/// The comparison with "greater" turned into "less".
fn ordered(op: Compare, a: Reg, b: Reg) -> (Compare, Reg, Reg) {
    match op {
        Compare::Gt => (Compare::Lt, b, a),
        Compare::Ge => (Compare::Le, b, a),
        Compare::GtU => (Compare::LtU, b, a),
        Compare::GeU => (Compare::LeU, b, a),
        _ => (op, a, b),
    }
}
