//! Functions of scalars: the bodies of sorts, windows and reductions as straight lines of the loop language.
#![allow(unsafe_code)]

use tensor::{DType, decode_float, encode_float};

use super::loops::ir::{Binary, Compare, Fold, Inst, Lane, Reg, Unary};

/// A function of scalars. A scalar travels as 64 bits: the bits of its lane in the low half or the whole, the rest zero;
/// masks are 0 or 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Program {
    /// Types of the arguments: instruction `Load(n)` gives argument `n`.
    pub(crate) arguments: Vec<DType>,
    pub(crate) insts: Vec<Inst>,
    /// Types of the results, and where they are.
    pub(crate) results: Vec<(DType, Reg)>,
    lanes: Vec<Lane>,
    /// Which argument each load gives, by register.
    loads: Vec<(usize, usize)>,
    /// The instructions that compute, by register.
    steps: Vec<(usize, Inst)>,
}

/// The registers of one run of a program; constants are in place.
#[derive(Clone, Debug)]
pub(crate) struct Registers(Vec<u64>);

/// How two values become one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Combine {
    Fold(Fold),
    Program(Program),
}

impl Program {
    /// A program from its parts; `None` where one is not of this language: complex types, positions, rows.
    pub(crate) fn new(arguments: Vec<DType>, insts: Vec<Inst>, results: Vec<(DType, Reg)>) -> Option<Program> {
        let mut lanes: Vec<Lane> = Vec::with_capacity(insts.len());
        let (mut loads, mut steps) = (Vec::new(), Vec::new());
        for (n, inst) in insts.iter().enumerate() {
            let at = |r: &Reg| lanes.get(r.0 as usize).copied();
            let lane = match inst {
                Inst::Load(argument) => {
                    loads.push((n, *argument as usize));
                    Lane::of(*arguments.get(*argument as usize)?)?
                }
                Inst::Const { lane, .. } => *lane,
                // The standard library has no error function.
                Inst::Index { .. } | Inst::Reduce(..) | Inst::Unary(Unary::Erf, _) => return None,
                Inst::Unary(Unary::IsFinite, a) => at(a).map(|_| Lane::Mask)?,
                Inst::Unary(_, a) | Inst::Round(_, a) => at(a)?,
                Inst::Binary(_, a, b) => at(b).and(at(a))?,
                Inst::Fma(a, b, c) => at(c).and(at(b)).and(at(a))?,
                Inst::Compare(_, a, b) => at(a).and(at(b)).map(|_| Lane::Mask)?,
                Inst::Select(mask, a, b) => at(mask).and(at(b)).and(at(a))?,
                Inst::Convert { value, target, .. } => at(value).and(Lane::of(*target))?,
                Inst::Bitcast(a) => match at(a)? {
                    Lane::F32 => Lane::I32,
                    Lane::I32 => Lane::F32,
                    Lane::F64 => Lane::I64,
                    Lane::I64 => Lane::F64,
                    Lane::Mask => Lane::Mask,
                },
            };
            if !matches!(inst, Inst::Load(_) | Inst::Const { .. }) {
                steps.push((n, *inst));
            }
            lanes.push(lane);
        }
        let fits =
            |(dtype, reg): &(DType, Reg)| Lane::of(*dtype).is_some_and(|l| lanes.get(reg.0 as usize) == Some(&l));
        results.iter().all(fits).then_some(Program { arguments, insts, results, lanes, loads, steps })
    }

    /// Registers to run with, one set for each thread.
    pub(crate) fn registers(&self) -> Registers {
        let constant = |inst: &Inst| match inst {
            Inst::Const { bits, .. } => *bits,
            _ => 0,
        };
        Registers(self.insts.iter().map(constant).collect())
    }

    /// Whether the program looks at an argument.
    pub(crate) fn reads(&self, argument: usize) -> bool {
        self.loads.iter().any(|&(_, n)| n == argument)
    }

