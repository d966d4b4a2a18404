//! `tpu train`: train a model described by a file, with checkpoints; run again, it goes on where it ended.

mod config;
mod data;
mod find_batch;
mod generate;
mod measured;
mod mesh;
mod model;
mod notice;
mod planned;
mod pretrained;
mod processes;
mod steps;
mod task;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nn::models::{Gpt2, LanguageModel, Llama, Phase, ResNet, Statistics, Vit};
use nn::{CrossEntropy, Placement, hf};
use runtime::Backend;
use runtime::config::Config;
use runtime::distributed::MultiHostConfig;
use runtime::mesh::site_of;
use runtime::trainer::{Ended, Event, Measured, Measures, TrainOptions, Trainer};
use serde::Serialize;
use tensor::DType;
use trace::{Key, Tensor, Tree};
use weights::Keep;

use self::config::TrainConfig;
use self::data::Datasets;
use self::model::{ModelConfig, TokenSizes};
use self::notice::Notices;
use self::pretrained::Pretrained;
use self::task::ModelTask;
use super::run::{isolate_again, isolate_again_among, must_isolate};
use crate::args::TrainArgs;
use crate::commands;
use crate::commands::compile::write_file;
use crate::failure::{Answer, Failure};
use crate::output::Output;

pub(crate) use generate::run as generate;
pub(crate) use measured::program_of;
pub(crate) use planned::Planned;

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    device: String,
    platform: String,
    parameters: u64,
    first_step: u64,
    step: u64,
    ended: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    /// What was measured on data held back.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    evaluation: BTreeMap<String, f64>,
    step_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mfu: Option<f64>,
    compilations: usize,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoints: Option<String>,
}

pub(crate) fn run(args: &TrainArgs, output: &Output) -> Result<Answer, Failure> {
    let mut config = TrainConfig::read(&args.file, &args.with)?;
    let beside = args.file.parent().unwrap_or(Path::new("")).to_path_buf();
    let pretrained = Pretrained::resolve(&mut config, &beside)?;
    let model = ModelConfig::read(&config.model, &beside)?;
    let mut device = commands::config::as_written(&args.config, args.device.as_deref())?;
    let placement = mesh::placement(&config.mesh, args)?;
    let together = processes::configured(args)?;
    if let Some(devices) = processes::devices_here(placement.as_ref(), together.as_ref())? {
        device = device.cpu_devices(devices);
    }
    // The TPU compiler has a process of its own in any case.
    if args.slice.is_none() && must_isolate(&device.device) {
        return match &together {
            Some(together) => isolate_again_among(&device, together),
            None => isolate_again(),
        };
    }
    let setting = Setting { config: &config, args, beside, device, placement, together, output, pretrained };
    let options = config.run.clone();
    match model {
        ModelConfig::Language(hf::ModelConfig::Gpt2(sizes)) => {
            let of = TokenSizes::of(&hf::ModelConfig::Gpt2(sizes.clone()));
            setting.language(&of, move |key| Gpt2::init(key, &sizes, &options))
        }
        ModelConfig::Language(hf::ModelConfig::Llama(sizes)) => {
            let of = TokenSizes::of(&hf::ModelConfig::Llama(sizes.clone()));
            setting.language(&of, move |key| Llama::init(key, &sizes, &options))
        }
        ModelConfig::Vit(sizes) => {
            let data = config.images(&setting.beside, sizes.num_channels, sizes.num_classes)?;
            setting.image(
                data,
                move |key| (Vit::init(key, &sizes, &options), ()),
                |model, (), images, key| (model.apply(images, key), ()),
            )
        }
        ModelConfig::ResNet(sizes) => {
            let data = config.images(&setting.beside, sizes.num_channels, sizes.num_classes)?;
            let init = move |key: &Key| ResNet::init(key, &sizes);
            setting.image(data, init, |model, statistics: &Statistics, images, key| {
                let phase = if key.is_some() { Phase::Training } else { Phase::Inference };
                model.apply(images, statistics, phase)
            })
        }
    }
}

/// What a training is set up from.
struct Setting<'a> {
    config: &'a TrainConfig,
    args: &'a TrainArgs,
    beside: PathBuf,
    device: Config,
    placement: Option<Placement>,
    together: Option<MultiHostConfig>,
    output: &'a Output,
    /// The weights it starts from.
    pretrained: Option<Pretrained>,
}

