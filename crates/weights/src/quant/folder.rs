//! A model whose weights may be quantized: parameters by the names of the dense model, each dense or packed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tensor::{BlockFormat, DType, Literal};

use crate::error::Error;
use crate::folder::SafeTensorsFolder;
use crate::quant::aqlm::Aqlm;
use crate::quant::awq::Awq;
use crate::quant::bitsandbytes::BitsAndBytes;
use crate::quant::compressed::CompressedTensors;
use crate::quant::format::{Failure, Format, Module, Parts, QuantizedWeight, Storage, WeightSpec};
use crate::quant::fp8::Fp8;
use crate::quant::gguf::{GgufFile, GgufModel};
use crate::quant::gpt_oss::GptOss;
use crate::quant::gptq::Gptq;
use crate::quant::refusal::Refusal;
use crate::quant::settings::Settings;
use crate::quant::vptq::Vptq;
use crate::region::TensorRegion;

/// Longest configuration that is read.
const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// Methods that are read, as `quant_method` names them.
const METHODS: &[&str] =
    &["compressed-tensors", "gptq", "awq", "fp8", "fbgemm_fp8", "bitsandbytes", "mxfp4", "aqlm", "vptq"];

/// A model in the files that Hugging Face and llama.cpp know, quantized or not. Weights are read one by one.
#[derive(Debug)]
pub struct QuantizedFolder {
    path: PathBuf,
    model: Model,
}

#[derive(Debug)]
enum Model {
    SafeTensors(SafeTensorsModel),
    Gguf(GgufModel),
}

/// Safetensors with the configuration beside them.
#[derive(Debug)]
struct SafeTensorsModel {
    path: PathBuf,
    config: Option<Value>,
    files: SafeTensorsFolder,
    format: Option<Box<dyn Format>>,
    /// By the names of the dense model.
    weights: BTreeMap<String, Source>,
}

/// Where a weight comes from.
#[derive(Debug)]
enum Source {
    Dense,
    Module(Module),
}

impl QuantizedFolder {
    /// Opens a folder with `config.json` and safetensors, one file of safetensors, or one GGUF file, and reads the headers.
    pub fn open(path: &Path) -> Result<QuantizedFolder, Error> {
        let model = match gguf_file(path)? {
            Some(file) => Model::Gguf(GgufModel::open(&file)?),
            None => Model::SafeTensors(SafeTensorsModel::open(path)?),
        };
        Ok(QuantizedFolder { path: path.to_path_buf(), model })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `config.json` of the model, or what it would be for a GGUF file.
    pub fn config(&self) -> Option<&Value> {
        match &self.model {
            Model::SafeTensors(model) => model.config.as_ref(),
            Model::Gguf(model) => Some(model.config()),
        }
    }

    /// The GGUF file, with the metadata of its tokenizer, where it is one.
    pub fn gguf(&self) -> Option<&GgufFile> {
        match &self.model {
            Model::SafeTensors(_) => None,
            Model::Gguf(model) => Some(model.file()),
        }
    }

    /// The format in words, as `GPTQ, 4 bits, groups of 128`; `None` where weights are dense.
    pub fn describe(&self) -> Option<String> {
        match &self.model {
            Model::SafeTensors(model) => model.format.as_ref().map(|format| format.describe()),
            Model::Gguf(model) => model.describe(),
        }
    }

    /// Names of the dense model's parameters, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (safetensors, gguf) = match &self.model {
            Model::SafeTensors(model) => (Some(model), None),
            Model::Gguf(model) => (None, Some(model)),
        };
        let names = safetensors.into_iter().flat_map(|model| model.weights.keys().map(String::as_str));
        names.chain(gguf.into_iter().flat_map(|model| model.names()))
    }

    /// Whether there is a parameter of this name.
    pub fn contains(&self, name: &str) -> bool {
        match &self.model {
            Model::SafeTensors(model) => model.weights.contains_key(name),
            Model::Gguf(model) => model.contains(name),
        }
    }

    /// Shape of a parameter and how it is kept; what describes it is read, its values are not.
    pub fn spec(&self, name: &str) -> Result<WeightSpec, Error> {
        match &self.model {
            Model::SafeTensors(model) => model.spec(name),
            Model::Gguf(model) => model.spec(name),
        }
    }

    /// A parameter.
    pub fn read(&self, name: &str) -> Result<QuantizedWeight, Error> {
        match &self.model {
            Model::SafeTensors(model) => model.read(name),
            Model::Gguf(model) => model.read(name),
        }
    }

    /// The format of a matrix whose blocks a device may keep as they are in the file.
    pub fn block_format(&self, name: &str) -> Option<BlockFormat> {
        match &self.model {
            Model::SafeTensors(_) => None,
            Model::Gguf(model) => model.block_format(name),
        }
    }

    /// The blocks of such a matrix, row by row.
    pub fn read_blocks(&self, name: &str) -> Result<Vec<u8>, Error> {
        match &self.model {
            Model::SafeTensors(model) => Err(model.missing(name)),
            Model::Gguf(model) => model.read_blocks(name),
        }
    }

    /// The element type of a parameter that is dense in safetensors.
    pub fn dense_dtype(&self, name: &str) -> Option<DType> {
        match &self.model {
            Model::SafeTensors(model) if matches!(model.weights.get(name), Some(Source::Dense)) => {
                model.files.entry(name).map(|entry| entry.dtype)
            }
            Model::SafeTensors(_) | Model::Gguf(_) => None,
        }
    }

    /// The part of a parameter that lies in a region, and no more from the file than that; `None` where the parameter is not dense
    /// in safetensors.
    pub fn read_dense_region(&self, name: &str, region: &TensorRegion) -> Result<Option<Literal>, Error> {
        match &self.model {
            Model::SafeTensors(model) if matches!(model.source(name)?, Source::Dense) => {
                model.files.read_region(name, region).map(Some)
            }
            Model::SafeTensors(_) | Model::Gguf(_) => Ok(None),
        }
    }

    /// [`read_dense_region`](Self::read_dense_region) of a parameter that is dense in safetensors, into memory of as many bytes.
    pub fn read_dense_region_into(&self, name: &str, region: &TensorRegion, bytes: &mut [u8]) -> Result<(), Error> {
        match &self.model {
            Model::SafeTensors(model) if matches!(model.source(name)?, Source::Dense) => {
                model.files.read_region_into(name, region, bytes)
            }
            Model::SafeTensors(_) | Model::Gguf(_) => {
                let message = "it is not dense, and has no parts".to_string();
                Err(Error::OutOfRange { name: name.to_string(), message })
            }
        }
    }
}

