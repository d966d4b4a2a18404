//! Vector code over any number of registers: what lanes operations become before registers are given out.

use super::ops::{self as x86, Length, Op, Zeroing};

/// A register before allocation. It may be written more than once (accumulators).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Virt(pub(super) u32);

/// The kind of machine register a [`Virt`] needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Vector,
    /// A vector that is live around a loop and written in it: the last to be kept in memory.
    Accumulator,
    Mask,
}

/// Memory an instruction reads or writes. `base` counts the reads, then the writes, then the scratch rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mem {
    /// The elements at the counter, `disp` bytes on, contiguous with `bytes` each.
    Element { base: u32, bytes: u8, disp: i32 },
    /// The first element of the row.
    Row { base: u32 },
    /// The position of the row's first element along a dimension.
    Index { dim: u32 },
    /// The elements at the counter, `disp` bytes on, `step` bytes apart; only for gathers and scatters.
    Strided { base: u32, step: i32, disp: i32 },
    /// The program's table, `disp` bytes on; only for gathers.
    Table { disp: i32 },
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum X {
    None,
    Reg(Virt),
    /// A constant by its number: in all lanes, or a whole vector.
    Const(u32),
    Mem(Mem),
    /// The mask of the elements that are left.
    Tail,
    /// The element counter plus a distance, as a general register.
    Counter(i32),
    /// How many elements of the row are left, as a general register; only in code for AVX2.
    #[cfg(target_arch = "x86_64")]
    Left,
}

/// Which lanes an instruction changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lanes {
    All,
    /// Those that are left of the row.
    Tail,
    /// Lane 0.
    First,
    Of(Virt),
}

/// One vector instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vector {
    pub(super) op: Op,
    /// On AArch64 the lanes of an operation say it.
    #[cfg_attr(target_arch = "aarch64", allow(dead_code))]
    pub(super) length: Length,
    pub(super) dst: X,
    pub(super) a: X,
    pub(super) b: X,
    /// What the result register holds before, where that matters.
    pub(super) tied: X,
    pub(super) lanes: Lanes,
    pub(super) zeroing: Zeroing,
    pub(super) imm: Option<u8>,
}

/// What registers an instruction reads and writes.
pub(super) trait Instruction {
    /// The operands it reads, apart from `tied`.
    fn sources(&self) -> [X; 3];
    /// The register it writes.
    fn result(&self) -> Option<Virt>;
    /// What the result register must hold before.
    fn tied(&self) -> X;
    /// Operands whose register is the best one for the result where they end here.
    fn reusable(&self) -> [X; 3] {
        [self.tied(), X::None, X::None]
    }
    /// Whether it writes its result before it has read all operands.
    fn writes_early(&self) -> bool {
        self.tied() != X::None
    }
}

impl Instruction for Vector {
    fn sources(&self) -> [X; 3] {
        [self.a, self.b, lanes_operand(self.lanes)]
    }

    fn result(&self) -> Option<Virt> {
        if let X::Reg(virt) = self.dst { Some(virt) } else { None }
    }

    fn tied(&self) -> X {
        self.tied
    }
}

fn lanes_operand(lanes: Lanes) -> X {
    if let Lanes::Of(virt) = lanes { X::Reg(virt) } else { X::None }
}

/// The signs of a fused multiplication and addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fused {
    /// `a·b + c`
    Add,
    /// `c - a·b`
    From,
}

/// How a mask becomes one truth for all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    Any,
    /// True where no lane of the operand is.
    None,
    Parity,
}

/// A loop of the compiled function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    Rows,
    /// Whole steps of so many elements.
    Main(u32),
    /// Whole vectors of so many elements, after the steps of several.
    Whole(u32),
    /// What is left, a vector of this many elements at a time, the last one in part.
    Rest(u32),
}

/// One item of a program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item<V = Vector> {
    Vector(V),
    Fma {
        num: Num,
        fused: Fused,
        dst: Virt,
        a: X,
        b: X,
        c: X,
    },
    Gather {
        num: Num,
        dst: Virt,
        index: X,
        mem: Mem,
        lanes: Lanes,
    },
    Scatter {
        num: Num,
        value: X,
        index: X,
        mem: Mem,
        lanes: Lanes,
    },
    /// One truth for all lanes from the low `width` bits of a mask.
    Truth {
        dst: Virt,
        a: X,
        width: u32,
        truth: Truth,
    },
    /// Jumps to the next [`Item::Land`] where no lane of the mask is set. What is written between and read after it was
    /// written before too.
    Skip(X),
    Land,
    Enter(Walk),
    Leave(Walk),
}

/// A width of lanes: 32 or 64 bits, and the vectors that hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Num {
    pub(super) wide: bool,
    pub(super) length: Length,
}

impl Num {
    /// The instruction for this width.
    pub(super) fn pick(self, narrow: Op, wide: Op) -> Op {
        if self.wide { wide } else { narrow }
    }
}

/// A constant of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Constant {
    Narrow(u32),
    Wide(u64),
    Vector([i32; 16]),
}

