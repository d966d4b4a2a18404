//! Random bits against the published streams and the interpreter.

use super::*;
use crate::kernels::machine::Machine;
use crate::kernels::pool::Pool;

fn draw(algorithm: Algorithm, state: &[u64], dims: &[usize], dtype: DType, machine: Machine) -> (Vec<u64>, Vec<u64>) {
    let random = RandomBits::new(algorithm, DType::U64, state.len(), dims, dtype).unwrap();
    let (count, width) = (dims.iter().product::<usize>(), dtype.size_bytes());
    let mut next = vec![0u64; state.len()];
    let mut bits = vec![0u64; count * width / 8 + 1];
    let cores = Cores { machine, pool: Pool::new(2) };
    // SAFETY: the vectors have the sizes of the draw.
    unsafe { random.run(state.as_ptr().cast(), next.as_mut_ptr().cast(), bits.as_mut_ptr().cast(), &cores) };
    let bytes: Vec<u8> = bits.iter().flat_map(|x| x.to_le_bytes()).collect();
    let word = |n: usize| (0..width).rev().fold(0, |word, i| word << 8 | u64::from(bytes[n * width + i]));
    (next, (0..count).map(word).collect())
}

/// Known answers of the generators' authors (Random123's `kat_vectors`).
#[test]
fn generators_give_the_published_vectors() {
    assert_eq!(threefry_block([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
    assert_eq!(threefry_block([u32::MAX; 2], [u32::MAX; 2]), [0x1cb9_96fc, 0xbb00_2be7]);
    assert_eq!(philox_block([0, 0], [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox_block([u32::MAX; 2], [u32::MAX; 4]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
}

/// Recorded from XLA's CPU compiler (jaxlib 0.10.2).
#[test]
fn bits_come_in_the_order_of_xla() {
    use Algorithm::{Philox, ThreeFry};
    for machine in [Machine::portable(), Machine::detect()] {
        let check = |algorithm, dims: &[usize], dtype, state: [u64; 2], bits: &[u64]| {
            assert_eq!(draw(algorithm, &[1, 2], dims, dtype, machine), (state.to_vec(), bits.to_vec()));
        };
        check(Philox, &[3], DType::U32, [1, 3], &[2100602697, 2847456232, 2074354647]);
        let six = [2100602697, 2847456232, 2074354647, 800269529, 1828267006, 3135207875];
        check(Philox, &[3, 2], DType::U32, [1, 4], &six);
        let wide = [12229731395331991369, 3437131457114678231, 13465615291114923006];
        check(Philox, &[3], DType::U64, [1, 4], &wide);
        check(Philox, &[2, 3], DType::U8, [1, 4], &[73, 232, 215, 217, 254, 195]);
        check(ThreeFry, &[3], DType::U32, [1, 4], &[43444564, 2150618427, 3979645651]);
        let six = [43444564, 2150618427, 3979645651, 3745730563, 1672743891, 4240503393];
        check(ThreeFry, &[3, 2], DType::U32, [1, 5], &six);
        let wide = [9236835810183407956, 16087790271692313299, 18212823393184779219];
        check(ThreeFry, &[3], DType::U64, [1, 5], &wide);
        check(ThreeFry, &[2, 3], DType::U8, [1, 5], &[84, 211, 211, 59, 3, 97]);
        check(ThreeFry, &[0], DType::U32, [1, 2], &[]);
    }
}

#[test]
fn long_draws_are_the_blocks_in_order() {
    let key = [9, 0];
    // The counter passes from one word into the next.
    let start = u64::from(u32::MAX) - 40;
    for dims in [&[1000][..], &[7, 9, 5], &[3, 130, 70], &[33, 1001]] {
        let (next, bits) = draw(Algorithm::ThreeFry, &[9, start], dims, DType::U32, Machine::detect());
        let split = dims.iter().position(|d| d % 2 == 0).unwrap_or_else(|| {
            let longest = dims.iter().max().unwrap();
            dims.iter().position(|d| d == longest).unwrap()
        });
        let (size, inner) = (dims[split], dims[split + 1..].iter().product::<usize>());
        let half = size.div_ceil(2);
        for (at, &found) in bits.iter().enumerate() {
            let (outer, i, column) = (at / inner / size, at / inner % size, at % inner);
            let block = (outer * half + i / 2) * inner + column;
            let counter = start + block as u64;
            let expected = threefry_block(key, [counter as u32, (counter >> 32) as u32])[i % 2];
            assert_eq!(found, u64::from(expected), "{dims:?} at {at}");
        }
        assert_eq!(next[1], start + (bits.len() / size * half) as u64);
    }
    let (next, bits) = draw(Algorithm::Philox, &[7, u64::MAX, 9], &[40_001], DType::U32, Machine::detect());
    assert_eq!(next, [7, 10_000, 10]);
    for (at, &found) in bits.iter().enumerate() {
        let counter = (u128::from(u64::MAX) | 9 << 64) + at as u128 / 4;
        let words = [counter as u32, (counter >> 32) as u32, (counter >> 64) as u32, (counter >> 96) as u32];
        assert_eq!(found, u64::from(philox_block([7, 0], words)[at % 4]));
    }
}
