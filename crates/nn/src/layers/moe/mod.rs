//! Mixture of experts (MoE): a router sends each token to a few of many feed-forwards.

mod across;
mod grouped;
mod routing;
mod rows;

pub use grouped::grouped_matmul;
pub use routing::{ExpertGroups, RouterScores, RouterWeights, Routing, WeightedSide};

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{CompileTarget, Key, PartitionSpec, Reduction, Tensor, Tree};

use crate::init::Init;
use crate::layers::{Activation, Bias, Linear, RmsNorm};
use crate::quant::{Weight, map_weights};
use across::Across;
use grouped::{Extent, GroupWeights, Groups};
use rows::Rows;

/// How tokens are dispatched to their experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// Every expert computes every token and the router's weights choose: exact, and as costly as all experts.
    Dense,
    /// Dropless: tokens are sorted by expert and go through grouped matmuls (`ragged_dot` in JAX, megablox). Exact, and as costly as
    /// the chosen experts.
    #[default]
    Grouped,
    /// Capacity factor: each expert takes so many times its even share of tokens; tokens above it are dropped.
    Capacity(f64),
}

/// Experts of gated feed-forwards, stacked, and the router.
#[derive(Clone, Debug, Tree)]
pub struct MixtureOfExperts {
    /// `[width, experts]`.
    pub router: Linear,
    /// `[experts, width, inner]`, through the activation.
    pub gate: Weight,
    /// `[experts, width, inner]`.
    pub up: Weight,
    /// `[experts, inner, width]`.
    pub down: Weight,
    /// Of the three matmuls, if they have them.
    pub biases: Option<ExpertBiases>,
    /// Norms and scales of what the router and the experts read, if they have them.
    pub inputs: Option<ExpertInputs>,
    /// Experts per token.
    #[tree(skip)]
    pub chosen: usize,
    /// How they are chosen and weighted.
    #[tree(skip)]
    pub routing: Routing,
    /// How tokens are dispatched to them.
    #[tree(skip)]
    pub dispatch: Dispatch,
    /// Of the gates.
    #[tree(skip)]
    pub activation: Activation,
    /// How gates meet what they let through.
    #[tree(skip)]
    pub gating: Gating,
    /// Where matrices are read in place of those above.
    #[tree(skip)]
    pub stack: Option<ExpertStack>,
}

/// Matrices of the experts of all layers, of which grouped matmuls read one layer where it lies: a loop over layers copies none.
#[derive(Clone, Debug)]
pub struct ExpertStack {
    /// `[layers, experts, width, inner]`.
    gate: Tensor,
    /// `[layers, experts, width, inner]`.
    up: Tensor,
    /// `[layers, experts, inner, width]`.
    down: Tensor,
    /// The layer, an `i32` scalar.
    layer: Tensor,
}

/// Biases of the matmuls of experts.
#[derive(Clone, Debug, Tree)]
pub struct ExpertBiases {
    /// `[experts, inner]`.
    pub gate: Tensor,
    /// `[experts, inner]`.
    pub up: Tensor,
    /// `[experts, width]`.
    pub down: Tensor,
}

impl ExpertBiases {
    /// Zeros.
    #[track_caller]
    pub fn zeros(sizes: ExpertSizes) -> ExpertBiases {
        let of = |width: usize| Tensor::zeros(DType::F32, &[sizes.experts, width]);
        ExpertBiases { gate: of(sizes.inner), up: of(sizes.inner), down: of(sizes.width) }
    }
}

/// Norms and scales of a mixture whose router and experts read the same vectors in two ways, as in Gemma 4.
#[derive(Clone, Debug, Tree)]
pub struct ExpertInputs {
    /// What the router reads is divided by its root mean square and multiplied by this over the root of the width: `[width]`.
    pub router_scale: Tensor,
    /// What weights of the chosen experts are multiplied by: `[experts]`.
    pub expert_scale: Tensor,
    /// Of what the experts read.
    pub norm: RmsNorm,
}

impl ExpertInputs {
    /// Ones.
    #[track_caller]
    pub fn ones(sizes: ExpertSizes, epsilon: f64) -> ExpertInputs {
        let of = |size: usize| Tensor::ones(DType::F32, &[size]);
        ExpertInputs {
            router_scale: of(sizes.width),
            expert_scale: of(sizes.experts),
            norm: RmsNorm::init(sizes.width, epsilon),
        }
    }