impl Setting<'_> {
    /// Where checkpoints, metrics and tokens go.
    fn folder(&self) -> Option<String> {
        self.args.folder.clone().or_else(|| self.config.train.folder.clone())
    }

    /// The folder, if it is on this machine.
    fn local_folder(&self) -> Option<PathBuf> {
        self.folder().filter(|folder| !folder.contains("://")).map(PathBuf::from)
    }

    fn language<M: LanguageModel + 'static>(
        &self,
        sizes: &TokenSizes,
        init: impl Fn(&Key) -> M + 'static,
    ) -> Result<Answer, Failure> {
        let vocabulary = u32::try_from(sizes.vocabulary).unwrap_or(u32::MAX);
        let cache = self.local_folder().unwrap_or_else(std::env::temp_dir).join("tokens");
        let (data, sequence) = self.config.tokens(&self.beside, vocabulary, &cache)?;
        if sequence > sizes.positions {
            let message = format!("data.sequence is {sequence}, the model knows {} positions", sizes.positions);
            return Err(Failure::new(message).hint("shorten the sequence, or give the model more positions"));
        }
        let task = ModelTask::language(self.config, sizes, sequence, init);
        let given = self.pretrained.as_ref().map(Pretrained::given);
        self.train(data, ModelTask { given, ..task })
    }

    fn image<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
        &self,
        data: Datasets,
        init: impl Fn(&Key) -> (M, X) + 'static,
        apply: impl Fn(&M, &X, &Tensor, Option<&Key>) -> (Tensor, X) + Clone + 'static,
    ) -> Result<Answer, Failure> {
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
        self.train(data, ModelTask::new(self.config, init, loss, accuracy, (self.config.train.batch, None)))
    }

    /// A slice with the devices of the mesh.
    fn slice_of_the_mesh(&self) -> String {
        let mesh = self.placement.as_ref().map(|placement| &placement.layout().mesh);
        let (slices, devices) = mesh.map_or((1, 8), |mesh| (mesh.num_slices().max(1), mesh.num_devices()));
        let times = if slices > 1 { format!("{slices}x") } else { String::new() };
        format!("{times}v6e-{}", devices / slices)
    }

    fn train<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
        &self,
        data: Datasets,
        task: ModelTask<M, X>,
    ) -> Result<Answer, Failure> {
        if self.args.find_batch {
            if self.placement.is_some() && self.args.slice.is_none() {
                return Err(Failure::new("batches on a mesh are compiled for a slice, not measured here")
                    .hint("name the slice with --slice, or leave the mesh out"));
            }
            return find_batch::run(self, &data, task);
        }
        let train = &self.config.train;
        let options = TrainOptions {
            log_every: train.log_every,
            evaluate_every: train.evaluate_every,
            evaluate_batches: train.evaluate_batches,
            checkpoints: self.folder().map(|folder| format!("{}/checkpoints", folder.trim_end_matches('/'))),
            save_every: train.save_every,
            keep: Keep::newest(train.keep),
            metrics: self.local_folder().map(|folder| folder.join("metrics")),
            description: self.config.description(),
            ..TrainOptions::new(train.steps)
        };
        let checkpoints = options.checkpoints.clone();
        if let Some(file) = &self.args.export {
            let slice = self.args.slice.as_ref().map(|slice| slice.parse::<chips::Slice>()).transpose()?;
            let site = slice.as_ref().map(site_of).unwrap_or_default();
            let batch = data.training.specs();
            let (program, parameters) = mesh::step_program(&task, self.placement.as_ref(), &batch, &site)?;
            write_file(file, program.bytes())?;
            let slice = slice.map_or_else(|| self.slice_of_the_mesh(), |slice| slice.to_string());
            let file = file.display();
            let text =
                format!("training step of {parameters} parameters in {file}\nnext: tpu fit {file} --slice {slice}\n");
            let file = file.to_string();
            self.output
                .record(&serde_json::json!({ "version": 1, "parameters": parameters, "program": file }), || text)?;
            return Ok(Answer::Yes);
        }
        let session = self.together.as_ref().map(processes::join).transpose()?;
        let backend = match &session {
            None => Backend::auto(&self.device)?,
            Some(session) => Backend::in_session(session, &self.device)?,
        };
        let placement = self.placement.as_ref();
        let batch = data.training.specs();
        let on = placement.map(|placement| mesh::train_mesh(&backend, &task, placement, &batch)).transpose()?;
        let trainer = Trainer::new(&backend, task, options).on(on);
        let parameters = trainer.state_structure()?.params.num_parameters();
        let stop = crate::stop::on_signal();
        let notices = Notices::wait(self.args.preemption_notice, &stop);
        let started = Instant::now();
        let mut shown = Shown::new(train.steps);
        let evaluation = train.evaluate_every.is_some().then_some(data.evaluation);
        let trained = trainer.train(data.training, evaluation, &stop, &mut |event| shown.hear(event));
        if let (Err(_), Some(session)) = (&trained, &session) {
            session.abandon();
        }
        let trained = trained?;
        shown.end();
        if let Some(session) = session {
            if matches!(trained.ended, Ended::Stopped) {
                let hint = "started again, all processes go on from the last checkpoint";
                return Err(Failure::new("this process was stopped, and the others with it").hint(hint));
            }
            // Process 0 has written the last checkpoint when it comes here.
            session.finish()?;
        }
        let last = trained.last.clone().unwrap_or_default();
        let notice = notices.heard().filter(|_| trained.ended == Ended::Stopped);
        let record = Record {
            version: 1,
            device: backend.device().kind.clone(),
            platform: backend.platform().to_string(),
            parameters,
            first_step: trained.first_step,
            step: trained.step,
            ended: match trained.ended {
                Ended::Finished => "finished",
                Ended::Stopped if notice.is_some() => "preempted",
                Ended::Stopped => "stopped",
                Ended::Diverged { .. } => "diverged",
            },
            loss: last.loss(),
            evaluation: shown.evaluation.clone(),
            step_seconds: last.step_seconds,
            tokens_per_second: last.tokens_per_second,
            mfu: last.mfu,
            compilations: trained.compilations,
            seconds: started.elapsed().as_secs_f64(),
            checkpoints,
        };
        self.output.record(&record, || text(&record))?;
        match trained.ended {
            Ended::Diverged { step } => {
                eprintln!("the loss is no number since step {step}; the last good checkpoint was kept");
                eprintln!("hint: lower the learning rate, clip gradients, or keep more in f32");
                Ok(Answer::No)
            }
            _ => match notice {
                Some(notice) => {
                    let saved =
                        if record.checkpoints.is_some() { "what was learned is saved" } else { "nothing is saved" };
                    eprintln!("{notice}: stopped after step {}, {saved}", record.step);
                    eprintln!("hint: run the same command again to go on, on this machine or another");
                    Ok(Answer::Preempted)
                }
                None => Ok(Answer::Yes),
            },
        }
    }
}

