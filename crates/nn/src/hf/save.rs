//! Parameters as safetensors under Hugging Face names.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use tensor::Literal;
use trace::Tree;

use crate::error::Error;
use crate::hf::Family;
use crate::hf::layout::transposed;
use crate::hf::names::{Layout, Naming};
use crate::stacked::is_stacked;

/// Writes the parameters of a model, in the order of its leaves, into a folder: as `model.safetensors`, or as shards of at
/// most so many bytes with their index.
pub fn save<P: Tree>(
    folder: &Path,
    family: Family,
    model: &P,
    params: &[Literal],
    max_shard_bytes: u64,
) -> Result<(), Error> {
    let tensors = named(family, model, params)?;
    let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    let mut shards: Vec<Vec<(&str, &Literal)>> = vec![Vec::new()];
    let (mut filled, mut total) = (0u64, 0u64);
    for (name, literal) in &tensors {
        let bytes = literal.bytes().len() as u64;
        total += bytes;
        if filled > 0 && filled + bytes > max_shard_bytes {
            shards.push(Vec::new());
            filled = 0;
        }
        filled += bytes;
        if let Some(shard) = shards.last_mut() {
            shard.push((name, literal));
        }
    }
    if let [only] = shards.as_slice() {
        weights::write(&folder.join("model.safetensors"), only.iter().copied(), &metadata)?;
        return Ok(());
    }
    let mut map = serde_json::Map::new();
    let count = shards.len();
    for (n, shard) in shards.into_iter().enumerate() {
        let file = format!("model-{:05}-of-{count:05}.safetensors", n + 1);
        map.extend(shard.iter().map(|(name, _)| (name.to_string(), file.clone().into())));
        weights::write(&folder.join(&file), shard, &metadata)?;
    }
    // Last, so that it never names a file that is not there.
    let index = serde_json::json!({ "metadata": { "total_size": total }, "weight_map": map });
    written_whole(&folder.join("model.safetensors.index.json"), index.to_string().as_bytes())
}

pub(crate) fn written_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let temporary = path.with_extension("tmp");
    let write = || {
        let mut file = std::fs::File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().map_err(|source| Error::Weights(weights::Error::Io { doing: "writing", path: path.into(), source }))
}

/// Their tensors by name.
fn named<P: Tree>(family: Family, model: &P, params: &[Literal]) -> Result<BTreeMap<String, Literal>, Error> {
    let paths = model.paths();
    if paths.len() != params.len() {
        let message = format!("the model has {} parameters, {} were given", paths.len(), params.len());
        return Err(Error::config(message));
    }
    let naming = Naming::of(family, model);
    let mut tensors = BTreeMap::new();
    // Thirds of fused projections, until all three are there.
    let mut thirds: BTreeMap<String, [Option<Literal>; 3]> = BTreeMap::new();
    for (path, literal) in paths.iter().zip(params) {
        let origin =
            naming.origin(path).ok_or_else(|| Error::config(format!("`{path}` has no name in files of {family:?}")))?;
        let mut dims = literal.dims();
        let mut take = |is_there: bool| match dims.split_first() {
            Some((&first, rest)) if is_there => {
                dims = rest;
                first
            }
            _ => 1,
        };
        let layers = take(is_stacked(path) && origin.is_layered());
        let experts = take(origin.has_experts());
        let dims = dims.to_vec();
        let width = literal.dtype().size_bytes();
        let each = dims.iter().product::<usize>() * width;
        for (n, bytes) in literal.bytes().chunks_exact(each.max(1)).enumerate().take(layers * experts) {
            let name = origin.name(n / experts, n % experts);
            let wrong = || Error::config(format!("`{path}` has another size than its shape"));
            let (bytes, dims) = match (origin.layout, dims.as_slice()) {
                (Layout::Transposed, [rows, columns]) => {
                    (transposed(bytes, *rows, *columns, width), vec![*columns, *rows])
                }
                _ => (bytes.to_vec(), dims.clone()),
            };
            let part = Literal::new(literal.dtype(), dims, bytes).ok_or_else(wrong)?;
            if let Layout::Third(third) = origin.layout {
                if let Some(place) = thirds.entry(name).or_default().get_mut(third) {
                    *place = Some(part);
                }
            } else {
                tensors.insert(name, part);
            }
        }
    }
    for (name, parts) in thirds {
        let [Some(one), Some(two), Some(three)] = parts else {
            return Err(Error::config(format!("`{name}` lacks a part")));
        };
        tensors.insert(
            name.clone(),
            joined(&[one, two, three])
                .ok_or_else(|| Error::config(format!("the parts of `{name}` do not fit together")))?,
        );
    }
    Ok(tensors)
}

/// Tensors joined along their last axis.
fn joined(parts: &[Literal; 3]) -> Option<Literal> {
    let [first, ..] = parts;
    let width = first.dtype().size_bytes();
    let last = *first.dims().last()?;
    let rows = first.num_elements() / last.max(1);
    let mut bytes = Vec::with_capacity(3 * first.bytes().len());
    for row in 0..rows {
        for part in parts {
            bytes.extend_from_slice(part.bytes().get(row * last * width..(row + 1) * last * width)?);
        }
    }
    let mut dims = first.dims().to_vec();
    *dims.last_mut()? = 3 * last;
    Literal::new(first.dtype(), dims, bytes)
}
