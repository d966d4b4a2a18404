//! The last product and the cross-entropy in one: logits exist block by block only, forward and backward.

use chips::Generation;
use hlo::Func;
use tensor::{DType, Spec};

use super::{Request, divisor, function, tensor};
use crate::cost::Cost;
use crate::error::Error;
use crate::ir::MatMulForm::{Plain, TransposedLhs, TransposedRhs};
use crate::ir::RefId;
use crate::kernel::{Axis, Kernel, KernelBuilder, Semantics};
use crate::writer::{Val, Writer};

/// Operands: `x [rows, depth]`, `weight [words, depth]`, labels `[1, rows]` (i32). Results `[1, rows]` (f32): losses, and
/// logarithms of sums of exponentials of logits.
pub const FORWARD: &str = "tpubridge.cross_entropy";
/// Operands: `x`, `weight`, labels, logsumexp, gradients of losses `[1, rows]`. Result: gradient of `x`.
pub const BACKWARD_X: &str = "tpubridge.cross_entropy_backward_x";
/// Operands as for the gradient of `x`. Result: gradient of `weight`.
pub const BACKWARD_WEIGHT: &str = "tpubridge.cross_entropy_backward_weight";

const KERNEL: &str = "cross_entropy";
const LANES: usize = 128;

/// Shapes of one loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossEntropy {
    /// Predictions.
    pub rows: usize,
    /// Size of a prediction.
    pub depth: usize,
    /// Words to choose from.
    pub words: usize,
    /// Element type of predictions and words.
    pub dtype: DType,
}

/// Block sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Predictions.
    pub rows: usize,
    /// Words.
    pub words: usize,
}

impl Blocks {
    /// Sizes for a generation, as far as they divide.
    pub fn preferred(loss: &CrossEntropy, generation: Generation) -> Option<Blocks> {
        let vmem_bytes = generation.spec().memory.vmem_bytes_per_core.value as usize;
        // The largest kernel keeps some 20 bytes for each word and depth, and as many for each row and depth.
        let most = (vmem_bytes / 2 / (40 * loss.depth.max(128))).clamp(128, 512);
        Some(Blocks { rows: divisor(loss.rows, 128, most)?, words: divisor(loss.words, 128, most)? })
    }
}

struct Parts {
    x: RefId,
    weight: RefId,
    labels: RefId,
    rows: Axis,
    words: Axis,
}

impl CrossEntropy {
    fn x(&self) -> Spec {
        Spec::new(self.dtype, [self.rows, self.depth])
    }

    fn weight(&self) -> Spec {
        Spec::new(self.dtype, [self.words, self.depth])
    }

    fn row(&self, dtype: DType) -> Spec {
        Spec::new(dtype, [1, self.rows])
    }

    fn check(&self, blocks: &Blocks) -> Result<(), Error> {
        let divides = |block: usize, size: usize| block > 0 && size.is_multiple_of(block) && block.is_multiple_of(128);
        let fits = divides(blocks.rows, self.rows) && divides(blocks.words, self.words);
        if !fits || !matches!(self.dtype, DType::BF16 | DType::F32) || i32::try_from(self.words).is_err() {
            let message = format!("blocks {blocks:?} for {self:?}: multiples of 128 that divide, of bf16 or f32");
            return Err(Error::Shape { kernel: KERNEL, message });
        }
        Ok(())
    }

    /// Grid and operands that all passes have.
    fn begin(&self, kernel: &mut KernelBuilder, b: &Blocks, slower: Slower) -> Parts {
        let counts = (self.rows / b.rows, self.words / b.words);
        let (rows, words) = match slower {
            Slower::Rows => {
                let rows = kernel.grid(counts.0, Semantics::Parallel);
                (rows, kernel.grid(counts.1, Semantics::Arbitrary))
            }
            Slower::Words => {
                let words = kernel.grid(counts.1, Semantics::Parallel);
                (kernel.grid(counts.0, Semantics::Arbitrary), words)
            }
        };
        let x = kernel.input("x", self.x(), [b.rows, self.depth], |m| vec![m.program_id(rows), m.i32(0)]);
        let weight =
            kernel.input("weight", self.weight(), [b.words, self.depth], |m| vec![m.program_id(words), m.i32(0)]);
        let labels = kernel.input("labels", self.row(DType::I32), [1, b.rows], |m| vec![m.i32(0), m.program_id(rows)]);
        Parts { x, weight, labels, rows, words }
    }

    fn cost(&self, products: u64) -> Cost {
        let logits = self.rows as u64 * self.words as u64;
        Cost {
            flops: products * 2 * logits * self.depth as u64,
            transcendentals: logits,
            bytes_accessed: self.x().bytes() + self.weight().bytes() + 3 * self.row(DType::F32).bytes(),
        }
    }

