//! `tpu train`: train a model described by a file, with checkpoints; run again, it goes on where it ended.

mod config;
mod data;
mod generate;
mod task;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nn::models::{Gpt2, LanguageModel};
use runtime::Backend;
use runtime::config::Source;
use runtime::optimize::Level;
use runtime::trainer::{Ended, Event, Measured, TrainOptions, Trainer};
use serde::Serialize;
use trace::{Key, Tree};
use weights::Keep;

use self::config::{DataConfig, ModelConfig, TrainConfig};
use self::task::LanguageTask;
use super::run::{isolate_again, must_isolate};
use crate::args::TrainArgs;
use crate::commands;
use crate::failure::{Answer, Failure};
use crate::output::Output;

pub(crate) use generate::run as generate;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    evaluation_loss: Option<f64>,
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
    let config = TrainConfig::read(&args.file, &args.with)?;
    let effective = commands::config::resolve(&args.config, args.device.as_deref())?;
    let chosen = effective.source("optimization") != Source::Default;
    let mut device = effective.config;
    if !chosen {
        // The model says itself what is computed in which type.
        device.optimization = Level::None;
    }
    if must_isolate(&device.device) {
        return isolate_again();
    }
    let backend = Backend::auto(&device)?;
    let training = Setting { config: &config, args, backend: &backend };
    match &config.model {
        ModelConfig::Gpt2(model) => {
            let (model, options) = (model.clone(), config.run.clone());
            let sizes = Sizes {
                vocabulary: model.vocab_size,
                positions: Some(model.n_positions),
                width: model.n_embd,
                attention: model.n_layer * model.n_embd,
            };
            training.language(sizes, output, move |key| Gpt2::init(key, &model, &options))
        }
    }
}

/// What a model of token sequences can read.
struct Sizes {
    vocabulary: usize,
    positions: Option<usize>,
    width: usize,
    /// Width of all heads of all layers.
    attention: usize,
}

impl Sizes {
    /// Operations of training on a token: 6 for each weight of the layers and of the head, 12 for each position attended
    /// to and each element of its key; attention is not halved for the causal mask, recomputation not counted.
    fn flops_per_token<M: Tree>(&self, model: &M, sequence: usize) -> f64 {
        let mut weights = self.vocabulary * self.width;
        model.visit(&mut trace::Path::default(), &mut |path, leaf| {
            if nn::is_stacked(path.as_str()) && leaf.rank() > 2 {
                weights += leaf.num_elements();
            }
        });
        6.0 * weights as f64 + 12.0 * (self.attention * sequence) as f64
    }
}

struct Setting<'a> {
    config: &'a TrainConfig,
    args: &'a TrainArgs,
    backend: &'a Backend,
}

impl Setting<'_> {
    /// Where checkpoints, metrics and tokens go.
    fn folder(&self) -> Option<String> {
        self.args.folder.clone().or_else(|| self.config.train.folder.clone())
    }

    fn language<M: LanguageModel + 'static>(
        &self,
        sizes: Sizes,
        output: &Output,
        model: impl Fn(&Key) -> M + 'static,
    ) -> Result<Answer, Failure> {
        let config = self.config;
        let sequence = match &config.data {
            DataConfig::Text { sequence, .. }
            | DataConfig::Tokens { sequence, .. }
            | DataConfig::Synthetic { sequence } => *sequence,
        };
        if let Some(positions) = sizes.positions.filter(|&positions| sequence > positions) {
            let message = format!("data.sequence is {sequence}, the model knows {positions} positions");
            return Err(Failure::new(message).hint("shorten the sequence, or give the model more positions"));
        }
        let beside = self.args.file.parent().unwrap_or(Path::new("")).to_path_buf();
        let folder = self.folder();
        let local = folder.as_ref().filter(|folder| !folder.contains("://")).map(PathBuf::from);
        let cache = local.clone().unwrap_or_else(std::env::temp_dir).join("tokens");
        let vocabulary = u32::try_from(sizes.vocabulary).unwrap_or(u32::MAX);
        let data = data::open(config, &beside, vocabulary, &cache)?;

        let shapes =
            trace::shapes_of(&(), |()| model(&Key::from_seed(&trace::Tensor::scalar(tensor::DType::U32, 0.0))))
                .map_err(runtime::Error::from)?;
        let parameters = shapes.num_parameters();
        let task = LanguageTask {
            model: Box::new(model),
            optimizer: config.optimizer.clone(),
            options: config.step_options(),
            seed: config.train.seed,
            tokens_per_step: (config.train.batch * sequence) as u64,
            flops_per_token: Some(sizes.flops_per_token(&shapes, sequence)),
        };
        let train = &config.train;
        let options = TrainOptions {
            log_every: train.log_every,
            evaluate_every: train.evaluate_every,
            evaluate_batches: train.evaluate_batches,
            checkpoints: folder.as_ref().map(|folder| format!("{}/checkpoints", folder.trim_end_matches('/'))),
            save_every: train.save_every,
            keep: Keep::newest(train.keep),
            metrics: local.map(|folder| folder.join("metrics")),
            description: config.description(),
            ..TrainOptions::new(train.steps)
        };
        let checkpoints = options.checkpoints.clone();
        let stop = crate::stop::on_signal();
        let started = Instant::now();
        let mut shown = Shown::new(train.steps);
        let evaluation = train.evaluate_every.is_some().then_some(data.evaluation);
        let trainer = Trainer::new(self.backend, task, options);
        let trained = trainer.train(data.training, evaluation, &stop, &mut |event| shown.hear(event))?;
        shown.end();
        let ended = match trained.ended {
            Ended::Finished => "finished",
            Ended::Stopped => "stopped",
            Ended::Diverged { .. } => "diverged",
        };
        let last = trained.last.clone().unwrap_or_default();
        let record = Record {
            version: 1,
            device: self.backend.device().kind.clone(),
            platform: self.backend.platform().to_string(),
            parameters,
            first_step: trained.first_step,
            step: trained.step,
            ended,
            loss: last.loss(),
            evaluation_loss: shown.evaluation_loss,
            step_seconds: last.step_seconds,
            tokens_per_second: last.tokens_per_second,
            mfu: last.mfu,
            compilations: trained.compilations,
            seconds: started.elapsed().as_secs_f64(),
            checkpoints,
        };
        output.record(&record, || text(&record))?;
        match trained.ended {
            Ended::Diverged { step } => {
                eprintln!("the loss is no number since step {step}; the last good checkpoint was kept");
                eprintln!("hint: lower the learning rate, clip gradients, or keep more in f32");
                Ok(Answer::No)
            }
            _ => Ok(Answer::Yes),
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
        if let Some(evaluation) = record.evaluation_loss {
            text.push_str(&format!(", on held-back data {evaluation:.4}"));
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
    evaluation_loss: Option<f64>,
}

impl Shown {
    fn new(steps: u64) -> Shown {
        Shown { steps, is_terminal: std::io::stderr().is_terminal(), evaluation_loss: None }
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
                self.evaluation_loss = measured.loss();
                if let Some(loss) = measured.loss() {
                    self.say(&format!("step {}: loss on held-back data {loss:.4}", measured.step));
                }
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