fn text(record: &Record) -> String {
    let mut text = format!(
        "{} parameters on {} ({})\nsteps {} to {}, {} in {:.1} s\n",
        record.parameters, record.device, record.platform, record.first_step, record.step, record.ended, record.seconds
    );
    if let Some(loss) = record.loss {
        text.push_str(&format!("loss {loss:.4}"));
        if let Some(held_back) = record.evaluation.get("loss") {
            text.push_str(&format!(", on data held back {held_back:.4}"));
        }
        if let Some(accuracy) = record.evaluation.get("accuracy") {
            text.push_str(&format!(", {:.1} % right", accuracy * 100.0));
        }
        text.push('\n');
    }
    if let Some(rate) = record.tokens_per_second {
        text.push_str(&format!("{:.1} ms a step, {rate:.0} tokens/s", record.step_seconds * 1e3));
        if let Some(mfu) = record.mfu {
            text.push_str(&format!(", MFU {:.1} %", mfu * 100.0));
        }
        text.push('\n');
    }
    if let Some(folder) = &record.checkpoints {
        text.push_str(&format!("checkpoints in {folder}\n"));
    }
    text
}

/// Progress on standard error: a bar on a terminal, lines elsewhere.
struct Shown {
    steps: u64,
    is_terminal: bool,
    evaluation: BTreeMap<String, f64>,
}

impl Shown {
    fn new(steps: u64) -> Shown {
        Shown { steps, is_terminal: std::io::stderr().is_terminal(), evaluation: BTreeMap::new() }
    }

    fn say(&self, line: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        let _ = writeln!(std::io::stderr(), "{clear}{line}");
    }

    fn hear(&mut self, event: &Event) {
        match event {
            Event::Compiling(what) if self.is_terminal => {
                let _ = write!(std::io::stderr(), "\r\x1b[Kcompiling {what} …");
            }
            Event::Resumed(step) => self.say(&format!("going on from step {step}")),
            Event::Damaged(step, message) => {
                self.say(&format!("warning: the checkpoint of step {step} is damaged: {message}"))
            }
            Event::Step(measured) => self.step(measured),
            Event::Evaluated(measured) => {
                self.evaluation = measured.values.clone();
                let values: Vec<String> =
                    measured.values.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
                self.say(&format!("step {}: on data held back {}", measured.step, values.join(", ")));
            }
            Event::SaveFailed(message) => self.say(&format!("warning: a checkpoint was not saved: {message}")),
            _ => {}
        }
    }

    fn step(&self, measured: &Measured) {
        let mut line = format!("step {}/{}", measured.step, self.steps);
        for (name, value) in &measured.values {
            line.push_str(&match name.as_str() {
                "learning_rate" => format!("  lr {value:.2e}"),
                _ => format!("  {name} {value:.4}"),
            });
        }
        line.push_str(&format!("  {:.1} ms/step", measured.step_seconds * 1e3));
        if let Some(rate) = measured.tokens_per_second {
            line.push_str(&format!("  {rate:.0} tokens/s"));
        }
        if let Some(mfu) = measured.mfu {
            line.push_str(&format!("  MFU {:.1} %", mfu * 100.0));
        }
        if self.is_terminal {
            let filled = (measured.step * 20 / self.steps.max(1)) as usize;
            let bar: String = (0..20).map(|n| if n < filled { '█' } else { '░' }).collect();
            let left = (self.steps - measured.step.min(self.steps)) as f64 * measured.step_seconds;
            let _ = write!(std::io::stderr(), "\r\x1b[K{bar} {line}  {left:.0} s left");
        } else {
            self.say(&line);
        }
    }

    fn end(&self) {
        if self.is_terminal {
            let _ = writeln!(std::io::stderr());
        }
    }
}
