//! Embeddings of texts: hidden states of an encoder or a decoder, pooled to one vector each.

mod settings;

use std::path::Path;

use data::{Tokenizer, check_vocab_size};
use nn::hf::{self, AnyEncoderConfig, Family, ModelConfig};
use nn::models::{ClipText, Encoder, Gemma4, Gpt2, LanguageModel, Llama, ModernEncoder, RunOptions};
use nn::quant::ActivationQuant;
use quantize::pipeline::ModelFolder;
use runtime::{Backend, Jit, ReadTensor};
use tensor::{DType, Literal};
use trace::{Donate, Key, Tensor, Tree};
use weights::quant::QuantizedFolder;

pub(crate) use self::settings::SentenceSettings;
pub use self::settings::{Pooling, VectorLength};
use crate::error::Error;
use crate::load::placed_from;

/// Fewest tokens that a program computes.
const LEAST_TOKENS: usize = 16;
/// Added to the square of a vector's length, so that one of zeros stays one.
const LEAST_SQUARE: f64 = 1e-24;

/// How texts become vectors; what is absent is as the folder says.
#[derive(Clone, Debug, Default)]
pub struct EmbedOptions {
    /// How hidden states become one vector. Where neither this nor the folder says it: the mean of an encoder's, the last of a
    /// decoder's.
    pub pooling: Option<Pooling>,
    /// Whether vectors have length 1. Where neither this nor the folder says it: those of decoders have.
    pub length: Option<VectorLength>,
    /// Tokens of the longest text.
    pub max_length: Option<usize>,
    /// What becomes of longer texts.
    pub too_long: TooLong,
    /// The name of the folder's prompt that is put before texts.
    pub prompt: Option<String>,
    /// Texts that are computed at once; 32 if 0.
    pub batch: usize,
    /// A `tokenizer.json`, or the word `bytes`; the folder's own if absent.
    pub tokenizer: Option<String>,
    /// How the model is run.
    pub run: RunOptions,
}

/// What becomes of texts that are longer than the model takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TooLong {
    /// They are refused.
    #[default]
    Refused,
    /// They are cut; the token that ends a text stays.
    Truncated,
}

/// A vector, and how many tokens its text has.
#[derive(Clone, Debug, PartialEq)]
pub struct TextEmbedding {
    /// The vector.
    pub vector: Vec<f32>,
    /// Tokens of the text.
    pub tokens: usize,
}

/// A model on a device that makes vectors of texts.
pub struct Embedder {
    model: Box<dyn Pooled>,
    tokenizer: Option<Tokenizer>,
    prompt: String,
    is_lower_case: bool,
    vocabulary: usize,
    max_length: usize,
    too_long: TooLong,
    batch: usize,
    width: usize,
}

/// Tokens of several texts, filled up to one length, to their vectors.
trait Pooled {
    fn vectors(&mut self, tokens: Literal, lengths: Literal) -> Result<Vec<f32>, Error>;
}

/// Whether a folder has an encoder, which writes no text.
pub fn is_encoder(folder: &Path) -> bool {
    matches!(crate::settings::read_json(&folder.join("config.json")), Ok(Some(config)) if AnyEncoderConfig::is_known(&config))
}