/// The GGUF file that a path is or that a folder has as its only model.
fn gguf_file(path: &Path) -> Result<Option<PathBuf>, Error> {
    let is_gguf = |path: &Path| path.extension().is_some_and(|ending| ending == "gguf");
    if !path.is_dir() {
        return Ok(is_gguf(path).then(|| path.to_path_buf()));
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(Error::io("opening", path))? {
        let entry = entry.map_err(Error::io("reading", path))?.path();
        if entry.extension().is_some_and(|ending| ending == "safetensors") {
            return Ok(None);
        }
        found.extend(is_gguf(&entry).then_some(entry));
    }
    if found.len() > 1 {
        let message = format!("it has {} GGUF files", found.len());
        return Err(Refusal::new(
            message,
            "name the file; parts of split files are first merged with llama-gguf-split",
        )
        .of_config(path));
    }
    Ok(found.pop())
}

impl SafeTensorsModel {
    fn open(path: &Path) -> Result<SafeTensorsModel, Error> {
        let files = SafeTensorsFolder::open(path)?;
        let folder = if path.is_dir() { Some(path) } else { path.parent() };
        let config_path = folder.map(|folder| folder.join("config.json"));
        let config = config_path.as_deref().map(read_json).transpose()?.flatten();
        let format = match (&config, folder) {
            (Some(config), Some(folder)) => format_of(config, folder)?,
            _ => None,
        };
        let mut weights: BTreeMap<String, Source> = BTreeMap::new();
        let mut taken: BTreeSet<String> = BTreeSet::new();
        if let Some(format) = &format {
            let modules = format.modules(&files).map_err(|failure| match failure {
                Failure::Refused(refusal) => refusal.of_config(path),
                Failure::File(error) => error,
            })?;
            for module in modules {
                taken.extend(module.tensors.iter().cloned());
                if let Some(Source::Module(other)) = weights.insert(module.dense.clone(), Source::Module(module)) {
                    let message = format!("two sets of tensors make it up, one of them {}", other.tensors.join(", "));
                    return Err(Refusal::damaged(message).of_tensor(path, &other.dense));
                }
            }
        }
        for (name, _) in files.entries().filter(|(name, _)| !taken.contains(*name) && !is_cache_scale(name)) {
            if weights.insert(name.to_string(), Source::Dense).is_some() {
                let help = "keep one of them";
                return Err(Refusal::new("it is there both quantized and dense", help).of_tensor(path, name));
            }
        }
        Ok(SafeTensorsModel { path: path.to_path_buf(), config, files, format, weights })
    }

    fn spec(&self, name: &str) -> Result<WeightSpec, Error> {
        match self.source(name)? {
            Source::Dense => {
                let entry = self.files.entry(name).ok_or_else(|| self.missing(name))?;
                Ok(WeightSpec { dims: entry.dims.clone(), storage: Storage::Dense(entry.dtype) })
            }
            Source::Module(module) => self.with_format(name, module, |format, parts| format.spec(parts)),
        }
    }

    fn read(&self, name: &str) -> Result<QuantizedWeight, Error> {
        match self.source(name)? {
            Source::Dense => self.files.read(name).map(QuantizedWeight::Dense),
            Source::Module(module) => self.with_format(name, module, |format, parts| format.read(parts)),
        }
    }

    fn with_format<T>(
        &self,
        name: &str,
        module: &Module,
        act: impl FnOnce(&dyn Format, &Parts<'_>) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let format = self.format.as_deref().ok_or_else(|| self.missing(name))?;
        act(format, &Parts { files: &self.files, module }).map_err(|failure| failure.of_tensor(&self.path, name))
    }

    fn source(&self, name: &str) -> Result<&Source, Error> {
        self.weights.get(name).ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &str) -> Error {
        Error::Missing { path: self.path.clone(), name: name.to_string() }
    }
}

/// Whether a tensor is a scale of the KV cache or of queries, and no parameter of the model.
fn is_cache_scale(name: &str) -> bool {
    ["k_scale", "v_scale", "q_scale", "prob_scale"].iter().any(|last| name.rsplit('.').next() == Some(last))
}

/// A JSON file, if it is there.
fn read_json(path: &Path) -> Result<Option<Value>, Error> {
    let size_bytes = match std::fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("opening", path)(error)),
    };
    if size_bytes > MAX_CONFIG_BYTES {
        return Err(Error::format(path, format!("a configuration of {size_bytes} bytes is not read")));
    }
    let text = std::fs::read(path).map_err(Error::io("reading", path))?;
    serde_json::from_slice(&text).map(Some).map_err(|error| Error::format(path, error.to_string()))
}

