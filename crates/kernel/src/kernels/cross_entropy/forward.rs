//! The forward kernel: losses, and the log-sum-exp of the logits.

use chips::Generation;
use tensor::DType;

use super::{CrossEntropyBlockSizes, FusedCrossEntropy, Logits};
use crate::builder::KernelBuilder;
use crate::error::Error;
use crate::kernel::{Kernel, Semantics};

/// The forward kernel.
pub fn forward(
    loss: &FusedCrossEntropy,
    blocks: CrossEntropyBlockSizes,
    generation: Generation,
) -> Result<Kernel, Error> {
    loss.check(&blocks)?;
    let (l, b) = (*loss, blocks);
    let count = l.padded(&b) / b.vocab;
    // Exponentials of one half run beside the matmul of the other.
    let parts = if b.rows.is_multiple_of(256) { 2 } else { 1 };
    let width = b.rows / parts;
    let mut kernel = KernelBuilder::new("cross_entropy_fwd", generation);
    let rows = kernel.grid(l.rows / b.rows, Semantics::Parallel);
    let vocab = kernel.grid(count, Semantics::Arbitrary);
    let x = kernel.input("x", l.x(), [b.rows, l.depth], |m| vec![m.program_id(rows), m.i32(0)]);
    let weight = kernel.input("weight", l.weight(&b), [b.vocab, l.depth], |m| vec![m.program_id(vocab), m.i32(0)]);
    let labels = kernel.input("labels", l.row(DType::I32), [1, b.rows], |m| vec![m.i32(0), m.program_id(rows)]);
    let mut row =
        |name: &str| kernel.output(name, l.row(DType::F32), [1, b.rows], |m| vec![m.i32(0), m.program_id(rows)]);
    let (losses, logsumexp) = (row("losses"), row("logsumexp"));
    let mut kept = |name: &str| kernel.scratch(name, DType::F32, [1, b.rows]);
    let (maxima, sums, picked) = (kept("maxima"), kept("sums"), kept("logits of labels"));
    kernel.cost(l.cost(1, (1, l.rows / b.rows), 0));
    kernel.body(|k| {
        let vocab_block = k.program_id(vocab);
        k.when(vocab_block.equals(0), || {
            k.store(maxima, k.full(DType::F32, [1, b.rows], f32::MIN));
            k.store(sums, k.zeros(DType::F32, [1, b.rows]));
            k.store(picked, k.zeros(DType::F32, [1, b.rows]));
        });
        for n in 0..parts {
            let at = [k.i32(0), k.i32((n * width) as i32)];
            let mine = |from| k.load_part(from, &at, [1, width]);
            let x = k.load_part(x, &[at[1], at[0]], [width, l.depth]);
            let logits = Logits::new(k, &l, x, (k.load(weight), vocab_block));
            let values = logits.known(logits.values, f32::MIN);
            let before = mine(maxima);
            let now = before.max(values.maximum(0));
            k.store_part(sums, &at, mine(sums) * (before - now).exp() + (values - now).exp().sum(0));
            k.store_part(picked, &at, mine(picked) + logits.is_label(mine(labels)).select(values, 0.0).sum(0));
            k.store_part(maxima, &at, now);
        }
        k.when(vocab_block.equals(count as i32 - 1), || {
            let all = k.load(maxima) + k.load(sums).log();
            k.store(logsumexp, all);
            k.store(losses, all - k.load(picked));
        });
    })
}
