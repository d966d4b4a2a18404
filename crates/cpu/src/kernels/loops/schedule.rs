//! When each instruction of a loop runs: once for a call, once for a row, or in one of the walks along a row.
//!
//! A row is walked in *phases*. A reduction is complete after the phase that folds it, so element values that depend on
//! it belong to a later phase. Between phases the uniform instructions run. An element value of an earlier phase that a
//! later one needs is recomputed where that is cheap, and otherwise kept: read back from an array it was stored to,
//! or from a row of scratch memory.
//!
//! No `a·b + c` is contracted here: results equal those of rounding after each operation. The lowering asks for one
//! rounding with [`Inst::Fma`].
//!
//! A schedule does not know the sizes of the loop: a backend is handed runs of rows (`super::Rows`).

use std::collections::HashMap;

use tensor::DType;

use super::ir::{Binary, Inst, Lane, Loop, Mode, Reg, Unary};

/// How often a register is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rate {
    /// The same in the whole loop: computed at the start of each run of rows.
    Call,
    /// The same along a row.
    Row,
    /// In every element.
    Element,
}

/// An array that is read, as one row sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) dtype: DType,
    /// From one element of a row to the next, in elements; 0 makes its loads uniform.
    pub(crate) stride: isize,
}

/// An array that is written, as one row sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sink {
    pub(crate) dtype: DType,
    /// From one element of a row to the next, in elements.
    pub(crate) stride: isize,
    /// May be uniform although `stride` is not 0: the value is then repeated along the row.
    pub(crate) value: Reg,
    pub(crate) mode: Mode,
}

/// One step of a walk along a row, for each element (or vector of elements) in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Computes a register of rate [`Rate::Element`]; its operands are uniform or were computed or reloaded before in
    /// this phase. A register may be computed in several phases. Never [`Inst::Reduce`].
    Compute(Reg),
    /// Folds the operand of the [`Inst::Reduce`] that defines this register into the register's accumulator. The
    /// register has its value when the phase is over. The operand may be uniform; it then counts once for each element.
    Fold(Reg),
    /// Keeps a register in scratch row `slot`, contiguous, one value of the lane's width for each element (masks: one
    /// byte, 0 or 1).
    Spill { value: Reg, slot: u32 },
    /// Takes a register from scratch row `slot`, where an earlier phase put it.
    Reload { value: Reg, slot: u32 },
    /// Takes a register from the array that an earlier phase stored it to; the array's stride is 1 and its type holds
    /// the value exactly.
    ReloadWrite { value: Reg, write: u32 },
    /// Stores the value of a write, or combines it with what is there.
    Write(u32),
}

/// One walk along a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phase {
    /// Registers of rate [`Rate::Row`] that are computed before the walk, in order. The reductions they need are complete.
    pub(crate) uniforms: Vec<Reg>,
    /// The walk. An array with the same place as a write is loaded before the write's step, so it may be the same memory.
    pub(crate) steps: Vec<Step>,
}

/// A loop with everything decided but the sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// How many dimensions [`Inst::Index`] may name. The last is the row; the one before counts the rows of a run.
    pub(crate) rank: usize,
    pub(crate) reads: Vec<Stream>,
    pub(crate) writes: Vec<Sink>,
    /// Without dead and repeated instructions. Registers below are positions in this list.
    pub(crate) insts: Vec<Inst>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) rates: Vec<Rate>,
    /// Registers of rate [`Rate::Call`], in order.
    pub(crate) once: Vec<Reg>,
    /// Walks in order; none where the whole loop is uniform.
    pub(crate) phases: Vec<Phase>,
    /// Registers of rate [`Rate::Row`] that are computed after the last phase, in order.
    pub(crate) finish: Vec<Reg>,
    /// Writes of uniform values with stride 0: done once for each row, after `finish`, in order.
    pub(crate) row_writes: Vec<u32>,
    /// The lane kept in each scratch row.
    pub(crate) slots: Vec<Lane>,
    /// For each phase (and after it) the reads it still loads: bit sets as lists, for `in_place_ok`.
    loads: Vec<Vec<u32>>,
    /// The phase of each write; `usize::MAX` for row writes.
    write_phases: Vec<usize>,
    /// For each write, the reads that lie at the same place of the iteration space with the same width.
    same_place: Vec<Vec<u32>>,
}

