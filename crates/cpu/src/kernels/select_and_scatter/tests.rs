//! The quick paths against one window at a time.

use super::*;
use crate::kernels::loops::ir::Binary;
use crate::kernels::machine::Machine;
use crate::kernels::pool::Pool;

fn program(insts: Vec<Inst>, result: DType) -> Program {
    Program::new(vec![DType::F32; 2], insts, vec![(result, Reg(2))]).unwrap()
}

/// The quick path against the one that does what the specification says.
fn check(spec: &[(usize, usize, usize, (i64, i64))]) {
    let window = Window {
        dims: spec.iter().map(|s| s.0).collect(),
        window: spec.iter().map(|s| s.1).collect(),
        strides: spec.iter().map(|s| s.2).collect(),
        base_dilations: vec![1; spec.len()],
        window_dilations: vec![1; spec.len()],
        padding: spec.iter().map(|s| s.3).collect(),
    };
    let keep = program(vec![Inst::Load(0), Inst::Load(1), Inst::Compare(Compare::Ge, Reg(0), Reg(1))], DType::Bool);
    let turned = program(vec![Inst::Load(1), Inst::Load(0), Inst::Compare(Compare::Ge, Reg(1), Reg(0))], DType::Bool);
    assert!([&keep, &turned].iter().all(|select| keeps_larger(select)));
    let add = program(vec![Inst::Load(0), Inst::Load(1), Inst::Binary(Binary::Add, Reg(0), Reg(1))], DType::F32);
    let size: usize = window.dims.iter().product();
    let source_size: usize = window.result_dims().unwrap().iter().product();
    // Many ties, and some that are not ordered.
    let number = |i: usize| if i % 37 == 5 { f32::NAN } else { (i * 7919 % 23) as f32 - 11.0 };
    let operand: Vec<f32> = (0..size).map(number).collect();
    let source: Vec<f32> = (0..source_size).map(|i| (i % 9) as f32 - 3.0).collect();
    let init = [2f32];
    let run = |op: &SelectAndScatter, machine| {
        let mut out = vec![0f32; size];
        let cores = Cores { machine, pool: Pool::new(2) };
        // SAFETY: the vectors have the sizes of the op.
        unsafe {
            op.run(
                operand.as_ptr().cast(),
                source.as_ptr().cast(),
                init.as_ptr().cast(),
                out.as_mut_ptr().cast(),
                &cores,
            )
        };
        out
    };
    let new = |scatter| SelectAndScatter::new(window.clone(), DType::F32, keep.clone(), scatter).unwrap();
    let expected = run(&new(Combine::Program(add)), Machine::portable());
    for machine in [Machine::portable(), Machine::detect()] {
        assert_eq!(run(&new(Combine::Fold(Fold::Sum)), machine), expected, "{spec:?}");
    }
}

#[test]
fn windows_scatter_to_what_they_select() {
    let plain = (2, 1, 1, (0, 0));
    let pool = |size| (size, 3, 2, (0, 1));
    check(&[(10, 3, 2, (1, 1))]);
    check(&[(10, 2, 2, (0, 0))]);
    check(&[(5, 2, 1, (4, 4))]);
    check(&[(0, 2, 1, (4, 4))]);
    check(&[]);
    check(&[plain, pool(9), pool(8), (33, 1, 1, (0, 0))]);
    check(&[plain, plain, pool(9), pool(8)]);
    check(&[plain, plain]);
    // Windows that cover everything once, few items for the threads, odd columns.
    let exact = |count: usize| (2 * count, 2, 2, (0, 0));
    check(&[exact(16), exact(17), (37, 1, 1, (0, 0))]);
    check(&[exact(33), exact(70)]);
    check(&[plain, exact(33), exact(70)]);
    // Apart, with elements between that none meets.
    check(&[(40, 2, 3, (0, 0)), (41, 3, 5, (1, 2)), (7, 1, 1, (0, 0))]);
    check(&[(40, 2, 3, (0, 0)), (90, 3, 4, (2, 1))]);
    // Overlapping along the line, and padding that holds whole windows or cuts.
    check(&[plain, (20, 5, 1, (2, 2)), (70, 5, 1, (2, 2))]);
    check(&[plain, (20, 3, 3, (7, 8)), (70, 4, 3, (9, 5))]);
    check(&[(20, 3, 2, (-2, -1)), (70, 4, 3, (-3, -2))]);
    check(&[(6, 9, 1, (4, 4)), (5, 8, 1, (5, 4))]);
}
