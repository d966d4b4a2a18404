//! What language models have in common: logits, a loss, generation with a KV cache, and parts of neighbouring layers.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{CompileTarget, Key, Path, RematPolicy, Spec, Tensor, Tree};

use crate::DTypePolicy;
use crate::fused::{Fused, Kernels};
use crate::layers::{AttentionImpl, CacheStart, Dispatch, KvCache, KvCacheDType};
use crate::losses::CrossEntropy;
use crate::quant::{self, MapWeights, MatmulOptions, QuantScheme, TrainingParts, in_training};
use crate::stacked::LayerIteration;

/// How a model is run; its parameters do not depend on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunOptions {
    /// Types of parameters and activations.
    pub precision: DTypePolicy,
    /// The rematerialization policy of the layers.
    pub remat: RematPolicy,
    /// The attention implementation.
    pub attention: AttentionImpl,
    /// The loss is computed in chunks of so many positions on one device, so that the logits of one chunk only are in memory; all at
    /// once if absent.
    pub loss_chunk_size: Option<usize>,
    /// How tokens are dispatched to experts, where there are any; as the model has it if absent.
    pub experts: Option<Dispatch>,
    /// Which parts are fused kernels on TPUs.
    pub kernels: Kernels,
    /// Element type of the KV cache; that of activations if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache: Option<KvCacheDType>,
    /// How the layers of a step of inference follow each other.
    #[serde(skip_serializing_if = "LayerIteration::is_default")]
    pub layers: LayerIteration,
    /// Tokens of the longest sequence of inference, where positions depend on it (LongRoPE); as many as the KV cache has if absent.
    #[serde(skip)]
    pub longest_sequence: Option<usize>,
    /// How matmuls in few bits are scaled, where the precision asks for them.
    #[serde(skip_serializing_if = "MatmulOptions::is_default")]
    pub matmul: MatmulOptions,
    /// Quantization-aware training (QAT): weights of linear layers, and activations where the scheme quantizes them, have the
    /// values of this scheme in training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qat: Option<QuantScheme>,
}

impl RunOptions {
    /// What they say of matmuls in training.
    pub fn training(&self) -> quant::TrainingPrecision<'_> {
        quant::TrainingPrecision { precision: self.precision, matmul: &self.matmul, qat: self.qat }
    }

    /// Element type of the KV cache.
    pub fn kv_cache_dtype(&self) -> DType {
        self.kv_cache.map_or(self.precision.compute(), KvCacheDType::dtype)
    }

    /// Refuses options that do not go together, and says what would do.
    pub fn check(&self) -> Result<(), String> {
        self.matmul.check(self.precision)?;
        let Some(scheme) = &self.qat else { return Ok(()) };
        if self.precision.matmul() != self.precision.compute() {
            return Err(format!(
                "run.qat = \"{scheme}\" and run.precision = \"{}\" both change matmuls: use run.precision = \"mixed\" with run.qat",
                self.precision
            ));
        }
        quant::qat::check(scheme)
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            precision: DTypePolicy::F32,
            remat: RematPolicy::None,
            attention: AttentionImpl::Auto,
            loss_chunk_size: None,
            experts: None,
            kernels: Kernels::default(),
            kv_cache: None,
            layers: LayerIteration::Auto,
            longest_sequence: None,
            matmul: MatmulOptions::default(),
            qat: None,
        }
    }
}

/// Sequences to learn from: the target of a position is usually the token that follows.
#[derive(Clone, Debug, Tree)]
pub struct TokenBatch {
    /// `i32 [batch, positions]`.
    pub tokens: Tensor,
    /// `i32 [batch, positions]`.
    pub targets: Tensor,
}

impl TokenBatch {
    /// A batch known by its shape.
    pub fn shape(batch: usize, positions: usize) -> TokenBatch {
        let tokens = Tensor::of(Spec::new(DType::I32, [batch, positions]));
        TokenBatch { targets: tokens.clone(), tokens }
    }

    /// Of sequences `[batch, positions + 1]`: each position is to predict the next.
    #[track_caller]
    pub fn of_sequences(sequences: &Tensor) -> TokenBatch {
        let last = sequences.dim(1);
        TokenBatch {
            tokens: sequences.slice(1, 0..last.saturating_sub(1)),
            targets: sequences.slice(1, 1.min(last)..last),
        }
    }
}

