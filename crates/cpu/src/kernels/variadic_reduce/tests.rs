//! Reductions of several operands against one element at a time.

use super::*;
use crate::kernels::loops::ir::{Binary, Compare, Inst, Reg};
use crate::kernels::machine::Machine;
use crate::kernels::pool::Pool;

/// The body frameworks write: NaN wins, then the extreme, then the smaller index.
fn body(extreme: Extreme) -> Program {
    let compare = if extreme == Extreme::Max { Compare::Gt } else { Compare::Lt };
    let insts = vec![
        Inst::Load(0),
        Inst::Load(1),
        Inst::Load(2),
        Inst::Load(3),
        Inst::Compare(compare, Reg(0), Reg(2)),
        Inst::Compare(Compare::Ne, Reg(0), Reg(0)),
        Inst::Binary(Binary::Or, Reg(4), Reg(5)),
        Inst::Compare(Compare::Eq, Reg(0), Reg(2)),
        Inst::Compare(Compare::Lt, Reg(1), Reg(3)),
        Inst::Binary(Binary::And, Reg(7), Reg(8)),
        Inst::Binary(Binary::Or, Reg(6), Reg(9)),
        Inst::Select(Reg(6), Reg(0), Reg(2)),
        Inst::Select(Reg(10), Reg(1), Reg(3)),
    ];
    let types = vec![DType::F32, DType::I32, DType::F32, DType::I32];
    Program::new(types, insts, vec![(DType::F32, Reg(11)), (DType::I32, Reg(12))]).unwrap()
}

fn run(reduce: &VariadicReduce, values: &[f32], indices: &[i32], init: f32, machine: Machine) -> (Vec<u32>, Vec<i32>) {
    let count = reduce.kept.iter().map(|&d| reduce.dims[d]).product();
    let (mut best, mut places) = (vec![0f32; count], vec![0i32; count]);
    let (init, init_index) = ([init], [0i32]);
    // SAFETY: the vectors have the sizes of the reduction.
    unsafe {
        reduce.run(
            &[values.as_ptr().cast(), indices.as_ptr().cast()],
            &[init.as_ptr().cast(), init_index.as_ptr().cast()],
            &[best.as_mut_ptr().cast(), places.as_mut_ptr().cast()],
            &Cores { machine, pool: Pool::new(2) },
        )
    };
    (best.into_iter().map(|x| if x == 0.0 { 0 } else { x.to_bits() }).collect(), places)
}

fn check(dims: &[usize], reduced: &[usize]) {
    let total: usize = dims.iter().product();
    let strides = dense_strides(dims);
    let position = |at: usize| (at / strides[reduced[0]] % dims[reduced[0]]) as i32;
    let positions: Vec<i32> = (0..total).map(position).collect();
    let scattered: Vec<i32> = (0..total).map(|at| (at * 31 % 17) as i32 - 4).collect();
    for nan_every in [usize::MAX, 97] {
        let value = |at: usize| match at {
            _ if at % nan_every == nan_every - 1 => f32::NAN,
            _ => ((at * 7919 + at / 3) % 101) as f32 - 50.0,
        };
        let values: Vec<f32> = (0..total).map(value).collect();
        for extreme in [Extreme::Max, Extreme::Min] {
            let init = if extreme == Extreme::Max { f32::NEG_INFINITY } else { f32::INFINITY };
            let new = |body| VariadicReduce::new(dims, reduced, &[DType::F32, DType::I32], body);
            let plain = new(Body::Program(body(extreme))).unwrap();
            for (indices, sources) in
                [(&positions, vec![Indices::Read, Indices::Position]), (&scattered, vec![Indices::Read])]
            {
                let expected = run(&plain, &values, indices, init, Machine::portable());
                for source in sources {
                    let Some(quick) = new(Body::Search(extreme, source, body(extreme))) else {
                        assert!(source == Indices::Position && reduced.len() > 1);
                        continue;
                    };
                    for machine in [Machine::portable(), Machine::detect()] {
                        let found = run(&quick, &values, indices, init, machine);
                        assert_eq!(found, expected, "{extreme:?} of {dims:?} over {reduced:?}, {source:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn searches_find_what_the_body_says() {
    check(&[1], &[0]);
    check(&[300], &[0]);
    check(&[7, 130], &[1]);
    check(&[130, 7], &[0]);
    check(&[3, 50, 600], &[1]);
    check(&[3, 5, 64], &[1, 2]);
    check(&[4, 5, 6], &[0, 2]);
    check(&[4, 0], &[1]);
}
