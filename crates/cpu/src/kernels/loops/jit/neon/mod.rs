//! Rewrites a program for NEON: 128-bit vectors, no mask registers, and what is left of a row element by element.
//!
//! A mask becomes a vector whose lanes are all ones or zero. Where 32-bit lanes fill a register, masks of 64-bit lanes are of
//! half a vector and only serve such lanes; elsewhere they are kept as 64-bit lanes until somebody needs 32-bit ones.

mod emit;
mod encode;
mod several;

use std::collections::HashMap;

use self::encode::{self as a64, Code, Size};
use super::lanes::rounding;
use super::ops::{self as x86, Op, Zeroing};
use super::program::{
    Arrays, Class, Constant, Fused, Instruction, Item, Lanes, Mem, Num, Program, Vector, Virt, Walk, X,
};
use super::registers;

/// What an instruction of NEON does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// `dst = code(a, b)`, or of `a` alone.
    Plain(Code),
    /// `dst = code(c, a, b)`, with `c` in the register of the result.
    Tied(Code),
    /// `dst = c ? b : a`, bit by bit.
    Select,
    Move,
    /// `dst` from the memory `b`, zeros above.
    Load(Size),
    /// One element of the memory `b` in all lanes.
    Splat(Size),
    /// `a` to the memory `dst`.
    Store(Size),
    /// The element counter `b` in all lanes.
    Count(LaneBits),
    /// Products of 64-bit lanes.
    MultiplyQuads,
    LeadingZerosOfQuads,
    /// 64-bit integers as f32, rounded once.
    QuadsToF32(Sign),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaneBits {
    Bits32,
    Bits64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Signed,
    Unsigned,
}

/// One instruction of NEON, or a few that belong together.
#[derive(Clone, Copy, Debug)]
struct Step {
    action: Action,
    dst: X,
    a: X,
    b: X,
    c: X,
}

impl Instruction for Step {
    fn sources(&self) -> [X; 3] {
        [self.a, self.b, if self.tied() == X::None { self.c } else { X::None }]
    }

    fn result(&self) -> Option<Virt> {
        if let X::Reg(virt) = self.dst { Some(virt) } else { None }
    }

    fn tied(&self) -> X {
        if matches!(self.action, Action::Tied(_)) { self.c } else { X::None }
    }

    fn reusable(&self) -> [X; 3] {
        match self.action {
            Action::Tied(_) => [self.c, X::None, X::None],
            Action::Select => [self.a, self.b, self.c],
            _ => [X::None; 3],
        }
    }

    fn writes_early(&self) -> bool {
        matches!(self.action, Action::Tied(_) | Action::Select)
    }
}

/// Lanes of 32 bits in a vector.
const LANES: usize = 4;

/// The bytes of the function of a program with so many elements in a vector; `None` where it is too long, too much of it lives
/// in memory, or an instruction has no counterpart here.
pub(super) fn function(program: &Program, arrays: Arrays, width: u32) -> Option<Vec<u8>> {
    let program = rewritten(program, width)?;
    let places = registers::allocate(&program, emit::VECTORS);
    emit::emit(&program, &places, arrays)
}

struct Rewriting<'a> {
    from: &'a Program,
    to: Program<Step>,
    /// Of masks: whether their lanes have 64 bits.
    is_wide: HashMap<u32, bool>,
    /// Masks in the other width, since the last jump or target of one.
    other: HashMap<u32, Virt>,
    /// Elements in a vector.
    width: u32,
}

/// The same program in instructions of NEON.
fn rewritten(from: &Program, width: u32) -> Option<Program<Step>> {
    let classes = from.classes.iter().map(|&class| if class == Class::Mask { Class::Vector } else { class });
    let to = Program { classes: classes.collect(), table: from.table, ..Program::default() };
    let mut rewriting = Rewriting { from, to, is_wide: HashMap::new(), other: HashMap::new(), width };
    for item in &from.items {
        rewriting.item(item)?;
    }
    Some(rewriting.to)
}

/// Bytes of each element that a load or store moves.
fn element_bytes(op: Op) -> Option<u32> {
    Some(match op {
        x86::MOVUPS | x86::MOVUPS_STORE => 4,
        x86::MOVUPD | x86::MOVUPD_STORE => 8,
        x86::PMOVSXBD | x86::PMOVZXBD | x86::PMOVDB => 1,
        x86::PMOVSXWD | x86::PMOVZXWD | x86::PMOVDW | x86::CVTPH2PS | x86::CVTPS2PH => 2,
        _ => return None,
    })
}

