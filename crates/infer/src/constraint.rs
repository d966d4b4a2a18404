//! Answers of a form that was asked for: which tokens may come next.
//!
//! Schemas come from strangers. How much of one is read, how large its grammar may become, and how much work a mask may take are
//! bounded; what is over a bound is refused, or ends that answer alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use data::Tokenizer;
use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{JsonCompileOptions, Matcher, ParserFactory, TokenParser};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::Error;

/// Longest schema.
const MAX_SCHEMA_BYTES: usize = 128 << 10;
/// Most entries of an object or a list in a schema: the library goes through properties by calling itself.
const MAX_ENTRIES: usize = 512;
/// Most entries of lists of texts, such as `enum`.
const MAX_TEXTS: usize = 4096;
/// Longest regular expression.
const MAX_PATTERN_BYTES: usize = 512;
/// Largest number of items, letters or properties.
const MAX_COUNT: u64 = 1 << 16;
/// The stack of the thread that reads a schema: many times what the largest one takes.
const STACK_BYTES: usize = 64 << 20;
/// Longest token that takes part; vocabularies have runs of spaces that are longer than any answer needs.
const MAX_TOKEN_BYTES: usize = 256;
/// Grammars that are kept.
const MAX_KEPT: usize = 16;
/// Between two parts of JSON at most so many spaces and line breaks: a model that likes them would write nothing else.
const WHITESPACE: &str = r"[\x20\x0A\x09]{1,16}";
/// Letters of a reason for a refusal.
const MAX_REASON: usize = 300;

/// What an answer must look like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// Any text.
    #[default]
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that this schema allows.
    JsonSchema(Value),
}

/// Grammars of a model's vocabulary.
pub(crate) struct Constraints {
    tokenizer: Option<Tokenizer>,
    end_tokens: Vec<u32>,
    vocabulary: usize,
    /// Made when it is first needed: a large vocabulary takes a moment.
    factory: OnceLock<Result<ParserFactory, String>>,
    kept: Mutex<VecDeque<(String, TokenParser)>>,
}

/// What may come next in one answer.
pub(crate) struct Guide {
    matcher: Matcher,
    /// A bit for each token of the vocabulary.
    allowed: Vec<u32>,
    vocabulary: usize,
}

/// How an answer stands after a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guided {
    /// More must or may come.
    GoesOn,
    /// It is complete.
    Complete,
    /// What may come next cannot be told within the bounds.
    Lost,
}

impl std::fmt::Debug for Constraints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Constraints({} tokens)", self.vocabulary)
    }
}

fn refused(why: impl std::fmt::Display) -> Error {
    // The library adds its state after the first line.
    let why = why.to_string();
    let why: String = why.lines().next().unwrap_or_default().chars().take(MAX_REASON).collect();
    Error::setting(format!("the JSON schema: {why}"), "simplify the schema, or leave out response_format")
}

impl Constraints {
    pub(crate) fn new(tokenizer: Option<Tokenizer>, end_tokens: &[u32], vocabulary: usize) -> Constraints {
        let end_tokens = end_tokens.iter().copied().filter(|&token| (token as usize) < vocabulary).collect();
        Constraints { tokenizer, end_tokens, vocabulary, factory: OnceLock::new(), kept: Mutex::default() }
    }

    /// The guide of a form; `None` for text.
    pub(crate) fn guide(&self, format: &OutputFormat) -> Result<Option<Guide>, Error> {
        let schema = match format {
            OutputFormat::Text => return Ok(None),
            OutputFormat::JsonObject => json!({"type": "object"}),
            OutputFormat::JsonSchema(schema) => schema.clone(),
        };
        let parser = self.parser(schema)?;
        let mut guide = Guide { matcher: Matcher::new(Ok(parser)), allowed: Vec::new(), vocabulary: self.vocabulary };
        match guide.look() {
            Guided::GoesOn => Ok(Some(guide)),
            Guided::Complete => Err(refused("it allows the empty text only")),
            Guided::Lost => {
                let why = guide.matcher.get_error();
                Err(refused(why.as_deref().unwrap_or("no token of the vocabulary can begin an answer")))
            }
        }
    }

