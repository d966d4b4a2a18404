//! A language model of a training's checkpoint: its configuration, tokenizer and parameters.

use std::path::Path;

use nn::hf;
use nn::models::RunOptions;
use tensor::{DType, Literal};
use weights::{CheckpointManager, IntegrityCheck, Protection, Saved};

use crate::config::DataConfig;
use crate::data::Tokenizer;
use crate::datasets::tokenizer;
use crate::error::Error;
use crate::model::TrainModelConfig;
use crate::trainer::Resume;

/// A language model of a checkpoint.
#[derive(Debug)]
pub struct TrainedModel {
    saved: Saved,
    model: hf::ModelConfig,
    options: RunOptions,
    tokenizer: Tokenizer,
    /// Of the names of its parameters: the EMA where the training kept one.
    prefix: &'static str,
}

impl TrainedModel {
    /// Opens a checkpoint of a training's folder: that of a step, or the newest good one. Without a tokenizer that of the training.
    ///
    /// Checkpoints that are encrypted, or must be signed, need the keys of the training.
    pub fn open(
        folder: &str,
        step: Option<u64>,
        tokenizer_name: Option<&str>,
        protection: Protection,
    ) -> Result<TrainedModel, Error> {
        let location = format!("{}/checkpoints", folder.trim_end_matches('/'));
        let manager = CheckpointManager::open(&location)?.protected(protection);
        let saved = match step {
            Some(step) => manager.load(step)?,
            None => manager.latest_good(IntegrityCheck::Sizes)?.saved,
        };
        let wrong = |error: serde_json::Error| {
            Error::new(format!("{}: {error}", saved.address())).hint("give the folder of a `tpu train` run")
        };
        let kept: Resume = serde_json::from_value(saved.metadata().clone()).map_err(wrong)?;
        let field = |name: &str| kept.description.get(name).cloned().unwrap_or_default();
        if field("model").get("program").is_some() {
            return Err(Error::new("the model is an imported program").hint(
                "text is written by models of our own; `tpu weights` gives the trained weights back to PyTorch",
            ));
        }
        let TrainModelConfig::Language(model) = TrainModelConfig::read(&field("model"), Path::new(""))? else {
            return Err(Error::new("the model takes images").hint("text needs a language model"));
        };
        let data: DataConfig = serde_json::from_value(field("data")).map_err(wrong)?;
        if kept.description.get("lora").is_some() {
            return Err(Error::new(format!("{} has adapters only", saved.address()))
                .hint("set lora.merged in the training file: the finished training writes the model with them"));
        }
        let options: RunOptions = serde_json::from_value(field("run")).map_err(wrong)?;
        let name = match (tokenizer_name, &data) {
            (Some(name), _) => name.to_string(),
            (None, DataConfig::Text { tokenizer, .. }) => tokenizer.clone().unwrap_or_else(|| "bytes".into()),
            (None, _) => {
                return Err(Error::new("the model was trained on tokens, not on text")
                    .hint("give --tokenizer FILE, or --tokenizer bytes"));
            }
        };
        let tokenizer = tokenizer(&name, Path::new(""))?;
        let has_ema = saved.tensors().any(|tensor| tensor.name.starts_with("ema."));
        Ok(TrainedModel { saved, model, options, tokenizer, prefix: if has_ema { "ema" } else { "params" } })
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> &Saved {
        &self.saved
    }

    /// Its sizes.
    pub fn config(&self) -> &hf::ModelConfig {
        &self.model
    }

    /// How it was trained.
    pub fn options(&self) -> &RunOptions {
        &self.options
    }

    /// Text to tokens and back, as in training.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// A parameter by its path.
    pub fn read(&self, path: &str, dtype: DType) -> Result<Literal, weights::Error> {
        self.saved.read_as(&format!("{}.{path}", self.prefix), dtype)
    }
}
