//! Encodes the x86-64 instructions the code generator uses, and nothing else.

pub(super) use super::ops::*;
use Form::{Mr, Rvm, Rvmr};

/// How vector instructions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Encoding {
    /// AVX-512: 32 registers, masks, elements of memory for all lanes.
    #[default]
    Evex,
    /// AVX2.
    Vex,
    /// SSE2: the result is the first operand, and operands in memory are aligned but for those that are only moved.
    Sse,
}

/// What only code for AVX2 uses.
macro_rules! vex_ops {
    ($($name:ident = $map:literal $prefix:ident $wide:literal $code:literal $form:expr;)*) => {
        $(pub(super) const $name: Op = op($map, $prefix, $wide, $code, $form, Tuple::Whole);)*
        #[cfg(test)]
        const ALL_VEX: &[(&str, Op)] = &[$((stringify!($name), $name),)*];
    };
}

vex_ops! {
    BLENDVPS = 3 P66 0 0x4a Rvmr; BLENDVPD = 3 P66 0 0x4b Rvmr;
    PANDN = 1 P66 0 0xdf Rvm; PMULUDQ = 1 P66 0 0xf4 Rvm;
    PCMPEQD = 1 P66 0 0x76 Rvm; PCMPGTD = 1 P66 0 0x66 Rvm;
    PCMPEQQ = 2 P66 0 0x29 Rvm; PCMPGTQ = 2 P66 0 0x37 Rvm;
    PSHUFB = 2 P66 0 0x00 Rvm; PSHUFD = 1 P66 0 0x70 Rvm; PBLENDD = 3 P66 0 0x02 Rvm;
    PERMQ = 3 P66 1 0x00 Rvm; PERM2F128 = 3 P66 0 0x06 Rvm; INSERTF128 = 3 P66 0 0x18 Rvm;
    ROUNDPS = 3 P66 0 0x08 Rvm; ROUNDPD = 3 P66 0 0x09 Rvm;
    PUNPCKLDQ = 1 P66 0 0x62 Rvm;
    PBROADCASTD = 2 P66 0 0x58 Rvm; PBROADCASTQ = 2 P66 0 0x59 Rvm; BROADCASTSD_SHORT = 2 P66 0 0x19 Rvm;
    MOVD_GPR = 1 P66 0 0x6e Rvm; MOVQ_GPR = 1 P66 1 0x6e Rvm;
    MOVMSKPS = 1 NP 0 0x50 Rvm;
    MASKMOVPS = 2 P66 0 0x2c Rvm; MASKMOVPD = 2 P66 0 0x2d Rvm;
    MASKMOVPS_STORE = 2 P66 0 0x2e Mr; MASKMOVPD_STORE = 2 P66 0 0x2f Mr;
    MOVSS = 1 PF3 0 0x10 Rvm; MOVSD = 1 PF2 0 0x10 Rvm;
    MOVSS_STORE = 1 PF3 0 0x11 Mr; MOVSD_STORE = 1 PF2 0 0x11 Mr;
    PINSRB = 3 P66 0 0x20 Rvm; PINSRW = 1 P66 0 0xc4 Rvm;
    PEXTRB_STORE = 3 P66 0 0x14 Mr; PEXTRW_STORE = 3 P66 0 0x15 Mr;
    EXTRACTPS_STORE = 3 P66 0 0x17 Mr; MOVHPS_STORE = 1 NP 0 0x17 Mr;
}

/// What only code for SSE2 uses.
macro_rules! sse_ops {
    ($($name:ident = $map:literal $prefix:ident $wide:literal $code:literal $form:expr;)*) => {
        $(pub(super) const $name: Op = op($map, $prefix, $wide, $code, $form, Tuple::Whole);)*
        #[cfg(test)]
        const ALL_SSE: &[(&str, Op)] = &[$((stringify!($name), $name),)*];
    };
}

sse_ops! {
    PUNPCKLBW = 1 P66 0 0x60 Rvm; PUNPCKLWD = 1 P66 0 0x61 Rvm; PUNPCKLQDQ = 1 P66 0 0x6c Rvm;
    PACKSSDW = 1 P66 0 0x6b Rvm; PACKUSWB = 1 P66 0 0x67 Rvm; PSHUFLW = 1 PF2 0 0x70 Rvm;
    MOVD_STORE = 1 P66 0 0x7e Mr;
}

/// A general register by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u8);

pub(super) const RAX: Gpr = Gpr(0);
pub(super) const RCX: Gpr = Gpr(1);
pub(super) const RDX: Gpr = Gpr(2);
pub(super) const RBX: Gpr = Gpr(3);
pub(super) const RSP: Gpr = Gpr(4);
pub(super) const RBP: Gpr = Gpr(5);
pub(super) const RSI: Gpr = Gpr(6);
pub(super) const RDI: Gpr = Gpr(7);

