//! Random numbers: the counter-based generators bit for bit as XLA computes them, and a deterministic `rng`.

use hlo::{Keyword, OpKind, TensorType, Type};
use tensor::DType;

use super::context::{Context, Eval};
use super::contraction::{floats, ints};
use super::positions;
use super::value::{Elements, InterpreterValue, TensorValue, decode, round, storage, wrap};
use crate::attributes;
use crate::error::Error;

/// The meaning of an op of this family.
pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    Some(match kind {
        OpKind::RngBitGenerator => rng_bit_generator,
        OpKind::Rng => rng,
        _ => return None,
    })
}

/// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let schedule = [key[0], key[1], 0x1BD1_1BDA ^ key[0] ^ key[1]];
    let [mut a, mut b] = [counter[0].wrapping_add(schedule[0]), counter[1].wrapping_add(schedule[1])];
    for group in 0..5usize {
        for rotation in ROTATIONS[group % 2] {
            a = a.wrapping_add(b);
            b = b.rotate_left(rotation) ^ a;
        }
        a = a.wrapping_add(schedule[(group + 1) % 3]);
        b = b.wrapping_add(schedule[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    [a, b]
}

/// Philox-4x32 with 10 rounds, of the same paper.
fn philox(key: [u32; 2], counter: u128) -> [u32; 4] {
    let [mut k0, mut k1] = key;
    let mut x = [counter as u32, (counter >> 32) as u32, (counter >> 64) as u32, (counter >> 96) as u32];
    for _ in 0..10 {
        let (p0, p1) = (u64::from(x[0]) * 0xD251_1F53, u64::from(x[2]) * 0xCD9E_8D57);
        x = [(p1 >> 32) as u32 ^ x[1] ^ k0, p1 as u32, (p0 >> 32) as u32 ^ x[3] ^ k1, p0 as u32];
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    x
}

fn words(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn rng_bit_generator(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let algorithm = attributes::keyword(context.op, "rng_algorithm")?;
    let state = context.tensor(0)?.clone();
    let Type::Tensor(ty) = context.result_type(1) else {
        return context.fail("the second result must be a tensor");
    };
    let ty = TensorType::new(ty.dims.clone(), ty.element.clone());
    let count = positions::count(context, &ty.dims)?;
    let dtype = storage(&ty.element);
    let width = dtype.bits();
    let narrow: Vec<i128> = ints(&state.elements)?;
    // A state of 32-bit words is the same bits as one of half as many 64-bit words.
    let mut words64: Vec<u64> = match state.dtype() {
        DType::U64 | DType::I64 => narrow.iter().map(|&x| x as u64).collect(),
        DType::U32 | DType::I32 => {
            narrow.chunks(2).map(|w| joined(w[0] as u32, *w.last().unwrap_or(&0) as u32)).collect()
        }
        other => return context.fail(format!("a state of {other} is not known")),
    };
    let bits: Vec<u64> = match algorithm {
        Keyword::ThreeFry => {
            let &[key, start] = &words64[..] else { return context.fail("THREE_FRY takes a state of two words") };
            let (bits, used) = threefry_bits(key, start, &ty.dims, count, width);
            words64[1] = start.wrapping_add(used);
            bits
        }
        // XLA's CPU compiler takes PHILOX for DEFAULT.
        Keyword::Philox | Keyword::RngDefault => {
            let (key, start) = match words64[..] {
                [key, start] => (key, u128::from(start) | u128::from(key) << 64),
                [key, low, high, ..] => (key, u128::from(low) | u128::from(high) << 64),
                _ => return context.fail("PHILOX takes a state of two or three words"),
            };
            let per_block = if width == 64 { 2 } else { 4 };
            let blocks = count.div_ceil(per_block) as u64;
            let mut bits = Vec::with_capacity(count);
            for block in 0..blocks {
                let out = philox(words(key), start.wrapping_add(u128::from(block)));
                if width == 64 {
                    bits.extend([joined(out[0], out[1]), joined(out[2], out[3])]);
                } else {
                    bits.extend(out.map(u64::from));
                }
            }
            bits.truncate(count);
            let end = start.wrapping_add(u128::from(blocks));
            words64[1] = end as u64;
            if words64.len() > 2 {
                words64[2] = (end >> 64) as u64;
            }
            bits
        }
        other => return context.fail(format!("{} is no algorithm", other.word())),
    };
    let values = match state.dtype() {
        DType::U64 | DType::I64 => words64.iter().map(|&x| wrap(state.dtype(), i128::from(x))).collect(),
        other => {
            words64.iter().flat_map(|&x| words(x)).map(|x| wrap(other, i128::from(x))).take(narrow.len()).collect()
        }
    };
    let elements = if dtype.is_integer() {
        Elements::Int(bits.into_iter().map(|x| wrap(dtype, i128::from(x))).collect())
    } else if dtype.is_float() {
        let bytes: Vec<u8> = bits.iter().flat_map(|x| x.to_le_bytes()[..dtype.size_bytes()].to_vec()).collect();
        decode(dtype, &bytes)
    } else {
        return context.fail(format!("random bits of type {dtype} are not defined"));
    };
    Ok(vec![TensorValue { ty: state.ty, elements: Elements::Int(values) }.into(), TensorValue { ty, elements }.into()])
}

/// Threefry bits as XLA lays them out, and how far the counter moved.
fn threefry_bits(key: u64, start: u64, dims: &[i64], count: usize, width: u32) -> (Vec<u64>, u64) {
    let key = words(key);
    if width == 64 {
        let draw = |i: usize| {
            let [low, high] = threefry(key, words(start.wrapping_add(i as u64)));
            joined(low, high)
        };
        return ((0..count).map(draw).collect(), count as u64);
    }
    // Narrower types split one dimension in two: the first even one, or else the longest. Its even places take the
    // first word of a block and its odd places the second.
    let Some(longest) = dims.iter().copied().max() else {
        return (vec![u64::from(threefry(key, words(start))[0])], 1);
    };
    let split = dims.iter().position(|d| d % 2 == 0).or_else(|| dims.iter().position(|&d| d == longest)).unwrap_or(0);
    let mut half = dims.to_vec();
    half[split] = (dims[split] + 1) / 2;
    let (strides, half_strides) = (positions::strides(dims), positions::strides(&half));
    let bits = (0..count)
        .map(|at| {
            let (mut place, mut word) = (0, 0);
            for d in 0..dims.len() {
                let i = at / strides[d] % dims[d].max(1) as usize;
                if d == split {
                    word = i % 2;
                    place += i / 2 * half_strides[d];
                } else {
                    place += i * half_strides[d];
                }
            }
            u64::from(threefry(key, words(start.wrapping_add(place as u64)))[word])
        })
        .collect();
    (bits, half.iter().product::<i64>() as u64)
}

/// Draws of `rng`: a fixed seed and the number of the op that draws, so that a program gives the same numbers each run.
fn rng(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let distribution = attributes::keyword(context.op, "rng_distribution")?;
    let dims: Vec<i64> = ints(&context.tensor(2)?.elements)?
        .into_iter()
        .map(i64::try_from)
        .collect::<Result<_, _>>()
        .or_else(|_| context.fail("the shape is out of range"))?;
    let count = positions::count(context, &dims)?;
    let key = context.run.draws();
    let (a, b) = (context.tensor(0)?, context.tensor(1)?);
    let (element, dtype) = (a.ty.element.clone(), a.dtype());
    let block = |i: usize| philox(words(0x7075_6272_6964_6765), (u128::from(key) << 64) | i as u128);
    let draw = |i: usize| {
        let out = block(i);
        [joined(out[0], out[1]), joined(out[2], out[3])]
    };
    let unit = |word: u64| (word >> 11) as f64 / (1u64 << 53) as f64;
    let elements = if dtype.is_float() {
        let (low, high) = (floats(&a.elements)?[0], floats(&b.elements)?[0]);
        let uniform = |i: usize| {
            let value = round(dtype, low + unit(draw(i)[0]) * (high - low));
            // Rounding may reach the excluded end.
            if value >= high && high > low { low } else { value }
        };
        let normal = |i: usize| {
            let [u, v] = draw(i);
            let radius = (-2.0 * (1.0 - unit(u)).ln()).sqrt();
            round(dtype, low + high * radius * (2.0 * std::f64::consts::PI * unit(v)).cos())
        };
        match distribution {
            Keyword::Normal => Elements::Float((0..count).map(normal).collect()),
            _ => Elements::Float((0..count).map(uniform).collect()),
        }
    } else {
        let (low, high) = (ints(&a.elements)?[0], ints(&b.elements)?[0]);
        let range = (high - low).max(1);
        let value = |i: usize| low + i128::from(draw(i)[0]) % range;
        match a.elements {
            Elements::Bool(_) => Elements::Bool((0..count).map(|i| value(i) != 0).collect()),
            _ => Elements::Int((0..count).map(|i| wrap(dtype, value(i))).collect()),
        }
    };
    Ok(vec![TensorValue { ty: TensorType::new(dims, element), elements }.into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the generators' authors (Random123's `kat_vectors`).
    #[test]
    fn generators_give_the_published_vectors() {
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry([u32::MAX; 2], [u32::MAX; 2]), [0x1cb9_96fc, 0xbb00_2be7]);
        assert_eq!(threefry([0x1319_8a2e, 0x0370_7344], [0x243f_6a88, 0x85a3_08d3]), [0xc492_3a9c, 0x483d_f7a0]);
        assert_eq!(philox([0, 0], 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 2], u128::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    fn draw(algorithm: &str, state: &str, bits: &str) -> (Vec<i128>, Vec<i128>) {
        let words = state.split(',').count();
        let text = format!(
            "func.func @main() -> (tensor<{words}xui64>, tensor<{bits}>) {{
               %s = stablehlo.constant dense<[{state}]> : tensor<{words}xui64>
               %0:2 = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : (tensor<{words}xui64>) -> (tensor<{words}xui64>, tensor<{bits}>)
               return %0#0, %0#1 : tensor<{words}xui64>, tensor<{bits}>
             }}"
        );
        let module = hlo::verify(hlo::read(text.as_bytes()).unwrap()).unwrap();
        let run = super::super::Interpreter::new(&module, Default::default());
        let results = run.run("main", Vec::new()).unwrap();
        let ints = |n: usize| ints(&results[n].tensor().unwrap().elements).unwrap();
        (ints(0), ints(1))
    }

    /// Recorded from XLA's CPU compiler (jaxlib 0.10.2).
    #[test]
    fn bits_come_in_the_order_of_xla() {
        assert_eq!(draw("PHILOX", "1, 2", "3xui32"), (vec![1, 3], vec![2100602697, 2847456232, 2074354647]));
        assert_eq!(
            draw("PHILOX", "1, 2", "3x2xui32"),
            (vec![1, 4], vec![2100602697, 2847456232, 2074354647, 800269529, 1828267006, 3135207875])
        );
        assert_eq!(
            draw("PHILOX", "1, 2", "3xui64"),
            (vec![1, 4], vec![12229731395331991369, 3437131457114678231, 13465615291114923006])
        );
        assert_eq!(draw("PHILOX", "1, 2", "2x3xui8"), (vec![1, 4], vec![73, 232, 215, 217, 254, 195]));
        assert_eq!(draw("THREE_FRY", "1, 2", "3xui32"), (vec![1, 4], vec![43444564, 2150618427, 3979645651]));
        assert_eq!(
            draw("THREE_FRY", "1, 2", "3x2xui32"),
            (vec![1, 5], vec![43444564, 2150618427, 3979645651, 3745730563, 1672743891, 4240503393])
        );
        assert_eq!(
            draw("THREE_FRY", "1, 2", "3xui64"),
            (vec![1, 5], vec![9236835810183407956, 16087790271692313299, 18212823393184779219])
        );
        assert_eq!(draw("THREE_FRY", "1, 2", "2x3xui8"), (vec![1, 5], vec![84, 211, 211, 59, 3, 97]));
    }

    #[test]
    fn counters_carry_into_the_next_word() {
        let (state, _) = draw("PHILOX", "7, 18446744073709551615, 9", "4xui32");
        assert_eq!(state, [7, 0, 10]);
    }
}
