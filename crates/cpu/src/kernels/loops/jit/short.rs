//! Rewrites a program of AVX-512 instructions for AVX2: shorter vectors, no mask registers, fewer instructions.
//!
//! A mask becomes a vector whose lanes are all ones or zero. Masks of 64-bit lanes are kept as 64-bit lanes until somebody
//! needs them as 32-bit ones. What is left of a row is loaded and stored by masks where all its arrays have elements of 32
//! or 64 bits, else element by element.

use std::collections::HashMap;

use super::super::math::coefficients::INTEGER_F32;
use super::encode::{self as x86, Form, Length, Op, Zeroing};
use super::lanes::rounding;
use super::program::{Class, Constant, Item, Lanes, Mem, Num, Program, Vector, Virt, Walk, X};

/// Lanes of 32 bits in the longest vector.
const LANES: usize = 8;
const ALL_LANES: [i32; LANES] = [-1; LANES];
const FIRST_LANE: [i32; LANES] = [-1, 0, 0, 0, 0, 0, 0, 0];
const COUNT: [i32; LANES] = [0, 1, 2, 3, 4, 5, 6, 7];
/// 2^52, and 2^52 + 2^51: the integer that is added stands in the lowest bits.
const UNSIGNED_MAGIC: u64 = 0x4330_0000_0000_0000;

/// How the last elements of a row are walked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// In vectors of which a part is loaded and stored.
    Masked,
    Single,
}

struct Shortening<'a> {
    from: &'a Program,
    to: Program,
    /// Of masks: whether their lanes have 64 bits.
    is_wide: HashMap<u32, bool>,
    /// Masks in the other width, since the last jump or target of one.
    other: HashMap<u32, Virt>,
    /// The lanes that are left, in 32 bits.
    tail: Option<Virt>,
    rest: Rest,
    /// Vectors of 32-bit lanes.
    narrow: Length,
    target: Target,
}

/// Which instructions a program is rewritten for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Avx2,
    /// For `sse2`, which does the rest: nothing is masked, and bytes are not shuffled.
    Sse2,
}

/// The same program for AVX2; `None` where an instruction has no counterpart here.
pub(super) fn shortened(from: &Program, target: Target) -> Option<Program> {
    let classes = from.classes.iter().map(|&class| if class == Class::Mask { Class::Vector } else { class });
    let to = Program { classes: classes.collect(), table: from.table, ..Program::default() };
    let width =
        from.items.iter().find_map(|item| if let Item::Enter(Walk::Rest(width)) = item { Some(*width) } else { None });
    let mut shortening = Shortening {
        from,
        to,
        is_wide: HashMap::new(),
        other: HashMap::new(),
        tail: None,
        rest: Rest::Masked,
        narrow: if width == Some(4) || target == Target::Sse2 { Length::L128 } else { Length::L256 },
        target,
    };
    for (at, item) in from.items.iter().enumerate() {
        shortening.item(at, item)?;
    }
    Some(shortening.to)
}

/// Bytes of each element that a load or store moves, where it may move only some.
fn element_bytes(op: Op) -> u32 {
    match op {
        x86::MOVUPS | x86::MOVUPS_STORE => 4,
        x86::MOVUPD | x86::MOVUPD_STORE => 8,
        x86::PMOVSXBD | x86::PMOVZXBD | x86::PMOVDB => 1,
        _ => 2,
    }
}

/// Whether the lanes of a result have 64 bits.
fn gives_wide(op: Op) -> bool {
    match op {
        x86::CVTPD2PS | x86::CVTTPD2DQ | x86::CVTTPD2UDQ | x86::PMOVQD => false,
        x86::CVTPS2PD | x86::CVTDQ2PD | x86::CVTUDQ2PD | x86::PMOVSXDQ | x86::PMOVZXDQ => true,
        op => op.is_wide(),
    }
}

fn vector(lanes: [i32; LANES]) -> Constant {
    Constant::Vector(std::array::from_fn(|lane| lanes[lane % LANES]))
}

