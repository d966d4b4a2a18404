//! A language model of a training's checkpoint: its configuration, tokenizer and parameters.

use std::path::Path;

use nn::hf;
use nn::models::RunOptions;
use tensor::{DType, Literal};
use weights::{Protection, Saved, TensorRegion};

use crate::config::DataConfig;
use crate::data::Tokenizer;
use crate::datasets::tokenizer;
use crate::error::Error;
use crate::trained::{SavedLanguageModel, prefix_of};

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
        let SavedLanguageModel { saved, model, data, options, .. } =
            SavedLanguageModel::open(folder, step, protection)?;
        let name = match (tokenizer_name, &data) {
            (Some(name), _) => name.to_string(),
            (None, DataConfig::Text { tokenizer, .. }) => tokenizer.clone().unwrap_or_else(|| "bytes".into()),
            (None, _) => {
                return Err(Error::new("the model was trained on tokens, not on text")
                    .hint("give --tokenizer FILE, or --tokenizer bytes"));
            }
        };
        let tokenizer = tokenizer(&name, Path::new(""))?;
        let prefix = prefix_of(&saved);
        Ok(TrainedModel { saved, model, options, tokenizer, prefix })
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

    /// The part of a parameter that lies in a region.
    pub fn read_region(&self, path: &str, region: &TensorRegion, dtype: DType) -> Result<Literal, weights::Error> {
        let name = format!("{}.{path}", self.prefix);
        let mut parts = self.saved.read_regions_as(&name, std::slice::from_ref(region), dtype)?;
        parts.pop().ok_or_else(|| weights::Error::OutOfRange { name, message: format!("{region:?} was not read") })
    }
}
