//! Checkpoints of a training: its state by paths, and what must be the same when it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use runtime::distributed::Session;
use runtime::mesh::NamedSharding;
use runtime::{Backend, Error, TreeArrays, ValidationError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tensor::{Literal, Spec};
use trace::Tree;
use weights::{AsyncSaver, CheckpointManager, IntegrityCheck, Saved, Saver, Snapshot, TensorRegion, WhenBusy};

use super::options::TrainOptions;
use super::parts::{SavingProcesses, own_pieces};
use super::watch::TrainEvent;
use crate::data::Dataset;
use crate::sharding::StateSharding;

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
    /// [`Dataset::fingerprint`](data::Dataset::fingerprint) of its files; runs of before have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_fingerprint: Option<String>,
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
    manager: CheckpointManager,
    saver: AsyncSaver,
    /// Processes that save together, each about as much.
    processes: usize,
    /// One process speaks for all.
    is_first: bool,
    data: String,
    data_fingerprint: Option<String>,
    description: Value,
    /// Paths of tensors that no step changes: they are not saved.
    frozen: BTreeSet<String>,
    /// The last step that was handed over and has not failed.
    saved: Option<u64>,
    /// Seconds of the last copy from the device.
    copy_seconds: f64,
    replaced: Option<String>,
    save_time: Option<SaveTime>,
}

/// How long a save takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SaveTime {
    pub(super) seconds: f64,
    pub(super) is_measured: bool,
}

/// What the estimate of a save writes at most.
const PROBE_BYTES: u64 = 16 << 20;

impl Checkpoints {
    pub(super) fn open(
        options: &TrainOptions,
        data: &dyn Dataset,
        session: Option<&Session>,
        frozen: BTreeSet<String>,
    ) -> Result<Option<Checkpoints>, crate::Error> {
        let Some(location) = &options.checkpoints else { return Ok(None) };
        let data_fingerprint = data.fingerprint()?;
        let manager = CheckpointManager::open(location)?.protected(options.protection.clone());
        let saver = match session {
            None => Saver::new(manager.clone(), options.keep)?,
            Some(session) => Saver::among(manager.clone(), options.keep, Box::new(SavingProcesses::new(session)))?,
        };
        let replaced = saver.replaced().map(str::to_string);
        let (process, processes) = session.map_or((0, 1), |session| {
            let config = session.config();
            (config.process_id, config.processes)
        });
        let description = options.description.clone();
        Ok(Some(Checkpoints {
            manager,
            saver: AsyncSaver::new(saver, WhenBusy::Wait)?,
            processes,
            is_first: process == 0,
            data: data.describe(),
            data_fingerprint,
            description,
            frozen,
            saved: None,
            copy_seconds: 0.0,
            replaced,
            save_time: None,
        }))
    }

    /// The newest good checkpoint. Of several processes the first looks, and reads every byte; the others take what it found.
    pub(super) fn newest(&self, session: Option<&Session>) -> Result<Option<Newest>, Error> {
        let Some(session) = session else { return self.newest_here() };
        let mut newest = None;
        let step = session.found_by_first(|| {
            newest = self.newest_here()?;
            Ok(newest.as_ref().map_or(String::new(), |newest| newest.saved.step().to_string()))
        })?;
        if newest.is_some() || step.is_empty() {
            return Ok(newest);
        }
        let not_here = |why: String| {
            Error::Distributed(format!(
                "process 0 goes on from step {step}, which is not to be read here: the folder of checkpoints must be one that \
                 all processes see ({why})"
            ))
        };
        let number = step.parse().map_err(|_| not_here("no step".into()))?;
        let saved = self.manager.load(number).map_err(|error| not_here(compile::with_causes(&error)))?;
        Ok(Some(Newest { saved, damaged: Vec::new() }))
    }

    fn newest_here(&self) -> Result<Option<Newest>, Error> {
        if self.manager.steps()?.is_empty() {
            return Ok(None);
        }
        let found = self.manager.latest_good(IntegrityCheck::Contents)?;
        let damaged = found.damaged.into_iter().map(|(step, error)| (step, compile::with_causes(&error))).collect();
        Ok(Some(Newest { saved: found.saved, damaged }))
    }

