//! The part of a transformer block that works on each position alone.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{CompileTarget, Key, RematPolicy, Tensor, Tree};

use crate::init::Init;
use crate::layers::{Bias, Linear};
use crate::quant::map_weights;

/// An activation function between two matmuls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Activation {
    /// `max(x, 0)`.
    #[serde(rename = "relu")]
    Relu,
    /// The Gaussian error linear unit.
    #[serde(rename = "gelu")]
    Gelu,
    /// Its approximation by a hyperbolic tangent.
    #[serde(rename = "gelu_new", alias = "gelu_pytorch_tanh", alias = "gelu_fast")]
    GeluTanh,
    /// Its approximation by a logistic: `x * logistic(1.702 x)`.
    #[serde(rename = "quick_gelu")]
    QuickGelu,
    /// `x * logistic(x)`.
    #[serde(rename = "silu", alias = "swish")]
    Silu,
    /// Hyperbolic tangent.
    #[serde(rename = "tanh")]
    Tanh,
}

impl Activation {
    /// Applied element by element.
    #[track_caller]
    pub fn apply(self, x: &Tensor) -> Tensor {
        match self {
            Activation::Relu => x.relu(),
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::QuickGelu => x * &(x * 1.702).logistic(),
            Activation::Silu => x.silu(),
            Activation::Tanh => x.tanh(),
        }
    }
}

/// Activations between the matmuls, with a sharding constraint if there is a mesh.
#[track_caller]
fn inside(y: Tensor) -> Tensor {
    match y.rank() {
        3 => y.with_logical_axes(&["batch", "sequence", "mlp"]),
        _ => y,
    }
}

/// What lies between the matmuls. On GPUs the backward pass computes it again in the pass that the gradient needs: fewer tensors of this
/// size are kept for each layer, in about the same time.
#[track_caller]
fn activated<I: Tree>(inputs: &I, f: impl FnOnce(&I) -> Tensor) -> Tensor {
    match trace::current_target() {
        CompileTarget::Cuda => trace::checkpoint(&RematPolicy::Full, inputs, f),
        CompileTarget::Any | CompileTarget::Cpu => f(inputs),
    }
}

/// A feed-forward (MLP): two matmuls with an activation between them.
#[derive(Clone, Debug, Tree)]
pub struct FeedForward {
    /// `[width, inner]`.
    pub up: Linear,
    /// `[inner, width]`.
    pub down: Linear,
    /// Between the matmuls.
    #[tree(skip)]
    pub activation: Activation,
}

map_weights!(FeedForward: up, down);

impl FeedForward {
    /// Drawn weights, with biases.
    #[track_caller]
    pub fn init(key: &Key, (width, inner): (usize, usize), activation: Activation, up: Init, down: Init) -> Self {
        let keys = key.split(2);
        FeedForward {
            up: Linear::init(&keys[0], width, inner, Bias::Zero, up),
            down: Linear::init(&keys[1], inner, width, Bias::Zero, down),
            activation,
        }
    }

    /// The same without biases, or with.
    #[must_use]
    pub fn with_bias(mut self, bias: Bias) -> Self {
        if bias == Bias::None {
            (self.up.bias, self.down.bias) = (None, None);
        }
        self
    }

    /// Applied to the last axis.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        trace::scope("feed_forward", || {
            let up = self.up.apply_as(x, ["embed", "mlp"]).named("up");
            let y = activated(&up, |up| self.activation.apply(up));
            self.down.apply_as(&inside(y), ["mlp", "embed"]).named("feed_forward_output")
        })
    }
}

/// A gated feed-forward: SwiGLU with the usual activation.
#[derive(Clone, Debug, Tree)]
pub struct GatedFeedForward {
    /// `[width, inner]`, through the activation.
    pub gate: Linear,
    /// `[width, inner]`.
    pub up: Linear,
    /// `[inner, width]`.
    pub down: Linear,
    /// Of the gate.
    #[tree(skip)]
    pub activation: Activation,
}

map_weights!(GatedFeedForward: gate, up, down);

impl GatedFeedForward {
    /// Drawn weights, without biases.
    #[track_caller]
    pub fn init(key: &Key, (width, inner): (usize, usize), activation: Activation, weight: Init) -> Self {
        let keys = key.split(3);
        GatedFeedForward {
            gate: Linear::init(&keys[0], width, inner, Bias::None, weight),
            up: Linear::init(&keys[1], width, inner, Bias::None, weight),
            down: Linear::init(&keys[2], inner, width, Bias::None, weight),
            activation,
        }
    }

    /// The same with biases of zeros, or without.
    #[must_use]
    #[track_caller]
    pub fn with_bias(mut self, bias: Bias) -> Self {
        let of = |linear: &Linear| (bias == Bias::Zero).then(|| Tensor::zeros(DType::F32, &[linear.weight.dim(1)]));
        (self.gate.bias, self.up.bias, self.down.bias) = (of(&self.gate), of(&self.up), of(&self.down));
        self
    }

    /// Applied to the last axis.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        trace::scope("feed_forward", || {
            let [gate, up] = Linear::all_as([&self.gate, &self.up], x, ["embed", "mlp"]);
            let down = |(gate, up): &(Tensor, Tensor)| {
                self.down.apply_as(&inside(&self.activation.apply(gate) * up), ["mlp", "embed"])
            };
            activated(&(gate.named("gate"), up.named("up")), down).named("feed_forward_output")
        })
    }
}
