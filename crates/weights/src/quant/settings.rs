//! Settings of a `quantization_config`, each read as its type or refused by name.

use serde_json::{Map, Value};

use crate::quant::refusal::Refusal;

/// An object of settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> Settings<'a> {
    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// `null` is the same as nothing.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, Refusal> {
        let read = |value: &'a Value| value.as_str().ok_or_else(|| wrong(key, value, "a text"));
        self.get(key).map(read).transpose()
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, Refusal> {
        let read = |value: &'a Value| value.as_bool().ok_or_else(|| wrong(key, value, "true or false"));
        self.get(key).map(read).transpose()
    }

    pub(crate) fn object(&self, key: &str) -> Result<Option<&'a Map<String, Value>>, Refusal> {
        let read = |value: &'a Value| value.as_object().ok_or_else(|| wrong(key, value, "an object"));
        self.get(key).map(read).transpose()
    }

    pub(crate) fn count(&self, key: &str) -> Result<Option<usize>, Refusal> {
        let read = |value: &'a Value| {
            let count = value.as_u64().and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
            count.ok_or_else(|| wrong(key, value, "a positive number"))
        };
        self.get(key).map(read).transpose()
    }

    /// Inputs of a group; `None` where it is -1 or not given: all inputs.
    pub(crate) fn group_size(&self, key: &str) -> Result<Option<usize>, Refusal> {
        if self.get(key).and_then(Value::as_i64) == Some(-1) { Ok(None) } else { self.count(key) }
    }

    /// One of some numbers of bits.
    pub(crate) fn bits(&self, key: &str, known: &[u32]) -> Result<u32, Refusal> {
        let Some(value) = self.get(key) else {
            return Err(Refusal::new(format!("`{key}` is missing"), "add the number of bits the weights have"));
        };
        let bits = value.as_u64().and_then(|bits| u32::try_from(bits).ok()).filter(|bits| known.contains(bits));
        bits.ok_or_else(|| {
            let list: Vec<String> = known.iter().map(ToString::to_string).collect();
            wrong(key, value, &format!("one of {}", list.join(", ")))
        })
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Vec<&'a str>, Refusal> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| wrong(key, value, "a list"))?;
        list.iter().map(|item| item.as_str().ok_or_else(|| wrong(key, item, "a text"))).collect()
    }
}

pub(crate) fn wrong(key: &str, value: &Value, expected: &str) -> Refusal {
    let mut shown = value.to_string();
    if shown.len() > 60 {
        shown = shown.chars().take(60).chain("…".chars()).collect();
    }
    Refusal::new(
        format!("`{key}` is {shown}, not {expected}"),
        "correct the configuration, or quantize the model again",
    )
}
