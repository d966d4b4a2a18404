//! Inference on pipeline stages: each has its own layers, their KV cache, and devices of its own, here or on another host.
//!
//! Steps flow through the stages in their order. A stage is a thread with a queue of a few tasks ([`stage`]); over a network two
//! threads on either side carry tasks and answers ([`link`]), so that transfers and the work of all stages overlap. The host tells the
//! first stage the last tokens of the rows of a step, so nothing goes back from the last stage but tokens: a row has one step on its way
//! at most, and the engine fills the stages with steps of other rows.

mod link;
mod message;
mod server;
mod stage;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use nn::hf::ModelConfig;
use nn::models::ModelPart;
use runtime::mesh::DeviceMesh;
use runtime::{Backend, DeviceManager};
use serde_json::{Value, json};
use trace::{Axis, Mesh};

use self::link::{QUEUED, StageHello};
use self::message::{SentToken, StageOrder, StageReply, StageRow, StageTask};
pub use self::server::StageServer;
use self::stage::{StageEnds, StageJob, run_stage};
use crate::error::Error;
use crate::fit::PagePool;
use crate::host_pages::PageMove;
use crate::launched::{Launched, Picked};
use crate::load::LoadedSteps;
use crate::options::{InferenceOptions, STAGE};
use crate::rooms::CacheCopy;
use crate::sizes::{CacheLayout, StepSizes};
use crate::source::OpenedModel;
use crate::steps::{Decode, Prefill, Steps};

/// Most stages of a pipeline.
pub(crate) const MAX_STAGES: usize = 64;
/// The stack of a stage's thread: it traces programs.
const STACK_BYTES: usize = 16 << 20;

/// A model whose layers lie on several stages.
pub(crate) fn load(
    backend: &Backend,
    source: &OpenedModel,
    options: &InferenceOptions,
    sizes: StepSizes,
) -> Result<LoadedSteps, Error> {
    if options.draft.is_some() || options.host_pages > 0 {
        return Err(Error::setting(
            "pipeline stages have neither a draft model nor pages in the host's memory",
            "leave out --draft and --kv-host-pages, or the stages",
        ));
    }
    if sizes.layout == CacheLayout::Rows {
        return Err(Error::setting(
            "pipeline stages need a KV cache in pages",
            "leave out --kv-layout rows, or give a --kv-cache type that is kept in pages",
        ));
    }
    let parts = parts_of(source.config(), options.num_stages())?;
    let meshes = meshes_of(backend, options.mesh.as_ref())?;
    let (answering, answers) = mpsc::channel();
    let mut threads = Vec::new();
    let mut next: Option<SyncSender<StageTask>> = None;
    if let Some(hosts) = &options.stages {
        let hello = StageHello {
            version: server::VERSION.into(),
            platform: backend.platform().to_string(),
            stage: meshes.len(),
            parts: parts.clone(),
            config: config_value(source.config()),
            run: options.run.clone(),
            sizes,
            pool: PagePool::of(options),
            later: Vec::new(),
        };
        next = link::connect(hosts, &hello, &answering, &mut threads)?;
    }
    for (stage, (mesh, part)) in meshes.into_iter().zip(&parts).enumerate().rev() {
        let job = StageJob {
            stage,
            part: part.clone(),
            // Each has memory of its own devices.
            backend: if stage == 0 { backend.clone() } else { Backend::on(backend.client(), backend.config())? },
            source: source.weights(),
            run: options.run.clone(),
            mesh,
            sizes,
            pool: PagePool::of(options),
            given_width: source.images().filter(|_| stage == 0).map(|images| images.config().text_width),
        };
        let (tasks, taken) = mpsc::sync_channel(QUEUED);
        let ends = StageEnds { tasks: taken, next: next.replace(tasks), replies: answering.clone() };
        let thread = std::thread::Builder::new().name(format!("tpubridge-stage-{stage}")).stack_size(STACK_BYTES);
        let started = thread.spawn(move || run_stage(&job, ends));
        threads.push(started.map_err(|error| Error::setting(format!("a thread: {error}"), "end other processes"))?);
    }
    drop(answering);
    let mut pipeline = Pipeline {
        first: next,
        answers: Rc::new(RefCell::new(Answers { answers, arrived: BTreeMap::new(), compiled: 0, failed: None })),
        threads,
        sizes,
        num_stages: parts.len(),
        next_step: 0,
    };
    let (sizes, cache_bytes) = pipeline.start()?;
    Ok(LoadedSteps { steps: Box::new(pipeline), sizes, cache_bytes })
}

