//! Training: steps on a device from data, with metrics, evaluation and checkpoints, stopped at any moment without loss.

mod checkpoints;
mod guard;
mod options;
mod parts;
mod profiles;
mod rows;
mod run;
mod spans;
mod stop;
mod timeline;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use tensor::Literal;
use trace::{Tensor, Tree};

use crate::error::Error;

pub use checkpoints::{Resume, TRAINING_VERSION};
pub use options::TrainOptions;
pub use profiles::ProfileOptions;
pub use run::{Trained, Trainer};
pub use watch::{Ended, Measured, SPOT_NOTICE_SECONDS, StopTime, TrainEvent};

/// Scalars of a step by name, `loss` among them.
pub type Measures = BTreeMap<String, Tensor>;

/// What is trained, written over traced tensors.
///
/// The state holds everything a step changes: parameters, the optimizer's state, random state. A step of the same state
/// and batch must give the same result; then a training that was stopped and resumed equals one that was not.
pub trait Task {
    /// What a step changes.
    type State: Tree + Clone + 'static;

    /// The first state.
    fn init(&self) -> Self::State;

    /// Tensors of the first state in place of those that [`init`](Self::init) makes, by their paths, such as weights that
    /// were trained before. Asked for once, where there is no checkpoint to go on from. `state` is known by types and
    /// shapes.
    fn given(&self, _state: &Self::State) -> Result<BTreeMap<String, Arc<Literal>>, Error> {
        Ok(BTreeMap::new())
    }

    /// Whether no step changes the tensor of the state at this path: checkpoints are without it, and a training that goes on
    /// from one is given it again by [`given`](Self::given).
    fn is_frozen(&self, _path: &str) -> bool {
        false
    }

    /// One step: the next state and what was measured.
    fn step(&self, state: &Self::State, batch: &[Tensor]) -> (Self::State, Measures);

    /// What is measured on a batch without changing the state.
    fn evaluate(&self, state: &Self::State, batch: &[Tensor]) -> Measures;

    /// Operations of the model on a batch, without recomputation; `None` where nobody counted them.
    fn flops_per_step(&self) -> Option<f64> {
        None
    }

    /// Tokens, images or other examples in a batch.
    fn tokens_per_step(&self) -> Option<u64> {
        None
    }
}