    /// Runs the program: as many arguments and results as it has, `registers` its own.
    #[inline]
    pub(crate) fn eval(&self, registers: &mut Registers, arguments: &[u64], results: &mut [u64]) {
        let r = &mut registers.0[..];
        for &(reg, argument) in &self.loads {
            r[reg] = arguments[argument];
        }
        for &(n, inst) in &self.steps {
            r[n] = step(inst, r, &self.lanes);
        }
        for (to, (_, reg)) in results.iter_mut().zip(&self.results) {
            *to = r[reg.0 as usize];
        }
    }

    /// The first result, as the answer to a question.
    #[inline]
    pub(crate) fn ask(&self, registers: &mut Registers, arguments: &[u64]) -> bool {
        let mut answer = [0];
        self.eval(registers, arguments, &mut answer);
        answer[0] != 0
    }
}

#[inline]
fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

#[inline]
fn f64_of(bits: u64) -> f64 {
    f64::from_bits(bits)
}

#[inline]
fn of_f32(value: f32) -> u64 {
    u64::from(value.to_bits())
}

#[inline]
fn of_i32(value: i32) -> u64 {
    u64::from(value as u32)
}

#[inline]
fn step(inst: Inst, r: &[u64], lanes: &[Lane]) -> u64 {
    let at = |reg: Reg| r[reg.0 as usize];
    let lane = |reg: Reg| lanes[reg.0 as usize];
    match inst {
        Inst::Load(_) | Inst::Const { .. } | Inst::Index { .. } | Inst::Reduce(..) => 0,
        Inst::Unary(op, a) => unary(op, lane(a), at(a)),
        Inst::Binary(op, a, b) => binary(op, lane(a), at(a), at(b)),
        Inst::Fma(a, b, c) => match lane(a) {
            Lane::F64 => f64_of(at(a)).mul_add(f64_of(at(b)), f64_of(at(c))).to_bits(),
            _ => of_f32(f32_of(at(a)).mul_add(f32_of(at(b)), f32_of(at(c)))),
        },
        Inst::Compare(op, a, b) => u64::from(compare(op, lane(a), at(a), at(b))),
        Inst::Select(mask, a, b) => {
            if at(mask) != 0 {
                at(a)
            } else {
                at(b)
            }
        }
        Inst::Convert { value, source, target } => convert(source, target, at(value)),
        Inst::Bitcast(a) => at(a),
        Inst::Round(dtype, a) => round(dtype, at(a)),
    }
}

fn unary(op: Unary, lane: Lane, a: u64) -> u64 {
    match lane {
        Lane::F32 => match op {
            Unary::IsFinite => u64::from(f32_of(a).is_finite()),
            Unary::Neg => a ^ 0x8000_0000,
            Unary::Abs => a & 0x7fff_ffff,
            // In double precision and rounded once, as the interpreter does.
            _ => of_f32(real(op, f64::from(f32_of(a))) as f32),
        },
        Lane::F64 => match op {
            Unary::IsFinite => u64::from(f64_of(a).is_finite()),
            Unary::Neg => a ^ 1 << 63,
            Unary::Abs => a & !(1 << 63),
            _ => real(op, f64_of(a)).to_bits(),
        },
        Lane::I32 => {
            let x = a as i32;
            of_i32(match op {
                Unary::Neg => x.wrapping_neg(),
                Unary::Abs => x.wrapping_abs(),
                Unary::Sign => x.signum(),
                Unary::Not => !x,
                Unary::PopCount => x.count_ones() as i32,
                Unary::LeadingZeros => x.leading_zeros() as i32,
                _ => 0,
            })
        }
        Lane::I64 => {
            let x = a as i64;
            (match op {
                Unary::Neg => x.wrapping_neg(),
                Unary::Abs => x.wrapping_abs(),
                Unary::Sign => x.signum(),
                Unary::Not => !x,
                Unary::PopCount => i64::from(x.count_ones()),
                Unary::LeadingZeros => i64::from(x.leading_zeros()),
                _ => 0,
            }) as u64
        }
        Lane::Mask => a ^ u64::from(op == Unary::Not),
    }
}

