//! Encodes the A64 instructions the code generator uses, and nothing else.

/// A vector instruction without its registers: the result is in the lowest bits, the first source at bit 5, the second at 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) u32);

macro_rules! codes {
    ($($name:ident = $bits:literal;)*) => {
        $(pub(super) const $name: Code = Code($bits);)*
        #[cfg(test)]
        const ALL: &[(&str, Code)] = &[$((stringify!($name), $name),)*];
    };
}

codes! {
    FADD_4S = 0x4e20_d400; FADD_2D = 0x4e60_d400; FSUB_4S = 0x4ea0_d400; FSUB_2D = 0x4ee0_d400;
    FMUL_4S = 0x6e20_dc00; FMUL_2D = 0x6e60_dc00; FDIV_4S = 0x6e20_fc00; FDIV_2D = 0x6e60_fc00;
    FMLA_4S = 0x4e20_cc00; FMLA_2D = 0x4e60_cc00; FMLS_4S = 0x4ea0_cc00; FMLS_2D = 0x4ee0_cc00;
    FMAX_4S = 0x4e20_f400; FMAX_2D = 0x4e60_f400; FMIN_4S = 0x4ea0_f400; FMIN_2D = 0x4ee0_f400;
    FCMEQ_4S = 0x4e20_e400; FCMEQ_2D = 0x4e60_e400; FCMGE_4S = 0x6e20_e400; FCMGE_2D = 0x6e60_e400;
    FCMGT_4S = 0x6ea0_e400; FCMGT_2D = 0x6ee0_e400;
    ADD_4S = 0x4ea0_8400; ADD_2D = 0x4ee0_8400; SUB_4S = 0x6ea0_8400; SUB_2D = 0x6ee0_8400; MUL_4S = 0x4ea0_9c00;
    SMAX_4S = 0x4ea0_6400; SMIN_4S = 0x4ea0_6c00; UMAX_4S = 0x6ea0_6400; UMIN_4S = 0x6ea0_6c00;
    CMEQ_4S = 0x6ea0_8c00; CMEQ_2D = 0x6ee0_8c00; CMTST_4S = 0x4ea0_8c00; CMTST_2D = 0x4ee0_8c00;
    CMGT_4S = 0x4ea0_3400; CMGT_2D = 0x4ee0_3400; CMGE_4S = 0x4ea0_3c00; CMGE_2D = 0x4ee0_3c00;
    CMHI_4S = 0x6ea0_3400; CMHI_2D = 0x6ee0_3400; CMHS_4S = 0x6ea0_3c00; CMHS_2D = 0x6ee0_3c00;
    USHL_4S = 0x6ea0_4400; USHL_2D = 0x6ee0_4400; SSHL_4S = 0x4ea0_4400; SSHL_2D = 0x4ee0_4400;
    AND = 0x4e20_1c00; BIC = 0x4e60_1c00; ORR = 0x4ea0_1c00; EOR = 0x6e20_1c00;
    BSL = 0x6e60_1c00; BIT = 0x6ea0_1c00; BIF = 0x6ee0_1c00;
    UMAXP_4S = 0x6ea0_a400; ZIP1_2D = 0x4ec0_3800; EXT_8 = 0x6e00_4000;
}

/// Instructions of one source.
macro_rules! single_codes {
    ($($name:ident = $bits:literal;)*) => {
        $(pub(super) const $name: Code = Code($bits);)*
        #[cfg(test)]
        const ALL_SINGLE: &[(&str, Code)] = &[$((stringify!($name), $name),)*];
    };
}