/// Whether the lanes of a result have 64 bits.
fn gives_wide(op: Op) -> bool {
    match op {
        x86::CVTPD2PS | x86::CVTTPD2DQ | x86::CVTTPD2UDQ | x86::PMOVQD | x86::CVTQQ2PS | x86::CVTUQQ2PS => false,
        x86::CVTPS2PD | x86::CVTDQ2PD | x86::CVTUDQ2PD | x86::PMOVSXDQ | x86::PMOVZXDQ => true,
        x86::CVTTPS2QQ | x86::CVTTPS2UQQ => true,
        op => op.is_wide(),
    }
}

impl Rewriting<'_> {
    fn item(&mut self, item: &Item) -> Option<()> {
        match *item {
            Item::Vector(ref v) => return self.vector(v),
            Item::Fma { num, fused, dst, a, b, c } => {
                let [a, b, c] = [a, b, c].map(|x| self.operand(x));
                let code = match (fused, num.wide) {
                    (Fused::Add, false) => a64::FMLA_4S,
                    (Fused::Add, true) => a64::FMLA_2D,
                    (Fused::From, false) => a64::FMLS_4S,
                    (Fused::From, true) => a64::FMLS_2D,
                };
                self.push(Action::Tied(code), X::Reg(dst), [a, b, c]);
            }
            Item::Gather { num, dst, index, mem, lanes } => self.gather(num, dst, index, mem, lanes)?,
            Item::Scatter { num, value, mem, lanes, .. } => {
                let (value, index) = (self.operand(value), X::None);
                let lanes = if lanes == Lanes::All { Lanes::All } else { Lanes::First };
                self.to.items.push(Item::Scatter { num, value, index, mem, lanes });
            }
            Item::Truth { dst, a, width, truth } => {
                let a = self.mask(a, false)?;
                self.is_wide.insert(dst.0, false);
                self.to.items.push(Item::Truth { dst, a, width, truth });
            }
            Item::Skip(mask) => {
                let X::Reg(virt) = mask else { return None };
                let wide = self.is_wide.get(&virt.0).copied()?;
                let mask = self.mask(mask, wide)?;
                self.other.clear();
                self.to.items.push(Item::Skip(mask));
            }
            Item::Land | Item::Enter(_) | Item::Leave(_) => {
                self.other.clear();
                let single = |walk: Walk| if let Walk::Rest(_) = walk { Walk::Rest(1) } else { walk };
                self.to.items.push(match *item {
                    Item::Enter(walk) => Item::Enter(single(walk)),
                    Item::Leave(walk) => Item::Leave(single(walk)),
                    _ => Item::Land,
                });
            }
        }
        Some(())
    }

    fn gather(&mut self, num: Num, dst: Virt, index: X, mem: Mem, lanes: Lanes) -> Option<()> {
        let (mut index, mut lanes) = (self.operand(index), lanes);
        match (mem, lanes) {
            // A table is looked up in all lanes: those outside the mask look at its start.
            (Mem::Table { .. }, Lanes::Of(virt)) => {
                let mask = self.mask(X::Reg(virt), true)?;
                let wide = self.plain(a64::SXTL_2D, [index, X::None]);
                index = self.plain(a64::AND, [wide, mask]);
                lanes = Lanes::All;
            }
            (Mem::Strided { .. }, Lanes::All) => index = X::None,
            (Mem::Strided { .. }, Lanes::Tail | Lanes::First) => (index, lanes) = (X::None, Lanes::First),
            _ => return None,
        }
        self.to.items.push(Item::Gather { num, dst, index, mem, lanes });
        Some(())
    }

    fn push(&mut self, action: Action, dst: X, [a, b, c]: [X; 3]) {
        self.to.items.push(Item::Vector(Step { action, dst, a, b, c }));
    }

    /// `code` of one or two operands in a register.
    fn put(&mut self, dst: Virt, code: Code, [a, b]: [X; 2]) {
        self.push(Action::Plain(code), X::Reg(dst), [a, b, X::None]);
    }

    /// `code` of one or two operands in a new register.
    fn plain(&mut self, code: Code, operands: [X; 2]) -> X {
        let dst = self.to.virt(Class::Vector);
        self.put(dst, code, operands);
        X::Reg(dst)
    }

    fn one(&mut self, code: Code, a: X) -> X {
        self.plain(code, [a, X::None])
    }

    /// `dst = mask ? b : a`.
    fn select(&mut self, dst: Virt, a: X, b: X, mask: X) {
        self.push(Action::Select, X::Reg(dst), [a, b, mask]);
    }

    fn selected(&mut self, a: X, b: X, mask: X) -> X {
        let dst = self.to.virt(Class::Vector);
        self.select(dst, a, b, mask);
        X::Reg(dst)
    }

    fn lanes_constant(&mut self, lanes: [i32; LANES]) -> X {
        self.to.constant(Constant::Vector(std::array::from_fn(|lane| lanes[lane % LANES])))
    }

    fn narrow_constant(&mut self, bits: u32) -> X {
        self.lanes_constant([bits as i32; LANES])
    }

    fn wide_constant(&mut self, bits: u64) -> X {
        self.lanes_constant(std::array::from_fn(|lane| (bits >> (lane % 2 * 32)) as i32))
    }

    fn integer(&mut self, wide: bool, value: i64) -> X {
        if wide { self.wide_constant(value as u64) } else { self.narrow_constant(value as u32) }
    }

    fn real(&mut self, wide: bool, value: f64) -> X {
        if wide { self.wide_constant(value.to_bits()) } else { self.narrow_constant((value as f32).to_bits()) }
    }

    /// An operand that is no mask.
    fn operand(&mut self, x: X) -> X {
        let X::Const(c) = x else { return x };
        match self.from.constants[c as usize] {
            Constant::Narrow(bits) => self.narrow_constant(bits),
            Constant::Wide(bits) => self.wide_constant(bits),
            Constant::Vector(lanes) => self.lanes_constant(std::array::from_fn(|lane| lanes[lane])),
        }
    }

    /// Whether an operand of the source is a constant that is neither NaN nor zero.
    fn is_usual_constant(&self, x: X) -> bool {
        let is_usual = |value: f64| !value.is_nan() && value != 0.0;
        match x {
            X::Const(c) => match self.from.constants[c as usize] {
                Constant::Narrow(bits) => is_usual(f64::from(f32::from_bits(bits))),
                Constant::Wide(bits) => is_usual(f64::from_bits(bits)),
                Constant::Vector(_) => false,
            },
            _ => false,
        }
    }

    /// A mask in lanes of a width.
    fn mask(&mut self, mask: X, wide: bool) -> Option<X> {
        let virt = match mask {
            // What is left of a row is walked by one element.
            X::Tail => return Some(self.lanes_constant(if wide { [-1, -1, 0, 0] } else { [-1, 0, 0, 0] })),
            X::Reg(virt) => virt,
            _ => return None,
        };
        if *self.is_wide.get(&virt.0)? == wide {
            return Some(mask);
        }
        if let Some(&known) = self.other.get(&virt.0) {
            return Some(X::Reg(known));
        }
        if self.width as usize == LANES {
            return None;
        }
        let other = self.to.virt(Class::Vector);
        self.put(other, if wide { a64::SXTL_2D } else { a64::XTN_2S }, [mask, X::None]);
        self.other.insert(virt.0, other);
        Some(X::Reg(other))
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
        if let X::Mem(mem) = v.b {
            return self.load(v, dst, mem);
        }
        let wide = gives_wide(v.op);
        let mask = match v.lanes {
            Lanes::All => return self.compute(v, dst),
            Lanes::First => return None,
            Lanes::Tail => self.mask(X::Tail, wide)?,
            Lanes::Of(virt) => self.mask(X::Reg(virt), wide)?,
        };
        if matches!(v.op, x86::BLENDMPS | x86::BLENDMPD) {
            let (a, b) = (self.operand(v.a), self.operand(v.b));
            self.select(dst, a, b, mask);
            return Some(());
        }
        let value = if matches!(v.op, x86::MOVUPS | x86::MOVUPD) {
            self.operand(v.b)
        } else {
            let value = self.to.virt(Class::Vector);
            self.compute(v, value)?;
            X::Reg(value)
        };
        match v.zeroing {
            Zeroing::Zero => self.put(dst, a64::AND, [value, mask]),
            Zeroing::Merge => {
                let before = self.operand(v.tied);
                self.select(dst, before, value, mask);
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
        if v.a == v.b && matches!(v.op, x86::KXORW | x86::KXNORW) {
            let value = self.integer(false, if v.op == x86::KXORW { 0 } else { -1 });
            self.push(Action::Move, X::Reg(dst), [value, X::None, X::None]);
            return Some(());
        }
        let b = self.mask(v.b, wide)?;
        if v.op == x86::KNOTW {
            self.put(dst, a64::NOT, [b, X::None]);
            return Some(());
        }
        let a = self.mask(v.a, wide)?;
        match v.op {
            x86::KANDW => self.put(dst, a64::AND, [a, b]),
            // Complemented is the second operand here.
            x86::KANDNW => self.put(dst, a64::BIC, [b, a]),
            x86::KORW => self.put(dst, a64::ORR, [a, b]),
            x86::KXORW => self.put(dst, a64::EOR, [a, b]),
            x86::KXNORW => {
                let differ = self.plain(a64::EOR, [a, b]);
                self.put(dst, a64::NOT, [differ, X::None]);
            }
            _ => return None,
        }
        Some(())
    }

    /// An instruction that gives a mask.
    fn test(&mut self, v: &Vector, dst: Virt) -> Option<()> {
        let (a, b) = (self.operand(v.a), self.operand(v.b));
        let wide = v.op.is_wide();
        self.is_wide.insert(dst.0, wide);
        let pick = |narrow: Code, wide_code: Code| if wide { wide_code } else { narrow };
        let is_partial = v.lanes != Lanes::All;
        let whole = if is_partial { self.to.virt(Class::Vector) } else { dst };
        match v.op {
            x86::CMPPS | x86::CMPPD => self.compare_reals(whole, wide, v.imm?, a, b)?,
            x86::PTESTMD | x86::PTESTMQ => self.put(whole, pick(a64::CMTST_4S, a64::CMTST_2D), [a, b]),
            x86::PCMPD | x86::PCMPQ | x86::PCMPUD | x86::PCMPUQ => {
                let is_unsigned = matches!(v.op, x86::PCMPUD | x86::PCMPUQ);
                let (above, not_below) = if is_unsigned {
                    (pick(a64::CMHI_4S, a64::CMHI_2D), pick(a64::CMHS_4S, a64::CMHS_2D))
                } else {
                    (pick(a64::CMGT_4S, a64::CMGT_2D), pick(a64::CMGE_4S, a64::CMGE_2D))
                };
                let equal = pick(a64::CMEQ_4S, a64::CMEQ_2D);
                // In the order of the predicates: equal, less, less or equal, none, not equal, not less, greater.
                match v.imm? {
                    0 => self.put(whole, equal, [a, b]),
                    1 => self.put(whole, above, [b, a]),
                    2 => self.put(whole, not_below, [b, a]),
                    4 => {
                        let same = self.plain(equal, [a, b]);
                        self.put(whole, a64::NOT, [same, X::None]);
                    }
                    5 => self.put(whole, not_below, [a, b]),
                    6 => self.put(whole, above, [a, b]),
                    _ => return None,
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
            self.put(dst, a64::AND, [X::Reg(whole), lanes]);
        }
        Some(())
    }

    fn compare_reals(&mut self, dst: Virt, wide: bool, how: u8, a: X, b: X) -> Option<()> {
        let pick = |narrow: Code, wide_code: Code| if wide { wide_code } else { narrow };
        let equal = pick(a64::FCMEQ_4S, a64::FCMEQ_2D);
        let above = pick(a64::FCMGT_4S, a64::FCMGT_2D);
        let not_below = pick(a64::FCMGE_4S, a64::FCMGE_2D);
        // The predicates of `vcmpps`.
        match how {
            0 => self.put(dst, equal, [a, b]),
            1 => self.put(dst, above, [b, a]),
            2 => self.put(dst, not_below, [b, a]),
            13 => self.put(dst, not_below, [a, b]),
            14 => self.put(dst, above, [a, b]),
            4 => {
                let same = self.plain(equal, [a, b]);
                self.put(dst, a64::NOT, [same, X::None]);
            }
            // Unordered, and ordered.
            3 | 7 => {
                let mut ordered = self.plain(equal, [a, a]);
                if a != b {
                    let other = self.plain(equal, [b, b]);
                    ordered = self.plain(a64::AND, [ordered, other]);
                }
                if how == 3 {
                    self.put(dst, a64::NOT, [ordered, X::None]);
                } else {
                    self.push(Action::Move, X::Reg(dst), [ordered, X::None, X::None]);
                }
            }
            // Not equal and ordered.
            12 => {
                let below = self.plain(above, [b, a]);
                let over = self.plain(above, [a, b]);
                self.put(dst, a64::ORR, [below, over]);
            }
            _ => return None,
        }
        Some(())
    }

    /// Loads whole vectors, or one element where lanes are left out.
    fn load(&mut self, v: &Vector, dst: Virt, mem: Mem) -> Option<()> {
        let mem = X::Mem(mem);
        let splat = match v.op {
            x86::PBROADCASTB => Some(Size::B1),
            x86::PBROADCASTW => Some(Size::B2),
            x86::BROADCASTSS => Some(Size::B4),
            x86::BROADCASTSD => Some(Size::B8),
            _ => None,
        };
        if let Some(size) = splat {
            self.push(Action::Splat(size), X::Reg(dst), [X::None, mem, X::None]);
            return Some(());
        }
        let count = if v.lanes == Lanes::All { self.width } else { 1 };
        let load = Action::Load(Size::of(element_bytes(v.op)? * count)?);
        if matches!(v.op, x86::MOVUPS | x86::MOVUPD) {
            self.push(load, X::Reg(dst), [X::None, mem, X::None]);
            return Some(());
        }
        let packed = self.to.virt(Class::Vector);
        self.push(load, X::Reg(packed), [X::None, mem, X::None]);
        self.widen(v.op, dst, X::Reg(packed))
    }

    /// Elements side by side in lanes of their own.
    fn widen(&mut self, op: Op, dst: Virt, packed: X) -> Option<()> {
        let (bytes, words) = match op {
            x86::PMOVSXBD => (a64::SXTL_8H, a64::SXTL_4S),
            x86::PMOVZXBD => (a64::UXTL_8H, a64::UXTL_4S),
            x86::PMOVSXWD => return Some(self.put(dst, a64::SXTL_4S, [packed, X::None])),
            x86::PMOVZXWD => return Some(self.put(dst, a64::UXTL_4S, [packed, X::None])),
            x86::CVTPH2PS => return Some(self.put(dst, a64::FCVTL_4S, [packed, X::None])),
            _ => return None,
        };
        let halves = self.one(bytes, packed);
        self.put(dst, words, [halves, X::None]);
        Some(())
    }

    fn store(&mut self, v: &Vector, mem: Mem) -> Option<()> {
        let value = self.operand(v.a);
        let packed = match v.op {
            x86::MOVUPS_STORE | x86::MOVUPD_STORE => value,
            x86::PMOVDW => self.one(a64::XTN_4H, value),
            x86::PMOVDB => {
                let halves = self.one(a64::XTN_4H, value);
                self.one(a64::XTN_8B, halves)
            }
            x86::CVTPS2PH => self.one(a64::FCVTN_4H, value),
            _ => return None,
        };
        let count = if v.lanes == Lanes::All { self.width } else { 1 };
        let size = Size::of(element_bytes(v.op)? * count)?;
        self.push(Action::Store(size), X::Mem(mem), [packed, X::None, X::None]);
        Some(())
    }

    /// `dst = op(a, b)` in all lanes.
    fn compute(&mut self, v: &Vector, dst: Virt) -> Option<()> {
        let wide = v.op.is_wide();
        let (a, b) = (self.operand(v.a), self.operand(v.b));
        let pick = |narrow: Code, wide_code: Code| if wide { wide_code } else { narrow };
        let code = match v.op {
            x86::ADDPS | x86::ADDPD => pick(a64::FADD_4S, a64::FADD_2D),
            x86::SUBPS | x86::SUBPD => pick(a64::FSUB_4S, a64::FSUB_2D),
            x86::MULPS | x86::MULPD => pick(a64::FMUL_4S, a64::FMUL_2D),
            x86::DIVPS | x86::DIVPD => pick(a64::FDIV_4S, a64::FDIV_2D),
            x86::PADDD | x86::PADDQ => pick(a64::ADD_4S, a64::ADD_2D),
            x86::PSUBD | x86::PSUBQ => pick(a64::SUB_4S, a64::SUB_2D),
            x86::PMULLD => a64::MUL_4S,
            x86::PMAXSD => a64::SMAX_4S,
            x86::PMINSD => a64::SMIN_4S,
            x86::PMAXUD => a64::UMAX_4S,
            x86::PMINUD => a64::UMIN_4S,
            x86::PANDD | x86::PANDQ => a64::AND,
            x86::PORD | x86::PORQ => a64::ORR,
            x86::PXORD | x86::PXORQ => a64::EOR,
            x86::SHUFPD if v.imm == Some(0) => a64::ZIP1_2D,
            x86::SHUFPD if a == b && v.imm == Some(0x55) => a64::EXT_8,
            x86::SHUFPS if a == b && v.imm == Some(0x4e) => a64::EXT_8,
            x86::RANGEPS | x86::RANGEPD => match v.imm? {
                4 => pick(a64::FMIN_4S, a64::FMIN_2D),
                5 => pick(a64::FMAX_4S, a64::FMAX_2D),
                _ => return None,
            },
            // NaN in the second operand is the result either way, and there are no two zeros to choose from.
            x86::MINPS | x86::MINPD if self.is_usual_constant(v.a) => pick(a64::FMIN_4S, a64::FMIN_2D),
            x86::MAXPS | x86::MAXPD if self.is_usual_constant(v.a) => pick(a64::FMAX_4S, a64::FMAX_2D),
            _ => return self.compute_one(v, dst, a, b),
        };
        self.put(dst, code, [a, b]);
        Some(())
    }

    /// As [`Rewriting::compute`]: operations of one operand.
    fn compute_one(&mut self, v: &Vector, dst: Virt, a: X, b: X) -> Option<()> {
        let wide = v.op.is_wide();
        let pick = |narrow: Code, wide_code: Code| if wide { wide_code } else { narrow };
        let code = match v.op {
            x86::MOVUPS | x86::MOVUPD => {
                self.push(Action::Move, X::Reg(dst), [b, X::None, X::None]);
                return Some(());
            }
            x86::SQRTPS | x86::SQRTPD => pick(a64::FSQRT_4S, a64::FSQRT_2D),
            x86::RNDSCALEPS | x86::RNDSCALEPD => match v.imm? {
                rounding::EVEN => pick(a64::FRINTN_4S, a64::FRINTN_2D),
                rounding::DOWN => pick(a64::FRINTM_4S, a64::FRINTM_2D),
                rounding::UP => pick(a64::FRINTP_4S, a64::FRINTP_2D),
                rounding::TRUNCATE => pick(a64::FRINTZ_4S, a64::FRINTZ_2D),
                _ => return None,
            },
            x86::PABSD | x86::PABSQ => pick(a64::ABS_4S, a64::ABS_2D),
            x86::PLZCNTD => a64::CLZ_4S,
            x86::PSLLD | x86::PSLLQ => a64::shl(wide, v.imm?),
            x86::PSRLD | x86::PSRLQ => a64::ushr(wide, v.imm?),
            x86::PSRAD | x86::PSRAQ => a64::sshr(wide, v.imm?),
            x86::SHUFPS if a == b && v.imm == Some(0xb1) => a64::REV64_4S,
            x86::SHUFPD if a == b && v.imm == Some(0x3) => a64::DUP_2D_UPPER,
            x86::CVTDQ2PS => a64::SCVTF_4S,
            x86::CVTUDQ2PS => a64::UCVTF_4S,
            x86::CVTTPS2DQ => a64::FCVTZS_4S,
            x86::CVTTPS2UDQ => a64::FCVTZU_4S,
            x86::CVTPS2PD => a64::FCVTL_2D,
            x86::CVTPD2PS => a64::FCVTN_2S,
            x86::CVTQQ2PD => a64::SCVTF_2D,
            x86::CVTUQQ2PD => a64::UCVTF_2D,
            x86::CVTTPD2QQ => a64::FCVTZS_2D,
            x86::CVTTPD2UQQ => a64::FCVTZU_2D,
            x86::CVTPH2PS => a64::FCVTL_4S,
            x86::PMOVSXDQ => a64::SXTL_2D,
            x86::PMOVZXDQ => a64::UXTL_2D,
            x86::PMOVSXBD | x86::PMOVZXBD | x86::PMOVSXWD | x86::PMOVZXWD => return self.widen(v.op, dst, b),
            x86::PMOVQD => {
                self.put(dst, a64::XTN_2S, [a, X::None]);
                return Some(());
            }
            x86::CVTPS2PH => {
                self.put(dst, a64::FCVTN_4H, [a, X::None]);
                return Some(());
            }
            x86::PBROADCASTD_GPR | x86::PBROADCASTQ_GPR => {
                let bits = if wide { LaneBits::Bits64 } else { LaneBits::Bits32 };
                self.push(Action::Count(bits), X::Reg(dst), [X::None, b, X::None]);
                return Some(());
            }
            _ => return self.compute_several(v, dst, a, b),
        };
        self.put(dst, code, [b, X::None]);
        Some(())
    }
}
