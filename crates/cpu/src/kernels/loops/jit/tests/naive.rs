//! The meaning of a loop, one row and one lane at a time.

use tensor::DType;
use tensor::{decode_float, encode_float};

use crate::kernels::loops::ir::{Binary, Compare, Fold, Inst, Lane, Loop, Mode, Unary};

/// The bits of a lane.
pub(super) type Bits = u64;

fn real(lane: Lane, bits: Bits) -> f64 {
    if lane == Lane::F64 { f64::from_bits(bits) } else { f64::from(f32::from_bits(bits as u32)) }
}

fn of_real(lane: Lane, value: f64) -> Bits {
    if lane == Lane::F64 { value.to_bits() } else { u64::from((value as f32).to_bits()) }
}

fn integer(lane: Lane, bits: Bits) -> i64 {
    if lane == Lane::I64 { bits as i64 } else { i64::from(bits as u32 as i32) }
}

fn unsigned(lane: Lane, bits: Bits) -> u64 {
    if lane == Lane::I64 { bits } else { bits & 0xffff_ffff }
}

fn of_integer(lane: Lane, value: i64) -> Bits {
    if lane == Lane::I64 { value as u64 } else { u64::from(value as u32) }
}

fn is_real(lane: Lane) -> bool {
    matches!(lane, Lane::F32 | Lane::F64)
}

pub(super) fn load(dtype: DType, bytes: &[u8]) -> Bits {
    let mut raw = [0; 8];
    raw[..bytes.len()].copy_from_slice(bytes);
    let raw = u64::from_le_bytes(raw);
    if dtype.is_bool() {
        u64::from(raw != 0)
    } else if dtype.is_float() {
        match dtype {
            DType::F32 | DType::F64 => raw,
            _ => of_real(Lane::F32, decode_float(dtype, raw).unwrap()),
        }
    } else {
        let unused = 64 - 8 * bytes.len() as u32;
        let value = if dtype.is_signed_integer() { (raw << unused) as i64 >> unused } else { raw as i64 };
        of_integer(Lane::of(dtype).unwrap(), value)
    }
}

pub(super) fn store(dtype: DType, bits: Bits) -> Vec<u8> {
    let raw = match dtype {
        DType::BF16 | DType::F16 => encode_float(dtype, real(Lane::F32, bits)).unwrap(),
        _ => bits,
    };
    raw.to_le_bytes()[..dtype.size_bytes()].to_vec()
}

fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_positive() { a } else { b }
    } else {
        a.max(b)
    }
}

