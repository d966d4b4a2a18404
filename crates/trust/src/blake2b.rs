//! BLAKE2b (RFC 7693), which signature files are over: nothing else in the tree has it.

const BLOCK_BYTES: usize = 128;

const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// Which word of the message each round takes where; the last two rounds take the first two rows again.
const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// A digest of `N` bytes, at most 64, of what is added piece by piece.
#[derive(Clone)]
pub struct Blake2b<const N: usize> {
    state: [u64; 8],
    counted: u128,
    block: [u8; BLOCK_BYTES],
    filled: usize,
}

impl<const N: usize> Blake2b<N> {
    /// Of nothing yet.
    pub fn new() -> Self {
        const { assert!(N >= 1 && N <= 64) }
        let mut state = IV;
        state[0] ^= 0x0101_0000 ^ N as u64;
        Blake2b { state, counted: 0, block: [0; BLOCK_BYTES], filled: 0 }
    }

    /// Adds bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // A full block waits for more: the last one is compressed differently.
            if self.filled == BLOCK_BYTES {
                self.counted += BLOCK_BYTES as u128;
                self.compress(0);
                self.filled = 0;
            }
            let now = bytes.len().min(BLOCK_BYTES - self.filled);
            let (head, tail) = bytes.split_at(now);
            self.block[self.filled..self.filled + now].copy_from_slice(head);
            self.filled += now;
            bytes = tail;
        }
    }

    /// The digest.
    pub fn finish(mut self) -> [u8; N] {
        self.counted += self.filled as u128;
        self.block[self.filled..].fill(0);
        self.compress(u64::MAX);
        let mut digest = [0; N];
        let bytes = self.state.iter().flat_map(|word| word.to_le_bytes());
        digest.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        digest
    }

    /// The digest of bytes that are all there.
    pub fn of(bytes: &[u8]) -> [u8; N] {
        let mut digest = Self::new();
        digest.update(bytes);
        digest.finish()
    }

    fn compress(&mut self, last: u64) {
        let mut words = [0u64; 16];
        for (word, bytes) in words.iter_mut().zip(self.block.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let mut v = [0u64; 16];
        v[..8].copy_from_slice(&self.state);
        v[8..].copy_from_slice(&IV);
        v[12] ^= self.counted as u64;
        v[13] ^= (self.counted >> 64) as u64;
        v[14] ^= last;
        for round in 0..12 {
            let order = &SIGMA[round % 10];
            let mut mix = |at: usize, [a, b, c, d]: [usize; 4]| {
                v[a] = v[a].wrapping_add(v[b]).wrapping_add(words[order[2 * at]]);
                v[d] = (v[d] ^ v[a]).rotate_right(32);
                v[c] = v[c].wrapping_add(v[d]);
                v[b] = (v[b] ^ v[c]).rotate_right(24);
                v[a] = v[a].wrapping_add(v[b]).wrapping_add(words[order[2 * at + 1]]);
                v[d] = (v[d] ^ v[a]).rotate_right(16);
                v[c] = v[c].wrapping_add(v[d]);
                v[b] = (v[b] ^ v[c]).rotate_right(63);
            };
            mix(0, [0, 4, 8, 12]);
            mix(1, [1, 5, 9, 13]);
            mix(2, [2, 6, 10, 14]);
            mix(3, [3, 7, 11, 15]);
            mix(4, [0, 5, 10, 15]);
            mix(5, [1, 6, 11, 12]);
            mix(6, [2, 7, 8, 13]);
            mix(7, [3, 4, 9, 14]);
        }
        for (at, word) in self.state.iter_mut().enumerate() {
            *word ^= v[at] ^ v[at + 8];
        }
    }
}

impl<const N: usize> Default for Blake2b<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> std::fmt::Debug for Blake2b<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blake2b<{N}>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn agrees_with_the_specification() {
        // RFC 7693, appendix A.
        let abc = "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1\
                   7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923";
        assert_eq!(hex(&Blake2b::<64>::of(b"abc")), abc);
        let nothing = "786a02f742015903c6c6fd852552d272912f4740e15847618a86e217f71f5419\
                       d25e1031afee585313896444934eb04b903a685b1448b755d56f701afe9be2ce";
        assert_eq!(hex(&Blake2b::<64>::of(b"")), nothing);
    }

    /// RFC 7693, appendix E: one digest over the digests of many inputs of many lengths.
    #[test]
    fn agrees_with_the_self_test_of_the_specification() {
        let sequence = |length: usize, seed: u32| -> Vec<u8> {
            let (mut a, mut b) = (0xdead_4bad_u32.wrapping_mul(seed), 1u32);
            let next = |_| {
                let sum = a.wrapping_add(b);
                (a, b) = (b, sum);
                (sum >> 24) as u8
            };
            (0..length).map(next).collect()
        };
        // Without keys, which are not implemented; the expected digest was computed by Python's hashlib.
        let mut all = Blake2b::<32>::new();
        for length in [0, 3, 128, 129, 255, 1024] {
            let input = sequence(length, length as u32);
            all.update(&Blake2b::<20>::of(&input));
            all.update(&Blake2b::<32>::of(&input));
            all.update(&Blake2b::<48>::of(&input));
            all.update(&Blake2b::<64>::of(&input));
        }
        assert_eq!(hex(&all.finish()), "0421ee00282e8c6da2df8f8e4b0e62f217174d60bc97cd38d4aa0ca23b0d2a49");
    }

    #[test]
    fn pieces_do_not_matter() {
        let bytes: Vec<u8> = (0..1000u32).map(|n| (n * 7) as u8).collect();
        for piece in [1, 7, 127, 128, 129, 256, 999] {
            let mut digest = Blake2b::<64>::new();
            bytes.chunks(piece).for_each(|chunk| digest.update(chunk));
            assert_eq!(digest.finish(), Blake2b::<64>::of(&bytes), "{piece}");
        }
    }
}
