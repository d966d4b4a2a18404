//! A training as its file describes it: read, run, exported for a slice; all that `tpu train` does, for any Rust program.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use compile::Program;
use nn::models::{Gemma4, Gpt2, LanguageModel, Llama, NormStatistics, Phase, ResNet, Vit};
use nn::quant::Scaling;
use nn::{CrossEntropy, DTypePolicy, ShardingRules, hf};
use runtime::{Backend, TreeArrays};
use tensor::DType;
use trace::{Key, Site, Tensor, Tree};
use trust::AuditLog;
use weights::Keep;

use crate::audit::{self, TrainingAudit};
use crate::config::{DataConfig, TrainConfig};
use crate::datasets::Datasets;
use crate::egress::warn_of_egress;
use crate::error::Error;
use crate::model::{TokenSizes, TrainModelConfig};
use crate::pretrained::{AdapterFolders, Pretrained};
use crate::sharding::{MeshChoice, StateSharding, sharded_shapes, sharding_rules};
use crate::step::step_program;
use crate::task::ModelTask;
use crate::telemetry::{TrainTelemetry, TrainingRecord};
use crate::trainer::{Ended, Measured, Measures, ProfileOptions, Task, TrainEvent, TrainOptions, Trainer};

/// A training file with the model, data and mesh it names.
#[derive(Clone, Debug)]
pub struct Training {
    config: TrainConfig,
    /// The folder of the file: its paths are relative to it.
    beside: PathBuf,
    model: TrainModelConfig,
    pretrained: Option<Pretrained>,
    rules: Option<ShardingRules>,
    folder: Option<String>,
    telemetry: TrainTelemetry,
}

/// What is done with the task of a training, whatever its model.
pub trait TaskVisitor {
    /// What comes of it.
    type Output;

    /// Takes the task and its data.
    fn visit<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
        self,
        task: ModelTask<M, X>,
        data: Datasets,
    ) -> Result<Self::Output, Error>;
}

/// How a training ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Parameters of the model.
    pub parameters: u64,
    /// The step this run began after.
    pub first_step: u64,
    /// Steps done, earlier runs included.
    pub step: u64,
    /// How it ended.
    pub ended: Ended,
    /// The last record.
    pub last: Option<Measured>,
    /// Times the step was compiled.
    pub compilations: usize,
}

impl Training {
    /// Reads a training file. `changes` are values by their dotted names, as `train.steps=10`; `mesh` takes the place of the file's.
    pub fn read(file: &Path, changes: &[String], mesh: &MeshChoice) -> Result<Training, Error> {
        let config = TrainConfig::read(file, changes)?;
        Training::new(config, file.parent().unwrap_or(Path::new("")), mesh)
    }

    /// A training from its configuration; paths in it are relative to `beside`.
    pub fn new(mut config: TrainConfig, beside: &Path, mesh: &MeshChoice) -> Result<Training, Error> {
        let pretrained = Pretrained::resolve(&mut config, beside)?;
        if config.lora.is_some() && pretrained.is_none() {
            return Err(Error::new(
                "[lora] trains adapters of a model that was trained before, and model.from is not set",
            )
            .hint("set model.from to a Hugging Face folder, or remove [lora]"));
        }
        let model = TrainModelConfig::read(&config.model, beside)?;
        let rules = sharding_rules(&config.mesh, mesh)?;
        let rules = match (&model, rules) {
            (TrainModelConfig::Program(_), Some(rules)) if rules.num_stages() > 1 => {
                return Err(Error::new("an imported program has no pipeline stages")
                    .hint("use a mesh of data, fsdp and model, as in --mesh data=4,model=2"));
            }
            (TrainModelConfig::Program(_), Some(rules)) => Some(rules.with_pytorch_names()),
            (_, rules) => rules,
        };
        let devices = rules.as_ref().map(|rules| rules.logical_axes().mesh.num_devices()).or(mesh.devices).unwrap_or(1);
        config.slices = rules.as_ref().map_or(1, |rules| rules.logical_axes().mesh.num_slices());
        if config.mesh.dcn_gradients.is_some() && config.slices <= 1 {
            return Err(Error::new("mesh.dcn_gradients is set, but the mesh has no axis between slices")
                .hint("write one as dcn:replica=2 in mesh.axes, or remove mesh.dcn_gradients"));
        }
        let is_delayed = config.run.matmul.scaling == Some(Scaling::Delayed);
        if is_delayed && rules.as_ref().is_some_and(|rules| rules.num_stages() > 1) {
            return Err(Error::new("delayed scaling keeps one history for a batch; pipeline stages take it in parts")
                .hint("set run.matmul.scaling = \"current\", or use a mesh without stages"));
        }
        config.set_batch(devices)?;
        let folder = config.train.folder.clone();
        let telemetry = TrainTelemetry::new();
        Ok(Training { config, beside: beside.to_path_buf(), model, pretrained, rules, folder, telemetry })
    }

