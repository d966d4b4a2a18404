//! Muon: the momentum of a matrix made orthogonal; Adam for everything else.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Tensor, Tree};

use crate::DTypePolicy;
use crate::optim::{Adam, Moments, Optimizer, Schedule, WeightDecay, changed, moved, number_or_table};
use crate::stacked::is_stacked;

/// Coefficients of the quintic iteration that brings singular values near 1 in few iterations.
const QUINTIC: (f64, f64, f64) = (3.4445, -4.7750, 2.0315);

/// Orthogonal steps for matrices, and [`Adam`] for the rest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Muon {
    /// Of matrices, by step; in a file a number or a schedule.
    #[serde(deserialize_with = "number_or_table")]
    pub learning_rate: Schedule,
    /// How much of the momentum stays.
    #[serde(default = "momentum")]
    pub momentum: f64,
    /// Steps of the Newton-Schulz iteration.
    #[serde(default = "ns_steps")]
    pub ns_steps: usize,
    /// Taken away from matrices beside the step.
    #[serde(default, deserialize_with = "number_or_table")]
    pub weight_decay: WeightDecay,
    /// What the iteration computes in.
    #[serde(default = "compute_dtype")]
    pub compute_dtype: DTypePolicy,
    /// Parameters with one of these words in their path go to `adam` though they are matrices.
    #[serde(default = "except")]
    pub except: Vec<String>,
    /// For everything that is no matrix.
    pub adam: Adam,
}

fn momentum() -> f64 {
    0.95
}

fn ns_steps() -> usize {
    5
}

fn compute_dtype() -> DTypePolicy {
    DTypePolicy::Mixed
}

fn except() -> Vec<String> {
    ["embedding", "head", "norm", "bias", "position"].map(str::to_owned).into()
}

impl Muon {
    /// With the usual constants: embeddings, heads, norms and biases go to Adam.
    pub fn new(learning_rate: Schedule, adam: Adam) -> Muon {
        Muon {
            learning_rate,
            momentum: momentum(),
            ns_steps: ns_steps(),
            weight_decay: WeightDecay::none(),
            compute_dtype: compute_dtype(),
            except: except(),
            adam,
        }
    }

    /// Which parameters are matrices, in order.
    fn matrices<P: Tree>(&self, params: &P) -> Vec<bool> {
        let of = |(path, leaf): (String, Tensor)| {
            let rank = leaf.rank() - usize::from(is_stacked(&path) && leaf.rank() > 0);
            rank == 2 && !self.except.iter().any(|word| path.contains(word.as_str()))
        };
        params.paths().into_iter().zip(params.leaves()).map(of).collect()
    }
}

/// Momentum of matrices, and Adam's moments of the rest.
#[derive(Clone, Debug, Tree)]
pub struct MuonState {
    /// One a matrix, in the order of the parameters.
    pub momentum: Vec<Tensor>,
    /// Of the rest, in the order of the parameters.
    pub rest: Moments<Vec<Named>>,
}

/// A parameter under its path, so that what goes by path still finds it.
#[derive(Clone, Debug)]
pub struct Named {
    path: String,
    tensor: Tensor,
}

impl Tree for Named {
    fn visit(&self, path: &mut trace::Path, f: &mut dyn FnMut(&trace::Path, &Tensor)) {
        path.within(&self.path, |path| f(path, &self.tensor));
    }

    fn map(&self, path: &mut trace::Path, f: &mut dyn FnMut(&trace::Path, &Tensor) -> Tensor) -> Self {
        let tensor = path.within(&self.path, |path| f(path, &self.tensor));
        Named { path: self.path.clone(), tensor }
    }
}

/// The nearest orthogonal matrix, roughly, of each matrix in the last two axes.
fn orthogonal(x: &Tensor, ns_steps: usize, compute: DType) -> Tensor {
    let (rank, is_tall) = (x.rank(), x.dim(-2) > x.dim(-1));
    let wide = if is_tall { x.swap_axes(-1, -2) } else { x.clone() }.cast(compute);
    let norm = wide.cast(DType::F32).square().sum(&[rank - 2, rank - 1]).sqrt();
    let norm = norm.maximum(&Tensor::scalar(DType::F32, 1e-7)).cast(compute).expand(-1).expand(-1);
    let (a, b, c) = QUINTIC;
    let (found, ()) = trace::scan(&(&wide / &norm), &(), Some(ns_steps), |x, ()| {
        let gram = x.matmul(&x.swap_axes(-1, -2));
        let polynomial = &(&gram * b) + &(&gram.matmul(&gram) * c);
        (&(x * a) + &polynomial.matmul(x), ())
    });
    let found = found.cast(DType::F32);
    if is_tall { found.swap_axes(-1, -2) } else { found }
}

impl<P: Tree + Clone> Optimizer<P> for Muon {
    type State = MuonState;

    fn init(&self, params: &P) -> Self::State {
        let is_matrix = self.matrices(params);
        let momentum = params.leaves().into_iter().zip(&is_matrix).filter(|(_, is_matrix)| **is_matrix);
        let momentum = momentum.map(|(leaf, _)| Tensor::zeros(DType::F32, leaf.dims())).collect();
        MuonState { momentum, rest: self.adam.init(&rest(params, &is_matrix)) }
    }

    fn update(&self, grads: &P, state: &Self::State, params: &P, step: &Tensor) -> (P, Self::State) {
        trace::scope("muon", || {
            let is_matrix = self.matrices(params);
            let of_rest = (rest(grads, &is_matrix), rest(params, &is_matrix));
            let (rest_params, rest_state) = self.adam.update(&of_rest.0, &state.rest, &of_rest.1, step);
            let mut rest_params = rest_params.into_iter();
            let rate = self.learning_rate.at(step);
            let mut old = state.momentum.iter();
            let (mut new_params, mut new_momentum) = (Vec::new(), Vec::new());
            let leaves = params.leaves().into_iter().zip(grads.leaves()).zip(self.weight_decay.rates(params));
            for (((param, grad), decay), is_matrix) in leaves.zip(is_matrix) {
                let momentum = if is_matrix { old.next() } else { None };
                let Some(momentum) = momentum else {
                    new_params.push(rest_params.next().map_or(param, |named| named.tensor));
                    continue;
                };
                let grad = grad.cast(DType::F32);
                let momentum = moved(momentum, self.momentum, &grad);
                let ahead = moved(&grad, 1.0 - self.momentum, &momentum);
                // Matrices with more outputs than inputs take longer steps.
                let scale = (param.dim(-1) as f64 / param.dim(-2).max(1) as f64).max(1.0).sqrt();
                let mut by = &orthogonal(&ahead, self.ns_steps, self.compute_dtype.compute()) * scale;
                if decay != 0.0 {
                    by = &by + &(&param.cast(DType::F32) * decay);
                }
                new_params.push(changed(&param, &(&by * &rate)));
                new_momentum.push(momentum);
            }
            (params.with_leaves(new_params), MuonState { momentum: new_momentum, rest: rest_state })
        })
    }

    fn learning_rate(&self, step: &Tensor) -> Tensor {
        self.learning_rate.at(step)
    }
}

/// The parameters that are no matrices, under their paths.
fn rest<P: Tree>(params: &P, is_matrix: &[bool]) -> Vec<Named> {
    let named = params.paths().into_iter().zip(params.leaves()).zip(is_matrix);
    named.filter(|(_, is_matrix)| !**is_matrix).map(|((path, tensor), _)| Named { path, tensor }).collect()
}
