//! Calls of functions in answers, as models write them, while they come.

use data::Tokenizer;
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::request::TokenEvent;

/// Marks of calls. Tokenizers that have one as a token of its own may leave it out of texts.
const MARKS: [&str; 5] = ["<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]"];

/// How a model writes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolSyntax {
    /// `<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen.
    Tagged,
    /// The answer is `{"name": …, "parameters": …}`, or several: Llama 3.
    Bare,
    /// `[TOOL_CALLS][{"name": …, "arguments": …}]`, or `[TOOL_CALLS]name[ARGS]{…}`: Mistral.
    Listed,
}

impl ToolSyntax {
    /// That of a chat template, which shows the model how its earlier calls looked.
    pub(crate) fn of(template: &str) -> ToolSyntax {
        match template {
            text if text.contains("[TOOL_CALLS]") => ToolSyntax::Listed,
            text if text.contains("<tool_call>") => ToolSyntax::Tagged,
            _ => ToolSyntax::Bare,
        }
    }

    /// What calls begin with.
    fn mark(self) -> &'static str {
        match self {
            ToolSyntax::Tagged => "<tool_call>",
            ToolSyntax::Bare => "<|python_tag|>",
            ToolSyntax::Listed => "[TOOL_CALLS]",
        }
    }
}

/// A function to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    /// JSON.
    pub(crate) arguments: String,
}

impl ToolCall {
    fn of(value: &Value) -> Option<ToolCall> {
        let value = value.get("function").filter(|inner| inner.is_object()).unwrap_or(value);
        let name = value.get("name")?.as_str().filter(|name| !name.is_empty())?.to_string();
        let arguments = match value.get("arguments").or(value.get("parameters")) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => "{}".into(),
        };
        Some(ToolCall { name, arguments })
    }

    /// As the API has it.
    pub(crate) fn value(&self, id: &str) -> Value {
        json!({"id": id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}})
    }
}

/// Takes an answer apart as it comes.
#[derive(Clone, Debug)]
pub(crate) struct ToolReader {
    syntax: ToolSyntax,
    /// Tokens that are marks and not part of the text.
    hidden: Vec<(u32, &'static str)>,
    /// Not given out yet.
    held: String,
    has_begun: bool,
    /// The rest belongs to calls.
    is_inside: bool,
    has_calls: bool,
}

impl ToolReader {
    pub(crate) fn new(syntax: ToolSyntax, tokenizer: Option<&Tokenizer>) -> ToolReader {
        let hidden = tokenizer.map_or(Vec::new(), |tokenizer| {
            let marks = MARKS.into_iter().filter_map(|mark| Some((tokenizer.token(mark)?, mark)));
            marks.filter(|(token, _)| tokenizer.decode_text(&[*token]).is_ok_and(|text| text.is_empty())).collect()
        });
        ToolReader { syntax, hidden, held: String::new(), has_begun: false, is_inside: false, has_calls: false }
    }

    /// Text that is no call, and calls that are complete.
    pub(crate) fn take(&mut self, event: &TokenEvent) -> (String, Vec<ToolCall>) {
        self.held.push_str(&event.text);
        let token = event.token.map(|token| token.token);
        if let Some((_, mark)) = self.hidden.iter().find(|(hidden, _)| Some(*hidden) == token) {
            self.held.push_str(mark);
        }
        let (text, calls) = self.read(event.finish.is_some());
        self.has_calls |= !calls.is_empty();
        (text, calls)
    }

