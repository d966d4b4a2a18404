//! Speech to text: Whisper over the chunks of a recording.

mod mel;
mod wav;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use data::{Tokenizer, check_vocab_size};
use nn::hf::{self, Family};
use nn::layers::{CacheStart, KvCache};
use nn::models::{Heard, RunOptions, Whisper, WhisperConfig};
use nn::quant::ActivationQuant;
use runtime::{Backend, Jit, ReadTensor};
use serde_json::Value;
use tensor::{DType, Literal};
use trace::{Donate, Key, Tensor};
use weights::quant::QuantizedFolder;

pub use self::wav::WavAudio;
use crate::error::Error;
use crate::load::placed_from;
use crate::settings::read_json;
use mel::{HOP, MelFeatures, SAMPLE_RATE};

/// What is written of speech.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpeechTask {
    /// What is said, in its language.
    #[default]
    Transcribe,
    /// What is said, in English.
    Translate,
}

/// How speech is written down.
#[derive(Clone, Debug, Default)]
pub struct SpeechOptions {
    /// The language, as `en`; heard from the first seconds if absent.
    pub language: Option<String>,
    /// What is written.
    pub task: SpeechTask,
    /// Tokens of each chunk at most; as many as the model has positions if absent.
    pub max_tokens: Option<usize>,
}

/// A chunk of a recording, written down.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// Seconds from the begin of the recording.
    pub start: f64,
    /// Seconds.
    pub end: f64,
    /// The language.
    pub language: Option<String>,
    /// Tokens, without those that say what to do.
    pub tokens: Vec<u32>,
    /// The text; empty where there is no tokenizer.
    pub text: String,
}

/// Tokens of Whisper that are no text.
#[derive(Clone, Debug, Default)]
struct SpeechTokens {
    start: u32,
    end: Vec<u32>,
    /// Languages by their names; none in models of English alone.
    languages: BTreeMap<String, u32>,
    transcribe: Option<u32>,
    translate: Option<u32>,
    no_timestamps: Option<u32>,
    /// Never written.
    suppressed: Vec<u32>,
    /// Never written first.
    suppressed_first: Vec<u32>,
}

/// One step of the decoder.
type SpeechStep = Jit<(KvCache, Whisper, (Tensor, Tensor, Tensor), Heard), (KvCache, Tensor)>;

/// A Whisper on a device.
pub struct Transcriber {
    backend: Backend,
    model: Whisper,
    config: WhisperConfig,
    tokens: SpeechTokens,
    tokenizer: Option<Tokenizer>,
    features: MelFeatures,
    hear: Jit<(Whisper, Tensor), Heard>,
    step: SpeechStep,
}