single_codes! {
    FSQRT_4S = 0x6ea1_f800; FSQRT_2D = 0x6ee1_f800; FRINTN_4S = 0x4e21_8800; FRINTN_2D = 0x4e61_8800;
    FRINTM_4S = 0x4e21_9800; FRINTM_2D = 0x4e61_9800; FRINTP_4S = 0x4ea1_8800; FRINTP_2D = 0x4ee1_8800;
    FRINTZ_4S = 0x4ea1_9800; FRINTZ_2D = 0x4ee1_9800;
    SCVTF_4S = 0x4e21_d800; SCVTF_2D = 0x4e61_d800; UCVTF_4S = 0x6e21_d800; UCVTF_2D = 0x6e61_d800;
    FCVTZS_4S = 0x4ea1_b800; FCVTZS_2D = 0x4ee1_b800; FCVTZU_4S = 0x6ea1_b800; FCVTZU_2D = 0x6ee1_b800;
    FCVTL_2D = 0x0e61_7800; FCVTL_4S = 0x0e21_7800; FCVTN_2S = 0x0e61_6800; FCVTN_4H = 0x0e21_6800;
    ABS_4S = 0x4ea0_b800; ABS_2D = 0x4ee0_b800; NEG_4S = 0x6ea0_b800; NEG_2D = 0x6ee0_b800;
    NOT = 0x6e20_5800; CLZ_4S = 0x6ea0_4800; REV64_4S = 0x4ea0_0800;
    XTN_8B = 0x0e21_2800; XTN_4H = 0x0e61_2800; XTN_2S = 0x0ea1_2800; UQXTN_2S = 0x2ea1_4800;
    SXTL_8H = 0x0f08_a400; SXTL_4S = 0x0f10_a400; SXTL_2D = 0x0f20_a400;
    UXTL_8H = 0x2f08_a400; UXTL_4S = 0x2f10_a400; UXTL_2D = 0x2f20_a400;
    ADDV_4S = 0x4eb1_b800; DUP_2D_UPPER = 0x4e18_0400;
}

/// Shifts left by less than the width.
pub(super) fn shl(wide: bool, by: u8) -> Code {
    Code(0x4f00_5400 | (lane_bits(wide) + u32::from(by)) << 16)
}

/// Shifts right by 1 up to the width, with zeros.
pub(super) fn ushr(wide: bool, by: u8) -> Code {
    Code(0x6f00_0400 | (2 * lane_bits(wide) - u32::from(by)) << 16)
}

/// Shifts right by 1 up to the width, with the sign.
pub(super) fn sshr(wide: bool, by: u8) -> Code {
    Code(0x4f00_0400 | (2 * lane_bits(wide) - u32::from(by)) << 16)
}

fn lane_bits(wide: bool) -> u32 {
    if wide { 64 } else { 32 }
}

/// A general register by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u8);

/// The stack pointer where an address or an immediate addition is meant, else zero.
pub(super) const SP: Gpr = Gpr(31);

impl Gpr {
    fn d(self) -> u32 {
        u32::from(self.0)
    }
    fn n(self) -> u32 {
        u32::from(self.0) << 5
    }
    fn m(self) -> u32 {
        u32::from(self.0) << 16
    }
}

/// How much of a vector register goes from or to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    B1 = 0,
    B2 = 1,
    B4 = 2,
    B8 = 3,
    B16 = 4,
}

impl Size {
    /// `None` for what no instruction moves.
    pub(super) fn of(bytes: u32) -> Option<Size> {
        Some(match bytes {
            1 => Size::B1,
            2 => Size::B2,
            4 => Size::B4,
            8 => Size::B8,
            16 => Size::B16,
            _ => return None,
        })
    }

    /// The size and opcode fields of loads and stores with an immediate.
    fn fields(self) -> u32 {
        if self == Size::B16 { 0x0080_0000 } else { (self as u32) << 30 }
    }
}

/// Condition codes of jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Equal = 0,
    NotEqual = 1,
    AboveEqual = 2,
    Below = 3,
    Above = 8,
    BelowEqual = 9,
}

/// A place in the code that jumps aim at, in instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label(usize);

/// Jumps and addresses of constants reach this far.
const REACH_BYTES: usize = 1 << 20;
/// The immediate of a conditional jump, and of the address of a constant.
const DISTANCE: u32 = 0x7ffff;

/// Code being written, with its constants.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    pub(super) code: Vec<u32>,
    pub(super) pool: Vec<u8>,
    /// Which instruction needs the distance to which place in the pool.
    pool_uses: Vec<(usize, u32)>,
}

impl Encoder {
    fn word(&mut self, word: u32) {
        self.code.push(word);
    }

    pub(super) fn vector(&mut self, code: Code, d: u8, n: u8, m: u8) {
        self.word(code.0 | u32::from(m) << 16 | u32::from(n) << 5 | u32::from(d));
    }

    pub(super) fn copy_vector(&mut self, to: u8, from: u8) {
        if to != from {
            self.vector(ORR, to, from, from);
        }
    }

    /// Loads `size` bytes at `base + disp` into the low end of a register, zeros above. `disp` is a multiple of the size.
    pub(super) fn load_vector(&mut self, size: Size, to: u8, base: Gpr, disp: u32) {
        debug_assert!(disp.is_multiple_of(1 << size as u32) && disp >> size as u32 <= 0xfff);
        self.word(0x3d40_0000 | size.fields() | (disp >> size as u32) << 10 | base.n() | u32::from(to));
    }