impl Shortening<'_> {
    fn item(&mut self, at: usize, item: &Item) -> Option<()> {
        match *item {
            Item::Vector(ref v) => return self.vector(v),
            Item::Fma { num, fused, dst, a, b, c } => {
                let [a, b, c] = [a, b, c].map(|x| self.operand(x));
                self.to.items.push(Item::Fma { num, fused, dst, a, b, c });
            }
            Item::Gather { num, dst, index, mem, lanes } => {
                if lanes == Lanes::Tail && self.rest == Rest::Single || lanes == Lanes::First {
                    let op = num.pick(x86::MOVSS, x86::MOVSD);
                    self.emit(dst, op, Length::L128, X::None, X::Mem(mem), None);
                    return Some(());
                }
                let index = self.operand(index);
                let lanes = match lanes {
                    Lanes::All | Lanes::First => Lanes::All,
                    Lanes::Tail => Lanes::Of(self.mask(X::Tail, num.wide)?),
                    Lanes::Of(virt) => Lanes::Of(self.mask(X::Reg(virt), num.wide)?),
                };
                self.to.items.push(Item::Gather { num, dst, index, mem, lanes });
            }
            Item::Scatter { num, value, index, mem, lanes } => {
                let (value, index) = (self.operand(value), self.operand(index));
                let lanes = if lanes == Lanes::All { Lanes::All } else { Lanes::First };
                self.to.items.push(Item::Scatter { num, value, index, mem, lanes });
            }
            Item::Truth { dst, a, width, truth } => {
                let a = X::Reg(self.mask(a, false)?);
                self.is_wide.insert(dst.0, false);
                self.to.items.push(Item::Truth { dst, a, width, truth });
            }
            Item::Skip(mask) => {
                let X::Reg(virt) = mask else { return None };
                let wide = self.is_wide.get(&virt.0).copied()?;
                let mask = X::Reg(self.mask(mask, wide)?);
                self.other.clear();
                self.to.items.push(Item::Skip(mask));
            }
            Item::Enter(Walk::Rest(width)) => {
                self.other.clear();
                self.rest = self.rest_of(at);
                let walked = if self.rest == Rest::Masked { width } else { 1 };
                self.to.items.push(Item::Enter(Walk::Rest(walked)));
                self.tail = Some(self.left_lanes());
            }
            Item::Leave(Walk::Rest(width)) => {
                self.other.clear();
                self.tail = None;
                let walked = if self.rest == Rest::Masked { width } else { 1 };
                self.to.items.push(Item::Leave(Walk::Rest(walked)));
            }
            Item::Land | Item::Enter(_) | Item::Leave(_) => {
                self.other.clear();
                self.to.items.push(*item);
            }
        }
        Some(())
    }

    /// How the walk that starts at an item goes over its elements.
    fn rest_of(&self, start: usize) -> Rest {
        let walk = self.from.items[start + 1..].iter().take_while(|item| !matches!(item, Item::Leave(Walk::Rest(_))));
        let is_masked = |item: &Item| match item {
            Item::Vector(v) if v.lanes == Lanes::Tail && (matches!(v.dst, X::Mem(_)) || matches!(v.b, X::Mem(_))) => {
                element_bytes(v.op) >= 4
            }
            Item::Scatter { .. } => false,
            _ => true,
        };
        if self.target == Target::Avx2 && walk.clone().all(is_masked) { Rest::Masked } else { Rest::Single }
    }

    /// The mask of the elements that are left.
    fn left_lanes(&mut self) -> Virt {
        let tail = self.to.virt(Class::Vector);
        match self.rest {
            Rest::Single => {
                let first = self.to.constant(vector(FIRST_LANE));
                self.emit(tail, x86::MOVUPS, Length::L256, X::None, first, None);
            }
            Rest::Masked => {
                let left = self.to.one(x86::MOVD_GPR, Length::L128, X::Left);
                let left = self.to.one(x86::PBROADCASTD, self.narrow, left);
                let count = self.to.constant(vector(COUNT));
                self.emit(tail, x86::PCMPGTD, self.narrow, left, count, None);
            }
        }
        tail
    }

    /// Pushes `dst = op(a, b)`.
    fn emit(&mut self, dst: Virt, op: Op, length: Length, a: X, b: X, imm: Option<u8>) {
        let (dst, tied, lanes, zeroing) = (X::Reg(dst), X::None, Lanes::All, Zeroing::Merge);
        self.to.items.push(Item::Vector(Vector { op, length, dst, a, b, tied, lanes, zeroing, imm }));
    }

    /// Pushes `dst = mask ? b : a`.
    fn blend(&mut self, dst: Virt, num: Num, a: X, b: X, mask: Virt) {
        let op = num.pick(x86::BLENDVPS, x86::BLENDVPD);
        let (dst, tied, lanes, zeroing) = (X::Reg(dst), X::None, Lanes::Of(mask), Zeroing::Merge);
        let length = num.length;
        self.to.items.push(Item::Vector(Vector { op, length, dst, a, b, tied, lanes, zeroing, imm: None }));
    }

    fn blended(&mut self, num: Num, a: X, b: X, mask: X) -> X {
        let dst = self.to.virt(Class::Vector);
        if let X::Reg(mask) = mask {
            self.blend(dst, num, a, b, mask);
        }
        X::Reg(dst)
    }

    /// An operand that is no mask.
    fn operand(&mut self, x: X) -> X {
        let X::Const(c) = x else { return x };
        let lanes = match self.from.constants[c as usize] {
            Constant::Narrow(bits) => [bits as i32; LANES],
            Constant::Wide(bits) => std::array::from_fn(|lane| (bits >> (lane % 2 * 32)) as i32),
            Constant::Vector(lanes) => std::array::from_fn(|lane| lanes[lane]),
        };
        self.to.constant(vector(lanes))
    }

    fn narrow_constant(&mut self, bits: u32) -> X {
        self.to.constant(vector([bits as i32; LANES]))
    }

    fn wide_constant(&mut self, bits: u64) -> X {
        self.to.constant(vector(std::array::from_fn(|lane| (bits >> (lane % 2 * 32)) as i32)))
    }

    /// A mask in lanes of a width.
    fn mask(&mut self, mask: X, wide: bool) -> Option<Virt> {
        let (virt, is_wide) = match mask {
            X::Tail => (self.tail?, false),
            X::Reg(virt) => (virt, *self.is_wide.get(&virt.0)?),
            _ => return None,
        };
        if is_wide == wide {
            return Some(virt);
        }
        if let Some(&known) = self.other.get(&virt.0) {
            return Some(known);
        }
        // Where 32-bit lanes fill a register, masks of 64-bit ones are of half a vector.
        if self.narrow != Length::L128 {
            return None;
        }
        let other = self.to.virt(Class::Vector);
        if wide {
            self.emit(other, x86::PMOVSXDQ, Length::L256, X::None, X::Reg(virt), None);
        } else {
            self.halves_of_quads(other, X::Reg(virt));
        }
        self.other.insert(virt.0, other);
        Some(other)
    }

    /// The lower halves of four 64-bit lanes side by side.
    fn halves_of_quads(&mut self, dst: Virt, quads: X) {
        const UPPER_HALF: u8 = 0x11;
        const EVEN: u8 = 0x88;
        let upper = self.to.two_imm(x86::PERM2F128, Length::L256, quads, quads, Some(UPPER_HALF));
        self.emit(dst, x86::SHUFPS, Length::L128, quads, upper, Some(EVEN));
    }

    fn vector(&mut self, v: &Vector) -> Option<()> {
        if let X::Mem(mem) = v.dst {
            return self.store(v, mem);
        }
        let X::Reg(dst) = v.dst else { return None };
        if v.op.is_mask_op() {
            return self.mask_op(v, dst);
        }
        if self.from.classes[dst.0 as usize] == Class::Mask {
            return self.test(v, dst);
        }
        if let X::Mem(mem) = v.b
            && v.lanes == Lanes::Tail
        {
            return self.load_rest(v, dst, mem);
        }
        let num = Num { wide: gives_wide(v.op), length: v.length };
        let mask = match v.lanes {
            Lanes::All => return self.compute(v, dst),
            Lanes::First => return None,
            Lanes::Tail => self.mask(X::Tail, num.wide)?,
            Lanes::Of(virt) => self.mask(X::Reg(virt), num.wide)?,
        };
        // Conversions to 32-bit lanes name the length of what they convert.
        let num = if num.wide || !v.op.is_wide() { num } else { Num { length: self.narrow, ..num } };
        if matches!(v.op, x86::BLENDMPS | x86::BLENDMPD) {
            let (a, b) = (self.operand(v.a), self.operand(v.b));
            self.blend(dst, num, a, b, mask);
            return Some(());
        }
        let is_move = matches!(v.op, x86::MOVUPS | x86::MOVUPD) && !matches!(v.b, X::Mem(_));
        let value = if is_move {
            self.operand(v.b)
        } else {
            let value = self.to.virt(Class::Vector);
            self.compute(v, value)?;
            X::Reg(value)
        };
        match v.zeroing {
            Zeroing::Zero => self.emit(dst, x86::PANDD, num.length, value, X::Reg(mask), None),
            Zeroing::Merge => {
                let before = self.operand(v.tied);
                self.blend(dst, num, before, value, mask);
            }
        }
        Some(())
    }

    fn mask_op(&mut self, v: &Vector, dst: Virt) -> Option<()> {
        let known = |x: X| match x {
            X::Reg(virt) => self.is_wide.get(&virt.0).copied(),
            _ => Some(false),
        };
        let operands = [v.a, v.b].into_iter().filter(|&x| x != X::None);
        let all_wide = operands.clone().map(known).collect::<Option<Vec<bool>>>()?.into_iter().all(|wide| wide);
        let wide = self.is_wide.get(&dst.0).copied().unwrap_or(all_wide);
        self.is_wide.insert(dst.0, wide);
        let length = if wide { Length::L256 } else { self.narrow };
        let ones = self.to.constant(vector(ALL_LANES));
        if v.a == v.b && matches!(v.op, x86::KXORW | x86::KXNORW) {
            let value = if v.op == x86::KXORW { self.narrow_constant(0) } else { ones };
            self.emit(dst, x86::MOVUPS, length, X::None, value, None);
            return Some(());
        }
        let b = X::Reg(self.mask(v.b, wide)?);
        if v.op == x86::KNOTW {
            self.emit(dst, x86::PXORD, length, b, ones, None);
            return Some(());
        }
        let a = X::Reg(self.mask(v.a, wide)?);
        match v.op {
            x86::KANDW => self.emit(dst, x86::PANDD, length, a, b, None),
            x86::KANDNW => self.emit(dst, x86::PANDN, length, a, b, None),
            x86::KORW => self.emit(dst, x86::PORD, length, a, b, None),
            x86::KXORW => self.emit(dst, x86::PXORD, length, a, b, None),
            x86::KXNORW => {
                let differ = self.to.two(x86::PXORD, length, a, b);
                self.emit(dst, x86::PXORD, length, differ, ones, None);
            }
            _ => return None,
        }
        Some(())
    }

    /// An instruction that gives a mask.
    fn test(&mut self, v: &Vector, dst: Virt) -> Option<()> {
        let Vector { op, length, imm, .. } = *v;
        let (mut a, mut b) = (self.operand(v.a), self.operand(v.b));
        let wide = op.is_wide();
        self.is_wide.insert(dst.0, wide);
        let num = Num { wide, length };
        let (equal, greater) = (num.pick(x86::PCMPEQD, x86::PCMPEQQ), num.pick(x86::PCMPGTD, x86::PCMPGTQ));
        let ones = self.to.constant(vector(ALL_LANES));
        let is_partial = v.lanes != Lanes::All;
        let whole = if is_partial { self.to.virt(Class::Vector) } else { dst };
        match op {
            x86::CMPPS | x86::CMPPD => self.emit(whole, op, length, a, b, imm),
            x86::PTESTMD | x86::PTESTMQ => {
                let common = if a == b { a } else { self.to.two(x86::PANDD, length, a, b) };
                let zero = self.narrow_constant(0);
                let none = self.to.two(equal, length, common, zero);
                self.emit(whole, x86::PXORD, length, none, ones, None);
            }
            x86::PCMPD | x86::PCMPQ | x86::PCMPUD | x86::PCMPUQ => {
                if matches!(op, x86::PCMPUD | x86::PCMPUQ) {
                    let sign = self.sign_bit(wide);
                    a = self.to.two(x86::PXORD, length, a, sign);
                    b = self.to.two(x86::PXORD, length, b, sign);
                }
                // In the order of the predicates: equal, less, less or equal, none, not equal, not less, greater.
                let (how, operands, is_inverted) = match imm? {
                    0 => (equal, [a, b], false),
                    1 => (greater, [b, a], false),
                    2 => (greater, [a, b], true),
                    4 => (equal, [a, b], true),
                    5 => (greater, [b, a], true),
                    6 => (greater, [a, b], false),
                    _ => return None,
                };
                let [a, b] = operands;
                if is_inverted {
                    let result = self.to.two(how, length, a, b);
                    self.emit(whole, x86::PXORD, length, result, ones, None);
                } else {
                    self.emit(whole, how, length, a, b, None);
                }
            }
            _ => return None,
        }
        if is_partial {
            let lanes = match v.lanes {
                Lanes::Of(virt) => X::Reg(virt),
                _ => X::Tail,
            };
            let lanes = self.mask(lanes, wide)?;
            self.emit(dst, x86::PANDD, length, X::Reg(whole), X::Reg(lanes), None);
        }
        Some(())
    }

    fn sign_bit(&mut self, wide: bool) -> X {
        if wide { self.wide_constant(1 << 63) } else { self.narrow_constant(1 << 31) }
    }

    /// Loads what is left of a row.
    fn load_rest(&mut self, v: &Vector, dst: Virt, mem: Mem) -> Option<()> {
        let wide = element_bytes(v.op) == 8;
        if self.rest == Rest::Masked {
            let op = match v.op {
                x86::MOVUPS => x86::MASKMOVPS,
                x86::MOVUPD => x86::MASKMOVPD,
                _ => return None,
            };
            let tail = self.mask(X::Tail, wide)?;
            self.emit(dst, op, v.length, X::Reg(tail), X::Mem(mem), None);
            return Some(());
        }
        let insert = match v.op {
            x86::MOVUPS | x86::MOVUPD => {
                let op = if wide { x86::MOVSD } else { x86::MOVSS };
                self.emit(dst, op, Length::L128, X::None, X::Mem(mem), None);
                return Some(());
            }
            x86::PMOVSXBD | x86::PMOVZXBD => x86::PINSRB,
            x86::PMOVSXWD | x86::PMOVZXWD | x86::CVTPH2PS => x86::PINSRW,
            _ => return None,
        };
        let zero = self.narrow_constant(0);
        let element = self.to.two_imm(insert, Length::L128, zero, X::Mem(mem), Some(0));
        self.emit(dst, v.op, v.length, X::None, element, None);
        Some(())
    }

    fn store(&mut self, v: &Vector, mem: Mem) -> Option<()> {
        let value = self.operand(v.a);
        let put = |work: &mut Self, op: Op, length: Length, a: X, b: X, imm: Option<u8>| {
            let (dst, tied, lanes, zeroing) = (X::Mem(mem), X::None, Lanes::All, Zeroing::Merge);
            work.to.items.push(Item::Vector(Vector { op, length, dst, a, b, tied, lanes, zeroing, imm }));
        };
        if v.lanes == Lanes::All {
            match v.op {
                x86::PMOVDW | x86::PMOVDB => {
                    let (packed, length) = self.packed(v.op, v.length, value);
                    match length {
                        16 => put(self, x86::MOVUPS_STORE, Length::L128, packed, X::None, None),
                        8 => put(self, x86::MOVSD_STORE, Length::L128, packed, X::None, None),
                        _ => put(self, x86::MOVSS_STORE, Length::L128, packed, X::None, None),
                    }
                }
                _ => put(self, v.op, v.length, value, X::None, v.imm),
            }
            return Some(());
        }
        if v.lanes == Lanes::Tail && self.rest == Rest::Masked {
            let (op, wide) = match v.op {
                x86::MOVUPS_STORE => (x86::MASKMOVPS_STORE, false),
                x86::MOVUPD_STORE => (x86::MASKMOVPD_STORE, true),
                _ => return None,
            };
            let tail = self.mask(X::Tail, wide)?;
            put(self, op, v.length, value, X::Reg(tail), None);
            return Some(());
        }
        match v.op {
            x86::MOVUPS_STORE => put(self, x86::MOVSS_STORE, Length::L128, value, X::None, None),
            x86::MOVUPD_STORE => put(self, x86::MOVSD_STORE, Length::L128, value, X::None, None),
            x86::PMOVDW => put(self, x86::PEXTRW_STORE, Length::L128, value, X::None, Some(0)),
            x86::PMOVDB => put(self, x86::PEXTRB_STORE, Length::L128, value, X::None, Some(0)),
            x86::CVTPS2PH => {
                let bits = self.to.one_imm(x86::CVTPS2PH, v.length, value, v.imm);
                put(self, x86::PEXTRW_STORE, Length::L128, bits, X::None, Some(0));
            }
            _ => return None,
        }
        Some(())
    }

    /// The low bytes of 32-bit lanes side by side, and how many bytes that is.
    fn packed(&mut self, op: Op, length: Length, value: X) -> (X, u32) {
        let bytes = if op == x86::PMOVDW { 2 } else { 1 };
        if self.target == Target::Sse2 {
            return (self.packed_by_saturation(bytes, length, value), 4 * bytes as u32);
        }
        let order: [u8; 16] = std::array::from_fn(|at| {
            let (lane, byte) = (at / bytes, at % bytes);
            if lane < 4 { (4 * lane + byte) as u8 } else { 0x80 }
        });
        let word = |n: usize| i32::from_le_bytes(std::array::from_fn(|byte| order[4 * (n % 4) + byte]));
        let order = self.to.constant(vector(std::array::from_fn(word)));
        let within = self.to.two(x86::PSHUFB, length, value, order);
        let total = length.bytes() / 4 * bytes as u32;
        if length == Length::L128 {
            return (within, total);
        }
        if bytes == 2 {
            const FIRST_OF_HALVES: u8 = 0x08;
            return (self.to.one_imm(x86::PERMQ, Length::L256, within, Some(FIRST_OF_HALVES)), total);
        }
        const UPPER_HALF: u8 = 0x11;
        let upper = self.to.two_imm(x86::PERM2F128, Length::L256, within, within, Some(UPPER_HALF));
        (self.to.two(x86::PUNPCKLDQ, Length::L128, within, upper), total)
    }

    /// As [`Shortening::packed`], of lanes that are brought into the range of the narrower type before.
    fn packed_by_saturation(&mut self, bytes: usize, length: Length, value: X) -> X {
        if bytes == 2 {
            let up = self.to.one_imm(x86::PSLLD, length, value, Some(16));
            let words = self.to.one_imm(x86::PSRAD, length, up, Some(16));
            return self.to.two(x86::PACKSSDW, length, words, words);
        }
        let low = self.narrow_constant(0xff);
        let low = self.to.two(x86::PANDD, length, value, low);
        let words = self.to.two(x86::PACKSSDW, length, low, low);
        self.to.two(x86::PACKUSWB, length, words, words)
    }

    /// `dst = op(a, b)` in all lanes.
    fn compute(&mut self, v: &Vector, dst: Virt) -> Option<()> {
        let Vector { op, length, imm, .. } = *v;
        let (a, b) = (self.operand(v.a), self.operand(v.b));
        let num = Num { wide: op.is_wide(), length };
        match op {
            x86::RNDSCALEPS | x86::RNDSCALEPD => {
                let op = if num.wide { x86::ROUNDPD } else { x86::ROUNDPS };
                self.emit(dst, op, length, X::None, b, imm);
            }
            x86::BROADCASTSD => self.emit(dst, x86::BROADCASTSD_SHORT, Length::L256, X::None, b, None),
            x86::PBROADCASTD_GPR | x86::PBROADCASTQ_GPR => {
                let (load, spread) =
                    if num.wide { (x86::MOVQ_GPR, x86::PBROADCASTQ) } else { (x86::MOVD_GPR, x86::PBROADCASTD) };
                let scalar = self.to.one(load, Length::L128, b);
                self.emit(dst, spread, length, X::None, scalar, None);
            }
            x86::SHUFF32X4 | x86::SHUFF64X2 if length == Length::L256 && imm == Some(1) => {
                self.emit(dst, x86::PERM2F128, length, a, b, imm);
            }
            x86::PMULLQ => self.multiply_quads(dst, a, b),
            x86::PMINSQ | x86::PMAXSQ | x86::PMINUQ | x86::PMAXUQ => {
                let (mut x, mut y) = (a, b);
                if matches!(op, x86::PMINUQ | x86::PMAXUQ) {
                    let sign = self.sign_bit(true);
                    x = self.to.two(x86::PXORD, length, a, sign);
                    y = self.to.two(x86::PXORD, length, b, sign);
                }
                let greater = self.to.two(x86::PCMPGTQ, length, x, y);
                let (other, chosen) = if matches!(op, x86::PMINSQ | x86::PMINUQ) { (a, b) } else { (b, a) };
                let X::Reg(greater) = greater else { return None };
                self.blend(dst, num, other, chosen, greater);
            }
            x86::PABSQ => {
                let zero = self.narrow_constant(0);
                let signs = self.to.two(x86::PCMPGTQ, length, zero, b);
                let turned = self.to.two(x86::PXORD, length, b, signs);
                self.emit(dst, x86::PSUBQ, length, turned, signs, None);
            }
            x86::PSRAQ => {
                const ODD: u8 = 0xf5;
                const ODD_LANES: u8 = 0xaa;
                let count = imm.filter(|&count| count >= 32)?;
                let upper = self.to.one_imm(x86::PSHUFD, length, b, Some(ODD));
                let low = self.to.one_imm(x86::PSRAD, length, upper, Some(count - 32));
                let high = self.to.one_imm(x86::PSRAD, length, upper, Some(31));
                self.emit(dst, x86::PBLENDD, length, low, high, Some(ODD_LANES));
            }
            x86::TERNLOGD | x86::TERNLOGQ => {
                const CHOOSE: u8 = 0xd8;
                if imm != Some(CHOOSE) {
                    return None;
                }
                let first = self.operand(v.tied);
                let kept = self.to.two(x86::PANDN, length, b, first);
                let taken = self.to.two(x86::PANDD, length, a, b);
                self.emit(dst, x86::PORD, length, kept, taken, None);
            }
            x86::SCALEFPS | x86::SCALEFPD => self.scale(dst, num, a, b),
            x86::RANGEPS | x86::RANGEPD => {
                const MIN: u8 = 0b0100;
                // Of two zeros each order gives another one.
                let (op, join) = if imm == Some(MIN) {
                    (num.pick(x86::MINPS, x86::MINPD), x86::PORD)
                } else {
                    (num.pick(x86::MAXPS, x86::MAXPD), x86::PANDD)
                };
                let one = self.to.two(op, length, a, b);
                let other = self.to.two(op, length, b, a);
                self.emit(dst, join, length, one, other, None);
            }
            x86::FIXUPIMMPS | x86::FIXUPIMMPD => {
                let result = self.operand(v.tied);
                self.logarithm_specials(dst, num, result, a);
            }
            x86::GETEXPPD => {
                let exponent = self.to.one_imm(x86::PSRLQ, length, b, Some(52));
                let all = self.wide_constant(0x7ff);
                let exponent = self.to.two(x86::PANDD, length, exponent, all);
                let magic = self.wide_constant(UNSIGNED_MAGIC);
                let sum = self.to.two(x86::PORD, length, exponent, magic);
                let start = self.wide_constant((4_503_599_627_370_496.0f64 + 1023.0).to_bits());
                self.emit(dst, x86::SUBPD, length, sum, start, None);
            }
            x86::GETMANTPD => {
                let kept = self.wide_constant(0x800f_ffff_ffff_ffff);
                let one = self.wide_constant(1f64.to_bits());
                let fraction = self.to.two(x86::PANDD, length, b, kept);
                self.emit(dst, x86::PORD, length, fraction, one, None);
            }
            x86::PMOVQD => self.halves_of_quads(dst, a),
            x86::CVTUDQ2PS => self.unsigned_to_f32(dst, length, b),
            x86::CVTTPS2UDQ => self.f32_to_unsigned(dst, length, b),
            x86::CVTUDQ2PD => {
                let quads = self.to.one(x86::PMOVZXDQ, length, b);
                let magic = self.wide_constant(UNSIGNED_MAGIC);
                let sum = self.to.two(x86::PORD, length, quads, magic);
                self.emit(dst, x86::SUBPD, length, sum, magic, None);
            }
            x86::CVTTPD2UDQ => {
                let most = self.wide_constant(f64::from(u32::MAX).to_bits());
                let magic = self.wide_constant(UNSIGNED_MAGIC);
                let bounded = self.to.two(x86::MINPD, length, b, most);
                let whole = self.to.one_imm(x86::ROUNDPD, length, bounded, Some(rounding::TRUNCATE));
                let sum = self.to.two(x86::ADDPD, length, whole, magic);
                self.halves_of_quads(dst, sum);
            }
            x86::CVTQQ2PD | x86::CVTUQQ2PD => self.quads_to_f64(dst, length, b, op == x86::CVTUQQ2PD),
            x86::PLZCNTD | x86::PLZCNTQ | x86::PSRAVQ | x86::CVTQQ2PS | x86::CVTUQQ2PS | x86::CVTTPD2QQ => return None,
            x86::CVTTPD2UQQ | x86::CVTTPS2QQ | x86::CVTTPS2UQQ | x86::CVTNEPS2BF16 => return None,
            _ if op.form == Form::Mr && op != x86::CVTPS2PH => return None,
            _ => self.emit(dst, op, length, a, b, imm),
        }
        Some(())
    }

    /// Products of 64-bit integers from those of their halves.
    fn multiply_quads(&mut self, dst: Virt, a: X, b: X) {
        let full = Length::L256;
        let [upper_a, upper_b] = [a, b].map(|x| self.to.one_imm(x86::PSRLQ, full, x, Some(32)));
        let low = self.to.two(x86::PMULUDQ, full, a, b);
        let first = self.to.two(x86::PMULUDQ, full, upper_a, b);
        let second = self.to.two(x86::PMULUDQ, full, a, upper_b);
        let sum = self.to.two(x86::PADDQ, full, first, second);
        let high = self.to.one_imm(x86::PSLLQ, full, sum, Some(32));
        self.emit(dst, x86::PADDQ, full, low, high, None);
    }

    /// `x·2^power` by two factors, each of which is a normal number where the result is one.
    fn scale(&mut self, dst: Virt, num: Num, x: X, power: X) {
        let length = num.length;
        let (half, magic) = if num.wide {
            let magic = 4_503_599_627_370_496.0f64 + 1023.0;
            (self.wide_constant(0.5f64.to_bits()), self.wide_constant(magic.to_bits()))
        } else {
            (self.narrow_constant(0.5f32.to_bits()), self.narrow_constant((8_388_608.0f32 + 127.0).to_bits()))
        };
        let (add, sub) = (num.pick(x86::ADDPS, x86::ADDPD), num.pick(x86::SUBPS, x86::SUBPD));
        let mul = num.pick(x86::MULPS, x86::MULPD);
        let (shift, round) = (num.pick(x86::PSLLD, x86::PSLLQ), num.pick(x86::ROUNDPS, x86::ROUNDPD));
        let exponent = Some(if num.wide { 52 } else { 23 });
        let first = self.to.two(mul, length, power, half);
        let first = match self.target {
            Target::Avx2 => self.to.one_imm(round, length, first, Some(rounding::EVEN)),
            // Powers are small numbers.
            Target::Sse2 => {
                let integer = self.narrow_constant(INTEGER_F32.to_bits());
                let sum = self.to.two(add, length, first, integer);
                self.to.two(sub, length, sum, integer)
            }
        };
        let second = self.to.two(sub, length, power, first);
        let [first, second] = [first, second].map(|part| {
            // The sum has the biased exponent in its lowest bits.
            let sum = self.to.two(add, length, part, magic);
            self.to.one_imm(shift, length, sum, exponent)
        });
        let scaled = self.to.two(mul, length, x, first);
        self.emit(dst, mul, length, scaled, second, None);
    }

    /// What a logarithm gives for NaN, zero, infinities and negative arguments, else `result`.
    fn logarithm_specials(&mut self, dst: Virt, num: Num, result: X, x: X) {
        const EQ: u8 = 0;
        const LT: u8 = 1;
        const NOT_LESS: u8 = 5;
        let mut real = |value: f64| {
            if num.wide { self.wide_constant(value.to_bits()) } else { self.narrow_constant((value as f32).to_bits()) }
        };
        let (zero, infinity) = (real(0.0), real(f64::INFINITY));
        let (minus_infinity, nan) = (real(f64::NEG_INFINITY), real(f64::NAN));
        let compare = num.pick(x86::CMPPS, x86::CMPPD);
        let length = num.length;
        let is_zero = self.to.two_imm(compare, length, x, zero, Some(EQ));
        let result = self.blended(num, result, minus_infinity, is_zero);
        let is_negative = self.to.two_imm(compare, length, x, zero, Some(LT));
        let result = self.blended(num, result, nan, is_negative);
        if let X::Reg(is_endless) = self.to.two_imm(compare, length, x, infinity, Some(NOT_LESS)) {
            self.blend(dst, num, result, x, is_endless);
        }
    }

    /// Unsigned integers as f32: both halves are exact, their sum is rounded once.
    fn unsigned_to_f32(&mut self, dst: Virt, length: Length, x: X) {
        let low_bits = self.narrow_constant(0xffff);
        let low = self.to.two(x86::PANDD, length, x, low_bits);
        let low = self.to.one(x86::CVTDQ2PS, length, low);
        let high = self.to.one_imm(x86::PSRLD, length, x, Some(16));
        let high = self.to.one(x86::CVTDQ2PS, length, high);
        let scale = self.narrow_constant(65_536f32.to_bits());
        let high = self.to.two(x86::MULPS, length, high, scale);
        self.emit(dst, x86::ADDPS, length, high, low, None);
    }

    /// Reals that are not negative, truncated to 32 bits; all ones for what is too large.
    fn f32_to_unsigned(&mut self, dst: Virt, length: Length, x: X) {
        const NOT_LESS: u8 = 5;
        let num = Num { wide: false, length };
        let half = self.narrow_constant(2_147_483_648f32.to_bits());
        let limit = self.narrow_constant(4_294_967_296f32.to_bits());
        let (sign, ones) = (self.narrow_constant(1 << 31), self.to.constant(vector(ALL_LANES)));
        let small = self.to.one(x86::CVTTPS2DQ, length, x);
        let rest = self.to.two(x86::SUBPS, length, x, half);
        let rest = self.to.one(x86::CVTTPS2DQ, length, rest);
        let large = self.to.two(x86::PXORD, length, rest, sign);
        let is_large = self.to.two_imm(x86::CMPPS, length, x, half, Some(NOT_LESS));
        let result = self.blended(num, small, large, is_large);
        if let X::Reg(is_endless) = self.to.two_imm(x86::CMPPS, length, x, limit, Some(NOT_LESS)) {
            self.blend(dst, num, result, ones, is_endless);
        }
    }

    /// 64-bit integers as f64: the halves stand in the lowest bits of 2^52 and 2^84, and their sum is rounded once.
    fn quads_to_f64(&mut self, dst: Virt, length: Length, x: X, is_unsigned: bool) {
        const ODD_LANES: u8 = 0xaa;
        let (upper_magic, both) = if is_unsigned {
            (0x4530_0000_0000_0000, 0x4530_0000_0010_0000)
        } else {
            (0x4530_0000_8000_0000, 0x4530_0000_8010_0000)
        };
        let (lower_magic, upper_magic) = (self.wide_constant(UNSIGNED_MAGIC), self.wide_constant(upper_magic));
        let both = self.wide_constant(both);
        let low = self.to.two_imm(x86::PBLENDD, length, x, lower_magic, Some(ODD_LANES));
        let high = self.to.one_imm(x86::PSRLQ, length, x, Some(32));
        let high = self.to.two(x86::PXORD, length, high, upper_magic);
        let high = self.to.two(x86::SUBPD, length, high, both);
        self.emit(dst, x86::ADDPD, length, high, low, None);
    }
}
