//! Adafactor: the second moment of a matrix as the product of a row and a column.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Tensor, Tree};

use crate::optim::{Optimizer, Schedule, WeightDecay, changed, count, number_or_table};
use crate::stacked::is_stacked;

/// Memory of rows and columns instead of matrices; steps relative to the size of the parameter.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adafactor {
    /// By step, in a file a number or a schedule. Relative to a parameter's root mean square, and no more than one over the
    /// root of the step.
    #[serde(deserialize_with = "number_or_table")]
    pub learning_rate: Schedule,
    /// The second moment forgets `count^this` at a step.
    #[serde(default = "beta2_decay")]
    pub beta2_decay: f64,
    /// Smallest root of the second moment.
    #[serde(default = "eps")]
    pub eps: f64,
    /// Smallest root mean square a parameter counts as.
    #[serde(default = "min_parameter_scale")]
    pub min_parameter_scale: f64,
    /// Root mean square above which a step is scaled down.
    #[serde(default = "clip_threshold")]
    pub clip_threshold: f64,
    /// Taken away beside the step.
    #[serde(default, deserialize_with = "number_or_table")]
    pub weight_decay: WeightDecay,
}

fn beta2_decay() -> f64 {
    -0.8
}

fn eps() -> f64 {
    f64::from(f32::EPSILON)
}

fn min_parameter_scale() -> f64 {
    1e-3
}

fn clip_threshold() -> f64 {
    1.0
}

impl Adafactor {
    /// With the usual constants and without weight decay.
    pub fn new(learning_rate: Schedule) -> Adafactor {
        Adafactor {
            learning_rate,
            beta2_decay: beta2_decay(),
            eps: eps(),
            min_parameter_scale: min_parameter_scale(),
            clip_threshold: clip_threshold(),
            weight_decay: WeightDecay::none(),
        }
    }
}

/// What is known of a parameter's second moment.
#[derive(Clone, Debug, Tree)]
pub enum SecondMoment {
    /// Of a matrix: means over columns and over rows, with the axis they were taken over kept at size 1.
    Factored {
        /// `[…, rows, 1]`.
        row: Tensor,
        /// `[…, 1, columns]`.
        column: Tensor,
    },
    /// Of anything else.
    Whole(Tensor),
}

/// Second moments, in the order of the parameters.
#[derive(Clone, Debug, Tree)]
pub struct AdafactorState {
    /// One a parameter.
    pub second: Vec<SecondMoment>,
}

/// Axes of one layer's parameter: all, but not the first where layers are stacked.
fn own_axes(path: &str, rank: usize) -> Vec<usize> {
    (usize::from(is_stacked(path) && rank > 0)..rank).collect()
}

/// The root mean square over axes, which are kept at size 1.
fn root_mean_square(x: &Tensor, axes: &[usize]) -> Tensor {
    let mut dims = x.dims().to_vec();
    axes.iter().for_each(|&axis| dims[axis] = 1);
    x.square().mean(axes).sqrt().reshape(&dims)
}

impl<P: Tree + Clone> Optimizer<P> for Adafactor {
    type State = AdafactorState;

    fn init(&self, params: &P) -> Self::State {
        let leaves = params.paths().into_iter().zip(params.leaves());
        let second = leaves.map(|(path, leaf)| {
            let dims = leaf.dims();
            if own_axes(&path, dims.len()).len() < 2 {
                return SecondMoment::Whole(Tensor::zeros(DType::F32, dims));
            }
            let (mut row, mut column) = (dims.to_vec(), dims.to_vec());
            row[dims.len() - 1] = 1;
            column[dims.len() - 2] = 1;
            SecondMoment::Factored { row: Tensor::zeros(DType::F32, &row), column: Tensor::zeros(DType::F32, &column) }
        });
        AdafactorState { second: second.collect() }
    }

    fn update(&self, grads: &P, state: &Self::State, params: &P, step: &Tensor) -> (P, Self::State) {
        trace::scope("adafactor", || {
            let count = count(step);
            let base = self.learning_rate.at(step);
            let relative = base.minimum(&count.rsqrt());
            let forgets = count.powf(self.beta2_decay);
            let number = |value: f64| Tensor::scalar(DType::F32, value);
            let follow = |old: &Tensor, new: &Tensor| old + &(&(new - old) * &forgets);
            let (mut new_params, mut new_second) = (Vec::new(), Vec::new());
            let leaves = params.leaves().into_iter().zip(grads.leaves()).zip(params.paths());
            for (((param, grad), path), (second, decay)) in
                leaves.zip(state.second.iter().zip(self.weight_decay.rates(params)))
            {
                let (wide, grad) = (param.cast(DType::F32), grad.cast(DType::F32));
                let axes = own_axes(&path, wide.rank());
                let scale = root_mean_square(&wide, &axes).maximum(&number(self.min_parameter_scale));
                let (estimate, second) = match second {
                    SecondMoment::Factored { row, column } => {
                        let last = grad.rank() - 1;
                        let row = follow(row, &grad.square().mean(&[last]).expand(-1));
                        let column = follow(column, &grad.square().mean(&[last - 1]).expand(-2));
                        let mean = row.mean(&[last - 1]).expand(-2).maximum(&number(self.eps));
                        (&(&row * &column) / &mean, SecondMoment::Factored { row, column })
                    }
                    SecondMoment::Whole(old) => {
                        let new = follow(old, &grad.square());
                        (new.clone(), SecondMoment::Whole(new))
                    }
                };
                let by = &estimate.maximum(&number(self.eps * self.eps)).rsqrt() * &grad;
                let too_long = (&root_mean_square(&by, &axes) / self.clip_threshold).maximum(&number(1.0));
                let mut by = &by * &(&(&scale * &relative) / &too_long);
                if decay != 0.0 {
                    by = &by + &(&wide * &(&base * decay));
                }
                new_params.push(changed(&param, &by));
                new_second.push(second);
            }
            (params.with_leaves(new_params), AdafactorState { second: new_second })
        })
    }

    fn learning_rate(&self, step: &Tensor) -> Tensor {
        self.learning_rate.at(step)
    }
}