fn real(op: Unary, x: f64) -> f64 {
    match op {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign => {
            if x.is_nan() || x == 0.0 {
                x
            } else {
                x.signum()
            }
        }
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::RoundEven => x.round_ties_even(),
        Unary::RoundAway => x.round(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Cbrt => x.cbrt(),
        Unary::Exp => x.exp(),
        Unary::ExpMinusOne => x.exp_m1(),
        Unary::Log => x.ln(),
        Unary::LogPlusOne => x.ln_1p(),
        Unary::Tanh => x.tanh(),
        Unary::Logistic => 1.0 / (1.0 + (-x).exp()),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Erf | Unary::IsFinite | Unary::Not | Unary::PopCount | Unary::LeadingZeros => f64::NAN,
    }
}

/// IEEE 754 `maximum`: NaN wins, and +0 is larger than -0.
#[inline]
pub(crate) fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_positive() { a } else { b }
    } else if a > b {
        a
    } else {
        b
    }
}

fn real_binary(op: Binary, a: f64, b: f64) -> f64 {
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Rem => a % b,
        Binary::Min => -maximum(-a, -b),
        Binary::Max => maximum(a, b),
        Binary::Pow => a.powf(b),
        Binary::Atan2 => a.atan2(b),
        _ => 0.0,
    }
}

macro_rules! integer_binary {
    ($name:ident, $signed:ty, $unsigned:ty) => {
        fn $name(op: Binary, a: $signed, b: $signed) -> $signed {
            let (ua, ub) = (a as $unsigned, b as $unsigned);
            let is_within = ub < <$unsigned>::BITS as $unsigned;
            match op {
                Binary::Add => a.wrapping_add(b),
                Binary::Sub => a.wrapping_sub(b),
                Binary::Mul => a.wrapping_mul(b),
                Binary::Div => {
                    if b == 0 {
                        -1
                    } else {
                        a.wrapping_div(b)
                    }
                }
                Binary::Rem => {
                    if b == 0 {
                        a
                    } else {
                        a.wrapping_rem(b)
                    }
                }
                Binary::Min => a.min(b),
                Binary::Max => a.max(b),
                Binary::DivU => ua.checked_div(ub).unwrap_or(<$unsigned>::MAX) as $signed,
                Binary::RemU => ua.checked_rem(ub).unwrap_or(ua) as $signed,
                Binary::MinU => ua.min(ub) as $signed,
                Binary::MaxU => ua.max(ub) as $signed,
                Binary::And => a & b,
                Binary::Or => a | b,
                Binary::Xor => a ^ b,
                Binary::Shl => {
                    if is_within {
                        a << b
                    } else {
                        0
                    }
                }
                Binary::ShrL => {
                    if is_within {
                        (ua >> ub) as $signed
                    } else {
                        0
                    }
                }
                Binary::ShrA => a >> ub.min(<$unsigned>::BITS as $unsigned - 1),
                Binary::Pow | Binary::Atan2 => 0,
            }
        }
    };
}
integer_binary!(binary_i32, i32, u32);
integer_binary!(binary_i64, i64, u64);

#[inline]
fn binary(op: Binary, lane: Lane, a: u64, b: u64) -> u64 {
    match lane {
        Lane::F32 => of_f32(match op {
            Binary::Add => f32_of(a) + f32_of(b),
            Binary::Sub => f32_of(a) - f32_of(b),
            Binary::Mul => f32_of(a) * f32_of(b),
            Binary::Div => f32_of(a) / f32_of(b),
            _ => real_binary(op, f64::from(f32_of(a)), f64::from(f32_of(b))) as f32,
        }),
        Lane::F64 => real_binary(op, f64_of(a), f64_of(b)).to_bits(),
        Lane::I32 => of_i32(binary_i32(op, a as i32, b as i32)),
        Lane::I64 => binary_i64(op, a as i64, b as i64) as u64,
        Lane::Mask => match op {
            Binary::And | Binary::Mul | Binary::Min | Binary::MinU => a & b,
            Binary::Xor => a ^ b,
            _ => a | b,
        },
    }
}

