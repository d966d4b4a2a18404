//! `.pt2` archives: three containers, the program, and tensors that stay in the file until they are asked for.

mod entries;
mod pickle;
mod window;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde_json::Value;
use tensor::{DType, Literal, Spec};

use crate::archive::entries::Entries;
use crate::archive::window::FilePart;
use crate::error::Error;
use crate::graph::{self, ExportedProgram, InputRole, SymExpr};

/// Axes of a tensor that is read.
const MAX_RANK: usize = 64;

/// An archive that `torch.export.save` wrote.
#[derive(Debug)]
pub struct Archive {
    program: ExportedProgram,
    tensors: BTreeMap<String, Stored>,
}

/// A tensor in the file.
#[derive(Clone, Debug)]
struct Stored {
    /// Its whole storage.
    part: FilePart,
    dtype: DType,
    sizes: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
}

impl Archive {
    /// Opens an archive: the program is read, tensors are only found.
    pub fn open(path: &Path) -> Result<Archive, Error> {
        let of_file = |error: Error| error.at(path.display().to_string());
        let unreadable = |error: std::io::Error| Error::new(error.to_string(), "give a file that can be read");
        let file = File::open(path).and_then(FilePart::whole).map_err(unreadable).map_err(of_file)?;
        Archive::read(&file).map_err(of_file)
    }

    fn read(file: &FilePart) -> Result<Archive, Error> {
        let entries = Entries::open(file)?;
        if entries.get("serialized_exported_program.json").is_some() {
            let program = graph::program(&entries.bytes("serialized_exported_program.json")?)?;
            let mut tensors = BTreeMap::new();
            for name in ["serialized_state_dict.pt", "serialized_constants.pt"] {
                pickled(&entries, name, &mut tensors)?;
            }
            return Ok(Archive { program, tensors });
        }
        let root = entries.names().find_map(|name| name.strip_suffix("archive_format")).map(str::to_string);
        let root = root.ok_or_else(|| {
            Error::new(
                "it is a zip archive, but none of torch.export",
                "save with `torch.export.save(torch.export.export(model, args), \"model.pt2\")`",
            )
        })?;
        if entries.bytes(&format!("{root}byteorder")).is_ok_and(|order| order.starts_with(b"big")) {
            return Err(Error::new("its numbers are big-endian", "save it on a little-endian machine"));
        }
        let models: Vec<String> = entries
            .names()
            .filter_map(|name| name.strip_prefix(&format!("{root}models/"))?.strip_suffix(".json"))
            .map(str::to_string)
            .collect();
        let model = match models.as_slice() {
            [one] => one,
            several if several.iter().any(|name| name == "model") => "model",
            [] if entries.names().any(|name| name.contains("data/aotinductor")) => {
                return Err(Error::new(
                    "it is a compiled package of AOTInductor, which has no graph",
                    "save the exported program itself with `torch.export.save`",
                ));
            }
            several => {
                let message = format!("it has {} models: {}", several.len(), several.join(", "));
                return Err(Error::new(message, "save one model, or name one of them `model`"));
            }
        };
        let program = graph::program(&entries.bytes(&format!("{root}models/{model}.json"))?)?;
        let mut tensors = BTreeMap::new();
        for (folder, suffix) in [("weights", "weights"), ("constants", "constants")] {
            let config = format!("{root}data/{folder}/{model}_{suffix}_config.json");
            if entries.get(&config).is_some() {
                configured(&entries, &format!("{root}data/{folder}/"), &config, &mut tensors)?;
            } else {
                pickled(&entries, &format!("{root}data/{folder}/{model}.pt"), &mut tensors)?;
            }
        }
        Ok(Archive { program, tensors })
    }

    /// The program.
    pub fn program(&self) -> &ExportedProgram {
        &self.program
    }

    /// Names of parameters, buffers and constants that are in the file.
    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Type and shape of a tensor that is in the file.
    pub fn spec(&self, name: &str) -> Option<Spec> {
        self.tensors.get(name).map(|stored| Spec::new(stored.dtype, stored.sizes.clone()))
    }

    /// Tensors that are another one under a second name (tied weights), each with the name that the module has first.
    pub fn tied(&self) -> BTreeMap<String, String> {
        let mut tied = BTreeMap::new();
        let mut seen: BTreeMap<_, &String> = BTreeMap::new();
        let names = self.program.inputs.iter().filter_map(|role| match role {
            InputRole::Parameter(name) | InputRole::Buffer(name) => Some(name),
            _ => None,
        });
        for name in names {
            let Some(stored) = self.tensors.get(name).filter(|stored| stored.part.len() > 0) else { continue };
            let place = (stored.part.place(), stored.dtype, &stored.sizes, &stored.strides, stored.offset);
            match seen.get(&place) {
                Some(first) => drop(tied.insert(name.clone(), (*first).clone())),
                None => drop(seen.insert(place, name)),
            }
        }
        tied
    }

    /// A parameter, buffer or constant.
    pub fn tensor(&self, name: &str) -> Result<Literal, Error> {
        let stored = self
            .tensors
            .get(name)
            .ok_or_else(|| Error::damaged(format!("the file has no values of `{name}`, which the program reads")))?;
        stored.literal().map_err(|error| error.at(format!("tensor `{name}`")))
    }
}

