//! A training that starts from a Hugging Face folder: `[model] from = "folder"` gives sizes, weights and the tokenizer.

use std::io::Read;
use std::path::{Path, PathBuf};

use nn::hf;
use serde_json::Value;
use trace::Tree;
use weights::quant::QuantizedFolder;

use crate::config::{DataConfig, TrainConfig};
use crate::error::Error;
use crate::task::Given;

/// Longest configuration that is read.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// A folder of weights.
#[derive(Clone, Debug)]
pub(crate) struct Pretrained {
    folder: PathBuf,
    family: hf::Family,
}

impl Pretrained {
    /// Reads `from` of the table `[model]`. The sizes of the folder's `config.json` come into the table, so that
    /// checkpoints can be read without the folder; other words of the table are changes of them. A text without a
    /// tokenizer gets the folder's.
    pub(crate) fn resolve(config: &mut TrainConfig, beside: &Path) -> Result<Option<Pretrained>, Error> {
        let Some(from) = config.model.get("from") else {
            return match &config.data.source {
                DataConfig::Text { tokenizer: None, .. } => Err(Error::new("data.tokenizer is not set")
                    .hint("set it to \"bytes\" or a tokenizer.json; only a model with `from` brings its own")),
                _ => Ok(None),
            };
        };
        let from = from.as_str().ok_or_else(|| {
            Error::new("model.from is not a string").hint("give the path of a folder with config.json and safetensors")
        })?;
        let folder = std::path::absolute(beside.join(from)).map_err(Error::new)?;
        let path = folder.join("config.json");
        let text = std::fs::File::open(&path).and_then(|file| {
            let mut text = String::new();
            // A file may be longer than its length says: a pipe, a device.
            match file.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text)? as u64 {
                0..=MAX_CONFIG_BYTES => Ok(text),
                _ => Err(std::io::Error::other(format!("it is longer than {MAX_CONFIG_BYTES} bytes"))),
            }
        });
        let wrong = |error: &dyn std::fmt::Display| {
            Error::new(format!("{}: {error}", path.display()))
                .hint("model.from is a Hugging Face folder: config.json, safetensors, and tokenizer.json for text")
        };
        let text = text.map_err(|error| wrong(&error))?;
        let mut sizes: serde_json::Map<String, Value> = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        let changes = config.model.as_object().into_iter().flatten().filter(|(name, _)| *name != "from");
        sizes.extend(changes.map(|(name, value)| (name.clone(), value.clone())));
        let sizes = Value::Object(sizes);
        let model = hf::ModelConfig::parse(&sizes.to_string()).map_err(|error| wrong(&error))?;
        config.model = sizes;
        if let DataConfig::Text { tokenizer: tokenizer @ None, .. } = &mut config.data.source {
            let path = folder.join("tokenizer.json");
            if !path.is_file() {
                return Err(Error::new(format!("{} does not exist", path.display()))
                    .hint("set data.tokenizer to \"bytes\" or a tokenizer.json"));
            }
            *tokenizer = Some(path.to_string_lossy().into_owned());
        }
        Ok(Some(Pretrained { folder, family: model.family() }))
    }

    /// Reads the weights for a model.
    pub(crate) fn given<M: Tree>(&self) -> Given<M> {
        let Pretrained { folder, family } = self.clone();
        Box::new(move |model| {
            let loaded = QuantizedFolder::open(&folder).map_err(nn::Error::from);
            let loaded = loaded.and_then(|files| hf::load(&files, family, model));
            Ok(loaded?)
        })
    }
}