    /// Gradients of a block of logits: weights less one at the label, times the gradient of the loss.
    fn dlogits<'k>(&self, k: &'k Writer, parts: &Parts, b: &Blocks, rows: [Val<'k>; 3]) -> Val<'k> {
        let [labels, logsumexp, dloss] = rows.map(|row| wide(row, b));
        let logits = k.matmul(k.load(parts.x), k.load(parts.weight), TransposedRhs);
        let weights = (logits - logsumexp.repeat(b.words / LANES)).exp();
        let is_label = is_label(k, parts, b, labels);
        ((weights - is_label.cast(DType::F32)) * dloss.repeat(b.words / LANES)).cast(self.dtype)
    }
}

#[derive(Clone, Copy)]
enum Slower {
    Rows,
    Words,
}

/// A dense row as a column, 128 times over along lanes.
fn wide<'k>(row: Val<'k>, b: &Blocks) -> Val<'k> {
    row.broadcast([LANES, b.rows]).transpose()
}

/// Where a block's word is the row's label, whose numbers are given as columns.
fn is_label<'k>(k: &'k Writer, parts: &Parts, b: &Blocks, labels: Val<'k>) -> Val<'k> {
    let word = k.iota([b.rows, b.words], 1) + k.program_id(parts.words) * b.words as i32;
    word.equals(labels.repeat(b.words / LANES))
}

/// The forward kernel.
pub fn forward(loss: &CrossEntropy, blocks: Blocks, generation: Generation) -> Result<Kernel, Error> {
    loss.check(&blocks)?;
    let (l, b) = (*loss, blocks);
    let count = l.words / b.words;
    let mut kernel = KernelBuilder::new("cross_entropy_fwd", generation);
    let parts = l.begin(&mut kernel, &b, Slower::Rows);
    let mut row =
        |name: &str| kernel.output(name, l.row(DType::F32), [1, b.rows], |m| vec![m.i32(0), m.program_id(parts.rows)]);
    let (losses, logsumexp) = (row("losses"), row("logsumexp"));
    let maxima = kernel.scratch("maxima", DType::F32, [b.rows, LANES]);
    let sums = kernel.scratch("sums", DType::F32, [b.rows, LANES]);
    let picked = kernel.scratch("logits of labels", DType::F32, [b.rows, LANES]);
    let labels = kernel.scratch("labels by row", DType::I32, [b.rows, LANES]);
    kernel.cost(l.cost(1));
    kernel.body(|k| {
        let word = k.program_id(parts.words);
        k.when(word.equals(0), || {
            k.store(maxima, k.full(DType::F32, [b.rows, LANES], f32::MIN));
            k.store(sums, k.zeros(DType::F32, [b.rows, LANES]));
            k.store(picked, k.zeros(DType::F32, [b.rows, LANES]));
            k.store(labels, wide(k.load(parts.labels), &b));
        });
        let logits = k.matmul(k.load(parts.x), k.load(parts.weight), TransposedRhs);
        let is_label = is_label(k, &parts, &b, k.load(labels));
        let before = k.load(maxima);
        let now = before.max(logits.maximum(1));
        let weights = (logits - now.repeat(b.words / LANES)).exp();
        k.store(sums, k.load(sums) * (before - now).exp() + weights.sum(1));
        k.store(picked, k.load(picked) + is_label.select(logits, 0.0).sum(1));
        k.store(maxima, now);
        k.when(word.equals(count as i32 - 1), || {
            let all = k.load(maxima) + k.load(sums).log();
            k.store(logsumexp, all.transpose().maximum(0));
            k.store(losses, (all - k.load(picked)).transpose().maximum(0));
        });
    })
}

/// Operands that come with gradients.
fn with_gradients(l: &CrossEntropy, kernel: &mut KernelBuilder, parts: &Parts, b: &Blocks) -> [RefId; 3] {
    let rows = parts.rows;
    let mut row =
        |name: &str| kernel.input(name, l.row(DType::F32), [1, b.rows], |m| vec![m.i32(0), m.program_id(rows)]);
    [parts.labels, row("logsumexp"), row("gradients of losses")]
}