impl Embedder {
    /// Opens a folder (`config.json` and safetensors, with or without the files of sentence-transformers) or a GGUF file, and loads
    /// its model onto the device of a backend.
    pub fn open(backend: &Backend, path: &Path, options: &EmbedOptions) -> Result<Embedder, Error> {
        let settings = SentenceSettings::read(path)?;
        let files = QuantizedFolder::open(path).map_err(nn::Error::from)?;
        let Some(config) = files.config().cloned() else {
            return Err(Error::setting(
                format!("{} has no config.json", path.display()),
                "give a Hugging Face folder: config.json and safetensors",
            ));
        };
        let key = || Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
        let run = &options.run;
        let pooling = options.pooling.or(settings.pooling);
        let length = options.length.or(settings.length);
        let opened = if let Some(sizes) = hf::read_clip_config(&config)? {
            let pooling = (pooling.unwrap_or(Pooling::Last), length.unwrap_or(VectorLength::Normalized));
            let model = trace::shapes_of(&(), |()| ClipText::init(&key(), &sizes, run))?;
            let model = placed_from(backend, &files, Family::ClipText, &model, ActivationQuant::None)?;
            let model = pooled(backend, model, pooling, |model: &ClipText, tokens, _| model.vectors(tokens));
            let (vocabulary, most) = (sizes.text.vocab_size, sizes.text.max_position_embeddings);
            Opened { model, vocabulary, most, width: sizes.projection_dim }
        } else if AnyEncoderConfig::is_known(&config) {
            let pooling = (pooling.unwrap_or(Pooling::Mean), length.unwrap_or(VectorLength::AsComputed));
            let none = ActivationQuant::None;
            match &AnyEncoderConfig::of(&config)? {
                AnyEncoderConfig::Bert(sizes) => {
                    let model = trace::shapes_of(&(), |()| Encoder::init(&key(), sizes, run))?;
                    let model = placed_from(backend, &files, sizes.family, &model, none)?;
                    let model = pooled(backend, model, pooling, Encoder::hidden);
                    Opened { model, vocabulary: sizes.vocab_size, most: sizes.max_length(), width: sizes.hidden_size }
                }
                AnyEncoderConfig::Modern(sizes) => {
                    let model = trace::shapes_of(&(), |()| ModernEncoder::init(&key(), sizes, run))?;
                    let model = placed_from(backend, &files, Family::ModernBert, &model, none)?;
                    let model = pooled(backend, model, pooling, ModernEncoder::hidden);
                    let (most, width) = (sizes.max_position_embeddings, sizes.hidden_size);
                    Opened { model, vocabulary: sizes.vocab_size, most, width }
                }
            }
        } else {
            let folder = ModelFolder::open(path)?;
            let (config, activations) = (&folder.config, folder.activations());
            let pooling = (pooling.unwrap_or(Pooling::Last), length.unwrap_or(VectorLength::Normalized));
            match config {
                ModelConfig::Gpt2(sizes) => {
                    let model = trace::shapes_of(&(), |()| Gpt2::init(&key(), sizes, run))?;
                    let model = placed_from(backend, &folder.files, config.family(), &model, activations)?;
                    let model =
                        pooled(backend, model, pooling, |model: &Gpt2, tokens, _| model.hidden(tokens, None).states);
                    Opened { model, vocabulary: sizes.vocab_size, most: sizes.n_positions, width: sizes.n_embd }
                }
                ModelConfig::Llama(sizes) => {
                    let model = trace::shapes_of(&(), |()| Llama::init(&key(), sizes, run))?;
                    let model = placed_from(backend, &folder.files, config.family(), &model, activations)?;
                    let model =
                        pooled(backend, model, pooling, |model: &Llama, tokens, _| model.hidden(tokens, None).states);
                    let (most, width) = (sizes.max_position_embeddings, sizes.hidden_size);
                    Opened { model, vocabulary: sizes.vocab_size, most, width }
                }
                ModelConfig::Gemma4(sizes) => {
                    let model = trace::shapes_of(&(), |()| Gemma4::init(&key(), sizes, run))?;
                    let model = placed_from(backend, &folder.files, config.family(), &model, activations)?;
                    let model =
                        pooled(backend, model, pooling, |model: &Gemma4, tokens, _| model.hidden(tokens, None).states);
                    let (most, width) = (sizes.max_position_embeddings, sizes.hidden_size);
                    Opened { model, vocabulary: sizes.vocab_size, most, width }
                }
            }
        };
        let tokenizer = tokenizer(path, options.tokenizer.as_deref(), opened.vocabulary)?;
        let max_length = options.max_length.or(settings.max_length).unwrap_or(opened.most);
        if max_length > opened.most || max_length == 0 {
            return Err(Error::setting(
                format!("texts of {max_length} tokens do not fit the model's {} positions", opened.most),
                format!("give a length from 1 to {}", opened.most),
            ));
        }
        let prompt = match options.prompt.as_ref().or(settings.default_prompt.as_ref()) {
            Some(name) => settings.prompts.get(name).cloned().ok_or_else(|| {
                let known: Vec<&str> = settings.prompts.keys().map(String::as_str).collect();
                Error::setting(format!("the folder has no prompt `{name}`"), format!("give one of {known:?}"))
            })?,
            None => String::new(),
        };
        Ok(Embedder {
            model: opened.model,
            tokenizer,
            prompt,
            is_lower_case: settings.is_lower_case,
            vocabulary: opened.vocabulary,
            max_length,
            too_long: options.too_long,
            batch: if options.batch == 0 { 32 } else { options.batch },
            width: opened.width,
        })
    }

