//! Turns a program whose registers have places into the bytes of a function.
//!
//! General registers: rdi points at the `Rows`, rsi is the number of elements of a row, rcx counts them, rax and rdx are
//! free for addresses, the others hold array addresses. Frame: the caller's stack pointer, the rows left, addresses that
//! have no register, and vector slots.

mod of_two;

use super::encode::{
    self as x86, Alu, Broadcast, Condition, Encoder, Encoding, Form, Gpr, Label, Length, Masking, Op, Operands, RAX,
    RBP, RBX, RCX, RDI, RDX, RSI, RSP, Rm, Zeroing,
};
use super::program::{
    Arrays, Class, Constant, Fused, Item, Lanes, Mem, Num, Program, Truth, Vector, Virt, Walk, X, rows_layout,
};
use super::registers::{Place, Places};

const TAIL: u8 = 7;
const SPARE_MASKS: [u8; 2] = [5, 6];
/// General registers for array addresses, the ones that are free to use first.
const ADDRESSES: [Gpr; 10] = [Gpr(8), Gpr(9), Gpr(10), Gpr(11), RBX, Gpr(14), Gpr(15), Gpr(12), Gpr(13), RBP];
const SAVED: [Gpr; 6] = [RBX, RBP, Gpr(12), Gpr(13), Gpr(14), Gpr(15)];
const ROWS_LEFT: i32 = 8;
const PAGE_BYTES: i32 = 4096;

/// Where the address of an array is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    Unused,
    Register(Gpr),
    Frame(i32),
}

struct Emitter<'a> {
    code: Encoder,
    program: &'a Program,
    places: &'a Places,
    arrays: Arrays,
    bases: Vec<Base>,
    /// Where each constant is in the pool.
    pool: Vec<u32>,
    constant_registers: Vec<Option<u8>>,
    /// Where the program's table is in the pool.
    table: u32,
    slots_start: i32,
    open: Vec<(Option<Label>, Label)>,
    /// The jump to the next landing.
    skip: Option<Label>,
    /// Vector registers for operands that live in memory.
    spare: [u8; 3],
    encoding: Encoding,
    /// The vectors that fill a register.
    full: Length,
}

/// Vector registers that are given out; the three above serve operands that live in memory.
pub(super) fn vectors(encoding: Encoding) -> u32 {
    match encoding {
        Encoding::Evex => 29,
        Encoding::Vex | Encoding::Sse => 13,
    }
}

/// The bytes of the function: code, then constants.
pub(super) fn emit(program: &Program, encoding: Encoding, places: &Places, arrays: Arrays) -> Vec<u8> {
    let mut emitter = Emitter::new(program, encoding, places, arrays);
    emitter.prologue();
    for item in &program.items {
        emitter.item(item);
    }
    if arrays.streams {
        emitter.code.store_fence();
    }
    emitter.code.load(RSP, Rm::Mem { base: RSP, index: None, disp: 0 });
    for &register in SAVED.iter().rev() {
        emitter.code.pop(register);
    }
    emitter.code.leave();
    emitter.code.finish()
}

fn frame(disp: i32) -> Rm {
    Rm::Mem { base: RSP, index: None, disp }
}

fn at(base: Gpr, disp: i32) -> Rm {
    Rm::Mem { base, index: None, disp }
}

