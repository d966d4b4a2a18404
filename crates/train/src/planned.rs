//! A model that `tpu plan` explores: its step of training or inference written for any mesh, batch, precision and choice of what
//! is kept.

use std::path::{Path, PathBuf};

use nn::quant::QuantScheme;
use nn::{DTypePolicy, RematPolicy, ShardingRules, Strategy, hf};
use plan::search::{
    ModelAxis, ModelChoice, ModelFigures, ModelSource, ModelStep, Plan, Quantization, Variant, choice_of,
};
use trace::Mesh;

use crate::config::{DataConfig, TrainConfig};
use crate::error::Error;
use crate::model::{TokenSizes, TrainModelConfig};
use crate::planned_quant::{PlannedCache, PlannedWeights};
use crate::step::{PlannedStepKind, StepShape};

/// Tokens of a sequence where nobody says how many.
const SEQUENCE: usize = 8192;
/// Logits computed at a time for the loss, in positions, where nobody says.
const LOSS_CHUNK_SIZE: usize = 16384;

/// What is asked of a model: which step, how long, in which types.
#[derive(Clone, Debug, Default)]
pub struct PlannedStep {
    /// Training or inference.
    pub step: PlannedStepKind,
    /// Sequence length in tokens; that of the file, or the usual one, if absent.
    pub sequence_length: Option<usize>,
    /// Precisions that may be chosen; that of the file where there are none.
    pub precisions: Vec<DTypePolicy>,
    /// Weights of inference that may be chosen; dense ones where there are none.
    pub weights: Vec<PlannedWeights>,
    /// The LM head beside quantized weights; dense if absent.
    pub lm_head: Option<QuantScheme>,
    /// KV caches that may be chosen; that of the file where there are none.
    pub kv_caches: Vec<PlannedCache>,
}

/// A training file, or a `config.json` with the usual settings.
#[derive(Clone, Debug)]
pub struct Planned {
    config: TrainConfig,
    model: hf::ModelConfig,
    file: PathBuf,
    sequence: usize,
    step: PlannedStepKind,
    /// Precisions that may be chosen.
    precisions: Vec<DTypePolicy>,
    /// What may be of few bits.
    quantizations: Vec<Quantization>,
}

