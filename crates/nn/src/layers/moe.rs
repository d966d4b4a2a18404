//! A mixture of experts: each position goes to the few feed-forwards a router finds best.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Key, Reduction, Sharding, Tensor, Tree, shard_map};

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

/// What the results of the chosen experts are multiplied by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterWeights {
    /// Their scores over the sum of these.
    #[default]
    Normalized,
    /// Their scores among all experts.
    Scores,
}

/// How scores of experts come from products with the router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterScores {
    /// A softmax over all experts.
    #[default]
    Softmax,
    /// Each by itself, between 0 and 1. The router's bias is added for the choice alone; it has no gradient.
    Sigmoid,
}

/// Experts in groups, of which a position uses some only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpertGroups {
    /// Groups of as many experts each.
    pub count: usize,
    /// Groups a position uses.
    pub chosen: usize,
    /// A group is judged by the sum of so many of its best scores.
    pub best: usize,
}

/// How experts are chosen and weighted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Routing {
    /// Scores of experts.
    pub scores: RouterScores,
    /// Groups, if there are.
    pub groups: Option<ExpertGroups>,
    /// What results are multiplied by.
    pub weights: RouterWeights,
    /// What weights are multiplied by in the end.
    pub scale: f64,
}

impl Default for Routing {
    fn default() -> Routing {
        Routing { scores: RouterScores::Softmax, groups: None, weights: RouterWeights::Normalized, scale: 1.0 }
    }
}

