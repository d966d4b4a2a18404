//! Cross-entropy fused with the LM head in the form that XLA's GPU compiler runs fastest: logits stay in 16 bits, and the vocabulary is
//! padded to whole tiles of the matmul, in the program only. The backward pass writes the same logits again; the compiler keeps the first.

use hlo::Func;
use tensor::DType;

use crate::error::Error;
use crate::kernels::{Request, function, tensor};

const KERNEL: &str = "cross-entropy on CUDA";
/// Tokens of a whole tile.
const TILE: usize = 128;

/// Sizes of one loss.
struct Loss {
    rows: usize,
    depth: usize,
    vocab_size: usize,
    padded: usize,
    dtype: DType,
}

impl Loss {
    fn read(request: &Request<'_>) -> Result<Loss, Error> {
        let [rows, depth] = request.dims(KERNEL, 0)?;
        let [vocab_size, _] = request.dims(KERNEL, 1)?;
        let dtype = request.operands.first().map_or(DType::F32, |spec| spec.dtype);
        if !matches!(dtype, DType::BF16 | DType::F16) {
            return Err(Error::Shape { kernel: KERNEL, message: format!("{dtype} logits are not rounded") });
        }
        Ok(Loss { rows, depth, vocab_size, padded: vocab_size.next_multiple_of(TILE), dtype })
    }

    fn x(&self) -> String {
        tensor(self.dtype, [self.rows, self.depth])
    }

    fn weight(&self) -> String {
        tensor(self.dtype, [self.vocab_size, self.depth])
    }

    fn row(&self) -> String {
        tensor(DType::F32, [1, self.rows])
    }

    fn flat(&self) -> String {
        tensor(DType::F32, [self.rows])
    }

    /// Of logits, padded, and of others about them.
    fn wide(&self, dtype: DType) -> String {
        tensor(dtype, [self.rows, self.padded])
    }

    /// The padded weight (`%wide_w`), logits (`%logits`), the same in `f32` and minus infinity where the vocabulary is padded
    /// (`%scores`), numbers of tokens (`%word`) and labels (`%label1`).
    fn logits(&self) -> String {
        let Loss { rows, depth, vocab_size, padded, dtype } = self;
        let (narrow, wide) = (self.wide(*dtype), self.wide(DType::F32));
        let (ints, truths) = (self.wide(DType::I32), self.wide(DType::Bool));
        let wide_weight = tensor(*dtype, [*padded, *depth]);
        format!(
            "  %nothing = stablehlo.constant dense<0.0> : tensor<{dtype}>
  %wide_w = stablehlo.pad %w, %nothing, low = [0, 0], high = [{more}, 0], interior = [0, 0] : ({weight}, tensor<{dtype}>) -> {wide_weight}
  %logits = stablehlo.dot_general %x, %wide_w, contracting_dims = [1] x [1] : ({x}, {wide_weight}) -> {narrow}
  %long = stablehlo.convert %logits : ({narrow}) -> {wide}
  %word = stablehlo.iota dim = 1 : {ints}
  %end = stablehlo.constant dense<{vocab_size}> : {ints}
  %is_word = stablehlo.compare LT, %word, %end, SIGNED : ({ints}, {ints}) -> {truths}
  %never = stablehlo.constant dense<0xFF800000> : {wide}
  %scores = stablehlo.select %is_word, %long, %never : {truths}, {wide}
  %label1 = stablehlo.reshape %labels : (tensor<1x{rows}xi32>) -> tensor<{rows}xi32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>",
            more = padded - vocab_size,
            weight = self.weight(),
            x = self.x(),
            dtype = dtype.name(),
        )
    }
}