/// Activations that stand for those of some tokens, such as what a tower made of an image.
#[derive(Clone, Debug, Tree)]
pub struct GivenStates {
    /// `f32 [batch, positions, width]`.
    pub states: Tensor,
    /// `i1 [batch, positions]`: where they count.
    pub is_given: Tensor,
}

impl GivenStates {
    /// Embeddings of tokens, but where others are given.
    #[track_caller]
    pub(crate) fn put_into(&self, embedded: &Tensor) -> Tensor {
        let is_given = self.is_given.expand(-1).broadcast_to(embedded.dims());
        is_given.select(&self.states.cast(embedded.dtype()), embedded)
    }
}

/// Neighbouring layers of a model, such as those of a pipeline stage. The first part embeds tokens, the last one has the LM head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPart {
    /// Numbers of its layers.
    pub layers: Range<usize>,
    /// Layers of the whole model.
    pub of: usize,
}

impl ModelPart {
    /// All of so many layers.
    pub fn whole(of: usize) -> ModelPart {
        ModelPart { layers: 0..of, of }
    }

    /// Whether it embeds tokens.
    pub fn is_first(&self) -> bool {
        self.layers.start == 0
    }

    /// Whether it has the final norm and the LM head.
    pub fn is_last(&self) -> bool {
        self.layers.end >= self.of
    }
}

/// What a part of a model has of a parameter of the whole model, by its path there: these layers of stacked ones, or all of it.
pub type PartCut<'a> = dyn FnMut(&Path, &Tensor, Option<Range<usize>>) -> Tensor + 'a;

/// What the layers of a part of a model read.
#[derive(Clone, Copy, Debug)]
pub enum PartInput<'a> {
    /// The first part: tokens `[batch, more]`, and embeddings that are given for some of them.
    Tokens(&'a Tensor, Option<&'a GivenStates>),
    /// A later part: what the part before gives, `[batch, more, width]`.
    Hidden(&'a Tensor),
}

impl PartInput<'_> {
    /// Positions of each sequence.
    #[track_caller]
    pub(crate) fn positions(&self) -> usize {
        match self {
            PartInput::Tokens(tokens, _) => tokens.dim(1),
            PartInput::Hidden(states) => states.dim(1),
        }
    }
}

/// Hidden states of tokens.
#[derive(Clone, Debug, Tree)]
pub struct Hidden {
    /// `[batch, positions, width]`, before the LM head.
    pub states: Tensor,
    /// Auxiliary loss, such as the load-balancing loss of experts; `f32` scalar.
    pub auxiliary: Tensor,
}

/// A model of token sequences.
pub trait LanguageModel: Tree + Clone + MapWeights {
    /// How it is run.
    fn options(&self) -> &RunOptions;

    /// Hidden states of tokens `i32 [batch, positions]`. A key turns dropout on.
    fn hidden(&self, tokens: &Tensor, key: Option<&Key>) -> Hidden;

    /// A function that gives the logits of hidden states `[..., width]`, `f32`. What does not depend on them, such as gathering
    /// the weight on a mesh, is done here, once.
    fn ready_lm_head(&self) -> Box<dyn Fn(&Tensor) -> Tensor + '_>;

    /// The weight `[vocab, width]` of the LM head, in the type of its matmul; `None` where logits are not a matmul.
    fn lm_head_weight(&self) -> Option<Tensor> {
        None
    }

    /// Logits of hidden states `[..., width]`, `f32`.
    #[track_caller]
    fn lm_head(&self, hidden: &Tensor) -> Tensor {
        self.ready_lm_head()(hidden)
    }

    /// An empty KV cache of its layers for so many positions.
    fn cache(&self, batch: usize, positions: usize) -> KvCache;