/// Bytes of one element of a lane in scratch rows.
pub(crate) fn lane_bytes(lane: Lane) -> usize {
    match lane {
        Lane::F32 | Lane::I32 => 4,
        Lane::F64 | Lane::I64 => 8,
        Lane::Mask => 1,
    }
}

/// Whether elements of a type have the bits of their lane.
pub(crate) fn fills_lane(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64)
}

/// The registers an instruction reads.
pub(crate) fn operands(inst: &Inst) -> impl Iterator<Item = Reg> {
    let (list, count) = match *inst {
        Inst::Load(_) | Inst::Const { .. } | Inst::Index { .. } => ([Reg(0); 3], 0),
        Inst::Unary(_, a) | Inst::Round(_, a) | Inst::Bitcast(a) | Inst::Reduce(_, a) => ([a, a, a], 1),
        Inst::Convert { value, .. } => ([value, value, value], 1),
        Inst::Binary(_, a, b) | Inst::Compare(_, a, b) => ([a, b, b], 2),
        Inst::Fma(a, b, c) | Inst::Select(a, b, c) => ([a, b, c], 3),
    };
    list.into_iter().take(count)
}

pub(super) fn renamed(inst: &Inst, to: impl Fn(Reg) -> Reg) -> Inst {
    match *inst {
        Inst::Load(_) | Inst::Const { .. } | Inst::Index { .. } => *inst,
        Inst::Unary(op, a) => Inst::Unary(op, to(a)),
        Inst::Binary(op, a, b) => Inst::Binary(op, to(a), to(b)),
        Inst::Fma(a, b, c) => Inst::Fma(to(a), to(b), to(c)),
        Inst::Compare(op, a, b) => Inst::Compare(op, to(a), to(b)),
        Inst::Select(m, a, b) => Inst::Select(to(m), to(a), to(b)),
        Inst::Convert { value, source, target } => Inst::Convert { value: to(value), source, target },
        Inst::Bitcast(a) => Inst::Bitcast(to(a)),
        Inst::Round(dtype, a) => Inst::Round(dtype, to(a)),
        Inst::Reduce(fold, a) => Inst::Reduce(fold, to(a)),
    }
}

/// The loop without dead and repeated instructions.
pub(super) fn tidied(mut source: Loop) -> Loop {
    let mut live = vec![false; source.insts.len()];
    for write in &source.writes {
        live[write.value.0 as usize] = true;
    }
    for at in (0..source.insts.len()).rev() {
        if live[at] {
            operands(&source.insts[at]).for_each(|r| live[r.0 as usize] = true);
        }
    }
    let mut names: Vec<Reg> = Vec::with_capacity(source.insts.len());
    let mut known: HashMap<Inst, Reg> = HashMap::new();
    let mut insts = Vec::new();
    for (at, inst) in source.insts.iter().enumerate() {
        if !live[at] {
            names.push(Reg(u32::MAX));
            continue;
        }
        let inst = renamed(inst, |r| names[r.0 as usize]);
        let name = *known.entry(inst).or_insert_with(|| {
            insts.push(inst);
            Reg(insts.len() as u32 - 1)
        });
        names.push(name);
    }
    for write in &mut source.writes {
        write.value = names[write.value.0 as usize];
    }
    source.insts = insts;
    source
}

/// Above this a kept value beats a second computation: about a store and a load of scratch that stays in the cache.
const KEEP_COST: u32 = 7;
/// More than any chain that is worth repeating.
const DEAR: u32 = 1000;

pub(super) fn cost(inst: &Inst, reads: &[Stream]) -> u32 {
    match inst {
        Inst::Const { .. } => 0,
        Inst::Load(n) => {
            let stream = &reads[*n as usize];
            match stream.stride {
                0 | 1 if fills_lane(stream.dtype) => 1,
                0 | 1 => 2,
                _ => KEEP_COST + 1,
            }
        }
        Inst::Index { .. } | Inst::Fma(..) | Inst::Compare(..) | Inst::Select(..) | Inst::Bitcast(_) => 1,
        Inst::Unary(Unary::Neg | Unary::Abs | Unary::Not | Unary::Floor | Unary::Ceil | Unary::RoundEven, _) => 1,
        Inst::Unary(Unary::Sign | Unary::RoundAway | Unary::IsFinite, _) => 2,
        Inst::Binary(
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Min
            | Binary::Max
            | Binary::MinU
            | Binary::MaxU
            | Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::Shl
            | Binary::ShrL
            | Binary::ShrA,
            ..,
        ) => 1,
        Inst::Convert { .. } | Inst::Round(..) => 2,
        Inst::Unary(..) | Inst::Binary(..) | Inst::Reduce(..) => DEAR,
    }
}

