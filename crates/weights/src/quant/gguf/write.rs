//! Writes GGUF files that llama.cpp and its `gguf` package read: metadata, and tensors one at a time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::Value;

use crate::error::Error;
use crate::quant::format::QuantizedWeight;
use crate::quant::gguf::blocks::GgmlType;
use crate::quant::gguf::encode::encode;
use crate::quant::gguf::file::{DEFAULT_ALIGNMENT, MAGIC, VERSION, size_bytes};
use crate::quant::gguf::model::interleaved;
use crate::quant::gguf::names::{Architecture, Change};
use crate::quant::gguf::value::GgufValue;
use crate::quant::refusal::Refusal;
use crate::unfinished::unfinished_file;

/// A tensor that will be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufEntry {
    /// The name as Hugging Face has it.
    pub name: String,
    /// Sizes, major to minor.
    pub dims: Vec<usize>,
    /// The type in the file.
    pub kind: GgmlType,
}

/// Metadata of a model of the architecture `llama`, from its `config.json`; what tells of the tokenizer is added by whoever has it.
pub fn llama_metadata(config: &Value) -> Result<Vec<(String, GgufValue)>, Error> {
    let missing = |key: &str| {
        let help = "give the config.json of a Llama model";
        Refusal::new(format!("the configuration has no `{key}`"), help).of_matrix()
    };
    let model_type = config.get("model_type").and_then(Value::as_str).unwrap_or("");
    if !["llama", "mistral"].contains(&model_type) {
        let message = format!("models of type `{model_type}` are not written as GGUF; llama and mistral are");
        return Err(Refusal::new(message, "write the model as compressed-tensors").of_matrix());
    }
    if config.get("rope_scaling").is_some_and(|scaling| !scaling.is_null()) {
        let message = "models with rope_scaling are not written as GGUF";
        return Err(
            Refusal::new(message, "write the model as compressed-tensors, or convert it with llama.cpp").of_matrix()
        );
    }
    let count = |key: &str| config.get(key).and_then(Value::as_u64).filter(|count| *count > 0);
    let needed = |key: &str| count(key).ok_or_else(|| missing(key));
    let (hidden, heads) = (needed("hidden_size")?, needed("num_attention_heads")?);
    let head_size = count("head_dim").unwrap_or(hidden / heads);
    let text = |value: &str| GgufValue::Text(value.into());
    let float =
        |key: &str, otherwise: f64| GgufValue::F32(config.get(key).and_then(Value::as_f64).unwrap_or(otherwise) as f32);
    let mut metadata = vec![
        ("general.architecture".to_string(), text("llama")),
        ("general.name".into(), text(config.get("_name_or_path").and_then(Value::as_str).unwrap_or("model"))),
        ("general.quantization_version".into(), GgufValue::Unsigned(2)),
    ];
    let mut put = |key: &str, value: GgufValue| metadata.push((format!("llama.{key}"), value));
    put("embedding_length", GgufValue::Unsigned(hidden));
    put("block_count", GgufValue::Unsigned(needed("num_hidden_layers")?));
    put("feed_forward_length", GgufValue::Unsigned(needed("intermediate_size")?));
    put("attention.head_count", GgufValue::Unsigned(heads));
    put("attention.head_count_kv", GgufValue::Unsigned(count("num_key_value_heads").unwrap_or(heads)));
    put("attention.key_length", GgufValue::Unsigned(head_size));
    put("attention.value_length", GgufValue::Unsigned(head_size));
    put("rope.dimension_count", GgufValue::Unsigned(head_size));
    put("context_length", GgufValue::Unsigned(count("max_position_embeddings").unwrap_or(2048)));
    put("vocab_size", GgufValue::Unsigned(needed("vocab_size")?));
    put("attention.layer_norm_rms_epsilon", float("rms_norm_eps", 1e-6));
    put("rope.freq_base", float("rope_theta", 10_000.0));
    Ok(metadata)
}