    /// What its layers make of more tokens that follow those in the KV cache: hidden states, or what the next part reads.
    fn extend_part(&self, input: PartInput<'_>, start: &CacheStart, cache: &KvCache) -> (Tensor, KvCache);

    /// The part with some of its layers, of a model that has all of them; `None` where layers of the family depend on others far
    /// before them. `cut` gives its parameters, in the order of its leaves.
    fn split(&self, _: &ModelPart, _: &mut PartCut<'_>) -> Option<Self> {
        None
    }

    /// Hidden states of more tokens `[batch, more]` that follow those in the KV cache. Embeddings may be given for some of them.
    #[track_caller]
    fn extend_with(
        &self,
        tokens: &Tensor,
        given: Option<&GivenStates>,
        start: &CacheStart,
        cache: &KvCache,
    ) -> (Tensor, KvCache) {
        self.extend_part(PartInput::Tokens(tokens, given), start, cache)
    }

    /// Hidden states of more tokens `[batch, more]` that follow those in the KV cache.
    #[track_caller]
    fn extend(&self, tokens: &Tensor, start: &CacheStart, cache: &KvCache) -> (Tensor, KvCache) {
        self.extend_with(tokens, None, start, cache)
    }

    /// Logits `f32 [batch, positions, vocabulary]`.
    #[track_caller]
    fn logits(&self, tokens: &Tensor) -> Tensor {
        self.lm_head(&self.hidden(tokens, None).states)
    }

    /// The mean loss of a batch, with weights as the options say for training.
    #[track_caller]
    fn loss(&self, batch: &TokenBatch, loss: &CrossEntropy, key: Option<&Key>) -> Tensor {
        let model = in_training(self, &self.options().training(), TrainingParts::default());
        let hidden = model.hidden(&batch.tokens, key);
        let states = &hidden.states;
        let options = self.options();
        let fused = options.kernels.loss;
        let lm_head = match (fused, options.loss_chunk_size) {
            (Fused::On, _) => self.lm_head_weight(),
            // Logits of shorter chunks take less memory than the LM head and its gradient, which a kernel holds as a whole.
            (Fused::Auto, Some(chunk_size)) => self.lm_head_weight().filter(|lm_head| chunk_size >= lm_head.dim(1)),
            // The form for GPUs keeps logits in the 16 bits of activations.
            (Fused::Auto, None) if trace::current_target() == CompileTarget::Cuda => {
                self.lm_head_weight().filter(|lm_head| lm_head.dtype() != DType::F32)
            }
            (Fused::Off, _) | (Fused::Auto, None) => None,
        };
        let lm_head = lm_head.filter(|lm_head| loss.is_fusable(lm_head.dim(0)));
        let mean = match (lm_head, options.loss_chunk_size) {
            (Some(lm_head), chunk_size) => {
                loss.mean_fused(states, &batch.targets, &lm_head, chunk_size.unwrap_or(usize::MAX), fused)
            }
            (None, Some(chunk_size)) => {
                let head = self.ready_lm_head();
                loss.mean_chunked(states, &batch.targets, chunk_size, |part| head(part))
            }
            (None, None) => loss.mean(&self.lm_head(states), &batch.targets),
        };
        mean + hidden.auxiliary
    }

    /// Prefill: reads a prompt `[batch, positions]` into an empty KV cache; gives the logits of its last position, `[batch, vocab]`.
    #[track_caller]
    fn prefill(&self, tokens: &Tensor, cache: &KvCache) -> (Tensor, KvCache) {
        let (hidden, cache) = self.extend(tokens, &CacheStart::First, cache);
        let last = hidden.dim(1).saturating_sub(1);
        (self.lm_head(&hidden.at(1, last)), cache)
    }

    /// Decode: one more token `[batch]` at a position; gives the logits of the next.
    #[track_caller]
    fn decode_step(&self, token: &Tensor, position: &Tensor, cache: &KvCache) -> (Tensor, KvCache) {
        let (hidden, cache) = self.extend(&token.expand(1), &CacheStart::After(position.clone()), cache);
        (self.lm_head(&hidden.squeeze(1)), cache)
    }
}

/// What is carried from layer to layer, laid out on the mesh if there is one.
#[track_caller]
pub(crate) fn carried(x: &Tensor) -> Tensor {
    x.with_logical_axes(&["batch", "sequence", "embed"])
}

/// Logits, laid out on the mesh if there is one.
#[track_caller]
pub(crate) fn constrained_logits(logits: Tensor) -> Tensor {
    match logits.rank() {
        3 => logits.with_logical_axes(&["batch", "sequence", "vocab"]),
        _ => logits,
    }
}

/// What a part of a model has as a whole: embeddings, norms and the LM head.
pub(crate) fn in_part<T: Tree>(whole: &T, path: &mut Path, cut: &mut PartCut<'_>) -> T {
    whole.map(path, &mut |path, leaf| cut(path, leaf, None))
}