/// The kernel of the gradient of `x`.
pub fn backward_x(loss: &CrossEntropy, blocks: Blocks, generation: Generation) -> Result<Kernel, Error> {
    loss.check(&blocks)?;
    let (l, b) = (*loss, blocks);
    let count = l.words / b.words;
    let mut kernel = KernelBuilder::new("cross_entropy_bwd_x", generation);
    let parts = l.begin(&mut kernel, &b, Slower::Rows);
    let rows = with_gradients(&l, &mut kernel, &parts, &b);
    let dx = kernel.output("gradient of x", l.x(), [b.rows, l.depth], |m| vec![m.program_id(parts.rows), m.i32(0)]);
    let sum = kernel.scratch("accumulator", DType::F32, [b.rows, l.depth]);
    kernel.cost(l.cost(2));
    kernel.body(|k| {
        let word = k.program_id(parts.words);
        k.when(word.equals(0), || k.store(sum, k.zeros(DType::F32, [b.rows, l.depth])));
        let dlogits = l.dlogits(k, &parts, &b, rows.map(|row| k.load(row)));
        k.store(sum, k.load(sum) + k.matmul(dlogits, k.load(parts.weight), Plain));
        k.when(word.equals(count as i32 - 1), || k.store(dx, k.load(sum).cast(l.dtype)));
    })
}

/// The kernel of the gradient of `weight`.
pub fn backward_weight(loss: &CrossEntropy, blocks: Blocks, generation: Generation) -> Result<Kernel, Error> {
    loss.check(&blocks)?;
    let (l, b) = (*loss, blocks);
    let count = l.rows / b.rows;
    let mut kernel = KernelBuilder::new("cross_entropy_bwd_weight", generation);
    let parts = l.begin(&mut kernel, &b, Slower::Words);
    let rows = with_gradients(&l, &mut kernel, &parts, &b);
    let dweight = kernel
        .output("gradient of weight", l.weight(), [b.words, l.depth], |m| vec![m.program_id(parts.words), m.i32(0)]);
    let sum = kernel.scratch("accumulator", DType::F32, [b.words, l.depth]);
    kernel.cost(l.cost(2));
    kernel.body(|k| {
        let row = k.program_id(parts.rows);
        k.when(row.equals(0), || k.store(sum, k.zeros(DType::F32, [b.words, l.depth])));
        let dlogits = l.dlogits(k, &parts, &b, rows.map(|row| k.load(row)));
        k.store(sum, k.load(sum) + k.matmul(dlogits, k.load(parts.x), TransposedLhs));
        k.when(row.equals(count as i32 - 1), || k.store(dweight, k.load(sum).cast(l.dtype)));
    })
}

fn read(request: &Request<'_>) -> Result<(CrossEntropy, Blocks), Error> {
    let [rows, depth] = request.dims(KERNEL, 0)?;
    let [words, _] = request.dims(KERNEL, 1)?;
    let dtype = request.operands.first().map_or(DType::F32, |spec| spec.dtype);
    let loss = CrossEntropy { rows, depth, words, dtype };
    let message = format!("{rows} rows and {words} words are not whole blocks of 128");
    let blocks = Blocks::preferred(&loss, request.generation).ok_or(Error::Shape { kernel: KERNEL, message })?;
    let rows = request.size("block_rows").unwrap_or(blocks.rows);
    Ok((loss, Blocks { rows, words: request.size("block_words").unwrap_or(blocks.words) }))
}

pub(super) fn forward_for(request: &Request<'_>) -> Result<Kernel, Error> {
    let (loss, blocks) = read(request)?;
    forward(&loss, blocks, request.generation)
}

pub(super) fn backward_x_for(request: &Request<'_>) -> Result<Kernel, Error> {
    let (loss, blocks) = read(request)?;
    backward_x(&loss, blocks, request.generation)
}

pub(super) fn backward_weight_for(request: &Request<'_>) -> Result<Kernel, Error> {
    let (loss, blocks) = read(request)?;
    backward_weight(&loss, blocks, request.generation)
}

/// Logits and where labels are, in plain ops (`%logits`, `%is_label`).
fn plain_logits(l: &CrossEntropy) -> String {
    let (x, weight, logits) = (
        tensor(l.dtype, [l.rows, l.depth]),
        tensor(l.dtype, [l.words, l.depth]),
        tensor(DType::F32, [l.rows, l.words]),
    );
    let (ints, truths) = (tensor(DType::I32, [l.rows, l.words]), tensor(DType::Bool, [l.rows, l.words]));
    format!(
        "  %logits = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : ({x}, {weight}) -> {logits}
  %label1 = stablehlo.reshape %labels : (tensor<1x{rows}xi32>) -> tensor<{rows}xi32>
  %label = stablehlo.broadcast_in_dim %label1, dims = [0] : (tensor<{rows}xi32>) -> {ints}
  %word = stablehlo.iota dim = 1 : {ints}
  %is_label = stablehlo.compare EQ, %word, %label, SIGNED : ({ints}, {ints}) -> {truths}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>",
        rows = l.rows
    )
}

