//! How experts are chosen and weighted: scores, groups, weights.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::Tensor;

use crate::layers::Linear;

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

/// How scores of experts come from the router's logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterScores {
    /// A softmax over all experts.
    #[default]
    Softmax,
    /// Each by itself, between 0 and 1. The router's bias is added for the choice alone; it has no gradient.
    Sigmoid,
    /// A softmax over all experts, of logits with a bias.
    SoftmaxWithBias,
    /// Each by itself, between 0 and 1, without any bias.
    SigmoidWithoutBias,
}

impl RouterScores {
    /// Whether the router has a bias.
    pub fn has_bias(self) -> bool {
        matches!(self, RouterScores::Sigmoid | RouterScores::SoftmaxWithBias)
    }
}

/// What is multiplied by the weights of the chosen experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightedSide {
    /// What experts give.
    #[default]
    Outputs,
    /// What experts are given.
    Inputs,
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
    /// What is multiplied by weights.
    pub side: WeightedSide,
}

impl Default for Routing {
    fn default() -> Routing {
        Routing {
            scores: RouterScores::Softmax,
            groups: None,
            weights: RouterWeights::Normalized,
            scale: 1.0,
            side: WeightedSide::Outputs,
        }
    }
}

impl Routing {
    /// What experts are chosen by; only the order counts.
    pub(super) fn preferences(&self, scores: &Tensor, router: &Linear) -> Tensor {
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

    /// Scores of `[positions, width]`, `f32 [positions, experts]`.
    pub(super) fn scores(&self, x: &Tensor, router: &Linear) -> Tensor {
        let logits = x.cast(DType::F32).matmul(&router.weight.dense(DType::F32));
        match (self.scores, &router.bias) {
            (RouterScores::SoftmaxWithBias, Some(bias)) => (logits + bias.cast(DType::F32)).softmax(-1),
            (RouterScores::Softmax | RouterScores::SoftmaxWithBias, _) => logits.softmax(-1),
            (RouterScores::Sigmoid | RouterScores::SigmoidWithoutBias, _) => logits.logistic(),
        }
    }

    /// Weights of the chosen by their scores.
    pub(super) fn weights(&self, chosen: Tensor) -> Tensor {
        let weights = match self.weights {
            RouterWeights::Normalized => &chosen / &chosen.sum(&[1]).expand(-1),
            RouterWeights::Scores => chosen,
        };
        if self.scale == 1.0 { weights } else { &weights * self.scale }
    }
}