impl Routing {
    /// What experts are chosen by; only the order counts.
    fn preferences(&self, scores: &Tensor, router: &Linear) -> Tensor {
        let mut preferences = scores.stop_gradient();
        if let (RouterScores::Sigmoid, Some(bias)) = (self.scores, &router.bias) {
            preferences = &preferences + &bias.cast(DType::F32).stop_gradient();
        }
        let Some(groups) = self.groups else { return preferences };
        let (positions, experts) = (scores.dim(0), scores.dim(1));
        let apart = [positions, groups.count, experts / groups.count.max(1)];
        let (best, _) = preferences.reshape(&apart).top_k(groups.best);
        let (_, chosen) = best.sum(&[2]).top_k(groups.chosen);
        let is_open = chosen.one_hot(groups.count, DType::F32).sum(&[1]).expand(-1).broadcast_to(&apart);
        // Experts of other groups count as if their score were 0.
        &preferences * &is_open.reshape(&[positions, experts])
    }
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
    /// How they are chosen and weighted.
    #[tree(skip)]
    pub routing: Routing,
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

/// How experts are used: means over positions. Those of a batch are the means of those of its equal parts.
#[derive(Clone, Debug, Tree)]
pub struct Usage {
    /// How many of its choices a position makes each expert: `f32 [experts]`, adding up to the number chosen.
    pub chosen: Tensor,
    /// Scores of the router, `f32 [experts]`.
    pub scores: Tensor,
}

impl Usage {
    /// 1 where all experts are used alike, more where not. Axes before that of the experts stay.
    #[track_caller]
    pub fn balance(&self, chosen: usize) -> Tensor {
        let last = self.chosen.rank().saturating_sub(1);
        let experts = self.chosen.dim(-1);
        &(&self.chosen * &self.scores).sum(&[last]) * (experts as f64 / chosen.max(1) as f64)
    }
}

/// The router's choice for `[positions]`.
struct Choice {
    /// Weights of the chosen: `f32 [positions, chosen]`.
    weights: Tensor,
    /// Which were chosen: `i32 [positions, chosen]`.
    experts: Tensor,
    usage: Usage,
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
            routing: Routing::default(),
            dispatch,
            activation,
        }
    }

    /// Applied to `[..., width]`; also gives the loss of balance, 1 where all experts are used alike.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> (Tensor, Tensor) {
        let (out, usage) = self.apply_counting(x);
        (out, usage.balance(self.chosen))
    }

    /// Applied to `[..., width]`; also gives how experts are used.
    #[track_caller]
    pub fn apply_counting(&self, x: &Tensor) -> (Tensor, Usage) {
        trace::scope("experts", || {
            if let (Dispatch::Capacity(factor), Some(across)) = (self.dispatch, Across::of(x, self)) {
                return across.apply(self, x, factor);
            }
            let width = x.dim(-1);
            let flat = x.reshape(&[x.num_elements() / width.max(1), width]);
            let choice = self.route(&flat, &[]);
            let out = match self.dispatch {
                Dispatch::Dense => self.dense(&flat, &choice),
                Dispatch::Capacity(factor) => self.with_capacity(&flat, &choice, factor, |rows| self.experts(&rows)),
            };
            (out.reshape(x.dims()), choice.usage)
        })
    }

    /// `over` are the mesh axes along which other devices have other positions.
    fn route(&self, x: &Tensor, over: &[&str]) -> Choice {
        trace::scope("router", || {
            let experts = self.router.weight.dim(1);
            let products = x.cast(DType::F32).matmul(&self.router.weight.cast(DType::F32));
            let scores = match self.routing.scores {
                RouterScores::Softmax => products.softmax(-1),
                RouterScores::Sigmoid => products.logistic(),
            };
            // The order is found without a gradient; the scores are read again at it.
            let (_, chosen) = self.routing.preferences(&scores, &self.router).top_k(self.chosen);
            let top = scores.take_along(-1, &chosen);
            let weights = match self.routing.weights {
                RouterWeights::Normalized => &top / &top.sum(&[1]).expand(-1),
                RouterWeights::Scores => top,
            };
            let weights = if self.routing.scale == 1.0 { weights } else { &weights * self.routing.scale };
            let mean = |of_positions: &Tensor| of_positions.mean(&[0]).all_reduce(over, Reduction::Mean);
            let usage = Usage { chosen: mean(&chosen.one_hot(experts, DType::F32).sum(&[1])), scores: mean(&scores) };
            Choice { weights, experts: chosen, usage }
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
    fn with_capacity(
        &self,
        x: &Tensor,
        choice: &Choice,
        factor: f64,
        compute: impl FnOnce(Tensor) -> Tensor,
    ) -> Tensor {
        let (positions, width, experts) = (x.dim(0), x.dim(1), self.router.weight.dim(1));
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
        let done = compute(rows).reshape(&[experts * capacity, width]).pad(0, 0, 1);
        let kept = (&weights * &fits.cast(DType::F32)).cast(x.dtype());
        let back = done.take(0, &row) * kept.expand(-1);
        back.reshape(&[self.chosen, positions, width]).sum(&[0])
    }
}

/// How experts lie on a mesh: each device routes its own positions, sends rows to the devices of their experts, and gets
/// them back. Each device's rows have room for their own positions' share, so what is left out depends on the mesh.
struct Across {
    /// Mesh axes of the examples, of the positions, of the experts, and of the width inside an expert.
    batch: Vec<Arc<str>>,
    sequence: Vec<Arc<str>>,
    experts: Vec<Arc<str>>,
    inner: Vec<Arc<str>>,
}

impl Across {
    /// `None` without a mesh, or with one that splits neither positions nor experts.
    fn of(x: &Tensor, mixture: &MixtureOfExperts) -> Option<Across> {
        let layout = trace::layout()?;
        if x.rank() != 3 {
            return None;
        }
        let axes = |meaning: &str, size: usize| {
            let sharding = layout.sharding(&[meaning], &[size]);
            sharding.dims.into_iter().flatten().next().unwrap_or_default()
        };
        let across = Across {
            batch: axes("batch", x.dim(0)),
            sequence: axes("sequence", x.dim(1)),
            experts: axes("experts", mixture.gate.dim(0)),
            inner: axes("inner", mixture.gate.dim(2)),
        };
        let is_whole = across.batch.is_empty() && across.sequence.is_empty() && across.experts.is_empty();
        (!is_whole).then_some(across)
    }

    #[track_caller]
    fn apply(&self, mixture: &MixtureOfExperts, x: &Tensor, factor: f64) -> (Tensor, Usage) {
        let dims = |dims: &[&[Arc<str>]]| Sharding { dims: dims.iter().map(|axes| Some(axes.to_vec())).collect() };
        let positions = dims(&[&self.batch, &self.sequence, &[]]);
        let up = dims(&[&self.experts, &[], &self.inner]);
        let down = dims(&[&self.experts, &self.inner, &[]]);
        // In the type of the products before they are gathered: half of the bytes travel.
        let of = |weight: &Tensor| weight.cast(x.dtype());
        let inputs = (x.clone(), mixture.router.clone(), of(&mixture.gate), of(&mixture.up), of(&mixture.down));
        let mut shardings = vec![positions.clone()];
        shardings.extend(mixture.router.specs().iter().map(|spec| Sharding::replicated(spec.dims.len())));
        shardings.extend([up.clone(), up, down]);
        let names = |axes: &[Arc<str>]| axes.iter().map(|axis| axis.to_string()).collect::<Vec<_>>();
        let over: Vec<String> = names(&self.batch).into_iter().chain(names(&self.sequence)).collect();
        let over: Vec<&str> = over.iter().map(String::as_str).collect();
        let (experts, inner) = (names(&self.experts), names(&self.inner));
        let experts: Vec<&str> = experts.iter().map(String::as_str).collect();
        let inner: Vec<&str> = inner.iter().map(String::as_str).collect();
        let outputs = [positions, Sharding::replicated(1), Sharding::replicated(1)];
        shard_map(&inputs, &shardings, &outputs, |(x, router, gate, up, down)| {
            let mine = MixtureOfExperts {
                router: router.clone(),
                gate: gate.clone(),
                up: up.clone(),
                down: down.clone(),
                ..mixture.clone()
            };
            let width = x.dim(-1);
            let flat = x.reshape(&[x.num_elements() / width.max(1), width]);
            let choice = mine.route(&flat, &over);
            let out = mine.with_capacity(&flat, &choice, factor, |rows| {
                if experts.is_empty() {
                    return mine.experts(&rows).all_reduce(&inner[..], Reduction::Sum);
                }
                let sent = rows.all_to_all(0, 1, &experts[..]);
                let done = mine.experts(&sent).all_reduce(&inner[..], Reduction::Sum);
                done.all_to_all(1, 0, &experts[..])
            });
            (out.reshape(x.dims()), choice.usage)
        })
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