/// The arrays of a function: how many of each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrays {
    pub(super) reads: u32,
    pub(super) writes: u32,
    pub(super) slots: u32,
    /// Dimensions that have an index.
    pub(super) rank: u32,
    /// Whether some stores go past the caches.
    #[cfg(target_arch = "x86_64")]
    pub(super) streams: bool,
}

/// Byte offsets of the fields of `Rows`.
pub(super) mod rows_layout {
    pub(in super::super) const READS: i32 = 0;
    pub(in super::super) const WRITES: i32 = 8;
    pub(in super::super) const READ_STEPS: i32 = 16;
    pub(in super::super) const WRITE_STEPS: i32 = 24;
    pub(in super::super) const SLOTS: i32 = 32;
    pub(in super::super) const INDEX: i32 = 40;
    pub(in super::super) const ROWS: i32 = 48;
    pub(in super::super) const COUNT: i32 = 56;
}

/// A program being built.
#[derive(Debug)]
pub(super) struct Program<V = Vector> {
    pub(super) items: Vec<Item<V>>,
    pub(super) classes: Vec<Class>,
    pub(super) constants: Vec<Constant>,
    /// Reals that are looked up by gathers.
    pub(super) table: &'static [f64],
}

impl<V> Default for Program<V> {
    fn default() -> Program<V> {
        Program { items: Vec::new(), classes: Vec::new(), constants: Vec::new(), table: &[] }
    }
}

impl<V> Program<V> {
    pub(super) fn virt(&mut self, class: Class) -> Virt {
        self.classes.push(class);
        Virt(self.classes.len() as u32 - 1)
    }

    pub(super) fn constant(&mut self, constant: Constant) -> X {
        let known = self.constants.iter().position(|&c| c == constant);
        let at = known.unwrap_or_else(|| {
            self.constants.push(constant);
            self.constants.len() - 1
        });
        X::Const(at as u32)
    }
}

impl Program {
    fn push(&mut self, vector: Vector) {
        self.items.push(Item::Vector(vector));
    }

    /// `op` of two operands.
    pub(super) fn two(&mut self, op: Op, length: Length, a: X, b: X) -> X {
        self.two_imm(op, length, a, b, None)
    }

    /// `op` of two operands and an immediate.
    pub(super) fn two_imm(&mut self, op: Op, length: Length, a: X, b: X, imm: Option<u8>) -> X {
        let class = if op.is_mask_op() { Class::Mask } else { Class::Vector };
        let dst = X::Reg(self.virt(class));
        let (tied, lanes, zeroing) = (X::None, Lanes::All, Zeroing::Merge);
        self.push(Vector { op, length, dst, a, b, tied, lanes, zeroing, imm });
        dst
    }

    /// `op` of two operands in either order: a constant goes where it can stay in memory.
    pub(super) fn symmetric(&mut self, op: Op, length: Length, a: X, b: X) -> X {
        if matches!(a, X::Const(_)) { self.two(op, length, b, a) } else { self.two(op, length, a, b) }
    }

    /// `op` of one operand.
    pub(super) fn one(&mut self, op: Op, length: Length, a: X) -> X {
        self.one_imm(op, length, a, None)
    }

    pub(super) fn one_imm(&mut self, op: Op, length: Length, a: X, imm: Option<u8>) -> X {
        match op.form {
            x86::Form::Mr => self.two_imm(op, length, a, X::None, imm),
            _ => self.two_imm(op, length, X::None, a, imm),
        }
    }

    /// `op` whose result is a mask.
    pub(super) fn test(&mut self, op: Op, length: Length, a: X, b: X, imm: Option<u8>) -> X {
        let dst = X::Reg(self.virt(Class::Mask));
        let (tied, lanes, zeroing) = (X::None, Lanes::All, Zeroing::Merge);
        self.push(Vector { op, length, dst, a, b, tied, lanes, zeroing, imm });
        dst
    }

    /// `op` in the lanes of the mask; the other lanes are those of `other`.
    pub(super) fn merged(&mut self, op: Op, length: Length, operands: [X; 2], imm: Option<u8>, mask: X, other: X) -> X {
        let dst = X::Reg(self.virt(Class::Vector));
        let [a, b] = operands;
        let (lanes, zeroing) = (self.lanes_of(mask), Zeroing::Merge);
        self.push(Vector { op, length, dst, a, b, tied: other, lanes, zeroing, imm });
        dst
    }

    /// `op` in the lanes of the mask; the other lanes are zero.
    pub(super) fn zeroed(&mut self, op: Op, length: Length, a: X, b: X, mask: X) -> X {
        let dst = X::Reg(self.virt(Class::Vector));
        let (lanes, zeroing) = (self.lanes_of(mask), Zeroing::Zero);
        self.push(Vector { op, length, dst, a, b, tied: X::None, lanes, zeroing, imm: None });
        dst
    }

    /// `op` of three operands, the first in the result's register.
    pub(super) fn three(&mut self, op: Op, length: Length, operands: [X; 3], imm: u8) -> X {
        let dst = X::Reg(self.virt(Class::Vector));
        let [tied, a, b] = operands;
        let (lanes, zeroing) = (Lanes::All, Zeroing::Merge);
        self.push(Vector { op, length, dst, a, b, tied, lanes, zeroing, imm: Some(imm) });
        dst
    }

