//! The language of fused loops: a straight line of lane operations for each point of an iteration space.
//!
//! A [`Loop`] walks `dims`, the last dimension fastest and in vectors. Instructions are in single-assignment form:
//! instruction `i` defines register `i` and reads only earlier ones. A value is *uniform* when it does not change along
//! the last dimension: constants, loads with stride 0 there, [`Inst::Reduce`], and everything computed from such values
//! only. Uniform values are computed once for each row (a row is one run along the last dimension); the others once for
//! each element. An element value that depends on a reduction of the same row makes the row be walked again: see
//! `schedule`.

use tensor::DType;

/// The result of an instruction: its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reg(pub(crate) u32);

/// What a register holds in each lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// f32, and every narrower real type as the f32 of the same value.
    F32,
    /// f64.
    F64,
    /// i32, u32, and every narrower integer sign- or zero-extended by its own signedness.
    I32,
    /// i64, u64.
    I64,
    /// A boolean.
    Mask,
}

impl Lane {
    /// The lane that holds elements of a type; `None` for complex types.
    pub(crate) fn of(dtype: DType) -> Option<Lane> {
        Some(if dtype.is_bool() {
            Lane::Mask
        } else if dtype.is_integer() {
            if dtype.bits() == 64 { Lane::I64 } else { Lane::I32 }
        } else if dtype.complex_part().is_some() {
            return None;
        } else if dtype == DType::F64 {
            Lane::F64
        } else {
            Lane::F32
        })
    }
}

/// Where an array lies in the iteration space: the element at point `p` is at `offset + Σ p[d]·strides[d]`, in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Access {
    pub(crate) dtype: DType,
    pub(crate) offset: isize,
    /// One for each dimension of the loop; 0 where the array does not have it.
    pub(crate) strides: Vec<isize>,
}

/// An array the loop fills.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Write {
    pub(crate) access: Access,
    pub(crate) value: Reg,
    pub(crate) mode: Mode,
}

/// What happens to what was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// Replaced. Every element is written exactly once, except that a uniform value with stride 0 in the last dimension
    /// is written once for each row.
    Store,
    /// Combined: outer dimensions with stride 0 are reduced. The caller has filled the array with the initial value. The
    /// array's type is f32, f64, i32, u32, i64, u64 or bool, and points of different offset do not overlap.
    Combine(Fold),
}

/// How elements are reduced to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fold {
    Sum,
    Product,
    /// NaN if any is NaN.
    Min,
    Max,
    /// Unsigned integers.
    MinU,
    MaxU,
    And,
    Or,
    Xor,
}

impl Fold {
    /// The operation that joins two partial results.
    pub(crate) fn binary(self) -> Binary {
        match self {
            Fold::Sum => Binary::Add,
            Fold::Product => Binary::Mul,
            Fold::Min => Binary::Min,
            Fold::Max => Binary::Max,
            Fold::MinU => Binary::MinU,
            Fold::MaxU => Binary::MaxU,
            Fold::And => Binary::And,
            Fold::Or => Binary::Or,
            Fold::Xor => Binary::Xor,
        }
    }
}

/// Operations on one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unary {
    // F32, F64, I32, I64
    Neg,
    Abs,
    /// -1, 0 or 1; of reals also -0 and NaN as they are.
    Sign,
    // F32, F64
    Floor,
    Ceil,
    RoundEven,
    /// Halves away from zero.
    RoundAway,
    Sqrt,
    Rsqrt,
    Cbrt,
    Exp,
    ExpMinusOne,
    Log,
    LogPlusOne,
    Tanh,
    Logistic,
    Sin,
    Cos,
    Tan,
    Erf,
    /// Gives a mask.
    IsFinite,
    // I32, I64, Mask
    Not,
    // I32, I64; of narrower types the caller corrects the count.
    PopCount,
    LeadingZeros,
}

/// Operations on two registers of the same lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Binary {
    // F32, F64, I32, I64
    Add,
    Sub,
    Mul,
    /// Integers: towards zero, -1 (all bits) for a divisor of 0, the dividend for MIN / -1.
    Div,
    /// Sign of the dividend; integers: the dividend for a divisor of 0.
    Rem,
    /// Reals: NaN if either is NaN.
    Min,
    Max,
    // I32, I64, as unsigned
    DivU,
    RemU,
    MinU,
    MaxU,
    // F32, F64
    Pow,
    Atan2,
    // I32, I64, Mask
    And,
    Or,
    Xor,
    // I32, I64: a count of the width or more gives 0, or the sign.
    Shl,
    ShrL,
    ShrA,
}

/// Order of two registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Compare {
    Eq,
    /// True if either is NaN; the others are false then.
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    // I32, I64, as unsigned
    LtU,
    LeU,
    GtU,
    GeU,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Inst {
    /// Element of read `n`, in the lane of its type. Booleans are true where the byte is not 0.
    Load(u32),
    /// The same bits in every lane: the low bits of `bits` are the value; masks are 0 or 1.
    Const { lane: Lane, bits: u64 },
    /// The position along dimension `dim`, in lane I32 or I64.
    Index { lane: Lane, dim: u32 },
    /// Lane of the operand, except where the operation says otherwise.
    Unary(Unary, Reg),
    /// Both operands in the same lane, as is the result.
    Binary(Binary, Reg, Reg),
    /// `a·b + c` with one rounding. F32, F64. StableHLO has no op that asks for it; expansions of functions may.
    #[allow(dead_code)]
    Fma(Reg, Reg, Reg),
    /// Both operands in the same lane (F32, F64, I32, I64); gives a mask.
    Compare(Compare, Reg, Reg),
    /// `mask ? a : b`, `a` and `b` in the same lane, masks too.
    Select(Reg, Reg, Reg),
    /// A register in another lane. `source` and `target` are the element types converted between, which decide signedness;
    /// real to integer saturates at the target type and NaN gives 0; integer to narrower integer wraps; real to narrower
    /// real rounds to nearest even; to boolean is "not 0".
    Convert { value: Reg, source: DType, target: DType },
    /// The same bits read as the other kind of the same width: F32 and I32, F64 and I64.
    Bitcast(Reg),
    /// The nearest value the type can hold, still in its lane: what an operation of that type gives. Real types narrower
    /// than their lane round to nearest even, integer types wrap.
    Round(DType, Reg),
    /// All elements of the row reduced to one; `value` is not uniform. Lanes in any order, the same for each run.
    Reduce(Fold, Reg),
}