impl Schedule {
    /// Orders a loop. Every dimension of size 1 has stride 0 in every access.
    pub(crate) fn new(source: &Loop) -> Schedule {
        let source = tidied(source.clone());
        let last = source.dims.len() - 1;
        let lanes = source.lanes();
        let rates = rates(&source);
        let reads: Vec<Stream> =
            source.reads.iter().map(|a| Stream { dtype: a.dtype, stride: a.strides[last] }).collect();
        let writes: Vec<Sink> = source
            .writes
            .iter()
            .map(|w| Sink { dtype: w.access.dtype, stride: w.access.strides[last], value: w.value, mode: w.mode })
            .collect();
        let same_place = source
            .writes
            .iter()
            .map(|w| {
                let same = |r: &&u32| {
                    let read = &source.reads[**r as usize];
                    w.mode == Mode::Store
                        && read.offset == w.access.offset
                        && read.strides == w.access.strides
                        && read.dtype.size_bytes() == w.access.dtype.size_bytes()
                };
                (0..source.reads.len() as u32).collect::<Vec<_>>().iter().filter(same).copied().collect()
            })
            .collect();
        let mut schedule = Schedule {
            rank: source.dims.len(),
            reads,
            writes,
            insts: source.insts,
            lanes,
            rates,
            once: Vec::new(),
            phases: Vec::new(),
            finish: Vec::new(),
            row_writes: Vec::new(),
            slots: Vec::new(),
            loads: Vec::new(),
            write_phases: Vec::new(),
            same_place,
        };
        Planner::new(&mut schedule).plan();
        schedule
    }

    /// Whether a write may use the memory of a read: the same place, and not loaded again after it was overwritten.
    pub(crate) fn in_place_ok(&self, read: usize, write: usize) -> bool {
        if !self.same_place[write].contains(&(read as u32)) {
            return false;
        }
        let phase = self.write_phases[write];
        phase == usize::MAX || self.loads[phase + 1..].iter().all(|reads| !reads.contains(&(read as u32)))
    }

    /// The reads that may be the same memory as a write.
    pub(super) fn same_place(&self, write: usize) -> &[u32] {
        &self.same_place[write]
    }

    /// Whether a row is reduced: it cannot then be walked in parts.
    pub(crate) fn reduces(&self) -> bool {
        self.insts.iter().any(|inst| matches!(inst, Inst::Reduce(..)))
    }

    /// About how many operations one element takes.
    pub(crate) fn element_cost(&self) -> u32 {
        let step = |s: &Step| match s {
            Step::Compute(r) => cost(&self.insts[r.0 as usize], &self.reads).min(20),
            _ => 1,
        };
        self.phases.iter().flat_map(|p| &p.steps).map(step).sum()
    }
}

fn rates(source: &Loop) -> Vec<Rate> {
    let uniform = source.uniform();
    let mut rates: Vec<Rate> = Vec::with_capacity(source.insts.len());
    for (at, inst) in source.insts.iter().enumerate() {
        let rate = if !uniform[at] {
            Rate::Element
        } else {
            match inst {
                Inst::Load(n) if source.reads[*n as usize].strides.iter().all(|&s| s == 0) => Rate::Call,
                Inst::Load(_) | Inst::Index { .. } | Inst::Reduce(..) => Rate::Row,
                _ => operands(inst).map(|r| rates[r.0 as usize]).max().unwrap_or(Rate::Call),
            }
        };
        rates.push(rate);
    }
    rates
}

/// How a phase gets an element register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Compute,
    Slot(u32),
    Write(u32),
}

struct Planner<'a> {
    schedule: &'a mut Schedule,
    /// The first phase a register can be computed in; for uniform registers the phase before which they can be.
    levels: Vec<usize>,
    /// For each phase, how it gets the registers it needs.
    needs: Vec<HashMap<Reg, Source>>,
    slots: HashMap<Reg, u32>,
}

