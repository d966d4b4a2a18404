//! A GGUF file as a model of Hugging Face: its names, its rows, its configuration.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tensor::{BlockFormat, DType, Literal};

use crate::error::Error;
use crate::quant::format::{QuantizedWeight, Storage, WeightSpec};
use crate::quant::gguf::config;
use crate::quant::gguf::file::{GgufFile, GgufTensor};
use crate::quant::gguf::names::{Change, Target, interleaved_order, row_order};
use crate::quant::refusal::Refusal;

/// Most experts of a layer: each is a name.
const MAX_EXPERTS: usize = 1 << 16;

/// A file whose tensors go by the names of Hugging Face.
#[derive(Debug)]
pub(crate) struct GgufModel {
    file: GgufFile,
    config: Value,
    query_heads: usize,
    key_heads: usize,
    weights: BTreeMap<String, Source>,
}

/// Where a parameter comes from.
#[derive(Debug)]
struct Source {
    tensor: String,
    expert: Option<usize>,
    change: Change,
}

impl GgufModel {
    pub(crate) fn open(path: &Path) -> Result<GgufModel, Error> {
        let file = GgufFile::open(path)?;
        let of_file = |refusal: Refusal| refusal.of_tensor(path, "metadata");
        let (name, architecture) = config::architecture(&file).map_err(of_file)?;
        let config = config::config(&file).map_err(of_file)?;
        let (query_heads, key_heads) = config::heads(&file).map_err(of_file)?;
        let mut weights = BTreeMap::new();
        for (tensor, info) in file.tensors() {
            let target = architecture.target(tensor).ok_or_else(|| {
                let help = "take the model as safetensors";
                Refusal::new(format!("models of `{name}` have no such tensor"), help).of_tensor(path, tensor)
            })?;
            let mut put = |dense: String, expert, change| {
                weights.insert(dense, Source { tensor: tensor.clone(), expert, change });
            };
            match target {
                Target::Nothing => {}
                Target::One(dense, change) => put(dense, None, change),
                Target::Experts(pattern) => {
                    let [count, _, _] = info.dims[..] else {
                        let message = format!("experts have the shape {:?}", info.dims);
                        return Err(Refusal::damaged(message).of_tensor(path, tensor));
                    };
                    if count > MAX_EXPERTS {
                        return Err(Refusal::damaged(format!("it has {count} experts")).of_tensor(path, tensor));
                    }
                    for expert in 0..count {
                        put(pattern.replace("{}", &expert.to_string()), Some(expert), Change::None);
                    }
                }
            }
        }
        Ok(GgufModel { file, config, query_heads, key_heads, weights })
    }

    pub(crate) fn file(&self) -> &GgufFile {
        &self.file
    }

    pub(crate) fn config(&self) -> &Value {
        &self.config
    }

