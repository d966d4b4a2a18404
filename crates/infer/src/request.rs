//! What is asked of the engine, and what it answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::constraint::OutputFormat;
use crate::error::Error;

/// Most log probabilities of other tokens that a request may ask for.
pub const MAX_LOG_PROBABILITIES: usize = 20;

/// Most tokens that a request may like more or less.
pub const MAX_LOGIT_BIASES: usize = 1024;

/// How tokens are chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingOptions {
    /// Tokens to generate at most.
    pub max_tokens: usize,
    /// 0 is greedy decoding; 1 samples from the model's probabilities.
    pub temperature: f64,
    /// Draws among so many of the likeliest.
    pub top_k: Option<usize>,
    /// Draws among the likeliest tokens that have this probability together.
    pub top_p: f64,
    /// Draws among tokens with this share of the likeliest one's probability.
    pub min_p: f64,
    /// Logits of tokens of the prompt and the text so far are divided by it where positive, multiplied where negative; 1 is none.
    pub repetition_penalty: f64,
    /// Taken from logits of tokens of the text so far.
    pub presence_penalty: f64,
    /// Taken from logits for each time a token is in the text so far.
    pub frequency_penalty: f64,
    /// Where random numbers begin: the same seed gives the same tokens, whatever else is running.
    pub seed: u32,
    /// Texts that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// Whether tokens that end a text end the answer.
    pub ignore_eos: bool,
    /// Log probabilities of so many of the likeliest tokens at each position.
    pub log_probabilities: usize,
    /// Added to logits of tokens, after penalties; -100 rules a token out, 100 rules others out.
    pub logit_bias: BTreeMap<u32, f32>,
    /// What the answer must look like.
    pub format: OutputFormat,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        SamplingOptions {
            max_tokens: 128,
            temperature: 1.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: 0,
            stop: Vec::new(),
            ignore_eos: false,
            log_probabilities: 0,
            logit_bias: BTreeMap::new(),
            format: OutputFormat::Text,
        }
    }
}

impl SamplingOptions {
    /// Refuses numbers outside of their ranges.
    pub fn check(&self) -> Result<(), Error> {
        let within = |name: &str, value: f64, low: f64, high: f64| {
            if value.is_finite() && value >= low && value <= high {
                return Ok(());
            }
            Err(Error::setting(format!("{name} is {value}"), format!("give a number from {low} to {high}")))
        };
        within("temperature", self.temperature, 0.0, 100.0)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("repetition_penalty", self.repetition_penalty, 1e-3, 1e3)?;
        within("presence_penalty", self.presence_penalty, -100.0, 100.0)?;
        within("frequency_penalty", self.frequency_penalty, -100.0, 100.0)?;
        if self.log_probabilities > MAX_LOG_PROBABILITIES {
            let message = format!("{} log probabilities are asked for", self.log_probabilities);
            return Err(Error::setting(message, format!("ask for at most {MAX_LOG_PROBABILITIES}")));
        }
        if self.logit_bias.len() > MAX_LOGIT_BIASES {
            let message = format!("logit_bias has {} tokens", self.logit_bias.len());
            return Err(Error::setting(message, format!("give at most {MAX_LOGIT_BIASES}")));
        }
        for bias in self.logit_bias.values() {
            within("a number of logit_bias", (*bias).into(), -100.0, 100.0)?;
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(Error::setting("a stop text is empty", "leave it out"));
        }
        Ok(())
    }

    /// Whether logits depend on the text so far.
    pub(crate) fn has_penalties(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// Whether the choice of a token needs those before it on the host.
    pub(crate) fn depends_on_text(&self) -> bool {
        self.has_penalties() || self.format != OutputFormat::Text
    }

    /// Whether some tokens are left out.
    pub(crate) fn has_filters(&self) -> bool {
        self.top_k.is_some_and(|k| k > 0) || self.top_p < 1.0 || self.min_p > 0.0
    }
}

/// A prompt and how to go on from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: SamplingOptions,
}

/// Names a request in its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(crate) u64);

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// A token that ends a text, or a stop text.
    Stop,
    /// As many tokens as were asked for, or as there is room for.
    Length,
    /// It was cancelled.
    Cancelled,
    /// What may come next in the form that was asked for became too much to compute.
    Format,
}

/// A token with the logarithm of its probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TokenProbability {
    /// The token.
    pub token: u32,
    /// The logarithm of its probability, before temperature, penalties and filters.
    pub log_probability: f32,
}

/// One more token of an answer, or its end.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenEvent {
    /// Whose.
    pub id: RequestId,
    /// The token; `None` where a cancelled request ends.
    pub token: Option<TokenProbability>,
    /// The likeliest tokens at its place, where they were asked for.
    pub likeliest: Vec<TokenProbability>,
    /// Text that is certain by now; letters of several tokens come with the last.
    pub text: String,
    /// Why it ended, if it did.
    pub finish: Option<FinishReason>,
}