/// The forward pass in plain ops, a function of that name.
pub fn decomposition(loss: &CrossEntropy, name: &str) -> Result<Func, Error> {
    let l = loss;
    let (x, weight, wide) = (
        tensor(l.dtype, [l.rows, l.depth]),
        tensor(l.dtype, [l.words, l.depth]),
        tensor(DType::F32, [l.rows, l.words]),
    );
    let (column, row, truths) =
        (tensor(DType::F32, [l.rows]), tensor(DType::F32, [1, l.rows]), tensor(DType::Bool, [l.rows, l.words]));
    function(format!(
        "func.func private @{name}(%x: {x}, %w: {weight}, %labels: tensor<1x{rows}xi32>) -> ({row}, {row}) {{
{logits}
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %most = stablehlo.reduce(%logits init: %least) applies stablehlo.maximum across dimensions = [1] : ({wide}, tensor<f32>) -> {column}
  %mosts = stablehlo.broadcast_in_dim %most, dims = [0] : ({column}) -> {wide}
  %less = stablehlo.subtract %logits, %mosts : {wide}
  %exponentials = stablehlo.exponential %less : {wide}
  %sum = stablehlo.reduce(%exponentials init: %zero) applies stablehlo.add across dimensions = [1] : ({wide}, tensor<f32>) -> {column}
  %log = stablehlo.log %sum : {column}
  %all = stablehlo.add %most, %log : {column}
  %nothing = stablehlo.constant dense<0.0> : {wide}
  %chosen = stablehlo.select %is_label, %logits, %nothing : {truths}, {wide}
  %picked = stablehlo.reduce(%chosen init: %zero) applies stablehlo.add across dimensions = [1] : ({wide}, tensor<f32>) -> {column}
  %loss = stablehlo.subtract %all, %picked : {column}
  %losses = stablehlo.reshape %loss : ({column}) -> {row}
  %logsumexp = stablehlo.reshape %all : ({column}) -> {row}
  return %losses, %logsumexp : {row}, {row}
}}",
        rows = l.rows,
        logits = plain_logits(l)
    ))
}

/// Which gradient a decomposition gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Of `x`.
    X,
    /// Of `weight`.
    Weight,
}

/// A gradient in plain ops, a function of that name.
pub fn decomposition_of_gradient(loss: &CrossEntropy, wanted: Wanted, name: &str) -> Result<Func, Error> {
    let l = loss;
    let (x, weight, wide) = (
        tensor(l.dtype, [l.rows, l.depth]),
        tensor(l.dtype, [l.words, l.depth]),
        tensor(DType::F32, [l.rows, l.words]),
    );
    let (column, row, truths) =
        (tensor(DType::F32, [l.rows]), tensor(DType::F32, [1, l.rows]), tensor(DType::Bool, [l.rows, l.words]));
    let narrow = tensor(l.dtype, [l.rows, l.words]);
    let (result, product) = match wanted {
        Wanted::X => {
            let sum = tensor(DType::F32, [l.rows, l.depth]);
            let text = format!(
                "%g = stablehlo.dot_general %narrow, %w, contracting_dims = [1] x [0] : ({narrow}, {weight}) -> {sum}\n  %out = stablehlo.convert %g : ({sum}) -> {x}"
            );
            (&x, text)
        }
        Wanted::Weight => {
            let sum = tensor(DType::F32, [l.words, l.depth]);
            let text = format!(
                "%g = stablehlo.dot_general %narrow, %x, contracting_dims = [0] x [0] : ({narrow}, {x}) -> {sum}\n  %out = stablehlo.convert %g : ({sum}) -> {weight}"
            );
            (&weight, text)
        }
    };
    function(format!(
        "func.func private @{name}(%x: {x}, %w: {weight}, %labels: tensor<1x{rows}xi32>, %lse: {row}, %dloss: {row}) -> {result} {{
{logits}
  %lse1 = stablehlo.reshape %lse : ({row}) -> {column}
  %lses = stablehlo.broadcast_in_dim %lse1, dims = [0] : ({column}) -> {wide}
  %dloss1 = stablehlo.reshape %dloss : ({row}) -> {column}
  %dlosses = stablehlo.broadcast_in_dim %dloss1, dims = [0] : ({column}) -> {wide}
  %less = stablehlo.subtract %logits, %lses : {wide}
  %weights = stablehlo.exponential %less : {wide}
  %ones = stablehlo.convert %is_label : ({truths}) -> {wide}
  %apart = stablehlo.subtract %weights, %ones : {wide}
  %dlogits = stablehlo.multiply %apart, %dlosses : {wide}
  %narrow = stablehlo.convert %dlogits : ({wide}) -> {narrow}
  {product}
  return %out : {result}
}}",
        rows = l.rows,
        logits = plain_logits(l)
    ))
}
