//! A table of a job file, read key by key: what is not asked for in the end is unknown, and the nearest known key is told.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use chips::{nearest_word, quantity};
use toml::{Table, Value};

/// One thing that is wrong with a job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFault {
    /// Where: `slices.zones[1]`.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// The nearest right value, or what to write instead.
    pub instead: Option<String>,
}

/// Everything that is wrong with a job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFileError {
    /// The file, where it came from one.
    pub path: Option<PathBuf>,
    /// The faults, at least one.
    pub faults: Vec<JobFault>,
}

impl fmt::Display for JobFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.is_empty() {
            true => write!(f, "{}", self.what)?,
            false => write!(f, "{}: {}", self.key, self.what)?,
        }
        self.instead.as_ref().map_or(Ok(()), |instead| write!(f, "; write {instead}"))
    }
}

impl fmt::Display for JobFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        for (number, fault) in self.faults.iter().enumerate() {
            let separator = if number == 0 { "" } else { "\n  and " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for JobFileError {}

/// Faults found so far.
pub(super) type Faults = Vec<JobFault>;

/// Notes a fault.
pub(super) fn fault(faults: &mut Faults, key: impl Into<String>, what: impl Into<String>, instead: Option<String>) {
    faults.push(JobFault { key: key.into(), what: what.into(), instead });
}

/// One table, and what has been asked of it.
pub(super) struct Keys<'a> {
    path: &'static str,
    table: Table,
    known: Vec<&'static str>,
    pub(super) faults: &'a mut Faults,
}

impl<'a> Keys<'a> {
    pub(super) fn new(path: &'static str, table: Table, faults: &'a mut Faults) -> Self {
        Keys { path, table, known: Vec::new(), faults }
    }

    /// Where a key is, for people.
    pub(super) fn place(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_string() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn fault(&mut self, key: &str, what: impl Into<String>, instead: Option<String>) {
        let place = self.place(key);
        fault(self.faults, place, what, instead);
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.table.remove(key)
    }

    fn wrong_type(&mut self, key: &str, found: &Value, expected: &str, example: &str) {
        let what = format!("it is {}, and must be {expected}", kind(found));
        self.fault(key, what, Some(format!("{key} = {example}")));
    }

    pub(super) fn table(&mut self, key: &'static str) -> Table {
        match self.take(key) {
            None => Table::new(),
            Some(Value::Table(table)) => table,
            Some(other) => {
                self.wrong_type(key, &other, "a table", "{ … }");
                Table::new()
            }
        }
    }

    pub(super) fn text(&mut self, key: &'static str, example: &str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) if text.trim().is_empty() => {
                self.fault(key, "it is empty", Some(format!("{key} = \"{example}\"")));
                None
            }
            Value::String(text) => Some(text),
            other => {
                self.wrong_type(key, &other, "a text", &format!("\"{example}\""));
                None
            }
        }
    }

    /// A text that must be there.
    pub(super) fn needed(&mut self, key: &'static str, example: &str) -> String {
        let is_there = self.table.contains_key(key);
        let text = self.text(key, example);
        if text.is_none() && !is_there {
            self.fault(key, "it is missing", Some(format!("{key} = \"{example}\"")));
        }
        text.unwrap_or_default()
    }

    pub(super) fn is_set(&mut self, key: &'static str) -> bool {
        match self.take(key) {
            None => false,
            Some(Value::Boolean(is_set)) => is_set,
            Some(other) => {
                self.wrong_type(key, &other, "true or false", "true");
                false
            }
        }
    }

    pub(super) fn count(&mut self, key: &'static str, example: u32) -> Option<u32> {
        match self.take(key)? {
            Value::Integer(count) => match u32::try_from(count) {
                Ok(count) => Some(count),
                Err(_) => {
                    let near = if count < 0 { 0 } else { u32::MAX };
                    self.fault(key, format!("{count} is out of range"), Some(format!("{key} = {near}")));
                    None
                }
            },
            other => {
                self.wrong_type(key, &other, "a whole number", &example.to_string());
                None
            }
        }
    }