/// Writes a model of the architecture `llama`: whole, or not at all. `read` gives each tensor when its turn comes.
pub fn write_gguf(
    path: &Path,
    metadata: &[(String, GgufValue)],
    entries: &[GgufEntry],
    mut read: impl FnMut(&str) -> Result<QuantizedWeight, Error>,
) -> Result<(), Error> {
    let heads = |key: &str| {
        let full = format!("llama.attention.{key}");
        metadata.iter().find(|(name, _)| *name == full).and_then(|(_, value)| value.as_count()).unwrap_or(0)
    };
    let (query_heads, key_heads) = (heads("head_count"), heads("head_count_kv"));
    let mut planned = Vec::new();
    let mut offset = 0u64;
    for entry in entries {
        let refused = |refusal: Refusal| refusal.of_tensor(path, &entry.name);
        let (name, change) = Architecture::Llama.file_name(&entry.name).ok_or_else(|| {
            refused(Refusal::new("models of `llama` have no such tensor", "leave it out, or write compressed-tensors"))
        })?;
        let size_bytes = size_bytes(entry.kind, &entry.dims).map_err(refused)? as u64;
        planned.push((entry, name, change, offset, size_bytes));
        offset = (offset + size_bytes).next_multiple_of(DEFAULT_ALIGNMENT);
    }
    let mut header = Vec::new();
    header.extend(MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend((planned.len() as u64).to_le_bytes());
    header.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        put_text(key, &mut header);
        put_value(value, &mut header).map_err(|refusal| refusal.of_tensor(path, key))?;
    }
    for (entry, name, _, offset, _) in &planned {
        put_text(name, &mut header);
        header.extend((entry.dims.len() as u32).to_le_bytes());
        header.extend(entry.dims.iter().rev().flat_map(|size| (*size as u64).to_le_bytes()));
        header.extend(entry.kind.number().to_le_bytes());
        header.extend(offset.to_le_bytes());
    }
    header.resize(header.len().next_multiple_of(DEFAULT_ALIGNMENT as usize), 0);

    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let writing = || Error::io("writing", path);
    let mut file = unfinished_file(folder, ".tmp").map_err(writing())?;
    let mut buffered = BufWriter::new(file.as_file_mut());
    buffered.write_all(&header).map_err(writing())?;
    for (entry, _, change, _, size_bytes) in &planned {
        let refused = |refusal: Refusal| refusal.of_tensor(path, &entry.name);
        let heads = match change {
            Change::QueryRows => Some(query_heads),
            Change::KeyRows => Some(key_heads),
            _ => None,
        };
        let weight = read(&entry.name)?;
        let weight = match heads {
            Some(heads) => interleaved(weight, heads).map_err(refused)?,
            None => weight,
        };
        let mut bytes = encode(&weight, entry.kind).map_err(refused)?;
        if bytes.len() as u64 != *size_bytes {
            let message =
                format!("it has {} bytes, not {size_bytes} as {:?} of {}", bytes.len(), entry.dims, entry.kind.name());
            return Err(refused(Refusal::damaged(message)));
        }
        bytes.resize(bytes.len().next_multiple_of(DEFAULT_ALIGNMENT as usize), 0);
        buffered.write_all(&bytes).map_err(writing())?;
    }
    buffered.flush().map_err(writing())?;
    drop(buffered);
    file.as_file().sync_all().map_err(writing())?;
    file.persist(path).map_err(|error| Error::io("writing", path)(error.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(writing())
}

fn put_text(text: &str, bytes: &mut Vec<u8>) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// A value after the number of its type.
fn put_value(value: &GgufValue, bytes: &mut Vec<u8>) -> Result<(), Refusal> {
    bytes.extend(kind_of(value).to_le_bytes());
    put_bare(value, kind_of(value), bytes)
}

/// The type a value is written as: integers of 32 bits where they suffice, as llama.cpp expects them.
fn kind_of(value: &GgufValue) -> u32 {
    match value {
        GgufValue::Unsigned(value) if u32::try_from(*value).is_ok() => 4,
        GgufValue::Unsigned(_) => 10,
        GgufValue::Signed(value) if i32::try_from(*value).is_ok() => 5,
        GgufValue::Signed(_) => 11,
        GgufValue::F32(_) => 6,
        GgufValue::F64(_) => 12,
        GgufValue::Bool(_) => 7,
        GgufValue::Text(_) => 8,
        GgufValue::List(_) => 9,
    }
}

fn put_bare(value: &GgufValue, kind: u32, bytes: &mut Vec<u8>) -> Result<(), Refusal> {
    match (value, kind) {
        (GgufValue::Unsigned(value), 4) => bytes.extend((*value as u32).to_le_bytes()),
        (GgufValue::Unsigned(value), 10) => bytes.extend(value.to_le_bytes()),
        (GgufValue::Signed(value), 5) => bytes.extend((*value as i32).to_le_bytes()),
        (GgufValue::Signed(value), 11) => bytes.extend(value.to_le_bytes()),
        (GgufValue::F32(value), 6) => bytes.extend(value.to_le_bytes()),
        (GgufValue::F64(value), 12) => bytes.extend(value.to_le_bytes()),
        (GgufValue::Bool(value), 7) => bytes.push(u8::from(*value)),
        (GgufValue::Text(text), 8) => put_text(text, bytes),
        (GgufValue::List(values), 9) => {
            // The widest type of the values is that of all.
            let kind = values.iter().map(kind_of).max().unwrap_or(4);
            bytes.extend(kind.to_le_bytes());
            bytes.extend((values.len() as u64).to_le_bytes());
            for value in values {
                put_bare(value, kind, bytes)?;
            }
        }
        _ => return Err(Refusal::new("a list has values of several types", "give values of one type")),
    }
    Ok(())
}
