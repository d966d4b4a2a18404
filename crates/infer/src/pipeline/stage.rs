//! One pipeline stage: a loop that loads its layers, runs steps in the order in which they come, and hands the states on.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender};

use nn::models::{ModelPart, RunOptions};
use runtime::Backend;
use runtime::mesh::DeviceMesh;
use tensor::Literal;

use super::message::{SentToken, StageLimits, StageOrder, StageReply, StageRow, StageTask, malformed};
use crate::error::Error;
use crate::fit::PagePool;
use crate::launched::Launched;
use crate::load::{LoadRequest, LoadedSteps, load_part};
use crate::rooms::CacheCopy;
use crate::sizes::StepSizes;
use crate::source::ModelSource;
use crate::steps::{Decode, Prefill, Steps};

/// What a stage loads, and onto what.
pub(super) struct StageJob {
    /// Its number, from 0.
    pub(super) stage: usize,
    pub(super) part: ModelPart,
    pub(super) backend: Backend,
    pub(super) source: ModelSource,
    pub(super) run: RunOptions,
    pub(super) mesh: Option<Arc<DeviceMesh>>,
    pub(super) sizes: StepSizes,
    pub(super) pool: PagePool,
    pub(super) given_width: Option<usize>,
}

impl StageJob {
    /// What orders may ask for, with so many pages.
    pub(super) fn limits(&self, sizes: StepSizes) -> StageLimits {
        let config = self.source.config();
        StageLimits {
            sizes,
            vocabulary: config.vocab_size(),
            width: config.hidden_size(),
            dtype: self.source.run_options(&self.run).precision.compute(),
        }
    }
}

/// Where a stage is told what to do, and whom it tells.
pub(super) struct StageEnds {
    pub(super) tasks: Receiver<StageTask>,
    /// `None` for the last stage.
    pub(super) next: Option<SyncSender<StageTask>>,
    pub(super) replies: Sender<StageReply>,
}

/// Says that a stage ended, if it panicked.
struct Farewell {
    stage: usize,
    replies: Sender<StageReply>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (message, remedy) = (format!("pipeline stage {} panicked", self.stage), Some("report this".into()));
            let _ = self.replies.send(StageReply::Failed { stage: self.stage, message, remedy });
        }
    }
}

/// Runs a stage until nobody tells it anything any more.
pub(super) fn run_stage(job: &StageJob, ends: StageEnds) {
    let _farewell = Farewell { stage: job.stage, replies: ends.replies.clone() };
    if let Err(error) = follow(job, &ends) {
        let message = format!("pipeline stage {}: {error}", job.stage);
        let _ = ends.replies.send(StageReply::Failed { stage: job.stage, message, remedy: error.remedy() });
    }
}

/// Nobody is left who waits for the stage.
struct Ended;

fn follow(job: &StageJob, ends: &StageEnds) -> Result<(), Error> {
    let request = LoadRequest {
        backend: &job.backend,
        source: &job.source,
        run: &job.run,
        mesh: job.mesh.as_ref(),
        part: Some(&job.part),
        sizes: job.sizes,
        pool: job.pool,
        given_width: job.given_width,
    };
    let stage = job.stage;
    let mut ended = None;
    let loaded = load_part(&request, None, &mut |fitted| {
        let (pages, _) = fitted.sizes.cache();
        let _ = ends.replies.send(StageReply::Fitted { stage, pages, digest: fitted.digest });
        loop {
            match ends.tasks.recv() {
                Ok(StageTask { order: StageOrder::Alive, .. }) => {}
                Ok(StageTask { order: StageOrder::Start { pages: all }, .. }) if all <= pages && all > 0 => {
                    hand_on(ends, StageTask::new(StageOrder::Start { pages: all }))?;
                    return Ok(fitted.sizes.with_pages(all));
                }
                Ok(_) => return Err(malformed("steps before the model is loaded")),
                Err(_) => {
                    ended = Some(Ended);
                    return Err(malformed("nothing"));
                }
            }
        }
    });
    if ended.is_some() {
        return Ok(());
    }
    let LoadedSteps { mut steps, sizes, cache_bytes } = loaded?;
    let _ = ends.replies.send(StageReply::Started { stage, cache_bytes });
    let limits = job.limits(sizes);
    while let Ok(task) = ends.tasks.recv() {
        limits.check(&task.order)?;
        run_task(stage, &mut *steps, task, ends)?;
    }
    Ok(())
}

/// Gives a task to the next stage, if there is one.
fn hand_on(ends: &StageEnds, task: StageTask) -> Result<(), Error> {
    let Some(next) = &ends.next else { return Ok(()) };
    // It said itself why it ended, before this.
    next.send(task).map_err(|_| Error::setting("the stage after it is gone", "start the stages again"))
}

/// What a step gives.
enum StageOutput {
    Chosen(Vec<Vec<SentToken>>),
    Hidden(Literal),
}

impl StageOutput {
    /// Waits for the step.
    fn of(launched: Launched) -> Result<StageOutput, Error> {
        if let Some(states) = launched.states()? {
            return Ok(StageOutput::Hidden(states));
        }
        let rows = launched.read()?;
        Ok(StageOutput::Chosen(rows.into_iter().map(|row| row.into_iter().map(SentToken::from).collect()).collect()))
    }
}

fn run_task(stage: usize, steps: &mut dyn Steps, task: StageTask, ends: &StageEnds) -> Result<(), Error> {
    let StageTask { order, hidden, given, compiled } = task;
    let hidden = hidden.as_ref();
    let (step, output) = match &order {
        StageOrder::Alive | StageOrder::Start { .. } => return Ok(()),
        StageOrder::WarmUp => {
            // All stages compile at the same time.
            hand_on(ends, StageTask::new(order))?;
            steps.warm_up(&mut |done, all| {
                let _ = ends.replies.send(StageReply::WarmingUp { stage, done, all });
            })?;
            let _ = ends.replies.send(StageReply::WarmedUp { stage, compiled: steps.num_compiled() });
            return Ok(());
        }
        StageOrder::Copy { from, to, positions } => {
            steps.copy(CacheCopy { from: *from, to: *to, positions: *positions })?;
            return hand_on(ends, StageTask::new(order));
        }
        StageOrder::Prefill { step, filled, tokens, row } => {
            let (choice, table) = (row.choice(), row.table.as_slice());
            let prefill = Prefill { row: row.row, filled: *filled, tokens, given, table, choice, hidden };
            (*step, StageOutput::of(steps.prefill(&prefill)?)?)
        }
        StageOrder::Decode { step, rows, longest } => {
            let rows: Vec<_> = rows.iter().map(StageRow::decoded).map(Some).collect();
            let launched = steps.decode(&Decode { rows: &rows, longest: *longest, hidden })?;
            (*step, StageOutput::of(launched)?)
        }
    };
    let compiled = compiled.saturating_add(steps.num_compiled());
    match output {
        StageOutput::Hidden(states) => hand_on(ends, StageTask { order, hidden: Some(states), given: None, compiled }),
        StageOutput::Chosen(rows) => {
            let _ = ends.replies.send(StageReply::Chosen { step, rows, compiled });
            Ok(())
        }
    }
}
