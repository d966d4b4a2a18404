//! Random numbers that depend on a key alone, and a shuffle of any length that needs no memory.

/// Fraction of the golden ratio: the increment of the splitmix64 generator.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of splitmix64: every bit of the result depends on every bit of the argument.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// One key from several numbers, in their order.
pub(crate) fn key(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |key, part| mix(key.wrapping_add(INCREMENT) ^ mix(part.wrapping_add(INCREMENT))))
}

/// A stream of random numbers (splitmix64). Its numbers are part of what datasets promise: a change changes every run.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The stream of a key made by [`key`].
    pub(crate) fn new(key: u64) -> Random {
        Random { state: key }
    }

    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(INCREMENT);
        mix(self.state)
    }

    /// A number from 0 to below `bound`; 0 when the bound is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// A number in `[low, high)`.
    pub(crate) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// One of the items; `None` of none.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }
}

/// A shuffle of the numbers from 0 to below its length, chosen by a key, computed number by number.
///
/// A Feistel network permutes the smallest power of four that holds the length; a number that lands outside is sent
/// through again until it lands inside, which ends because the network is a permutation (cycle walking).
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; Permutation::ROUNDS],
}

impl Permutation {
    const ROUNDS: usize = 8;

    /// The shuffle of `len` numbers that belongs to a key.
    pub fn new(len: u64, key: u64) -> Permutation {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let mut random = Random::new(key);
        Permutation { len, half_bits: bits.div_ceil(2), keys: std::array::from_fn(|_| random.bits()) }
    }

    /// How many numbers are shuffled.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is nothing to shuffle.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where a number goes; `None` for numbers past the end.
    pub fn get(&self, index: u64) -> Option<u64> {
        if index >= self.len {
            return None;
        }
        let mut at = self.encrypt(index);
        while at >= self.len {
            at = self.encrypt(at);
        }
        Some(at)
    }

    fn encrypt(&self, index: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (index >> self.half_bits, index & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once() {
        let lengths = (0..70).chain([127, 128, 129, 1000, 4095, 4096, 4097, 65_537]);
        for (seed, len) in lengths.enumerate() {
            let permutation = Permutation::new(len, key(&[seed as u64]));
            let mut seen: Vec<u64> = (0..len).map(|index| permutation.get(index).unwrap()).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..len), "length {len}");
            assert_eq!(permutation.get(len), None);
        }
    }

    #[test]
    fn the_longest_lengths_stay_inside() {
        for len in [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 62) + 1] {
            let permutation = Permutation::new(len, 7);
            let at: Vec<u64> = (0..64).map(|index| permutation.get(index).unwrap()).collect();
            assert!(at.iter().all(|at| *at < len));
            let last = permutation.get(len - 1).unwrap();
            assert!(last < len && !at.contains(&last));
        }
    }

    #[test]
    fn a_shuffle_mixes() {
        // Of 10 000 numbers about one stays, and about half of the neighbours change their order.
        let permutation = Permutation::new(10_000, 3);
        let at: Vec<u64> = (0..10_000).map(|index| permutation.get(index).unwrap()).collect();
        assert!(at.iter().zip(0..).filter(|(at, index)| *at == index).count() < 10);
        let rising = at.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((4_800..5_200).contains(&rising), "{rising}");
        let other = Permutation::new(10_000, 4);
        assert!((0..10_000).filter(|&index| other.get(index) == permutation.get(index)).count() < 10);
    }

    #[test]
    fn the_numbers_never_change() {
        let permutation = Permutation::new(10, key(&[42, 0]));
        let at: Vec<u64> = (0..10).filter_map(|index| permutation.get(index)).collect();
        assert_eq!((key(&[1, 2, 3]), at), (17_824_878_756_907_967, vec![4, 5, 8, 0, 6, 7, 1, 2, 3, 9]));
    }
}
