//! The loop: feed, step, record, evaluate, save; resumed where the last run ended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use runtime::{Backend, Feed, Jit, Nested, NestedLiterals, TreeArrays, ValidationError, shapes_of_specs};
use trace::{Donate, Tensor, Tree};

use super::checkpoints::{Checkpoints, Newest};
use super::guard::{self, InFlight, Looked};
use super::profiles::Profiles;
use super::rows::OwnRows;
use super::stop::StopGate;
use super::timeline::{self, Moment, Timeline};
use super::watch::{Ended, Measured, StopTime, TrainEvent};
use super::{Measures, Task, TrainOptions};
use crate::data::{DataError, Dataset, Loader};
use crate::error::Error;
use crate::metrics::{Metrics, Record, Start};
use crate::sharding::StateSharding;
use crate::telemetry::TrainPhase;

/// Trains a task on a backend.
pub struct Trainer<T: Task> {
    backend: Backend,
    task: Arc<T>,
    options: TrainOptions,
    mesh: Option<StateSharding>,
}

/// A training that has ended.
#[derive(Debug)]
pub struct Trained<S> {
    /// The state it ended with.
    pub state: Option<S>,
    /// Steps done, earlier runs included.
    pub step: u64,
    /// The step this run began after.
    pub first_step: u64,
    /// How it ended.
    pub ended: Ended,
    /// The last record.
    pub last: Option<Measured>,
    /// Times the step was compiled.
    pub compilations: usize,
}

type StepInput<S> = (S, Vec<Tensor>);
type StepJit<S> = Jit<StepInput<S>, (S, Measures)>;

