//! Folds over windows: the quick path, the slow one and a program against each other.

use super::*;
use crate::kernels::loops::ir::{Binary, Inst, Reg};
use crate::kernels::machine::Machine;
use crate::kernels::pool::Pool;
use crate::kernels::scalar::Program;

fn window(spec: &[(usize, usize, usize, usize, usize, (i64, i64))]) -> Window {
    Window {
        dims: spec.iter().map(|s| s.0).collect(),
        window: spec.iter().map(|s| s.1).collect(),
        strides: spec.iter().map(|s| s.2).collect(),
        base_dilations: spec.iter().map(|s| s.3).collect(),
        window_dilations: spec.iter().map(|s| s.4).collect(),
        padding: spec.iter().map(|s| s.5).collect(),
    }
}

fn same(a: f32, b: f32) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

/// Small integers, whose sums are exact in any order.
fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + i / 7) % 19) as f32 - 9.0).collect()
}

fn run(reduce: &ReduceWindow, from: &[f32], init: f32, machine: Machine) -> Vec<f32> {
    let mut to = vec![0f32; reduce.result.iter().product()];
    let cores = Cores { machine, pool: Pool::new(3) };
    let init = [init];
    // SAFETY: the vectors have the sizes of the reduction.
    unsafe { reduce.run(&[from.as_ptr().cast()], &[init.as_ptr().cast()], &[to.as_mut_ptr().cast()], &cores) };
    to
}

/// The quick path, the slow one and a program against each other.
fn check(spec: &[(usize, usize, usize, usize, usize, (i64, i64))]) {
    let window = window(spec);
    let from = values(window.dims.iter().product());
    for (fold, op, init) in [
        (Fold::Sum, Binary::Add, 0.0),
        (Fold::Sum, Binary::Add, 2.0),
        (Fold::Max, Binary::Max, f32::NEG_INFINITY),
        (Fold::Max, Binary::Max, 3.0),
        (Fold::Min, Binary::Min, f32::INFINITY),
    ] {
        let insts = vec![Inst::Load(0), Inst::Load(1), Inst::Binary(op, Reg(0), Reg(1))];
        let program = Program::new(vec![DType::F32; 2], insts, vec![(DType::F32, Reg(2))]).unwrap();
        let slow = ReduceWindow::new(window.clone(), &[DType::F32], Combine::Program(program)).unwrap();
        let quick = ReduceWindow::new(window.clone(), &[DType::F32], Combine::Fold(fold)).unwrap();
        let expected = run(&slow, &from, init, Machine::portable());
        for machine in [Machine::portable(), Machine::detect()] {
            let found = run(&quick, &from, init, machine);
            assert_eq!(found.len(), expected.len());
            let is_same = found.iter().zip(&expected).all(|(&a, &b)| same(a, b));
            assert!(is_same, "{fold:?} from {init} over {spec:?}: {found:?} is not {expected:?}");
        }
    }
}

const PLAIN: (usize, usize, usize, usize, usize, (i64, i64)) = (2, 1, 1, 1, 1, (0, 0));

#[test]
fn windows_reduce_as_the_specification_says() {
    check(&[(10, 3, 1, 1, 1, (0, 0))]);
    check(&[(10, 3, 2, 1, 1, (1, 1))]);
    check(&[(10, 3, 2, 1, 2, (3, 2))]);
    check(&[(10, 3, 3, 2, 1, (2, 5))]);
    check(&[(9, 2, 3, 1, 3, (-1, 4))]);
    check(&[(5, 9, 1, 1, 1, (0, 0))]);
    check(&[(0, 2, 1, 1, 1, (2, 2))]);
    check(&[(4, 2, 1, 1, 1, (9, 9))]);
    check(&[]);
    check(&[PLAIN, PLAIN]);
}

#[test]
fn pooling_of_either_layout() {
    let pool = |size| (size, 3, 2, 1, 1, (0, 1));
    check(&[PLAIN, pool(14), pool(15), (21, 1, 1, 1, 1, (0, 0))]);
    check(&[PLAIN, (3, 1, 1, 1, 1, (0, 0)), pool(14), pool(15)]);
    check(&[PLAIN, pool(9), pool(8), pool(70)]);
}

#[test]
fn running_sums() {
    for n in [1, 2, 17, 300] {
        check(&[PLAIN, (n, n, 1, 1, 1, (n as i64 - 1, 0))]);
        check(&[PLAIN, (n, n, 1, 1, 1, (0, n as i64 - 1))]);
        check(&[(n, n, 1, 1, 1, (n as i64 - 1, 0)), (5, 1, 1, 1, 1, (0, 0))]);
        check(&[(n, n, 1, 1, 1, (0, n as i64 - 1)), (5, 1, 1, 1, 1, (0, 0))]);
        check(&[(n, n, 2, 1, 1, (n as i64 - 1, 0)), PLAIN]);
    }
}

#[test]
fn several_operands_go_through_the_program() {
    // The sum of one operand and the largest of the other.
    let insts = vec![
        Inst::Load(0),
        Inst::Load(1),
        Inst::Load(2),
        Inst::Load(3),
        Inst::Binary(Binary::Add, Reg(0), Reg(2)),
        Inst::Binary(Binary::Max, Reg(1), Reg(3)),
    ];
    let types = [DType::F32, DType::I32];
    let program = Program::new([types, types].concat(), insts, vec![(DType::F32, Reg(4)), (DType::I32, Reg(5))]);
    let reduce = ReduceWindow::new(window(&[(6, 2, 2, 1, 1, (0, 0))]), &types, Combine::Program(program.unwrap()));
    let (a, b) = ([1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [3i32, 1, -4, -1, -5, 9]);
    let (init_a, init_b) = ([0f32], [-2i32]);
    let (mut sum, mut most) = ([0f32; 3], [0i32; 3]);
    // SAFETY: the arrays have the sizes of the reduction.
    unsafe {
        reduce.unwrap().run(
            &[a.as_ptr().cast(), b.as_ptr().cast()],
            &[init_a.as_ptr().cast(), init_b.as_ptr().cast()],
            &[sum.as_mut_ptr().cast(), most.as_mut_ptr().cast()],
            &Cores { machine: Machine::portable(), pool: Pool::new(1) },
        )
    };
    assert_eq!((sum, most), ([3.0, 7.0, 11.0], [3, -1, 9]));
}
