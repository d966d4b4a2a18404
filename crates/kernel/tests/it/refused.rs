//! Kernels that cannot be are refused with what is wrong and where.

use chips::Generation;
use kernel::kernels::flash::{self, Causality, FlashAttention, FlashBlockSizes, Segments};
use kernel::{Error, KernelBuilder, MatMulForm, Semantics, Writer, interpret};
use tensor::{DType, Spec};

use crate::arrays::{literal, values};

fn spec(dims: [usize; 2]) -> Spec {
    Spec::new(DType::F32, dims)
}

/// A kernel of one input and one output of whole rows.
fn rows(
    array: [usize; 2],
    block: [usize; 2],
    write: impl FnOnce(&Writer, [kernel::ir::RefId; 2]),
) -> Result<kernel::Kernel, Error> {
    let mut b = KernelBuilder::new("rows", Generation::V5e);
    let steps = b.grid(array[0].div_ceil(block[0].max(1)), Semantics::Arbitrary);
    let x = b.input("x", spec(array), block, |m| vec![m.program_id(steps), m.i32(0)]);
    let y = b.output("y", spec(array), block, |m| vec![m.program_id(steps), m.i32(0)]);
    b.body(|k| write(k, [x, y]))
}

#[track_caller]
fn refused(kernel: Result<kernel::Kernel, Error>, message: &str) {
    let error = kernel.unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn shapes_and_types() {
    let check =
        |write: fn(&Writer, [kernel::ir::RefId; 2]), message| refused(rows([16, 128], [8, 128], write), message);
    check(|k, [x, _]| _ = k.load(x) + k.zeros(DType::F32, [8, 256]), "do not go together");
    check(|k, [x, _]| _ = k.load(x) + k.zeros(DType::BF16, [8, 128]), "of two types");
    check(|k, [x, _]| _ = k.load(x) + 1, "an integer beside f32");
    check(|k, [x, y]| k.store(y, k.load(x).cast(DType::BF16)), "bf16[8,128] stored into f32[8,128] of y");
    check(|k, [x, _]| k.store(x, k.load(x)), "x is an operand and cannot be written");
    check(|k, [x, _]| _ = k.matmul(k.load(x), k.load(x), MatMulForm::Plain), "sums over 128 and 8");
    check(|k, [x, _]| _ = k.load_part(x, &[k.i32(0), k.i32(0)], [16, 128]), "16 elements along dimension 0 of x");
    check(|k, [x, _]| _ = k.load_scalar(x, &[k.i32(0), k.i32(0)]), "x is in VMEM");
    check(|k, [x, _]| k.when(k.load(x).greater(0.0), || ()), "a condition of type");
    check(|k, [x, _]| _ = k.load(x).reshape([3, 5]), "in the shape of");
    check(|k, [x, _]| _ = k.load(x).sum(2), "along axis 2");
    let at = rows([16, 128], [8, 128], |k, [x, _]| _ = k.load(x) + 1).unwrap_err().to_string();
    assert!(at.contains("refused.rs:"), "the line is named: {at}");
}

#[test]
fn values_stay_in_their_block() {
    let kernel = rows([16, 128], [8, 128], |k, [x, y]| {
        let mut inner = None;
        k.when(k.i32(0).equals(0), || inner = Some(k.load(x)));
        k.store(y, inner.unwrap());
    });
    refused(kernel, "outside of the block that made it");
}

#[test]
fn windows() {
    refused(
        rows([16, 256], [8, 100], |_, _| ()),
        "x: size 100 of the block's dimension 1 is neither a multiple of 128",
    );
    refused(rows([100, 128], [12, 128], |_, _| ()), "neither a multiple of 8");
    refused(rows([16, 128], [32, 128], |_, _| ()), "exceeds");
    refused(rows([0, 128], [8, 128], |_, _| ()), "no steps");
    assert!(rows([12, 100], [12, 100], |_, _| ()).is_ok(), "all of an array is always a block");
}

#[test]
fn vmem() {
    let error = rows([1 << 16, 2048], [1 << 14, 2048], |k, [x, y]| k.store(y, k.load(x))).unwrap_err();
    let Error::Vmem { need_bytes, have_bytes, largest, .. } = &error else { panic!("{error}") };
    assert!(need_bytes > have_bytes);
    assert!(largest.iter().any(|(name, _)| name == "x (two blocks)"), "{error}");
    assert!(error.remedy().is_some());
}

#[test]
fn old_generations() {
    let b = KernelBuilder::new("old", Generation::V3);
    assert_eq!(b.body(|_| ()).unwrap_err(), Error::Generation(Generation::V3));
}

#[test]
fn attention_that_does_not_divide() {
    let a = FlashAttention {
        batch: 1,
        q_heads: 3,
        kv_heads: 2,
        q_len: 200,
        kv_len: 200,
        depth: 128,
        dtype: DType::BF16,
        scale: 1.0,
        soft_cap: None,
        causality: Causality::Causal,
        window: None,
        segments: Segments::One,
        mask: None,
    };
    let blocks = FlashBlockSizes { q: 128, kv_major: 128, kv: 128 };
    refused(flash::forward(&a, blocks, Generation::V5e), "3 heads are not a multiple of 2 KV heads");
    refused(flash::forward(&FlashAttention { kv_heads: 3, ..a.clone() }, blocks, Generation::V5e), "do not divide 200");
    let wide = FlashAttention { kv_heads: 3, q_len: 256, ..a };
    refused(flash::forward(&wide, blocks, Generation::V5e), "256 queries to 200 keys");
}

#[test]
fn the_interpreter_checks_bounds() {
    let kernel = rows([16, 128], [8, 128], |k, [x, y]| {
        let at = k.load(x).maximum(0);
        let _ = at;
        k.store(y, k.load_part(x, &[k.i32(0), k.i32(0)], [8, 128]));
    })
    .unwrap();
    assert!(matches!(interpret(&kernel, &[]).unwrap_err(), Error::Arguments(_)));
    let mut b = KernelBuilder::new("beyond", Generation::V5e);
    let steps = b.grid(3, Semantics::Arbitrary);
    let x = b.input("x", spec([16, 128]), [8, 128], |m| vec![m.program_id(steps), m.i32(0)]);
    let y = b.output("y", spec([8, 128]), [8, 128], |m| vec![m.i32(0), m.i32(0)]);
    let beyond = b.body(|k| k.store(y, k.load(x))).unwrap();
    let error = interpret(&beyond, &[literal(&spec([16, 128]), &[1.0; 2048])]).unwrap_err();
    assert!(error.to_string().contains("step [2]: block 2 of 8 along dimension 0 of x"), "{error}");
}

#[test]
fn what_nothing_wrote_is_not_a_number() {
    // The last block of 8 has 4 rows of the array; the rest of it must not reach results.
    let kernel = rows([12, 128], [8, 128], |k, [x, y]| {
        let total = k.load(x).sum(0);
        k.store(y, total.broadcast([8, 128]));
    })
    .unwrap();
    let results = interpret(&kernel, &[literal(&spec([12, 128]), &[1.0; 12 * 128])]).unwrap();
    let values = values(&results[0]);
    assert!(values[..8 * 128].iter().all(|&v| v == 8.0));
    assert!(values[8 * 128..].iter().all(|v| v.is_nan()), "rows beyond the array are poison");
}