impl<'a> Emitter<'a> {
    fn new(program: &'a Program, encoding: Encoding, places: &'a Places, arrays: Arrays) -> Emitter<'a> {
        let mut code = Encoder::new(encoding);
        code.code.reserve(4096);
        let given = vectors(encoding) as u8;
        let pool = lay_out(&program.constants, &mut code.pool);
        code.pool.resize(code.pool.len().next_multiple_of(8), 0);
        let table = code.pool.len() as u32;
        program.table.iter().for_each(|value| code.pool.extend(value.to_le_bytes()));
        let mut emitter = Emitter {
            code,
            program,
            places,
            arrays,
            bases: vec![Base::Unused; (arrays.reads + arrays.writes + arrays.slots) as usize],
            pool,
            constant_registers: vec![None; program.constants.len()],
            table,
            slots_start: 0,
            open: Vec::new(),
            skip: None,
            spare: [given, given + 1, given + 2],
            encoding,
            full: match encoding {
                Encoding::Evex => Length::L512,
                Encoding::Vex => Length::L256,
                Encoding::Sse => Length::L128,
            },
        };
        let frame_start = emitter.assign();
        emitter.slots_start = (frame_start + 63) & -64;
        emitter
    }

    /// Registers for the most used addresses and constants; gives the end of the addresses in the frame.
    fn assign(&mut self) -> i32 {
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
            let (dst, mem) = match item {
                Item::Vector(v) => (v.dst, X::None),
                Item::Gather { mem, .. } | Item::Scatter { mem, .. } => (X::None, X::Mem(*mem)),
                _ => (X::None, X::None),
            };
            for operand in [a, b, c, dst, mem] {
                if let X::Mem(Mem::Element { base, .. } | Mem::Row { base } | Mem::Strided { base, .. }) = operand {
                    base_uses[base as usize] += weight;
                }
            }
            // Only the operand in ModRM.rm can stay in memory without an instruction of its own.
            let dear = match item {
                Item::Vector(v) => [v.a, v.tied],
                Item::Fma { a, b, .. } => [*a, *b],
                Item::Gather { index, .. } => [*index, X::None],
                Item::Scatter { index, value, .. } => [*index, *value],
                _ => [X::None; 2],
            };
            for (operand, factor) in [(a, 1), (b, 1), (c, 1), (dear[0], 2), (dear[1], 2)] {
                if let X::Const(c) = operand {
                    constant_uses[c as usize] += factor * weight;
                }
            }
        }
        let mut order: Vec<usize> = (0..base_uses.len()).filter(|&n| base_uses[n] > 0).collect();
        order.sort_by_key(|&n| std::cmp::Reverse(base_uses[n]));
        let mut frame_end = 16;
        for (position, n) in order.into_iter().enumerate() {
            self.bases[n] = match ADDRESSES.get(position) {
                Some(&register) => Base::Register(register),
                None => {
                    frame_end += 8;
                    Base::Frame(frame_end - 8)
                }
            };
        }
        let mut order: Vec<usize> = (0..constant_uses.len()).filter(|&n| constant_uses[n] > 1).collect();
        order.sort_by_key(|&n| std::cmp::Reverse(constant_uses[n]));
        let mut unused = self.places.unused;
        for n in order {
            if unused == 0 {
                break;
            }
            self.constant_registers[n] = Some(unused.trailing_zeros() as u8);
            unused &= unused - 1;
        }
        frame_end
    }

    fn prologue(&mut self) {
        for register in SAVED {
            self.code.push(register);
        }
        self.code.copy(RAX, RSP);
        let frame_bytes = self.slots_start + 64 * self.places.slots as i32;
        // Touch every page in order, so that the guard page below the stack is never jumped over.
        for page in 1..=frame_bytes / PAGE_BYTES {
            self.code.load(RCX, frame(-page * PAGE_BYTES));
        }
        self.code.alu_imm(Alu::Sub, Rm::Reg(RSP.0), frame_bytes);
        self.code.alu_imm(Alu::And, Rm::Reg(RSP.0), -64);
        self.code.store(frame(0), RAX);
        self.code.load(RSI, at(RDI, rows_layout::COUNT));
        self.code.load(RAX, at(RDI, rows_layout::ROWS));
        self.code.store(frame(ROWS_LEFT), RAX);
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
            self.code.load(RAX, at(RDI, field));
            for n in 0..count {
                let from = at(RAX, 8 * n as i32);
                match self.bases[(start + n) as usize] {
                    Base::Unused => {}
                    Base::Register(register) => self.code.load(register, from),
                    Base::Frame(place) => {
                        self.code.load(RDX, from);
                        self.code.store(frame(place), RDX);
                    }
                }
            }
        }
        for n in 0..self.constant_registers.len() {
            if let Some(register) = self.constant_registers[n] {
                self.load_constant(register, n as u32);
            }
        }
    }

    /// Moves every address to the next row.
    fn advance(&mut self) {
        let Arrays { reads, writes, rank, .. } = self.arrays;
        for (start, count, field) in [(0, reads, rows_layout::READ_STEPS), (reads, writes, rows_layout::WRITE_STEPS)] {
            if (start..start + count).all(|n| self.bases[n as usize] == Base::Unused) {
                continue;
            }
            self.code.load(RAX, at(RDI, field));
            for n in 0..count {
                let step = at(RAX, 8 * n as i32);
                match self.bases[(start + n) as usize] {
                    Base::Unused => {}
                    Base::Register(register) => self.code.alu(Alu::Add, register, step),
                    Base::Frame(place) => {
                        self.code.load(RDX, step);
                        self.code.add_to_memory(frame(place), RDX);
                    }
                }
            }
        }
        if rank >= 2 {
            self.code.load(RAX, at(RDI, rows_layout::INDEX));
            self.code.alu_imm(Alu::Add, at(RAX, 8 * (rank as i32 - 2)), 1);
        }
    }

    fn item(&mut self, item: &Item) {
        match *item {
            Item::Vector(ref vector) => self.vector(vector),
            Item::Fma { num, fused, dst, a, b, c } => self.fma(num, fused, dst, [a, b, c]),
            Item::Gather { num, dst, index, mem, lanes } => self.gather(num, dst, index, mem, lanes),
            Item::Scatter { num, value, index, mem, lanes } => self.scatter(num, [value, index], mem, lanes),
            Item::Truth { dst, a, width, truth } => self.truth(dst, a, width, truth),
            Item::Skip(mask) if self.is_short() => {
                self.signs_of(mask);
                self.code.alu_imm(Alu::Cmp, Rm::Reg(RAX.0), 0);
                self.skip = Some(self.code.jump_ahead(Condition::Equal));
            }
            Item::Skip(mask) => {
                let k = self.register(mask, SPARE_MASKS[0]);
                self.mask_instruction(&x86::KORTESTW, k, 0, Rm::Reg(k));
                self.skip = Some(self.code.jump_ahead(Condition::Equal));
            }
            Item::Land => {
                if let Some(jump) = self.skip.take() {
                    self.code.land(jump);
                }
            }
            Item::Enter(walk) => self.enter(walk),
            Item::Leave(walk) => self.leave(walk),
        }
    }

    fn enter(&mut self, walk: Walk) {
        let skip = match walk {
            Walk::Rows => None,
            Walk::Main(step) => {
                self.code.set(RCX, 0);
                self.code.alu_imm(Alu::Cmp, Rm::Reg(RSI.0), step as i32);
                Some(self.code.jump_ahead(Condition::Below))
            }
            Walk::Whole(step) => {
                self.code.address(RDX, at(RCX, step as i32));
                self.code.alu(Alu::Cmp, RDX, Rm::Reg(RSI.0));
                Some(self.code.jump_ahead(Condition::Above))
            }
            Walk::Rest(_) => {
                self.code.alu(Alu::Cmp, RCX, Rm::Reg(RSI.0));
                Some(self.code.jump_ahead(Condition::AboveEqual))
            }
        };
        if let Walk::Main(_) = walk {
            self.code.align_loop();
        }
        let top = self.code.here();
        self.open.push((skip, top));
        if let Walk::Rest(_) = walk
            && !self.is_short()
        {
            // Fewer elements are left than the low byte of a count holds.
            self.code.copy(RDX, RSI);
            self.code.alu(Alu::Sub, RDX, Rm::Reg(RCX.0));
            self.code.set(RAX, -1);
            self.code.low_bits(RAX, RAX, RDX);
            self.mask_instruction(&x86::KMOVW_FROM_GPR, TAIL, 0, Rm::Reg(RAX.0));
        }
    }

    fn leave(&mut self, walk: Walk) {
        let Some((skip, top)) = self.open.pop() else { return };
        match walk {
            Walk::Rows => {
                self.advance();
                self.code.alu_imm(Alu::Sub, frame(ROWS_LEFT), 1);
                self.code.jump_back(Condition::NotEqual, top);
            }
            Walk::Main(step) | Walk::Whole(step) => {
                self.code.alu_imm(Alu::Add, Rm::Reg(RCX.0), step as i32);
                self.code.address(RDX, at(RCX, step as i32));
                self.code.alu(Alu::Cmp, RDX, Rm::Reg(RSI.0));
                self.code.jump_back(Condition::BelowEqual, top);
            }
            Walk::Rest(step) => {
                self.code.alu_imm(Alu::Add, Rm::Reg(RCX.0), step as i32);
                self.code.alu(Alu::Cmp, RCX, Rm::Reg(RSI.0));
                self.code.jump_back(Condition::Below, top);
            }
        }
        if let Some(skip) = skip {
            self.code.land(skip);
        }
    }

    /// Whether this is code without AVX-512: masks are vectors.
    fn is_short(&self) -> bool {
        self.encoding != Encoding::Evex
    }

    /// The signs of the 32-bit lanes of a mask in the lowest bits of rax; code without AVX-512.
    fn signs_of(&mut self, mask: X) {
        let from = self.register(mask, self.spare[0]);
        self.plain(&x86::MOVMSKPS, RAX.0, Rm::Reg(from));
    }

    fn place(&self, virt: Virt) -> Place {
        self.places.places[virt.0 as usize]
    }

    fn is_mask(&self, virt: Virt) -> bool {
        self.program.classes[virt.0 as usize] == Class::Mask
    }

    fn slot(&self, slot: u32) -> Rm {
        frame(self.slots_start + 64 * slot as i32)
    }

    fn plain(&mut self, op: &Op, reg: u8, rm: Rm) {
        let (masking, broadcast) = (Masking::default(), Broadcast::No);
        let length = self.full;
        self.code.vector(op, &Operands { length, reg, vvvv: 0, rm, masking, broadcast, imm: None });
    }

    fn mask_instruction(&mut self, op: &Op, reg: u8, vvvv: u8, rm: Rm) {
        let (masking, broadcast) = (Masking::default(), Broadcast::No);
        self.code.vector(op, &Operands { length: Length::L128, reg, vvvv, rm, masking, broadcast, imm: None });
    }

    fn load_constant(&mut self, register: u8, constant: u32) {
        let place = Rm::Pool(self.pool[constant as usize]);
        match self.program.constants[constant as usize] {
            Constant::Narrow(_) => self.plain(&x86::BROADCASTSS, register, place),
            Constant::Wide(_) => self.plain(&x86::BROADCASTSD, register, place),
            // The only kind there is in code without AVX-512.
            Constant::Vector(_) => self.plain(&x86::MOVUPS, register, place),
        }
    }

    /// Puts an operand into a given vector register.
    fn fill(&mut self, register: u8, operand: X) {
        match operand {
            X::Const(c) => match self.constant_registers[c as usize] {
                Some(from) => self.plain(&x86::MOVAPS, register, Rm::Reg(from)),
                None => self.load_constant(register, c),
            },
            X::Reg(virt) => match self.place(virt) {
                Place::Reg(from) if from == register => {}
                Place::Reg(from) => self.plain(&x86::MOVAPS, register, Rm::Reg(from)),
                Place::Slot(slot) => {
                    let from = self.slot(slot);
                    self.plain(&x86::MOVUPS, register, from);
                }
            },
            X::None | X::Mem(_) | X::Tail | X::Counter(_) | X::Left => {}
        }
    }

    /// The number of a register with the operand: its own, or the spare one.
    fn register(&mut self, operand: X, spare: u8) -> u8 {
        match operand {
            X::Reg(virt) => match (self.place(virt), self.is_mask(virt)) {
                (Place::Reg(number), _) => number,
                (Place::Slot(slot), true) => {
                    let from = self.slot(slot);
                    self.mask_instruction(&x86::KMOVW, spare, 0, from);
                    spare
                }
                (Place::Slot(_), false) => {
                    self.fill(spare, operand);
                    spare
                }
            },
            X::Const(c) => match self.constant_registers[c as usize] {
                Some(number) => number,
                None => {
                    self.load_constant(spare, c);
                    spare
                }
            },
            X::Tail => TAIL,
            X::None | X::Mem(_) | X::Counter(_) | X::Left => 0,
        }
    }

    /// An operand for ModRM.rm: in memory where it lives there and the instruction can take it.
    fn rm(&mut self, op: &Op, operand: X, spare: u8) -> (Rm, Broadcast) {
        match operand {
            X::Mem(mem) => (self.memory(mem), Broadcast::No),
            X::Counter(disp) => {
                self.code.address(RAX, at(RCX, disp));
                (Rm::Reg(RAX.0), Broadcast::No)
            }
            X::Left => {
                self.code.copy(RAX, RSI);
                self.code.alu(Alu::Sub, RAX, Rm::Reg(RCX.0));
                (Rm::Reg(RAX.0), Broadcast::No)
            }
            X::Reg(virt) if !self.is_mask(virt) => match self.place(virt) {
                Place::Reg(number) => (Rm::Reg(number), Broadcast::No),
                Place::Slot(slot) => (self.slot(slot), Broadcast::No),
            },
            X::Const(c) if self.constant_registers[c as usize].is_none() => {
                let place = Rm::Pool(self.pool[c as usize]);
                let bytes = match self.program.constants[c as usize] {
                    Constant::Narrow(_) => 4,
                    Constant::Wide(_) => 8,
                    Constant::Vector(_) => return (place, Broadcast::No),
                };
                if op.broadcast_bytes() == Some(bytes) {
                    (place, Broadcast::Yes)
                } else {
                    self.load_constant(spare, c);
                    (Rm::Reg(spare), Broadcast::No)
                }
            }
            _ => (Rm::Reg(self.register(operand, spare)), Broadcast::No),
        }
    }

    fn base(&mut self, base: u32) -> Gpr {
        match self.bases[base as usize] {
            Base::Register(register) => register,
            Base::Frame(place) => {
                self.code.load(RAX, frame(place));
                RAX
            }
            Base::Unused => RAX,
        }
    }

    fn memory(&mut self, mem: Mem) -> Rm {
        match mem {
            Mem::Element { base, bytes, disp } => {
                let base = self.base(base);
                Rm::Mem { base, index: Some((RCX.0, bytes)), disp }
            }
            Mem::Row { base } => at(self.base(base), 0),
            Mem::Index { dim } => {
                self.code.load(RAX, at(RDI, rows_layout::INDEX));
                at(RAX, 8 * dim as i32)
            }
            Mem::Strided { base, step, disp } => {
                self.code.multiply(RAX, RCX, step);
                let from = match self.bases[base as usize] {
                    Base::Register(register) => Rm::Reg(register.0),
                    Base::Frame(place) => frame(place),
                    Base::Unused => Rm::Reg(RAX.0),
                };
                self.code.alu(Alu::Add, RAX, from);
                at(RAX, disp)
            }
            Mem::Table { disp } => {
                self.code.address(RAX, Rm::Pool(self.table));
                at(RAX, disp)
            }
        }
    }

    fn masking(&mut self, lanes: Lanes, zero: Zeroing) -> Masking {
        let k = match lanes {
            Lanes::All => 0,
            Lanes::Tail => TAIL,
            Lanes::First => {
                self.code.set(RAX, 1);
                self.mask_instruction(&x86::KMOVW_FROM_GPR, SPARE_MASKS[1], 0, Rm::Reg(RAX.0));
                SPARE_MASKS[1]
            }
            Lanes::Of(virt) => self.register(X::Reg(virt), SPARE_MASKS[0]),
        };
        Masking { k, zero }
    }

    /// The register to compute a result in, and the frame slot it is then kept in.
    fn target(&self, dst: Virt) -> (u8, Option<u32>) {
        match self.place(dst) {
            Place::Reg(number) => (number, None),
            Place::Slot(slot) if self.is_mask(dst) => (SPARE_MASKS[1], Some(slot)),
            Place::Slot(slot) => (self.spare[2], Some(slot)),
        }
    }

    fn keep(&mut self, dst: Virt, number: u8, slot: Option<u32>) {
        let Some(slot) = slot else { return };
        let to = self.slot(slot);
        if self.is_mask(dst) {
            self.mask_instruction(&x86::KMOVW_STORE, number, 0, to);
        } else {
            self.plain(&x86::MOVUPS_STORE, number, to);
        }
    }

    fn vector(&mut self, v: &Vector) {
        if self.encoding == Encoding::Sse {
            return self.vector_of_two(v);
        }
        let (mut imm, length) = (v.imm, v.length);
        let masking = match v.lanes {
            Lanes::Of(virt) if v.op.form == Form::Rvmr => {
                imm = Some(self.register(X::Reg(virt), self.spare[1]) << 4);
                Masking::default()
            }
            lanes => self.masking(lanes, v.zeroing),
        };
        let spare = if v.op.is_mask_op() { SPARE_MASKS } else { [self.spare[0], self.spare[1]] };
        let X::Reg(dst) = v.dst else {
            let X::Mem(mem) = v.dst else { return };
            let reg = self.register(v.a, self.spare[0]);
            let vvvv = self.register(v.b, self.spare[1]);
            let rm = self.memory(mem);
            let broadcast = Broadcast::No;
            self.code.vector(&v.op, &Operands { length, reg, vvvv, rm, masking, broadcast, imm });
            return;
        };
        let (number, slot) = self.target(dst);
        if v.tied != X::None {
            self.fill(number, v.tied);
        }
        let a = self.register(v.a, spare[0]);
        let (reg, vvvv, rm, broadcast) = match v.op.form {
            Form::Rvm | Form::Rvmr => {
                let (rm, broadcast) = self.rm(&v.op, v.b, spare[1]);
                (number, a, rm, broadcast)
            }
            Form::Mr => (a, 0, Rm::Reg(number), Broadcast::No),
            // Without AVX-512 these take no memory.
            Form::Vmi(digit) if self.is_short() => {
                let from = self.register(v.b, spare[1]);
                (digit, number, Rm::Reg(from), Broadcast::No)
            }
            Form::Vmi(digit) => {
                let (rm, broadcast) = self.rm(&v.op, v.b, spare[1]);
                (digit, number, rm, broadcast)
            }
        };
        self.code.vector(&v.op, &Operands { length, reg, vvvv, rm, masking, broadcast, imm });
        self.keep(dst, number, slot);
    }

    fn fma(&mut self, num: Num, fused: Fused, dst: Virt, operands: [X; 3]) {
        let [mut a, mut b, c] = operands;
        let (number, slot) = self.target(dst);
        let in_place = |emitter: &Self, operand: X| match operand {
            X::Reg(virt) => slot.is_none() && emitter.place(virt) == Place::Reg(number),
            _ => false,
        };
        let (op, vvvv, rm) = if in_place(self, c) {
            if matches!(a, X::Const(_)) {
                std::mem::swap(&mut a, &mut b);
            }
            let op = match fused {
                Fused::Add => num.pick(x86::FMADD231PS, x86::FMADD231PD),
                Fused::From => num.pick(x86::FNMADD231PS, x86::FNMADD231PD),
            };
            (op, a, b)
        } else {
            if in_place(self, b) || (matches!(b, X::Const(_)) && !in_place(self, a)) {
                std::mem::swap(&mut a, &mut b);
            }
            self.fill(number, a);
            let op = match fused {
                Fused::Add => num.pick(x86::FMADD213PS, x86::FMADD213PD),
                Fused::From => num.pick(x86::FNMADD213PS, x86::FNMADD213PD),
            };
            (op, b, c)
        };
        let vvvv = self.register(vvvv, self.spare[0]);
        let (rm, broadcast) = self.rm(&op, rm, self.spare[1]);
        let masking = Masking::default();
        self.code.vector(&op, &Operands { length: num.length, reg: number, vvvv, rm, masking, broadcast, imm: None });
        self.keep(dst, number, slot);
    }

    /// A copy of the lanes' mask that a gather or scatter may clear.
    fn consumable_mask(&mut self, lanes: Lanes) -> Masking {
        let spent = SPARE_MASKS[1];
        match lanes {
            Lanes::Tail => self.mask_instruction(&x86::KMOVW, spent, 0, Rm::Reg(TAIL)),
            Lanes::Of(virt) => {
                let from = self.register(X::Reg(virt), spent);
                if from != spent {
                    self.mask_instruction(&x86::KMOVW, spent, 0, Rm::Reg(from));
                }
            }
            Lanes::All | Lanes::First => self.mask_instruction(&x86::KXNORW, spent, spent, Rm::Reg(spent)),
        }
        Masking { k: spent, zero: Zeroing::Merge }
    }

    fn indexed(&mut self, mem: Mem, index: u8) -> Rm {
        match self.memory(mem) {
            Rm::Mem { base, disp, .. } => Rm::Mem { base, index: Some((index, 1)), disp },
            other => other,
        }
    }

    /// As [`Emitter::gather`], with the mask in a vector register, which the instruction clears.
    fn gather_short(&mut self, num: Num, dst: Virt, index: X, mem: Mem, lanes: Lanes) {
        let mask = self.spare[1];
        let whole = Operands {
            length: self.full,
            reg: mask,
            vvvv: mask,
            rm: Rm::Reg(mask),
            masking: Masking::default(),
            broadcast: Broadcast::No,
            imm: None,
        };
        match lanes {
            Lanes::Of(virt) => self.fill(mask, X::Reg(virt)),
            Lanes::All | Lanes::Tail | Lanes::First => self.code.vector(&x86::PCMPEQD, &whole),
        }
        let index = self.register(index, self.spare[0]);
        let (number, slot) = self.target(dst);
        let rm = self.indexed(mem, index);
        let zero = Operands { reg: number, vvvv: number, rm: Rm::Reg(number), ..whole };
        self.code.vector(&x86::PXORD, &zero);
        let op = num.pick(x86::GATHERDPS, x86::GATHERDPD);
        self.code.vector(&op, &Operands { length: num.length, reg: number, vvvv: mask, rm, ..whole });
        self.keep(dst, number, slot);
    }

    /// Stores lanes one by one, `step` bytes apart; code for AVX2.
    fn scatter_short(&mut self, num: Num, value: X, mem: Mem, lanes: Lanes) {
        let Mem::Strided { step, .. } = mem else { return };
        let mut from = self.register(value, self.spare[0]);
        let Rm::Mem { base, disp, .. } = self.memory(mem) else { return };
        let count = if lanes == Lanes::All { num.length.bytes() / if num.wide { 8 } else { 4 } } else { 1 };
        let in_half = if num.wide { 2 } else { 4 };
        for lane in 0..count {
            if lane == in_half {
                const UPPER_HALF: u8 = 0x11;
                let upper = Operands {
                    length: self.full,
                    reg: self.spare[1],
                    vvvv: from,
                    rm: Rm::Reg(from),
                    masking: Masking::default(),
                    broadcast: Broadcast::No,
                    imm: Some(UPPER_HALF),
                };
                self.code.vector(&x86::PERM2F128, &upper);
                from = self.spare[1];
            }
            let within = lane % in_half;
            let (op, imm) = match (num.wide, within) {
                (true, 0) => (x86::MOVSD_STORE, None),
                (true, _) => (x86::MOVHPS_STORE, None),
                (false, 0) => (x86::MOVSS_STORE, None),
                (false, _) => (x86::EXTRACTPS_STORE, Some(within as u8)),
            };
            let rm = at(base, disp + lane as i32 * step);
            let (masking, broadcast) = (Masking::default(), Broadcast::No);
            self.code.vector(&op, &Operands { length: Length::L128, reg: from, vvvv: 0, rm, masking, broadcast, imm });
        }
    }

    fn gather(&mut self, num: Num, dst: Virt, index: X, mem: Mem, lanes: Lanes) {
        if self.is_short() {
            return self.gather_short(num, dst, index, mem, lanes);
        }
        let masking = self.consumable_mask(lanes);
        let index = self.register(index, self.spare[0]);
        let (number, slot) = self.target(dst);
        let rm = self.indexed(mem, index);
        let zero = Operands {
            length: Length::L512,
            reg: number,
            vvvv: number,
            rm: Rm::Reg(number),
            masking: Masking::default(),
            broadcast: Broadcast::No,
            imm: None,
        };
        self.code.vector(&x86::PXORD, &zero);
        let op = num.pick(x86::GATHERDPS, x86::GATHERDPD);
        self.code.vector(&op, &Operands { length: num.length, vvvv: 0, rm, masking, ..zero });
        self.keep(dst, number, slot);
    }

    fn scatter(&mut self, num: Num, operands: [X; 2], mem: Mem, lanes: Lanes) {
        if self.is_short() {
            return self.scatter_short(num, operands[0], mem, lanes);
        }
        let masking = self.consumable_mask(lanes);
        let reg = self.register(operands[0], self.spare[1]);
        let index = self.register(operands[1], self.spare[0]);
        let rm = self.indexed(mem, index);
        let op = num.pick(x86::SCATTERDPS, x86::SCATTERDPD);
        let broadcast = Broadcast::No;
        self.code.vector(&op, &Operands { length: num.length, reg, vvvv: 0, rm, masking, broadcast, imm: None });
    }

    fn truth(&mut self, dst: Virt, a: X, width: u32, truth: Truth) {
        if self.is_short() {
            self.signs_of(a);
        } else {
            let a = self.register(a, SPARE_MASKS[0]);
            self.mask_instruction(&x86::KMOVW_TO_GPR, RAX.0, 0, Rm::Reg(a));
        }
        let (number, slot) = self.target(dst);
        self.code.alu_imm(Alu::And, Rm::Reg(RAX.0), (1 << width) - 1);
        match truth {
            Truth::Any | Truth::None => {
                self.code.negate(RAX);
                self.code.spread_carry(RAX);
                if truth == Truth::None {
                    self.code.complement(RAX);
                }
            }
            Truth::Parity => {
                self.code.count_ones(RAX, RAX);
                self.code.alu_imm(Alu::And, Rm::Reg(RAX.0), 1);
                self.code.negate(RAX);
            }
        }
        if self.is_short() {
            self.mask_instruction(&x86::MOVD_GPR, number, 0, Rm::Reg(RAX.0));
            if self.encoding == Encoding::Sse {
                self.first_in_all_lanes(number);
            } else {
                self.plain(&x86::PBROADCASTD, number, Rm::Reg(number));
            }
        } else {
            self.mask_instruction(&x86::KMOVW_FROM_GPR, number, 0, Rm::Reg(RAX.0));
        }
        self.keep(dst, number, slot);
    }
}

/// Puts constants into the pool, widest first so that each is aligned.
fn lay_out(constants: &[Constant], pool: &mut Vec<u8>) -> Vec<u32> {
    let mut places = vec![0; constants.len()];
    let size = |c: &Constant| match c {
        Constant::Vector(_) => 64,
        Constant::Wide(_) => 8,
        Constant::Narrow(_) => 4,
    };
    for bytes in [64, 8, 4] {
        for (constant, place) in constants.iter().zip(&mut places).filter(|(c, _)| size(c) == bytes) {
            *place = pool.len() as u32;
            match constant {
                Constant::Vector(lanes) => lanes.iter().for_each(|lane| pool.extend(lane.to_le_bytes())),
                Constant::Wide(bits) => pool.extend(bits.to_le_bytes()),
                Constant::Narrow(bits) => pool.extend(bits.to_le_bytes()),
            }
        }
    }
    places
}