impl<T: Task + 'static> Trainer<T> {
    /// A trainer with these settings.
    pub fn new(backend: &Backend, task: T, options: TrainOptions) -> Trainer<T> {
        Trainer { backend: backend.clone(), task: Arc::new(task), options, mesh: None }
    }

    /// The same training on the devices of a mesh.
    #[must_use]
    pub fn on(mut self, mesh: Option<StateSharding>) -> Trainer<T> {
        self.mesh = mesh;
        self
    }

    /// Tokens, images or other examples in a batch, where the task counts them.
    pub fn tokens_per_step(&self) -> Option<u64> {
        self.task.tokens_per_step()
    }

    /// Structure, types and shapes of the state.
    pub fn state_structure(&self) -> Result<T::State, Error> {
        Ok(trace::shapes_of(&(), |()| self.task.init())?)
    }

    /// Peak operations per second of all devices together, where they are known.
    fn peak_flops(&self) -> Option<f64> {
        // A batch is the work of every device of the mesh, those of other processes included.
        let devices = self.mesh.as_ref().map_or(1, |on| on.mesh().mesh().num_devices());
        Some(self.options.peak_flops.or(self.backend.peak_flops())? * devices as f64)
    }

    fn step_jit(&self) -> StepJit<T::State> {
        let task = self.task.clone();
        Jit::new(&self.backend, "train_step", Donate::First, move |(state, batch): &StepInput<T::State>| {
            task.step(state, batch)
        })
        .on(self.mesh.as_ref().map(StateSharding::step))
    }

    /// Trains until all steps are done, `stop` is set, or the loss is not finite; resumes from the newest checkpoint if
    /// there is one. `watch` hears what happens.
    pub fn train(
        &self,
        data: Arc<dyn Dataset>,
        evaluation: Option<Arc<dyn Dataset>>,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(&TrainEvent),
    ) -> Result<Trained<T::State>, Error> {
        let telemetry = &self.options.telemetry;
        telemetry.begin(&self.backend);
        let mut heard = |event: &TrainEvent| {
            timeline::hear(telemetry, event);
            watch(event);
        };
        let trained =
            StopGate::run(stop, self.backend.session(), |stop| self.train_until(data, evaluation, stop, &mut heard));
        telemetry.end();
        trained
    }

    fn train_until(
        &self,
        data: Arc<dyn Dataset>,
        evaluation: Option<Arc<dyn Dataset>>,
        stop: &StopGate<'_>,
        watch: &mut dyn FnMut(&TrainEvent),
    ) -> Result<Trained<T::State>, Error> {
        let mut timeline = Timeline::start(&self.options.telemetry, self.goodput().as_deref());
        let structure = self.state_structure()?;
        if let Some(session) = self.backend.session() {
            let remedy = "start all processes with the same files and arguments";
            session.must_agree("the configuration", &self.options.description.to_string(), remedy)?;
            // Who keeps checkpoints waits for what the first process finds of them.
            session.must_agree("that checkpoints are kept", &self.options.checkpoints.is_some().to_string(), remedy)?;
        }
        let profiles = Profiles::start(&self.options.profile, self.backend.profiler(), self.backend.rank())?;
        if let Some(address) = profiles.address() {
            watch(&TrainEvent::ProfilerAt(address));
        }
        let frozen = structure.paths().into_iter().filter(|path| self.task.is_frozen(path)).collect();
        let checkpoints = Checkpoints::open(&self.options, data.as_ref(), self.backend.session(), frozen)?;
        if let Some(run) = checkpoints.as_ref().and_then(Checkpoints::replaced) {
            watch(&TrainEvent::TookOver(run.to_string()));
        }
        let stopped =
            |step| Trained { state: None, step, first_step: step, ended: Ended::Stopped, last: None, compilations: 0 };
        // The state: of the newest checkpoint, else the first one.
        let (first_step, state) =
            match checkpoints.as_ref().map(|c| c.newest(self.backend.session())).transpose()?.flatten() {
                Some(Newest { saved, damaged }) => {
                    for (step, message) in damaged {
                        watch(&TrainEvent::Damaged(step, message));
                    }
                    timeline.enter(TrainPhase::Restore);
                    let given = match structure.paths().iter().any(|path| self.task.is_frozen(path)) {
                        true => self.task.given(&structure.shapes())?,
                        false => BTreeMap::new(),
                    };
                    let restored = checkpoints
                        .as_ref()
                        .map(|c| c.restore(&self.backend, &saved, &structure, self.mesh.as_ref(), &given))
                        .transpose()?;
                    let Some((step, state)) = restored else {
                        timeline.ended(&Ended::Stopped);
                        return Ok(stopped(0));
                    };
                    watch(&TrainEvent::Resumed(step));
                    (step, state)
                }
                None => {
                    watch(&TrainEvent::Compiling("init"));
                    let task = self.task.clone();
                    let mut init = Jit::new(&self.backend, "init", Donate::Nothing, move |(): &()| task.init())
                        .on(self.mesh.as_ref().map(StateSharding::init));
                    timeline.enter(TrainPhase::Compile);
                    let Some(program) = init.prepare(&(), stop.alone())? else {
                        timeline.ended(&Ended::Stopped);
                        return Ok(stopped(0));
                    };
                    self.options.telemetry.compiled(&program.fingerprint());
                    timeline.enter(TrainPhase::Initialize);
                    (0, self.with_given(init.call(())?)?)
                }
            };
        if let Some(session) = self.backend.session() {
            let remedy = "the folder of checkpoints must be one that all processes see";
            session.must_agree("the step to go on from", &first_step.to_string(), remedy)?;
        }
        timeline.resumed(first_step);
        timeline.enter(TrainPhase::Other);
        let mut run = Run {
            trainer: self,
            timeline,
            step_jit: self.step_jit(),
            batch: shapes_of_specs(&data.specs()),
            structure,
            data,
            evaluation,
            checkpoints,
            metrics: self.metrics(first_step),
            profiles,
            state: Some(state),
            step: first_step,
            last: None,
            in_flight: InFlight::default(),
            since: (Instant::now(), first_step),
            stop_time: None,
            stop,
            watch,
        };
        let ended = run.go(first_step)?;
        run.finish(first_step, ended)
    }

    /// The first state with what the task gives in place of what it makes.
    fn with_given(&self, state: T::State) -> Result<T::State, Error> {
        let mut given = self.task.given(&state.shapes())?;
        if given.is_empty() {
            return Ok(state);
        }
        let arrays = state.arrays()?.into_iter().map(|(path, array)| match given.remove(&path) {
            Some(literal) => match array.named_sharding() {
                Some(placed) => self.backend.send_on(&placed.mesh, &placed.sharding, &literal),
                None => self.backend.send(&literal),
            },
            None => Ok(array),
        });
        let arrays = arrays.collect::<Result<Vec<_>, runtime::Error>>()?;
        if let Some(path) = given.keys().next() {
            return Err(ValidationError::Other(format!("the state has no `{path}`, which is given")).into());
        }
        Ok(state.with_arrays(arrays)?)
    }

    /// The file of this process in which goodput is kept.
    fn goodput(&self) -> Option<PathBuf> {
        Some(self.options.goodput.as_ref()?.join(format!("{}.jsonl", self.backend.rank())))
    }

    fn metrics(&self, first_step: u64) -> Metrics {
        let start = if first_step == 0 { Start::Fresh } else { Start::AfterStep(first_step) };
        match &self.options.metrics {
            // One process writes for all.
            Some(_) if self.backend.rank() > 0 => Metrics::none(),
            Some(folder) => {
                // A folder that cannot be made is met again, and told, by the writers.
                let _ = std::fs::create_dir_all(folder);
                Metrics::none().with_lines(&folder.join("metrics.jsonl"), start).with_events(folder, start)
            }
            None => Metrics::none(),
        }
    }
}