/// The format that a configuration names; `None` where it names none.
fn format_of(config: &Value, folder: &Path) -> Result<Option<Box<dyn Format>>, Error> {
    let is_set = |value: &&Value| !value.is_null();
    let named = ["quantization_config", "compression_config"].iter().find_map(|key| config.get(key).filter(is_set));
    // Tools wrote a file of its own before Hugging Face had a key for it.
    let beside = match named {
        Some(_) => None,
        None => read_json(&folder.join("quantize_config.json"))?,
    };
    let Some(settings) = named.or(beside.as_ref()) else { return Ok(None) };
    let path = folder.join("config.json");
    let settings: &Map<String, Value> = settings.as_object().ok_or_else(|| {
        Refusal::new("it is no object", "take the configuration that the tool wrote").of_config(&path)
    })?;
    let fallback = if beside.is_some() { Some("gptq") } else { None };
    parse(Settings(settings), fallback).map_err(|refusal| refusal.of_config(&path)).map(Some)
}

fn parse(settings: Settings<'_>, fallback: Option<&str>) -> Result<Box<dyn Format>, Refusal> {
    let method = settings.text("quant_method")?.or(fallback);
    Ok(match method {
        Some("compressed-tensors") => Box::new(CompressedTensors::parse(&settings)?),
        Some("gptq") => Box::new(Gptq::parse(&settings)?),
        Some("awq") => Box::new(Awq::parse(&settings)?),
        Some("fp8" | "fbgemm_fp8") => Box::new(Fp8::parse(&settings)?),
        Some("bitsandbytes") => Box::new(BitsAndBytes::parse(&settings)?),
        Some("mxfp4") => Box::new(GptOss),
        Some("aqlm") => Box::new(Aqlm::parse(&settings)?),
        Some("vptq") => Box::new(Vptq::parse(&settings)?),
        Some(other) => {
            return Err(Refusal::new(
                format!("quant_method `{other}` is not read; {} are", METHODS.join(", ")),
                "take the model in one of these formats, or as a GGUF file",
            ));
        }
        None => {
            let message = "`quant_method` is missing";
            return Err(Refusal::new(message, "name the method that the weights were quantized with"));
        }
    })
}