    /// Features of a vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Tokens of the longest text.
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// The tokens of a text, with the prompt before it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let tokenizer = self.tokenizer.as_ref().ok_or_else(|| {
            Error::setting("the folder has no tokenizer.json", "give --tokenizer FILE, or --tokenizer bytes")
        })?;
        let text = if self.is_lower_case { text.to_lowercase() } else { text.to_string() };
        Ok(tokenizer.encode_text(&format!("{}{text}", self.prompt))?)
    }

    /// Vectors of texts, in their order.
    pub fn embed<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<Vec<TextEmbedding>, Error> {
        let tokens = texts.iter().map(|text| self.encode(text.as_ref())).collect::<Result<Vec<_>, Error>>()?;
        self.embed_tokens(tokens)
    }

    /// Vectors of texts that are tokens already, in their order.
    pub fn embed_tokens(&mut self, mut texts: Vec<Vec<u32>>) -> Result<Vec<TextEmbedding>, Error> {
        for (at, tokens) in texts.iter_mut().enumerate() {
            self.check(at, tokens)?;
        }
        // Texts of like lengths are computed together: less is filled up.
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&at| texts[at].len());
        let mut done: Vec<Option<TextEmbedding>> = texts.iter().map(|_| None).collect();
        for batch in order.chunks(self.batch) {
            let longest = batch.iter().map(|&at| texts[at].len()).max().unwrap_or(1);
            let width = longest.next_power_of_two().max(LEAST_TOKENS).min(self.max_length.max(longest));
            let rows = batch.len().next_power_of_two().min(self.batch.max(batch.len()));
            let mut tokens = vec![0; rows * width];
            let mut lengths = vec![1; rows];
            for (row, &at) in batch.iter().enumerate() {
                lengths[row] = texts[at].len() as i32;
                for (place, &token) in tokens[row * width..].iter_mut().zip(&texts[at]) {
                    *place = token as i32;
                }
            }
            let literal =
                |values: &[i32], dims: Vec<usize>| Literal::from_slice(values, dims).map_err(runtime::Error::from);
            let vectors = self.model.vectors(literal(&tokens, vec![rows, width])?, literal(&lengths, vec![rows])?)?;
            for (vector, &at) in vectors.chunks_exact(self.width.max(1)).zip(batch) {
                done[at] = Some(TextEmbedding { vector: vector.to_vec(), tokens: texts[at].len() });
            }
        }
        let missing = || Error::setting("a text got no vector", "report this");
        done.into_iter().map(|one| one.ok_or_else(missing)).collect()
    }

    /// Cuts a text that is too long, or refuses it.
    fn check(&self, at: usize, tokens: &mut Vec<u32>) -> Result<(), Error> {
        if tokens.is_empty() {
            return Err(Error::setting(format!("text {at} has no tokens"), "leave out empty texts"));
        }
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= self.vocabulary) {
            return Err(Error::setting(
                format!("text {at} has token {token}, and the model knows {}", self.vocabulary),
                "give the model's own tokenizer",
            ));
        }
        if tokens.len() > self.max_length {
            if self.too_long == TooLong::Refused {
                return Err(Error::setting(
                    format!("text {at} has {} tokens, and the model takes at most {}", tokens.len(), self.max_length),
                    "shorten the text, or let long texts be cut (--truncate)",
                ));
            }
            let last = tokens.last().copied();
            tokens.truncate(self.max_length);
            if let (Some(place), Some(last)) = (tokens.last_mut(), last) {
                *place = last;
            }
        }
        Ok(())
    }
}

