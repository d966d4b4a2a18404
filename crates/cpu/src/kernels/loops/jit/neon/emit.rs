//! Turns a program of NEON instructions whose registers have places into the bytes of a function.
//!
//! General registers: x0 points at the `Rows`, x1 is the number of elements of a row, x2 counts them, x3 and x4 are free, x5 to
//! x9 are cursors (the address of an array's elements at the counter), the others hold array addresses. Frame: the rows left,
//! addresses that have no register, registers that belong to the caller, and vector slots.

use super::super::program::{Arrays, Constant, Item, Lanes, Mem, Num, Program, Truth, Virt, Walk, X, rows_layout};
use super::super::registers::{Place, Places};
use super::encode::{self as a64, Condition, Encoder, Gpr, Label, SP, Size};
use super::{Action, LaneBits, Sign, Step};

/// Vector registers that are given out; the four above serve operands that live in memory.
pub(super) const VECTORS: u32 = 28;
const SPARE: [u8; 3] = [28, 29, 30];
const SCRATCH: u8 = 31;
/// The machine registers in the order they are given out: those that belong to the caller last.
const ORDER: [u8; VECTORS as usize] =
    [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 8, 9, 10, 11, 12, 13, 14, 15];
const CALLERS_VECTORS: std::ops::RangeInclusive<u8> = 8..=15;

const ROWS: Gpr = Gpr(0);
const COUNT: Gpr = Gpr(1);
const COUNTER: Gpr = Gpr(2);
const T0: Gpr = Gpr(3);
const T1: Gpr = Gpr(4);
/// As the distance of a lane in memory to the next: its size.
const NEXT: Gpr = Gpr(31);
const CURSORS: [Gpr; 5] = [Gpr(5), Gpr(6), Gpr(7), Gpr(8), Gpr(9)];
/// For array addresses: x18 is the platform's, from x19 on they belong to the caller.
const ADDRESSES: [u8; 18] = [10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28];
const FIRST_OF_CALLER: u8 = 19;

const ROWS_LEFT: u32 = 0;
const PAGE_BYTES: u32 = 4096;
/// Slots and addresses of the frame are reached by immediates.
const MOST_FRAME_BYTES: u32 = 32 << 10;

/// Where the address of an array is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    Unused,
    Register(Gpr),
    Frame(u32),
}

/// The address of an array's elements at the counter, in a register.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cursor {
    base: u32,
    bytes: u8,
}

struct Emitter<'a> {
    code: Encoder,
    program: &'a Program<Step>,
    places: &'a Places,
    arrays: Arrays,
    bases: Vec<Base>,
    constant_registers: Vec<Option<u8>>,
    /// Where the program's table is in the pool; constants are before it, 16 bytes each.
    table: u32,
    /// Registers of the caller and where they are kept.
    saved: Vec<(Gpr, u32)>,
    saved_vectors: Vec<(u8, u32)>,
    slots_start: u32,
    frame_bytes: u32,
    open: Vec<(Option<Label>, Label)>,
    /// The jump to the next landing.
    skip: Option<Label>,
    /// What the cursor registers hold, and which one is next to be replaced.
    cursors: [Option<Cursor>; CURSORS.len()],
    next_cursor: usize,
}

/// The bytes of the function: code, then constants. `None` where jumps or the frame would be too long.
pub(super) fn emit(program: &Program<Step>, places: &Places, arrays: Arrays) -> Option<Vec<u8>> {
    let mut emitter = Emitter::new(program, places, arrays)?;
    emitter.prologue();
    for item in &program.items {
        emitter.item(item);
    }
    emitter.epilogue();
    emitter.code.finish()
}