    /// The same with checkpoints, metrics and tokens in another folder, or in a bucket.
    #[must_use]
    pub fn in_folder(mut self, folder: Option<String>) -> Training {
        self.folder = folder.or(self.folder);
        self
    }

    /// The configuration.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// How the model is sharded; `None` on one device.
    pub fn rules(&self) -> Option<&ShardingRules> {
        self.rules.as_ref()
    }

    /// Where checkpoints, metrics and tokens go.
    pub fn folder(&self) -> Option<&str> {
        self.folder.as_deref()
    }

    /// The audit log of the training: `audit.jsonl` in its folder, or the user's where that is a bucket.
    pub fn audit_log(&self) -> Option<AuditLog> {
        audit::log_of(self.folder(), self.local_folder())
    }

    /// What the training tells of itself while it runs.
    pub fn telemetry(&self) -> &TrainTelemetry {
        &self.telemetry
    }

    /// The folder, if it is on this machine.
    pub fn local_folder(&self) -> Option<PathBuf> {
        self.folder.as_ref().filter(|folder| !folder.contains("://")).map(PathBuf::from)
    }

    /// What is profiled.
    fn profile(&self) -> Result<ProfileOptions, Error> {
        let config = &self.config.profile;
        let run = self.local_folder();
        let own = config.folder.as_ref().map(|folder| self.beside.join(folder));
        let folder = own.or_else(|| run.as_ref().map(|run| run.join("metrics")));
        let windows = config.windows()?;
        if !windows.is_empty() && folder.is_none() {
            return Err(Error::new("profile.steps asks for profiles, but there is no folder for them on this machine")
                .hint("set profile.folder, or train.folder to a folder of this machine"));
        }
        Ok(ProfileOptions { windows, folder, address: config.address()?, run })
    }

    /// What must be the same when the training is resumed.
    fn description(&self) -> Result<serde_json::Value, Error> {
        let mut description = self.config.description();
        if let (Some(_), Some(pretrained)) = (&self.config.lora, &self.pretrained) {
            description["lora"]["base_fingerprint"] = pretrained.fingerprint()?.into();
        }
        if let TrainModelConfig::Program(model) = &self.model {
            description["program_fingerprint"] = model.fingerprint()?.into();
        }
        Ok(description)
    }

    /// The settings of the trainer.
    pub fn options(&self) -> TrainOptions {
        let train = &self.config.train;
        TrainOptions {
            log_every: train.log_every,
            eval_every: train.eval_every,
            eval_batches: train.eval_batches,
            checkpoints: self.folder.as_ref().map(|folder| format!("{}/checkpoints", folder.trim_end_matches('/'))),
            save_every: train.save_every,
            keep: Keep::newest(train.max_to_keep),
            loader: self.config.data.loader(),
            metrics: self.local_folder().map(|folder| folder.join("metrics")),
            goodput: self.local_folder().map(|folder| folder.join("goodput")),
            telemetry: self.telemetry.clone(),
            description: self.config.description(),
            ..TrainOptions::new(train.steps)
        }
    }

    /// Makes the task of the model and opens the data.
    pub fn visit<V: TaskVisitor>(&self, visitor: V) -> Result<V::Output, Error> {
        let options = self.config.run.clone();
        match self.model.clone() {
            TrainModelConfig::Language(hf::ModelConfig::Gpt2(sizes)) => {
                let of = hf::ModelConfig::Gpt2(sizes.clone());
                self.language(visitor, &of, move |key| Gpt2::init(key, &sizes, &options))
            }
            TrainModelConfig::Language(hf::ModelConfig::Llama(sizes)) => {
                let of = hf::ModelConfig::Llama(sizes.clone());
                self.language(visitor, &of, move |key| Llama::init(key, &sizes, &options))
            }
            TrainModelConfig::Language(hf::ModelConfig::Gemma4(sizes)) => {
                let of = hf::ModelConfig::Gemma4(sizes.clone());
                self.language(visitor, &of, move |key| Gemma4::init(key, &sizes, &options))
            }
            TrainModelConfig::Vit(_) | TrainModelConfig::ResNet(_) | TrainModelConfig::Program(_)
                if self.is_low_precision() =>
            {
                Err(Error::new("matmuls in few bits, run.qat and [lora] are for language models")
                    .hint("use precision = \"mixed\" or \"bf16\" for a model of images"))
            }
            TrainModelConfig::Program(model) => {
                let cache = self.local_folder().unwrap_or_else(std::env::temp_dir).join("tokens");
                let data = model.data(&self.config, &self.beside, &cache)?;
                let task = model.task(&self.config, &data)?;
                visitor.visit(task, data.datasets)
            }
            TrainModelConfig::Vit(sizes) => {
                let data = self.config.images(&self.beside, sizes.num_channels, sizes.num_classes)?;
                let init = move |key: &Key| (Vit::init(key, &sizes, &options), ());
                self.image(visitor, data, init, |model, (), images, key| (model.apply(images, key), ()))
            }
            TrainModelConfig::ResNet(sizes) => {
                let data = self.config.images(&self.beside, sizes.num_channels, sizes.num_classes)?;
                let init = move |key: &Key| ResNet::init(key, &sizes);
                self.image(visitor, data, init, |model, statistics: &NormStatistics, images, key| {
                    let phase = if key.is_some() { Phase::Training } else { Phase::Inference };
                    model.apply(images, statistics, phase)
                })
            }
        }
    }

