//! Answers as OpenAI's API has them.

use data::Tokenizer;
use serde::Serialize;
use serde_json::{Value, json};

use crate::request::{FinishReason, TokenEvent, TokenProbability};

/// Which API an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Completions,
}

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: usize,
    pub(crate) completion_tokens: usize,
    pub(crate) total_tokens: usize,
}

impl Usage {
    pub(crate) fn new(prompt_tokens: usize, completion_tokens: usize) -> Usage {
        Usage { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    }
}

/// What all parts of an answer begin with.
#[derive(Clone, Debug)]
pub(crate) struct Heading {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) api: Api,
}

/// One of the answers to a request, as far as it is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenAnswer {
    pub(crate) text: String,
    pub(crate) tokens: Vec<(TokenProbability, Vec<TokenProbability>)>,
    pub(crate) finish: Option<FinishReason>,
}

impl OpenAnswer {
    pub(crate) fn take(&mut self, event: TokenEvent) {
        self.text.push_str(&event.text);
        self.tokens.extend(event.token.map(|token| (token, event.likeliest)));
        self.finish = event.finish;
    }
}

fn finish_reason(finish: Option<FinishReason>) -> Value {
    match finish {
        Some(FinishReason::Stop) => "stop".into(),
        Some(FinishReason::Length | FinishReason::Cancelled) => "length".into(),
        None => Value::Null,
    }
}

/// Log probabilities of tokens, in the API's form.
pub(crate) fn log_probabilities(
    api: Api,
    tokenizer: &Tokenizer,
    tokens: &[(TokenProbability, Vec<TokenProbability>)],
) -> Value {
    let text = |token: u32| tokenizer.decode(&[token]).unwrap_or_default();
    let entry = |token: &TokenProbability| {
        let text = text(token.token);
        json!({"token": text, "logprob": token.log_probability, "bytes": text.as_bytes()})
    };
    match api {
        Api::Chat => {
            let content = tokens.iter().map(|(token, likeliest)| {
                let mut one = entry(token);
                one["top_logprobs"] = likeliest.iter().map(entry).collect();
                one
            });
            json!({"content": content.collect::<Vec<_>>()})
        }
        Api::Completions => {
            let top = tokens.iter().map(|(_, likeliest)| {
                let of = likeliest.iter().map(|token| (text(token.token), json!(token.log_probability)));
                Value::Object(of.collect())
            });
            json!({
                "tokens": tokens.iter().map(|(token, _)| text(token.token)).collect::<Vec<_>>(),
                "token_logprobs": tokens.iter().map(|(token, _)| token.log_probability).collect::<Vec<_>>(),
                "top_logprobs": top.collect::<Vec<_>>(),
                "text_offset": [],
            })
        }
    }
}

impl Heading {
    fn object(&self, is_part: bool) -> &'static str {
        match (self.api, is_part) {
            (Api::Chat, true) => "chat.completion.chunk",
            (Api::Chat, false) => "chat.completion",
            (Api::Completions, _) => "text_completion",
        }
    }

    fn with(&self, is_part: bool, choices: Vec<Value>) -> Value {
        let object = self.object(is_part);
        json!({"id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices})
    }

    /// A whole answer.
    pub(crate) fn whole(&self, answers: &[(OpenAnswer, Value)], usage: Usage) -> Value {
        let choices = answers.iter().enumerate().map(|(index, (answer, logprobs))| {
            let mut choice =
                json!({"index": index, "logprobs": logprobs, "finish_reason": finish_reason(answer.finish)});
            match self.api {
                Api::Chat => choice["message"] = json!({"role": "assistant", "content": answer.text, "refusal": null}),
                Api::Completions => choice["text"] = answer.text.clone().into(),
            }
            choice
        });
        let mut whole = self.with(false, choices.collect());
        whole["usage"] = json!(usage);
        whole
    }

    /// The first part of a streamed chat: who speaks.
    pub(crate) fn opening(&self, index: usize) -> Value {
        let delta = json!({"role": "assistant", "content": ""});
        self.with(true, vec![json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null})])
    }

    /// One part of a streamed answer.
    pub(crate) fn part(&self, index: usize, text: &str, logprobs: Value, finish: Option<FinishReason>) -> Value {
        let mut choice = json!({"index": index, "logprobs": logprobs, "finish_reason": finish_reason(finish)});
        match self.api {
            Api::Chat if text.is_empty() => choice["delta"] = json!({}),
            Api::Chat => choice["delta"] = json!({"content": text}),
            Api::Completions => choice["text"] = text.into(),
        }
        self.with(true, vec![choice])
    }

    /// The last part of a streamed answer where usage was asked for.
    pub(crate) fn usage(&self, usage: Usage) -> Value {
        let mut part = self.with(true, Vec::new());
        part["usage"] = json!(usage);
        part
    }
}
