//! Cross-entropy fused with the LM head in the form that XLA's GPU compiler runs fastest: logits stay in 16 bits, and the vocabulary is
//! padded to whole tiles of the matmul, in the program only. The backward pass writes the same logits again; the compiler keeps the first.
//! Large logits are read and overwritten by kernels of ours, since XLA reads them twice and writes their gradient beside them.

use std::sync::Arc;

use hlo::dims::DotDims;
use hlo::{Attr, Attrs, Func, FuncBuilder, OpKind, TensorType, Value, Visibility};
use tensor::{DType, Spec};

use super::logits::Logits;
use crate::call::tensor_type;
use crate::error::Error;
use crate::kernels::{Request, function, tensor};

const KERNEL: &str = "cross-entropy on CUDA";
/// Tokens of a whole tile.
const TILE: usize = 128;
/// Logits of more bytes are large.
const LARGE_BYTES: usize = 64 << 20;

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

    /// Kernels for logits that are large.
    fn large(&self) -> Option<Logits> {
        let Loss { rows, vocab_size, padded, dtype, .. } = *self;
        let bytes = rows.saturating_mul(padded).saturating_mul(dtype.size_bytes());
        Logits::new(rows, vocab_size, padded, dtype).filter(|_| bytes > LARGE_BYTES)
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
    if let Some(logits) = loss.large() {
        return large_forward(request, name, &loss, &logits);
    }
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
    if let Some(logits) = loss.large() {
        return large_backward(request, name, &loss, &logits);
    }
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

/// A function of that name, and its operands.
fn begin<const N: usize>(request: &Request<'_>, name: &str) -> Result<(FuncBuilder, [Value; N]), Error> {
    let mut function = FuncBuilder::new(name);
    function.visibility(Visibility::Private);
    let operands: Vec<Value> = request.operands.iter().map(|spec| function.arg(tensor_type(spec))).collect();
    let message = format!("{N} operands are expected");
    let operands = <[Value; N]>::try_from(operands).map_err(|_| Error::Shape { kernel: KERNEL, message })?;
    Ok((function, operands))
}

fn broken(violation: impl std::fmt::Debug) -> Error {
    Error::Internal(format!("{KERNEL}: {violation:?}"))
}

/// A matmul over one dimension of each factor.
fn dot(function: &mut FuncBuilder, [a, b]: [Value; 2], [of_a, of_b]: [i64; 2], out: &Spec) -> Result<Value, Error> {
    let dims = DotDims { lhs_contracting: vec![of_a], rhs_contracting: vec![of_b], ..DotDims::default() };
    let mut attrs = Attrs::new();
    attrs.set("dot_dimension_numbers", Attr::Dot(Arc::new(dims)));
    let made =
        function.op_with_types(OpKind::DotGeneral, &[a, b], attrs, &[], vec![tensor_type(out)]).map_err(broken)?;
    made.first().copied().ok_or_else(|| Error::Internal(format!("{KERNEL}: a matmul without a result")))
}

/// The padded weight and the logits.
fn large_logits(function: &mut FuncBuilder, loss: &Loss, x: Value, w: Value) -> Result<[Value; 2], Error> {
    let zero = TensorType::new(Vec::new(), loss.dtype);
    let zero = function.splat(zero, &vec![0; loss.dtype.size_bytes()]).map_err(broken)?;
    let mut attrs = Attrs::new();
    attrs.set("edge_padding_low", Attr::i64s([0; 2]));
    attrs.set("edge_padding_high", Attr::i64s([(loss.padded - loss.vocab_size) as i64, 0]));
    attrs.set("interior_padding", Attr::i64s([0; 2]));
    let wide = function.op(OpKind::Pad, &[w, zero], attrs).map_err(broken)?;
    let out = Spec::new(loss.dtype, [loss.rows, loss.padded]);
    Ok([wide, dot(function, [x, wide], [1, 1], &out)?])
}

fn large_forward(request: &Request<'_>, name: &str, loss: &Loss, kernels: &Logits) -> Result<Func, Error> {
    let (mut function, [x, w, labels]) = begin(request, name)?;
    let [_, logits] = large_logits(&mut function, loss, x, w)?;
    let results = kernels.losses(&mut function, logits, labels)?;
    Ok(function.finish(&results))
}

fn large_backward(request: &Request<'_>, name: &str, loss: &Loss, kernels: &Logits) -> Result<Func, Error> {
    let (mut function, [x, w, labels, total, share, taken]) = begin(request, name)?;
    let [wide, logits] = large_logits(&mut function, loss, x, w)?;
    let of_logits = kernels.gradient(&mut function, logits, labels, [total, share, taken])?;
    let of_x = dot(&mut function, [of_logits, wide], [1, 0], &Spec::new(loss.dtype, [loss.rows, loss.depth]))?;
    let of_wide = Spec::new(loss.dtype, [loss.padded, loss.depth]);
    let of_wide = dot(&mut function, [of_logits, x], [0, 0], &of_wide)?;
    let mut attrs = Attrs::new();
    attrs.set("start_indices", Attr::i64s([0; 2]));
    attrs.set("limit_indices", Attr::i64s([loss.vocab_size as i64, loss.depth as i64]));
    attrs.set("strides", Attr::i64s([1; 2]));
    let of_w = function.op(OpKind::Slice, &[of_wide], attrs).map_err(broken)?;
    Ok(function.finish(&[of_x, of_w]))
}