fn ordered<T: PartialOrd>(op: Compare, a: T, b: T) -> bool {
    match op {
        Compare::Eq => a == b,
        Compare::Ne => a != b,
        Compare::Lt | Compare::LtU => a < b,
        Compare::Le | Compare::LeU => a <= b,
        Compare::Gt | Compare::GtU => a > b,
        Compare::Ge | Compare::GeU => a >= b,
    }
}

#[inline]
fn compare(op: Compare, lane: Lane, a: u64, b: u64) -> bool {
    let unsigned = matches!(op, Compare::LtU | Compare::LeU | Compare::GtU | Compare::GeU);
    match lane {
        Lane::F32 => ordered(op, f32_of(a), f32_of(b)),
        Lane::F64 => ordered(op, f64_of(a), f64_of(b)),
        Lane::I32 if !unsigned => ordered(op, a as i32, b as i32),
        Lane::I64 if !unsigned => ordered(op, a as i64, b as i64),
        _ => ordered(op, a, b),
    }
}

/// An integer of a lane brought into the range of its type.
#[inline]
fn wrap(dtype: DType, bits: u64) -> u64 {
    let unused = 64 - dtype.bits();
    if dtype.is_signed_integer() {
        let value = ((bits << unused) as i64) >> unused;
        if dtype.bits() == 64 { value as u64 } else { of_i32(value as i32) }
    } else {
        bits << unused >> unused
    }
}

/// A real as the bits of its lane, after rounding to a type.
#[inline]
fn lane_of_real(dtype: DType, value: f64) -> u64 {
    match dtype {
        DType::F64 => value.to_bits(),
        DType::F32 => of_f32(value as f32),
        _ => {
            let nearest = encode_float(dtype, value).and_then(|bits| decode_float(dtype, bits)).unwrap_or(value);
            of_f32(nearest as f32)
        }
    }
}

fn round(dtype: DType, a: u64) -> u64 {
    match dtype {
        DType::F32 | DType::F64 | DType::Bool => a,
        DType::BF16 => of_f32(from_bf16(to_bf16(f32_of(a)))),
        _ if dtype.is_integer() => wrap(dtype, a),
        _ => lane_of_real(dtype, f64::from(f32_of(a))),
    }
}

fn convert(source: DType, target: DType, a: u64) -> u64 {
    let real = match source {
        DType::F64 => f64_of(a),
        _ if source.is_float() => f64::from(f32_of(a)),
        _ => {
            let value: i128 = if source.is_signed_integer() {
                if source.bits() == 64 { i128::from(a as i64) } else { i128::from(a as i32) }
            } else {
                i128::from(a)
            };
            return if target.is_bool() {
                u64::from(value != 0)
            } else if target.is_integer() {
                wrap(target, value as u64)
            } else {
                lane_of_real(target, sticky(target, value))
            };
        }
    };
    if target.is_bool() {
        u64::from(real != 0.0)
    } else if target.is_integer() {
        let bits = target.bits();
        let (low, high) = if target.is_signed_integer() {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        } else {
            (0, (1i128 << bits) - 1)
        };
        wrap(target, (real as i128).clamp(low, high) as u64)
    } else {
        lane_of_real(target, real)
    }
}

/// An integer as a double that rounds to the same value of a narrower type as the integer itself: what does not fit 53
/// bits leaves a sticky last bit.
fn sticky(target: DType, value: i128) -> f64 {
    let magnitude = value.unsigned_abs();
    if target == DType::F64 || magnitude < 1 << 53 {
        return value as f64;
    }
    let drop = 128 - magnitude.leading_zeros() - 53;
    let kept = magnitude >> drop;
    let cut = (kept | u128::from(kept << drop != magnitude)) as f64 * 2f64.powi(drop as i32);
    if value < 0 { -cut } else { cut }
}