    /// A parser at its begin: a copy of one that is kept, or a new one.
    fn parser(&self, mut schema: Value) -> Result<TokenParser, Error> {
        if !schema.is_object() {
            return Err(refused("it is no object"));
        }
        let text = schema.to_string();
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(refused(format!("it is longer than {MAX_SCHEMA_BYTES} bytes")));
        }
        let find = |kept: &VecDeque<(String, TokenParser)>| {
            kept.iter().find(|(known, _)| *known == text).map(|(_, parser)| parser.deep_clone())
        };
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parser) = find(&lock()) {
            return Ok(parser);
        }
        let factory = self.factory.get_or_init(|| self.make()).as_ref().map_err(|why| {
            Error::setting(format!("answers cannot be constrained: {why}"), "leave out response_format")
        })?;
        let options =
            JsonCompileOptions { whitespace_pattern: Some(WHITESPACE.into()), ..JsonCompileOptions::default() };
        check(&schema).map_err(refused)?;
        options.apply_to(&mut schema);
        let parser = std::thread::scope(|scope| {
            let grammar = TopLevelGrammar::from_json_schema(schema);
            let reader = std::thread::Builder::new().stack_size(STACK_BYTES);
            let reader = reader.spawn_scoped(scope, || factory.create_parser(grammar)).map_err(refused)?;
            reader.join().map_err(|_| refused("it cannot be read"))?.map_err(refused)
        })?;
        let mut kept = lock();
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back((text, parser.deep_clone()));
        Ok(parser)
    }

    fn make(&self) -> Result<ParserFactory, String> {
        let tokenizer = self.tokenizer.as_ref().ok_or("the model has no tokenizer")?;
        let mut words = tokenizer.token_bytes().map_err(|error| error.to_string())?;
        words.resize(self.vocabulary, Vec::new());
        for (token, word) in words.iter_mut().enumerate() {
            if word.len() > MAX_TOKEN_BYTES || self.end_tokens.contains(&(token as u32)) {
                word.clear();
            }
        }
        // Without a token that ends a text, one that the model does not have stands for it.
        let mut ends = self.end_tokens.clone();
        if ends.is_empty() {
            ends.push(words.len() as u32);
            words.push(Vec::new());
        }
        let info = TokRxInfo::new(words.len() as u32, ends[0]);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(&ends);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::json_slices();
        let factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices);
        let mut factory = factory.map_err(|error| error.to_string())?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            max_items_in_row: 2_000,
            initial_lexer_fuel: 1_000_000,
            step_lexer_fuel: 200_000,
            step_max_items: 50_000,
            max_lexer_states: 10_000,
            max_grammar_size: 100_000,
            precompute_large_lexemes: false,
            verbose_errors: false,
        };
        Ok(factory)
    }
}

/// Refuses what is large beyond need.
fn check(schema: &Value) -> Result<(), String> {
    let mut left = vec![("", schema)];
    while let Some((key, value)) = left.pop() {
        let is_count = ["Length", "Items", "Properties"].iter().any(|end| key.ends_with(end));
        match value {
            Value::Object(entries) => {
                if entries.len() > MAX_ENTRIES {
                    return Err(format!("{key} has {} entries; at most {MAX_ENTRIES} are read", entries.len()));
                }
                if key == "patternProperties" && entries.keys().any(|pattern| pattern.len() > MAX_PATTERN_BYTES) {
                    return Err(format!("a pattern is longer than {MAX_PATTERN_BYTES} bytes"));
                }
                left.extend(entries.iter().map(|(key, value)| (key.as_str(), value)));
            }
            Value::Array(entries) => {
                let most = if entries.iter().all(Value::is_string) { MAX_TEXTS } else { MAX_ENTRIES };
                if entries.len() > most {
                    return Err(format!("{key} has {} entries; at most {most} are read", entries.len()));
                }
                left.extend(entries.iter().map(|value| (key, value)));
            }
            Value::String(text) if key == "pattern" && text.len() > MAX_PATTERN_BYTES => {
                return Err(format!("a pattern is longer than {MAX_PATTERN_BYTES} bytes"));
            }
            Value::Number(number) if is_count && number.as_f64().is_some_and(|number| number > MAX_COUNT as f64) => {
                return Err(format!("{key} is {number}; at most {MAX_COUNT} are counted"));
            }
            _ => {}
        }
    }
    Ok(())
}

