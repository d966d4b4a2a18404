//! Parameters from safetensors under Hugging Face names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tensor::Literal;
use trace::{Spec, Tree};
use weights::{Entry, SafeTensors};

use crate::error::Error;
use crate::hf::Family;
use crate::hf::layout::{columns_of, converted, transposed};
use crate::hf::names::{Layout, Origin, bare, is_needless, origin};
use crate::stacked::is_stacked;

/// Longest index that is read.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// Tensors by name, of one file or of the shards of an index.
#[derive(Debug)]
pub struct Files {
    files: Vec<SafeTensors>,
    by_name: BTreeMap<String, usize>,
}

impl Files {
    /// Opens a `.safetensors` file, an `.index.json`, or the one or the other in a folder.
    pub fn open(path: &Path) -> Result<Files, Error> {
        if path.is_dir() {
            let whole = path.join("model.safetensors");
            return Files::open(&if whole.exists() { whole } else { path.join("model.safetensors.index.json") });
        }
        let paths = if path.extension().is_some_and(|extension| extension == "json") {
            shards(path)?
        } else {
            vec![path.to_path_buf()]
        };
        let files = paths.iter().map(|path| SafeTensors::open(path)).collect::<Result<Vec<_>, _>>()?;
        let mut by_name = BTreeMap::new();
        for (n, file) in files.iter().enumerate() {
            by_name.extend(file.entries().keys().map(|name| (name.clone(), n)));
        }
        Ok(Files { files, by_name })
    }

    /// Names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    fn entry(&self, name: &str) -> Option<(&SafeTensors, &Entry)> {
        let file = self.files.get(*self.by_name.get(name)?)?;
        Some((file, file.entries().get(name)?))
    }
}

/// Files an index names; they lie beside it.
fn shards(index: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::ConfigFile { path: index.into(), source };
    let length = std::fs::metadata(index).map_err(|error| failed(error.into()))?.len();
    if length > MAX_INDEX_BYTES {
        return Err(failed(format!("it is {length} bytes long").into()));
    }
    let text = std::fs::read_to_string(index).map_err(|error| failed(error.into()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| failed(error.into()))?;
    let map = value.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| failed("it has no weight_map".into()))?;
    let names: BTreeSet<&str> = map.values().filter_map(Value::as_str).collect();
    let folder = index.parent().unwrap_or(Path::new("."));
    let path_of = |name: &str| {
        // A name from a file must not lead out of the folder.
        let is_plain = Path::new(name).file_name().is_some_and(|plain| plain == name);
        is_plain.then(|| folder.join(name)).ok_or_else(|| failed(format!("`{name}` is no file name").into()))
    };
    names.into_iter().map(path_of).collect()
}

/// What a loading has found wrong, all of it before it is reported.
#[derive(Default)]
struct Findings {
    missing: Vec<String>,
    mismatched: Vec<String>,
}

/// The parameters of a model, in the order of its leaves and in their types. `model` is known by types and shapes.
///
/// Layers are stacked, matrices turned, and fused projections split as the family needs it. Errors list every tensor that
/// is missing, unexpected or of another shape.
pub fn load<P: Tree>(files: &Files, family: Family, model: &P) -> Result<Vec<Literal>, Error> {
    let mut findings = Findings::default();
    let mut used = BTreeSet::new();
    let leaves: Vec<(String, Spec)> = model.paths().into_iter().zip(model.specs()).collect();
    let mut plans = Vec::new();
    for (path, spec) in &leaves {
        let origin = origin(family, path)
            .ok_or_else(|| Error::config(format!("`{path}` has no name in files of {family:?}")))?;
        plans.push(planned(files, family, path, spec, &origin, &mut findings, &mut used));
    }
    let unexpected: Vec<String> =
        files.names().filter(|name| !used.contains(*name) && !is_needless(family, name)).map(str::to_owned).collect();
    let Findings { missing, mismatched } = findings;
    if !(missing.is_empty() && mismatched.is_empty() && unexpected.is_empty()) {
        return Err(Error::Tensors { missing, unexpected, mismatched });
    }
    leaves.iter().zip(plans).map(|((path, spec), pieces)| assembled(files, path, spec, &pieces)).collect()
}

/// One of their tensors on its way into ours.
struct Piece {
    name: String,
    layout: Layout,
    /// Shape of the part of ours.
    dims: Vec<usize>,
}

fn planned(
    files: &Files,
    family: Family,
    path: &str,
    spec: &Spec,
    origin: &Origin,
    findings: &mut Findings,
    used: &mut BTreeSet<String>,
) -> Vec<Piece> {
    let mut dims = spec.dims.as_slice();
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
    let expected = match (origin.layout, dims.as_slice()) {
        (Layout::Transposed, [rows, columns]) => vec![*columns, *rows],
        (Layout::Third(_), [rest @ .., last]) => rest.iter().copied().chain([3 * last]).collect(),
        _ => dims.clone(),
    };
    let mut pieces = Vec::new();
    for layer in 0..layers {
        for expert in 0..experts {
            let full = origin.name(layer, expert);
            let found = [Some(full.as_str()), bare(family, &full)]
                .into_iter()
                .flatten()
                .find_map(|name| files.entry(name).map(|(_, entry)| (name.to_owned(), entry)));
            match found {
                None => {
                    if !findings.missing.contains(&full) {
                        findings.missing.push(full);
                    }
                }
                Some((name, entry)) => {
                    if entry.dims != expected {
                        findings.mismatched.push(format!("{name} is {:?}, not {expected:?}", entry.dims));
                    }
                    used.insert(name.clone());
                    pieces.push(Piece { name, layout: origin.layout, dims: dims.clone() });
                }
            }
        }
    }
    pieces
}

fn assembled(files: &Files, path: &str, spec: &Spec, pieces: &[Piece]) -> Result<Literal, Error> {
    let broken = |what: &str| Error::config(format!("`{path}` ({spec}): {what}"));
    let mut bytes = Vec::with_capacity(usize::try_from(spec.bytes()).unwrap_or(0));
    for piece in pieces {
        let (file, entry) = files.entry(&piece.name).ok_or_else(|| broken("its file has gone"))?;
        let dtype = entry.dtype;
        let own = file.read(&piece.name)?.into_bytes();
        let own = match (piece.layout, piece.dims.as_slice()) {
            (Layout::Transposed, [rows, columns]) => transposed(&own, *columns, *rows, dtype.size_bytes()),
            (Layout::Third(n), [.., last]) => columns_of(&own, 3 * last, n * last, *last, dtype.size_bytes()),
            _ => own,
        };
        let own = converted(own, dtype, spec.dtype);
        bytes.extend(own.ok_or_else(|| broken(&format!("{dtype} in the file cannot become {}", spec.dtype)))?);
    }
    Literal::new(spec.dtype, spec.dims.clone(), bytes).ok_or_else(|| broken("its parts have another size in all"))
}