    /// As [`Encoder::load_vector`], the other way.
    pub(super) fn store_vector(&mut self, size: Size, from: u8, base: Gpr, disp: u32) {
        debug_assert!(disp.is_multiple_of(1 << size as u32) && disp >> size as u32 <= 0xfff);
        self.word(0x3d00_0000 | size.fields() | (disp >> size as u32) << 10 | base.n() | u32::from(from));
    }

    /// An element of memory in all lanes; up to eight bytes.
    pub(super) fn load_splat(&mut self, size: Size, to: u8, base: Gpr) {
        self.word(0x4d40_c000 | (size as u32) << 10 | base.n() | u32::from(to));
    }

    /// Loads one lane and moves the address on.
    pub(super) fn load_lane(&mut self, wide: bool, to: u8, lane: u32, base: Gpr, step: Gpr) {
        self.word(0x0dc0_0000 | lane_fields(wide, lane) | step.m() | base.n() | u32::from(to));
    }

    /// Stores one lane and moves the address on.
    pub(super) fn store_lane(&mut self, wide: bool, from: u8, lane: u32, base: Gpr, step: Gpr) {
        self.word(0x0d80_0000 | lane_fields(wide, lane) | step.m() | base.n() | u32::from(from));
    }

    /// A 16-byte constant.
    pub(super) fn load_constant(&mut self, to: u8, place: u32) {
        self.pool_uses.push((self.code.len(), place));
        self.word(0x9c00_0000 | u32::from(to));
    }

    /// The address of a place in the pool, a multiple of 4.
    pub(super) fn pool_address(&mut self, to: Gpr, place: u32) {
        self.pool_uses.push((self.code.len(), place));
        self.word(0x1000_0000 | to.d());
    }

    pub(super) fn splat_gpr(&mut self, wide: bool, to: u8, from: Gpr) {
        let code = if wide { 0x4e08_0c00 } else { 0x4e04_0c00 };
        self.word(code | from.n() | u32::from(to));
    }

    /// A 64-bit lane in a general register.
    pub(super) fn lane_to_gpr(&mut self, to: Gpr, from: u8, lane: u32) {
        self.word(0x4e08_3c00 | lane << 20 | u32::from(from) << 5 | to.d());
    }

    pub(super) fn gpr_to_lane(&mut self, to: u8, lane: u32, from: Gpr) {
        self.word(0x4e08_1c00 | lane << 20 | from.n() | u32::from(to));
    }

    /// Lane 0 of 32 bits into another lane.
    pub(super) fn first_to_lane(&mut self, to: u8, lane: u32, from: u8) {
        self.word(0x6e04_0400 | lane << 19 | u32::from(from) << 5 | u32::from(to));
    }

    /// A 64-bit integer as f32, rounded once.
    pub(super) fn integer_to_f32(&mut self, to: u8, from: Gpr, is_unsigned: bool) {
        self.word(if is_unsigned { 0x9e23_0000 } else { 0x9e22_0000 } | from.n() | u32::from(to));
    }

    pub(super) fn load(&mut self, to: Gpr, base: Gpr, disp: u32) {
        debug_assert!(disp.is_multiple_of(8) && disp / 8 <= 0xfff);
        self.word(0xf940_0000 | (disp / 8) << 10 | base.n() | to.d());
    }

    pub(super) fn store(&mut self, from: Gpr, base: Gpr, disp: u32) {
        debug_assert!(disp.is_multiple_of(8) && disp / 8 <= 0xfff);
        self.word(0xf900_0000 | (disp / 8) << 10 | base.n() | from.d());
    }

    /// `to = from << shift + base`.
    pub(super) fn add_shifted(&mut self, to: Gpr, base: Gpr, from: Gpr, shift: u32) {
        self.word(0x8b00_0000 | from.m() | shift << 10 | base.n() | to.d());
    }

    /// `to = from + value`, for values of up to 24 bits.
    pub(super) fn add(&mut self, to: Gpr, from: Gpr, value: u32) {
        self.immediate(0x9100_0000, to, from, value);
    }

    pub(super) fn sub(&mut self, to: Gpr, from: Gpr, value: u32) {
        self.immediate(0xd100_0000, to, from, value);
    }

