//! Integers of a few bits in 32-bit words, lowest bits first: dense across words, or a whole number of values a word.

/// How values lie in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Value `i` begins at bit `i * bits` of all words: some values have bits in two words.
    Dense,
    /// Each word holds `32 / bits` values; what is left of its bits is not used.
    ByWord,
}

impl Packing {
    /// Words that a number of values takes.
    pub(crate) fn words(self, count: usize, bits: u32) -> Option<usize> {
        match self {
            Packing::Dense => Some(count.checked_mul(bits as usize)?.div_ceil(32)),
            Packing::ByWord => Some(count.div_ceil(32 / bits.clamp(1, 32) as usize)),
        }
    }

    /// The unsigned value at an index; 0 beyond the words. `word` gives a word by number, `bits` is at most 8.
    pub(crate) fn value(self, word: impl Fn(usize) -> u32, index: usize, bits: u32) -> u8 {
        let mask = (1u64 << bits) - 1;
        let (number, shift) = match self {
            Packing::Dense => (index * bits as usize / 32, (index * bits as usize % 32) as u32),
            Packing::ByWord => {
                let per_word = 32 / bits as usize;
                (index / per_word, (index % per_word) as u32 * bits)
            }
        };
        let low = u64::from(word(number));
        let both = if shift + bits > 32 { low | u64::from(word(number + 1)) << 32 } else { low };
        (both >> shift & mask) as u8
    }

    /// Puts values into words.
    pub(crate) fn pack(self, values: impl Iterator<Item = u8>, bits: u32, words: &mut [u32]) {
        for (index, value) in values.enumerate() {
            let (number, shift) = match self {
                Packing::Dense => (index * bits as usize / 32, (index * bits as usize % 32) as u32),
                Packing::ByWord => {
                    let per_word = 32 / bits as usize;
                    (index / per_word, (index % per_word) as u32 * bits)
                }
            };
            let wide = u64::from(value) << shift;
            words[number] |= wide as u32;
            if shift + bits > 32 {
                words[number + 1] |= (wide >> 32) as u32;
            }
        }
    }
}

/// The words of a tensor's bytes.
pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        for bits in 1..=8u32 {
            for packing in [Packing::Dense, Packing::ByWord] {
                let values: Vec<u8> = (0..75u32).map(|n| (n * 37 % (1 << bits)) as u8).collect();
                let mut words = vec![0; packing.words(values.len(), bits).unwrap()];
                packing.pack(values.iter().copied(), bits, &mut words);
                let word = |number: usize| words.get(number).copied().unwrap_or(0);
                let back: Vec<u8> = (0..values.len()).map(|index| packing.value(word, index, bits)).collect();
                assert_eq!(back, values, "{bits} bits, {packing:?}");
            }
        }
    }

    #[test]
    fn three_bits_straddle_words_where_packing_is_dense() {
        // The eleventh value has two bits in the first word and one in the second.
        let words = [0xc000_0000u32, 1];
        assert_eq!(Packing::Dense.value(|n| words[n], 10, 3), 7);
        assert_eq!(Packing::ByWord.words(20, 3), Some(2));
        assert_eq!(Packing::Dense.words(32, 3), Some(3));
    }
}