/// The nearest bf16, ties to even.
#[inline]
pub(crate) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[inline]
pub(crate) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// An element as the bits of its lane; 0 for complex types.
///
/// # Safety
/// `base` points to an array of `dtype` with an element `index`.
#[inline]
pub(crate) unsafe fn load(dtype: DType, base: *const u8, index: usize) -> u64 {
    // SAFETY: the caller vouches for element `index` of this width.
    unsafe {
        match dtype {
            DType::F32 | DType::I32 | DType::U32 => u64::from(base.cast::<u32>().add(index).read()),
            DType::F64 | DType::I64 | DType::U64 => base.cast::<u64>().add(index).read(),
            DType::Bool => u64::from(base.add(index).read() != 0),
            DType::BF16 => u64::from(base.cast::<u16>().add(index).read()) << 16,
            DType::I16 => of_i32(i32::from(base.cast::<i16>().add(index).read())),
            DType::U16 => u64::from(base.cast::<u16>().add(index).read()),
            DType::F16 => lane_of_half(base.cast::<u16>().add(index).read()),
            DType::C64 | DType::C128 => 0,
            _ if dtype.is_integer() => wrap(dtype, u64::from(base.add(index).read())),
            _ => of_f32(decode_float(dtype, u64::from(base.add(index).read())).unwrap_or(f64::NAN) as f32),
        }
    }
}

fn lane_of_half(bits: u16) -> u64 {
    of_f32(decode_float(DType::F16, u64::from(bits)).unwrap_or(f64::NAN) as f32)
}

/// Writes an element from the bits of its lane; the value is one its type can hold.
///
/// # Safety
/// `base` points to an array of `dtype` with an element `index`, not of a complex type.
#[inline]
pub(crate) unsafe fn store(dtype: DType, base: *mut u8, index: usize, bits: u64) {
    // SAFETY: the caller vouches for element `index` of this width.
    unsafe {
        match dtype {
            DType::F32 | DType::I32 | DType::U32 => base.cast::<u32>().add(index).write(bits as u32),
            DType::F64 | DType::I64 | DType::U64 => base.cast::<u64>().add(index).write(bits),
            DType::BF16 => base.cast::<u16>().add(index).write(to_bf16(f32_of(bits))),
            DType::I16 | DType::U16 => base.cast::<u16>().add(index).write(bits as u16),
            DType::F16 => {
                let half = encode_float(dtype, f64::from(f32_of(bits))).unwrap_or(0);
                base.cast::<u16>().add(index).write(half as u16);
            }
            DType::C64 | DType::C128 => {}
            _ if dtype.is_integer() || dtype.is_bool() => base.add(index).write(bits as u8),
            _ => base.add(index).write(encode_float(dtype, f64::from(f32_of(bits))).unwrap_or(0) as u8),
        }
    }
}

/// One step of a fold, on elements of a type.
pub(crate) fn fold(fold: Fold, dtype: DType, lane: Lane, a: u64, b: u64) -> u64 {
    round(dtype, binary(fold.binary(), lane, a, b))
}

/// One element from its bytes, as the bits of its lane.
pub(crate) fn decode(dtype: DType, bytes: &[u8]) -> u64 {
    let mut word = [0u64; 2];
    for (n, byte) in bytes.iter().take(16).enumerate() {
        word[n / 8] |= u64::from(*byte) << (n % 8 * 8);
    }
    let word = word.map(u64::to_le);
    // SAFETY: `word` has 16 bytes, as many as the widest type, aligned to 8, and lies in memory as the element would.
    unsafe { load(dtype, word.as_ptr().cast(), 0) }
}