    /// A time, in whole seconds: `90m`, `3d`.
    pub(super) fn seconds(&mut self, key: &'static str, example: &str) -> Option<u64> {
        match self.take(key)? {
            Value::String(text) => match quantity::seconds(&text) {
                Ok(seconds) => Some((seconds.round() as u64).max(1)),
                Err(error) => {
                    let number = text.trim().parse::<f64>().is_ok_and(|n| n > 0.0);
                    let near = if number { format!("{}s", text.trim()) } else { example.to_string() };
                    self.fault(key, error.to_string(), Some(format!("{key} = \"{near}\"")));
                    None
                }
            },
            Value::Integer(number) if number > 0 => {
                let what = format!("{number} has no unit");
                self.fault(key, what, Some(format!("{key} = \"{number}s\"")));
                None
            }
            other => {
                self.wrong_type(key, &other, "a time", &format!("\"{example}\""));
                None
            }
        }
    }

    /// US dollars: `$500`, or a number.
    pub(super) fn dollars(&mut self, key: &'static str, example: &str) -> Option<f64> {
        let value = self.take(key)?;
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            other => {
                self.wrong_type(key, other, "an amount of US dollars", &format!("\"{example}\""));
                return None;
            }
        };
        match quantity::dollars(&text) {
            Ok(dollars) => Some(dollars),
            Err(error) => {
                self.fault(key, error.to_string(), Some(format!("{key} = \"{example}\"")));
                None
            }
        }
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&mut self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let text = self.text(key, words[0].0)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let near = nearest_word(&text, known.iter().copied()).unwrap_or(known[0]);
        self.fault(key, format!("`{text}` is not one of {}", known.join(", ")), Some(format!("{key} = \"{near}\"")));
        None
    }

    pub(super) fn texts(&mut self, key: &'static str, example: &str) -> Vec<String> {
        match self.take(key) {
            None => Vec::new(),
            Some(Value::Array(items)) => {
                let mut texts = Vec::new();
                for (number, item) in items.into_iter().enumerate() {
                    match item {
                        Value::String(text) if !text.is_empty() => texts.push(text),
                        other => {
                            let what = format!("item {number} is {}, and must be a text", kind(&other));
                            self.fault(key, what, Some(format!("{key} = [\"{example}\"]")));
                        }
                    }
                }
                texts
            }
            Some(Value::String(text)) => {
                let what = "it is a text, and must be a list of texts";
                self.fault(key, what, Some(format!("{key} = [{text:?}]")));
                Vec::new()
            }
            Some(other) => {
                self.wrong_type(key, &other, "a list of texts", &format!("[\"{example}\"]"));
                Vec::new()
            }
        }
    }

    pub(super) fn paths(&mut self, key: &'static str, example: &str) -> Vec<PathBuf> {
        self.texts(key, example).into_iter().map(PathBuf::from).collect()
    }

    /// A table of texts; numbers and truth values are taken as they are written.
    pub(super) fn map(&mut self, key: &'static str) -> BTreeMap<String, String> {
        let mut map = BTreeMap::new();
        for (name, value) in self.table(key) {
            match value {
                Value::String(text) => map.insert(name, text),
                Value::Integer(_) | Value::Boolean(_) => map.insert(name, value.to_string()),
                other => {
                    let what = format!("`{name}` is {}, and must be a text", kind(&other));
                    self.fault(key, what, Some(format!("{name} = \"…\"")));
                    None
                }
            };
        }
        map
    }

    /// Tells of every key that nobody asked for.
    pub(super) fn end(mut self) {
        let unknown: Vec<String> = self.table.keys().cloned().collect();
        for key in unknown {
            let near = nearest_word(&key, self.known.iter().copied());
            let instead = match near {
                Some(near) => near.to_string(),
                None => format!("one of {}", self.known.join(", ")),
            };
            self.fault(&key, "no such key", Some(instead));
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}
