//! The backward kernels: both gradients at once where one core has the device, one by one where two cores share it.

use chips::Generation;
use tensor::{DType, Spec};

use super::{CrossEntropyBlockSizes, FusedCrossEntropy, Logits};
use crate::builder::KernelBuilder;
use crate::error::Error;
use crate::ir::MatMulForm::{Plain, TransposedLhs};
use crate::ir::RefId;
use crate::kernel::{AxisId, Kernel, Semantics};
use crate::writer::{Val, Writer};

/// Whether a gradient of the weight begins with these rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// It does.
    Begins,
    /// It goes on from that of other rows: one more operand.
    GoesOn,
}

/// Values of rows: labels, log-sum-exp, and the shares of probabilities and of labels in the gradient.
type Rows<T> = [T; 4];

const ROWS: Rows<(&str, DType)> = [
    ("labels", DType::I32),
    ("logsumexp", DType::F32),
    ("share of probabilities", DType::F32),
    ("share of labels", DType::F32),
];

impl FusedCrossEntropy {
    /// Gradients of a block of logits: probabilities by their share, less the other share at the label.
    fn dlogits<'k>(&self, logits: &Logits<'k>, rows: Rows<Val<'k>>) -> Val<'k> {
        let [labels, logsumexp, share, of_label] = rows;
        let probabilities = (logits.values - logsumexp).exp();
        let gradient = probabilities * share - logits.is_label(labels).select(of_label, 0.0);
        logits.known(gradient, 0.0).cast(self.dtype)
    }

    fn sum_spec(&self, blocks: &CrossEntropyBlockSizes) -> Spec {
        Spec::new(DType::F32, [self.padded(blocks), self.depth])
    }
}

/// The kernel of both gradients, in `f32`. All of `x` and its gradient stay in VMEM while the weight passes by, so there cannot be many
/// rows: more of them are several calls.
pub fn backward(
    loss: &FusedCrossEntropy,
    blocks: CrossEntropyBlockSizes,
    sum: Sum,
    generation: Generation,
) -> Result<Kernel, Error> {
    loss.check(&blocks)?;
    let (l, b) = (*loss, blocks);
    let rounds = l.rows / b.rows;
    let mut kernel = KernelBuilder::new("cross_entropy_bwd", generation);
    let vocab = kernel.grid(l.padded(&b) / b.vocab, Semantics::Arbitrary);
    let all = [l.rows, l.depth];
    let x = kernel.input_single("x", l.x(), all, |m| vec![m.i32(0), m.i32(0)]);
    let block = [b.vocab, l.depth];
    let weight = kernel.input("weight", l.weight(&b), block, |m| vec![m.program_id(vocab), m.i32(0)]);
    let rows =
        ROWS.map(|(name, dtype)| kernel.input_single(name, l.row(dtype), [1, l.rows], |m| vec![m.i32(0), m.i32(0)]));
    let so_far = (sum == Sum::GoesOn)
        .then(|| kernel.input("gradient so far", l.sum_spec(&b), block, |m| vec![m.program_id(vocab), m.i32(0)]));
    let dx = kernel.output_single("gradient of x", Spec::new(DType::F32, all), all, |m| vec![m.i32(0), m.i32(0)]);
    let dweight = kernel.output("gradient of weight", l.sum_spec(&b), block, |m| vec![m.program_id(vocab), m.i32(0)]);
    if let Some(so_far) = so_far {
        kernel.in_place(so_far, dweight);
    }
    let sums = if sum == Sum::GoesOn { 2 } else { 1 } * l.sum_spec(&b).bytes();
    kernel.cost(l.cost(3, (1, 1), Spec::new(DType::F32, all).bytes() + sums));
    kernel.body(|k| {
        let (vocab_block, zero) = (k.program_id(vocab), k.i32(0));
        let each = |round: &dyn Fn(Val<'_>)| {
            k.for_each(zero, k.i32(rounds as i32), &[], |n, _| {
                round((n * b.rows as i32).multiple_of(b.rows as u32));
                Vec::new()
            });
        };
        k.when(vocab_block.equals(0), || {
            each(&|begin| k.store_part(dx, &[begin, zero], k.zeros(DType::F32, [b.rows, l.depth])));
        });
        k.store(dweight, so_far.map_or_else(|| k.zeros(DType::F32, block), |so_far| k.load(so_far)));
        each(&|begin| {
            let part = k.load_part(x, &[begin, zero], [b.rows, l.depth]);
            let logits = Logits::new(k, &l, part, (k.load(weight), vocab_block));
            let dlogits = l.dlogits(&logits, rows.map(|row| k.load_part(row, &[zero, begin], [1, b.rows])));
            k.store(dweight, k.load(dweight) + k.matmul(dlogits, part, Plain));
            let more = k.matmul(dlogits, k.load(weight), TransposedLhs);
            k.store_part(dx, &[begin, zero], k.load_part(dx, &[begin, zero], [b.rows, l.depth]) + more);
        });
    })
}

