//! A mixture of experts: each position goes to the few feed-forwards a router finds best.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Key, Tensor, Tree};

use crate::init::Init;
use crate::layers::{Activation, Bias, Linear};

/// How positions reach their experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// Every expert computes every position and the router's weights choose: exact, and as costly as all experts.
    #[default]
    Dense,
    /// Each expert takes so many times its even share of positions; those above are left out of it.
    Capacity(f64),
}

/// Experts of gated feed-forwards, stacked, and the router.
#[derive(Clone, Debug, Tree)]
pub struct MixtureOfExperts {
    /// `[width, experts]`.
    pub router: Linear,
    /// `[experts, width, inner]`, through the activation.
    pub gate: Tensor,
    /// `[experts, width, inner]`.
    pub up: Tensor,
    /// `[experts, inner, width]`.
    pub down: Tensor,
    /// Experts a position goes to.
    #[tree(skip)]
    pub chosen: usize,
    /// How positions reach them.
    #[tree(skip)]
    pub dispatch: Dispatch,
    /// Of the gates.
    #[tree(skip)]
    pub activation: Activation,
}

/// Sizes of a mixture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertSizes {
    /// Width.
    pub width: usize,
    /// Width inside an expert.
    pub inner: usize,
    /// Experts.
    pub experts: usize,
    /// Experts a position goes to.
    pub chosen: usize,
}

/// The router's choice for `[positions]`.
struct Choice {
    /// Weights of the chosen, adding up to 1: `f32 [positions, chosen]`.
    weights: Tensor,
    /// Which were chosen: `i32 [positions, chosen]`.
    experts: Tensor,
    /// 1 is balanced, more is not; `f32` scalar.
    balance: Tensor,
}

impl MixtureOfExperts {
    /// Drawn weights.
    #[track_caller]
    pub fn init(key: &Key, sizes: ExpertSizes, activation: Activation, dispatch: Dispatch, weight: Init) -> Self {
        let ExpertSizes { width, inner, experts, chosen } = sizes;
        let keys = key.split(4);
        MixtureOfExperts {
            router: Linear::init(&keys[0], width, experts, Bias::None, weight),
            gate: weight.draw(&keys[1], DType::F32, &[experts, width, inner]),
            up: weight.draw(&keys[2], DType::F32, &[experts, width, inner]),
            down: weight.draw(&keys[3], DType::F32, &[experts, inner, width]),
            chosen,
            dispatch,
            activation,
        }
    }

    /// Applied to `[..., width]`; also gives the loss of balance, 1 where all experts are used alike.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> (Tensor, Tensor) {
        trace::scope("experts", || {
            let width = x.dim(-1);
            let flat = x.reshape(&[x.num_elements() / width.max(1), width]);
            let choice = self.route(&flat);
            let out = match self.dispatch {
                Dispatch::Dense => self.dense(&flat, &choice),
                Dispatch::Capacity(factor) => self.with_capacity(&flat, &choice, factor),
            };
            (out.reshape(x.dims()), choice.balance)
        })
    }

    fn route(&self, x: &Tensor) -> Choice {
        trace::scope("router", || {
            let experts = self.gate.dim(0);
            let scores = x.cast(DType::F32).matmul(&self.router.weight.cast(DType::F32)).softmax(-1);
            // The order is found without a gradient; the scores are read again at it.
            let (_, chosen) = scores.stop_gradient().top_k(self.chosen);
            let top = scores.take_along(-1, &chosen);
            let weights = &top / &top.sum(&[1]).expand(-1);
            let used = chosen.one_hot(experts, DType::F32).sum(&[1]).mean(&[0]);
            let balance = &(&used * &scores.mean(&[0])).sum_all() * (experts as f64 / self.chosen.max(1) as f64);
            Choice { weights, experts: chosen, balance }
        })
    }

    /// Experts on `[experts, rows, width]`.
    fn experts(&self, x: &Tensor) -> Tensor {
        let of = |weight: &Tensor| weight.cast(x.dtype());
        let gate = self.activation.apply(&x.matmul(&of(&self.gate)));
        (gate * x.matmul(&of(&self.up))).matmul(&of(&self.down))
    }

    fn dense(&self, x: &Tensor, choice: &Choice) -> Tensor {
        let experts = self.gate.dim(0);
        let everywhere = x.expand(0).broadcast_to(&[experts, x.dim(0), x.dim(1)]);
        let chosen = choice.experts.one_hot(experts, DType::F32);
        let weights = (&chosen * &choice.weights.expand(-1)).sum(&[1]).cast(x.dtype());
        self.experts(&everywhere).einsum("enw,ne->nw", &weights)
    }

    /// Positions are put into the experts' rows in order, first choices first; what does not fit is left out.
    fn with_capacity(&self, x: &Tensor, choice: &Choice, factor: f64) -> Tensor {
        let (positions, width, experts) = (x.dim(0), x.dim(1), self.gate.dim(0));
        let share = (positions * self.chosen) as f64 / experts.max(1) as f64;
        let capacity = ((share * factor).ceil() as usize).clamp(1, positions.max(1));
        let total = positions * self.chosen;
        // All first choices, then all second ones.
        let flat = choice.experts.swap_axes(0, 1).reshape(&[total]);
        let weights = choice.weights.swap_axes(0, 1).reshape(&[total]);
        let is_of = flat.one_hot(experts, DType::I32);
        let place = (&is_of.cumulative_sum(0) * &is_of).sum(&[1]) - Tensor::ones(DType::I32, &[]);
        let fits = place.less(&Tensor::scalar(DType::I32, capacity as f64));
        // One row more than there are takes what does not fit.
        let row = &(&flat * capacity as f64) + &place;
        let spare = Tensor::scalar(DType::I32, (experts * capacity) as f64);
        let row = fits.select(&row, &spare);
        let source = Tensor::concat(&vec![Tensor::iota(DType::I32, &[positions], 0); self.chosen], 0);
        // Which position each row has: a scatter of numbers, so that vectors are only ever gathered.
        let nobody = Tensor::full(DType::I32, &[experts * capacity + 1], positions as f64);
        let owner = put(&nobody, &row, &source).slice(0, 0..experts * capacity);
        let padded = x.pad(0, 0, 1);
        let rows = padded.take(0, &owner).reshape(&[experts, capacity, width]);
        let done = self.experts(&rows).reshape(&[experts * capacity, width]).pad(0, 0, 1);
        let kept = (&weights * &fits.cast(DType::F32)).cast(x.dtype());
        let back = done.take(0, &row) * kept.expand(-1);
        back.reshape(&[self.chosen, positions, width]).sum(&[0])
    }
}

/// `to` with `values[i]` at `at[i]`.
fn put(to: &Tensor, at: &Tensor, values: &Tensor) -> Tensor {
    let dims = hlo::dims::ScatterDims {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..hlo::dims::ScatterDims::default()
    };
    to.scatter(at, values, dims, trace::Update::Set)
}