/// A training under way.
struct Run<'a, T: Task> {
    trainer: &'a Trainer<T>,
    timeline: Timeline,
    step_jit: StepJit<T::State>,
    batch: Vec<Tensor>,
    structure: T::State,
    data: Arc<dyn Dataset>,
    evaluation: Option<Arc<dyn Dataset>>,
    checkpoints: Option<Checkpoints>,
    metrics: Metrics,
    profiles: Profiles,
    /// Taken while a step runs in its memory.
    state: Option<T::State>,
    step: u64,
    last: Option<Measured>,
    in_flight: InFlight,
    /// When the steps began that are measured next, and the step before them.
    since: (Instant, u64),
    /// As it was told.
    stop_time: Option<StopTime>,
    stop: &'a StopGate<'a>,
    watch: &'a mut dyn FnMut(&TrainEvent),
}

impl<T: Task + 'static> Run<'_, T> {
    fn go(&mut self, first_step: u64) -> Result<Ended, Error> {
        let options = &self.trainer.options;
        if self.step >= options.steps {
            return Ok(Ended::Finished);
        }
        (self.watch)(&TrainEvent::Compiling("step"));
        self.timeline.enter(TrainPhase::Compile);
        let inputs = (self.structure.clone(), self.batch.clone());
        let Some(program) = self.step_jit.prepare(&inputs, self.stop.is_over())? else { return Ok(Ended::Stopped) };
        options.telemetry.compiled(&program.fingerprint());
        self.timeline.enter(TrainPhase::Other);
        let mut evaluate = self.evaluation.clone().map(|data| Evaluation::new(self.trainer, data)).transpose()?;
        let mut feed = Batches::start(self.trainer, self.data.clone(), first_step..options.steps)?;
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.estimate_save(&self.structure, self.watch);
        }
        self.since = (Instant::now(), self.step);
        while self.step < options.steps {
            if !self.stop.go_on()? {
                return self.stopped();
            }
            if self.profiles.is_due(self.step + 1) {
                self.turn_profiles()?;
            }
            let _step = self.profiles.step(self.step + 1);
            self.timeline.enter(TrainPhase::Data);
            let batch = {
                let _phase = self.profiles.phase("data");
                feed.next()?
            };
            self.timeline.enter(TrainPhase::Step);
            {
                let _phase = self.profiles.phase("wait");
                self.make_room()?;
            }
            if let Some(ended) = self.spoiled() {
                return Ok(ended);
            }
            self.tell_stop_time();
            let Some(state) = self.state.take() else {
                return Err(ValidationError::Other("the state is gone after a failed step".into()).into());
            };
            let (next, measures) = {
                let _phase = self.profiles.phase("dispatch");
                self.step_jit.call((state, batch))?
            };
            self.state = Some(next);
            self.step += 1;
            let step = self.step;
            self.in_flight.push(step, measures);
            self.timeline.dispatched(step);
            let due = |every: Option<u64>| every.is_some_and(|every| step.is_multiple_of(every.max(1)));
            let is_last = step == options.steps;
            let saves = due(options.save_every);
            if due(Some(options.log_every)) || saves || is_last {
                let looked = {
                    let _phase = self.profiles.phase("wait");
                    self.drain()?
                };
                self.timeline.enter(TrainPhase::Other);
                let _phase = self.profiles.phase("log");
                if let Some(ended) = self.spoiled() {
                    return Ok(ended);
                }
                if let Some(Looked { step, values }) = looked {
                    self.record(self.measured(step, values, self.seconds_per_step()));
                }
                self.tell_stop_time();
                if let Some(checkpoints) = &mut self.checkpoints {
                    checkpoints.hear(self.watch)?;
                }
                self.profiles.hear(self.watch);
                self.since = (Instant::now(), step);
                self.timeline.note(Moment::Record);
            }
            if saves && !is_last {
                self.timeline.enter(TrainPhase::Save);
                let _phase = self.profiles.phase("save");
                self.save()?;
                self.timeline.note(Moment::Checkpoint);
                self.timeline.enter(TrainPhase::Other);
                self.since.0 = Instant::now();
            }
            if (due(options.eval_every) || is_last)
                && let Some(evaluation) = &mut evaluate
                && let Some(state) = &self.state
            {
                self.timeline.enter(TrainPhase::Evaluate);
                let _phase = self.profiles.phase("evaluate");
                let Some(measured) = evaluation.run(state, step, self.stop, self.watch)? else {
                    return self.stopped();
                };
                (self.watch)(&TrainEvent::Evaluated(measured.clone()));
                let mut record = Record::new(step);
                for (name, value) in &measured.values {
                    record = record.with(format!("evaluation_{name}"), *value);
                }
                self.metrics.write(&record);
                self.since.0 = Instant::now();
                self.timeline.enter(TrainPhase::Other);
            }
        }
        Ok(Ended::Finished)
    }

    /// Begins or ends a profile between two steps, with none under way. The time for that is no step's.
    fn turn_profiles(&mut self) -> Result<(), Error> {
        self.drain()?;
        let turning = Instant::now();
        self.profiles.turn(self.step + 1, self.watch);
        self.since.0 += turning.elapsed();
        Ok(())
    }

    fn seconds_per_step(&self) -> f64 {
        let (since, before) = self.since;
        since.elapsed().as_secs_f64() / self.step.saturating_sub(before).max(1) as f64
    }

    /// Waits until one more step may be dispatched.
    fn make_room(&mut self) -> Result<(), Error> {
        while self.in_flight.is_full() {
            self.look()?;
        }
        Ok(())
    }

    /// Waits for all steps; the measures of the last one.
    fn drain(&mut self) -> Result<Option<Looked>, Error> {
        let mut last = None;
        while let Some(looked) = self.look()? {
            last = Some(looked);
        }
        Ok(last)
    }

    /// Waits for the oldest step under way.
    fn look(&mut self) -> Result<Option<Looked>, Error> {
        let looked = self.in_flight.look()?;
        if let Some(looked) = &looked {
            self.timeline.step_ended(looked.step, self.trainer.task.tokens_per_step());
        }
        Ok(looked)
    }

    /// A stop: the steps under way end, and are looked at before their state is saved.
    fn stopped(&mut self) -> Result<Ended, Error> {
        self.timeline.enter(TrainPhase::Step);
        self.drain()?;
        if let Some(process) = self.stop.asked_process() {
            (self.watch)(&TrainEvent::Stopping { process, step: self.step });
        }
        Ok(self.spoiled().unwrap_or(Ended::Stopped))
    }

    /// The end of a training whose measures are not finite, with a record of the step.
    fn spoiled(&mut self) -> Option<Ended> {
        let Looked { step, values } = self.in_flight.spoiled()?.clone();
        self.record(self.measured(step, values, self.seconds_per_step()));
        Some(Ended::Diverged { step })
    }

    /// Tells how long a stop takes as soon as it is known, and again if it turns out to be too long.
    fn tell_stop_time(&mut self) {
        let Some(checkpoints) = &self.checkpoints else { return };
        let Some((step_seconds, save)) = self.in_flight.step_seconds().zip(checkpoints.save_time()) else { return };
        let step_seconds = self.last.as_ref().map_or(step_seconds, |last| last.step_seconds);
        let steps = guard::MAX_IN_FLIGHT as u64;
        let now = StopTime { steps, step_seconds, save_seconds: save.seconds, is_measured: save.is_measured };
        let is_told = self.stop_time.is_some_and(|told| told.is_over_notice() || !now.is_over_notice());
        if !is_told {
            self.stop_time = Some(now);
            (self.watch)(&TrainEvent::StopTime(now));
        }
    }

    fn measured(&self, step: u64, values: BTreeMap<String, f64>, step_seconds: f64) -> Measured {
        let task = &self.trainer.task;
        let peak = self.trainer.peak_flops();
        let mfu = task.flops_per_step().zip(peak).map(|(flops, peak)| flops / step_seconds / peak);
        let tokens_per_second = task.tokens_per_step().map(|tokens| tokens as f64 / step_seconds);
        Measured { step, values, step_seconds, tokens_per_second, mfu }
    }

    fn record(&mut self, measured: Measured) {
        let mut record = Record::new(measured.step);
        for (name, value) in &measured.values {
            record = record.with(name, *value);
        }
        record = record.with("step_seconds", measured.step_seconds);
        if let Some(rate) = measured.tokens_per_second {
            record = record.with("tokens_per_second", rate);
        }
        if let Some(mfu) = measured.mfu {
            record = record.mfu(mfu);
        }
        self.metrics.write(&record);
        let flops_per_second = self.trainer.task.flops_per_step().map(|flops| flops / measured.step_seconds);
        self.trainer.options.telemetry.rates(measured.tokens_per_second, flops_per_second, measured.mfu);
        self.profiles.tell(&measured);
        (self.watch)(&TrainEvent::Step(measured.clone()));
        self.last = Some(measured);
    }

    /// Saves in the background. A save that fails is told and does not stop the training: the last good one stays. A run that
    /// was replaced ends.
    fn save(&mut self) -> Result<(), Error> {
        if let (Some(checkpoints), Some(state)) = (&mut self.checkpoints, &self.state) {
            (self.watch)(&TrainEvent::Saving(self.step));
            match checkpoints.save(&self.trainer.backend, self.step, state, self.watch) {
                Ok(()) => {}
                Err(runtime::Error::Checkpoint(error)) if error.is_replaced() => return Err(error.into()),
                Err(error) => (self.watch)(&TrainEvent::SaveFailed(compile::with_causes(&error))),
            }
        }
        Ok(())
    }

    /// Saves what is not saved, unless it is not worth keeping; waits until it is written.
    fn finish(mut self, first_step: u64, ended: Ended) -> Result<Trained<T::State>, Error> {
        self.metrics.flush();
        self.timeline.enter(TrainPhase::Save);
        self.profiles.finish(self.watch);
        let is_good = !matches!(ended, Ended::Diverged { .. });
        if let Some(mut checkpoints) = self.checkpoints.take() {
            let saved = match &self.state {
                Some(state) if is_good && self.step > first_step => {
                    checkpoints.save(&self.trainer.backend, self.step, state, self.watch)
                }
                _ => Ok(()),
            };
            let written = checkpoints.finish(self.watch);
            saved.and(written)?;
        }
        self.timeline.ended(&ended);
        Ok(Trained {
            state: self.state,
            step: self.step,
            first_step,
            ended,
            last: self.last,
            compilations: self.step_jit.num_compiled(),
        })
    }
}

