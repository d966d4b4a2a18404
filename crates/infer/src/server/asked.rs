//! Requests as OpenAI's API has them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::chat::Message;
use crate::constraint::OutputFormat;
use crate::error::Error;
use crate::request::SamplingOptions;

/// Answers that one request may ask for.
const MAX_CHOICES: usize = 16;

/// One text or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn all(self) -> Vec<String> {
        match self {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(all) => all,
        }
    }
}

/// A prompt as text or tokens, or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Prompts {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct StreamOptions {
    #[serde(default)]
    pub(crate) include_usage: bool,
}

/// What both kinds of requests have.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Settings {
    #[serde(default)]
    pub(crate) model: Option<String>,
    #[serde(default)]
    max_tokens: Option<usize>,
    #[serde(default)]
    max_completion_tokens: Option<usize>,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    top_p: Option<f64>,
    #[serde(default)]
    top_k: Option<i64>,
    #[serde(default)]
    min_p: Option<f64>,
    #[serde(default)]
    repetition_penalty: Option<f64>,
    #[serde(default)]
    presence_penalty: Option<f64>,
    #[serde(default)]
    frequency_penalty: Option<f64>,
    #[serde(default)]
    seed: Option<i64>,
    #[serde(default)]
    stop: Option<OneOrMany>,
    #[serde(default)]
    n: Option<usize>,
    #[serde(default)]
    ignore_eos: Option<bool>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    response_format: Option<ResponseFormat>,
    #[serde(default)]
    logit_bias: Option<BTreeMap<String, f32>>,
}

/// `response_format`.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat {
    Text,
    JsonObject,
    JsonSchema { json_schema: NamedSchema },
}

#[derive(Clone, Debug, Deserialize)]
struct NamedSchema {
    schema: Value,
}

impl Settings {
    pub(crate) fn is_streamed(&self) -> bool {
        self.stream == Some(true)
    }

    pub(crate) fn includes_usage(&self) -> bool {
        self.stream_options.unwrap_or_default().include_usage
    }

    pub(crate) fn choices(&self) -> Result<usize, Error> {
        match self.n.unwrap_or(1) {
            n @ 1..=MAX_CHOICES => Ok(n),
            n => Err(Error::setting(format!("n is {n}"), format!("give a number from 1 to {MAX_CHOICES}"))),
        }
    }

    /// How tokens are chosen, with these log probabilities; `default_tokens` where the request does not say how many.
    pub(crate) fn sampling(&self, default_tokens: usize, log_probabilities: usize) -> Result<SamplingOptions, Error> {
        let format = match &self.response_format {
            None | Some(ResponseFormat::Text) => OutputFormat::Text,
            Some(ResponseFormat::JsonObject) => OutputFormat::JsonObject,
            Some(ResponseFormat::JsonSchema { json_schema }) => OutputFormat::JsonSchema(json_schema.schema.clone()),
        };
        let mut logit_bias = BTreeMap::new();
        for (token, bias) in self.logit_bias.iter().flatten() {
            let wrong = |_| Error::setting(format!("logit_bias has {token}"), "give numbers of tokens");
            logit_bias.insert(token.parse::<u32>().map_err(wrong)?, *bias);
        }
        let sampling = SamplingOptions {
            max_tokens: self.max_completion_tokens.or(self.max_tokens).unwrap_or(default_tokens),
            temperature: self.temperature.unwrap_or(1.0),
            top_k: self.top_k.filter(|&k| k > 0).map(|k| k as usize),
            top_p: self.top_p.unwrap_or(1.0),
            min_p: self.min_p.unwrap_or(0.0),
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
            presence_penalty: self.presence_penalty.unwrap_or(0.0),
            frequency_penalty: self.frequency_penalty.unwrap_or(0.0),
            // Without a seed every request draws anew.
            seed: self.seed.map_or_else(random_seed, |seed| seed as u32),
            stop: self.stop.clone().map_or(Vec::new(), OneOrMany::all),
            ignore_eos: self.ignore_eos.unwrap_or(false),
            log_probabilities,
            logit_bias,
            format,
        };
        sampling.check()?;
        Ok(sampling)
    }
}

fn random_seed() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::SystemTime::now()) as u32
}

/// `/v1/chat/completions`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ChatAsked {
    pub(crate) messages: Vec<Message>,
    #[serde(default)]
    pub(crate) tools: Option<Value>,
    #[serde(default)]
    pub(crate) tool_choice: Option<Value>,
    #[serde(default)]
    pub(crate) logprobs: Option<bool>,
    #[serde(default)]
    pub(crate) top_logprobs: Option<usize>,
    #[serde(flatten)]
    pub(crate) settings: Settings,
}

/// `/v1/completions`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CompletionAsked {
    pub(crate) prompt: Prompts,
    #[serde(default)]
    pub(crate) echo: Option<bool>,
    #[serde(default)]
    pub(crate) logprobs: Option<usize>,
    #[serde(flatten)]
    pub(crate) settings: Settings,
}
