//! Cross-entropy fused with the LM head as two composites, forward and backward, which TPUs get as kernels: logits never reach HBM.
//! Elsewhere the logits of one chunk do.

use std::sync::Arc;

use kernel::composites::{CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD};
use tensor::DType;
use trace::{Contraction, PartitionSpec, Precision, Reduction, Tensor, Tree, composite, custom_vjp, scan, shard_map};

use crate::at_use::STORED_EMBED;
use crate::fused::Fused;

/// Losses of `hidden [batch, positions, width]` and `labels [batch, positions]`, and the log-sum-exp of the logits, by position. Each
/// device has its own positions and the whole `lm_head [vocab, width]`.
#[track_caller]
pub(super) fn by_position(
    hidden: &Tensor,
    lm_head: &Tensor,
    labels: &Tensor,
    chunk_size: usize,
    fused: Fused,
) -> (Tensor, Tensor) {
    let inputs = (hidden.clone(), lm_head.cast(hidden.dtype()), labels.cast(DType::I32));
    let (losses, totals) = custom_vjp(
        &inputs,
        |inputs| {
            let shardings = shardings(inputs);
            let results = [shardings[2].clone(), shardings[2].clone()];
            shard_map(inputs, &shardings, &results, |(hidden, lm_head, labels)| {
                let inputs = (as_rows(hidden), lm_head.clone(), as_row(labels));
                let (losses, totals) =
                    composite(CROSS_ENTROPY, fused.attributes(), &inputs, |inputs| forward(inputs, chunk_size));
                (losses.reshape(labels.dims()), totals.reshape(labels.dims()))
            })
        },
        move |inputs: &Inputs, (_, totals): &(Tensor, Tensor), (of_losses, of_totals)| {
            let (hidden, lm_head, labels) = inputs.clone();
            let share = of_losses + of_totals;
            let all = (hidden, lm_head, labels, (totals.clone(), share, of_losses.clone()));
            let mut of_inputs = shardings(inputs);
            let of_labels = of_inputs[2].clone();
            let summed = Summed::new(&of_labels, inputs.1.dims());
            let results = [of_inputs[0].clone(), summed.sharding()];
            of_inputs.extend([of_labels.clone(), of_labels.clone(), of_labels]);
            let (of_hidden, of_lm_head) =
                shard_map(&all, &of_inputs, &results, |(hidden, lm_head, labels, (totals, share, of_label))| {
                    let rows = (as_row(totals), as_row(share), as_row(of_label));
                    let inputs = (as_rows(hidden), lm_head.clone(), as_row(labels), rows);
                    let (of_hidden, of_lm_head) =
                        composite(CROSS_ENTROPY_BACKWARD, fused.attributes(), &inputs, |all| backward(all, chunk_size));
                    (of_hidden.reshape(hidden.dims()), summed.over_devices(&of_lm_head))
                });
            (of_hidden, of_lm_head, inputs.2.zeros_like())
        },
    );
    (losses, totals)
}

/// How the gradients of the LM head that devices have of their own positions are summed: a reduce-scatter to where it is stored in
/// parts, which moves half of what an all-reduce does.
struct Summed {
    /// Mesh axes of the positions that also shard the width of the stored LM head.
    to_store: Vec<Arc<str>>,
    /// The other mesh axes of positions.
    to_all: Vec<Arc<str>>,
}

impl Summed {
    fn new(of_positions: &PartitionSpec, lm_head: &[usize]) -> Summed {
        let axes: Vec<Arc<str>> = of_positions.axes().cloned().collect();
        let stored = trace::current_rules().map(|rules| rules.sharding(&["", STORED_EMBED], lm_head));
        let stored: Vec<Arc<str>> = stored.iter().flat_map(PartitionSpec::axes).cloned().collect();
        let to_store = if stored.iter().all(|axis| axes.contains(axis)) { stored } else { Vec::new() };
        let to_all = axes.into_iter().filter(|axis| !to_store.contains(axis)).collect();
        Summed { to_store, to_all }
    }

    /// Of the sum.
    fn sharding(&self) -> PartitionSpec {
        PartitionSpec { dims: vec![Some(Vec::new()), Some(self.to_store.clone())] }
    }

    fn over_devices(&self, of_lm_head: &Tensor) -> Tensor {
        let to_store: Vec<&str> = self.to_store.iter().map(|axis| &**axis).collect();
        let to_all: Vec<&str> = self.to_all.iter().map(|axis| &**axis).collect();
        let sum = if to_store.is_empty() { of_lm_head.clone() } else { of_lm_head.reduce_scatter(1, &to_store[..]) };
        if to_all.is_empty() { sum } else { sum.all_reduce(&to_all[..], Reduction::Sum) }
    }
}