impl<'a> Planner<'a> {
    fn new(schedule: &'a mut Schedule) -> Planner<'a> {
        let mut levels: Vec<usize> = Vec::with_capacity(schedule.insts.len());
        for inst in &schedule.insts {
            let level = operands(inst).map(|r| levels[r.0 as usize]).max().unwrap_or(0);
            levels.push(level + usize::from(matches!(inst, Inst::Reduce(..))));
        }
        Planner { schedule, levels, needs: Vec::new(), slots: HashMap::new() }
    }

    fn is_element(&self, reg: Reg) -> bool {
        self.schedule.rates[reg.0 as usize] == Rate::Element
    }

    fn plan(mut self) {
        // What each phase is for: reductions and writes, as early as their values allow.
        let mut roots: Vec<Vec<Step>> = Vec::new();
        let root = |roots: &mut Vec<Vec<Step>>, phase: usize, step: Step| {
            if roots.len() <= phase {
                roots.resize(phase + 1, Vec::new());
            }
            roots[phase].push(step);
        };
        for at in 0..self.schedule.insts.len() {
            if matches!(self.schedule.insts[at], Inst::Reduce(..)) {
                root(&mut roots, self.levels[at] - 1, Step::Fold(Reg(at as u32)));
            }
        }
        for (n, write) in self.schedule.writes.clone().iter().enumerate() {
            if write.stride == 0 && !self.is_element(write.value) {
                self.schedule.row_writes.push(n as u32);
                self.schedule.write_phases.push(usize::MAX);
            } else {
                let phase = self.levels[write.value.0 as usize];
                root(&mut roots, phase, Step::Write(n as u32));
                self.schedule.write_phases.push(phase);
            }
        }
        self.needs = vec![HashMap::new(); roots.len()];
        for phase in (0..roots.len()).rev() {
            for step in &roots[phase] {
                let reg = self.root_value(step);
                self.need(reg, phase);
            }
        }
        for (phase, roots) in roots.iter().enumerate() {
            let steps = Emitter::new(&self, phase).emit(roots);
            self.schedule.phases.push(Phase { uniforms: Vec::new(), steps });
        }
        for at in 0..self.schedule.insts.len() {
            let reg = Reg(at as u32);
            match self.schedule.rates[at] {
                Rate::Call => self.schedule.once.push(reg),
                Rate::Row if !matches!(self.schedule.insts[at], Inst::Reduce(..)) => {
                    let level = self.levels[at];
                    match self.schedule.phases.get_mut(level) {
                        Some(phase) => phase.uniforms.push(reg),
                        None => self.schedule.finish.push(reg),
                    }
                }
                _ => {}
            }
        }
        for phase in &self.schedule.phases {
            let loaded = phase.steps.iter().filter_map(|s| match s {
                Step::Compute(r) => match self.schedule.insts[r.0 as usize] {
                    Inst::Load(n) => Some(n),
                    _ => None,
                },
                _ => None,
            });
            self.schedule.loads.push(loaded.collect());
        }
    }

    fn root_value(&self, step: &Step) -> Reg {
        match step {
            Step::Fold(r) => operands(&self.schedule.insts[r.0 as usize]).next().unwrap_or(*r),
            Step::Write(n) => self.schedule.writes[*n as usize].value,
            Step::Compute(r) => *r,
            Step::Spill { value, .. } | Step::Reload { value, .. } | Step::ReloadWrite { value, .. } => *value,
        }
    }

    /// Makes `reg` available in `phase`. Phases are visited last first, so earlier ones still learn what to keep.
    fn need(&mut self, reg: Reg, phase: usize) {
        if !self.is_element(reg) || self.needs[phase].contains_key(&reg) {
            return;
        }
        let level = self.levels[reg.0 as usize];
        if level < phase && self.repeat_cost(reg, phase, &mut Vec::new()) > KEEP_COST {
            if let Some(write) = self.stored_exactly(reg) {
                self.needs[phase].insert(reg, Source::Write(write));
                return;
            }
            let next = self.schedule.slots.len() as u32;
            let slot = *self.slots.entry(reg).or_insert(next);
            if slot == next {
                self.schedule.slots.push(self.schedule.lanes[reg.0 as usize]);
            }
            self.needs[phase].insert(reg, Source::Slot(slot));
            self.need(reg, level);
            return;
        }
        self.needs[phase].insert(reg, Source::Compute);
        for operand in operands(&self.schedule.insts[reg.0 as usize]).collect::<Vec<_>>() {
            self.need(operand, phase);
        }
    }

    /// The operations of computing `reg` in `phase`, without those the phase does anyway.
    fn repeat_cost(&self, reg: Reg, phase: usize, seen: &mut Vec<Reg>) -> u32 {
        if !self.is_element(reg) || self.needs[phase].contains_key(&reg) || seen.contains(&reg) {
            return 0;
        }
        seen.push(reg);
        let inst = &self.schedule.insts[reg.0 as usize];
        let mut total = cost(inst, &self.schedule.reads);
        for operand in operands(inst) {
            if total > KEEP_COST {
                break;
            }
            total += self.repeat_cost(operand, phase, seen);
        }
        total
    }

    /// A write from which the register can be read back.
    fn stored_exactly(&self, reg: Reg) -> Option<u32> {
        let own_type = match self.schedule.insts[reg.0 as usize] {
            Inst::Round(dtype, _) | Inst::Convert { target: dtype, .. } => Some(dtype),
            Inst::Load(n) => Some(self.schedule.reads[n as usize].dtype),
            _ => None,
        };
        let lane = self.schedule.lanes[reg.0 as usize];
        let position = self.schedule.writes.iter().position(|w| {
            w.value == reg
                && w.stride == 1
                && w.mode == Mode::Store
                && Lane::of(w.dtype) == Some(lane)
                && (fills_lane(w.dtype) || w.dtype.is_bool() || own_type == Some(w.dtype))
        });
        position.map(|n| n as u32)
    }
}

/// Puts the steps of one phase in order.
struct Emitter<'a> {
    planner: &'a Planner<'a>,
    needs: &'a HashMap<Reg, Source>,
    phase: usize,
    done: Vec<Reg>,
    steps: Vec<Step>,
}

