//! Numbers that look random and are the same for the same seed.

use tensor::{DType, Literal, encode_float};

/// A stream of numbers.
#[derive(Clone, Debug)]
pub(super) struct Numbers(u64);

/// What an argument's floats look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
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
    pub(super) fn new(seed: u64) -> Numbers {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d | 1);
        for _ in 0..8 {
            numbers.bits();
        }
        numbers
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// From `low` to `high`, both included.
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1).max(1) as usize) as i64
    }

    /// True in one of `n` cases.
    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
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

    /// The bytes of one element.
    pub(super) fn element(&mut self, dtype: DType, look: Look) -> Vec<u8> {
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
        bits.to_le_bytes()[..dtype.size_bytes()].to_vec()
    }

    pub(super) fn literal(&mut self, dtype: DType, dims: &[usize], look: Look) -> Literal {
        let count: usize = dims.iter().product();
        let bytes = (0..count).flat_map(|_| self.element(dtype, look)).collect();
        Literal::new(dtype, dims, bytes).expect("as many bytes as the type says")
    }
}
