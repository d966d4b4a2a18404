//! In which mode a program runs: as it was exported, in training with random numbers, or in evaluation.

use std::collections::BTreeMap;

use trace::{Key, RematPolicy, Tensor};

use crate::error::Error;
use crate::translate::layers::LayerLoop;

/// What ops do that differ between training and evaluation. An archive has them as the model was when it was exported:
/// `model.train()` or `model.eval()`.
#[derive(Clone, Debug, Default)]
pub enum ProgramMode {
    /// As the archive says; random numbers are refused.
    #[default]
    AsExported,
    /// As the archive says, with random numbers from a key.
    Training(Key),
    /// As after `model.eval()`: no dropout, batch norms use their running statistics.
    Evaluation,
}

/// How a program is run.
#[derive(Clone, Debug, Default)]
pub struct ApplyOptions {
    /// The mode.
    pub mode: ProgramMode,
    /// Layers that run as loops: the program is given their tensors stacked, by the names of the stacks.
    pub loops: Vec<LayerLoop>,
    /// What these layers keep for the backward pass.
    pub remat: RematPolicy,
}

/// What a graph at work knows beside its values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context<'g> {
    pub(crate) mode: ProgramMode,
    pub(crate) loops: &'g [LayerLoop],
    pub(crate) remat: RematPolicy,
    /// Stacked tensors by name: before a loop what it is given, after it what it wrote.
    pub(crate) stacks: BTreeMap<String, Tensor>,
    pub(crate) draws: u64,
}

impl<'g> Context<'g> {
    /// A mode, and no loops.
    pub(crate) fn of(mode: ProgramMode) -> Context<'g> {
        Context { mode, ..Context::default() }
    }

    pub(crate) fn is_evaluation(&self) -> bool {
        matches!(self.mode, ProgramMode::Evaluation)
    }

    /// A key that nobody else has; none in evaluation. `what` says who asks.
    pub(crate) fn draw(&mut self, what: &str) -> Result<Option<Key>, Error> {
        match &self.mode {
            ProgramMode::Evaluation => Ok(None),
            ProgramMode::Training(key) => {
                self.draws += 1;
                Ok(Some(key.fold_in(self.draws)))
            }
            ProgramMode::AsExported => Err(Error::new(
                format!("it draws random numbers: {what}"),
                "call `model.eval()` before the export, or set the rate to 0; `tpu train` has a seed and takes it",
            )),
        }
    }

    /// The mode of a graph in the graph.
    pub(crate) fn inner_mode(&mut self) -> ProgramMode {
        match &self.mode {
            ProgramMode::Training(key) => {
                self.draws += 1;
                ProgramMode::Training(key.fold_in(self.draws))
            }
            other => other.clone(),
        }
    }
}