    /// Whether something is asked for that only language models have.
    fn is_low_precision(&self) -> bool {
        let narrow = |precision: DTypePolicy| precision.matmul() != precision.compute();
        let of_model = matches!(&self.model, TrainModelConfig::ResNet(sizes) if narrow(sizes.precision));
        of_model || narrow(self.config.run.precision) || self.config.run.qat.is_some() || self.config.lora.is_some()
    }

    fn language<M: LanguageModel + 'static, V: TaskVisitor>(
        &self,
        visitor: V,
        model: &hf::ModelConfig,
        init: impl Fn(&Key) -> M + 'static,
    ) -> Result<V::Output, Error> {
        let (sizes, family) = (TokenSizes::of(model), model.family());
        let vocabulary = u32::try_from(sizes.vocabulary).unwrap_or(u32::MAX);
        let cache = self.local_folder().unwrap_or_else(std::env::temp_dir).join("tokens");
        let (data, sequence) = self.config.tokens(&self.beside, vocabulary, &cache)?;
        if sequence > sizes.positions {
            let message =
                format!("data.sequence_length is {sequence}, but the model has {} positions", sizes.positions);
            return Err(Error::new(message).hint("shorten the sequence, or give the model more positions"));
        }
        let forms = match (&self.pretrained, &self.config.lora) {
            (Some(from), Some(lora)) if lora.base.is_none() => {
                from.forms(&trace::shapes_of(&(), |()| init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0))))?)?
            }
            _ => hf::PackedForms::default(),
        };
        let init = move |key: &Key| forms.shapes(&init(key));
        let task = ModelTask::language(&self.config, &sizes, family, sequence, init);
        let given = self.pretrained.as_ref().map(|from| from.given(self.config.lora.as_ref(), &self.beside));
        visitor.visit(ModelTask { given, ..task }, data)
    }

    fn image<M: Tree + Clone + 'static, X: Tree + Clone + 'static, V: TaskVisitor>(
        &self,
        visitor: V,
        data: Datasets,
        init: impl Fn(&Key) -> (M, X) + 'static,
        apply: impl Fn(&M, &X, &Tensor, Option<&Key>) -> (Tensor, X) + Clone + 'static,
    ) -> Result<V::Output, Error> {
        let of = apply.clone();
        let loss = move |model: &M, carried: &X, batch: &[Tensor], key: Option<&Key>| {
            let (logits, carried) = of(model, carried, &batch[0], key);
            (CrossEntropy::default().mean(&logits, &batch[1]), carried)
        };
        let accuracy = move |model: &M, carried: &X, batch: &[Tensor]| {
            let guess = apply(model, carried, &batch[0], None).0.argmax(-1);
            let is_right = guess.equals(&batch[1]).cast(DType::F32);
            Measures::from([("accuracy".to_string(), is_right.mean_all())])
        };
        let task = ModelTask::new(&self.config, init, loss, accuracy, (self.config.train.batch_size, None));
        visitor.visit(task, data)
    }

    /// The training step as a program for devices that need not be here, and the number of parameters.
    pub fn export(&self, site: &Site) -> Result<(Program, u64), Error> {
        self.visit(Export { rules: self.rules.as_ref(), site })
    }

    /// Says what is trained on what, to whoever asks and in the folder.
    fn describe(&self, backend: &Backend, tokens_per_step: Option<u64>) {
        let TrainConfig { run, data, train, .. } = &self.config;
        let device = backend.device();
        let is_tokens =
            matches!(data.source, DataConfig::Text { .. } | DataConfig::Tokens { .. } | DataConfig::Synthetic { .. });
        let peak = device.peak;
        let is_bf16_faster = match peak.bf16_flops {
            Some(bf16) => Some(peak.f32_flops.is_none_or(|slower| slower < bf16)),
            None if *backend.platform() == runtime::Platform::Cpu => Some(has_bf16_matrix_units()),
            None => None,
        };
        let devices = self.rules.as_ref().map_or(1, |rules| rules.logical_axes().mesh.num_devices());
        let record = TrainingRecord {
            version: telemetry::TRAINING_RECORD_VERSION,
            device: device.kind.clone(),
            platform: backend.platform().to_string(),
            devices: devices as u64,
            processes: backend.session().map_or(1, |session| session.config().processes as u64),
            precision: run.precision.compute().to_string(),
            is_bf16_faster,
            peak_flops: peak.bf16_flops,
            memory_bytes_per_second: peak.memory_bytes_per_s,
            batch_size: train.batch_size as u64,
            tokens_per_step: tokens_per_step.filter(|_| is_tokens),
            steps: train.steps,
            save_every: train.save_every,
            data_workers: data.loader().workers as u64,
            predicted_step_seconds: None,
        };
        self.telemetry.describe(record);
        // Whoever diagnoses the run later knows less of it; it goes on.
        if let Some(folder) = self.local_folder().filter(|_| backend.rank() == 0)
            && let Err(error) = self.telemetry.record().write(&folder)
        {
            tracing::warn!(%error, "the run's folder does not say what is trained");
        }
    }

    /// Trains on a backend until all steps are done, `stop` is set, or the loss is not finite; goes on from the newest checkpoint
    /// if there is one. `watch` hears what happens.
    pub fn run(
        &self,
        backend: &Backend,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(&TrainEvent),
    ) -> Result<Finished, Error> {
        self.visit(Run { training: self, backend, stop, watch })
    }
}

