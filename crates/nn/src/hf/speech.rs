//! `config.json` of Whisper.

use serde_json::Value;

use crate::error::Error;
use crate::models::WhisperConfig;

/// Reads the configuration of a Whisper.
pub fn read_whisper_config(config: &Value) -> Result<WhisperConfig, Error> {
    let model_type = config.get("model_type").and_then(Value::as_str).unwrap_or("");
    if model_type != "whisper" {
        return Err(Error::config(format!("models of type `{model_type}` do not hear speech; `whisper` does")));
    }
    if config.get("tie_word_embeddings") == Some(&Value::Bool(false)) {
        return Err(Error::config("a Whisper with an LM head of its own (tie_word_embeddings) is not supported"));
    }
    let mut given = config.clone();
    if let Some(keys) = given.as_object_mut() {
        // `null` is as if a key were not there.
        keys.retain(|_, value| !value.is_null());
    }
    let config: WhisperConfig = serde_json::from_value(given)
        .map_err(|error| Error::config(format!("the configuration is malformed: {error}")))?;
    config.checked()
}