    /// What the router reads of `[positions, width]`.
    fn of_router(&self, x: &Tensor) -> Tensor {
        let scale = &self.router_scale.cast(DType::F32) * (x.dim(-1) as f64).sqrt().recip();
        &RmsNorm::unscaled(&x.cast(DType::F32), self.norm.epsilon) * &scale
    }
}

/// How gates of experts meet what they let through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gating {
    /// `activation(gate) * up`.
    #[default]
    Product,
    /// As gpt-oss: `gate * logistic(alpha * gate) * (up + 1)`, with `gate` at most and `up` within a limit.
    Clamped {
        /// The limit.
        limit: f64,
        /// The factor of gates inside the logistic function.
        alpha: f64,
    },
}

map_weights!(MixtureOfExperts: router, gate, up, down);

/// Sizes of a mixture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertSizes {
    /// Width.
    pub width: usize,
    /// Width inside an expert.
    pub inner: usize,
    /// Experts.
    pub experts: usize,
    /// Experts per token.
    pub chosen: usize,
}

/// How experts are used: means over positions. Those of a batch are the means of those of its equal parts.
#[derive(Clone, Debug, Tree)]
pub struct Usage {
    /// How often a token chooses each expert: `f32 [experts]`, adding up to the experts per token.
    pub chosen: Tensor,
    /// Scores of the router, `f32 [experts]`.
    pub scores: Tensor,
}