    fn read(&mut self, is_last: bool) -> (String, Vec<ToolCall>) {
        let (mut text, mut calls) = (String::new(), Vec::new());
        if self.syntax == ToolSyntax::Bare && !self.has_begun {
            let begin = self.held.trim_start();
            if begin.is_empty() && !is_last {
                return (text, calls);
            }
            (self.has_begun, self.is_inside) = (true, begin.starts_with('{'));
        }
        loop {
            if !self.is_inside {
                let mark = self.syntax.mark();
                match self.held.find(mark) {
                    Some(at) => {
                        text.push_str(self.held[..at].trim_end());
                        self.held.drain(..at + mark.len());
                        self.is_inside = true;
                    }
                    None => {
                        // What may become a mark, and spaces before it, wait.
                        let kept = if is_last { 0 } else { self.waiting() };
                        let rest = self.held.split_off(self.held.len() - kept);
                        let said = std::mem::replace(&mut self.held, rest);
                        // Between calls, and after them, there are spaces that nobody wants.
                        if !(said.trim().is_empty() && (self.has_calls || !calls.is_empty())) {
                            text.push_str(&said);
                        }
                        return (text, calls);
                    }
                }
            }
            let end = match self.syntax {
                ToolSyntax::Tagged => self.held.find("</tool_call>"),
                ToolSyntax::Bare | ToolSyntax::Listed => None,
            };
            let inside: String = match end {
                Some(end) => self.held.drain(..end + "</tool_call>".len()).collect(),
                None if is_last => std::mem::take(&mut self.held),
                None => return (text, calls),
            };
            self.is_inside = false;
            match self.calls(inside.trim_end_matches("</tool_call>")) {
                Some(found) => calls.extend(found),
                // It only looked like a call.
                None if self.syntax == ToolSyntax::Bare => text.push_str(&inside),
                None => text.push_str(&format!("{}{inside}", self.syntax.mark())),
            }
        }
    }

    /// Bytes at the end that may belong to a call.
    fn waiting(&self) -> usize {
        let mark = self.syntax.mark();
        let begins = (1..mark.len()).rev().find(|&end| self.held.ends_with(&mark[..end])).unwrap_or(0);
        let before = &self.held[..self.held.len() - begins];
        begins + before.len() - before.trim_end().len()
    }

    fn calls(&self, text: &str) -> Option<Vec<ToolCall>> {
        let text = text.trim();
        let calls = match self.syntax {
            ToolSyntax::Listed if !text.starts_with('[') => named(text)?,
            ToolSyntax::Listed => {
                let all: Vec<Value> = serde_json::from_str(text).ok()?;
                all.iter().map(ToolCall::of).collect::<Option<_>>()?
            }
            ToolSyntax::Tagged | ToolSyntax::Bare => objects(text)?,
        };
        Some(calls).filter(|calls| !calls.is_empty())
    }
}

/// Objects one after another, perhaps with `;` between them.
fn objects(mut text: &str) -> Option<Vec<ToolCall>> {
    let mut calls = Vec::new();
    while !text.is_empty() {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        calls.push(ToolCall::of(&values.next()?.ok()?)?);
        text = text[values.byte_offset()..].trim_start_matches(|c: char| c == ';' || c.is_whitespace());
    }
    Some(calls)
}

/// Names, each before its arguments.
fn named(mut text: &str) -> Option<Vec<ToolCall>> {
    let mut calls = Vec::new();
    while !text.is_empty() {
        let at = text.find('{')?;
        let name = text[..at].trim().trim_end_matches("[ARGS]").trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return None;
        }
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        let arguments = values.next()?.ok()?.to_string();
        calls.push(ToolCall { name: name.to_string(), arguments });
        text = text[at + values.byte_offset()..].trim_start().trim_start_matches("[TOOL_CALLS]").trim_start();
    }
    Some(calls)
}

/// Which functions a request wants to be called.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToolChoice {
    /// The model decides.
    Auto,
    /// None.
    None,
    /// One of those that this schema allows: an object with `name` and `arguments`.
    Forced(Value),
}