    /// Checks that a checkpoint is of this training, and sends its tensors. Those that no step changes are given.
    pub(super) fn restore<S: Tree>(
        &self,
        backend: &Backend,
        saved: &Saved,
        state: &S,
        mesh: Option<&StateSharding>,
        given: &BTreeMap<String, Arc<Literal>>,
    ) -> Result<(u64, S), Error> {
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
        if let (Some(then), Some(now)) = (&kept.data_fingerprint, &self.data_fingerprint)
            && then != now
        {
            let (then, now) = (format!("of fingerprint {then}"), format!("of fingerprint {now}, under the same name"));
            return Err(differs("the contents of the data", then, now).into());
        }
        if without_folders(&kept.description) != without_folders(&self.description) {
            return Err(differs("the configuration", kept.description.to_string(), self.description.to_string()).into());
        }
        let saved_dims: BTreeMap<&str, &[usize]> = saved.tensors().map(|tensor| (tensor.name, tensor.dims)).collect();
        let must_fit = |path: &str, spec: &Spec| match saved_dims.get(path) {
            // One that is not there is told by who reads it.
            Some(dims) if *dims != spec.dims => {
                let given = Spec::new(spec.dtype, *dims).to_string();
                Err(ValidationError::Input { name: path.into(), expected: spec.to_string(), given })
            }
            _ => Ok(()),
        };
        let frozen = |path: &str| given.get(path).filter(|_| self.frozen.contains(path));
        let placed = match mesh {
            None => backend.place(state, &mut |path, spec| {
                if let Some(literal) = frozen(path) {
                    return Ok(literal.clone());
                }
                must_fit(path, spec)?;
                Ok(Arc::new(saved.read_as(path, spec.dtype)?))
            })?,
            // Pieces of another mesh, or of none, are put together and cut anew; what only other processes need is not read.
            Some(on) => {
                let send = |(path, spec): (String, Spec)| {
                    must_fit(&path, &spec)?;
                    let sharding = on.state(&path, &spec)?;
                    if let Some(literal) = frozen(&path) {
                        return backend.send_on(on.mesh(), &sharding, literal);
                    }
                    let placed = NamedSharding { mesh: on.mesh().clone(), sharding: sharding.clone() };
                    let mut regions: Vec<TensorRegion> = Vec::new();
                    for (_, region) in placed.local_regions(&spec)? {
                        if !regions.contains(&region) {
                            regions.push(region);
                        }
                    }
                    let parts = saved.read_regions_as(&path, &regions, spec.dtype)?;
                    let mut parts: Vec<(TensorRegion, Arc<Literal>)> =
                        regions.into_iter().zip(parts.into_iter().map(Arc::new)).collect();
                    backend.send_parts(on.mesh(), &sharding, &spec, &mut |wanted| {
                        let at = parts.iter().position(|(region, _)| region == wanted);
                        at.map(|at| parts.swap_remove(at).1).ok_or_else(|| placed.does_not_fit(&spec))
                    })
                };
                let leaves = state.paths().into_iter().zip(state.specs());
                state.with_arrays(leaves.map(send).collect::<Result<Vec<_>, Error>>()?)?
            }
        };
        Ok((kept.step, placed))
    }

    /// Estimates how long a save takes: a small file is written where checkpoints go, and deleted. That also tells early if
    /// nothing can be written there.
    pub(super) fn estimate_save<S: Tree>(&mut self, state: &S, watch: &mut dyn FnMut(&TrainEvent)) {
        if !self.is_first {
            return;
        }
        let leaves = state.paths().into_iter().zip(state.specs()).filter(|(path, _)| !self.frozen.contains(path));
        let state_bytes = leaves.map(|(_, spec)| spec.bytes()).fold(0, u64::saturating_add);
        let state_bytes = state_bytes.div_ceil(self.processes as u64);
        let probe_bytes = state_bytes.clamp(1, PROBE_BYTES);
        match self.manager.try_write(probe_bytes) {
            Ok(seconds) => {
                let seconds = seconds * (state_bytes as f64 / probe_bytes as f64).max(1.0);
                self.save_time = Some(SaveTime { seconds, is_measured: false });
            }
            Err(error) => watch(&TrainEvent::SaveWarning(format!(
                "checkpoints may not be written: {}",
                compile::with_causes(&error)
            ))),
        }
    }

    /// How long a save takes, measured or estimated.
    pub(super) fn save_time(&self) -> Option<SaveTime> {
        self.save_time
    }