impl Transcriber {
    /// Opens a Hugging Face folder and loads its model onto the device of a backend.
    pub fn open(backend: &Backend, folder: &Path, run: &RunOptions) -> Result<Transcriber, Error> {
        let files = QuantizedFolder::open(folder).map_err(nn::Error::from)?;
        let Some(json) = files.config() else {
            return Err(Error::setting(
                format!("{} has no config.json", folder.display()),
                "give the Hugging Face folder of a Whisper",
            ));
        };
        let config = hf::read_whisper_config(json)?;
        let own = folder.join("tokenizer.json");
        let tokenizer = own.is_file().then(|| Tokenizer::open(&own)).transpose()?;
        if let Some(tokenizer) = &tokenizer {
            check_vocab_size(tokenizer, u32::try_from(config.vocab_size).unwrap_or(u32::MAX))?;
        }
        let generation = read_json(&folder.join("generation_config.json"))?.unwrap_or_default();
        let tokens = SpeechTokens::of(json, &generation, tokenizer.as_ref(), config.vocab_size)?;
        let model =
            trace::shapes_of(&(), |()| Whisper::init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0)), &config, run))?;
        let model = placed_from(backend, &files, Family::Whisper, &model, ActivationQuant::None)?;
        let hear =
            Jit::new(backend, "hear", Donate::Nothing, |(model, features): &(Whisper, Tensor)| model.hear(features));
        let step = Jit::new(
            backend,
            "write",
            Donate::First,
            |(cache, model, (tokens, filled, penalty), heard): &(KvCache, Whisper, (Tensor, Tensor, Tensor), Heard)| {
                let (logits, cache) = model.extend(tokens, &CacheStart::After(filled.clone()), cache, heard);
                (cache, (logits + penalty).argmax(-1).cast(DType::I32))
            },
        );
        let features = MelFeatures::new(config.num_mel_bins);
        Ok(Transcriber { backend: backend.clone(), model, config, tokens, tokenizer, features, hear, step })
    }

    /// Samples of one chunk.
    pub fn chunk_samples(&self) -> usize {
        self.config.num_frames() * HOP
    }

    /// Writes a recording down, chunk by chunk; `on` gets each as it is done.
    pub fn transcribe(
        &mut self,
        audio: &WavAudio,
        options: &SpeechOptions,
        on: &mut dyn FnMut(&Transcript),
    ) -> Result<Vec<Transcript>, Error> {
        if audio.sample_rate as usize != SAMPLE_RATE {
            return Err(Error::setting(
                format!("the recording has {} samples a second, and the model hears {SAMPLE_RATE}", audio.sample_rate),
                format!("convert it: ffmpeg -i FILE -ar {SAMPLE_RATE} -ac 1 OUT.wav"),
            ));
        }
        if audio.samples.is_empty() {
            return Err(Error::setting("the recording is empty", "give one with samples"));
        }
        let mut done = Vec::new();
        let mut language = options.language.clone();
        let length = self.chunk_samples().max(1);
        for (at, samples) in audio.samples.chunks(length).enumerate() {
            let heard = self.heard(samples)?;
            if language.is_none() && !self.tokens.languages.is_empty() {
                language = Some(self.language(&heard)?);
            }
            let prefix = self.tokens.prefix(language.as_deref(), options.task)?;
            let tokens = self.written(&heard, &prefix, options.max_tokens)?;
            let text = match &self.tokenizer {
                Some(tokenizer) => tokenizer.decode_text(&tokens)?.trim().to_string(),
                None => String::new(),
            };
            let start = (at * length) as f64 / SAMPLE_RATE as f64;
            let end = start + samples.len() as f64 / SAMPLE_RATE as f64;
            let transcript = Transcript { start, end, language: language.clone(), tokens, text };
            on(&transcript);
            done.push(transcript);
        }
        Ok(done)
    }

    fn heard(&mut self, samples: &[f32]) -> Result<Heard, Error> {
        let frames = self.config.num_frames();
        let features = self.features.of(samples, frames);
        let literal = Literal::from_slice(&features, [1, frames, self.config.num_mel_bins]);
        let features = Tensor::from(literal.map_err(runtime::Error::from)?);
        Ok(self.hear.call((self.model.clone(), features))?)
    }

    /// What is taken from logits: all of these tokens' probability.
    fn penalty(&self, suppressed: &mut dyn Iterator<Item = u32>) -> Result<Tensor, Error> {
        let mut penalty = vec![0f32; self.config.vocab_size];
        for token in suppressed {
            if let Some(place) = penalty.get_mut(token as usize) {
                *place = f32::NEG_INFINITY;
            }
        }
        let literal = Literal::from_slice(&penalty, [1, self.config.vocab_size]).map_err(runtime::Error::from)?;
        Ok(Tensor::from(self.backend.send(&Arc::new(literal))?))
    }

    fn stepped(
        &mut self,
        cache: KvCache,
        tokens: &[u32],
        filled: usize,
        penalty: &Tensor,
        heard: &Heard,
    ) -> Result<(KvCache, u32), Error> {
        let tokens: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
        let literal = Literal::from_slice(&tokens, [1, tokens.len()]).map_err(runtime::Error::from)?;
        let filled = Tensor::from(Literal::from_slice(&[filled as i32], Vec::new()).map_err(runtime::Error::from)?);
        let input = (Tensor::from(literal), filled, penalty.clone());
        let (cache, token) = self.step.call((cache, self.model.clone(), input, heard.clone()))?;
        let token = token.to_vec::<i32>()?.first().copied().unwrap_or(0);
        Ok((cache, token as u32))
    }

    fn empty_cache(&self) -> Result<KvCache, Error> {
        let positions = self.config.max_target_positions;
        let mut empty = self.backend.jit(move |model: &Whisper| model.cache(1, positions));
        Ok(empty.call(&self.model)?)
    }

    /// The language that the first token after the begin says.
    fn language(&mut self, heard: &Heard) -> Result<String, Error> {
        let known: Vec<u32> = self.tokens.languages.values().copied().collect();
        let mut others = (0..self.config.vocab_size as u32).filter(|token| !known.contains(token));
        let penalty = self.penalty(&mut others)?;
        let cache = self.empty_cache()?;
        let (_, token) = self.stepped(cache, &[self.tokens.start], 0, &penalty, heard)?;
        let found = self.tokens.languages.iter().find(|(_, number)| **number == token);
        found.map(|(name, _)| name.clone()).ok_or_else(|| Error::setting("no language was heard", "give --language"))
    }

    /// Tokens after those that say what to do, up to the one that ends a text.
    fn written(&mut self, heard: &Heard, prefix: &[u32], max_tokens: Option<usize>) -> Result<Vec<u32>, Error> {
        let room = self.config.max_target_positions.saturating_sub(prefix.len());
        let most = max_tokens.unwrap_or(room).min(room);
        let SpeechTokens { suppressed, suppressed_first, .. } = self.tokens.clone();
        let always = self.penalty(&mut suppressed.iter().copied())?;
        let first = self.penalty(&mut suppressed.iter().chain(&suppressed_first).copied())?;
        let mut cache = self.empty_cache()?;
        let (mut next, mut filled) = (prefix.to_vec(), 0);
        let mut written = Vec::new();
        while written.len() < most {
            let penalty = if written.is_empty() { &first } else { &always };
            let (after, token) = self.stepped(cache, &next, filled, penalty, heard)?;
            cache = after;
            filled += next.len();
            if self.tokens.end.contains(&token) {
                break;
            }
            written.push(token);
            next = vec![token];
        }
        Ok(written)
    }
}