impl Guide {
    /// A bit for each token: whether it may come next.
    pub(crate) fn allowed(&self) -> &[u32] {
        &self.allowed
    }

    /// One more token.
    pub(crate) fn take(&mut self, token: u32) -> Guided {
        if self.matcher.consume_token(token).is_err() {
            return Guided::Lost;
        }
        self.look()
    }

    /// Finds out what may come next.
    fn look(&mut self) -> Guided {
        if self.matcher.is_stopped() {
            return if self.matcher.stop_reason().is_ok() { Guided::Complete } else { Guided::Lost };
        }
        let Ok(mask) = self.matcher.compute_mask() else { return Guided::Lost };
        self.allowed.clear();
        self.allowed.extend_from_slice(mask.as_slice());
        self.allowed.resize(self.vocabulary.div_ceil(u32::BITS as usize), 0);
        // Bits beyond the vocabulary stand for an end that the model cannot write.
        let rest = self.vocabulary % u32::BITS as usize;
        if let Some(last) = self.allowed.last_mut().filter(|_| rest > 0) {
            *last &= (1 << rest) - 1;
        }
        match self.allowed.iter().any(|bits| *bits != 0) {
            true => Guided::GoesOn,
            false if self.matcher.is_accepting().unwrap_or(false) => Guided::Complete,
            false => Guided::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bytes() -> Constraints {
        Constraints::new(Some(Tokenizer::bytes()), &[], 256)
    }

    /// Whether a text is what a schema allows: complete, cut off, or refused at a byte.
    fn follow(constraints: &Constraints, schema: &Value, text: &str) -> Result<Guided, usize> {
        let mut guide = constraints.guide(&OutputFormat::JsonSchema(schema.clone())).unwrap().unwrap();
        let mut state = Guided::GoesOn;
        for (at, byte) in text.bytes().enumerate() {
            let is_allowed = guide.allowed()[usize::from(byte) / 32] >> (byte % 32) & 1 == 1;
            if state != Guided::GoesOn || !is_allowed {
                return Err(at);
            }
            state = guide.take(byte.into());
        }
        Ok(state)
    }

    #[test]
    fn schemas_say_which_bytes_may_come() {
        let constraints = of_bytes();
        let schema = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5},
            "age": {"type": "integer", "minimum": 0, "maximum": 150}, "kind": {"enum": ["a", "b"]}},
            "required": ["name", "age"], "additionalProperties": false});
        let follow = |text: &str| follow(&constraints, &schema, text);
        assert_eq!(follow(r#"{"name": "Ada", "age": 36}"#), Ok(Guided::Complete));
        assert_eq!(follow(r#"{"name":"Ada","age":36,"kind":"b"}"#), Ok(Guided::Complete));
        assert_eq!(follow(r#"{"name": "Ada""#), Ok(Guided::GoesOn));
        assert_eq!(follow(r#"{"name": "Ada"}"#), Err(14));
        assert_eq!(follow(r#"{"name": "Ada", "age": 151}"#), Err(25));
        assert_eq!(follow(r#"{"name": "Ada", "age": 36, "kind": "c"}"#), Err(36));
        assert_eq!(follow(r#"{"name": "Augusta"#), Err(15));
        assert_eq!(follow("Sure: {"), Err(0));
        assert_eq!(follow(&format!("{{{}", " ".repeat(40))), Err(17));
    }

    #[test]
    fn references_patterns_and_choices_work() {
        let constraints = of_bytes();
        let tree = json!({"$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}},
            "additionalProperties": false}}, "$ref": "#/$defs/node"});
        assert_eq!(follow(&constraints, &tree, r#"{"next": {"next": {}}}"#), Ok(Guided::Complete));
        assert_eq!(follow(&constraints, &tree, r#"{"next": 1}"#), Err(9));
        let choice = json!({"anyOf": [{"type": "string", "pattern": "^[a-f]{2}$"}, {"type": "array", "items": {"type": "boolean"},
            "maxItems": 2}]});
        assert_eq!(follow(&constraints, &choice, r#""ab""#), Ok(Guided::Complete));
        assert_eq!(follow(&constraints, &choice, r#""ax"#), Err(2));
        assert_eq!(follow(&constraints, &choice, "[true, false]"), Ok(Guided::Complete));
    }

    #[test]
    fn hostile_schemas_are_refused_with_a_reason() {
        let constraints = of_bytes();
        let refused = |schema: Value| match constraints.guide(&OutputFormat::JsonSchema(schema)) {
            Ok(_) => "taken".to_string(),
            Err(error) => error.to_string(),
        };
        let text = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let check = |schema: Value, expected: &str| {
            let shown: String = schema.to_string().chars().take(80).collect();
            let why = refused(schema);
            assert!(why.contains(expected) && why.len() < 400, "{shown}: {why}");
        };
        check(json!([1, 2]), "no object");
        check(json!({"enum": ["x".repeat(200_000)]}), "longer than");
        check(json!({"type": "alien"}), "the JSON schema");
        check(json!({"$ref": "https://example.com/schema"}), "the JSON schema");
        check(json!({"$ref": "file:///etc/passwd"}), "the JSON schema");
        check(json!({"$ref": "#/$defs/none"}), "the JSON schema");
        check(json!({"type": "string", "pattern": "("}), "the JSON schema");
        check(json!({"allOf": [{"type": "string"}, {"type": "integer"}]}), "the JSON schema");
        let wide: Vec<String> = (0..4000).map(|n| format!(r#""p{n}": {{"type": "string"}}"#)).collect();
        let wide = text(&format!(r#"{{"type": "object", "properties": {{{}}}}}"#, wide.join(", ")));
        check(wide, "properties has 4000 entries");
        check(json!({"type": "array", "items": {"type": "string"}, "minItems": 1_000_000_000u64}), "minItems");
        check(json!({"type": "string", "minLength": 1_000_000_000u64}), "minLength");
        check(json!({"type": "string", "pattern": "[ab]".repeat(1000)}), "a pattern is longer");
        // These are no crime, but must be bounded work either way.
        let many = |count: usize, most: u64| {
            let properties = (0..count).map(|n| (format!("p{n}"), json!({"type": "string", "maxLength": most})));
            json!({"type": "object", "properties": properties.collect::<serde_json::Map<_, _>>()})
        };
        for schema in [
            many(MAX_ENTRIES, MAX_COUNT),
            json!({"type": "string", "pattern": "(a|b){1000}(c|d){1000}((((x+)+)+)+){500}"}),
            json!({"type": "string", "pattern": "[ab]".repeat(128)}),
            json!({"type": "array", "items": many(20, 9), "minItems": MAX_COUNT, "maxItems": MAX_COUNT}),
            json!({"anyOf": (0..MAX_ENTRIES).map(|n| json!({"type": "array", "minItems": n})).collect::<Vec<_>>()}),
            (0..60).fold(json!({"type": "integer"}), |inner, _| json!({"type": "array", "items": inner})),
        ] {
            if let Ok(Some(mut guide)) = constraints.guide(&OutputFormat::JsonSchema(schema)) {
                // Whatever is allowed is taken, for a while.
                for _ in 0..20 {
                    let Some(token) = (0..256).find(|n| guide.allowed()[n / 32] >> (n % 32) & 1 == 1) else { break };
                    if guide.take(token as u32) != Guided::GoesOn {
                        break;
                    }
                }
            }
        }
        let mut deep = json!({"type": "integer"});
        for _ in 0..100 {
            deep = json!({"anyOf": [deep.clone(), {"type": "array", "items": deep}]});
            if deep.to_string().len() > MAX_SCHEMA_BYTES {
                break;
            }
        }
        check(deep, "longer than");
    }

    #[test]
    fn an_end_is_a_token_where_the_model_has_one() {
        let constraints = Constraints::new(Some(Tokenizer::bytes()), &[0], 256);
        let mut guide = constraints.guide(&OutputFormat::JsonSchema(json!({"type": "integer"}))).unwrap().unwrap();
        assert_eq!(guide.allowed()[0] & 1, 0);
        assert_eq!(guide.take(b'7'.into()), Guided::GoesOn);
        assert_eq!(guide.allowed()[0] & 1, 1);
        assert_eq!(guide.take(0), Guided::Complete);
        assert!(Constraints::new(None, &[], 256).guide(&OutputFormat::JsonObject).is_err());
    }
}
