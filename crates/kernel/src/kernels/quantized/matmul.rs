//! The kernel: codes widened, a matmul for each pass, scales of groups.

use chips::Generation;
use tensor::DType;

use super::{QuantizedMatmul, QuantizedTiles};
use crate::builder::KernelBuilder;
use crate::error::Error;
use crate::ir::MatMulForm::Plain;
use crate::kernel::{Kernel, Semantics};
use crate::writer::{Val, Writer};

/// Lowest four bits of each half of a word.
const NIBBLES: i32 = 0x000f_000f;
/// 128 as `bf16` in each half of a word, with the sign bit of a code turned: 128 + 8 + code.
const MAGIC: i32 = 0x4308_4308;
/// What a code of 4 bits reads as too much.
const OFFSET: f32 = 136.0;

/// The kernel. Operands: activations of [`super::prepared`], codes, scales. Result: `f32 [rows, columns]`.
pub fn matmul(shape: &QuantizedMatmul, tiles: QuantizedTiles, generation: Generation) -> Result<Kernel, Error> {
    shape.check(&tiles)?;
    let s = *shape;
    let rounds = s.inner / tiles.inner;
    let lhs_rows = s.parts() * s.padded_rows();
    let mut kernel = KernelBuilder::new("quantized_matmul", generation);
    let columns = kernel.grid(s.columns / tiles.columns, Semantics::Parallel);
    let inner = kernel.grid(rounds, Semantics::Arbitrary);
    let x = kernel.input("x", s.prepared_spec(), [lhs_rows, tiles.inner], |m| vec![m.i32(0), m.program_id(inner)]);
    let codes = kernel.input("codes", s.codes_spec(), [tiles.inner, tiles.columns], |m| {
        vec![m.program_id(inner), m.program_id(columns)]
    });
    let scales = kernel.input("scales", s.scales_spec(), [tiles.inner / s.group, tiles.columns], |m| {
        vec![m.program_id(inner), m.program_id(columns)]
    });
    let out = kernel.output("result", s.out_spec(), [s.rows, tiles.columns], |m| vec![m.i32(0), m.program_id(columns)]);
    kernel.cost(s.cost());
    kernel.body(|k| {
        let dims = [s.rows, tiles.columns];
        let depth = s.depth();
        let mut sum = k.zeros(DType::F32, dims);
        if rounds > 1 {
            k.when(k.program_id(inner).equals(0), || k.store(out, sum));
            sum = k.load(out);
        }
        // What passes of a group that is longer than a pass have summed so far.
        let mut group_sum: Option<Val<'_>> = None;
        for first in (0..tiles.inner).step_by(depth) {
            let lhs = k.load_part(x, &[k.i32(0), k.i32(first as i32)], [lhs_rows, depth]);
            let block = k.load_part(codes, &[k.i32(first as i32), k.i32(0)], [depth, tiles.columns]);
            let mut dot = k.matmul(lhs, widened(k, &s, block), Plain);
            if s.is_offset() {
                dot = dot - lhs.cast(DType::F32).sum(1) * OFFSET;
            }
            let dot = group_sum.take().map_or(dot, |before| before + dot);
            if !(first + depth).is_multiple_of(s.group) && s.group > depth {
                group_sum = Some(dot);
                continue;
            }
            for part in 0..s.parts() {
                let group = first / s.group + part;
                let scale = k.load_part(scales, &[k.i32(group as i32), k.i32(0)], [1, tiles.columns]);
                sum = sum + dot.rows(part * s.padded_rows(), s.rows) * scale;
            }
        }
        k.store(out, sum);
    })
}

/// Codes in `bf16`. Those of 4 bits are too large by [`OFFSET`], and their rows are in the order of [`super::prepared`].
fn widened<'k>(k: &'k Writer, shape: &QuantizedMatmul, codes: Val<'k>) -> Val<'k> {
    if !shape.is_offset() {
        return codes.cast(DType::BF16);
    }
    let words = codes.reinterpret(DType::I32);
    let quarter = |n: i32| {
        let moved = if n == 0 { words } else { words.shift_right(4 * n) };
        ((moved & NIBBLES) ^ MAGIC).reinterpret(DType::BF16)
    };
    k.concatenate(&[quarter(0), quarter(1), quarter(2), quarter(3)])
}
