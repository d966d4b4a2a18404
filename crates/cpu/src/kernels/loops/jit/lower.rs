//! Writes a schedule as a program: rows, the phases of a row, and what is unrolled.

use super::super::ir::{Binary, Inst, Lane, Mode, Reg, Unary};
use super::super::schedule::{Rate, Schedule, Step, fills_lane, operands};
use super::Stores;
use super::lanes::Lanework;
use super::ops as x86;
use super::program::{Arrays, Constant, Item, Lanes, Mem, Program, Virt, Walk, X};
use crate::kernels::machine::Machine;
use tensor::DType;

/// More instructions than this are left to the other backend: registers would mostly live in memory.
const MOST_STEPS: usize = 2000;
const MOST_ITEMS: usize = 20_000;
const MOST_ARRAYS: usize = 1000;
/// Accumulators of one phase, all unrolled copies together.
const MOST_ACCUMULATORS: usize = 16;

struct Lowering<'a> {
    schedule: &'a Schedule,
    work: Lanework<'a>,
    /// Uniform registers.
    uniform: Vec<X>,
    /// Registers of the vector being computed.
    element: Vec<X>,
    /// The positions of a vector's elements along the row when the counter is 0, in lanes I32 and I64.
    positions: [X; 2],
    /// Which unrolled copy is being written.
    copy: u32,
    lanes: Lanes,
    /// Roundings that the only store of their result does anyway.
    rounded_by_store: Vec<bool>,
    /// Writes that are stored past the caches.
    streamed: Vec<u32>,
}

/// A schedule as a program.
#[derive(Debug)]
pub(super) struct Lowered {
    pub(super) program: Program,
    pub(super) arrays: Arrays,
    /// Elements in a vector.
    #[cfg(target_arch = "aarch64")]
    pub(super) width: u32,
    /// Writes that are stored past the caches; their rows must start at cache lines.
    pub(super) streamed: Vec<u32>,
}

/// The program of a schedule; `None` where something is not covered.
pub(super) fn lower(schedule: &Schedule, machine: &Machine, stores: Stores) -> Option<Lowered> {
    let steps: usize = schedule.phases.iter().map(|p| p.steps.len() + p.uniforms.len()).sum();
    let arrays = schedule.reads.len() + schedule.writes.len() + schedule.slots.len();
    if steps + schedule.insts.len() > MOST_STEPS || arrays > MOST_ARRAYS {
        return None;
    }
    let has_wide_lanes = schedule.lanes.iter().any(|lane| matches!(lane, Lane::F64 | Lane::I64));
    let work = Lanework::new(machine, has_wide_lanes);
    let streamed = if stores == Stores::Streaming { streamable(schedule, &work) } else { Vec::new() };
    let mut lowering = Lowering {
        schedule,
        work,
        uniform: vec![X::None; schedule.insts.len()],
        element: vec![X::None; schedule.insts.len()],
        positions: [X::None; 2],
        copy: 0,
        lanes: Lanes::All,
        rounded_by_store: rounded_by_store(schedule),
        streamed,
    };
    lowering.function()?;
    let counts_rows = |inst: &Inst| matches!(inst, Inst::Index { dim, .. } if *dim as usize + 2 == schedule.rank);
    let rank = if schedule.insts.iter().any(counts_rows) { schedule.rank as u32 } else { 0 };
    let arrays = Arrays {
        #[cfg(target_arch = "x86_64")]
        streams: !lowering.streamed.is_empty(),
        reads: schedule.reads.len() as u32,
        writes: schedule.writes.len() as u32,
        slots: schedule.slots.len() as u32,
        rank,
    };
    Some(Lowered {
        arrays,
        #[cfg(target_arch = "aarch64")]
        width: lowering.work.width,
        program: lowering.work.program,
        streamed: lowering.streamed,
    })
}

/// Roundings to a type whose result goes nowhere but to a store of that type.
fn rounded_by_store(schedule: &Schedule) -> Vec<bool> {
    let mut uses = vec![0u32; schedule.insts.len()];
    let mut count = |reg: Reg| uses[reg.0 as usize] += 1;
    schedule.insts.iter().flat_map(operands).for_each(&mut count);
    for step in schedule.phases.iter().flat_map(|p| &p.steps) {
        match *step {
            Step::Spill { value, .. } | Step::Reload { value, .. } | Step::ReloadWrite { value, .. } => count(value),
            Step::Compute(_) | Step::Fold(_) | Step::Write(_) => {}
        }
    }
    schedule.writes.iter().for_each(|write| count(write.value));
    let mut rounded = vec![false; schedule.insts.len()];
    for write in schedule.writes.iter().filter(|w| w.mode == Mode::Store) {
        let at = write.value.0 as usize;
        let (target, from) = match schedule.insts[at] {
            Inst::Round(dtype, from) => (dtype, from),
            Inst::Convert { value, target, .. } => (target, value),
            _ => continue,
        };
        let same_lane = schedule.lanes[from.0 as usize] == Lane::F32;
        rounded[at] = uses[at] == 1 && same_lane && target == write.dtype && matches!(target, DType::BF16 | DType::F16);
    }
    rounded
}

