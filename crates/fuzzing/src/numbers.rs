//! Choices: numbers that look random and are the same for the same seed, or the bytes of a fuzzer.

use tensor::{DType, Literal, encode_float};

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Numbers {
    state: u64,
    /// What a fuzzer gave, last first: choices are taken from here while there are any.
    given: Vec<u8>,
}

/// A number for a text (FNV-1a).
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// What an argument's floats look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Quarters from -2 to 2, with zeros of both signs.
    Quarters,
    /// Quarters, infinities and NaNs.
    Special,
    /// Any numbers from 0.5 to 2.
    Positive,
    /// Any numbers from -2 to 2.
    Any,
}

impl Numbers {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Numbers {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d | 1;
        let mut numbers = Numbers { state, given: Vec::new() };
        for _ in 0..8 {
            numbers.bits();
        }
        numbers
    }

    /// Numbers that a fuzzer's bytes decide, two for each, and a seed made of them when they are used up.
    pub fn from_bytes(bytes: &[u8]) -> Numbers {
        Numbers { given: bytes.iter().rev().copied().collect(), ..Numbers::new(hash(bytes)) }
    }

    pub(crate) fn bits(&mut self) -> u64 {
        if let Some(low) = self.given.pop() {
            return u64::from(low) | u64::from(self.given.pop().unwrap_or(0)) << 8;
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1).max(1) as usize) as i64
    }

    /// True in one of `n` cases.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    fn float(&mut self, look: Look) -> f64 {
        let n = self.bits();
        match look {
            Look::Special if n.is_multiple_of(7) => self.pick(&[f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0]),
            Look::Quarters | Look::Special => {
                let value = (n % 17) as f64 / 4.0 - 2.0;
                if n.is_multiple_of(23) { -0.0 } else { value }
            }
            Look::Positive => 0.5 + (n % 1_000_003) as f64 / 1_000_003.0 * 1.5,
            Look::Any => (n % 1_000_003) as f64 / 1_000_003.0 * 4.0 - 2.0,
        }
    }

    /// Adds the bytes of one element.
    fn element(&mut self, dtype: DType, look: Look, bytes: &mut Vec<u8>) {
        if let Some(part) = dtype.complex_part() {
            self.element(part, look, bytes);
            self.element(part, look, bytes);
            return;
        }
        let bits = if dtype.is_bool() {
            self.bits() & 1
        } else if dtype.is_float() {
            // A format without infinities has its own word for what is out of range.
            let bits = |value: f64| encode_float(dtype, value).unwrap_or(0);
            bits(self.float(look))
        } else {
            let n = self.bits() ^ (self.bits() << 32);
            let small = self.below(9) as u64;
            let value = if look == Look::Special {
                n
            } else {
                small.wrapping_sub(if dtype.is_signed_integer() { 4 } else { 0 })
            };
            let unused = 64 - dtype.bits();
            let low = value << unused >> unused;
            // Narrow elements are stored extended to their byte.
            if dtype.is_signed_integer() { ((low << unused) as i64 >> unused) as u64 } else { low }
        };
        bytes.extend_from_slice(&bits.to_le_bytes()[..dtype.size_bytes()]);
    }

    /// An array of small numbers that arithmetic does not round: quarters, small integers.
    pub fn quarters(&mut self, dtype: DType, dims: &[usize]) -> Literal {
        self.literal(dtype, dims, Look::Quarters)
    }

    pub(crate) fn literal(&mut self, dtype: DType, dims: &[usize], look: Look) -> Literal {
        let count: usize = dims.iter().product();
        // Elements are not worth a fuzzer's bytes.
        let given = std::mem::take(&mut self.given);
        let mut bytes = Vec::with_capacity(count * dtype.size_bytes());
        (0..count).for_each(|_| self.element(dtype, look, &mut bytes));
        self.given = given;
        Literal::new(dtype, dims, bytes).expect("as many bytes as the type says")
    }
}