/// What ModRM.rm names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rm {
    /// A register of any kind.
    Reg(u8),
    /// `[base + index·scale + disp]`; the index may be a vector register (gathers).
    Mem { base: Gpr, index: Option<(u8, u8)>, disp: i32 },
    /// A place in the constant pool, behind the code.
    Pool(u32),
}

/// The mask of an instruction: register (0 for none) and whether other lanes become zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Masking {
    pub(super) k: u8,
    pub(super) zero: Zeroing,
}

/// The operands of one vector instruction, as numbered registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    pub(super) length: Length,
    pub(super) reg: u8,
    pub(super) vvvv: u8,
    pub(super) rm: Rm,
    pub(super) masking: Masking,
    /// Whether a memory operand is one element for all lanes.
    pub(super) broadcast: Broadcast,
    pub(super) imm: Option<u8>,
}

/// Whether a memory operand is one element for all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broadcast {
    No,
    Yes,
}

/// Condition codes of jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Below = 2,
    AboveEqual = 3,
    Equal = 4,
    NotEqual = 5,
    BelowEqual = 6,
    Above = 7,
}

/// A place in the code that jumps aim at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label(usize);

/// Two-operand arithmetic of general registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alu {
    Add = 0,
    And = 4,
    Sub = 5,
    Cmp = 7,
}

/// Code being written, with its constants.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    pub(super) code: Vec<u8>,
    pub(super) pool: Vec<u8>,
    encoding: Encoding,
    /// Where a 32-bit distance to the pool stands, where its instruction ends, the place in the pool.
    pool_uses: Vec<(usize, usize, u32)>,
}

impl Encoder {
    pub(super) fn new(encoding: Encoding) -> Encoder {
        Encoder { encoding, ..Encoder::default() }
    }

    fn byte(&mut self, byte: u8) {
        self.code.push(byte);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// ModRM, SIB and displacement; `scale` is what 8-bit displacements are multiples of.
    fn modrm(&mut self, reg: u8, rm: Rm, scale: i32, imm_bytes: usize) {
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Reg(r) => self.byte(0xc0 | reg | (r & 7)),
            Rm::Pool(place) => {
                self.byte(0x05 | reg);
                let at = self.code.len();
                self.pool_uses.push((at, at + 4 + imm_bytes, place));
                self.bytes(&[0; 4]);
            }
            Rm::Mem { base, index, disp } => {
                let short = disp % scale == 0 && i8::try_from(disp / scale).is_ok();
                let mode = match () {
                    () if disp == 0 && base.0 & 7 != 5 => 0x00,
                    () if short => 0x40,
                    () => 0x80,
                };
                if index.is_some() || base.0 & 7 == 4 {
                    let (number, factor) = index.unwrap_or((4, 1));
                    self.byte(mode | reg | 4);
                    self.byte(((factor.trailing_zeros() as u8) << 6) | ((number & 7) << 3) | (base.0 & 7));
                } else {
                    self.byte(mode | reg | (base.0 & 7));
                }
                match mode {
                    0x00 => {}
                    0x40 => self.byte((disp / scale) as i8 as u8),
                    _ => self.bytes(&disp.to_le_bytes()),
                }
            }
        }
    }

    pub(super) fn vector(&mut self, op: &Op, operands: &Operands) {
        match op.vex {
            Some(l) => self.vex(op.map, op.prefix, op.wide, op.code, l, operands),
            None => match self.encoding {
                Encoding::Evex => self.evex(op, operands),
                Encoding::Vex => self.vex(op.map, op.prefix, op.wide, op.code, operands.length as u8, operands),
                Encoding::Sse => self.sse(op, operands),
            },
        }
    }

    /// An instruction of the first map, as they were before AVX: the result is the first operand.
    fn sse(&mut self, op: &Op, operands: &Operands) {
        const PREFIXES: [Option<u8>; 4] = [None, Some(0x66), Some(0xf3), Some(0xf2)];
        let Operands { reg, rm, imm, .. } = *operands;
        debug_assert_eq!(op.map, 1);
        self.code.extend(PREFIXES[usize::from(op.prefix)]);
        let (x, b) = extension(rm);
        let rex = (reg >> 3 & 1) << 2 | x << 1 | b;
        if rex != 0 {
            self.byte(0x40 | rex);
        }
        self.bytes(&[0x0f, op.code]);
        self.modrm(reg, rm, 1, usize::from(imm.is_some()));
        self.code.extend(imm);
    }

