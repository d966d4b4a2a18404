//! A training that starts from a Hugging Face folder: `[model] from = "folder"` gives sizes, weights and the tokenizer.

use std::io::Read;
use std::path::{Path, PathBuf};

use nn::hf;
use nn::models::{Gemma4, Gpt2, LanguageModel, Llama, RunOptions};
use nn::quant::{ActivationQuant, InputAxis, LoraConfig, QuantScheme, Weight, nearest_codes};
use serde_json::Value;
use tensor::{DType, Literal};
use trace::{Key, Tensor, Tree};
use weights::quant::QuantizedFolder;

use crate::config::{DataConfig, LoraTable, TrainConfig};
use crate::error::Error;
use crate::frozen::FROZEN;
use crate::language::{LanguageCarried, LanguageParams};
use crate::model::TrainModelConfig;
use crate::task::{Given, GivenTensors};

/// Longest configuration that is read.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Largest file of a merged model.
const MAX_SHARD_BYTES: u64 = 5 << 30;

/// Where adapters go when a training has finished.
pub(crate) struct AdapterFolders {
    /// In PEFT's format.
    pub(crate) adapter: Option<PathBuf>,
    /// Merged into the model's dense weights.
    pub(crate) merged: Option<PathBuf>,
}

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

    /// Reads the weights of a model, which is known by types and shapes.
    fn weights<M: Tree>(&self, model: &M) -> Result<Vec<(String, Literal)>, Error> {
        let files = QuantizedFolder::open(&self.folder).map_err(nn::Error::from)?;
        let loaded = hf::load(&files, self.family, model)?;
        Ok(model.paths().into_iter().zip(loaded).collect())
    }

    /// Reads the weights for a training, and the adapter it starts from.
    pub(crate) fn given<M: LanguageModel>(
        &self,
        lora: Option<&LoraTable>,
        beside: &Path,
    ) -> Given<LanguageParams<M>, LanguageCarried<M>> {
        let pretrained = self.clone();
        let adapter = lora.and_then(|lora| Some((lora.adapters(), beside.join(lora.from.as_ref()?))));
        let is_as_stored = lora.is_some_and(|lora| lora.base.is_none());
        Box::new(move |params, carried| match (params, &carried.frozen) {
            (LanguageParams::Model(model), _) => {
                Ok(GivenTensors { params: pretrained.weights(model)?, ..GivenTensors::default() })
            }
            (LanguageParams::Adapters(adapters), Some(frozen)) => {
                let params = match &adapter {
                    Some((config, folder)) => {
                        hf::load_adapter(folder, pretrained.family, frozen, config, adapters)?.into_iter().collect()
                    }
                    None => Vec::new(),
                };
                let carried = match is_as_stored {
                    true => pretrained.as_stored(frozen)?,
                    false => pretrained.frozen(frozen)?,
                };
                let carried =
                    carried.into_iter().map(|(path, literal)| (format!("{FROZEN}.{path}"), literal)).collect();
                Ok(GivenTensors { params, carried })
            }
            (LanguageParams::Adapters(_), None) => Ok(GivenTensors::default()),
        })
    }

    /// The forms in which a device has the weights of the folder, where they are quantized.
    pub(crate) fn forms<M: LanguageModel>(&self, model: &M) -> Result<hf::PackedForms, Error> {
        let files = QuantizedFolder::open(&self.folder).map_err(nn::Error::from)?;
        Ok(hf::PackedForms::of(&files, self.family, model, ActivationQuant::None)?)
    }

    /// The weights of a frozen model as the folder has them: codes and scales where they are quantized there.
    fn as_stored<M: LanguageModel>(&self, frozen: &M) -> Result<Vec<(String, Literal)>, Error> {
        let compute = frozen.options().precision.compute();
        let dense = frozen.map_weights(|_, weight, _| match weight {
            Weight::Quantized(quantized) => Weight::Dense(Tensor::of(quantized.spec(compute))),
            other => other.clone(),
        });
        let files = QuantizedFolder::open(&self.folder).map_err(nn::Error::from)?;
        let loaded = hf::load_packed(&files, self.family, &dense, ActivationQuant::None)?;
        for line in hf::load_report(&loaded.weights) {
            tracing::info!(folder = %self.folder.display(), "{line}");
        }
        Ok(loaded.model.paths().into_iter().zip(loaded.params).collect())
    }

    /// The weights of a frozen model, quantized where it is.
    fn frozen<M: LanguageModel>(&self, frozen: &M) -> Result<Vec<(String, Literal)>, Error> {
        let mut schemes: Vec<(String, QuantScheme, InputAxis)> = Vec::new();
        let compute = frozen.options().precision.compute();
        let dense = frozen.map_weights(|path, weight, axis| match weight {
            Weight::Quantized(quantized) => {
                schemes.push((path.to_string(), quantized.scheme, axis));
                Weight::Dense(Tensor::of(quantized.spec(compute)))
            }
            other => other.clone(),
        });
        let mut all = Vec::new();
        for (path, literal) in self.weights(&dense)? {
            let Some((_, scheme, axis)) = schemes.iter().find(|(quantized, ..)| *quantized == path) else {
                all.push((path, literal));
                continue;
            };
            let (values, scales) = nearest_codes(&literal, scheme, *axis).ok_or_else(|| {
                Error::new(format!("`{path}` cannot be quantized as {scheme}"))
                    .hint("choose a scheme without zero points whose groups divide the input features")
            })?;
            all.extend([(format!("{path}.values"), values), (format!("{path}.scales"), scales)]);
        }
        Ok(all)
    }

    /// Writes adapters in PEFT's format, and the model with them merged into its dense weights.
    pub(crate) fn write_adapters(
        &self,
        model: &TrainModelConfig,
        config: &LoraConfig,
        adapters: &hf::AdapterTensors,
        folders: &AdapterFolders,
    ) -> Result<(), Error> {
        let TrainModelConfig::Language(model) = model else { return Ok(()) };
        let options = RunOptions::default();
        let key = || Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
        match model {
            hf::ModelConfig::Gpt2(sizes) => {
                let model = trace::shapes_of(&(), |()| Gpt2::init(&key(), sizes, &options))?;
                self.written(&model, config, adapters, folders)
            }
            hf::ModelConfig::Llama(sizes) => {
                let model = trace::shapes_of(&(), |()| Llama::init(&key(), sizes, &options))?;
                self.written(&model, config, adapters, folders)
            }
            hf::ModelConfig::Gemma4(sizes) => {
                let model = trace::shapes_of(&(), |()| Gemma4::init(&key(), sizes, &options))?;
                self.written(&model, config, adapters, folders)
            }
        }
    }

    fn written<M: Tree>(
        &self,
        model: &M,
        config: &LoraConfig,
        adapters: &hf::AdapterTensors,
        folders: &AdapterFolders,
    ) -> Result<(), Error> {
        let adapters = &hf::of_whole_stacks(adapters)
            .ok_or_else(|| Error::new("adapters of segments of layers do not fit together: this is a bug"))?;
        if let Some(folder) = &folders.adapter {
            let base = self.folder.to_string_lossy();
            hf::save_adapter(folder, self.family, model, config, &base, adapters)?;
        }
        let Some(folder) = &folders.merged else { return Ok(()) };
        let mut merged = Vec::new();
        for (path, literal) in self.weights(model)? {
            let pair = [".lora_a", ".lora_b"].map(|end| adapters.get(&format!("{path}{end}")));
            merged.push(match pair {
                [Some(a), Some(b)] => hf::merged_weight(&literal, a, b, config.scale())
                    .ok_or_else(|| Error::new(format!("the adapter of `{path}` does not fit the weight")))?,
                _ => literal,
            });
        }
        std::fs::create_dir_all(folder).map_err(|error| Error::new(format!("{}: {error}", folder.display())))?;
        hf::save(folder, self.family, model, &merged, MAX_SHARD_BYTES)?;
        // What belongs to the model beside its weights.
        let config = self.folder.join("config.json");
        let wrong = |error: &dyn std::fmt::Display| Error::new(format!("{}: {error}", config.display()));
        let mut json: Value = serde_json::from_slice(&std::fs::read(&config).map_err(|error| wrong(&error))?)
            .map_err(|error| wrong(&error))?;
        // What is merged is dense.
        json.as_object_mut().and_then(|object| object.remove("quantization_config"));
        std::fs::write(folder.join("config.json"), json.to_string()).map_err(|error| wrong(&error))?;
        for name in ["generation_config.json", "tokenizer.json", "tokenizer_config.json"] {
            let from = self.folder.join(name);
            if from.is_file() {
                std::fs::copy(&from, folder.join(name))
                    .map_err(|error| Error::new(format!("copying {}: {error}", from.display())))?;
            }
        }
        Ok(())
    }

    /// What the files of the folder are told by.
    pub(crate) fn fingerprint(&self) -> Result<String, Error> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(&self.folder)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>())
            .map_err(|error| Error::new(format!("{}: {error}", self.folder.display())))?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
        files.sort();
        Ok(data::fingerprint_of_files(&files)?)
    }
}