    /// `mask ? a : b` of vectors.
    pub(super) fn select(&mut self, num: Num, mask: X, a: X, b: X) -> X {
        let op = num.pick(x86::BLENDMPS, x86::BLENDMPD);
        let dst = X::Reg(self.virt(Class::Vector));
        let lanes = self.lanes_of(mask);
        let (tied, zeroing) = (X::None, Zeroing::Merge);
        self.push(Vector { op, length: num.length, dst, a: b, b: a, tied, lanes, zeroing, imm: None });
        dst
    }

    fn lanes_of(&self, mask: X) -> Lanes {
        match mask {
            X::Reg(virt) => Lanes::Of(virt),
            X::Tail => Lanes::Tail,
            _ => Lanes::All,
        }
    }

    /// Sets a mask register to the lanes, of those given, where a real is NaN.
    pub(super) fn nan_test(&mut self, num: Num, dst: X, value: X, lanes: Lanes) {
        const UNORDERED: u8 = 3;
        let op = num.pick(x86::CMPPS, x86::CMPPD);
        let (tied, zeroing) = (X::None, Zeroing::Merge);
        let imm = Some(UNORDERED);
        self.push(Vector { op, length: num.length, dst, a: value, b: value, tied, lanes, zeroing, imm });
    }

    /// Writes `op(a, b)` into a register that exists, in some lanes.
    pub(super) fn update(&mut self, op: Op, length: Length, to: Virt, operands: [X; 2], imm: Option<u8>, lanes: Lanes) {
        let [a, b] = operands;
        let dst = X::Reg(to);
        let tied = if lanes == Lanes::All { X::None } else { dst };
        self.push(Vector { op, length, dst, a, b, tied, lanes, zeroing: Zeroing::Merge, imm });
    }

    /// Writes `op(a, b)` into the lanes of the mask of a register that exists.
    pub(super) fn replace(&mut self, op: Op, length: Length, to: X, operands: [X; 2], mask: X) {
        if let X::Reg(to) = to {
            let lanes = self.lanes_of(mask);
            self.update(op, length, to, operands, None, lanes);
        }
    }

    /// Loads; lanes outside become zero and their memory is not touched.
    pub(super) fn load(&mut self, op: Op, length: Length, mem: Mem, lanes: Lanes) -> X {
        let dst = X::Reg(self.virt(Class::Vector));
        let (a, b, tied) = (X::None, X::Mem(mem), X::None);
        self.push(Vector { op, length, dst, a, b, tied, lanes, zeroing: Zeroing::Zero, imm: None });
        dst
    }

    /// Stores the lanes; the memory of others is not touched.
    pub(super) fn store(&mut self, op: Op, length: Length, mem: Mem, value: X, imm: Option<u8>, lanes: Lanes) {
        let (dst, b, tied) = (X::Mem(mem), X::None, X::None);
        self.push(Vector { op, length, dst, a: value, b, tied, lanes, zeroing: Zeroing::Merge, imm });
    }

    pub(super) fn fma(&mut self, num: Num, fused: Fused, a: X, b: X, c: X) -> X {
        let dst = self.virt(Class::Vector);
        self.items.push(Item::Fma { num, fused, dst, a, b, c });
        X::Reg(dst)
    }
}

impl<V: Instruction> Item<V> {
    /// The operands an item reads, apart from `tied`.
    pub(super) fn sources(&self) -> [X; 3] {
        match self {
            Item::Vector(v) => v.sources(),
            Item::Fma { a, b, c, .. } => [*a, *b, *c],
            Item::Gather { index, lanes, .. } => [*index, lanes_operand(*lanes), X::None],
            Item::Scatter { value, index, lanes, .. } => [*value, *index, lanes_operand(*lanes)],
            Item::Truth { a, .. } => [*a, X::None, X::None],
            Item::Skip(mask) => [*mask, X::None, X::None],
            Item::Land | Item::Enter(_) | Item::Leave(_) => [X::None; 3],
        }
    }

    /// The register an item writes.
    pub(super) fn result(&self) -> Option<Virt> {
        match self {
            Item::Vector(v) => v.result(),
            Item::Fma { dst, .. } | Item::Gather { dst, .. } | Item::Truth { dst, .. } => Some(*dst),
            _ => None,
        }
    }

    /// What the result register must hold before.
    pub(super) fn tied(&self) -> X {
        match self {
            Item::Vector(v) => v.tied(),
            _ => X::None,
        }
    }

    /// Operands whose register is the best one for the result where they end here: it then needs no copy.
    pub(super) fn reusable(&self) -> [X; 3] {
        match self {
            Item::Vector(v) => v.reusable(),
            Item::Fma { a, b, c, .. } => [*c, *a, *b],
            _ => [X::None; 3],
        }
    }

    /// Whether the result must not overwrite an operand, which is still to be read.
    pub(super) fn writes_early(&self) -> bool {
        match self {
            Item::Vector(v) => v.writes_early(),
            Item::Fma { .. } | Item::Gather { .. } => true,
            _ => false,
        }
    }
}
