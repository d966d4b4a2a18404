//! Random numbers from keys: threefry2x32 over counters, bit for bit the streams of JAX.

use std::panic::Location;

use tensor::{DType, Literal};

use crate::error::misuse;
use crate::line;
use crate::ops::order::{Order, sort_together};
use crate::tensor::Tensor;
use crate::tree::{Path, Tree};

/// Where a stream of random numbers starts; the same key always gives the same numbers.
///
/// A key is used once: [`Key::split`] it, or [`Key::fold_in`] a number, for more streams. It is a `u32[2]` tensor, so it is
/// an input of a traced function, is sliced by [`crate::scan`] after [`Key::stacked`], and is saved with the other state.
#[derive(Clone, Debug)]
pub struct Key {
    data: Tensor,
}

impl Tree for Key {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        f(path, &self.data);
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        Key { data: f(path, &self.data) }
    }
}

/// What a [`Key`] is made from: a number, or an integer scalar of the traced function.
#[derive(Clone, Debug)]
pub enum Seed {
    /// A number.
    Number(u64),
    /// A scalar of 32 or 64 bits.
    Scalar(Tensor),
}

impl From<u64> for Seed {
    fn from(seed: u64) -> Seed {
        Seed::Number(seed)
    }
}

impl From<&Tensor> for Seed {
    fn from(seed: &Tensor) -> Seed {
        Seed::Scalar(seed.clone())
    }
}

/// Rotations of the rounds, which alternate by fours.
const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
/// What the third word of the key schedule is xor-ed with.
const PARITY: u32 = 0x1BD1_1BDA;

/// Constants of a `u32`.
#[track_caller]
fn word(value: u32) -> Tensor {
    Tensor::scalar(DType::U32, f64::from(value))
}

/// The block cipher: two words of counter become two words of random bits.
#[track_caller]
fn threefry(key: (&Tensor, &Tensor), counter: (&Tensor, &Tensor)) -> (Tensor, Tensor) {
    let schedule = [key.0.clone(), key.1.clone(), key.0.xor(key.1).xor(&word(PARITY))];
    let mut left = counter.0 + &schedule[0];
    let mut right = counter.1 + &schedule[1];
    for round in 0..5usize {
        for &by in &ROTATIONS[round % 2] {
            left = &left + &right;
            right = right.shift_left(&word(by)).or(&right.shift_right(&word(32 - by))).xor(&left);
        }
        left = &left + &schedule[(round + 1) % 3];
        right = &right + &(&schedule[(round + 2) % 3] + &word(round as u32 + 1));
    }
    (left, right)
}

/// Rows of a larger tensor along its first axis: `first`, `first + every`, and so on, of `of`.
///
/// What is drawn for them is what the larger tensor has there.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The first, an `i32` or `u32` scalar.
    pub first: Tensor,
    /// From one to the next.
    pub every: usize,
    /// Rows of the larger tensor.
    pub of: usize,
}

/// The position of each element in row-major order, as high and low words; of rows, the position in what they are rows of.
#[track_caller]
fn counters(dims: &[usize], rows: Option<&Rows>) -> (Tensor, Tensor) {
    let (every, of) = rows.map_or((1, dims.first().copied().unwrap_or(1)), |rows| (rows.every as u64, rows.of));
    let rest = dims.get(1..).unwrap_or_default().iter();
    let total = rest.chain([&of]).try_fold(1u64, |total, &size| total.checked_mul(size as u64));
    let Some(total) = total else { misuse(Location::caller(), format!("{dims:?} has more than 2^64 elements")) };
    let dtype = if total <= 1 << 32 { DType::U32 } else { DType::U64 };
    // A sum over axes, not a flat iota: a partitioned program computes its own part only.
    let mut position = Tensor::zeros(dtype, dims);
    let mut stride = 1u64;
    for axis in (0..dims.len()).rev() {
        if dims[axis] > 1 {
            let step = if axis == 0 { stride.saturating_mul(every) } else { stride };
            position = position + Tensor::iota(dtype, dims, axis) * integer(dtype, step);
        }
        if let (0, Some(rows)) = (axis, rows) {
            position = position + rows.first.cast(dtype) * integer(dtype, stride);
        }
        stride = stride.saturating_mul(dims[axis] as u64);
    }
    if dtype == DType::U32 {
        return (Tensor::zeros(DType::U32, dims), position);
    }
    (position.shift_right(&integer(dtype, 32)).cast(DType::U32), position.cast(DType::U32))
}