/// The layers of each stage: about as many each. Dense layers before those with experts are on the first, with one more.
pub(crate) fn parts_of(config: &ModelConfig, stages: usize) -> Result<Vec<ModelPart>, Error> {
    let (layers, least) = match config {
        ModelConfig::Gpt2(config) => (config.n_layer, 1),
        ModelConfig::Llama(config) => (config.num_hidden_layers, config.num_dense_layers() + 1),
        ModelConfig::Gemma4(_) => {
            return Err(Error::setting(
                "layers of Gemma 4 share keys and values: it has no pipeline stages",
                "leave out the stages, and give a mesh of `model` or `expert`",
            ));
        }
    };
    if stages == 0 || stages > MAX_STAGES || least + stages - 1 > layers {
        let most = (layers + 1).saturating_sub(least).min(MAX_STAGES);
        return Err(Error::setting(
            format!("{layers} layers on {stages} pipeline stages"),
            format!("give at most {most} stages"),
        ));
    }
    let mut starts = vec![0];
    for stage in 1..stages {
        let (before, left) = (starts[stage - 1], stages - stage + 1);
        let share = (layers - before) / left + usize::from(!(layers - before).is_multiple_of(left));
        starts.push(before + if stage == 1 { share.max(least) } else { share });
    }
    let ends = starts.iter().copied().skip(1).chain([layers]).collect::<Vec<_>>();
    Ok(starts.into_iter().zip(ends).map(|(start, end)| ModelPart { layers: start..end, of: layers }).collect())
}

/// The sizes of a model, to compare them.
fn config_value(config: &ModelConfig) -> Value {
    let (family, sizes) = match config {
        ModelConfig::Gpt2(config) => ("gpt2", serde_json::to_value(config)),
        ModelConfig::Llama(config) => ("llama", serde_json::to_value(config)),
        ModelConfig::Gemma4(config) => ("gemma4", serde_json::to_value(config)),
    };
    json!({"kind": family, "family": format!("{:?}", config.family()), "config": sizes.unwrap_or(Value::Null)})
}

/// The devices of each stage of this process; `None` for one device.
fn meshes_of(backend: &Backend, mesh: Option<&Mesh>) -> Result<Vec<Option<Arc<DeviceMesh>>>, Error> {
    let Some(mesh) = mesh else { return Ok(vec![None]) };
    let whole = backend.mesh(mesh)?;
    let Some(stages) = mesh.size_of(STAGE).filter(|stages| *stages > 1) else { return Ok(vec![Some(whole)]) };
    let others: Vec<Axis> = mesh.axes().iter().filter(|axis| &*axis.name != STAGE).cloned().collect();
    let names: Vec<Arc<str>> = others.iter().map(|axis| axis.name.clone()).collect();
    let own = if others.is_empty() { Mesh::new([("model", 1)])? } else { Mesh::from_axes(others)? };
    let devices = DeviceManager::new(backend);
    let index = |place: &usize| {
        let id = whole.ids().get(*place)?;
        devices.devices().iter().position(|device| i64::from(device.id) == *id)
    };
    let groups: Vec<Vec<usize>> = match names.is_empty() {
        true => (0..stages).map(|device| vec![device]).collect(),
        false => mesh.groups(&names),
    };
    let of_group = |group: Vec<usize>| {
        let indices: Vec<usize> = group.iter().filter_map(index).collect();
        Ok(Some(devices.mesh_of(&own, &indices)?))
    };
    groups.into_iter().map(of_group).collect()
}

/// The steps of a model on several stages.
struct Pipeline {
    /// Absent when the pipeline ends.
    first: Option<SyncSender<StageTask>>,
    answers: Rc<RefCell<Answers>>,
    threads: Vec<JoinHandle<()>>,
    sizes: StepSizes,
    num_stages: usize,
    next_step: u64,
}

/// What stages answered.
struct Answers {
    answers: Receiver<StageReply>,
    /// Tokens of steps that nobody asked for yet.
    arrived: BTreeMap<u64, Vec<Vec<SentToken>>>,
    /// Programs of all stages.
    compiled: usize,
    /// Why there are no more steps, and what helps.
    failed: Option<(String, String)>,
}

impl Answers {
    /// The next answer, after waiting for it.
    fn next(&mut self) -> Result<StageReply, Error> {
        if let Some((message, remedy)) = &self.failed {
            return Err(Error::setting(message, remedy));
        }
        let (message, remedy) = match self.answers.recv() {
            Ok(StageReply::Failed { message, remedy, .. }) => {
                (message, remedy.unwrap_or_else(|| "start the stages and this command again".into()))
            }
            Ok(StageReply::Chosen { step, rows, compiled }) => {
                self.compiled = compiled;
                self.arrived.insert(step, rows);
                return Ok(StageReply::Alive);
            }
            Ok(reply) => return Ok(reply),
            Err(_) => ("the pipeline stages are gone".into(), "start the stages and this command again".into()),
        };
        self.failed = Some((message.clone(), remedy.clone()));
        Err(Error::setting(message, remedy))
    }

    /// The tokens of a step, after waiting for them. Steps are asked for in their order, but for some that nobody asks for.
    fn tokens(&mut self, step: u64) -> Result<Vec<Vec<Picked>>, Error> {
        loop {
            if let Some(rows) = self.arrived.remove(&step) {
                self.arrived = self.arrived.split_off(&step);
                return Ok(rows.into_iter().map(|row| row.into_iter().map(Picked::from).collect()).collect());
            }
            self.next()?;
        }
    }
}

