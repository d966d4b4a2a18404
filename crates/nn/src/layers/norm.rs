//! Normalisation by layer, root mean square, group and batch; all computed in `f32`.

use tensor::DType;
use trace::{CompileTarget, Tensor, Tree};

use super::{fused_norm, norm_with_statistics};
use crate::fused::Fused;

/// Mean 0 and deviation 1 over the last axis, then scaled and shifted.
#[derive(Clone, Debug, Tree)]
pub struct LayerNorm {
    /// `[width]`.
    pub weight: Tensor,
    /// `[width]`; nothing is added without one.
    pub bias: Option<Tensor>,
    /// Added to the variance.
    #[tree(skip)]
    pub epsilon: f64,
}

impl LayerNorm {
    /// Ones and zeros.
    #[track_caller]
    pub fn init(width: usize, epsilon: f64) -> LayerNorm {
        let (weight, bias) = (Tensor::ones(DType::F32, &[width]), Tensor::zeros(DType::F32, &[width]));
        LayerNorm { weight, bias: Some(bias), epsilon }
    }

    /// Applied over the last axis.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        trace::scope("layer_norm", || {
            if trace::current_target() == CompileTarget::Cuda {
                let weight = self.weight.cast(DType::F32);
                let bias = self.bias.as_ref().map_or(Tensor::zeros(DType::F32, weight.dims()), |b| b.cast(DType::F32));
                return norm_with_statistics::norm(x, &weight, Some(&bias), self.epsilon);
            }
            let wide = x.cast(DType::F32);
            let last = x.rank().saturating_sub(1);
            let centred = &wide - &wide.mean(&[last]).expand(-1);
            let scale = (&centred.square().mean(&[last]) + self.epsilon).rsqrt().expand(-1);
            let y = &(&centred * &scale) * &self.weight.cast(DType::F32);
            let y = match &self.bias {
                Some(bias) => y + bias.cast(DType::F32),
                None => y,
            };
            y.cast(x.dtype())
        })
    }
}

/// Root mean square 1 over the last axis, then scaled.
#[derive(Clone, Debug, Tree)]
pub struct RmsNorm {
    /// `[width]`.
    pub weight: Tensor,
    /// Added to the weight: 1 where weights are kept as what they differ from it.
    #[tree(skip)]
    pub offset: f64,
    /// Added to the mean square.
    #[tree(skip)]
    pub epsilon: f64,
    /// Whether TPUs run it as a kernel, over `[batch, positions, width]`.
    #[tree(skip)]
    pub fused: Fused,
}

impl RmsNorm {
    /// Ones.
    #[track_caller]
    pub fn init(width: usize, epsilon: f64) -> RmsNorm {
        RmsNorm { weight: Tensor::ones(DType::F32, &[width]), offset: 0.0, epsilon, fused: Fused::Auto }
    }

    /// The same, fused or not.
    #[must_use]
    pub fn with_fused(self, fused: Fused) -> RmsNorm {
        RmsNorm { fused, ..self }
    }

    /// The same scale, kept as what it differs from `offset`.
    #[track_caller]
    pub fn with_offset(self, offset: f64) -> RmsNorm {
        RmsNorm { weight: &self.scale() - offset, offset, ..self }
    }

    /// Root mean square 1 over the last axis, without a scale.
    #[track_caller]
    pub(crate) fn unscaled(x: &Tensor, epsilon: f64) -> Tensor {
        trace::scope("rms_norm", || {
            let wide = x.cast(DType::F32);
            let last = x.rank().saturating_sub(1);
            let inverse = (&wide.square().mean(&[last]) + epsilon).rsqrt().expand(-1);
            (&wide * &inverse).cast(x.dtype())
        })
    }

    /// What is multiplied by, `f32`.
    #[track_caller]
    fn scale(&self) -> Tensor {
        let weight = self.weight.cast(DType::F32);
        if self.offset == 0.0 { weight } else { &weight + self.offset }
    }

    /// Applied over the last axis.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        trace::scope("rms_norm", || match self.fused {
            _ if trace::current_target() == CompileTarget::Cuda => {
                norm_with_statistics::norm(x, &self.scale(), None, self.epsilon)
            }
            Fused::On if x.rank() == 3 => fused_norm::fused(x, &self.scale(), self.epsilon),
            // Compilers fuse a norm with the ops around it, which no kernel does.
            _ => fused_norm::plain(x, &self.scale(), self.epsilon),
        })
    }
}

