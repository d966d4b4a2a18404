//! Checkpoints of a training: its state by paths, and what must be the same when it goes on.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use trace::Tree;
use weights::{AsyncSaver, Check, Piece, Saved, Saver, Series, Snapshot, WhenBusy};

use super::options::TrainOptions;
use super::run::TrainMesh;
use crate::backend::Backend;
use crate::error::{Error, ValidationError};
use crate::jit::OnDevice;

/// Version of what is kept beside the tensors.
pub const TRAINING_VERSION: u32 = 1;

/// What a checkpoint says of its training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    /// [`TRAINING_VERSION`] of its writer.
    pub version: u32,
    /// Steps done.
    pub step: u64,
    /// What is read, as the dataset says it.
    pub data: String,
    /// [`TrainOptions::description`].
    pub description: Value,
}

/// The newest good checkpoint.
pub(super) struct Newest {
    pub(super) saved: Saved,
    /// Steps that were passed over, with what is wrong with them.
    pub(super) damaged: Vec<(u64, String)>,
}

/// Writes checkpoints in the background.
pub(super) struct Checkpoints {
    series: Series,
    /// Only the first process writes.
    saver: Option<AsyncSaver>,
    data: String,
    description: Value,
    saved: Option<u64>,
}

impl Checkpoints {
    pub(super) fn open(options: &TrainOptions, data: &str, rank: usize) -> Result<Option<Checkpoints>, Error> {
        let Some(location) = &options.checkpoints else { return Ok(None) };
        let series = Series::open(location)?;
        let saver = match rank {
            0 => Some(AsyncSaver::new(Saver::new(series.clone(), options.keep)?, WhenBusy::Wait)?),
            _ => None,
        };
        let description = options.description.clone();
        Ok(Some(Checkpoints { series, saver, data: data.to_string(), description, saved: None }))
    }

    /// The newest good checkpoint.
    pub(super) fn newest(&self) -> Result<Option<Newest>, Error> {
        if self.series.steps()?.is_empty() {
            return Ok(None);
        }
        let found = self.series.latest_good(Check::Contents)?;
        let damaged = found.damaged.into_iter().map(|(step, error)| (step, crate::with_causes(&error))).collect();
        Ok(Some(Newest { saved: found.saved, damaged }))
    }

    /// Checks that a checkpoint is of this training, and sends its tensors.
    pub(super) fn restore<S: Tree>(
        &self,
        backend: &Backend,
        saved: &Saved,
        state: &S,
        mesh: Option<&TrainMesh>,
    ) -> Result<(u64, OnDevice<S>), Error> {
        let differs = |what: &str, then: String, now: String| {
            ValidationError::Other(format!("{} is of another training: {what} was {then}, is {now}", saved.address()))
        };
        let kept: Resume = serde_json::from_value(saved.metadata().clone())
            .map_err(|error| ValidationError::Other(format!("{}: {error}", saved.address())))?;
        if kept.version != TRAINING_VERSION {
            return Err(differs("the version", kept.version.to_string(), TRAINING_VERSION.to_string()).into());
        }
        if kept.data != self.data {
            return Err(differs("the data", kept.data, self.data.clone()).into());
        }
        if kept.description != self.description {
            return Err(differs("the configuration", kept.description.to_string(), self.description.to_string()).into());
        }
        let mut read = |path: &str, spec: &tensor::Spec| {
            let literal = saved.read_as(path, spec.dtype)?;
            if literal.dims() != spec.dims {
                let given = tensor::Spec::new(literal.dtype(), literal.dims()).to_string();
                return Err(ValidationError::Input { name: path.into(), expected: spec.to_string(), given }.into());
            }
            Ok(Arc::new(literal))
        };
        let placed = match mesh {
            None => backend.place(state, &mut read)?,
            // Pieces of another mesh, or of none, are put together and cut anew.
            Some(on) => {
                let mut sharding = |path: &str, spec: &tensor::Spec| Ok((on.state)(path, spec)?);
                backend.place_on(&on.mesh, state, &mut sharding, &mut read)?
            }
        };
        Ok((kept.step, placed))
    }

    /// Copies the state to the host and hands it to the thread that writes. An error of an earlier save comes back here.
    /// Where there are several processes, all of them give their parts and the first writes.
    pub(super) fn save<S: Tree>(&mut self, backend: &Backend, step: u64, state: &OnDevice<S>) -> Result<(), Error> {
        if self.saved == Some(step) {
            return Ok(());
        }
        let mut pieces = Vec::new();
        for (path, array) in state.named() {
            let dims = array.spec().dims.clone();
            if !array.is_here()? {
                let whole = backend.gather(array)?;
                if backend.rank() == 0 {
                    pieces.push(Piece::slice(path, &dims, &vec![0; dims.len()], Arc::new(whole)));
                }
                continue;
            }
            if backend.rank() > 0 {
                continue;
            }
            for (region, part) in array.parts_to_host()? {
                pieces.push(Piece::slice(path.clone(), &dims, &region.start, Arc::new(part)));
            }
        }
        let Some(saver) = &mut self.saver else {
            self.saved = Some(step);
            return Ok(());
        };
        let resume =
            Resume { version: TRAINING_VERSION, step, data: self.data.clone(), description: self.description.clone() };
        let metadata = serde_json::to_value(resume).map_err(|error| ValidationError::Other(error.to_string()))?;
        saver.save(Snapshot { step, pieces, metadata })?;
        self.saved = Some(step);
        Ok(())
    }

    /// Waits until everything is written.
    pub(super) fn finish(self) -> Result<(), Error> {
        if let Some(saver) = self.saver {
            saver.finish()?;
        }
        Ok(())
    }
}