/// Contiguous writes whose vectors fill a register, and that are not read back.
fn streamable(schedule: &Schedule, work: &Lanework<'_>) -> Vec<u32> {
    let read_back = |n: u32| {
        let reads = |step: &Step| matches!(step, Step::ReloadWrite { write, .. } if *write == n);
        schedule.phases.iter().flat_map(|p| &p.steps).any(reads)
    };
    let streams = |&n: &u32| {
        let sink = schedule.writes[n as usize];
        sink.stride == 1
            && sink.mode == Mode::Store
            && sink.dtype.size_bytes() as u32 * work.width == work.full().bytes()
            && fills_lane(sink.dtype)
            && !read_back(n)
    };
    (0..schedule.writes.len() as u32).filter(streams).collect()
}

/// About how many instructions a register takes.
fn weight(inst: &Inst) -> usize {
    match inst {
        Inst::Unary(
            Unary::Exp
            | Unary::ExpMinusOne
            | Unary::Log
            | Unary::LogPlusOne
            | Unary::Tanh
            | Unary::Logistic
            | Unary::Erf,
            _,
        ) => 20,
        Inst::Unary(Unary::Sin | Unary::Cos | Unary::Tan | Unary::Cbrt, _) => 100,
        Inst::Binary(Binary::Pow | Binary::Atan2, ..) => 100,
        Inst::Convert { .. } | Inst::Round(..) => 3,
        Inst::Const { .. } => 0,
        _ => 1,
    }
}