/// Whether the CPU has units for matmuls of bf16, which are several times faster than those of f32.
fn has_bf16_matrix_units() -> bool {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    flags.lines().find(|line| line.starts_with("flags")).is_some_and(|line| line.contains(" amx_bf16"))
}

struct Export<'a> {
    rules: Option<&'a ShardingRules>,
    site: &'a Site,
}

impl TaskVisitor for Export<'_> {
    type Output = (Program, u64);

    fn visit<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
        self,
        task: ModelTask<M, X>,
        data: Datasets,
    ) -> Result<(Program, u64), Error> {
        step_program(&task, self.rules, &data.training.specs(), self.site)
    }
}

struct Run<'a> {
    training: &'a Training,
    backend: &'a Backend,
    stop: &'a AtomicBool,
    watch: &'a mut dyn FnMut(&TrainEvent),
}

impl TaskVisitor for Run<'_> {
    type Output = Finished;

    fn visit<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
        self,
        task: ModelTask<M, X>,
        data: Datasets,
    ) -> Result<Finished, Error> {
        let Run { training, backend, stop, watch } = self;
        training.telemetry.watch_data(data.remote.as_ref());
        let _egress = data.remote.as_ref().filter(|_| backend.rank() == 0).map(warn_of_egress);
        let state = trace::shapes_of(&(), |()| task.init())?;
        let parameters = state.params.num_parameters();
        let shapes = sharded_shapes(&state.params, &state.carried);
        let sharding =
            training.rules.as_ref().map(|rules| StateSharding::new(backend, rules, shapes, &data.training.specs()));
        let evaluation = training.config.train.eval_every.is_some().then_some(data.evaluation);
        let protection = training.config.train.protection(&training.beside)?;
        let description = training.description()?;
        let options = TrainOptions { protection, profile: training.profile()?, description, ..training.options() };
        let trainer = Trainer::new(backend, task, options).on(sharding.transpose()?);
        training.describe(backend, trainer.tokens_per_step());
        let audit = TrainingAudit::new(training.audit_log(), training.folder(), backend.rank());
        audit.started(training.config.train.steps, backend.world_size());
        let mut heard = |event: &TrainEvent| {
            audit.hear(event);
            watch(event);
        };
        let trained = trainer.train(data.training, evaluation, stop, &mut heard);
        audit.ended(trained.as_ref().map(|trained| (trained.step, trained.ended)));
        let trained = trained?;
        if let (Some(lora), Some(pretrained), Some(state)) =
            (&training.config.lora, &training.pretrained, &trained.state)
            && trained.ended == Ended::Finished
        {
            let adapters = state.ema.as_ref().unwrap_or(&state.params).to_literals()?.into_iter().collect();
            let folders = AdapterFolders {
                adapter: training.local_folder().map(|folder| folder.join("adapter")),
                merged: lora.merged.as_ref().map(|folder| training.beside.join(folder)),
            };
            if backend.rank() == 0 {
                pretrained.write_adapters(&training.model, &lora.adapters(), &adapters, &folders)?;
            }
        }
        Ok(Finished {
            parameters,
            first_step: trained.first_step,
            step: trained.step,
            ended: trained.ended,
            last: trained.last,
            compilations: trained.compilations,
        })
    }
}
