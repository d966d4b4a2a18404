//! Answers as OpenAI's API has them.

use data::Tokenizer;
use serde::Serialize;
use serde_json::{Value, json};

use crate::request::{FinishReason, TokenEvent, TokenProbability};
use crate::server::tools::{ToolCall, ToolReader};

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
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) tokens: Vec<(TokenProbability, Vec<TokenProbability>)>,
    pub(crate) finish: Option<FinishReason>,
}

impl OpenAnswer {
    /// One more token; a reader takes calls of functions out of the text.
    pub(crate) fn take(&mut self, event: TokenEvent, reader: Option<&mut ToolReader>) {
        match reader {
            Some(reader) => {
                let (text, calls) = reader.take(&event);
                self.text.push_str(&text);
                self.calls.extend(calls);
            }
            None => self.text.push_str(&event.text),
        }
        self.tokens.extend(event.token.map(|token| (token, event.likeliest)));
        self.finish = event.finish;
    }
}

/// Why an answer ended that has called so many functions.
fn finish_reason(finish: Option<FinishReason>, calls: usize) -> Value {
    match finish {
        Some(FinishReason::Stop) if calls > 0 => "tool_calls".into(),
        Some(FinishReason::Stop) => "stop".into(),
        // An answer whose form was lost is not complete either.
        Some(FinishReason::Length | FinishReason::Cancelled | FinishReason::Format) => "length".into(),
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
            let finish = finish_reason(answer.finish, answer.calls.len());
            let mut choice = json!({"index": index, "logprobs": logprobs, "finish_reason": finish});
            match self.api {
                Api::Chat if answer.calls.is_empty() => {
                    choice["message"] = json!({"role": "assistant", "content": answer.text, "refusal": null});
                }
                Api::Chat => {
                    let content = Some(&answer.text).filter(|text| !text.is_empty());
                    let calls = answer.calls.iter().enumerate();
                    let calls: Vec<Value> = calls.map(|(n, call)| call.value(&self.call_id(index, n))).collect();
                    choice["message"] =
                        json!({"role": "assistant", "content": content, "refusal": null, "tool_calls": calls});
                }
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

    /// One part of a streamed answer, after so many calls of functions.
    pub(crate) fn part(&self, index: usize, part: &OpenAnswer, logprobs: Value, calls: usize) -> Value {
        let finish = finish_reason(part.finish, calls + part.calls.len());
        let mut choice = json!({"index": index, "logprobs": logprobs, "finish_reason": finish});
        match self.api {
            Api::Chat => {
                let mut delta = json!({});
                if !part.text.is_empty() {
                    delta["content"] = part.text.as_str().into();
                }
                if !part.calls.is_empty() {
                    let with_number = |(n, call): (usize, &ToolCall)| {
                        let mut value = call.value(&self.call_id(index, n));
                        value["index"] = n.into();
                        value
                    };
                    delta["tool_calls"] = (calls..).zip(&part.calls).map(with_number).collect();
                }
                choice["delta"] = delta;
            }
            Api::Completions => choice["text"] = part.text.as_str().into(),
        }
        self.with(true, vec![choice])
    }

    /// The name of a call of one of the answers.
    fn call_id(&self, index: usize, number: usize) -> String {
        format!("call-{}-{index}-{number}", self.id.trim_start_matches("chatcmpl-"))
    }

    /// The last part of a streamed answer where usage was asked for.
    pub(crate) fn usage(&self, usage: Usage) -> Value {
        let mut part = self.with(true, Vec::new());
        part["usage"] = json!(usage);
        part
    }
}