/// A fused loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Loop {
    /// Sizes, outermost first; at least one dimension, no size 0.
    pub(crate) dims: Vec<usize>,
    pub(crate) reads: Vec<Access>,
    pub(crate) insts: Vec<Inst>,
    pub(crate) writes: Vec<Write>,
}

impl Loop {
    /// The lane of every register. The loop is well formed: the lowering is the only one that makes them.
    pub(crate) fn lanes(&self) -> Vec<Lane> {
        let mut lanes: Vec<Lane> = Vec::with_capacity(self.insts.len());
        for inst in &self.insts {
            let at = |r: &Reg| lanes[r.0 as usize];
            let lane = match inst {
                Inst::Load(n) => Lane::of(self.reads[*n as usize].dtype).unwrap_or(Lane::F32),
                Inst::Const { lane, .. } | Inst::Index { lane, .. } => *lane,
                Inst::Unary(Unary::IsFinite, _) | Inst::Compare(..) => Lane::Mask,
                Inst::Unary(_, a) | Inst::Binary(_, a, _) | Inst::Fma(a, ..) | Inst::Round(_, a) => at(a),
                Inst::Reduce(_, a) => at(a),
                Inst::Select(_, a, _) => at(a),
                Inst::Convert { target, .. } => Lane::of(*target).unwrap_or(Lane::F32),
                Inst::Bitcast(a) => match at(a) {
                    Lane::F32 => Lane::I32,
                    Lane::I32 => Lane::F32,
                    Lane::F64 => Lane::I64,
                    Lane::I64 => Lane::F64,
                    Lane::Mask => Lane::Mask,
                },
            };
            lanes.push(lane);
        }
        lanes
    }

    /// Whether every instruction reads earlier registers of the lanes it is made for, every access has a stride for each
    /// dimension, and what is written has the lane of its array.
    pub(crate) fn is_sound(&self) -> bool {
        let count = |access: &Access| access.strides.len() == self.dims.len() && Lane::of(access.dtype).is_some();
        if !self.reads.iter().chain(self.writes.iter().map(|write| &write.access)).all(count) || self.dims.is_empty() {
            return false;
        }
        let is_known = |inst: &Inst, n: usize| match inst {
            Inst::Load(read) => (*read as usize) < self.reads.len(),
            Inst::Index { lane, dim } => (*dim as usize) < self.dims.len() && matches!(lane, Lane::I32 | Lane::I64),
            Inst::Const { .. } => true,
            Inst::Unary(_, a) | Inst::Round(_, a) | Inst::Bitcast(a) | Inst::Convert { value: a, .. } => {
                (a.0 as usize) < n
            }
            Inst::Reduce(_, a) => (a.0 as usize) < n,
            Inst::Binary(_, a, b) | Inst::Compare(_, a, b) => [a, b].iter().all(|r| (r.0 as usize) < n),
            Inst::Fma(a, b, c) | Inst::Select(a, b, c) => [a, b, c].iter().all(|r| (r.0 as usize) < n),
        };
        if !self.insts.iter().enumerate().all(|(n, inst)| is_known(inst, n)) {
            return false;
        }
        let lanes = self.lanes();
        let lane = |r: &Reg| lanes[r.0 as usize];
        let fits = |inst: &Inst| match inst {
            Inst::Binary(_, a, b) | Inst::Compare(_, a, b) => lane(a) == lane(b),
            Inst::Fma(a, b, c) => lane(a) == lane(b) && lane(b) == lane(c),
            Inst::Select(mask, a, b) => lane(mask) == Lane::Mask && lane(a) == lane(b),
            Inst::Convert { value, source, target } => {
                Lane::of(*source) == Some(lane(value)) && Lane::of(*target).is_some()
            }
            Inst::Round(dtype, a) => Lane::of(*dtype) == Some(lane(a)),
            _ => true,
        };
        let is_written = |write: &Write| lanes.get(write.value.0 as usize).copied() == Lane::of(write.access.dtype);
        self.insts.iter().all(fits) && self.writes.iter().all(is_written)
    }

    /// Which registers are the same along the last dimension.
    pub(crate) fn uniform(&self) -> Vec<bool> {
        let last = self.dims.len() - 1;
        let mut uniform: Vec<bool> = Vec::with_capacity(self.insts.len());
        for inst in &self.insts {
            let at = |r: &Reg| uniform[r.0 as usize];
            let value = match inst {
                Inst::Load(n) => self.reads[*n as usize].strides[last] == 0,
                Inst::Const { .. } | Inst::Reduce(..) => true,
                Inst::Index { dim, .. } => *dim as usize != last,
                Inst::Unary(_, a) | Inst::Round(_, a) | Inst::Bitcast(a) | Inst::Convert { value: a, .. } => at(a),
                Inst::Binary(_, a, b) | Inst::Compare(_, a, b) => at(a) && at(b),
                Inst::Fma(a, b, c) | Inst::Select(a, b, c) => at(a) && at(b) && at(c),
            };
            uniform.push(value);
        }
        uniform
    }
}
