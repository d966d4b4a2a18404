//! Quantized matmuls, interpreted, against plain loops.

use chips::Generation;
use kernel::kernels::quantized::{self, QuantizedMatmul, QuantizedTiles};
use kernel::{Error, KernelBuilder, Semantics, interpret};
use tensor::{DType, Literal, Spec};

use crate::arrays::{Numbers, assert_close, literal, values};

/// Activations as [`quantized::prepared`] says in plain ops: rows by group of a pass, codes of 4 bits in the order of their words.
fn prepared(shape: &QuantizedMatmul, x: &[f64]) -> Literal {
    let (depth, rows) = (256, shape.rows);
    let parts = (depth / shape.group).max(1);
    let padded = rows.next_multiple_of(if parts > 1 { 8 } else { 16 });
    let mut out = vec![0.0; parts * padded * shape.inner];
    for (part, row, at) in
        (0..parts).flat_map(|p| (0..rows).flat_map(move |r| (0..shape.inner).map(move |at| (p, r, at))))
    {
        let within = at % depth;
        let source = if shape.codes == DType::I4 {
            // Quarter, word, half.
            let (quarter, word, half) = (within / (depth / 4), within % (depth / 4) / 2, within % 2);
            8 * word + 4 * half + quarter
        } else {
            within
        };
        if parts == 1 || source / shape.group == part {
            out[(part * padded + row) * shape.inner + at] = x[row * shape.inner + at - within + source];
        }
    }
    literal(&Spec::new(DType::BF16, [parts * padded, shape.inner]), &out)
}

#[test]
fn every_code_and_group() {
    let mut numbers = Numbers::new(47);
    for (codes, group, rows, tiles) in [
        (DType::I4, 64, 8, QuantizedTiles { inner: 512, columns: 128 }),
        (DType::I4, 128, 3, QuantizedTiles { inner: 1024, columns: 256 }),
        (DType::I4, 512, 16, QuantizedTiles { inner: 1024, columns: 256 }),
        (DType::I8, 32, 8, QuantizedTiles { inner: 256, columns: 128 }),
        (DType::I8, 256, 17, QuantizedTiles { inner: 1024, columns: 128 }),
        (DType::F8E4M3FN, 128, 8, QuantizedTiles { inner: 1024, columns: 256 }),
        (DType::F8E5M2, 1024, 8, QuantizedTiles { inner: 1024, columns: 256 }),
    ] {
        let shape = QuantizedMatmul { rows, inner: 1024, columns: 256, group, x: DType::BF16, codes };
        let x = values(&numbers.array(&Spec::new(DType::BF16, [rows, shape.inner]), 1.0));
        let weight: Vec<f64> = (0..shape.inner * shape.columns)
            .map(|_| match codes {
                DType::I4 => numbers.below(16) as f64 - 8.0,
                DType::I8 => numbers.below(256) as f64 - 128.0,
                _ => numbers.normal(),
            })
            .collect();
        let weight = literal(&Spec::new(codes, [shape.inner, shape.columns]), &weight);
        let scales = numbers.array(&Spec::new(DType::F32, [shape.inner / group, shape.columns]), 1.0);
        let of_weight: Vec<f64> = match codes {
            DType::I4 | DType::I8 => weight.bytes().iter().map(|&byte| f64::from(byte as i8)).collect(),
            _ => values(&weight),
        };
        let of_scales = values(&scales);
        let mut expected = vec![0.0; rows * shape.columns];
        for row in 0..rows {
            for at in 0..shape.inner {
                for column in 0..shape.columns {
                    let weight =
                        of_weight[at * shape.columns + column] * of_scales[at / group * shape.columns + column];
                    expected[row * shape.columns + column] += x[row * shape.inner + at] * weight;
                }
            }
        }
        let kernel = quantized::matmul(&shape, tiles, Generation::V5e).unwrap();
        let operands = [prepared(&shape, &x), weight, scales];
        let results = interpret(&kernel, &operands).unwrap();
        assert_close(&format!("{codes} in groups of {group}"), &results[0], &expected, 2e-5);
    }
}

#[test]
fn tiles_cover_models() {
    // Llama 3.1 8B and 70B, their parts on eight chips, and Qwen.
    for (inner, columns) in
        [(4096, 14336), (14336, 4096), (8192, 28672), (28672, 8192), (8192, 1024), (3584, 8192), (3584, 18944)]
    {
        for (codes, group) in [(DType::I4, 64), (DType::I4, 128), (DType::I8, 32), (DType::I8, 128)] {
            for generation in [Generation::V4, Generation::V5e, Generation::V5p, Generation::V6e, Generation::Tpu7x] {
                let shape = QuantizedMatmul { rows: 8, inner, columns, group, x: DType::BF16, codes };
                let tiles = QuantizedTiles::preferred(&shape, generation).unwrap();
                let kernel = quantized::matmul(&shape, tiles, generation);
                assert!(kernel.is_ok(), "{generation} {inner}x{columns} {codes} {group}: {tiles:?} {kernel:?}");
            }
        }
    }
}

#[test]
fn shapes_that_are_none() {
    let good = QuantizedMatmul { rows: 8, inner: 1024, columns: 256, group: 128, x: DType::BF16, codes: DType::I4 };
    let tiles = QuantizedTiles { inner: 1024, columns: 256 };
    for (shape, word) in [
        (QuantizedMatmul { group: 32, ..good }, "multiples of 64"),
        (QuantizedMatmul { group: 384, ..good }, "multiples of 64"),
        (QuantizedMatmul { rows: 0, ..good }, "0 rows"),
        (QuantizedMatmul { rows: 300, ..good }, "at most 256"),
        (QuantizedMatmul { codes: DType::F4E2M1FN, ..good }, "codes of"),
        (QuantizedMatmul { x: DType::I8, ..good }, "activations of"),
    ] {
        let refused = quantized::matmul(&shape, tiles, Generation::V5e).unwrap_err();
        assert!(matches!(refused, Error::Shape { .. }) && refused.to_string().contains(word), "{refused}");
    }
}

#[test]
fn bits_are_read_in_the_order_of_words() {
    let array = |dtype, dims| Spec::new(dtype, dims);
    let mut b = KernelBuilder::new("bits", Generation::V5e);
    let step = b.grid(1, Semantics::Arbitrary);
    let x = b.input("x", array(DType::I4, [64, 128]), [64, 128], |m| vec![m.program_id(step), m.i32(0)]);
    let y = b.output("y", array(DType::I32, [8, 128]), [8, 128], |m| vec![m.program_id(step), m.i32(0)]);
    let kernel = b.body(|k| k.store(y, k.load(x).reinterpret(DType::I32))).unwrap();
    // Row n has n % 16, as signed.
    let rows: Vec<f64> = (0..64 * 128).map(|i| f64::from((i / 128 % 16) << 28 >> 28)).collect();
    let words = values(&interpret(&kernel, &[literal(&array(DType::I4, [64, 128]), &rows)]).unwrap()[0]);
    assert_eq!((words[0] as i32, words[128] as i32), (0x7654_3210, 0xfedc_ba98_u32 as i32));
}
