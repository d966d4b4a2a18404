//! Loops of random instructions against their meaning.

use tensor::DType;

use super::super::super::ir::{Access, Binary, Compare, Fold, Inst, Lane, Loop, Reg, Unary};
use super::{Random, check, dense, stored};

/// A loop of random instructions whose results do not depend on the order of rounding.
fn random_loop(random: &mut Random) -> (Loop, Vec<Vec<u8>>, Vec<Vec<u8>>) {
    use DType::*;
    let types: &[DType] = if random.below(3) == 0 {
        &[F64, I64, F32, I32, Bool, U8, U64, I16]
    } else {
        &[F32, I32, Bool, BF16, F16, I8, U8, I16, U32]
    };
    let dims = vec![1 + random.below(3), 1 + random.below(4), 2 + random.below(90)];
    let strides = |random: &mut Random| -> Vec<isize> {
        let mut strides = dense(F32, &dims).strides;
        for stride in &mut strides {
            if random.below(4) == 0 {
                *stride = 0;
            }
        }
        strides
    };
    let elements = dims.iter().product();
    let reads: Vec<Access> = (0..1 + random.below(14))
        .map(|_| Access { dtype: types[random.below(types.len())], offset: 0, strides: strides(random) })
        .collect();
    let mut source = Loop { dims, reads, insts: Vec::new(), writes: Vec::new() };
    for _ in 0..5 + random.below(60) {
        let lanes = source.lanes();
        let uniform = source.uniform();
        let any = |random: &mut Random| Reg(random.below(lanes.len()) as u32);
        let inst = if lanes.is_empty() || random.below(5) == 0 {
            Inst::Load(random.below(source.reads.len()) as u32)
        } else {
            let a = any(random);
            let lane = lanes[a.0 as usize];
            let same: Vec<Reg> = (0..lanes.len()).filter(|&r| lanes[r] == lane).map(|r| Reg(r as u32)).collect();
            let masks: Vec<Reg> = (0..lanes.len()).filter(|&r| lanes[r] == Lane::Mask).map(|r| Reg(r as u32)).collect();
            let b = same[random.below(same.len())];
            let real = matches!(lane, Lane::F32 | Lane::F64);
            let (binaries, unaries, folds): (&[Binary], &[Unary], &[Fold]) = match lane {
                Lane::Mask => {
                    (&[Binary::And, Binary::Or, Binary::Xor], &[Unary::Not], &[Fold::And, Fold::Or, Fold::Xor])
                }
                _ if real => (
                    &[Binary::Add, Binary::Sub, Binary::Mul, Binary::Min, Binary::Max],
                    &[Unary::Neg, Unary::Abs, Unary::Floor, Unary::Sqrt, Unary::RoundAway],
                    &[Fold::Min, Fold::Max],
                ),
                _ => (
                    &[Binary::Add, Binary::Sub, Binary::Mul, Binary::MinU, Binary::Shl, Binary::ShrA, Binary::Xor],
                    &[Unary::Neg, Unary::Sign, Unary::LeadingZeros, Unary::PopCount],
                    &[Fold::Sum, Fold::Product, Fold::MaxU, Fold::Xor],
                ),
            };
            match random.below(9) {
                0 => Inst::Unary(unaries[random.below(unaries.len())], a),
                1 if lane != Lane::Mask => Inst::Compare(Compare::Lt, a, b),
                2 if !masks.is_empty() => Inst::Select(masks[random.below(masks.len())], a, b),
                3 if !uniform[a.0 as usize] => Inst::Reduce(folds[random.below(folds.len())], a),
                4 if real => Inst::Fma(a, b, same[random.below(same.len())]),
                5 if lane == Lane::F32 => Inst::Round(if random.below(2) == 0 { BF16 } else { F16 }, a),
                5 if lane == Lane::I32 => Inst::Round(I8, a),
                6 if lane == Lane::Mask => Inst::Convert { value: a, source: Bool, target: types[0] },
                6 if real => {
                    Inst::Convert { value: a, source: if lane == Lane::F64 { F64 } else { F32 }, target: types[1] }
                }
                7 => match lane {
                    Lane::F32 | Lane::F64 => Inst::Const { lane, bits: 0 },
                    Lane::Mask => Inst::Const { lane, bits: 1 },
                    _ => Inst::Index { lane, dim: random.below(3) as u32 },
                },
                _ => Inst::Binary(binaries[random.below(binaries.len())], a, b),
            }
        };
        source.insts.push(inst);
    }
    let (lanes, uniform) = (source.lanes(), source.uniform());
    for _ in 0..1 + random.below(4) {
        let value = random.below(lanes.len());
        let dtype = match lanes[value] {
            Lane::F32 => [F32, BF16, F16][random.below(3)],
            Lane::F64 => F64,
            Lane::I32 => [I32, U32, I8, I16][random.below(4)],
            Lane::I64 => I64,
            Lane::Mask => Bool,
        };
        let mut access = dense(dtype, &source.dims);
        if uniform[value] && random.below(2) == 0 {
            let rows = source.dims[1] as isize;
            access.strides = vec![rows, 1, 0];
        }
        source.writes.push(stored(access, value as u32));
    }
    // Dimensions of size 1 have stride 0.
    let dims = source.dims.clone();
    let accesses = source.reads.iter_mut().chain(source.writes.iter_mut().map(|w| &mut w.access));
    for access in accesses {
        for (stride, size) in access.strides.iter_mut().zip(&dims) {
            if *size == 1 {
                *stride = 0;
            }
        }
    }
    let reads = source.reads.iter().map(|a| random.array(a.dtype, elements)).collect();
    let writes = source.writes.iter().map(|w| random.array(w.access.dtype, elements)).collect();
    (source, reads, writes)
}

#[test]
fn random_loops() {
    let mut random = Random(13);
    for _ in 0..400 {
        let (source, reads, writes) = random_loop(&mut random);
        check(&source, &reads, &writes, 0);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn random_loops_for_sse2() {
    use super::beyond;
    use crate::kernels::machine::Machine;

    // Most have something that is left to the other backend.
    let (mut random, mut compiled) = (Random(15), 0);
    for _ in 0..20_000 {
        let (source, reads, writes) = random_loop(&mut random);
        if !beyond::is_beyond(&source, &Machine::portable()) {
            compiled += 1;
            check(&source, &reads, &writes, 0);
        }
    }
    assert!(compiled > 200, "{compiled} loops");
}