fn unary(op: Unary, lane: Lane, a: Bits) -> Bits {
    if lane == Lane::Mask {
        return a ^ 1;
    }
    if !is_real(lane) {
        let value = integer(lane, a);
        let width = if lane == Lane::I64 { 64 } else { 32 };
        return of_integer(
            lane,
            match op {
                Unary::Neg => value.wrapping_neg(),
                Unary::Abs => value.wrapping_abs(),
                Unary::Sign => value.signum(),
                Unary::Not => !value,
                Unary::PopCount => i64::from(unsigned(lane, a).count_ones()),
                Unary::LeadingZeros => i64::from(unsigned(lane, a).leading_zeros()) - (64 - width),
                _ => unreachable!("{op:?}"),
            },
        );
    }
    let x = real(lane, a);
    let value = match op {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign => {
            if x == 0.0 || x.is_nan() {
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
        Unary::Exp => x.exp(),
        Unary::ExpMinusOne => x.exp_m1(),
        Unary::Log => x.ln(),
        Unary::LogPlusOne => x.ln_1p(),
        Unary::Tanh => x.tanh(),
        Unary::Logistic => 1.0 / (1.0 + (-x).exp()),
        Unary::Erf => erf(x),
        Unary::Cbrt => x.cbrt(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::IsFinite => return u64::from(x.is_finite()),
        _ => unreachable!("{op:?}"),
    };
    of_real(lane, value)
}

/// The series, good to about 1e-13.
fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.abs() > 5.9 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

fn binary(op: Binary, lane: Lane, a: Bits, b: Bits) -> Bits {
    if lane == Lane::Mask {
        return match op {
            Binary::And => a & b,
            Binary::Or => a | b,
            Binary::Xor => a ^ b,
            _ => unreachable!("{op:?}"),
        };
    }
    if is_real(lane) {
        let (x, y) = (real(lane, a), real(lane, b));
        let value = match op {
            // Twice rounded, but f64 is wide enough for these to be the same.
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Mul => x * y,
            Binary::Div => x / y,
            Binary::Rem => x % y,
            Binary::Min => -maximum(-x, -y),
            Binary::Max => maximum(x, y),
            Binary::Pow => x.powf(y),
            Binary::Atan2 => x.atan2(y),
            _ => unreachable!("{op:?}"),
        };
        return of_real(lane, value);
    }
    let (x, y) = (integer(lane, a), integer(lane, b));
    let (u, v) = (unsigned(lane, a), unsigned(lane, b));
    let width = if lane == Lane::I64 { 64 } else { 32 };
    let value = match op {
        Binary::Add => x.wrapping_add(y),
        Binary::Sub => x.wrapping_sub(y),
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div => {
            if y == 0 {
                -1
            } else {
                x.wrapping_div(y)
            }
        }
        Binary::Rem => {
            if y == 0 {
                x
            } else {
                x.wrapping_rem(y)
            }
        }
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::DivU => u.checked_div(v).map_or(-1, |q| q as i64),
        Binary::RemU => u.checked_rem(v).unwrap_or(u) as i64,
        Binary::MinU => u.min(v) as i64,
        Binary::MaxU => u.max(v) as i64,
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::Shl => {
            if v >= width {
                0
            } else {
                x << v
            }
        }
        Binary::ShrL => {
            if v >= width {
                0
            } else {
                (u >> v) as i64
            }
        }
        Binary::ShrA => x >> v.min(63),
        _ => unreachable!("{op:?}"),
    };
    of_integer(lane, value)
}

fn compare(op: Compare, lane: Lane, a: Bits, b: Bits) -> Bits {
    let (u, v) = (unsigned(lane, a), unsigned(lane, b));
    let order = if is_real(lane) {
        real(lane, a).partial_cmp(&real(lane, b))
    } else {
        Some(integer(lane, a).cmp(&integer(lane, b)))
    };
    u64::from(match op {
        Compare::Eq => order.is_some_and(|o| o.is_eq()),
        Compare::Ne => order.is_none_or(|o| o.is_ne()),
        Compare::Lt => order.is_some_and(|o| o.is_lt()),
        Compare::Le => order.is_some_and(|o| o.is_le()),
        Compare::Gt => order.is_some_and(|o| o.is_gt()),
        Compare::Ge => order.is_some_and(|o| o.is_ge()),
        Compare::LtU => u < v,
        Compare::LeU => u <= v,
        Compare::GtU => u > v,
        Compare::GeU => u >= v,
    })
}

fn fold(op: Fold, lane: Lane, a: Bits, b: Bits) -> Bits {
    let op = match op {
        Fold::Sum => Binary::Add,
        Fold::Product => Binary::Mul,
        Fold::Min => Binary::Min,
        Fold::Max => Binary::Max,
        Fold::MinU => Binary::MinU,
        Fold::MaxU => Binary::MaxU,
        Fold::And => Binary::And,
        Fold::Or => Binary::Or,
        Fold::Xor => Binary::Xor,
    };
    binary(op, lane, a, b)
}

fn round(dtype: DType, bits: Bits) -> Bits {
    match dtype {
        DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64 | DType::Bool => bits,
        DType::BF16 | DType::F16 => {
            let value = real(Lane::F32, bits);
            of_real(Lane::F32, decode_float(dtype, encode_float(dtype, value).unwrap()).unwrap())
        }
        _ => {
            let unused = 32 - dtype.bits();
            let up = (bits as u32) << unused;
            u64::from(if dtype.is_signed_integer() { (up as i32 >> unused) as u32 } else { up >> unused })
        }
    }
}

fn convert(bits: Bits, source: DType, target: DType) -> Bits {
    let (from, to) = (Lane::of(source).unwrap(), Lane::of(target).unwrap());
    if to == Lane::Mask {
        return match from {
            Lane::F32 | Lane::F64 => u64::from(real(from, bits) != 0.0),
            _ => u64::from(bits != 0),
        };
    }
    if is_real(from) {
        let value = real(from, bits);
        if is_real(to) {
            return round(target, of_real(to, value));
        }
        let width = target.bits();
        let result = if target.is_signed_integer() {
            let most = i64::MAX >> (64 - width);
            (value as i64).clamp(-most - 1, most)
        } else {
            let most = u64::MAX >> (64 - width);
            (value as u64).min(most) as i64
        };
        return of_integer(to, result);
    }
    let value = match from {
        Lane::Mask => i128::from(bits),
        _ if source.is_unsigned_integer() => i128::from(unsigned(from, bits)),
        _ => i128::from(integer(from, bits)),
    };
    match to {
        Lane::F64 => (value as f64).to_bits(),
        Lane::F32 => of_real(Lane::F32, decode_float(target, encode_float(target, value as f64).unwrap()).unwrap()),
        _ => round(target, of_integer(to, value as i64)),
    }
}

/// Runs a loop: contents of the reads, contents of the writes before; gives those after.
pub(super) fn run(source: &Loop, reads: &[Vec<u8>], writes: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let lanes = source.lanes();
    let mut writes = writes.to_vec();
    let (count, outer) = source.dims.split_last().unwrap();
    let mut position = vec![0usize; outer.len() + 1];
    for row in 0..outer.iter().product::<usize>() {
        let mut rest = row;
        for (p, size) in position.iter_mut().zip(outer).rev() {
            *p = rest % size;
            rest /= size;
        }
        let place = |strides: &[isize], offset: isize, at: usize| -> usize {
            let start: isize = position[..outer.len()].iter().zip(strides).map(|(&p, &s)| p as isize * s).sum();
            (offset + start + at as isize * strides[outer.len()]) as usize
        };
        let mut values: Vec<Vec<Bits>> = Vec::new();
        for (reg, inst) in source.insts.iter().enumerate() {
            let lane = |r: super::Reg| lanes[r.0 as usize];
            let get = |r: super::Reg, at: usize| values[r.0 as usize][at];
            let value = |at: usize| match *inst {
                Inst::Load(n) => {
                    let access = &source.reads[n as usize];
                    let size = access.dtype.size_bytes();
                    let start = place(&access.strides, access.offset, at) * size;
                    load(access.dtype, &reads[n as usize][start..start + size])
                }
                Inst::Const { bits, .. } => bits,
                Inst::Index { lane, dim } => {
                    let along = if dim as usize == outer.len() { at } else { position[dim as usize] };
                    of_integer(lane, along as i64)
                }
                Inst::Unary(op, a) => unary(op, lane(a), get(a, at)),
                Inst::Binary(op, a, b) => binary(op, lane(a), get(a, at), get(b, at)),
                Inst::Fma(a, b, c) if lane(a) == Lane::F32 => {
                    let [a, b, c] = [a, b, c].map(|r| f32::from_bits(get(r, at) as u32));
                    u64::from(a.mul_add(b, c).to_bits())
                }
                Inst::Fma(a, b, c) => {
                    let [a, b, c] = [a, b, c].map(|r| f64::from_bits(get(r, at)));
                    a.mul_add(b, c).to_bits()
                }
                Inst::Compare(op, a, b) => compare(op, lane(a), get(a, at), get(b, at)),
                Inst::Select(m, a, b) => get(if get(m, at) != 0 { a } else { b }, at),
                Inst::Convert { value, source, target } => convert(get(value, at), source, target),
                Inst::Bitcast(a) => get(a, at),
                Inst::Round(dtype, a) => round(dtype, get(a, at)),
                Inst::Reduce(op, a) => {
                    let column = &values[a.0 as usize];
                    if matches!((op, lane(a)), (Fold::Sum, Lane::F32)) {
                        of_real(Lane::F32, column.iter().map(|&v| real(Lane::F32, v)).sum())
                    } else {
                        column[1..].iter().fold(column[0], |all, &v| fold(op, lane(a), all, v))
                    }
                }
            };
            let column = match inst {
                Inst::Reduce(..) => vec![value(0); *count],
                _ => (0..*count).map(value).collect(),
            };
            debug_assert_eq!(reg, values.len());
            values.push(column);
        }
        for (n, write) in source.writes.iter().enumerate() {
            let (access, column) = (&write.access, &values[write.value.0 as usize]);
            let size = access.dtype.size_bytes();
            let once = access.strides[outer.len()] == 0;
            for (at, &value) in column.iter().enumerate().take(if once { 1 } else { *count }) {
                let start = place(&access.strides, access.offset, at) * size;
                let value = match write.mode {
                    Mode::Store => value,
                    Mode::Combine(op) => {
                        let before = load(access.dtype, &writes[n][start..start + size]);
                        fold(op, Lane::of(access.dtype).unwrap(), before, value)
                    }
                };
                writes[n][start..start + size].copy_from_slice(&store(access.dtype, value));
            }
        }
    }
    writes
}