impl Lowering<'_> {
    fn function(&mut self) -> Option<()> {
        let schedule = self.schedule;
        for (which, lane) in [Lane::I32, Lane::I64].into_iter().enumerate() {
            let along = |inst: &Inst| matches!(inst, Inst::Index { lane: l, dim } if *l == lane && *dim as usize + 1 == schedule.rank);
            if schedule.insts.iter().any(along) {
                self.positions[which] = self.first_positions(lane);
            }
        }
        for &reg in &schedule.once {
            self.uniform(reg)?;
        }
        self.work.program.items.push(Item::Enter(Walk::Rows));
        for phase in &schedule.phases {
            for &reg in &phase.uniforms {
                self.uniform(reg)?;
            }
            self.walk(&phase.steps)?;
            if self.work.program.items.len() > MOST_ITEMS {
                return None;
            }
        }
        for &reg in &schedule.finish {
            self.uniform(reg)?;
        }
        for &write in &schedule.row_writes {
            self.row_write(write)?;
        }
        self.work.program.items.push(Item::Leave(Walk::Rows));
        Some(())
    }

    fn first_positions(&mut self, lane: Lane) -> X {
        let dim = self.schedule.rank as u32 - 1;
        let start = self.index_of(lane, dim);
        let num = self.work.num(lane);
        let lanes: [i32; 16] =
            std::array::from_fn(|at| if num.wide { (at / 2 * (1 - at % 2)) as i32 } else { at as i32 });
        let along = self.work.program.constant(Constant::Vector(lanes));
        self.work.program.two(num.pick(x86::PADDD, x86::PADDQ), num.length, start, along)
    }

    /// The position of the row's first element along a dimension, in all lanes.
    fn index_of(&mut self, lane: Lane, dim: u32) -> X {
        let op = self.work.num(lane).pick(x86::BROADCASTSS, x86::BROADCASTSD);
        self.work.program.load(op, self.work.full(), Mem::Index { dim }, Lanes::All)
    }

    fn inst(&self, reg: Reg) -> &Inst {
        &self.schedule.insts[reg.0 as usize]
    }

    fn value(&self, reg: Reg) -> X {
        let at = reg.0 as usize;
        if self.schedule.rates[at] == Rate::Element { self.element[at] } else { self.uniform[at] }
    }

    /// The lane of the operands that decide what an instruction does.
    fn operand_lane(&self, reg: Reg) -> Lane {
        let inst = self.inst(reg);
        let lane = |r: Reg| self.schedule.lanes[r.0 as usize];
        match *inst {
            Inst::Unary(_, a) | Inst::Compare(_, a, _) => lane(a),
            _ => lane(reg),
        }
    }

    fn computed(&mut self, reg: Reg) -> Option<X> {
        let mut values = [X::None; 3];
        for (value, operand) in values.iter_mut().zip(operands(self.inst(reg))) {
            *value = self.value(operand);
        }
        if self.rounded_by_store[reg.0 as usize] {
            return Some(values[0]);
        }
        let lane = self.operand_lane(reg);
        let inst = *self.inst(reg);
        self.work.instruction(&inst, lane, values)
    }

    fn uniform(&mut self, reg: Reg) -> Option<()> {
        let value = match *self.inst(reg) {
            Inst::Load(read) => {
                let dtype = self.schedule.reads[read as usize].dtype;
                self.work.load_uniform(dtype, Mem::Row { base: read })?
            }
            Inst::Index { lane, dim } => self.index_of(lane, dim),
            // Its phase has left the value.
            Inst::Reduce(..) => return Some(()),
            _ => self.computed(reg)?,
        };
        self.uniform[reg.0 as usize] = value;
        Some(())
    }

    /// One walk along the row.
    fn walk(&mut self, steps: &[Step]) -> Option<()> {
        let folds: Vec<Reg> =
            steps.iter().filter_map(|s| if let Step::Fold(reg) = s { Some(*reg) } else { None }).collect();
        let weight: usize = steps
            .iter()
            .map(|step| match step {
                Step::Compute(reg) => weight(self.inst(*reg)),
                _ => 1,
            })
            .sum();
        let mut copies = match (folds.is_empty(), weight) {
            (true, 0..=6) | (false, 0..=24) => 4,
            (true, 7..=24) | (false, 25..=80) => 2,
            _ => 1,
        };
        let most = if self.work.is_rich() { MOST_ACCUMULATORS } else { MOST_ACCUMULATORS / 2 };
        while copies > 1 && copies * folds.len() > most {
            copies /= 2;
        }
        let mut accumulators: Vec<Vec<Virt>> = Vec::with_capacity(folds.len());
        for &reg in &folds {
            let Inst::Reduce(fold, _) = *self.inst(reg) else { return None };
            let lane = self.schedule.lanes[reg.0 as usize];
            // Mask registers are few.
            let count = if lane == Lane::Mask { 1 } else { copies };
            let all: Option<Vec<Virt>> = (0..count).map(|_| self.work.accumulator(fold, lane)).collect();
            accumulators.push(all?);
        }
        let width = self.work.width;
        let main = Walk::Main(width * copies as u32);
        self.work.program.items.push(Item::Enter(main));
        self.lanes = Lanes::All;
        for copy in 0..copies {
            self.copy = copy as u32;
            self.vector(steps, &folds, &accumulators)?;
        }
        self.work.program.items.push(Item::Leave(main));
        if copies > 1 && self.work.walks_single() {
            // What is left after whole vectors goes by one element.
            let whole = Walk::Whole(width);
            self.work.program.items.push(Item::Enter(whole));
            self.copy = 0;
            self.vector(steps, &folds, &accumulators)?;
            self.work.program.items.push(Item::Leave(whole));
        }
        let rest = Walk::Rest(width);
        self.work.program.items.push(Item::Enter(rest));
        self.lanes = Lanes::Tail;
        self.copy = 0;
        self.vector(steps, &folds, &accumulators)?;
        self.work.program.items.push(Item::Leave(rest));
        for (&reg, all) in folds.iter().zip(&accumulators) {
            let Inst::Reduce(fold, _) = *self.inst(reg) else { return None };
            let lane = self.schedule.lanes[reg.0 as usize];
            self.uniform[reg.0 as usize] = self.work.reduced(fold, lane, all)?;
        }
        Some(())
    }

    /// The steps for one vector of elements.
    fn vector(&mut self, steps: &[Step], folds: &[Reg], accumulators: &[Vec<Virt>]) -> Option<()> {
        for step in steps {
            match *step {
                Step::Compute(reg) => self.element[reg.0 as usize] = self.compute(reg)?,
                Step::Fold(reg) => {
                    let Inst::Reduce(fold, value) = *self.inst(reg) else { return None };
                    let lane = self.schedule.lanes[reg.0 as usize];
                    let all = &accumulators[folds.iter().position(|&r| r == reg)?];
                    let to = all[self.copy as usize % all.len()];
                    let value = self.value(value);
                    self.work.accumulate(fold, lane, to, value, self.lanes)?;
                }
                Step::Spill { value, slot } => {
                    let (dtype, mem) = self.slot(value, slot);
                    let value = self.value(value);
                    self.work.store(dtype, mem, value, self.lanes)?;
                }
                Step::Reload { value, slot } => {
                    let (dtype, mem) = self.slot(value, slot);
                    self.element[value.0 as usize] = self.work.load(dtype, mem, self.lanes)?;
                }
                Step::ReloadWrite { value, write } => {
                    let dtype = self.schedule.writes[write as usize].dtype;
                    let mem = self.elements(self.write_base(write), dtype);
                    self.element[value.0 as usize] = self.work.load(dtype, mem, self.lanes)?;
                }
                Step::Write(write) => self.write(write)?,
            }
        }
        Some(())
    }

    fn elements(&self, base: u32, dtype: DType) -> Mem {
        let bytes = dtype.size_bytes() as u8;
        Mem::Element { base, bytes, disp: (self.copy * self.work.width * u32::from(bytes)) as i32 }
    }

    fn slot(&self, value: Reg, slot: u32) -> (DType, Mem) {
        let dtype = match self.schedule.lanes[value.0 as usize] {
            Lane::F32 => DType::F32,
            Lane::F64 => DType::F64,
            Lane::I32 => DType::I32,
            Lane::I64 => DType::I64,
            Lane::Mask => DType::Bool,
        };
        let base = self.schedule.reads.len() + self.schedule.writes.len();
        (dtype, self.elements(base as u32 + slot, dtype))
    }

    fn write_base(&self, write: u32) -> u32 {
        self.schedule.reads.len() as u32 + write
    }

    fn compute(&mut self, reg: Reg) -> Option<X> {
        match *self.inst(reg) {
            Inst::Load(read) => {
                let stream = self.schedule.reads[read as usize];
                if stream.stride == 1 {
                    let mem = self.elements(read, stream.dtype);
                    self.work.load(stream.dtype, mem, self.lanes)
                } else {
                    self.work.load_strided(stream.dtype, read, stream.stride, self.copy as i32, self.lanes)
                }
            }
            Inst::Index { lane, .. } => {
                let num = self.work.num(lane);
                let counter = X::Counter((self.copy * self.work.width) as i32);
                let op = num.pick(x86::PBROADCASTD_GPR, x86::PBROADCASTQ_GPR);
                let counter = self.work.program.one(op, num.length, counter);
                let start = self.positions[usize::from(lane == Lane::I64)];
                Some(self.work.program.two(num.pick(x86::PADDD, x86::PADDQ), num.length, counter, start))
            }
            _ => self.computed(reg),
        }
    }

    fn write(&mut self, write: u32) -> Option<()> {
        let sink = self.schedule.writes[write as usize];
        let lane = Lane::of(sink.dtype)?;
        let base = self.write_base(write);
        let value = self.value(sink.value);
        let (copy, lanes) = (self.copy as i32, self.lanes);
        match sink.stride {
            // All elements of the row on one place.
            0 => None,
            1 => {
                let mem = self.elements(base, sink.dtype);
                let value = match sink.mode {
                    Mode::Store => value,
                    Mode::Combine(fold) => {
                        let before = self.work.load(sink.dtype, mem, lanes)?;
                        self.work.folded(fold, lane, before, value)?
                    }
                };
                if lanes == Lanes::All && self.streamed.contains(&write) {
                    self.work.program.store(x86::MOVNTPS_STORE, self.work.full(), mem, value, None, lanes);
                    return Some(());
                }
                self.work.store(sink.dtype, mem, value, lanes)
            }
            stride => {
                let value = match sink.mode {
                    Mode::Store => value,
                    Mode::Combine(fold) => {
                        let before = self.work.load_strided(sink.dtype, base, stride, copy, lanes)?;
                        self.work.folded(fold, lane, before, value)?
                    }
                };
                self.work.store_strided(sink.dtype, base, stride, copy, value, lanes)
            }
        }
    }

    /// Writes a uniform value once.
    fn row_write(&mut self, write: u32) -> Option<()> {
        let sink = self.schedule.writes[write as usize];
        let lane = Lane::of(sink.dtype)?;
        let mem = Mem::Row { base: self.write_base(write) };
        let value = self.uniform[sink.value.0 as usize];
        let value = match sink.mode {
            Mode::Store => value,
            Mode::Combine(fold) => {
                let before = self.work.load_uniform(sink.dtype, mem)?;
                self.work.folded(fold, lane, before, value)?
            }
        };
        self.work.store(sink.dtype, mem, value, Lanes::First)
    }
}