/// [`CROSS_ENTROPY`](crate::composites::CROSS_ENTROPY).
pub(super) fn forward(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    let loss = Loss::read(request)?;
    let (wide, narrow) = (loss.wide(DType::F32), loss.wide(loss.dtype));
    let (flat, row, picked) = (loss.flat(), loss.row(), tensor(loss.dtype, [loss.rows]));
    // One gather: a sum over all tokens would be fused into the backward pass, which writes as much as it reads without it.
    function(format!(
        "func.func private @{name}(%x: {x}, %w: {weight}, %labels: tensor<1x{rows}xi32>) -> ({row}, {row}) {{
{logits}
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %most = stablehlo.reduce(%scores init: %least) applies stablehlo.maximum across dimensions = [1] : ({wide}, tensor<f32>) -> {flat}
  %mosts = stablehlo.broadcast_in_dim %most, dims = [0] : ({flat}) -> {wide}
  %shifted = stablehlo.subtract %scores, %mosts : {wide}
  %exponentials = stablehlo.exponential %shifted : {wide}
  %sum = stablehlo.reduce(%exponentials init: %zero) applies stablehlo.add across dimensions = [1] : ({wide}, tensor<f32>) -> {flat}
  %log = stablehlo.log %sum : {flat}
  %total = stablehlo.add %most, %log : {flat}
  %place = stablehlo.iota dim = 0 : tensor<{rows}x1xi32>
  %label2 = stablehlo.reshape %label1 : (tensor<{rows}xi32>) -> tensor<{rows}x1xi32>
  %places = stablehlo.concatenate %place, %label2, dim = 1 : (tensor<{rows}x1xi32>, tensor<{rows}x1xi32>) -> tensor<{rows}x2xi32>
  %picked = \"stablehlo.gather\"(%logits, %places) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}}> : ({narrow}, tensor<{rows}x2xi32>) -> {picked}
  %of_label = stablehlo.convert %picked : ({picked}) -> {flat}
  %loss = stablehlo.subtract %total, %of_label : {flat}
  %losses = stablehlo.reshape %loss : ({flat}) -> {row}
  %totals = stablehlo.reshape %total : ({flat}) -> {row}
  return %losses, %totals : {row}, {row}
}}",
        x = loss.x(),
        weight = loss.weight(),
        rows = loss.rows,
        logits = loss.logits(),
    ))
}

/// [`CROSS_ENTROPY_BACKWARD`](crate::composites::CROSS_ENTROPY_BACKWARD).
pub(super) fn backward(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    let loss = Loss::read(request)?;
    let (wide, narrow) = (loss.wide(DType::F32), loss.wide(loss.dtype));
    let (ints, truths) = (loss.wide(DType::I32), loss.wide(DType::Bool));
    let (flat, row, x, weight) = (loss.flat(), loss.row(), loss.x(), loss.weight());
    let wide_weight = tensor(loss.dtype, [loss.padded, loss.depth]);
    let spread = |name: &str| {
        format!(
            "  %{name}1 = stablehlo.reshape %{name} : ({row}) -> {flat}
  %{name}s = stablehlo.broadcast_in_dim %{name}1, dims = [0] : ({flat}) -> {wide}"
        )
    };
    function(format!(
        "func.func private @{name}(%x: {x}, %w: {weight}, %labels: tensor<1x{rows}xi32>, %total: {row}, %share: {row}, %taken: {row}) -> ({x}, {weight}) {{
{logits}
{total}
{share}
{taken}
  %shifted = stablehlo.subtract %scores, %totals : {wide}
  %probabilities = stablehlo.exponential %shifted : {wide}
  %weighed = stablehlo.multiply %probabilities, %shares : {wide}
  %zeros = stablehlo.constant dense<0.0> : {wide}
  %label = stablehlo.broadcast_in_dim %label1, dims = [0] : (tensor<{rows}xi32>) -> {ints}
  %is_label = stablehlo.compare EQ, %word, %label, SIGNED : ({ints}, {ints}) -> {truths}
  %of_label = stablehlo.select %is_label, %takens, %zeros : {truths}, {wide}
  %gradient = stablehlo.subtract %weighed, %of_label : {wide}
  %of_logits = stablehlo.convert %gradient : ({wide}) -> {narrow}
  %of_x = stablehlo.dot_general %of_logits, %wide_w, contracting_dims = [1] x [0] : ({narrow}, {wide_weight}) -> {x}
  %of_wide = stablehlo.dot_general %of_logits, %x, contracting_dims = [0] x [0] : ({narrow}, {x}) -> {wide_weight}
  %of_w = stablehlo.slice %of_wide [0:{vocab_size}, 0:{depth}] : ({wide_weight}) -> {weight}
  return %of_x, %of_w : {x}, {weight}
}}",
        rows = loss.rows,
        vocab_size = loss.vocab_size,
        depth = loss.depth,
        logits = loss.logits(),
        total = spread("total"),
        share = spread("share"),
        taken = spread("taken"),
    ))
}
