//! The text of a kernel with everything in it, line by line.

use chips::Generation;
use kernel::{KernelBuilder, MatMulForm, Semantics};
use tensor::{DType, Spec};

const EXPECTED: &str = include_str!("../data/everything.mlir");

#[test]
fn golden() {
    let mut b = KernelBuilder::new("every thing", Generation::V5e);
    let outer = b.grid(4, Semantics::Parallel);
    let inner = b.grid(2, Semantics::Arbitrary);
    let table = b.prefetch("table", [4]);
    let x = b.input("x", Spec::new(DType::BF16, [8, 256, 128]), [1, 128, 128], |m| {
        vec![m.load_scalar(table, &[m.program_id(outer)]), m.program_id(inner), m.i32(0)]
    });
    let y = b.output("y", Spec::new(DType::F32, [512, 128]), [128, 128], |m| vec![m.program_id(outer), m.i32(0)]);
    let sum = b.scratch("sum", DType::F32, [128, 128]);
    let kernel = b.body(|k| {
        k.when(k.program_id(inner).equals(0), || k.store(sum, k.zeros(DType::F32, [128, 128])));
        let block = k.load(x);
        let dot = k.matmul(block, block, MatMulForm::TransposedRhs);
        let rows =
            k.for_each(k.i32(0), k.i32(3), &[dot.maximum(1)], |n, carried| vec![carried[0] * 0.5 + n.cast(DType::F32)]);
        let wave = (dot - rows[0]).exp2().tanh();
        let kept = k.iota([128, 128], 0).at_most(k.iota([128, 128], 1)).select(wave, f32::NEG_INFINITY);
        k.store(sum, k.load(sum) + kept);
        k.when(k.program_id(inner).equals(1), || k.store(y, k.load(sum).transpose()));
    });
    let text = kernel.unwrap().text();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/everything.mlir");
        std::fs::write(path, &text).unwrap();
        return;
    }
    assert_eq!(text, EXPECTED, "run with UPDATE_GOLDEN=1 if the change is meant");
}