/// Batches on the device, sent ahead.
struct Batches {
    feed: Feed,
    /// The error that ended the loader.
    failed: Arc<std::sync::Mutex<Option<DataError>>>,
}

impl Batches {
    fn start<T: Task>(
        trainer: &Trainer<T>,
        data: Arc<dyn Dataset>,
        steps: std::ops::Range<u64>,
    ) -> Result<Batches, Error> {
        let how = trainer.options.loader;
        let rows = Arc::new(OwnRows::new(data, trainer.mesh.as_ref())?);
        let loader = Loader::start(rows.clone(), steps, how)?;
        let failed = Arc::new(std::sync::Mutex::new(None));
        let theirs = failed.clone();
        let host = loader.map_while(move |batch| match batch {
            Ok(batch) => {
                Some(Nested::List(batch.arrays.into_iter().map(|array| Nested::Leaf(Arc::new(array))).collect())
                    as NestedLiterals)
            }
            Err(error) => {
                *theirs.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
                None
            }
        });
        let is_whole = trainer.mesh.is_none();
        let send = move |backend: &Backend, batch: &NestedLiterals| match is_whole {
            true => backend.prepare_data(batch),
            false => {
                let arrays: Vec<Arc<tensor::Literal>> = batch.leaves().into_iter().cloned().collect();
                Ok(Nested::List(rows.send(backend, &arrays)?.into_iter().map(Nested::Leaf).collect()))
            }
        };
        Ok(Batches { feed: trainer.backend.feed_with(host, how.ahead, send)?, failed })
    }

