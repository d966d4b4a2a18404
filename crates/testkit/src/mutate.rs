//! Deterministic mutations of inputs, for tests that nothing an input says may crash us.

/// A small deterministic generator (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next_u64() % bound as u64) as usize }
    }
}

/// Mutates seeds: flips, cuts, repeats, splices and swaps bytes.
#[derive(Clone, Debug)]
pub struct Mutator {
    random: Random,
    seeds: Vec<Vec<u8>>,
}

impl Mutator {
    /// A mutator over seed inputs.
    pub fn new(seed: u64, seeds: Vec<Vec<u8>>) -> Mutator {
        assert!(!seeds.is_empty(), "no seeds");
        Mutator { random: Random::new(seed), seeds }
    }

    /// The next mutated input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let mut input = self.seeds[random.below(self.seeds.len())].clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(input.len());
            let end = (at + 1 + random.below(32)).min(input.len());
            match random.below(7) {
                0 if !input.is_empty() => input[at] ^= 1 << random.below(8),
                1 if !input.is_empty() => input[at] = random.next_u64() as u8,
                2 => input.truncate(at),
                3 => drop(input.drain(at..end)),
                4 => {
                    let piece = input[at..end].to_vec();
                    let to = random.below(input.len());
                    input.splice(to..to, piece);
                }
                5 => {
                    let other = &self.seeds[random.below(self.seeds.len())];
                    let from = random.below(other.len());
                    let piece = other[from..(from + 1 + random.below(64)).min(other.len())].to_vec();
                    input.splice(at..end.max(at), piece);
                }
                _ => {
                    let interesting: [&[u8]; 8] =
                        [b"9223372036854775807", b"-1", b"<", b"((((((((", b"x", b"\xff\xff\xff\xff", b"\0", b"%"];
                    let piece = interesting[random.below(interesting.len())].to_vec();
                    input.splice(at..at, piece);
                }
            }
        }
        input
    }
}