impl<'a> Emitter<'a> {
    fn new(program: &'a Program<Step>, places: &'a Places, arrays: Arrays) -> Option<Emitter<'a>> {
        let mut code = Encoder::default();
        for constant in &program.constants {
            let Constant::Vector(lanes) = constant else { return None };
            lanes[..4].iter().for_each(|lane| code.pool.extend(lane.to_le_bytes()));
        }
        let table = code.pool.len() as u32;
        program.table.iter().for_each(|value| code.pool.extend(value.to_le_bytes()));
        let mut emitter = Emitter {
            code,
            program,
            places,
            arrays,
            bases: vec![Base::Unused; (arrays.reads + arrays.writes + arrays.slots) as usize],
            constant_registers: vec![None; program.constants.len()],
            table,
            saved: Vec::new(),
            saved_vectors: Vec::new(),
            slots_start: 0,
            frame_bytes: 0,
            open: Vec::new(),
            skip: None,
            cursors: [None; CURSORS.len()],
            next_cursor: 0,
        };
        emitter.assign();
        let slots = places.slots.checked_mul(16)?;
        emitter.frame_bytes = emitter.slots_start.checked_add(slots)?;
        (emitter.frame_bytes <= MOST_FRAME_BYTES).then_some(emitter)
    }

    /// Registers for the most used addresses and constants, and the places of the frame.
    fn assign(&mut self) {
        let mut base_uses = vec![0u32; self.bases.len()];
        let mut constant_uses = vec![0u32; self.program.constants.len()];
        let mut weight = 1;
        for item in &self.program.items {
            match item {
                Item::Enter(Walk::Main(_)) => weight = 8,
                Item::Leave(Walk::Main(_)) => weight = 1,
                _ => {}
            }
            let [a, b, c] = item.sources();
            let memory = match item {
                Item::Vector(step) => step.dst,
                Item::Gather { mem, .. } | Item::Scatter { mem, .. } => X::Mem(*mem),
                _ => X::None,
            };
            for operand in [a, b, c, item.tied(), memory] {
                match operand {
                    X::Mem(Mem::Element { base, .. } | Mem::Row { base } | Mem::Strided { base, .. }) => {
                        base_uses[base as usize] += weight;
                    }
                    X::Const(c) => constant_uses[c as usize] += weight,
                    _ => {}
                }
            }
        }
        let mut frame = 8;
        let mut place = |bytes: u32| {
            frame += bytes;
            frame - bytes
        };
        let mut order: Vec<usize> = (0..base_uses.len()).filter(|&n| base_uses[n] > 0).collect();
        order.sort_by_key(|&n| std::cmp::Reverse(base_uses[n]));
        for (position, n) in order.into_iter().enumerate() {
            self.bases[n] = match ADDRESSES.get(position) {
                Some(&register) => {
                    if register >= FIRST_OF_CALLER {
                        self.saved.push((Gpr(register), place(8)));
                    }
                    Base::Register(Gpr(register))
                }
                None => Base::Frame(place(8)),
            };
        }
        let mut order: Vec<usize> = (0..constant_uses.len()).filter(|&n| constant_uses[n] > 1).collect();
        order.sort_by_key(|&n| std::cmp::Reverse(constant_uses[n]));
        let mut unused = self.places.unused;
        for n in order {
            if unused == 0 {
                break;
            }
            self.constant_registers[n] = Some(ORDER[unused.trailing_zeros() as usize]);
            unused &= unused - 1;
        }
        for (number, &register) in ORDER.iter().enumerate() {
            // What is left of the unused ones is not written.
            if CALLERS_VECTORS.contains(&register) && unused & 1 << number == 0 {
                self.saved_vectors.push((register, place(8)));
            }
        }
        self.slots_start = frame.next_multiple_of(16);
    }

    fn prologue(&mut self) {
        let mut left = self.frame_bytes.next_multiple_of(16);
        self.frame_bytes = left;
        // Touch every page in order, so that the guard page below the stack is never jumped over.
        while left > PAGE_BYTES {
            self.code.sub(SP, SP, PAGE_BYTES);
            self.code.store(COUNTER, SP, 0);
            left -= PAGE_BYTES;
        }
        self.code.sub(SP, SP, left);
        for n in 0..self.saved.len() {
            let (register, at) = self.saved[n];
            self.code.store(register, SP, at);
        }
        for n in 0..self.saved_vectors.len() {
            let (register, at) = self.saved_vectors[n];
            self.code.store_vector(Size::B8, register, SP, at);
        }
        self.code.load(COUNT, ROWS, rows_layout::COUNT as u32);
        self.code.load(T0, ROWS, rows_layout::ROWS as u32);
        self.code.store(T0, SP, ROWS_LEFT);
        let Arrays { reads, writes, slots, .. } = self.arrays;
        let kinds = [
            (0, reads, rows_layout::READS),
            (reads, writes, rows_layout::WRITES),
            (reads + writes, slots, rows_layout::SLOTS),
        ];
        for (start, count, field) in kinds {
            if (start..start + count).all(|n| self.bases[n as usize] == Base::Unused) {
                continue;
            }
            self.code.load(T0, ROWS, field as u32);
            for n in 0..count {
                match self.bases[(start + n) as usize] {
                    Base::Unused => {}
                    Base::Register(register) => self.code.load(register, T0, 8 * n),
                    Base::Frame(place) => {
                        self.code.load(T1, T0, 8 * n);
                        self.code.store(T1, SP, place);
                    }
                }
            }
        }
        for n in 0..self.constant_registers.len() {
            if let Some(register) = self.constant_registers[n] {
                self.code.load_constant(register, 16 * n as u32);
            }
        }
    }

    fn epilogue(&mut self) {
        for n in 0..self.saved.len() {
            let (register, at) = self.saved[n];
            self.code.load(register, SP, at);
        }
        for n in 0..self.saved_vectors.len() {
            let (register, at) = self.saved_vectors[n];
            self.code.load_vector(Size::B8, register, SP, at);
        }
        self.code.add(SP, SP, self.frame_bytes);
        self.code.leave();
    }

    /// Moves every address to the next row.
    fn advance(&mut self) {
        let Arrays { reads, writes, rank, .. } = self.arrays;
        for (start, count, field) in [(0, reads, rows_layout::READ_STEPS), (reads, writes, rows_layout::WRITE_STEPS)] {
            if (start..start + count).all(|n| self.bases[n as usize] == Base::Unused) {
                continue;
            }
            self.code.load(T0, ROWS, field as u32);
            for n in 0..count {
                match self.bases[(start + n) as usize] {
                    Base::Unused => {}
                    Base::Register(register) => {
                        self.code.load(T1, T0, 8 * n);
                        self.code.add_shifted(register, register, T1, 0);
                    }
                    Base::Frame(place) => {
                        // The cursors hold nothing between rows.
                        self.code.load(T1, T0, 8 * n);
                        self.code.load(CURSORS[0], SP, place);
                        self.code.add_shifted(T1, T1, CURSORS[0], 0);
                        self.code.store(T1, SP, place);
                    }
                }
            }
        }
        if rank >= 2 {
            self.code.load(T0, ROWS, rows_layout::INDEX as u32);
            self.code.load(T1, T0, 8 * (rank - 2));
            self.code.add(T1, T1, 1);
            self.code.store(T1, T0, 8 * (rank - 2));
        }
    }

    fn item(&mut self, item: &Item<Step>) {
        match *item {
            Item::Vector(ref step) => self.step(step),
            // Rewritten as a step.
            Item::Fma { .. } => {}
            Item::Gather { num, dst, index, mem, lanes } => self.gather(num, dst, index, mem, lanes),
            Item::Scatter { num, value, mem, lanes, .. } => self.scatter(num, value, mem, lanes),
            Item::Truth { dst, a, width, truth } => self.truth(dst, a, width, truth),
            Item::Skip(mask) => {
                let mask = self.register(mask, SPARE[0]);
                self.code.vector(a64::UMAXP_4S, SCRATCH, mask, mask);
                self.code.lane_to_gpr(T0, SCRATCH, 0);
                self.skip = Some(self.code.jump_ahead_if_zero(T0));
            }
            Item::Land => {
                if let Some(jump) = self.skip.take() {
                    self.code.land(jump);
                }
                self.cursors = [None; CURSORS.len()];
            }
            Item::Enter(walk) => self.enter(walk),
            Item::Leave(walk) => self.leave(walk),
        }
    }

    fn enter(&mut self, walk: Walk) {
        self.cursors = [None; CURSORS.len()];
        let skip = match walk {
            Walk::Rows => None,
            Walk::Main(step) => {
                self.code.set(COUNTER, 0);
                self.code.compare_with(COUNT, step);
                Some(self.code.jump_ahead(Condition::Below))
            }
            Walk::Whole(step) => {
                self.code.add(T0, COUNTER, step);
                self.code.compare(T0, COUNT);
                Some(self.code.jump_ahead(Condition::Above))
            }
            Walk::Rest(_) => {
                self.code.compare(COUNTER, COUNT);
                Some(self.code.jump_ahead(Condition::AboveEqual))
            }
        };
        self.open.push((skip, self.code.here()));
    }

    fn leave(&mut self, walk: Walk) {
        let Some((skip, top)) = self.open.pop() else { return };
        self.cursors = [None; CURSORS.len()];
        match walk {
            Walk::Rows => {
                self.advance();
                self.code.load(T0, SP, ROWS_LEFT);
                self.code.sub(T0, T0, 1);
                self.code.store(T0, SP, ROWS_LEFT);
                self.code.compare_with(T0, 0);
                self.code.jump_back(Condition::NotEqual, top);
            }
            Walk::Main(step) | Walk::Whole(step) => {
                self.code.add(COUNTER, COUNTER, step);
                self.code.add(T0, COUNTER, step);
                self.code.compare(T0, COUNT);
                self.code.jump_back(Condition::BelowEqual, top);
            }
            Walk::Rest(step) => {
                self.code.add(COUNTER, COUNTER, step);
                self.code.compare(COUNTER, COUNT);
                self.code.jump_back(Condition::Below, top);
            }
        }
        if let Some(skip) = skip {
            self.code.land(skip);
        }
    }

    fn slot(&self, slot: u32) -> u32 {
        self.slots_start + 16 * slot
    }

    /// The machine register of an operand that has one.
    fn own_register(&self, operand: X) -> Option<u8> {
        match operand {
            X::Reg(virt) => match self.places.places[virt.0 as usize] {
                Place::Reg(number) => Some(ORDER[number as usize]),
                Place::Slot(_) => None,
            },
            X::Const(c) => self.constant_registers[c as usize],
            _ => None,
        }
    }

    /// Puts an operand into a given register.
    fn fill(&mut self, register: u8, operand: X) {
        if let Some(from) = self.own_register(operand) {
            self.code.copy_vector(register, from);
            return;
        }
        match operand {
            X::Reg(virt) => {
                if let Place::Slot(slot) = self.places.places[virt.0 as usize] {
                    self.code.load_vector(Size::B16, register, SP, self.slot(slot));
                }
            }
            X::Const(c) => self.code.load_constant(register, 16 * c),
            _ => {}
        }
    }

    /// The number of a register with the operand: its own, or the spare one.
    fn register(&mut self, operand: X, spare: u8) -> u8 {
        match operand {
            X::Reg(_) | X::Const(_) => self.own_register(operand).unwrap_or_else(|| {
                self.fill(spare, operand);
                spare
            }),
            _ => 0,
        }
    }

    /// The register to compute a result in, and the frame slot it is then kept in.
    fn target(&self, dst: Virt) -> (u8, Option<u32>) {
        match self.places.places[dst.0 as usize] {
            Place::Reg(number) => (ORDER[number as usize], None),
            Place::Slot(slot) => (SPARE[2], Some(slot)),
        }
    }

    fn keep(&mut self, number: u8, slot: Option<u32>) {
        if let Some(slot) = slot {
            self.code.store_vector(Size::B16, number, SP, self.slot(slot));
        }
    }

    fn base(&mut self, base: u32, free: Gpr) -> Gpr {
        match self.bases[base as usize] {
            Base::Register(register) => register,
            Base::Frame(place) => {
                self.code.load(free, SP, place);
                free
            }
            Base::Unused => free,
        }
    }

    /// An address as a register and a distance. May use the first free register.
    fn memory(&mut self, mem: Mem) -> (Gpr, u32) {
        match mem {
            Mem::Element { base, bytes, disp } => (self.cursor(Cursor { base, bytes }), disp as u32),
            Mem::Row { base } => (self.base(base, T0), 0),
            Mem::Index { dim } => {
                self.code.load(T0, ROWS, rows_layout::INDEX as u32);
                if dim > 0 {
                    self.code.add(T0, T0, 8 * dim);
                }
                (T0, 0)
            }
            Mem::Strided { .. } => {
                self.strided(mem);
                (T0, 0)
            }
            Mem::Table { disp } => {
                self.code.pool_address(T0, self.table);
                self.code.add(T0, T0, disp as u32);
                (T0, 0)
            }
        }
    }

    fn cursor(&mut self, cursor: Cursor) -> Gpr {
        if let Some(at) = self.cursors.iter().position(|&known| known == Some(cursor)) {
            return CURSORS[at];
        }
        let at = self.next_cursor;
        self.next_cursor = (at + 1) % CURSORS.len();
        self.cursors[at] = Some(cursor);
        let base = self.base(cursor.base, CURSORS[at]);
        self.code.add_shifted(CURSORS[at], base, COUNTER, cursor.bytes.trailing_zeros());
        CURSORS[at]
    }

    /// The address of strided elements in the first free register, the distance between them in the second.
    fn strided(&mut self, mem: Mem) {
        let Mem::Strided { base, step, disp } = mem else { return };
        if disp != 0 {
            self.code.set(T1, i64::from(disp));
            let base = self.base(base, T0);
            self.code.add_shifted(T0, base, T1, 0);
            self.code.set(T1, i64::from(step));
            self.code.multiply_add(T0, COUNTER, T1, T0);
        } else {
            self.code.set(T1, i64::from(step));
            let base = self.base(base, T0);
            self.code.multiply_add(T0, COUNTER, T1, base);
        }
    }

    fn step(&mut self, step: &Step) {
        let Step { action, dst, a, b, c } = *step;
        if let Action::Store(size) = action {
            let X::Mem(mem) = dst else { return };
            let from = self.register(a, SPARE[0]);
            let (base, disp) = self.memory(mem);
            self.code.store_vector(size, from, base, disp);
            return;
        }
        let X::Reg(dst) = dst else { return };
        let (number, slot) = self.target(dst);
        match action {
            Action::Plain(code) => {
                let n = self.register(a, SPARE[0]);
                let m = if a == b { n } else { self.register(b, SPARE[1]) };
                self.code.vector(code, number, n, m);
            }
            Action::Tied(code) => {
                let n = self.register(a, SPARE[0]);
                let m = if a == b { n } else { self.register(b, SPARE[1]) };
                self.fill(number, c);
                self.code.vector(code, number, n, m);
            }
            Action::Select => self.select(number, a, b, c),
            Action::Move => self.fill(number, a),
            Action::Load(size) => {
                if let X::Mem(mem) = b {
                    let (base, disp) = self.memory(mem);
                    self.code.load_vector(size, number, base, disp);
                }
            }
            Action::Splat(size) => {
                if let X::Mem(mem) = b {
                    let (mut base, disp) = self.memory(mem);
                    if disp != 0 {
                        self.code.add(T0, base, disp);
                        base = T0;
                    }
                    self.code.load_splat(size, number, base);
                }
            }
            Action::Count(bits) => {
                if let X::Counter(disp) = b {
                    self.code.add(T0, COUNTER, disp as u32);
                    self.code.splat_gpr(bits == LaneBits::Bits64, number, T0);
                }
            }
            Action::MultiplyQuads => {
                let [n, m] = [self.register(a, SPARE[0]), self.register(b, SPARE[1])];
                for lane in 0..2 {
                    self.code.lane_to_gpr(T0, n, lane);
                    self.code.lane_to_gpr(T1, m, lane);
                    self.code.multiply_add(T0, T0, T1, SP);
                    self.code.gpr_to_lane(SCRATCH, lane, T0);
                }
                self.code.copy_vector(number, SCRATCH);
            }
            Action::LeadingZerosOfQuads => {
                let n = self.register(a, SPARE[0]);
                for lane in 0..2 {
                    self.code.lane_to_gpr(T0, n, lane);
                    self.code.leading_zeros(T0, T0);
                    self.code.gpr_to_lane(SCRATCH, lane, T0);
                }
                self.code.copy_vector(number, SCRATCH);
            }
            Action::QuadsToF32(sign) => {
                let n = self.register(a, SPARE[0]);
                self.code.lane_to_gpr(T0, n, 0);
                self.code.lane_to_gpr(T1, n, 1);
                let is_unsigned = sign == Sign::Unsigned;
                self.code.integer_to_f32(SCRATCH, T1, is_unsigned);
                self.code.integer_to_f32(number, T0, is_unsigned);
                self.code.first_to_lane(number, 1, SCRATCH);
            }
            Action::Store(_) => {}
        }
        self.keep(number, slot);
    }

    /// `c ? b : a`, by the instruction that finds the result's register as it is.
    fn select(&mut self, number: u8, a: X, b: X, mask: X) {
        let is_in_place = |emitter: &Self, operand: X| emitter.own_register(operand) == Some(number);
        let [first, second] = [SPARE[0], SPARE[1]];
        if is_in_place(self, b) {
            let (a, mask) = (self.register(a, first), self.register(mask, second));
            self.code.vector(a64::BIF, number, a, mask);
        } else if is_in_place(self, mask) {
            let (a, b) = (self.register(a, first), self.register(b, second));
            self.code.vector(a64::BSL, number, b, a);
        } else {
            let (b, mask) = (self.register(b, first), self.register(mask, second));
            self.fill(number, a);
            self.code.vector(a64::BIT, number, b, mask);
        }
    }

    fn gather(&mut self, num: Num, dst: Virt, index: X, mem: Mem, lanes: Lanes) {
        let (number, slot) = self.target(dst);
        let size = if num.wide { Size::B8 } else { Size::B4 };
        if let Mem::Table { .. } = mem {
            let index = self.register(index, SPARE[0]);
            let (base, _) = self.memory(mem);
            for lane in 0..2 {
                self.code.lane_to_gpr(T1, index, lane);
                self.code.add_shifted(T1, T1, base, 0);
                self.code.load_lane(true, number, lane, T1, NEXT);
            }
        } else if lanes == Lanes::All {
            self.strided(mem);
            for lane in 0..lane_count(num) {
                self.code.load_lane(num.wide, number, lane, T0, T1);
            }
        } else {
            self.strided(mem);
            self.code.load_vector(size, number, T0, 0);
        }
        self.keep(number, slot);
    }

    fn scatter(&mut self, num: Num, value: X, mem: Mem, lanes: Lanes) {
        let from = self.register(value, SPARE[0]);
        self.strided(mem);
        let count = if lanes == Lanes::All { lane_count(num) } else { 1 };
        for lane in 0..count {
            self.code.store_lane(num.wide, from, lane, T0, T1);
        }
    }

    fn truth(&mut self, dst: Virt, a: X, width: u32, truth: Truth) {
        let mut from = self.register(a, SPARE[0]);
        let (number, slot) = self.target(dst);
        match truth {
            Truth::Any | Truth::None => {
                if width == 4 {
                    self.code.vector(a64::UMAXP_4S, SCRATCH, from, from);
                    from = SCRATCH;
                }
                self.code.lane_to_gpr(T0, from, 0);
                self.code.compare_with(T0, 0);
                let condition = if truth == Truth::Any { Condition::NotEqual } else { Condition::Equal };
                self.code.spread(T0, condition);
            }
            Truth::Parity => {
                // Each true lane is -1.
                if width == 4 {
                    self.code.vector(a64::ADDV_4S, SCRATCH, from, 0);
                } else {
                    self.code.vector(a64::REV64_4S, SCRATCH, from, 0);
                    self.code.vector(a64::EOR, SCRATCH, SCRATCH, from);
                }
                self.code.lane_to_gpr(T0, SCRATCH, 0);
                self.code.lowest_bit(T0, T0);
                self.code.negate(T0, T0);
            }
        }
        self.code.splat_gpr(true, number, T0);
        self.keep(number, slot);
    }
}

fn lane_count(num: Num) -> u32 {
    num.length.bytes() / if num.wide { 8 } else { 4 }
}
