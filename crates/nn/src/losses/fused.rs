//! Cross-entropy of products with the words of a vocabulary as two composites, forward and backward, which TPU compilers get as
//! kernels: logits never reach memory. Elsewhere logits of one piece do.

use std::sync::Arc;

use kernel::composites::{CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD};
use tensor::DType;
use trace::{Contraction, Precision, Reduction, Sharding, Tensor, Tree, composite, custom_vjp, scan, shard_map};

use crate::fused::Fused;
use crate::layers::STORED_WIDTH;

/// Losses of `hidden [batch, positions, width]` and `labels [batch, positions]`, and logarithms of the sums of exponentials, by
/// position. Each device has its own positions and all `words [words, width]`.
#[track_caller]
pub(super) fn by_position(
    hidden: &Tensor,
    words: &Tensor,
    labels: &Tensor,
    piece: usize,
    fused: Fused,
) -> (Tensor, Tensor) {
    let inputs = (hidden.clone(), words.cast(hidden.dtype()), labels.cast(DType::I32));
    let (losses, totals) = custom_vjp(
        &inputs,
        |inputs| {
            let shardings = shardings(inputs);
            let results = [shardings[2].clone(), shardings[2].clone()];
            shard_map(inputs, &shardings, &results, |(hidden, words, labels)| {
                let inputs = (as_rows(hidden), words.clone(), as_row(labels));
                let (losses, totals) =
                    composite(CROSS_ENTROPY, fused.attributes(), &inputs, |inputs| forward(inputs, piece));
                (losses.reshape(labels.dims()), totals.reshape(labels.dims()))
            })
        },
        move |inputs: &Inputs, (_, totals): &(Tensor, Tensor), (of_losses, of_totals)| {
            let (hidden, words, labels) = inputs.clone();
            let share = of_losses + of_totals;
            let all = (hidden, words, labels, (totals.clone(), share, of_losses.clone()));
            let mut of_inputs = shardings(inputs);
            let of_labels = of_inputs[2].clone();
            let summed = Summed::new(&of_labels, inputs.1.dims());
            let results = [of_inputs[0].clone(), summed.sharding()];
            of_inputs.extend([of_labels.clone(), of_labels.clone(), of_labels]);
            let (of_hidden, of_words) =
                shard_map(&all, &of_inputs, &results, |(hidden, words, labels, (totals, share, of_label))| {
                    let rows = (as_row(totals), as_row(share), as_row(of_label));
                    let inputs = (as_rows(hidden), words.clone(), as_row(labels), rows);
                    let (of_hidden, of_words) =
                        composite(CROSS_ENTROPY_BACKWARD, fused.attributes(), &inputs, |all| backward(all, piece));
                    (of_hidden.reshape(hidden.dims()), summed.over_devices(&of_words))
                });
            (of_hidden, of_words, inputs.2.zeros_like())
        },
    );
    (losses, totals)
}

/// How the gradients of words that devices have of their own positions are summed: to where the words are stored in parts, which
/// moves half of what a sum for all does.
struct Summed {
    /// Mesh axes that positions lie along and the width of stored words too.
    to_store: Vec<Arc<str>>,
    /// The other mesh axes of positions.
    to_all: Vec<Arc<str>>,
}

impl Summed {
    fn new(of_positions: &Sharding, words: &[usize]) -> Summed {
        let axes: Vec<Arc<str>> = of_positions.axes().cloned().collect();
        let stored = trace::layout().map(|layout| layout.sharding(&["", STORED_WIDTH], words));
        let stored: Vec<Arc<str>> = stored.iter().flat_map(Sharding::axes).cloned().collect();
        let to_store = if stored.iter().all(|axis| axes.contains(axis)) { stored } else { Vec::new() };
        let to_all = axes.into_iter().filter(|axis| !to_store.contains(axis)).collect();
        Summed { to_store, to_all }
    }

    /// Of the sum.
    fn sharding(&self) -> Sharding {
        Sharding { dims: vec![Some(Vec::new()), Some(self.to_store.clone())] }
    }

    fn over_devices(&self, of_words: &Tensor) -> Tensor {
        let to_store: Vec<&str> = self.to_store.iter().map(|axis| &**axis).collect();
        let to_all: Vec<&str> = self.to_all.iter().map(|axis| &**axis).collect();
        let sum = if to_store.is_empty() { of_words.clone() } else { of_words.reduce_scatter(1, &to_store[..]) };
        if to_all.is_empty() { sum } else { sum.all_reduce(&to_all[..], Reduction::Sum) }
    }
}

/// What [`CROSS_ENTROPY`] takes.
type Inputs = (Tensor, Tensor, Tensor);