    fn evex(&mut self, op: &Op, operands: &Operands) {
        let Operands { length, reg, vvvv, rm, masking, broadcast, imm } = *operands;
        let (x, b, high_index) = match rm {
            Rm::Reg(r) => (r >> 4 & 1, r >> 3 & 1, 0),
            Rm::Mem { base, index, .. } => {
                let index = index.map_or(0, |(i, _)| i);
                (index >> 3 & 1, base.0 >> 3 & 1, index >> 4 & 1)
            }
            Rm::Pool(_) => (0, 0, 0),
        };
        let high_vvvv = (vvvv >> 4 & 1) | high_index;
        self.byte(0x62);
        self.byte((!(reg >> 3) & 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5 | (!(reg >> 4) & 1) << 4 | op.map);
        self.byte(u8::from(op.wide) << 7 | (!vvvv & 15) << 3 | 4 | op.prefix);
        let zero = u8::from(masking.zero == Zeroing::Zero && masking.k != 0);
        let one_element = u8::from(broadcast == Broadcast::Yes);
        self.byte(zero << 7 | (length as u8) << 5 | one_element << 4 | (high_vvvv ^ 1) << 3 | masking.k);
        self.byte(op.code);
        let scale = match broadcast {
            Broadcast::Yes => op.broadcast_bytes().unwrap_or(4) as i32,
            Broadcast::No => op.memory_bytes(length),
        };
        self.modrm(reg, rm, scale, usize::from(imm.is_some()));
        self.code.extend(imm);
    }

    fn vex(&mut self, map: u8, prefix: u8, wide: bool, code: u8, l: u8, operands: &Operands) {
        let Operands { reg, vvvv, rm, imm, .. } = *operands;
        let (x, b) = extension(rm);
        self.byte(0xc4);
        self.byte((!(reg >> 3) & 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5 | map);
        self.byte(u8::from(wide) << 7 | (!vvvv & 15) << 3 | l << 2 | prefix);
        self.byte(code);
        self.modrm(reg, rm, 1, usize::from(imm.is_some()));
        self.code.extend(imm);
    }

    /// A legacy 64-bit instruction with a ModRM operand.
    fn legacy(&mut self, code: &[u8], reg: u8, rm: Rm, imm_bytes: usize) {
        let (x, b) = extension(rm);
        self.byte(0x48 | (reg >> 3 & 1) << 2 | x << 1 | b);
        self.bytes(code);
        self.modrm(reg, rm, 1, imm_bytes);
    }

    pub(super) fn load(&mut self, to: Gpr, rm: Rm) {
        self.legacy(&[0x8b], to.0, rm, 0);
    }

    /// Loads a byte and clears the bits above.
    pub(super) fn load_byte(&mut self, to: Gpr, rm: Rm) {
        self.legacy(&[0x0f, 0xb6], to.0, rm, 0);
    }

    /// Stores the lowest byte or the two lowest ones.
    pub(super) fn store_low(&mut self, rm: Rm, from: Gpr, bytes: u8) {
        if bytes == 2 {
            self.byte(0x66);
        }
        let (x, b) = extension(rm);
        // With this prefix every register has a name for its lowest byte.
        self.byte(0x40 | (from.0 >> 3 & 1) << 2 | x << 1 | b);
        self.byte(if bytes == 2 { 0x89 } else { 0x88 });
        self.modrm(from.0, rm, 1, 0);
    }

    pub(super) fn store(&mut self, rm: Rm, from: Gpr) {
        self.legacy(&[0x89], from.0, rm, 0);
    }

    pub(super) fn copy(&mut self, to: Gpr, from: Gpr) {
        self.load(to, Rm::Reg(from.0));
    }

    pub(super) fn address(&mut self, to: Gpr, rm: Rm) {
        self.legacy(&[0x8d], to.0, rm, 0);
    }

    pub(super) fn set(&mut self, to: Gpr, value: i64) {
        if let Ok(value) = i32::try_from(value) {
            self.legacy(&[0xc7], 0, Rm::Reg(to.0), 4);
            self.bytes(&value.to_le_bytes());
        } else {
            self.byte(0x48 | to.0 >> 3);
            self.byte(0xb8 | to.0 & 7);
            self.bytes(&value.to_le_bytes());
        }
    }

    pub(super) fn alu(&mut self, alu: Alu, to: Gpr, from: Rm) {
        self.legacy(&[(alu as u8) << 3 | 3], to.0, from, 0);
    }

    pub(super) fn alu_imm(&mut self, alu: Alu, to: Rm, value: i32) {
        if let Ok(value) = i8::try_from(value) {
            self.legacy(&[0x83], alu as u8, to, 1);
            self.byte(value as u8);
        } else {
            self.legacy(&[0x81], alu as u8, to, 4);
            self.bytes(&value.to_le_bytes());
        }
    }

    pub(super) fn add_to_memory(&mut self, to: Rm, from: Gpr) {
        self.legacy(&[0x01], from.0, to, 0);
    }

    /// `to = from · factor`.
    pub(super) fn multiply(&mut self, to: Gpr, from: Gpr, factor: i32) {
        self.legacy(&[0x69], to.0, Rm::Reg(from.0), 4);
        self.bytes(&factor.to_le_bytes());
    }

    pub(super) fn negate(&mut self, to: Gpr) {
        self.legacy(&[0xf7], 3, Rm::Reg(to.0), 0);
    }

    pub(super) fn complement(&mut self, to: Gpr) {
        self.legacy(&[0xf7], 2, Rm::Reg(to.0), 0);
    }

    /// All ones if the carry flag is set, else zero.
    pub(super) fn spread_carry(&mut self, to: Gpr) {
        self.legacy(&[0x19], to.0, Rm::Reg(to.0), 0);
    }

    pub(super) fn count_ones(&mut self, to: Gpr, from: Gpr) {
        self.byte(0xf3);
        self.legacy(&[0x0f, 0xb8], to.0, Rm::Reg(from.0), 0);
    }

    /// The low `count` bits of `from`, all of them when `count` (its low byte) is 64 or more.
    pub(super) fn low_bits(&mut self, to: Gpr, from: Gpr, count: Gpr) {
        let operands = Operands {
            length: Length::L128,
            reg: to.0,
            vvvv: count.0,
            rm: Rm::Reg(from.0),
            masking: Masking::default(),
            broadcast: Broadcast::No,
            imm: None,
        };
        self.vex(2, NP, true, 0xf5, 0, &operands);
    }

    pub(super) fn push(&mut self, register: Gpr) {
        self.bytes(&[0x40 | register.0 >> 3, 0x50 | register.0 & 7]);
    }

    pub(super) fn pop(&mut self, register: Gpr) {
        self.bytes(&[0x40 | register.0 >> 3, 0x58 | register.0 & 7]);
    }

    /// Clears the upper halves, so that later code of the shorter kind is not slowed, and returns.
    pub(super) fn leave(&mut self) {
        if self.encoding != Encoding::Sse {
            self.bytes(&[0xc5, 0xf8, 0x77]);
        }
        self.byte(0xc3);
    }

    /// Makes non-temporal stores visible in order.
    pub(super) fn store_fence(&mut self) {
        self.bytes(&[0x0f, 0xae, 0xf8]);
    }

    pub(super) fn here(&self) -> Label {
        Label(self.code.len())
    }

    pub(super) fn jump_back(&mut self, condition: Condition, to: Label) {
        self.bytes(&[0x0f, 0x80 | condition as u8]);
        let distance = to.0 as i64 - (self.code.len() as i64 + 4);
        self.bytes(&(distance as i32).to_le_bytes());
    }

    /// A jump whose target is given later to [`Encoder::land`].
    pub(super) fn jump_ahead(&mut self, condition: Condition) -> Label {
        self.bytes(&[0x0f, 0x80 | condition as u8, 0, 0, 0, 0]);
        self.here()
    }

    pub(super) fn land(&mut self, jump: Label) {
        let distance = (self.code.len() - jump.0) as i32;
        self.code[jump.0 - 4..jump.0].copy_from_slice(&distance.to_le_bytes());
    }

    /// Starts the top of a hot loop on a 32-byte boundary.
    pub(super) fn align_loop(&mut self) {
        while !self.code.len().is_multiple_of(32) {
            let missing = 32 - self.code.len() % 32;
            match missing {
                1 => self.byte(0x90),
                2 => self.bytes(&[0x66, 0x90]),
                3 => self.bytes(&[0x0f, 0x1f, 0x00]),
                4 => self.bytes(&[0x0f, 0x1f, 0x40, 0x00]),
                5 => self.bytes(&[0x0f, 0x1f, 0x44, 0x00, 0x00]),
                6 => self.bytes(&[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00]),
                7 => self.bytes(&[0x0f, 0x1f, 0x80, 0, 0, 0, 0]),
                _ => self.bytes(&[0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0]),
            }
        }
    }

    /// Code and constants as one block; the constants start at a multiple of 64 bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let start = self.code.len().next_multiple_of(64);
        for (at, end, place) in std::mem::take(&mut self.pool_uses) {
            let distance = (start + place as usize - end) as i32;
            self.code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        self.code.resize(start, 0xcc);
        self.code.extend_from_slice(&self.pool);
        self.code
    }
}

/// The fourth bits of the index and of the base, or of the register.
fn extension(rm: Rm) -> (u8, u8) {
    match rm {
        Rm::Reg(r) => (0, r >> 3 & 1),
        Rm::Mem { base, index, .. } => (index.map_or(0, |(i, _)| i >> 3 & 1), base.0 >> 3 & 1),
        Rm::Pool(_) => (0, 0),
    }
}

#[cfg(test)]
mod tests;