    /// The run whose checkpoints these were, where it had not ended.
    pub(super) fn replaced(&self) -> Option<&str> {
        self.replaced.as_deref()
    }

    /// Tells how saves went that have ended. It is an error if another run has taken over: nothing can be saved any more.
    pub(super) fn hear(&mut self, watch: &mut dyn FnMut(&TrainEvent)) -> Result<(), Error> {
        let mut fatal = None;
        for report in self.saver.completed() {
            let seconds = report.seconds + self.copy_seconds;
            self.save_time = Some(SaveTime { seconds, is_measured: true });
            let (step, size_bytes, deleted) = (report.step, report.size_bytes, report.deleted);
            watch(&TrainEvent::Saved { step, seconds, size_bytes, deleted });
            for warning in report.warnings {
                watch(&TrainEvent::SaveWarning(compile::with_causes(&warning)));
                fatal = Some(warning).filter(weights::Error::is_replaced).or(fatal);
            }
        }
        if let Some(error) = self.saver.take_error() {
            // The step is not saved: if it is the last one, it is saved again.
            self.saved = None;
            if error.is_replaced() {
                return Err(error.into());
            }
            watch(&TrainEvent::SaveFailed(compile::with_causes(&error)));
        }
        fatal.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Waits for the save under way and tells how it went.
    fn settle(&mut self, watch: &mut dyn FnMut(&TrainEvent)) -> Result<(), Error> {
        self.saver.wait_idle();
        self.hear(watch)
    }

    /// Copies the state to the host and hands it to the thread that writes. An earlier save that failed is told and stops
    /// nothing. Of several processes each copies and writes its own parts; all hear whether the checkpoint is complete.
    pub(super) fn save<S: Tree>(
        &mut self,
        backend: &Backend,
        step: u64,
        state: &S,
        watch: &mut dyn FnMut(&TrainEvent),
    ) -> Result<(), Error> {
        if self.saved == Some(step) {
            self.settle(watch)?;
            if self.saved == Some(step) {
                return Ok(());
            }
        }
        let copying = Instant::now();
        let pieces = state.arrays().and_then(|mut arrays| {
            arrays.retain(|(path, _)| !self.frozen.contains(path));
            own_pieces(backend, arrays)
        });
        let copy_seconds = copying.elapsed().as_secs_f64();
        self.settle(watch)?;
        self.copy_seconds = copy_seconds;
        let snapshot = match pieces {
            Ok(pieces) => Snapshot { step, pieces, metadata: self.resume_at(step)? },
            // The others must hear of it, and count this save too.
            Err(error) if backend.is_multi_process() => Snapshot::failed(step, Box::new(error)),
            Err(error) => return Err(error),
        };
        self.saver.save(snapshot)?;
        self.saved = Some(step);
        Ok(())
    }

    /// What is kept beside the tensors.
    fn resume_at(&self, step: u64) -> Result<Value, Error> {
        let resume = Resume {
            version: TRAINING_VERSION,
            step,
            data: self.data.clone(),
            data_fingerprint: self.data_fingerprint.clone(),
            description: self.description.clone(),
        };
        Ok(serde_json::to_value(resume).map_err(|error| ValidationError::Other(error.to_string()))?)
    }

    /// Waits until everything is written, and tells how it went. It is an error if the last one could not be.
    pub(super) fn finish(mut self, watch: &mut dyn FnMut(&TrainEvent)) -> Result<(), Error> {
        let written = self.saver.wait();
        self.hear(watch)?;
        Ok(written?)
    }
}

/// A description with the names of data files alone: data may be elsewhere on the next machine, or in a bucket. What it says of its
/// contents is compared beside it.
fn without_folders(description: &Value) -> Value {
    fn shorten(value: &mut Value) {
        match value {
            Value::String(path) => {
                let name = path.split('?').next().unwrap_or_default().trim_end_matches('/').rsplit('/').next();
                *path = name.unwrap_or_default().to_string();
            }
            Value::Array(paths) => paths.iter_mut().for_each(shorten),
            _ => {}
        }
    }
    let mut short = description.clone();
    for (table, key) in [("data", "files"), ("data", "folder"), ("data", "tokenizer"), ("model", "program")] {
        if let Some(value) = short.get_mut(table).and_then(|table| table.get_mut(key)) {
            shorten(value);
        }
    }
    short
}