    fn next(&mut self) -> Result<Vec<Tensor>, Error> {
        match self.feed.next() {
            Some(batch) => Ok(batch?.leaves().into_iter().cloned().map(Tensor::from).collect()),
            None => {
                let failed = self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
                Err(failed.map_or_else(|| ValidationError::Other("the data ended early".into()).into(), Error::Data))
            }
        }
    }
}

/// Evaluation: compiled at its first use.
struct Evaluation<T: Task> {
    backend: Backend,
    rows: OwnRows,
    jit: Jit<StepInput<T::State>, Measures>,
    batches: u64,
}

impl<T: Task + 'static> Evaluation<T> {
    fn new(trainer: &Trainer<T>, data: Arc<dyn Dataset>) -> Result<Evaluation<T>, Error> {
        let task = trainer.task.clone();
        let jit =
            Jit::new(&trainer.backend, "evaluate", Donate::Nothing, move |(state, batch): &StepInput<T::State>| {
                task.evaluate(state, batch)
            })
            .on(trainer.mesh.as_ref().map(StateSharding::evaluation));
        let batches =
            data.batches_per_epoch().map_or(trainer.options.eval_batches, |all| all.min(trainer.options.eval_batches));
        let rows = OwnRows::new(data, trainer.mesh.as_ref())?;
        Ok(Evaluation { backend: trainer.backend.clone(), rows, jit, batches: batches.max(1) })
    }

    /// Means over the batches; `None` if it was stopped.
    fn run(
        &mut self,
        state: &T::State,
        step: u64,
        stop: &StopGate<'_>,
        watch: &mut dyn FnMut(&TrainEvent),
    ) -> Result<Option<Measured>, Error> {
        let inputs = (state.clone(), shapes_of_specs(&self.rows.specs()));
        if self.jit.num_compiled() == 0 {
            watch(&TrainEvent::Compiling("evaluate"));
        }
        if self.jit.prepare(&inputs, stop.is_over())?.is_none() {
            return Ok(None);
        }
        let started = Instant::now();
        let mut sums = std::collections::BTreeMap::<String, f64>::new();
        for n in 0..self.batches {
            if !stop.go_on()? {
                return Ok(None);
            }
            let batch: Vec<_> = self.rows.batch(n)?.into_iter().map(Arc::new).collect();
            let sent = self.rows.send(&self.backend, &batch)?.into_iter().map(Tensor::from).collect();
            for (name, value) in guard::read(&self.jit.call((state.clone(), sent))?)? {
                *sums.entry(name).or_default() += value;
            }
        }
        let values = sums.into_iter().map(|(name, sum)| (name, sum / self.batches as f64)).collect();
        let step_seconds = started.elapsed().as_secs_f64() / self.batches as f64;
        Ok(Some(Measured { step, values, step_seconds, tokens_per_second: None, mfu: None }))
    }
}