    fn immediate(&mut self, code: u32, to: Gpr, from: Gpr, value: u32) {
        debug_assert!(value < 1 << 24);
        let (low, high) = (value & 0xfff, value >> 12);
        if high != 0 {
            self.word(code | 1 << 22 | high << 10 | from.n() | to.d());
        }
        if low != 0 || high == 0 {
            let from = if high != 0 { to } else { from };
            self.word(code | low << 10 | from.n() | to.d());
        }
    }

    /// Compares with a number below 4096.
    pub(super) fn compare_with(&mut self, a: Gpr, value: u32) {
        debug_assert!(value < 1 << 12);
        self.word(0xf100_001f | value << 10 | a.n());
    }

    pub(super) fn compare(&mut self, a: Gpr, b: Gpr) {
        self.word(0xeb00_001f | b.m() | a.n());
    }

    /// Any number.
    pub(super) fn set(&mut self, to: Gpr, value: i64) {
        // Halves that are all ones need no instruction after one that fills with ones.
        let (first, filler) = if value < 0 { (0x9280_0000, 0xffff) } else { (0xd280_0000, 0) };
        let half = |at: u32| (value >> (16 * at)) as u32 & 0xffff;
        let start = if value < 0 { !half(0) & 0xffff } else { half(0) };
        self.word(first | start << 5 | to.d());
        for at in 1..4 {
            if half(at) != filler {
                self.word(0xf280_0000 | at << 21 | half(at) << 5 | to.d());
            }
        }
    }

    /// `to = a · b + c`.
    pub(super) fn multiply_add(&mut self, to: Gpr, a: Gpr, b: Gpr, c: Gpr) {
        self.word(0x9b00_0000 | b.m() | c.d() << 10 | a.n() | to.d());
    }

    pub(super) fn leading_zeros(&mut self, to: Gpr, from: Gpr) {
        self.word(0xdac0_1000 | from.n() | to.d());
    }

    /// All ones where the condition holds, else zero.
    pub(super) fn spread(&mut self, to: Gpr, condition: Condition) {
        self.word(0xda9f_03e0 | (condition as u32 ^ 1) << 12 | to.d());
    }

    pub(super) fn lowest_bit(&mut self, to: Gpr, from: Gpr) {
        self.word(0x9240_0000 | from.n() | to.d());
    }

    pub(super) fn negate(&mut self, to: Gpr, from: Gpr) {
        self.word(0xcb00_03e0 | from.m() | to.d());
    }

    pub(super) fn leave(&mut self) {
        self.word(0xd65f_03c0);
    }

    pub(super) fn here(&self) -> Label {
        Label(self.code.len())
    }

    pub(super) fn jump_back(&mut self, condition: Condition, to: Label) {
        let distance = to.0 as i64 - self.code.len() as i64;
        self.word(0x5400_0000 | (distance as u32 & DISTANCE) << 5 | condition as u32);
    }

    /// A jump whose target is given later to [`Encoder::land`].
    pub(super) fn jump_ahead(&mut self, condition: Condition) -> Label {
        let jump = self.here();
        self.word(0x5400_0000 | condition as u32);
        jump
    }

    /// As [`Encoder::jump_ahead`], where the register is 0.
    pub(super) fn jump_ahead_if_zero(&mut self, register: Gpr) -> Label {
        let jump = self.here();
        self.word(0xb400_0000 | register.d());
        jump
    }

    pub(super) fn land(&mut self, jump: Label) {
        let distance = (self.code.len() - jump.0) as u32;
        self.code[jump.0] |= (distance & DISTANCE) << 5;
    }

    /// Code and constants as one block, which starts at a page; `None` where it is longer than jumps reach.
    pub(super) fn finish(mut self) -> Option<Vec<u8>> {
        let start = (4 * self.code.len()).next_multiple_of(16);
        if start + self.pool.len() >= REACH_BYTES {
            return None;
        }
        for &(at, place) in &self.pool_uses {
            let distance = (start + place as usize - 4 * at) as u32 / 4;
            self.code[at] |= (distance & DISTANCE) << 5;
        }
        let mut bytes: Vec<u8> = self.code.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(start, 0);
        bytes.extend_from_slice(&self.pool);
        Some(bytes)
    }
}

/// The fields of the number of a lane in loads and stores of one.
fn lane_fields(wide: bool, lane: u32) -> u32 {
    if wide { 0x8400 | lane << 30 } else { 0x8000 | (lane >> 1) << 30 | (lane & 1) << 12 }
}

#[cfg(test)]
mod tests;