impl Planned {
    /// Whether a file is a model or a training, not a program.
    pub fn is_model(path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == "toml" || extension == "json")
    }

    /// Reads a training's TOML, or the `config.json` of a model.
    pub fn read(path: &Path, asked: &PlannedStep) -> Result<Planned, Error> {
        let step = asked.step;
        let is_training = path.extension().is_some_and(|extension| extension == "toml");
        let beside = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut config = if is_training { TrainConfig::read(path, &[])? } else { usual(path)? };
        // Every plan has a batch of its own, so any that can be accumulated does here.
        config.set_batch(config.train.gradient_accumulation_steps.max(1))?;
        let TrainModelConfig::Language(model) =
            TrainModelConfig::read(&config.model, if is_training { &beside } else { Path::new("") })?
        else {
            return Err(Error::new("only language models can be planned from a training file")
                .hint("write the step with `tpu train --export` and plan that program"));
        };
        let positions = TokenSizes::of(&model).positions;
        let written = match &config.data.source {
            DataConfig::Text { sequence_length, .. }
            | DataConfig::Tokens { sequence_length, .. }
            | DataConfig::Synthetic { sequence_length } => *sequence_length,
            _ => SEQUENCE.min(positions),
        };
        let sequence = asked.sequence_length.unwrap_or(if is_training { written } else { SEQUENCE.min(positions) });
        if sequence == 0 || sequence > positions {
            return Err(Error::new(format!(
                "the sequence length is {sequence}, but the model has {positions} positions"
            ))
            .hint("choose --sequence-length between 1 and the model's positions"));
        }
        let precisions = match (&asked.precisions[..], step) {
            ([], PlannedStepKind::Training) => vec![config.run.precision],
            ([], PlannedStepKind::Prefill | PlannedStepKind::Decode) => vec![DTypePolicy::Bf16],
            (named, _) => named.to_vec(),
        };
        if step != PlannedStepKind::Training
            && let Some(precision) = precisions.iter().find(|precision| precision.matmul() != precision.compute())
        {
            return Err(Error::new(format!(
                "{precision} is a precision of training; inference has f32, mixed and bf16"
            ))
            .hint("--weights chooses weights of few bits"));
        }
        let is_asked = !asked.weights.is_empty() || !asked.kv_caches.is_empty() || asked.lm_head.is_some();
        if step == PlannedStepKind::Training && is_asked {
            return Err(Error::new("--weights, --lm-head and --kv-cache are for inference; this is a training step")
                .hint("add --step prefill or --step decode"));
        }
        let quantizations = crate::planned_quant::all(&asked.weights, asked.lm_head, &asked.kv_caches);
        Ok(Planned { config, model, file: path.to_path_buf(), sequence, step, precisions, quantizations })
    }

    /// The source of programs for a search.
    pub fn source(&self) -> Result<ModelSource<'_>, Error> {
        let sizes = TokenSizes::of(&self.model);
        let heads = match &self.model {
            hf::ModelConfig::Gpt2(config) => config.n_head,
            hf::ModelConfig::Llama(config) => match &config.experts {
                Some(experts) => experts.count,
                None => config.num_key_value_heads,
            },
            hf::ModelConfig::Gemma4(config) => match &config.experts {
                Some(experts) => experts.count,
                None => config.sliding.num_key_value_heads,
            },
        };
        // Without a backward pass a third of the operations.
        let (tokens, of_weight, of_pair) = match self.step {
            PlannedStepKind::Training => (self.sequence, 6, 12),
            PlannedStepKind::Prefill => (self.sequence, 2, 4),
            PlannedStepKind::Decode => (1, 2, 4),
        };
        let flops = sizes.flops_per_token(self.sequence) * tokens as f64 * f64::from(of_weight) / 6.0;
        let figures = ModelFigures {
            tokens_per_sample: tokens as u64,
            model_flops_per_sample: flops,
            convention: format!(
                "{of_weight} operations for each weight a token passes and {of_pair} for each pair of positions and element of a \
                 query, not halved for the causal mask"
            ),
            max_model_parts: 1 << heads.trailing_zeros().min(16),
            model_axis: match sizes.expert_share {
                0.0 => ModelAxis::Tensor,
                share => ModelAxis::Experts { share },
            },
            max_context_parts: match self.step {
                PlannedStepKind::Training => parts_of(self.sequence),
                PlannedStepKind::Prefill | PlannedStepKind::Decode => 1,
            },
        };
        // What is costly to recompute and small beside it; attention is neither kept nor cheap.
        let host = ["layer_input", "query", "key", "value", "attention_output"].map(String::from).to_vec();
        let offload = RematPolicy::Offload { host, device: Vec::new() };
        let remats = match self.step {
            PlannedStepKind::Training => {
                [RematPolicy::Full, RematPolicy::DotsWithNoBatchDims, RematPolicy::None, offload].map(Some).to_vec()
            }
            PlannedStepKind::Prefill | PlannedStepKind::Decode => vec![None],
        };
        let mut variants: Vec<Variant> = Vec::new();
        for &types in &self.precisions {
            for quantization in &self.quantizations {
                let of = |remat: &Option<RematPolicy>| Variant {
                    remat: remat.clone(),
                    types,
                    quantization: quantization.clone(),
                };
                variants.extend(remats.iter().map(of));
            }
        }
        let write = |choice: &ModelChoice| {
            self.step(choice).map_err(|failure| format!("{}: {}", self.file.display(), compile::with_causes(&failure)))
        };
        Ok(ModelSource::new(Box::new(write), &figures, &variants)?)
    }

    /// What a plan's bits cost in quality, and what others would save.
    pub fn notes(&self, best: Option<&Plan>) -> Vec<String> {
        if self.is_training() {
            return crate::planned_quant::training_notes(best, &self.precisions);
        }
        crate::planned_quant::notes(best, &self.quantizations)
    }

    /// Whether a plan of it is a training.
    pub fn is_training(&self) -> bool {
        self.step == PlannedStepKind::Training
    }

    /// The training as a choice has it.
    fn chosen(&self, choice: &ModelChoice) -> TrainConfig {
        let mut config = self.config.clone();
        config.train.batch_size = usize::try_from(choice.batch).unwrap_or(usize::MAX);
        config.run.precision = choice.variant.types;
        config.slices = usize::try_from(choice.slices.max(1)).unwrap_or(usize::MAX);
        if let Some(remat) = &choice.variant.remat {
            config.run.remat = remat.clone();
        }
        config
    }

    fn step(&self, choice: &ModelChoice) -> Result<ModelStep, Error> {
        let mut config = self.chosen(choice);
        let rules = self.mesh(choice)?.map(|mesh| ShardingRules::new(&mesh, Strategy::Hybrid)).transpose();
        let rules = rules?;
        let quantization = &choice.variant.quantization;
        config.run.kv_cache = match &quantization.kv_cache {
            Some(word) => word.parse::<PlannedCache>()?.0,
            None => config.run.kv_cache,
        };
        let weights = match &quantization.weights {
            Some(word) => word.parse::<PlannedWeights>()?.0,
            None => None,
        };
        let lm_head = match &quantization.lm_head {
            Some(word) => word.parse::<PlannedWeights>()?.0,
            None => None,
        };
        let (step, sequence) = (self.step, self.sequence);
        StepShape { step, config: &config, sequence, rules: rules.as_ref(), weights, lm_head }.of(&self.model)
    }

    /// The mesh of a choice: experts take the place of `model` where there are any.
    fn mesh(&self, choice: &ModelChoice) -> Result<Option<Mesh>, Error> {
        let inner = match &self.model {
            hf::ModelConfig::Llama(config) if config.experts.is_some() => "expert",
            hf::ModelConfig::Gemma4(config) if config.experts.is_some() => "expert",
            _ => "model",
        };
        let slices = choice.slices.max(1);
        let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let axes = [
            ("data", choice.mesh.data / slices),
            ("fsdp", choice.mesh.fsdp),
            ("context", choice.mesh.context),
            (inner, choice.mesh.model),
        ];
        let axes: Vec<(&str, usize)> =
            axes.into_iter().filter(|(_, count)| *count > 1).map(|(name, count)| (name, size(count))).collect();
        if axes.is_empty() && slices == 1 {
            return Ok(None);
        }
        let wrong = |error: trace::Error| Error::new(error.to_string());
        let mesh = Mesh::new(axes).map_err(wrong)?;
        let mesh = if slices > 1 { mesh.across_slices([("replica", size(slices))]).map_err(wrong)? } else { mesh };
        Ok(Some(mesh))
    }

    /// The command that trains by a plan.
    pub fn command(&self, plan: &Plan, written: Option<&Path>) -> Result<String, Error> {
        let choice = choice_of(&plan.candidate);
        let is_training = self.file.extension().is_some_and(|extension| extension == "toml");
        let file = match (written, is_training) {
            (Some(written), _) => written.display().to_string(),
            (None, true) => self.file.display().to_string(),
            (None, false) => "TRAIN.toml".into(),
        };
        let mut command = format!("tpu train {file}");
        if written.is_none() {
            if let Some(mesh) = self.mesh(&choice)? {
                command.push_str(&format!(" --mesh {mesh} --strategy hybrid"));
            }
            let run = self.chosen(&choice).run;
            let remat = toml::Value::try_from(&run.remat).map_or_else(|_| String::new(), |remat| remat.to_string());
            command.push_str(&format!(" --with train.batch_size={} --with 'run.remat={remat}'", plan.batch));
            if run.precision != self.config.run.precision {
                command.push_str(&format!(" --with run.precision={}", run.precision));
            }
        }
        let flags = plan.candidate.compiler_flags();
        if !flags.is_empty() {
            let flags: Vec<String> = flags.iter().map(|(name, value)| format!("{name}={value}")).collect();
            command.push_str(&format!(" --set 'xla_flags={}'", flags.join(" ")));
        }
        if written.is_none() && !is_training {
            command.push_str("   (`tpu plan … --out TRAIN.toml` writes that file, with everything in it)");
        }
        Ok(command)
    }

    /// The command that serves a model by a plan of its decode step; `None` for other steps.
    pub fn serving(&self, plan: &Plan) -> Result<Option<String>, Error> {
        if self.step != PlannedStepKind::Decode {
            return Ok(None);
        }
        let choice = choice_of(&plan.candidate);
        let beside = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = beside.unwrap_or(Path::new(".")).display();
        let mut command = format!("tpu serve {folder} --batch {} --max-length {}", plan.batch, self.sequence);
        if let Some(mesh) = self.mesh(&choice)? {
            command.push_str(&format!(" --mesh {mesh}"));
        }
        command.push_str(&format!(" --precision {}", choice.variant.types));
        let quantization = &choice.variant.quantization;
        let cache = quantization.kv_cache.as_deref().map(str::parse::<PlannedCache>).transpose()?;
        if let (Some(PlannedCache(Some(_))), Some(word)) = (cache, &quantization.kv_cache) {
            command.push_str(&format!(" --kv-cache {word}"));
        }
        let weights = quantization.weights.as_deref().map(str::parse::<PlannedWeights>).transpose()?;
        if matches!(weights, Some(PlannedWeights(Some(_)))) {
            command.push_str("   (after `tpu quantize`, which writes such weights)");
        }
        Ok(Some(command))
    }

    /// The training of a plan as a file.
    pub fn training(&self, plan: &Plan) -> Result<String, Error> {
        let choice = choice_of(&plan.candidate);
        let mut config = self.chosen(&choice);
        config.mesh.axes = self.mesh(&choice)?.map(|mesh| mesh.to_string());
        config.mesh.strategy = config.mesh.axes.as_ref().map(|_| Strategy::Hybrid);
        if let DataConfig::Synthetic { sequence_length } = &mut config.data.source {
            *sequence_length = self.sequence;
        }
        toml::to_string(&config).map_err(|error| Error::new(format!("the training file cannot be written: {error}")))
    }
}

/// Parts that sequences may be split into: powers of two that leave a part long enough to be worth the exchange.
fn parts_of(sequence: usize) -> u64 {
    const SHORTEST: usize = 4096;
    let parts = (sequence / SHORTEST).max(1).ilog2();
    1 << parts.min(sequence.trailing_zeros())
}

/// The usual training of a model: mixed precision, AdamW, a cosine; data is to be filled in.
fn usual(path: &Path) -> Result<TrainConfig, Error> {
    let text = format!(
        "[model]\nconfig = {:?}\n\n[run]\nprecision = \"mixed\"\nloss_chunk_size = {LOSS_CHUNK_SIZE}\n\n[data]\nkind = \"synthetic\"\n\
         sequence_length = {SEQUENCE}\n\n[optimizer]\nname = \"adamw\"\nlearning_rate = {{ kind = \"cosine\", peak_value = 3e-4, \
         warmup_steps = 2000, total_steps = 100000, end_value = 3e-5 }}\nweight_decay = 0.1\n\n[train]\nsteps = 100000\nbatch_size = 1\nmax_grad_norm = 1.0\n",
        path.display().to_string()
    );
    toml::from_str(&text).map_err(|error| Error::new(format!("{}: {error}", path.display())))
}