impl ToolChoice {
    /// What a request says.
    pub(crate) fn of(choice: Option<&Value>, tools: Option<&Value>) -> Result<ToolChoice, Error> {
        let wrong = |message: String| Error::setting(message, "give tools and tool_choice as OpenAI's API has them");
        let all = match tools {
            None | Some(Value::Null) => return Ok(ToolChoice::None),
            Some(Value::Array(all)) => all,
            Some(_) => return Err(wrong("tools is no list".into())),
        };
        let name_of = |tool: &Value| tool.pointer("/function/name").and_then(Value::as_str).map(str::to_string);
        let chosen: Vec<&Value> = match choice {
            _ if all.is_empty() => return Ok(ToolChoice::None),
            None | Some(Value::Null) => return Ok(ToolChoice::Auto),
            Some(Value::String(word)) => match word.as_str() {
                "auto" => return Ok(ToolChoice::Auto),
                "none" => return Ok(ToolChoice::None),
                "required" => all.iter().collect(),
                _ => return Err(wrong(format!("tool_choice is {word}"))),
            },
            Some(choice) => {
                let name = name_of(choice).ok_or_else(|| wrong("tool_choice names no function".into()))?;
                let found = all.iter().find(|tool| name_of(tool).as_ref() == Some(&name));
                vec![found.ok_or_else(|| wrong(format!("tool_choice is {name}, which is not among the tools")))?]
            }
        };
        let mut definitions = Map::new();
        let mut choices = Vec::new();
        for tool in chosen {
            let name = name_of(tool).ok_or_else(|| wrong("a tool has no function with a name".into()))?;
            let parameters = tool.pointer("/function/parameters").filter(|parameters| parameters.is_object());
            let mut parameters = parameters.cloned().unwrap_or_else(|| json!({"type": "object"}));
            // References begin at the root.
            for key in ["$defs", "definitions"] {
                let Some(Value::Object(own)) = parameters.as_object_mut().and_then(|own| own.remove(key)) else {
                    continue;
                };
                let known = definitions.entry(key).or_insert_with(|| json!({}));
                for (name, schema) in own {
                    match known.get(&name) {
                        Some(other) if *other != schema => {
                            return Err(wrong(format!("two tools have different definitions of {name}")));
                        }
                        _ => known[name] = schema,
                    }
                }
            }
            choices.push(json!({"type": "object", "properties": {"name": {"const": name}, "arguments": parameters},
                "required": ["name", "arguments"], "additionalProperties": false}));
        }
        let mut schema = json!({"anyOf": choices});
        if let Some(schema) = schema.as_object_mut() {
            schema.extend(definitions);
        }
        Ok(ToolChoice::Forced(schema))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{FinishReason, RequestId, TokenProbability};

    /// What comes of a text in pieces of every length.
    #[track_caller]
    fn check(syntax: ToolSyntax, text: &str, expected: &str, calls: &[(&str, &str)]) {
        for size in [1, 2, 3, 7, 1000] {
            let mut reader = ToolReader::new(syntax, None);
            let letters: Vec<char> = text.chars().collect();
            let pieces: Vec<String> = letters.chunks(size).map(|piece| piece.iter().collect()).collect();
            let (mut said, mut found) = (String::new(), Vec::new());
            for (n, text) in pieces.iter().enumerate() {
                let finish = (n + 1 == pieces.len()).then_some(FinishReason::Stop);
                let token = Some(TokenProbability { token: 0, log_probability: 0.0 });
                let event = TokenEvent { id: RequestId(0), token, likeliest: Vec::new(), text: text.clone(), finish };
                let (text, calls) = reader.take(&event);
                said.push_str(&text);
                found.extend(calls);
            }
            let found: Vec<(&str, &str)> = found.iter().map(|c| (c.name.as_str(), c.arguments.as_str())).collect();
            assert_eq!((said.as_str(), found.as_slice()), (expected, calls), "{text} by {size}");
        }
    }

    #[test]
    fn calls_are_read_as_models_write_them() {
        use ToolSyntax::*;
        let one = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>";
        check(Tagged, one, "", &[("weather", r#"{"city":"Köln"}"#)]);
        let two = format!("Let me see. {one}\n<tool_call>{{\"name\": \"time\"}}</tool_call>\n");
        check(Tagged, &two, "Let me see.", &[("weather", r#"{"city":"Köln"}"#), ("time", "{}")]);
        check(Tagged, "a < b, and <tool> is no call ", "a < b, and <tool> is no call ", &[]);
        check(Tagged, "<tool_call>no JSON</tool_call> x", "<tool_call>no JSON</tool_call> x", &[]);
        check(Tagged, "<tool_call>{\"name\": \"cut\", \"argum", "<tool_call>{\"name\": \"cut\", \"argum", &[]);
        check(Tagged, "<tool_call>{\"name\": \"unclosed\"}", "", &[("unclosed", "{}")]);

        let bare = r#"{"name": "weather", "parameters": {"city": "Köln"}}"#;
        check(Bare, bare, "", &[("weather", r#"{"city":"Köln"}"#)]);
        let both = format!("\n{bare}; {bare}");
        check(Bare, &both, "", &[("weather", r#"{"city":"Köln"}"#), ("weather", r#"{"city":"Köln"}"#)]);
        check(Bare, &format!("<|python_tag|>{bare}"), "", &[("weather", r#"{"city":"Köln"}"#)]);
        check(Bare, r#"{"answer": 7}"#, r#"{"answer": 7}"#, &[]);
        check(Bare, "It is {warm}.", "It is {warm}.", &[]);

        let list = r#"[TOOL_CALLS][{"name": "a", "arguments": {"x": [1, 2]}}, {"name": "b", "arguments": "{}"}]"#;
        check(Listed, list, "", &[("a", r#"{"x":[1,2]}"#), ("b", "{}")]);
        check(Listed, "Well [TOOL_CALLS]a[ARGS]{\"x\": 1}[TOOL_CALLS]b{}", "Well", &[("a", r#"{"x":1}"#), ("b", "{}")]);
        check(Listed, "[TOOL_CALLS]nothing", "[TOOL_CALLS]nothing", &[]);
        check(Listed, "see [1] and [TOOL", "see [1] and [TOOL", &[]);
    }

    #[test]
    fn templates_say_how_calls_look() {
        assert_eq!(ToolSyntax::of("…{{ '<tool_call>' }}…"), ToolSyntax::Tagged);
        assert_eq!(ToolSyntax::of("{{ '[TOOL_CALLS]' }}"), ToolSyntax::Listed);
        assert_eq!(ToolSyntax::of("<|start_header_id|>"), ToolSyntax::Bare);
    }

    #[test]
    fn choices_become_schemas() {
        let city = json!({"type": "object", "properties": {"city": {"$ref": "#/$defs/City"}}, "$defs": {"City": {"type": "string"}}});
        let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": city}},
            {"type": "function", "function": {"name": "time"}}]);
        let of = |choice: Value| ToolChoice::of(Some(&choice), Some(&tools));
        assert_eq!(of(json!("auto")).unwrap(), ToolChoice::Auto);
        assert_eq!(of(json!("none")).unwrap(), ToolChoice::None);
        assert_eq!(ToolChoice::of(None, None).unwrap(), ToolChoice::None);
        let ToolChoice::Forced(schema) = of(json!("required")).unwrap() else { panic!("a schema") };
        assert_eq!(schema["anyOf"].as_array().unwrap().len(), 2);
        assert_eq!(schema["$defs"]["City"]["type"], "string");
        let named = of(json!({"type": "function", "function": {"name": "time"}})).unwrap();
        let ToolChoice::Forced(schema) = named else { panic!("a schema") };
        assert_eq!(schema["anyOf"][0]["properties"]["name"]["const"], "time");
        assert!(of(json!({"type": "function", "function": {"name": "none"}})).is_err());
        assert!(of(json!("sometimes")).is_err());
        assert!(ToolChoice::of(None, Some(&json!("x"))).is_err());
    }
}