impl<'a> Emitter<'a> {
    fn new(planner: &'a Planner<'a>, phase: usize) -> Emitter<'a> {
        Emitter { planner, needs: &planner.needs[phase], phase, done: Vec::new(), steps: Vec::new() }
    }

    fn emit(mut self, roots: &[Step]) -> Vec<Step> {
        // Registers in the order of the program, leaves just before their first use; roots as soon as they can be.
        let mut order: Vec<Reg> = self.needs.keys().copied().filter(|r| !self.is_leaf(*r)).collect();
        order.sort();
        let mut roots: Vec<Step> = roots.to_vec();
        self.emit_roots(&mut roots);
        for reg in order {
            self.register(reg);
            self.emit_roots(&mut roots);
        }
        // Values that are leaves themselves.
        let mut leaves: Vec<Reg> = self.needs.keys().copied().filter(|r| !self.done.contains(r)).collect();
        leaves.sort();
        for reg in leaves {
            self.register(reg);
            self.emit_roots(&mut roots);
        }
        self.steps
    }

    fn is_leaf(&self, reg: Reg) -> bool {
        self.needs[&reg] != Source::Compute
            || matches!(self.planner.schedule.insts[reg.0 as usize], Inst::Load(_) | Inst::Index { .. })
    }

    fn ready(&self, reg: Reg) -> bool {
        !self.planner.is_element(reg) || self.done.contains(&reg)
    }

    fn register(&mut self, reg: Reg) {
        if self.ready(reg) {
            return;
        }
        match self.needs[&reg] {
            Source::Slot(slot) => self.steps.push(Step::Reload { value: reg, slot }),
            Source::Write(write) => self.steps.push(Step::ReloadWrite { value: reg, write }),
            Source::Compute => {
                for operand in operands(&self.planner.schedule.insts[reg.0 as usize]).collect::<Vec<_>>() {
                    self.register(operand);
                }
                self.steps.push(Step::Compute(reg));
            }
        }
        self.done.push(reg);
        if self.planner.levels[reg.0 as usize] == self.phase
            && let Some(&slot) = self.planner.slots.get(&reg)
        {
            self.steps.push(Step::Spill { value: reg, slot });
        }
    }

    fn emit_roots(&mut self, roots: &mut Vec<Step>) {
        // The loads before a write may make further roots ready.
        while let Some(at) = roots.iter().position(|step| self.ready(self.planner.root_value(step))) {
            let step = roots.remove(at);
            if let Step::Write(n) = step {
                let mut loads: Vec<Reg> = self.needs.keys().copied().collect();
                loads.sort();
                for reg in loads {
                    let inst = &self.planner.schedule.insts[reg.0 as usize];
                    if let Inst::Load(read) = inst
                        && self.needs[&reg] == Source::Compute
                        && self.planner.schedule.same_place[n as usize].contains(read)
                    {
                        self.register(reg);
                    }
                }
            }
            self.steps.push(step);
        }
    }
}
