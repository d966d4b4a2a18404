//! Parameters as safetensors under Hugging Face names.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use tensor::Literal;
use trace::Tree;

use crate::error::Error;
use crate::hf::Family;
use crate::hf::layout::{AxisPart, Layout, put_part_of_axis, transposed, turned_kernel};
use crate::hf::names::Naming;
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
    // Parts of fused tensors, until all are there.
    let mut fused: BTreeMap<String, Vec<FusedPart>> = BTreeMap::new();
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
        let (dims, ours) = (dims.to_vec(), dims.last().copied());
        let width = literal.dtype().size_bytes();
        let each = dims.iter().product::<usize>() * width;
        for (n, bytes) in literal.bytes().chunks_exact(each.max(1)).enumerate().take(layers * experts) {
            let name = origin.name(n / experts, n % experts);
            let wrong = || Error::config(format!("`{path}` has another size than its shape"));
            let (bytes, dims) = match (origin.layout, dims.as_slice()) {
                (Layout::Transposed | Layout::Rows(_), [batch @ .., rows, columns]) => {
                    (transposed(bytes, *rows, *columns, width), [batch, &[*columns, *rows]].concat())
                }
                (Layout::Kernel, [spatial @ .., input, output]) => {
                    let sizes = [spatial.iter().product(), *input, *output];
                    (turned_kernel(bytes, sizes, width), [&[*output, *input], spatial].concat())
                }
                (Layout::AloneInBatch, dims) => (bytes.to_vec(), [&[1], dims].concat()),
                _ => (bytes.to_vec(), dims.clone()),
            };
            let own = Literal::new(literal.dtype(), dims, bytes).ok_or_else(wrong)?;
            match ours.and_then(|ours| origin.part(ours)) {
                Some(part) => {
                    let is_rows = matches!(origin.layout, Layout::Rows(_));
                    let axis = own.dims().len().saturating_sub(if is_rows { 2 } else { 1 });
                    fused.entry(name).or_default().push(FusedPart { own, part, axis });
                }
                None => {
                    tensors.insert(name, own);
                }
            }
        }
    }
    for (name, parts) in fused {
        let whole = joined(&parts);
        tensors.insert(
            name.clone(),
            whole.ok_or_else(|| Error::config(format!("the parts of `{name}` do not fit together, or lack one")))?,
        );
    }
    Ok(tensors)
}

/// One of our tensors within one of theirs.
struct FusedPart {
    own: Literal,
    part: AxisPart,
    /// The axis that is fused.
    axis: usize,
}

/// Parts that are all of a tensor, joined.
fn joined(parts: &[FusedPart]) -> Option<Literal> {
    let FusedPart { own, part, axis } = parts.first()?;
    let mut dims = own.dims().to_vec();
    *dims.get_mut(*axis)? = part.whole(*own.dims().get(*axis)?);
    let covered: usize = parts.iter().map(|one| one.part.count).sum();
    if covered != part.group || parts.iter().any(|one| one.part.group != part.group || one.own.dtype() != own.dtype()) {
        return None;
    }
    let unit = dims.get(axis + 1..)?.iter().product::<usize>() * own.dtype().size_bytes();
    let whole = *dims.get(*axis)?;
    let mut bytes = vec![0; dims.iter().product::<usize>() * own.dtype().size_bytes()];
    for one in parts {
        put_part_of_axis(&mut bytes, one.own.bytes(), whole, unit, one.part)?;
    }
    Literal::new(own.dtype(), dims, bytes)
}