/// An integer scalar, exact in all bits.
#[track_caller]
fn integer(dtype: DType, value: u64) -> Tensor {
    match Literal::new(dtype, [], value.to_le_bytes()[..dtype.size_bytes().min(8)].to_vec()) {
        Some(literal) => Tensor::constant(&literal),
        None => misuse(Location::caller(), format!("{dtype} has no constants")),
    }
}

/// Bits of the mantissa that are stored, and the unsigned type of the same width.
#[track_caller]
fn rules(dtype: DType) -> (u32, DType) {
    match dtype {
        DType::F64 => (52, DType::U64),
        DType::F32 => (23, DType::U32),
        DType::F16 => (10, DType::U16),
        DType::BF16 => (7, DType::U16),
        _ => misuse(Location::caller(), format!("random numbers of {dtype}: cast them from f32")),
    }
}

/// The smallest normal number of a type.
fn tiny(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F16 => 2f64.powi(-14),
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

/// The number of a type next to a value, which is rounded to the type first.
#[track_caller]
fn next_to(dtype: DType, value: f64, up: Next) -> f64 {
    let at = Location::caller();
    let Some(bits) = tensor::encode_float(dtype, value) else { misuse(at, format!("{value} as {dtype}")) };
    let sign = 1u64 << (dtype.bits() - 1);
    let (is_negative, magnitude) = (bits & sign != 0, bits & (sign - 1));
    let rises = up == Next::Up;
    let next = match (magnitude, is_negative) {
        (0, _) if rises => 1,
        (0, _) => sign | 1,
        (magnitude, false) if rises => magnitude + 1,
        (magnitude, false) => magnitude - 1,
        (magnitude, true) if rises => sign | (magnitude - 1),
        (magnitude, true) => sign | (magnitude + 1),
    };
    if !value.is_finite() {
        return value;
    }
    tensor::decode_float(dtype, next).unwrap_or(value)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Up,
    Down,
}

impl Key {
    /// The key of a seed, as `jax.random.key` makes it.
    #[track_caller]
    pub fn from_seed(seed: impl Into<Seed>) -> Key {
        let at = Location::caller();
        match seed.into() {
            Seed::Number(seed) => {
                let words = [(seed >> 32) as u32, seed as u32];
                let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                match Literal::new(DType::U32, [2], bytes) {
                    Some(literal) => Key { data: Tensor::constant(&literal) },
                    None => misuse(at, "a key has two words"),
                }
            }
            Seed::Scalar(seed) => {
                let is_integer = seed.dtype().is_signed_integer() || seed.dtype().is_unsigned_integer();
                if !is_integer || seed.rank() != 0 {
                    misuse(at, format!("a seed is an integer scalar, not {}", seed.spec()));
                }
                let high = if seed.dtype().bits() > 32 {
                    seed.shift_right(&integer(seed.dtype(), 32)).cast(DType::U32)
                } else {
                    word(0)
                };
                Key { data: Tensor::stack(&[high, seed.cast(DType::U32)], 0) }
            }
        }
    }

    /// The key with these two words, a `u32[2]` tensor.
    #[track_caller]
    pub fn from_data(data: &Tensor) -> Key {
        if data.dtype() != DType::U32 || data.dims().last() != Some(&2) {
            misuse(Location::caller(), format!("a key is u32[2], not {}", data.spec()));
        }
        Key { data: data.clone() }
    }

    /// A key known by its type and shape only, as an input of [`crate::trace()`].
    pub fn shape() -> Key {
        Key { data: Tensor::of(crate::Spec::new(DType::U32, [2])) }
    }

    /// The two words, `u32[2]`; `u32[n, 2]` of [`Key::stacked`] ones.
    pub fn data(&self) -> &Tensor {
        &self.data
    }

    #[track_caller]
    fn words(&self) -> (Tensor, Tensor) {
        if self.data.dims() != [2] || self.data.dtype() != DType::U32 {
            misuse(
                Location::caller(),
                format!("one key is u32[2], this is {}: slice stacked keys by scan", self.data.spec()),
            );
        }
        (self.data.at(0, 0), self.data.at(0, 1))
    }

    /// As many independent keys.
    #[track_caller]
    pub fn split(&self, count: usize) -> Vec<Key> {
        let _line = line::of(Location::caller());
        let all = self.stacked(count).data;
        (0..count).map(|n| Key { data: all.at(0, n) }).collect()
    }

    /// As many independent keys in one tensor, `u32[count, 2]`: for [`crate::scan`] over them.
    #[track_caller]
    #[must_use]
    pub fn stacked(&self, count: usize) -> Key {
        let (high, low) = self.cipher(&[count], None);
        Key { data: Tensor::stack(&[high, low], 1) }
    }

    /// An independent key for a number such as a step or the index of a layer.
    #[track_caller]
    #[must_use]
    pub fn fold_in(&self, number: impl Into<Seed>) -> Key {
        let data = match number.into() {
            Seed::Number(number) => word(number as u32),
            Seed::Scalar(number) => number.cast(DType::U32),
        };
        if data.rank() != 0 {
            misuse(Location::caller(), format!("fold_in needs a scalar, not {}", data.spec()));
        }
        let key = self.words();
        let (high, low) = threefry((&key.0, &key.1), (&word(0), &data));
        Key { data: Tensor::stack(&[high, low], 0) }
    }

    #[track_caller]
    fn cipher(&self, dims: &[usize], rows: Option<&Rows>) -> (Tensor, Tensor) {
        let key = self.words();
        let (high, low) = counters(dims, rows);
        threefry((&key.0, &key.1), (&high, &low))
    }

    /// Random bits as unsigned integers of 8, 16, 32 or 64 bits.
    #[track_caller]
    #[must_use]
    pub fn bits(&self, dtype: DType, dims: &[usize]) -> Tensor {
        self.bits_of(dtype, dims, None)
    }

    #[track_caller]
    fn bits_of(&self, dtype: DType, dims: &[usize], rows: Option<&Rows>) -> Tensor {
        let (high, low) = match dtype {
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => self.cipher(dims, rows),
            _ => misuse(Location::caller(), format!("random bits are u8, u16, u32 or u64, not {dtype}")),
        };
        if dtype == DType::U64 {
            let high = high.cast(dtype).shift_left(&integer(dtype, 32));
            return high.or(&low.cast(dtype));
        }
        high.xor(&low).cast(dtype)
    }

    /// Numbers from `low` up to `high`, all equally likely.
    #[track_caller]
    #[must_use]
    pub fn uniform(&self, dtype: DType, dims: &[usize], low: f64, high: f64) -> Tensor {
        self.uniform_between(dims, None, &Tensor::scalar(dtype, low), &Tensor::scalar(dtype, high))
    }

    #[track_caller]
    fn uniform_between(&self, dims: &[usize], rows: Option<&Rows>, low: &Tensor, high: &Tensor) -> Tensor {
        let _line = line::of(Location::caller());
        let dtype = low.dtype();
        let (mantissa, unsigned) = rules(dtype);
        // A short mantissa takes its bits from one byte.
        let drawn = if mantissa < 8 { DType::U8 } else { unsigned };
        let bits = self.bits_of(drawn, dims, rows).cast(unsigned);
        let shift = drawn.bits() as u64 - u64::from(mantissa);
        let one = tensor::encode_float(dtype, 1.0).unwrap_or(0);
        // An exponent of 0 and a random mantissa: from 1 up to 2.
        let floats = bits.shift_right(&integer(unsigned, shift)).or(&integer(unsigned, one)).bitcast(dtype);
        let scaled = &(&(&floats - 1.0) * &(high - low)) + low;
        low.maximum(&scaled)
    }

    /// Numbers of the normal distribution of mean 0 and variance 1.
    #[track_caller]
    #[must_use]
    pub fn normal(&self, dtype: DType, dims: &[usize]) -> Tensor {
        let low = next_to(dtype, -1.0, Next::Up);
        &self.uniform(dtype, dims, low, 1.0).erf_inv() * std::f64::consts::SQRT_2
    }

    /// Numbers of the normal distribution between two bounds, in units of its deviation.
    #[track_caller]
    #[must_use]
    pub fn truncated_normal(&self, dtype: DType, dims: &[usize], lower: f64, upper: f64) -> Tensor {
        let _line = line::of(Location::caller());
        let edge = |bound: f64| (&Tensor::scalar(dtype, bound) / std::f64::consts::SQRT_2).erf();
        let uniform = self.uniform_between(dims, None, &edge(lower), &edge(upper));
        let out = &uniform.erf_inv() * std::f64::consts::SQRT_2;
        let inside = |value: f64, next: Next| Tensor::scalar(dtype, next_to(dtype, value, next));
        out.maximum(&inside(lower, Next::Up)).minimum(&inside(upper, Next::Down))
    }

    /// True with probability `p`.
    #[track_caller]
    #[must_use]
    pub fn bernoulli(&self, p: f64, dims: &[usize]) -> Tensor {
        self.bernoulli_of(&Tensor::scalar(DType::F32, p), dims)
    }

    /// What [`Key::bernoulli`] gives at these rows of a larger tensor; `dims` are those of the rows.
    #[track_caller]
    #[must_use]
    pub fn bernoulli_rows(&self, p: f64, dims: &[usize], rows: &Rows) -> Tensor {
        let of = |number: f64| Tensor::scalar(DType::F32, number);
        self.uniform_between(dims, Some(rows), &of(0.0), &of(1.0)).less(&of(p))
    }

    /// True with the probabilities of a tensor that broadcasts to the shape.
    #[track_caller]
    #[must_use]
    pub fn bernoulli_of(&self, p: &Tensor, dims: &[usize]) -> Tensor {
        self.uniform(p.dtype(), dims, 0.0, 1.0).less(p)
    }

    /// Numbers of the Gumbel distribution.
    #[track_caller]
    #[must_use]
    pub fn gumbel(&self, dtype: DType, dims: &[usize]) -> Tensor {
        self.uniform(dtype, dims, tiny(dtype), 1.0).log().negate().log().negate()
    }

    /// One position along an axis, which is dropped, with the probabilities `softmax(logits)`; `i32`.
    #[track_caller]
    #[must_use]
    pub fn categorical(&self, logits: &Tensor, axis: isize) -> Tensor {
        (&self.gumbel(logits.dtype(), logits.dims()) + logits).argmax(axis)
    }

    /// `0..count` in random order, `i32`.
    #[track_caller]
    #[must_use]
    pub fn permutation(&self, count: usize) -> Tensor {
        let _line = line::of(Location::caller());
        let mut order = Tensor::iota(DType::I32, &[count], 0);
        // Keys of 32 bits may be equal; so many rounds make every order equally likely for all that can be measured.
        let rounds = (3.0 * (count.max(1) as f64).ln() / f64::from(u32::MAX).ln()).ceil() as usize;
        let mut key = self.clone();
        for _ in 0..rounds {
            let [next, drawn] = <[Key; 2]>::try_from(key.split(2)).unwrap_or_else(|_| unreachable!("two were asked"));
            let sorted = sort_together(&[drawn.bits(DType::U32, &[count]), order.clone()], 0, Order::Ascending);
            order = sorted[1].clone();
            key = next;
        }
        order
    }

    /// Slices along an axis in random order.
    #[track_caller]
    #[must_use]
    pub fn shuffle(&self, tensor: &Tensor, axis: isize) -> Tensor {
        tensor.take(axis, &self.permutation(tensor.dim(axis)))
    }

    /// Integers from `low` up to but without `high`.
    #[track_caller]
    #[must_use]
    pub fn randint(&self, dtype: DType, dims: &[usize], low: i64, high: i64) -> Tensor {
        let _line = line::of(Location::caller());
        let at = Location::caller();
        let bits = dtype.bits();
        let unsigned = if bits == 64 { DType::U64 } else { DType::U32 };
        let (least, most): (i128, i128) = if dtype.is_signed_integer() {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        } else if dtype.is_unsigned_integer() {
            (0, (1i128 << bits) - 1)
        } else {
            misuse(at, format!("random integers of {dtype}"));
        };
        if low >= high || i128::from(low) < least || i128::from(high) > most + 1 {
            misuse(at, format!("random integers of {dtype} from {low} up to {high}"));
        }
        if bits < 32 {
            // Narrow integers are drawn in 32 bits, where a span counts less.
            return self.randint(DType::I32, dims, low, high).cast(dtype);
        }
        let span = (i128::from(high) - i128::from(low)) as u128;
        let [first, second] = <[Key; 2]>::try_from(self.split(2)).unwrap_or_else(|_| unreachable!("two were asked"));
        let (higher, lower) = (first.bits(unsigned, dims), second.bits(unsigned, dims));
        let offset = if span == 1u128 << bits {
            lower
        } else {
            // Twice the bits, of which the upper half counts 2^bits modulo the span, computed in this width as JAX does:
            // for spans of more than half the bits the upper half does not count.
            let half = (1u128 << (bits / 2)) % span;
            let multiplier = integer(unsigned, ((half * half) % (1u128 << bits) % span) as u64);
            let span = integer(unsigned, span as u64);
            let sum = &(&(&higher % &span) * &multiplier) + &(&lower % &span);
            &sum % &span
        };
        &offset.cast(dtype) + &integer(dtype, low as u64)
    }
}