    /// The types of its matrices, most of them first: `GGUF, Q4_K and Q6_K`.
    pub(crate) fn describe(&self) -> Option<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for tensor in self.file.tensors().values().filter(|tensor| tensor.kind.spec().is_some()) {
            *counts.entry(tensor.kind.name()).or_default() += 1;
        }
        let mut names: Vec<(&str, usize)> = counts.into_iter().collect();
        names.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let names: Vec<&str> = names.into_iter().map(|(name, _)| name).collect();
        (!names.is_empty()).then(|| format!("GGUF, {}", names.join(" and ")))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.weights.keys().map(String::as_str)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.weights.contains_key(name)
    }

    pub(crate) fn spec(&self, name: &str) -> Result<WeightSpec, Error> {
        let (source, tensor) = self.source(name)?;
        let dims = match source.expert {
            Some(_) => tensor.dims[1..].to_vec(),
            None => tensor.dims.clone(),
        };
        let storage = match (tensor.kind.spec(), tensor.kind.dense()) {
            (Some(spec), _) if dims.len() == 2 => Storage::Packed(spec),
            (_, Some(dtype)) if source.change != Change::PlusOne => Storage::Dense(dtype),
            _ => Storage::Dense(DType::F32),
        };
        Ok(WeightSpec { dims, storage })
    }

    pub(crate) fn read(&self, name: &str) -> Result<QuantizedWeight, Error> {
        let (source, _) = self.source(name)?;
        let weight = match source.expert {
            Some(expert) => self.file.read_matrix(&source.tensor, expert)?,
            None => self.file.read(&source.tensor)?,
        };
        let heads = match source.change {
            Change::None => return Ok(weight),
            Change::PlusOne => {
                let less = minus_one(&weight).ok_or_else(|| Refusal::damaged("a norm is no list of floats"));
                return less.map_err(|refusal| refusal.of_tensor(self.file.path(), name));
            }
            Change::QueryRows => self.query_heads,
            Change::KeyRows => self.key_heads,
        };
        reordered(weight, heads).map_err(|refusal| refusal.of_tensor(self.file.path(), name))
    }

    /// The format of a matrix whose blocks are read as they are.
    pub(crate) fn block_format(&self, name: &str) -> Option<BlockFormat> {
        let (source, tensor) = self.source(name).ok()?;
        let is_matrix = source.expert.is_none() && source.change != Change::PlusOne && tensor.dims.len() == 2;
        tensor.kind.block_format().filter(|_| is_matrix)
    }

    /// The blocks of such a matrix, row by row.
    pub(crate) fn read_blocks(&self, name: &str) -> Result<Vec<u8>, Error> {
        let (source, tensor) = self.source(name)?;
        let (_, blocks) = self.file.read_blocks(&source.tensor)?;
        let heads = match source.change {
            Change::None | Change::PlusOne => return Ok(blocks),
            Change::QueryRows => self.query_heads,
            Change::KeyRows => self.key_heads,
        };
        let rows = tensor.dims.first().copied().unwrap_or(0);
        let order = row_order(rows, heads).filter(|order| order.len() == rows);
        let order = order.ok_or_else(|| {
            Refusal::damaged(format!("{rows} rows are not those of {heads} heads")).of_tensor(self.file.path(), name)
        })?;
        let row_bytes = blocks.len().checked_div(rows).unwrap_or(0);
        let mut moved = Vec::with_capacity(blocks.len());
        order.iter().for_each(|row| moved.extend_from_slice(&blocks[row * row_bytes..][..row_bytes]));
        Ok(moved)
    }

    fn source(&self, name: &str) -> Result<(&Source, &GgufTensor), Error> {
        let source = self.weights.get(name);
        let found = source.and_then(|source| Some((source, self.file.tensors().get(&source.tensor)?)));
        found.ok_or_else(|| Error::Missing { path: self.file.path().to_path_buf(), name: name.to_string() })
    }
}

/// A norm as Hugging Face keeps it, where llama.cpp keeps what it multiplies with.
fn minus_one(weight: &QuantizedWeight) -> Option<QuantizedWeight> {
    let QuantizedWeight::Dense(literal) = weight else { return None };
    let values = literal.cast(DType::F32).ok()?.to_vec::<f32>().ok()?;
    let less: Vec<f32> = values.into_iter().map(|value| value - 1.0).collect();
    Literal::from_slice(&less, literal.dims()).ok().map(QuantizedWeight::Dense)
}

/// Rows of heads in the order of Hugging Face.
fn reordered(weight: QuantizedWeight, heads: usize) -> Result<QuantizedWeight, Refusal> {
    in_order(weight, heads, row_order)
}

/// Rows of heads in the order of the file.
pub(crate) fn interleaved(weight: QuantizedWeight, heads: usize) -> Result<QuantizedWeight, Refusal> {
    in_order(weight, heads, interleaved_order)
}

fn in_order(
    weight: QuantizedWeight,
    heads: usize,
    order: impl Fn(usize, usize) -> Option<Vec<usize>>,
) -> Result<QuantizedWeight, Refusal> {
    let order_of = |rows: usize| {
        let refused = || Refusal::damaged(format!("{rows} rows are not those of {heads} heads"));
        order(rows, heads).ok_or_else(refused)
    };
    match weight {
        QuantizedWeight::Packed(matrix) => {
            let order = order_of(matrix.out_features())?;
            matrix.reordered_rows(&order).map(QuantizedWeight::Packed)
        }
        QuantizedWeight::Dense(literal) => {
            let rows = literal.dims().first().copied().unwrap_or(0);
            let order = order_of(rows)?;
            let row_bytes = literal.bytes().len().checked_div(rows).unwrap_or(0);
            let bytes =
                order.iter().flat_map(|row| &literal.bytes()[row * row_bytes..][..row_bytes]).copied().collect();
            let moved = Literal::new(literal.dtype(), literal.dims(), bytes);
            moved.map(QuantizedWeight::Dense).ok_or_else(|| Refusal::damaged("its rows have another size"))
        }
        QuantizedWeight::Codebook(_) => {
            Err(Refusal::new("rows of codebooks are not put in another order", "dequantize the matrix first"))
        }
    }
}
