//! How far elementary functions of generated loops are from their exact values, over floats of every size.

use tensor::DType;

use super::super::super::ir::{Inst, Reg, Unary};
use super::super::super::math_f64;
use super::{compiled, elementwise, machines};

/// Error in units in the last place of the exact result. Below the normal range anything as small will do.
fn ulps(got: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if got.to_bits() == nearest.to_bits() || got.is_nan() && exact.is_nan() {
        return 0.0;
    }
    if exact.abs() < f64::from(f32::MIN_POSITIVE) && got.abs() <= f32::MIN_POSITIVE {
        return 0.0;
    }
    if !got.is_finite() || !nearest.is_finite() {
        // One place beyond the largest number counts as rounding.
        let is_edge = exact.abs() > 3.4e38 && got.abs() > 3.4e38 && got.signum() == nearest.signum();
        return if is_edge { 1.0 } else { 1e9 };
    }
    let place = f64::from(nearest.abs().next_up()) - f64::from(nearest.abs());
    (f64::from(got) - exact).abs() / place
}

fn check(function: Unary, bound: f64, exact: impl Fn(f64) -> f64) {
    const STEP: usize = 10_007;
    let special = [0.0, -0.0, 1.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN];
    let edges = [88.722_83f32, -87.336_54, 88.0, -87.0, 127.0, -126.0].map(f32::to_bits);
    let near_edges = edges.into_iter().flat_map(|bits| (bits - 20..bits + 20).map(f32::from_bits));
    // With and without the quiet bit, and with payloads.
    let nan = [0x7f80_0001, 0x7fc0_0001, 0xffc0_1234, 0xffff_ffff].map(f32::from_bits);
    let all = (0..=u32::MAX).step_by(STEP).map(f32::from_bits).filter(|x| !x.is_subnormal());
    let values: Vec<f32> = all.chain(special).chain(near_edges).chain(nan).collect();
    let source = elementwise(values.len(), &[DType::F32], &[Inst::Load(0), Inst::Unary(function, Reg(0))], DType::F32);
    let content: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    for machine in machines() {
        let results = compiled(&source, &machine, std::slice::from_ref(&content), &[vec![0; content.len()]]);
        let results = results.expect("compiled");
        for (bytes, &x) in results[0].chunks_exact(4).zip(&values) {
            let got = f32::from_le_bytes(bytes.try_into().unwrap());
            let error = ulps(got, exact(f64::from(x)));
            assert!(error <= bound, "{function:?} of {x:?} is {got:?}, {error} ULP off, with {machine:?}");
        }
    }
}

#[test]
fn functions_keep_their_bounds() {
    check(Unary::Exp, 1.1, f64::exp);
    check(Unary::ExpMinusOne, 2.0, f64::exp_m1);
    check(Unary::Log, 1.0, f64::ln);
    check(Unary::LogPlusOne, 1.5, f64::ln_1p);
    check(Unary::Tanh, 2.5, f64::tanh);
    check(Unary::Logistic, 2.5, |x| 1.0 / (1.0 + (-x).exp()));
    check(Unary::Erf, 2.0, math_f64::erf_f64);
    check(Unary::Rsqrt, 1.5, |x| 1.0 / x.sqrt());
}
