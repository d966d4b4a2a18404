//! Decompositions of the fused cross-entropy in plain ops: what its kernels compute.

use hlo::Func;
use tensor::DType;

use super::FusedCrossEntropy;
use crate::error::Error;
use crate::kernels::{function, tensor};

/// Logits and where labels are, in plain ops (`%logits`, `%is_label`).
fn plain_logits(l: &FusedCrossEntropy) -> String {
    let Types { x, weight, wide, truths, .. } = Types::of(l);
    let ints = tensor(DType::I32, [l.rows, l.vocab_size]);
    format!(
        "  %logits = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : ({x}, {weight}) -> {wide}
  %label1 = stablehlo.reshape %labels : (tensor<1x{rows}xi32>) -> tensor<{rows}xi32>
  %label = stablehlo.broadcast_in_dim %label1, dims = [0] : (tensor<{rows}xi32>) -> {ints}
  %word = stablehlo.iota dim = 1 : {ints}
  %is_label = stablehlo.compare EQ, %word, %label, SIGNED : ({ints}, {ints}) -> {truths}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>",
        rows = l.rows
    )
}

/// Tensor types of a decomposition.
struct Types {
    x: String,
    weight: String,
    /// Of logits, and of truths about them.
    wide: String,
    truths: String,
    /// One number for each row, and the same as kernels have it.
    column: String,
    row: String,
}

impl Types {
    fn of(l: &FusedCrossEntropy) -> Types {
        Types {
            x: tensor(l.dtype, [l.rows, l.depth]),
            weight: tensor(l.dtype, [l.vocab_size, l.depth]),
            wide: tensor(DType::F32, [l.rows, l.vocab_size]),
            truths: tensor(DType::Bool, [l.rows, l.vocab_size]),
            column: tensor(DType::F32, [l.rows]),
            row: tensor(DType::F32, [1, l.rows]),
        }
    }
}

/// The forward pass in plain ops, a function of that name.
pub fn decomposition(loss: &FusedCrossEntropy, name: &str) -> Result<Func, Error> {
    let l = loss;
    let Types { x, weight, wide, column, row, truths } = Types::of(l);
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

/// Both gradients in plain ops, a function of that name.
pub fn decomposition_of_gradients(loss: &FusedCrossEntropy, name: &str) -> Result<Func, Error> {
    let l = loss;
    let Types { x, weight, wide, column, row, truths } = Types::of(l);
    let narrow = tensor(l.dtype, [l.rows, l.vocab_size]);
    let (of_x, of_weight) = (tensor(DType::F32, [l.rows, l.depth]), tensor(DType::F32, [l.vocab_size, l.depth]));
    let by_row = |to: &str, from: &str| {
        format!(
            "  %{from}1 = stablehlo.reshape %{from} : ({row}) -> {column}
  %{to} = stablehlo.broadcast_in_dim %{from}1, dims = [0] : ({column}) -> {wide}"
        )
    };
    function(format!(
        "func.func private @{name}(%x: {x}, %w: {weight}, %labels: tensor<1x{rows}xi32>, %lse: {row}, %share: {row}, %of_label: {row}) -> ({x}, {weight}) {{
{logits}
{lses}
{shares}
{of_labels}
  %less = stablehlo.subtract %logits, %lses : {wide}
  %probabilities = stablehlo.exponential %less : {wide}
  %shared = stablehlo.multiply %probabilities, %shares : {wide}
  %nothing = stablehlo.constant dense<0.0> : {wide}
  %taken = stablehlo.select %is_label, %of_labels, %nothing : {truths}, {wide}
  %dlogits = stablehlo.subtract %shared, %taken : {wide}
  %narrow = stablehlo.convert %dlogits : ({wide}) -> {narrow}
  %dx32 = stablehlo.dot_general %narrow, %w, contracting_dims = [1] x [0] : ({narrow}, {weight}) -> {of_x}
  %dx = stablehlo.convert %dx32 : ({of_x}) -> {x}
  %dw32 = stablehlo.dot_general %narrow, %x, contracting_dims = [0] x [0] : ({narrow}, {x}) -> {of_weight}
  %dw = stablehlo.convert %dw32 : ({of_weight}) -> {weight}
  return %dx, %dw : {x}, {weight}
}}",
        rows = l.rows,
        logits = plain_logits(l),
        lses = by_row("lses", "lse"),
        shares = by_row("shares", "share"),
        of_labels = by_row("of_labels", "of_label"),
    ))
}