/// What [`CROSS_ENTROPY`] takes.
type Inputs = (Tensor, Tensor, Tensor);

/// What [`CROSS_ENTROPY_BACKWARD`] takes.
type BackwardInputs = (Tensor, Tensor, Tensor, (Tensor, Tensor, Tensor));

/// Shardings: hidden states and labels along batch and sequence, the LM head replicated.
fn shardings((hidden, lm_head, labels): &Inputs) -> Vec<PartitionSpec> {
    let whole =
        || vec![hidden, lm_head, labels].into_iter().map(|tensor| PartitionSpec::replicated(tensor.rank())).collect();
    trace::current_rules().map_or_else(whole, |rules| {
        vec![
            rules.sharding(&["batch", "sequence", ""], hidden.dims()),
            PartitionSpec::replicated(lm_head.rank()),
            rules.sharding(&["batch", "sequence"], labels.dims()),
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
fn matmul(lhs: &Tensor, rhs: &Tensor, [lhs_sum, rhs_sum]: [usize; 2]) -> Tensor {
    let contraction = Contraction { lhs_sum: vec![lhs_sum], rhs_sum: vec![rhs_sum], ..Contraction::default() };
    lhs.dot_general(rhs, &contraction, DType::F32, Precision::Default)
}

/// A scan over chunks of rows: `f` has the carry and a chunk of each input; results have the rows of a chunk first.
fn in_chunks<C: Tree, X: Tree, Y: Tree>(
    carried: C,
    rows: &X,
    chunk_size: usize,
    f: impl Fn(&C, &X) -> (C, Y),
) -> (C, Y) {
    let count = rows.specs().first().and_then(|spec| spec.dims.first().copied()).unwrap_or(0);
    let chunk_size = chunk_size.clamp(1, count.max(1));
    let whole = count / chunk_size;
    let cut = |tensor: &Tensor| {
        let dims: Vec<usize> = [whole, chunk_size].iter().chain(&tensor.dims()[1..]).copied().collect();
        tensor.slice(0, 0..whole * chunk_size).reshape(&dims)
    };
    let (carried, results) = scan(&carried, &rows.map_leaves(cut), None, &f);
    let joined = |tensor: &Tensor| {
        let dims: Vec<usize> = [whole * chunk_size].iter().chain(&tensor.dims()[2..]).copied().collect();
        tensor.reshape(&dims)
    };
    let results = results.map_leaves(joined);
    if whole * chunk_size == count {
        return (carried, results);
    }
    let (carried, rest) = f(&carried, &rows.map_leaves(|tensor| tensor.slice(0, whole * chunk_size..count)));
    let mut rest = rest.leaves().into_iter();
    let results = results.map_leaves(|tensor| match rest.next() {
        Some(rest) => Tensor::concat(&[tensor.clone(), rest], 0),
        None => tensor.clone(),
    });
    (carried, results)
}

/// What [`CROSS_ENTROPY`] means.
fn forward((x, lm_head, labels): &Inputs, chunk_size: usize) -> (Tensor, Tensor) {
    let rows = (x.clone(), labels.squeeze(0));
    let ((), (losses, totals)) = in_chunks((), &rows, chunk_size, |(), (x, labels)| {
        let logits = matmul(x, lm_head, [1, 1]);
        let total = logits.log_sum_exp(-1);
        let of_label = logits.take_along(-1, &labels.expand(-1)).squeeze(-1);
        ((), (&total - &of_label, total))
    });
    (losses.expand(0), totals.expand(0))
}

/// What [`CROSS_ENTROPY_BACKWARD`] means.
fn backward((x, lm_head, labels, (totals, share, of_label)): &BackwardInputs, chunk_size: usize) -> (Tensor, Tensor) {
    let rows = (x.clone(), labels.squeeze(0), (totals.squeeze(0), share.squeeze(0), of_label.squeeze(0)));
    let none = Tensor::zeros(DType::F32, lm_head.dims());
    let (of_lm_head, of_x) = in_chunks(none, &rows, chunk_size, |sum, (x, labels, (total, share, of_label))| {
        let logits = matmul(x, lm_head, [1, 1]);
        let probabilities = (&logits - &total.expand(-1)).exp();
        let is_label = Tensor::iota(DType::I32, logits.dims(), 1).equals(&labels.expand(-1));
        let taken = is_label.select(&of_label.expand(-1).broadcast_to(logits.dims()), &Tensor::zeros(DType::F32, &[]));
        let of_logits = (&(&probabilities * &share.expand(-1)) - &taken).cast(x.dtype());
        let of_x = matmul(&of_logits, lm_head, [1, 0]).cast(x.dtype());
        (sum + &matmul(&of_logits, x, [0, 0]), of_x)
    });
    (of_x, of_lm_head.cast(lm_head.dtype()))
}