struct Opened {
    model: Box<dyn Pooled>,
    vocabulary: usize,
    most: usize,
    width: usize,
}

/// The folder's tokenizer, or the one that is asked for.
fn tokenizer(folder: &Path, name: Option<&str>, vocabulary: usize) -> Result<Option<Tokenizer>, Error> {
    let own = folder.join("tokenizer.json");
    let tokenizer = match name {
        Some("bytes") => return Ok(Some(Tokenizer::bytes())),
        Some(path) => Tokenizer::open(Path::new(path))?,
        None if own.is_file() => Tokenizer::open(&own)?,
        None => return Ok(None),
    };
    check_vocab_size(&tokenizer, u32::try_from(vocabulary).unwrap_or(u32::MAX))?;
    Ok(Some(tokenizer))
}

/// A model with the program of its vectors.
struct PooledModel<M: Tree + Clone + 'static> {
    model: M,
    program: Jit<(M, Tensor, Tensor), Tensor>,
}

impl<M: Tree + Clone + 'static> Pooled for PooledModel<M> {
    fn vectors(&mut self, tokens: Literal, lengths: Literal) -> Result<Vec<f32>, Error> {
        let vectors = self.program.call((self.model.clone(), Tensor::from(tokens), Tensor::from(lengths)))?;
        Ok(vectors.to_vec::<f32>()?)
    }
}

fn pooled<M: Tree + Clone + 'static>(
    backend: &Backend,
    model: M,
    (pooling, length): (Pooling, VectorLength),
    hidden: impl Fn(&M, &Tensor, &Tensor) -> Tensor + 'static,
) -> Box<dyn Pooled> {
    let program = Jit::new(backend, "embed", Donate::Nothing, move |(model, tokens, lengths): &(M, Tensor, Tensor)| {
        let states = hidden(model, tokens, lengths).cast(DType::F32);
        let vectors = one_of_each(&states, lengths, pooling);
        match length {
            VectorLength::AsComputed => vectors,
            VectorLength::Normalized => {
                let inverse = (&vectors.square().sum(&[1]) + LEAST_SQUARE).rsqrt();
                &vectors * &inverse.expand(-1)
            }
        }
    });
    Box::new(PooledModel { model, program })
}

/// Vectors `[batch, width]` of hidden states `f32 [batch, positions, width]`, of which the first `lengths` count.
fn one_of_each(states: &Tensor, lengths: &Tensor, pooling: Pooling) -> Tensor {
    let places = Tensor::iota(DType::I32, &[states.dim(0), states.dim(1)], 1);
    let of = lengths.expand(1).broadcast_to(places.dims());
    let one = Tensor::ones(DType::I32, places.dims());
    let is_there = places.less(&of).expand(-1).broadcast_to(states.dims());
    match pooling {
        Pooling::Cls => states.at(1, 0),
        Pooling::Last => {
            let is_last = (&places + &one).equals(&of).expand(-1).broadcast_to(states.dims());
            is_last.select(states, &states.zeros_like()).sum(&[1])
        }
        Pooling::Mean => {
            let sum = is_there.select(states, &states.zeros_like()).sum(&[1]);
            &sum / &lengths.cast(DType::F32).expand(1)
        }
        Pooling::Max => is_there.select(states, &states.full_like(f64::NEG_INFINITY)).max(&[1]),
    }
}
