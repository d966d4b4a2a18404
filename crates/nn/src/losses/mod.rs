//! Losses, computed in `f32`: cross-entropy of integer labels (whole, chunked, or fused with the LM head), mean squared error, and
//! binary cross-entropy.

mod fused;

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{RematPolicy, Tensor, checkpoint, scan};

use crate::fused::Fused;

/// How cross-entropy is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CrossEntropy {
    /// Labels with this value are ignored.
    pub ignore_index: Option<i32>,
    /// Weight of the square of `log(sum(exp(logits)))`, which keeps logits near 0.
    pub z_loss: f64,
    /// How much of the target is spread evenly over all classes.
    pub label_smoothing: f64,
}

impl CrossEntropy {
    /// The mean over labels that count, of `logits [..., classes]` and integer `labels [...]`.
    #[track_caller]
    pub fn mean(&self, logits: &Tensor, labels: &Tensor) -> Tensor {
        let (sum, count) = self.sum(logits, labels);
        mean(&sum, &count)
    }

    /// The sum over labels that count, and their number, both `f32`.
    #[track_caller]
    pub fn sum(&self, logits: &Tensor, labels: &Tensor) -> (Tensor, Tensor) {
        trace::scope("cross_entropy", || {
            let logits = logits.cast(DType::F32);
            let classes = logits.dim(-1);
            let (counted, safe) = self.counted(labels);
            let total = logits.log_sum_exp(-1);
            let of_label = logits.take_along(-1, &safe.expand(-1)).squeeze(-1);
            let mut loss = &total - &(&of_label * (1.0 - self.label_smoothing));
            if self.label_smoothing != 0.0 {
                let last = logits.rank().saturating_sub(1);
                loss = &loss - &(&logits.sum(&[last]) * (self.label_smoothing / classes as f64));
            }
            if self.z_loss != 0.0 {
                loss = &loss + &(&total.square() * self.z_loss);
            }
            let counted = counted.cast(DType::F32);
            ((&loss * &counted).sum_all(), counted.sum_all())
        })
    }

    /// Which labels count, and labels that all are a class.
    fn counted(&self, labels: &Tensor) -> (Tensor, Tensor) {
        let counted = match self.ignore_index {
            Some(ignore) => labels.differs(&Tensor::scalar(labels.dtype(), f64::from(ignore))),
            None => Tensor::ones(DType::Bool, labels.dims()),
        };
        let zero = Tensor::zeros(labels.dtype(), &[]);
        // An ignored label may be no class at all.
        let safe = counted.select(labels, &zero);
        (counted, safe)
    }

    /// Whether [`CrossEntropy::mean_fused`] can compute this loss over a vocabulary of this size: no label smoothing, and on a mesh
    /// the vocabulary is not sharded.
    pub fn is_fusable(&self, vocab_size: usize) -> bool {
        let is_whole =
            trace::current_rules().is_none_or(|rules| rules.sharding(&["vocab"], &[vocab_size]).is_replicated());
        self.label_smoothing == 0.0 && is_whole
    }

    /// [`CrossEntropy::mean_chunked`] of the logits of `hidden [batch, positions, width]` and `lm_head [vocab, width]`, as composites
    /// that TPUs run as kernels. The loss must be [`CrossEntropy::is_fusable`].
    #[track_caller]
    pub fn mean_fused(
        &self,
        hidden: &Tensor,
        labels: &Tensor,
        lm_head: &Tensor,
        chunk_size: usize,
        fused: Fused,
    ) -> Tensor {
        if !self.is_fusable(lm_head.dim(0)) {
            trace::refuse("fused cross-entropy supports neither label smoothing nor a sharded vocabulary");
        }
        trace::scope("cross_entropy", || {
            let (counted, safe) = self.counted(labels);
            let (mut losses, totals) = fused::by_position(hidden, lm_head, &safe, chunk_size, fused);
            if self.z_loss != 0.0 {
                losses = &losses + &(&totals.square() * self.z_loss);
            }
            let counted = counted.cast(DType::F32);
            mean(&(&losses * &counted).sum_all(), &counted.sum_all())
        })
    }

    /// [`CrossEntropy::mean`] of logits that a function makes of `hidden [batch, positions, width]`, a chunk of so many positions of
    /// all sequences at a time: the logits of one chunk only are in memory, in the backward pass too. Every chunk has positions of
    /// every sequence, so that a batch sharded over devices stays sharded.
    #[track_caller]
    pub fn mean_chunked(
        &self,
        hidden: &Tensor,
        labels: &Tensor,
        chunk_size: usize,
        logits: impl Fn(&Tensor) -> Tensor,
    ) -> Tensor {
        let (batch, positions, width) = (hidden.dim(0), hidden.dim(1), hidden.dim(2));
        // Each device has its part of the sequences, and so many positions at a time.
        let parts = trace::current_rules().map_or(1, |rules| {
            let sharding = rules.sharding(&["batch"], &[batch]);
            rules.mesh.size_along(sharding.axes().map(|axis| &**axis)).unwrap_or(1)
        });
        let chunk_size = (chunk_size.saturating_mul(parts) / batch.max(1)).clamp(1, positions.max(1));
        let whole = positions / chunk_size;
        let zero = Tensor::zeros(DType::F32, &[]);
        let xs = (
            hidden.slice(1, 0..whole * chunk_size).reshape(&[batch, whole, chunk_size, width]).move_axis(1, 0),
            labels.slice(1, 0..whole * chunk_size).reshape(&[batch, whole, chunk_size]).move_axis(1, 0),
        );
        let ((mut sum, mut count), ()) = scan(&(zero.clone(), zero), &xs, None, |(sum, count), x| {
            let (more, counted) =
                checkpoint(&RematPolicy::Full, x, |(hidden, labels)| self.sum(&logits(hidden), labels));
            ((sum + &more, count + &counted), ())
        });
        if whole * chunk_size < positions {
            let rest = (hidden.slice(1, whole * chunk_size..positions), labels.slice(1, whole * chunk_size..positions));
            let (more, counted) =
                checkpoint(&RematPolicy::Full, &rest, |(hidden, labels)| self.sum(&logits(hidden), labels));
            (sum, count) = (sum + more, count + counted);
        }
        mean(&sum, &count)
    }
}

fn mean(sum: &Tensor, count: &Tensor) -> Tensor {
    sum / &count.maximum(&Tensor::ones(DType::F32, &[]))
}

/// The mean of squared differences.
#[track_caller]
pub fn mean_squared_error(prediction: &Tensor, target: &Tensor) -> Tensor {
    (&prediction.cast(DType::F32) - &target.cast(DType::F32)).square().mean_all()
}

/// The mean binary cross-entropy of logits and targets between 0 and 1.
#[track_caller]
pub fn binary_cross_entropy(logits: &Tensor, target: &Tensor) -> Tensor {
    let (x, y) = (logits.cast(DType::F32), target.cast(DType::F32));
    (&x.softplus() - &(&x * &y)).mean_all()
}
