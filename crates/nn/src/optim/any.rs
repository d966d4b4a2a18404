//! An optimizer chosen at run time, as a configuration file does.

use serde::{Deserialize, Serialize};
use trace::{Tensor, Tree};

use crate::optim::{
    Adafactor, AdafactorState, Adam, Lion, LionState, Moments, Muon, MuonState, Optimizer, Sgd, SgdState,
};

/// One of the optimizers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum AnyOptimizer {
    /// Gradient descent.
    Sgd(Sgd),
    /// Adam; AdamW with weight decay.
    #[serde(alias = "adamw")]
    Adam(Adam),
    /// Adafactor.
    Adafactor(Adafactor),
    /// Lion.
    Lion(Lion),
    /// Muon.
    Muon(Muon),
}

/// The state of one of the optimizers.
#[derive(Clone, Debug, Tree)]
pub enum AnyState<P: Tree> {
    /// Of gradient descent.
    Sgd(SgdState<P>),
    /// Of Adam.
    Adam(Moments<P>),
    /// Of Adafactor.
    Adafactor(AdafactorState),
    /// Of Lion.
    Lion(LionState<P>),
    /// Of Muon.
    Muon(MuonState),
}

impl<P: Tree + Clone> Optimizer<P> for AnyOptimizer {
    type State = AnyState<P>;

    fn init(&self, params: &P) -> Self::State {
        match self {
            AnyOptimizer::Sgd(optimizer) => AnyState::Sgd(optimizer.init(params)),
            AnyOptimizer::Adam(optimizer) => AnyState::Adam(optimizer.init(params)),
            AnyOptimizer::Adafactor(optimizer) => AnyState::Adafactor(optimizer.init(params)),
            AnyOptimizer::Lion(optimizer) => AnyState::Lion(optimizer.init(params)),
            AnyOptimizer::Muon(optimizer) => AnyState::Muon(optimizer.init(params)),
        }
    }

    #[track_caller]
    fn update(&self, grads: &P, state: &Self::State, params: &P, step: &Tensor) -> (P, Self::State) {
        macro_rules! updated {
            ($($kind:ident)*) => {
                match (self, state) {
                    $((AnyOptimizer::$kind(optimizer), AnyState::$kind(state)) => {
                        let (params, state) = optimizer.update(grads, state, params, step);
                        (params, AnyState::$kind(state))
                    })*
                    // The state is made by `init` of the same optimizer; another one's is started over.
                    _ => self.update(grads, &self.init(params), params, step),
                }
            };
        }
        updated!(Sgd Adam Adafactor Lion Muon)
    }

    fn learning_rate(&self, step: &Tensor) -> Tensor {
        match self {
            AnyOptimizer::Sgd(optimizer) => optimizer.learning_rate.at(step),
            AnyOptimizer::Adam(optimizer) => optimizer.learning_rate.at(step),
            AnyOptimizer::Adafactor(optimizer) => optimizer.learning_rate.at(step),
            AnyOptimizer::Lion(optimizer) => optimizer.learning_rate.at(step),
            AnyOptimizer::Muon(optimizer) => optimizer.learning_rate.at(step),
        }
    }
}