/// Mean 0 and deviation 1 over the positions and features of a group, then scaled and shifted by feature.
#[derive(Clone, Debug, Tree)]
pub struct GroupNorm {
    /// `[features]`.
    pub weight: Tensor,
    /// `[features]`.
    pub bias: Tensor,
    /// Number of groups, which divides the features.
    #[tree(skip)]
    pub groups: usize,
    /// Added to the variance.
    #[tree(skip)]
    pub epsilon: f64,
}

impl GroupNorm {
    /// Ones and zeros.
    #[track_caller]
    pub fn init(features: usize, groups: usize, epsilon: f64) -> GroupNorm {
        GroupNorm {
            weight: Tensor::ones(DType::F32, &[features]),
            bias: Tensor::zeros(DType::F32, &[features]),
            groups,
            epsilon,
        }
    }

    /// Applied to `[batch, positions…, features]`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        trace::scope("group_norm", || {
            let (batch, features) = (x.dim(0), x.dim(-1));
            let positions = x.num_elements() / (batch * features).max(1);
            let grouped = x.cast(DType::F32).reshape(&[batch, positions, self.groups, features / self.groups.max(1)]);
            let over = |t: &Tensor| t.mean(&[1, 3]).reshape(&[batch, 1, self.groups, 1]);
            let centred = &grouped - &over(&grouped);
            let scaled = &centred * &(&over(&centred.square()) + self.epsilon).rsqrt();
            let y = &scaled.reshape(x.dims()) * &self.weight.cast(DType::F32);
            (y + self.bias.cast(DType::F32)).cast(x.dtype())
        })
    }
}

/// Batch norm: mean 0 and deviation 1 of each feature over the batch; at inference by the running statistics of training.
#[derive(Clone, Debug, Tree)]
pub struct BatchNorm {
    /// `[features]`.
    pub weight: Tensor,
    /// `[features]`.
    pub bias: Tensor,
    /// Added to the variance.
    #[tree(skip)]
    pub epsilon: f64,
    /// How much of the running statistics is replaced at a step.
    #[tree(skip)]
    pub momentum: f64,
}

/// Running statistics of a [`BatchNorm`]: not trained, carried from step to step by the caller.
#[derive(Clone, Debug, Tree)]
pub struct BatchStatistics {
    /// `[features]`.
    pub mean: Tensor,
    /// `[features]`.
    pub variance: Tensor,
}

impl BatchNorm {
    /// Ones and zeros, and statistics of mean 0 and variance 1.
    #[track_caller]
    pub fn init(features: usize) -> (BatchNorm, BatchStatistics) {
        let (ones, zeros) = (Tensor::ones(DType::F32, &[features]), Tensor::zeros(DType::F32, &[features]));
        let norm = BatchNorm { weight: ones.clone(), bias: zeros.clone(), epsilon: 1e-5, momentum: 0.1 };
        (norm, BatchStatistics { mean: zeros, variance: ones })
    }

    /// In training: by the batch's own statistics; gives the running statistics that follow.
    #[track_caller]
    pub fn train(&self, x: &Tensor, seen: &BatchStatistics) -> (Tensor, BatchStatistics) {
        trace::scope("batch_norm", || {
            let wide = x.cast(DType::F32);
            let axes: Vec<usize> = (0..x.rank().saturating_sub(1)).collect();
            let count: usize = axes.iter().map(|&axis| x.dims()[axis]).product();
            let mean = wide.mean(&axes);
            let variance = (&wide - &mean).square().mean(&axes);
            // Running variances are of the population the batch is a sample of.
            let unbiased = &variance.stop_gradient() * (count as f64 / count.saturating_sub(1).max(1) as f64);
            let follow =
                |old: &Tensor, new: &Tensor| &(old * (1.0 - self.momentum)) + &(&new.stop_gradient() * self.momentum);
            let seen = BatchStatistics { mean: follow(&seen.mean, &mean), variance: follow(&seen.variance, &unbiased) };
            (self.normalised(x, &mean, &variance), seen)
        })
    }

    /// At inference: by the running statistics.
    #[track_caller]
    pub fn apply(&self, x: &Tensor, seen: &BatchStatistics) -> Tensor {
        trace::scope("batch_norm", || self.normalised(x, &seen.mean, &seen.variance))
    }

    #[track_caller]
    fn normalised(&self, x: &Tensor, mean: &Tensor, variance: &Tensor) -> Tensor {
        let scale = &(variance + self.epsilon).rsqrt() * &self.weight.cast(DType::F32);
        let y = &(&x.cast(DType::F32) - mean) * &scale;
        (y + self.bias.cast(DType::F32)).cast(x.dtype())
    }
}