/// What a kernel of one gradient has.
struct Parts {
    x: RefId,
    weight: RefId,
    rows: Rows<RefId>,
    row: AxisId,
    vocab_block: AxisId,
}

impl FusedCrossEntropy {
    /// Operands by the axes of a grid.
    fn parts(
        &self,
        kernel: &mut KernelBuilder,
        b: &CrossEntropyBlockSizes,
        (row, vocab_block): (AxisId, AxisId),
    ) -> Parts {
        let x = kernel.input("x", self.x(), [b.rows, self.depth], |m| vec![m.program_id(row), m.i32(0)]);
        let weight = kernel
            .input("weight", self.weight(b), [b.vocab, self.depth], |m| vec![m.program_id(vocab_block), m.i32(0)]);
        let rows = ROWS.map(|(name, dtype)| {
            kernel.input(name, self.row(dtype), [1, b.rows], |m| vec![m.i32(0), m.program_id(row)])
        });
        Parts { x, weight, rows, row, vocab_block }
    }

    fn gradient_of_block<'k>(&self, k: &'k Writer, parts: &Parts) -> Val<'k> {
        let logits = Logits::new(k, self, k.load(parts.x), (k.load(parts.weight), k.program_id(parts.vocab_block)));
        self.dlogits(&logits, parts.rows.map(|row| k.load(row)))
    }
}

/// The kernel of the gradient of `x`.
pub fn backward_x(
    loss: &FusedCrossEntropy,
    blocks: CrossEntropyBlockSizes,
    generation: Generation,
) -> Result<Kernel, Error> {
    loss.check(&blocks)?;
    let (l, b) = (*loss, blocks);
    let count = l.padded(&b) / b.vocab;
    let mut kernel = KernelBuilder::new("cross_entropy_bwd_x", generation);
    let row = kernel.grid(l.rows / b.rows, Semantics::Parallel);
    let vocab_block = kernel.grid(count, Semantics::Arbitrary);
    let parts = l.parts(&mut kernel, &b, (row, vocab_block));
    let block = [b.rows, l.depth];
    let dx = kernel.output("gradient of x", l.x(), block, |m| vec![m.program_id(row), m.i32(0)]);
    let sum = kernel.scratch("accumulator", DType::F32, block);
    kernel.cost(l.cost(2, (1, l.rows / b.rows), l.x().bytes()));
    kernel.body(|k| {
        let vocab_block = k.program_id(parts.vocab_block);
        k.when(vocab_block.equals(0), || k.store(sum, k.zeros(DType::F32, block)));
        let more = k.matmul(l.gradient_of_block(k, &parts), k.load(parts.weight), TransposedLhs);
        k.store(sum, k.load(sum) + more);
        k.when(vocab_block.equals(count as i32 - 1), || k.store(dx, k.load(sum).cast(l.dtype)));
    })
}

/// The kernel of the gradient of the weight.
pub fn backward_weight(
    loss: &FusedCrossEntropy,
    blocks: CrossEntropyBlockSizes,
    generation: Generation,
) -> Result<Kernel, Error> {
    loss.check(&blocks)?;
    let (l, b) = (*loss, blocks);
    let count = l.rows / b.rows;
    let mut kernel = KernelBuilder::new("cross_entropy_bwd_weight", generation);
    let vocab_block = kernel.grid(l.padded(&b) / b.vocab, Semantics::Parallel);
    let row = kernel.grid(count, Semantics::Arbitrary);
    let parts = l.parts(&mut kernel, &b, (row, vocab_block));
    let block = [b.vocab, l.depth];
    let dweight =
        kernel.output("gradient of weight", l.weight(&b), block, |m| vec![m.program_id(vocab_block), m.i32(0)]);
    let sum = kernel.scratch("accumulator", DType::F32, block);
    kernel.cost(l.cost(2, (l.padded(&b) / b.vocab, 1), l.weight(&b).bytes()));
    kernel.body(|k| {
        let row = k.program_id(parts.row);
        k.when(row.equals(0), || k.store(sum, k.zeros(DType::F32, block)));
        k.store(sum, k.load(sum) + k.matmul(l.gradient_of_block(k, &parts), k.load(parts.x), Plain));
        k.when(row.equals(count as i32 - 1), || k.store(dweight, k.load(sum).cast(l.dtype)));
    })
}