impl SpeechTokens {
    fn of(
        config: &Value,
        generation: &Value,
        tokenizer: Option<&Tokenizer>,
        vocabulary: usize,
    ) -> Result<SpeechTokens, Error> {
        let list = |name: &str| -> Vec<u32> {
            let found =
                [generation, config].into_iter().find_map(|file| file.get(name).filter(|value| !value.is_null()));
            let number = |value: &Value| value.as_u64().and_then(|token| u32::try_from(token).ok());
            match found {
                Some(Value::Array(all)) => all.iter().filter_map(number).collect(),
                Some(one) => number(one).into_iter().collect(),
                None => Vec::new(),
            }
        };
        let named = |name: &str| tokenizer.and_then(|tokenizer| tokenizer.token(name));
        let of_map = |map: &str, name: &str| {
            let number = generation.get(map).and_then(|map| map.get(name)).and_then(Value::as_u64);
            number.and_then(|token| u32::try_from(token).ok())
        };
        let languages = generation.get("lang_to_id").and_then(Value::as_object).into_iter().flatten();
        let languages = languages.filter_map(|(name, number)| {
            let name = name.strip_prefix("<|")?.strip_suffix("|>")?.to_string();
            Some((name, u32::try_from(number.as_u64()?).ok()?))
        });
        let start = list("decoder_start_token_id").first().copied();
        let tokens = SpeechTokens {
            start: start.unwrap_or(50_257),
            end: list("eos_token_id"),
            languages: languages.filter(|(_, number)| (*number as usize) < vocabulary).collect(),
            transcribe: of_map("task_to_id", "transcribe").or_else(|| named("<|transcribe|>")),
            translate: of_map("task_to_id", "translate").or_else(|| named("<|translate|>")),
            no_timestamps: list("no_timestamps_token_id").first().copied().or_else(|| named("<|notimestamps|>")),
            suppressed: list("suppress_tokens"),
            suppressed_first: list("begin_suppress_tokens"),
        };
        let all = [Some(tokens.start), tokens.transcribe, tokens.translate, tokens.no_timestamps];
        if let Some(token) = all.into_iter().flatten().find(|token| *token as usize >= vocabulary) {
            return Err(Error::setting(
                format!("the folder names token {token}, and the model knows {vocabulary}"),
                "get the folder again",
            ));
        }
        Ok(tokens)
    }

    /// Tokens that say what to do.
    fn prefix(&self, language: Option<&str>, task: SpeechTask) -> Result<Vec<u32>, Error> {
        let mut prefix = vec![self.start];
        if !self.languages.is_empty() {
            let name = language.unwrap_or("en");
            let number = self.languages.get(name).ok_or_else(|| {
                let known: Vec<&str> = self.languages.keys().map(String::as_str).collect();
                Error::setting(
                    format!("the model knows no language `{name}`"),
                    format!("give one of {}", known.join(", ")),
                )
            })?;
            prefix.push(*number);
            let task = match task {
                SpeechTask::Transcribe => self.transcribe,
                SpeechTask::Translate => self.translate,
            };
            prefix.extend(task);
        } else if task == SpeechTask::Translate || language.is_some_and(|name| name != "en") {
            return Err(Error::setting("the model knows English alone", "leave out --language and --task"));
        }
        prefix.extend(self.no_timestamps);
        Ok(prefix)
    }
}
