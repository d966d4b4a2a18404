//! The bodies by which frameworks search the largest or smallest element and its index.

use hlo::{Func, Region};

use super::program;
use crate::kernels::loops::ir::{Binary, Inst, Lane, Unary};
use crate::kernels::scalar::Program;
use crate::kernels::variadic_reduce::Extreme;

/// Which search a region over two pairs (value, index) does, if it does one of ours.
///
/// The region may only compare its arguments and choose between them. What such a function does depends on nothing but
/// how the arguments are ordered, so that trying every order decides the question. NaN is left out: frameworks differ
/// in what they do with it, and the program that comes along says it for rows that have one.
pub(crate) fn arg_extreme(func: &Func, region: Region) -> Option<(Extreme, Program)> {
    let program = program(func, region)?;
    let &[value, index, second_value, second_index] = &program.arguments[..] else { return None };
    let [(first, _), (second, _)] = program.results[..] else { return None };
    let fits = value == second_value && index == second_index && first == value && second == index;
    if !fits || !index.is_integer() || !program.insts.iter().all(is_choice) {
        return None;
    }
    let lane = Lane::of(value)?;
    let of = |x: f64| match lane {
        Lane::F32 => u64::from((x as f32).to_bits()),
        Lane::F64 => x.to_bits(),
        Lane::I32 => u64::from(x as i32 as u32),
        Lane::I64 => x as i64 as u64,
        Lane::Mask => x as u64,
    };
    let numbers: &[f64] = match lane {
        Lane::F32 | Lane::F64 => &[-0.0, 0.0, 1.0, 2.0, f64::NEG_INFINITY, f64::INFINITY],
        Lane::Mask => &[0.0, 1.0],
        _ => &[0.0, 1.0, 2.0],
    };
    // Of unsigned types the order of the numbers with the highest bit tells a signed comparison.
    let high =
        value.is_unsigned_integer().then(|| if lane == Lane::I64 { 1 << 63 } else { 1u64 << (value.bits() - 1) });
    let values: Vec<u64> = numbers.iter().map(|&x| of(x)).chain(high).collect();
    let extreme = [Extreme::Max, Extreme::Min].into_iter().find(|&extreme| agrees(&program, extreme, &values))?;
    Some((extreme, program))
}

fn is_choice(inst: &Inst) -> bool {
    match inst {
        Inst::Load(_) | Inst::Compare(..) | Inst::Select(..) | Inst::Unary(Unary::Not, _) => true,
        Inst::Binary(op, ..) => {
            matches!(
                op,
                Binary::And | Binary::Or | Binary::Xor | Binary::Min | Binary::Max | Binary::MinU | Binary::MaxU
            )
        }
        _ => false,
    }
}

/// Whether the program keeps the extreme, and the smaller index of equals.
fn agrees(program: &Program, extreme: Extreme, values: &[u64]) -> bool {
    let (value, index) = (program.arguments[0], program.arguments[1]);
    let (Some(lane), Some(index_lane)) = (Lane::of(value), Lane::of(index)) else { return false };
    let minus_one = if index_lane == Lane::I64 { u64::MAX } else { u64::from(u32::MAX) };
    let indices: &[u64] = if index.is_signed_integer() { &[0, 1, minus_one] } else { &[0, 1, 2] };
    let less = |x: u64, y: u64| match (lane, value.is_unsigned_integer()) {
        (Lane::F32, _) => f32::from_bits(x as u32) < f32::from_bits(y as u32),
        (Lane::F64, _) => f64::from_bits(x) < f64::from_bits(y),
        (Lane::I32, false) => (x as i32) < y as i32,
        (Lane::I64, false) => (x as i64) < y as i64,
        _ => x < y,
    };
    let smaller = |i: u64, j: u64| match (index_lane, index.is_signed_integer()) {
        (Lane::I32, true) => (i as i32) < j as i32,
        (_, true) => (i as i64) < j as i64,
        _ => i < j,
    };
    let better = |x: u64, y: u64| if extreme == Extreme::Max { less(y, x) } else { less(x, y) };
    let mut registers = program.registers();
    for (&a, &b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
        for (&i, &j) in indices.iter().flat_map(|i| indices.iter().map(move |j| (i, j))) {
            let mut found = [0; 2];
            program.eval(&mut registers, &[a, i, b, j], &mut found);
            // Equal values are the same bits except for the zeros, where either may be returned.
            let is_right = if better(a, b) {
                found == [a, i]
            } else if better(b, a) {
                found == [b, j]
            } else {
                found[1] == if smaller(i, j) { i } else { j } && (found[0] == a || found[0] == b)
            };
            if !is_right {
                return false;
            }
        }
    }
    true
}