impl Usage {
    /// The load-balancing (auxiliary) loss: 1 where all experts are used equally, more where not. Axes before that of the experts
    /// stay.
    #[track_caller]
    pub fn load_balancing_loss(&self, chosen: usize) -> Tensor {
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
            gate: weight.draw(&keys[1], DType::F32, &[experts, width, inner]).into(),
            up: weight.draw(&keys[2], DType::F32, &[experts, width, inner]).into(),
            down: weight.draw(&keys[3], DType::F32, &[experts, inner, width]).into(),
            biases: None,
            inputs: None,
            chosen,
            routing: Routing::default(),
            dispatch,
            activation,
            gating: Gating::Product,
            stack: None,
        }
    }

    /// The experts of a layer of stacked mixtures, which read matrices where they lie if a kernel does so; `stacked` has all layers, and
    /// this one is at a place in it, an `i32` scalar.
    #[track_caller]
    pub(crate) fn in_stack(&self, stacked: &MixtureOfExperts, place: &Tensor, dtype: DType) -> MixtureOfExperts {
        let is_read = self.dispatch == Dispatch::Grouped && trace::current_target() == CompileTarget::Any;
        let of = |weight: &Weight| GroupWeights::stack(weight, dtype).filter(|_| is_read);
        let stack = match (of(&stacked.gate), of(&stacked.up), of(&stacked.down)) {
            (Some(gate), Some(up), Some(down)) => Some(ExpertStack { gate, up, down, layer: place.clone() }),
            _ => None,
        };
        MixtureOfExperts { stack, ..self.clone() }
    }

    /// What the matmuls of gates, of what they let through, and of results read.
    #[track_caller]
    fn group_weights(&self, dtype: DType) -> (GroupWeights, GroupWeights, GroupWeights) {
        let of = |weight: &Weight| GroupWeights::of(weight, dtype);
        let (gate, up, down) = (of(&self.gate), of(&self.up), of(&self.down));
        match &self.stack {
            Some(stack) => (
                gate.in_stack(&stack.gate, &stack.layer),
                up.in_stack(&stack.up, &stack.layer),
                down.in_stack(&stack.down, &stack.layer),
            ),
            None => (gate, up, down),
        }
    }

    /// Applied to `[..., width]`; also gives the load-balancing loss, 1 where all experts are used equally.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> (Tensor, Tensor) {
        let (out, usage) = self.apply_with_usage(x);
        (out, usage.load_balancing_loss(self.chosen))
    }

    /// Applied to `[..., width]`; also gives how experts are used.
    #[track_caller]
    pub fn apply_with_usage(&self, x: &Tensor) -> (Tensor, Usage) {
        trace::scope("experts", || {
            let flat = flat(x);
            let by_example = if x.rank() == 3 { x.clone() } else { flat.expand(0) };
            if let Some(across) = Across::of(&by_example, self) {
                let (out, usage) = across.apply(self, &by_example);
                return (out.reshape(x.dims()), usage);
            }
            let choice = self.route(&flat, &[]);
            let out = match self.dispatch {
                Dispatch::Dense => self.dense(&flat, &choice),
                Dispatch::Grouped => self.grouped(&flat, &choice, &self.group_weights(x.dtype()), None),
                Dispatch::Capacity(factor) => {
                    let (rows, positions) = self.with_capacity(&flat, &choice, factor);
                    positions.to_positions(&self::flat(&self.experts(&rows.vectors, &rows.weights, None)))
                }
            };
            (out.reshape(x.dims()), choice.usage)
        })
    }

    /// `over` are the mesh axes along which other devices have other positions.
    fn route(&self, x: &Tensor, over: &[&str]) -> Choice {
        trace::scope("router", || {
            let experts = self.router.weight.dim(1);
            let scores = match &self.inputs {
                Some(inputs) => self.routing.scores(&inputs.of_router(x), &self.router),
                None => self.routing.scores(x, &self.router),
            };
            // The order is found without a gradient; the scores are read again at it.
            let (_, chosen) = self.routing.preferences(&scores, &self.router).top_k(self.chosen);
            let weights = self.routing.weights(scores.take_along(-1, &chosen));
            let weights = match &self.inputs {
                Some(inputs) => &weights * &inputs.expert_scale.cast(DType::F32).take(0, &chosen),
                None => weights,
            };
            let mean = |of_positions: &Tensor| of_positions.mean(&[0]).all_reduce(over, Reduction::Mean);
            let usage = Usage { chosen: mean(&chosen.one_hot(experts, DType::F32).sum(&[1])), scores: mean(&scores) };
            Choice { weights, experts: chosen, usage }
        })
    }

    /// Experts on `[experts, rows, width]`, times the weights of rows. The weights are applied before the last matmul, so that their
    /// gradient does not need its result: it is not recomputed. `inside` is the sharding of the activations inside an expert.
    fn experts(&self, x: &Tensor, weights: &Tensor, inside: Option<&PartitionSpec>) -> Tensor {
        let of = |x: &Tensor, weight: &Weight, logical_axes: [&str; 3]| match inside {
            Some(_) => weight.at_use(x.dtype(), &logical_axes).batched_matmul(x),
            None => weight.batched_matmul(x),
        };
        let laid = |y: Tensor| inside.map_or(y.clone(), |sharding| y.with_sharding_constraint(sharding));
        let x = &self.weighted_input(x, weights);
        let (mut gate, mut up) =
            (of(x, &self.gate, ["experts", "embed", "mlp"]), of(x, &self.up, ["experts", "embed", "mlp"]));
        if let Some(biases) = &self.biases {
            let by_row = |bias: &Tensor| bias.cast(x.dtype()).expand(1);
            (gate, up) = (gate + by_row(&biases.gate), up + by_row(&biases.up));
        }
        let (gate, up) = (laid(gate).named("gate"), laid(up).named("up"));
        let out = of(&self.gated(&gate, &up, weights), &self.down, ["experts", "mlp", "embed"]);
        match &self.biases {
            Some(biases) => out + &biases.down.cast(x.dtype()).expand(1) * &self.output_weights(weights, x.dtype()),
            None => out,
        }
    }

    /// Rows as experts get them.
    fn weighted_input(&self, rows: &Tensor, weights: &Tensor) -> Tensor {
        let rows = &self.inputs.as_ref().map_or(rows.clone(), |inputs| inputs.norm.apply(rows));
        match self.routing.side {
            WeightedSide::Inputs => rows * &weights.cast(rows.dtype()).expand(-1),
            WeightedSide::Outputs => rows.clone(),
        }
    }

    /// What results of rows are multiplied by, with an axis of features: 0 for rows of nobody.
    fn output_weights(&self, weights: &Tensor, dtype: DType) -> Tensor {
        match self.routing.side {
            WeightedSide::Inputs => weights.greater(&weights.zeros_like()).cast(dtype).expand(-1),
            WeightedSide::Outputs => weights.cast(dtype).expand(-1),
        }
    }

    /// The input of the last matmul, of rows with weights.
    fn gated(&self, gate: &Tensor, up: &Tensor, weights: &Tensor) -> Tensor {
        let gated = match self.gating {
            Gating::Product => self.activation.apply(gate) * up,
            Gating::Clamped { limit, alpha } => {
                let most = Tensor::scalar(gate.dtype(), limit);
                let gate = gate.minimum(&most);
                let up = up.minimum(&most).maximum(&Tensor::scalar(up.dtype(), -limit));
                &(&gate * &(&gate * alpha).logistic()) * &(&up + 1.0)
            }
        };
        match self.routing.side {
            WeightedSide::Inputs => gated,
            WeightedSide::Outputs => gated * weights.cast(up.dtype()).expand(-1),
        }
    }

    fn dense(&self, x: &Tensor, choice: &Choice) -> Tensor {
        let experts = self.gate.dim(0);
        let everywhere = x.expand(0).broadcast_to(&[experts, x.dim(0), x.dim(1)]);
        let chosen = choice.experts.one_hot(experts, DType::F32);
        let weights = (&chosen * &choice.weights.expand(-1)).sum(&[1]).swap_axes(0, 1);
        self.experts(&everywhere, &weights, None).sum(&[0])
    }

    /// Tokens are sorted by expert; `others` are the experts of other devices, if not all experts are here.
    fn grouped(
        &self,
        x: &Tensor,
        choice: &Choice,
        (gates, ups, downs): &(GroupWeights, GroupWeights, GroupWeights),
        others: Option<&Others>,
    ) -> Tensor {
        let (positions, experts) = (x.dim(0), gates.groups());
        // No position has an expert twice.
        let most = positions * self.chosen.min(experts);
        let share = others.map_or(1, |others| others.shares);
        let expected = (positions * self.chosen).div_ceil(share.max(1)).min(most);
        let first = others.map(|others| &others.first);
        let (positions, sizes) = Rows::sorted(&choice.experts.swap_axes(0, 1), experts, first, grouped::rows_for(most));
        let groups = Groups { sizes, extent: Extent { most, expected } };
        let weights = positions.of_choices(&choice.weights.swap_axes(0, 1));
        let rows = self.weighted_input(&positions.of_positions(x), &weights);
        let (mut gate, mut up) = (gates.matmul(&rows, &groups), ups.matmul(&rows, &groups));
        let biases = self.biases.as_ref().map(|biases| {
            let of_rows = groups.of_rows(rows.dim(0));
            biases.map_leaves(|bias| bias.cast(rows.dtype()).take(0, &of_rows))
        });
        if let Some(biases) = &biases {
            (gate, up) = (gate + &biases.gate, up + &biases.up);
        }
        let (gate, up) = (gate.named("gate"), up.named("up"));
        let out = downs.matmul(&self.gated(&gate, &up, &weights), &groups);
        let out = match &biases {
            Some(biases) => out + &biases.down * &self.output_weights(&weights, rows.dtype()),
            None => out,
        };
        positions.to_positions(&out)
    }

    /// Tokens are put into the experts' rows in order, first choices first; those above the capacity are dropped.
    fn with_capacity(&self, x: &Tensor, choice: &Choice, factor: f64) -> (Weighted, Rows) {
        let (positions, width, experts) = (x.dim(0), x.dim(1), self.router.weight.dim(1));
        let share = (positions * self.chosen) as f64 / experts.max(1) as f64;
        let capacity = ((share * factor).ceil() as usize).clamp(1, positions.max(1));
        let positions = Rows::with_capacity(&choice.experts.swap_axes(0, 1), experts, capacity);
        let weights = positions.of_choices(&choice.weights.swap_axes(0, 1));
        let vectors = positions.of_positions(x).reshape(&[experts, capacity, width]);
        (Weighted { vectors, weights: weights.reshape(&[experts, capacity]) }, positions)
    }
}

/// Experts that other devices have.
struct Others {
    /// The first expert that is here, an `i32` scalar.
    first: Tensor,
    /// Devices that share the experts.
    shares: usize,
}

/// Rows of experts.
#[derive(Clone, Debug, Tree)]
struct Weighted {
    /// `[experts, rows, width]`.
    vectors: Tensor,
    /// `f32 [experts, rows]`, 0 for empty rows.
    weights: Tensor,
}

/// `[..., width]` as `[positions, width]`.
fn flat(x: &Tensor) -> Tensor {
    let width = x.dim(-1);
    x.reshape(&[x.num_elements() / width.max(1), width])
}