impl Pipeline {
    /// Waits until every stage knows how many pages fit, and has loaded its layers with the fewest of these.
    fn start(&mut self) -> Result<(StepSizes, u64), Error> {
        let mut fitted: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
        while fitted.len() < self.num_stages {
            if let StageReply::Fitted { stage, pages, digest } = self.next_reply()? {
                fitted.insert(stage, (pages, digest));
            }
        }
        let own = fitted.get(&0).map_or(0, |(_, digest)| *digest);
        if let Some((stage, _)) = fitted.iter().find(|(_, (_, digest))| *digest != own) {
            return Err(Error::setting(
                format!("pipeline stage {stage} has the weights of another model"),
                "give all hosts the same folder",
            ));
        }
        let pages = fitted.values().map(|(pages, _)| *pages).min().unwrap_or(0);
        self.sizes = self.sizes.with_pages(pages);
        self.send(StageTask::new(StageOrder::Start { pages }))?;
        let mut started: BTreeMap<usize, u64> = BTreeMap::new();
        while started.len() < self.num_stages {
            if let StageReply::Started { stage, cache_bytes } = self.next_reply()? {
                started.insert(stage, cache_bytes);
            }
        }
        Ok((self.sizes, started.into_values().max().unwrap_or(0)))
    }

    fn next_reply(&self) -> Result<StageReply, Error> {
        self.answers.borrow_mut().next()
    }

    fn send(&mut self, task: StageTask) -> Result<(), Error> {
        if self.first.as_ref().is_some_and(|first| first.send(task).is_ok()) {
            return Ok(());
        }
        // It said why it ended, or there is nobody left.
        loop {
            self.next_reply()?;
        }
    }

    /// Sends a step; its tokens are on their way.
    fn launch(&mut self, task: StageTask, step: u64, rows: usize) -> Result<Launched, Error> {
        self.send(task)?;
        let answers = self.answers.clone();
        Ok(Launched::Awaited(rows, Box::new(move || answers.borrow_mut().tokens(step))))
    }

    fn number(&mut self) -> u64 {
        self.next_step += 1;
        self.next_step
    }
}

impl Steps for Pipeline {
    fn prefill(&mut self, prefill: &Prefill<'_>) -> Result<Launched, Error> {
        let step = self.number();
        let row = StageRow::new(prefill.row, &prefill.choice, prefill.table, None);
        let order = StageOrder::Prefill { step, filled: prefill.filled, tokens: prefill.tokens.to_vec(), row };
        let given = prefill.given.clone();
        self.launch(StageTask { given, ..StageTask::new(order) }, step, 1)
    }

    fn decode(&mut self, decode: &Decode<'_>) -> Result<Launched, Error> {
        let step = self.number();
        let of = decode.rows.iter().flatten();
        let rows: Vec<StageRow> = of.map(|row| StageRow::new(row.row, &row.choice, row.table, row.token)).collect();
        let places = self.sizes.decode_rows(rows.len().saturating_sub(1));
        self.launch(StageTask::new(StageOrder::Decode { step, rows, longest: decode.longest }), step, places)
    }

    fn copy(&mut self, copy: CacheCopy) -> Result<(), Error> {
        let CacheCopy { from, to, positions } = copy;
        self.send(StageTask::new(StageOrder::Copy { from, to, positions }))
    }

    /// Refused when the stages were loaded.
    fn keep_on_host(&mut self, _: usize) {}

    fn move_page(&mut self, _: PageMove) -> Result<(), Error> {
        Err(Error::setting("pipeline stages keep no pages in the host's memory", "leave out --kv-host-pages"))
    }

    fn num_drafts(&self) -> usize {
        0
    }

    fn num_stages(&self) -> usize {
        self.num_stages
    }

    fn num_compiled(&self) -> usize {
        self.answers.borrow().compiled
    }

    fn warm_up(&mut self, progress: &mut dyn FnMut(usize, usize)) -> Result<(), Error> {
        self.send(StageTask::new(StageOrder::WarmUp))?;
        let mut done: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        let mut compiled: BTreeMap<usize, usize> = BTreeMap::new();
        while compiled.len() < self.num_stages {
            match self.next_reply()? {
                StageReply::WarmingUp { stage, done: now, all } => {
                    done.insert(stage, (now, all));
                    let sum = |of: fn(&(usize, usize)) -> usize| done.values().map(of).fold(0, usize::saturating_add);
                    progress(sum(|of| of.0), sum(|of| of.1));
                }
                StageReply::WarmedUp { stage, compiled: programs } => {
                    compiled.insert(stage, programs);
                }
                _ => {}
            }
        }
        self.answers.borrow_mut().compiled = compiled.into_values().fold(0, usize::saturating_add);
        Ok(())
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // Each stage ends when the one before it has.
        self.first = None;
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