impl Stored {
    fn literal(&self) -> Result<Literal, Error> {
        let size = self.dtype.size_bytes();
        let count = self.sizes.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let bytes = count.and_then(|count| count.checked_mul(size)).ok_or_else(|| Error::damaged("it is too large"))?;
        // A storage without bytes means zeros; a tensor is never larger than its file but for strides of zero.
        if bytes == 0 || self.part.len() == 0 {
            let zeros = (bytes as u64 <= MAX_ZEROS).then(|| Literal::zeros(self.dtype, self.sizes.clone())).flatten();
            return zeros.ok_or_else(|| Error::damaged("it is too large"));
        }
        let last = self
            .sizes
            .iter()
            .zip(&self.strides)
            .try_fold(self.offset, |at, (size, stride)| at.checked_add((size - 1).checked_mul(*stride)?));
        let end = last.and_then(|last| last.checked_add(1)?.checked_mul(size));
        if end.is_none_or(|end| end as u64 > self.part.len()) {
            return Err(Error::damaged("its strides do not fit its bytes"));
        }
        if bytes as u64 > self.part.len().saturating_mul(MAX_EXPANSION) {
            return Err(Error::damaged("it is much larger than its bytes"));
        }
        let storage = self.part.bytes().map_err(|error| Error::damaged(error.to_string()))?;
        let mut values = Vec::with_capacity(bytes);
        if self.is_row_major() {
            values.extend_from_slice(&storage[self.offset * size..self.offset * size + bytes]);
        } else {
            copy(&storage, size, self.offset, &self.sizes, &self.strides, &mut values);
        }
        Literal::new(self.dtype, self.sizes.clone(), values).ok_or_else(|| Error::damaged("its bytes do not fit"))
    }

    fn is_row_major(&self) -> bool {
        let mut expected = 1;
        self.sizes.iter().zip(&self.strides).rev().all(|(size, stride)| {
            let fits = *size == 1 || *stride == expected;
            expected *= size;
            fits
        })
    }
}

/// Bytes of zeros that a file without them may ask for.
const MAX_ZEROS: u64 = 1 << 34;

/// How many times larger than its bytes an expanded tensor may be.
const MAX_EXPANSION: u64 = 1 << 12;

fn copy(storage: &[u8], size: usize, offset: usize, sizes: &[usize], strides: &[usize], to: &mut Vec<u8>) {
    match (sizes, strides) {
        ([count, sizes @ ..], [stride, strides @ ..]) => {
            for n in 0..*count {
                copy(storage, size, offset + n * stride, sizes, strides, to);
            }
        }
        _ => to.extend_from_slice(&storage[offset * size..(offset + 1) * size]),
    }
}

/// Tensors of a folder of raw storages with a list beside them.
fn configured(
    entries: &Entries,
    folder: &str,
    config: &str,
    tensors: &mut BTreeMap<String, Stored>,
) -> Result<(), Error> {
    let json: Value = serde_json::from_slice(&entries.bytes(config)?)
        .map_err(|error| Error::damaged(format!("entry `{config}`: {error}")))?;
    for (name, entry) in json.get("config").and_then(Value::as_object).into_iter().flatten() {
        let of_tensor = |error: Error| error.at(format!("tensor `{name}`"));
        if entry.get("use_pickle").and_then(Value::as_bool).unwrap_or(false) {
            let error = Error::new("it is a tensor subclass in a pickle", "unwrap tensor subclasses before the export");
            return Err(of_tensor(error));
        }
        let Some(json) = entry.get("tensor_meta").filter(|meta| meta.is_object()) else { continue };
        let path = entry.get("path_name").and_then(Value::as_str).unwrap_or_default();
        let part = entries.get(&format!("{folder}{path}"));
        let part = part.ok_or_else(|| of_tensor(Error::damaged(format!("entry `{folder}{path}` is missing"))))?;
        let meta = graph::tensor_meta(json).map_err(of_tensor)?;
        let numbers = |sizes: &[SymExpr]| -> Result<Vec<usize>, Error> { sizes.iter().map(number).collect() };
        let stored = Stored {
            part: part.clone(),
            dtype: meta.dtype,
            sizes: numbers(&meta.sizes).map_err(of_tensor)?,
            strides: numbers(&meta.strides).map_err(of_tensor)?,
            offset: json.get("storage_offset").map_or(Ok(0), |at| graph::size(at).and_then(|at| number(&at)))?,
        };
        tensors.insert(name.clone(), stored.checked().map_err(of_tensor)?);
    }
    Ok(())
}

impl Stored {
    fn checked(self) -> Result<Stored, Error> {
        match self.sizes.len() == self.strides.len() && self.sizes.len() <= MAX_RANK {
            true => Ok(self),
            false => Err(Error::damaged("its sizes and strides do not belong together")),
        }
    }
}

fn number(size: &SymExpr) -> Result<usize, Error> {
    let value = size.value(&BTreeMap::new())?;
    usize::try_from(value).map_err(|_| Error::damaged("a size is negative"))
}

/// Tensors of a `.pt` file in the archive; no such file is no tensor.
fn pickled(entries: &Entries, name: &str, tensors: &mut BTreeMap<String, Stored>) -> Result<(), Error> {
    let Some(part) = entries.get(name).filter(|part| part.len() > 0) else { return Ok(()) };
    let of_file = |error: Error| error.at(format!("entry `{name}`"));
    let inner = Entries::open(part).map_err(of_file)?;
    let root = inner.names().find_map(|name| name.strip_suffix("data.pkl")).map(str::to_string);
    let root = root.ok_or_else(|| of_file(Error::damaged("it has no data.pkl")))?;
    for (tensor, found) in pickle::tensors(&inner.bytes(&format!("{root}data.pkl"))?).map_err(of_file)? {
        let storage = format!("{root}data/{}", found.storage);
        let part = inner.get(&storage).cloned();
        let stored = Stored {
            part: part.ok_or_else(|| of_file(Error::damaged(format!("storage `{storage}` is missing"))))?,
            dtype: found.dtype,
            sizes: found.sizes,
            strides: found.strides,
            offset: found.offset,
        };
        tensors.insert(tensor, stored.checked().map_err(of_file)?);
    }
    Ok(())
}
