//! Chat templates as Hugging Face writes them: messages become a prompt.

use std::path::Path;

use minijinja::value::Value as TemplateValue;
use minijinja::{Environment, ErrorKind};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::settings::{read_json, read_settings};

/// Instructions that a template may execute: one that loops for ever ends.
const FUEL: u64 = 2_000_000;
/// Longest prompt that a template may write.
const MAX_PROMPT_BYTES: usize = 64 << 20;

/// Roles that any template may be given; others must be named by it.
const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Who speaks, and what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or what else the template knows.
    pub role: String,
    /// A text, or parts as the template knows them.
    #[serde(default)]
    pub content: Value,
    /// Anything else, such as `tool_calls`.
    #[serde(flatten)]
    pub rest: serde_json::Map<String, Value>,
}

/// How messages become a prompt.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    text: String,
    special: Vec<(String, String)>,
}

impl ChatTemplate {
    /// The template of a folder: `chat_template.jinja`, or that of `tokenizer_config.json`; `None` where there is none.
    pub fn open(folder: &Path) -> Result<Option<ChatTemplate>, Error> {
        let settings = read_json(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
        let text = match read_settings(&folder.join("chat_template.jinja"))? {
            Some(text) => text,
            None => match settings.get("chat_template") {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Array(named)) => {
                    let of =
                        |name: &str| named.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(name));
                    let chosen = of("default").or(named.first()).and_then(|one| one.get("template"));
                    match chosen.and_then(Value::as_str) {
                        Some(text) => text.to_string(),
                        None => return Ok(None),
                    }
                }
                _ => return Ok(None),
            },
        };
        let special = ["bos_token", "eos_token", "pad_token", "unk_token"].into_iter().filter_map(|name| {
            let token = settings.get(name)?;
            let token = token.as_str().or_else(|| token.get("content").and_then(Value::as_str))?;
            Some((name.to_string(), token.to_string()))
        });
        ChatTemplate::new(&text, special.collect()).map(Some)
    }

    /// A template, with names of tokens such as `bos_token` and their texts.
    pub fn new(text: &str, special: Vec<(String, String)>) -> Result<ChatTemplate, Error> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<TemplateValue, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_template_owned("chat", text.to_string()).map_err(failed)?;
        Ok(ChatTemplate { environment, text: text.to_string(), special })
    }

    /// The template itself.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn knows(&self, role: &str) -> bool {
        ROLES.contains(&role) || ["'", "\""].iter().any(|quote| self.text.contains(&format!("{quote}{role}{quote}")))
    }

    /// The prompt of messages; it ends where the assistant begins to speak. `tools` are functions it may call, as JSON schemas.
    pub fn render(&self, messages: &[Message], tools: Option<&Value>) -> Result<String, Error> {
        let template = self.environment.get_template("chat").map_err(failed)?;
        let mut context: std::collections::BTreeMap<String, TemplateValue> =
            self.special.iter().map(|(name, text)| (name.clone(), TemplateValue::from(text.clone()))).collect();
        context.insert("messages".into(), TemplateValue::from_serialize(messages));
        context.insert("add_generation_prompt".into(), TemplateValue::from(true));
        context.insert("tools".into(), tools.map_or(TemplateValue::from(()), TemplateValue::from_serialize));
        let mut bounded = Bounded(Vec::new());
        template.render_captured_to(TemplateValue::from_serialize(&context), &mut bounded).map_err(failed)?;
        // Some templates refuse roles they do not know, in their own words; many leave their messages out.
        if let Some(message) = messages.iter().find(|message| !self.knows(&message.role)) {
            let (role, known) = (&message.role, ROLES.join(", "));
            return Err(Error::Template {
                message: format!("it does not know the role `{role}`; known are {known}, and those it names"),
            });
        }
        String::from_utf8(bounded.0).map_err(|_| Error::Template { message: "it writes no text".into() })
    }
}

/// Text up to a length.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_PROMPT_BYTES {
            return Err(std::io::Error::other(format!("the prompt is longer than {MAX_PROMPT_BYTES} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn failed(error: minijinja::Error) -> Error {
    // What `raise_exception` said is all that the caller needs.
    let message = match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_string(),
        _ => error.to_string(),
    };
    Error::Template { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, text: &str) -> Message {
        Message { role: role.into(), content: text.into(), rest: serde_json::Map::new() }
    }

    #[test]
    fn messages_become_prompts() {
        let text = "{{ bos_token }}{% for m in messages %}{% if m['role'] not in ['user', 'assistant'] %}\
                    {{ raise_exception('unknown role ' + m['role']) }}{% endif %}<|{{ m.role }}|>{{ m.content.strip() }}\n\
                    {% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
        let template = ChatTemplate::new(text, vec![("bos_token".into(), "<s>".into())]).unwrap();
        let prompt = template.render(&[message("user", " hi "), message("assistant", "ho")], None).unwrap();
        assert_eq!(prompt, "<s><|user|>hi\n<|assistant|>ho\n<|assistant|>");
        let refused = template.render(&[message("tool", "x")], None).unwrap_err();
        assert_eq!(refused.to_string(), "the chat template: unknown role tool");
    }

    #[test]
    fn roles_that_a_template_would_leave_out_are_refused() {
        let text = "{% for m in messages %}{% if m.role == 'user' or m.role == 'critic' %}{{ m.content }}{% endif %}{% endfor %}";
        let template = ChatTemplate::new(text, Vec::new()).unwrap();
        assert_eq!(template.render(&[message("user", "a"), message("critic", "b")], None).unwrap(), "ab");
        let refused = template.render(&[message("user", "a"), message("alien", "b")], None).unwrap_err();
        assert!(refused.to_string().contains("role `alien`"), "{refused}");
    }

    #[test]
    fn templates_without_an_end_are_stopped() {
        let text = "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}";
        let template = ChatTemplate::new(text, Vec::new()).unwrap();
        assert!(matches!(template.render(&[], None), Err(Error::Template { .. })));
    }
}