/// What [`CROSS_ENTROPY_BACKWARD`] takes.
type BackwardInputs = (Tensor, Tensor, Tensor, (Tensor, Tensor, Tensor));

/// Predictions and labels as their batch and sequence lie, words whole.
fn shardings((hidden, words, labels): &Inputs) -> Vec<Sharding> {
    let whole = || vec![hidden, words, labels].into_iter().map(|tensor| Sharding::replicated(tensor.rank())).collect();
    trace::layout().map_or_else(whole, |layout| {
        vec![
            layout.sharding(&["batch", "sequence", ""], hidden.dims()),
            Sharding::replicated(words.rank()),
            layout.sharding(&["batch", "sequence"], labels.dims()),
        ]
    })
}

fn as_rows(hidden: &Tensor) -> Tensor {
    hidden.reshape(&[hidden.dim(0) * hidden.dim(1), hidden.dim(2)])
}

fn as_row(of_positions: &Tensor) -> Tensor {
    of_positions.reshape(&[1, of_positions.num_elements()])
}

/// `lhs` and `rhs` multiplied and summed over an axis of each, in `f32`.
fn product(lhs: &Tensor, rhs: &Tensor, [lhs_sum, rhs_sum]: [usize; 2]) -> Tensor {
    let contraction = Contraction { lhs_sum: vec![lhs_sum], rhs_sum: vec![rhs_sum], ..Contraction::default() };
    lhs.dot_general(rhs, &contraction, DType::F32, Precision::Default)
}

/// Rows taken together: `f` has what is carried and a piece of each input; results have the rows of a piece first.
fn in_pieces<C: Tree, X: Tree, Y: Tree>(carried: C, rows: &X, piece: usize, f: impl Fn(&C, &X) -> (C, Y)) -> (C, Y) {
    let count = rows.specs().first().and_then(|spec| spec.dims.first().copied()).unwrap_or(0);
    let piece = piece.clamp(1, count.max(1));
    let whole = count / piece;
    let cut = |tensor: &Tensor| {
        let dims: Vec<usize> = [whole, piece].iter().chain(&tensor.dims()[1..]).copied().collect();
        tensor.slice(0, 0..whole * piece).reshape(&dims)
    };
    let (carried, results) = scan(&carried, &rows.map_leaves(cut), None, &f);
    let joined = |tensor: &Tensor| {
        let dims: Vec<usize> = [whole * piece].iter().chain(&tensor.dims()[2..]).copied().collect();
        tensor.reshape(&dims)
    };
    let results = results.map_leaves(joined);
    if whole * piece == count {
        return (carried, results);
    }
    let (carried, rest) = f(&carried, &rows.map_leaves(|tensor| tensor.slice(0, whole * piece..count)));
    let mut rest = rest.leaves().into_iter();
    let results = results.map_leaves(|tensor| match rest.next() {
        Some(rest) => Tensor::concat(&[tensor.clone(), rest], 0),
        None => tensor.clone(),
    });
    (carried, results)
}

/// What [`CROSS_ENTROPY`] means.
fn forward((x, words, labels): &Inputs, piece: usize) -> (Tensor, Tensor) {
    let rows = (x.clone(), labels.squeeze(0));
    let ((), (losses, totals)) = in_pieces((), &rows, piece, |(), (x, labels)| {
        let logits = product(x, words, [1, 1]);
        let total = logits.log_sum_exp(-1);
        let of_label = logits.take_along(-1, &labels.expand(-1)).squeeze(-1);
        ((), (&total - &of_label, total))
    });
    (losses.expand(0), totals.expand(0))
}

/// What [`CROSS_ENTROPY_BACKWARD`] means.
fn backward((x, words, labels, (totals, share, of_label)): &BackwardInputs, piece: usize) -> (Tensor, Tensor) {
    let rows = (x.clone(), labels.squeeze(0), (totals.squeeze(0), share.squeeze(0), of_label.squeeze(0)));
    let none = Tensor::zeros(DType::F32, words.dims());
    let (of_words, of_x) = in_pieces(none, &rows, piece, |sum, (x, labels, (total, share, of_label))| {
        let logits = product(x, words, [1, 1]);
        let probabilities = (&logits - &total.expand(-1)).exp();
        let is_label = Tensor::iota(DType::I32, logits.dims(), 1).equals(&labels.expand(-1));
        let taken = is_label.select(&of_label.expand(-1).broadcast_to(logits.dims()), &Tensor::zeros(DType::F32, &[]));
        let of_logits = (&(&probabilities * &share.expand(-1)) - &taken).cast(x.dtype());
        let of_x = product(&of_logits, words, [1, 0]).cast(x.dtype());
        (sum + &product(&of_logits, x, [0, 0]), of_x)
    });
    (of_x, of_words.cast(words.dtype()))
}
