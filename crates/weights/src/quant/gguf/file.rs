//! A GGUF file of llama.cpp: metadata, tensors by name, and one tensor at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tensor::BlockFormat;

use crate::error::Error;
use crate::quant::format::QuantizedWeight;
use crate::quant::gguf::blocks::GgmlType;
use crate::quant::gguf::value::GgufValue;
use crate::quant::refusal::Refusal;

pub(crate) const MAGIC: [u8; 4] = *b"GGUF";

/// The version that is written; version 2 differs in nothing that is read.
pub(crate) const VERSION: u32 = 3;

pub(crate) const ALIGNMENT_KEY: &str = "general.alignment";
pub(crate) const DEFAULT_ALIGNMENT: u64 = 32;
const MAX_ALIGNMENT: u64 = 1 << 20;

/// Most bytes before the tensors: vocabularies are a few megabytes.
const MAX_HEADER_BYTES: u64 = 256 << 20;

/// Most values in all lists: each takes more memory than its bytes.
const MAX_LIST_VALUES: usize = 8 << 20;

const MAX_TENSORS: u64 = 1 << 20;
const MAX_ENTRIES: u64 = 1 << 16;
const MAX_NAME_BYTES: u64 = 1 << 16;
const MAX_RANK: u32 = 4;
const MAX_DEPTH: usize = 4;

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufTensor {
    /// Its type.
    pub kind: GgmlType,
    /// Sizes, major to minor: the other way round than in the file.
    pub dims: Vec<usize>,
    offset: u64,
    size_bytes: usize,
}

/// An open file. Tensors are read one by one when they are asked for.
#[derive(Debug)]
pub struct GgufFile {
    path: PathBuf,
    file: File,
    metadata: BTreeMap<String, GgufValue>,
    tensors: BTreeMap<String, GgufTensor>,
}

impl GgufFile {
    /// Opens a file and reads all but the tensors' values.
    pub fn open(path: &Path) -> Result<GgufFile, Error> {
        let file = File::open(path).map_err(Error::io("opening", path))?;
        let file_bytes = file.metadata().map_err(Error::io("reading", path))?.len();
        let mut header = Header {
            reader: BufReader::new(&file).take(MAX_HEADER_BYTES.min(file_bytes)),
            read_bytes: 0,
            limit_bytes: MAX_HEADER_BYTES.min(file_bytes),
            list_values: 0,
        };
        let wrong = |message: String| Error::format(path, message);
        let (metadata, infos) = header.read().map_err(wrong)?;
        let alignment = match metadata.get(ALIGNMENT_KEY).map(GgufValue::as_count) {
            None => DEFAULT_ALIGNMENT,
            Some(Some(value)) if value.is_power_of_two() && value as u64 <= MAX_ALIGNMENT => value as u64,
            Some(_) => return Err(wrong(format!("`{ALIGNMENT_KEY}` is no power of two up to {MAX_ALIGNMENT}"))),
        };
        let data_start = header.read_bytes.next_multiple_of(alignment);
        let mut tensors = BTreeMap::new();
        for info in infos {
            let tensor = tensor(&info, data_start, alignment, file_bytes)
                .map_err(|refusal| refusal.of_tensor(path, &info.name))?;
            if tensors.insert(info.name.clone(), tensor).is_some() {
                return Err(wrong(format!("tensor `{}` is there twice", info.name)));
            }
        }
        check_apart(&tensors).map_err(wrong)?;
        Ok(GgufFile { path: path.to_path_buf(), file, metadata, tensors })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Metadata by key: the architecture, its sizes, the tokenizer.
    pub fn metadata(&self) -> &BTreeMap<String, GgufValue> {
        &self.metadata
    }

    /// Tensors by the names of the file.
    pub fn tensors(&self) -> &BTreeMap<String, GgufTensor> {
        &self.tensors
    }

    /// Reads a tensor by its name in the file.
    pub fn read(&self, name: &str) -> Result<QuantizedWeight, Error> {
        let tensor = self.tensor(name)?;
        self.read_part(name, tensor, 0, &tensor.dims)
    }

    /// Reads one of the matrices of a tensor of three dimensions.
    pub(crate) fn read_matrix(&self, name: &str, number: usize) -> Result<QuantizedWeight, Error> {
        let tensor = self.tensor(name)?;
        let [count, rows, columns] = tensor.dims[..] else {
            return Err(Refusal::damaged("it is no list of matrices").of_tensor(&self.path, name));
        };
        if number >= count {
            return Err(Refusal::damaged(format!("it has {count} matrices")).of_tensor(&self.path, name));
        }
        self.read_part(name, tensor, number, &[rows, columns])
    }

    fn tensor(&self, name: &str) -> Result<&GgufTensor, Error> {
        self.tensors.get(name).ok_or_else(|| Error::Missing { path: self.path.clone(), name: name.to_string() })
    }

    /// The blocks of a matrix as they are, row by row.
    pub(crate) fn read_blocks(&self, name: &str) -> Result<(BlockFormat, Vec<u8>), Error> {
        let tensor = self.tensor(name)?;
        let refused = |message: String| Refusal::damaged(message).of_tensor(&self.path, name);
        let format = tensor.kind.block_format().filter(|_| tensor.dims.len() == 2);
        let format = format.ok_or_else(|| refused("it is no matrix of blocks".into()))?;
        // No more than the file was checked to have.
        let mut bytes = vec![0; tensor.size_bytes];
        self.file.read_exact_at(&mut bytes, tensor.offset).map_err(Error::io("reading", &self.path))?;
        match format.not_finite(&bytes) {
            Some(block) => Err(refused(format!("block {block} has a scale that is no finite number"))),
            None => Ok((format, bytes)),
        }
    }

    fn read_part(
        &self,
        name: &str,
        tensor: &GgufTensor,
        number: usize,
        dims: &[usize],
    ) -> Result<QuantizedWeight, Error> {
        let refused = |refusal: Refusal| refusal.of_tensor(&self.path, name);
        let size_bytes = size_bytes(tensor.kind, dims).map_err(refused)?;
        // No more than the tensor, which the file was checked to have.
        let mut bytes = vec![0; size_bytes];
        let offset = tensor.offset + (number * size_bytes) as u64;
        self.file.read_exact_at(&mut bytes, offset).map_err(Error::io("reading", &self.path))?;
        tensor.kind.read(dims, bytes).map_err(refused)
    }
}

/// A tensor as the header describes it.
struct Info {
    name: String,
    /// As in the file: minor to major.
    dims: Vec<u64>,
    kind: u32,
    offset: u64,
}

fn tensor(info: &Info, data_start: u64, alignment: u64, file_bytes: u64) -> Result<GgufTensor, Refusal> {
    let kind = GgmlType::from_number(info.kind)?;
    let dims: Option<Vec<usize>> = info.dims.iter().rev().map(|size| usize::try_from(*size).ok()).collect();
    let dims = dims.ok_or_else(|| Refusal::damaged("its shape is too large"))?;
    if dims.is_empty() || dims.contains(&0) {
        return Err(Refusal::damaged(format!("it has the shape {dims:?}")));
    }
    let size_bytes = size_bytes(kind, &dims)?;
    let offset = data_start.checked_add(info.offset).filter(|_| info.offset.is_multiple_of(alignment));
    let offset = offset.ok_or_else(|| Refusal::damaged(format!("its offset {} is not aligned", info.offset)))?;
    if offset.checked_add(size_bytes as u64).is_none_or(|end| end > file_bytes) {
        return Err(Refusal::new(
            "the file ends before it",
            "copy the whole file; parts of split files are not read alone",
        ));
    }
    Ok(GgufTensor { kind, dims, offset, size_bytes })
}

pub(crate) fn size_bytes(kind: GgmlType, dims: &[usize]) -> Result<usize, Refusal> {
    let columns = dims.last().copied().unwrap_or(0);
    if !columns.is_multiple_of(kind.block_elements()) {
        let message = format!("rows of {columns} are no whole blocks of {} ({})", kind.block_elements(), kind.name());
        return Err(Refusal::damaged(message));
    }
    let row_bytes = (columns / kind.block_elements()).checked_mul(kind.block_bytes());
    let rows = &dims[..dims.len().saturating_sub(1)];
    let all = row_bytes.and_then(|bytes| rows.iter().try_fold(bytes, |all, size| all.checked_mul(*size)));
    // Codes take a byte each, and more than in the file.
    let fits = all.filter(|all| all.checked_mul(8).is_some());
    fits.ok_or_else(|| Refusal::damaged(format!("its shape {dims:?} is too large")))
}

/// Tensors share no bytes: else a small file could hold any number of large ones.
fn check_apart(tensors: &BTreeMap<String, GgufTensor>) -> Result<(), String> {
    let mut places: Vec<(u64, usize, &String)> =
        tensors.iter().map(|(name, tensor)| (tensor.offset, tensor.size_bytes, name)).collect();
    places.sort_unstable();
    match places.windows(2).find(|pair| pair[0].0 + pair[0].1 as u64 > pair[1].0) {
        Some(pair) => Err(format!("tensors `{}` and `{}` share bytes", pair[0].2, pair[1].2)),
        None => Ok(()),
    }
}

/// What is before the tensors, read in order.
struct Header<R> {
    reader: R,
    read_bytes: u64,
    limit_bytes: u64,
    list_values: usize,
}

impl<R: Read> Header<R> {
    fn read(&mut self) -> Result<(BTreeMap<String, GgufValue>, Vec<Info>), String> {
        if self.bytes::<4>()? != MAGIC {
            return Err("it does not begin with GGUF".into());
        }
        let version = u32::from_le_bytes(self.bytes()?);
        if !(2..=VERSION).contains(&version) {
            let swapped = (2..=VERSION).contains(&version.swap_bytes());
            let why = if swapped { "it is of a big-endian machine" } else { "versions 2 and 3 are read" };
            return Err(format!("its version is {version}: {why}"));
        }
        let (tensors, entries) = (self.number()?, self.number()?);
        if tensors > MAX_TENSORS || entries > MAX_ENTRIES {
            return Err(format!("it would have {tensors} tensors and {entries} entries of metadata"));
        }
        let mut metadata = BTreeMap::new();
        for _ in 0..entries {
            let key = self.text()?;
            let kind = u32::from_le_bytes(self.bytes()?);
            let value = self.value(kind, 0).map_err(|message| format!("metadata `{key}`: {message}"))?;
            if metadata.insert(key.clone(), value).is_some() {
                return Err(format!("metadata `{key}` is there twice"));
            }
        }
        let mut infos = Vec::new();
        for _ in 0..tensors {
            let name = self.text()?;
            if name.len() as u64 > MAX_NAME_BYTES {
                return Err(format!("a tensor has a name of {} bytes", name.len()));
            }
            let rank = u32::from_le_bytes(self.bytes()?);
            if rank > MAX_RANK {
                return Err(format!("tensor `{name}` has {rank} dimensions"));
            }
            let dims = (0..rank).map(|_| self.number()).collect::<Result<_, _>>()?;
            let kind = u32::from_le_bytes(self.bytes()?);
            infos.push(Info { name, dims, kind, offset: self.number()? });
        }
        Ok((metadata, infos))
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(|_| "it ends in its header".to_string())?;
        self.read_bytes += N as u64;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn text(&mut self) -> Result<String, String> {
        let length = self.number()?;
        if length > self.limit_bytes - self.read_bytes {
            return Err(format!("a text would have {length} bytes"));
        }
        let mut bytes = Vec::new();
        self.reader.by_ref().take(length).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if bytes.len() as u64 != length {
            return Err("it ends in its header".into());
        }
        self.read_bytes += length;
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<GgufValue, String> {
        Ok(match kind {
            0 => GgufValue::Unsigned(u8::from_le_bytes(self.bytes()?).into()),
            1 => GgufValue::Signed(i8::from_le_bytes(self.bytes()?).into()),
            2 => GgufValue::Unsigned(u16::from_le_bytes(self.bytes()?).into()),
            3 => GgufValue::Signed(i16::from_le_bytes(self.bytes()?).into()),
            4 => GgufValue::Unsigned(u32::from_le_bytes(self.bytes()?).into()),
            5 => GgufValue::Signed(i32::from_le_bytes(self.bytes()?).into()),
            6 => GgufValue::F32(f32::from_le_bytes(self.bytes()?)),
            7 => GgufValue::Bool(self.bytes::<1>()? != [0]),
            8 => GgufValue::Text(self.text()?),
            9 => {
                let kind = u32::from_le_bytes(self.bytes()?);
                let count = self.number()?;
                self.list_values = usize::try_from(count)
                    .ok()
                    .and_then(|count| self.list_values.checked_add(count))
                    .unwrap_or(usize::MAX);
                if self.list_values > MAX_LIST_VALUES || count > self.limit_bytes || depth >= MAX_DEPTH {
                    return Err(format!("a list would have {count} values at depth {depth}"));
                }
                GgufValue::List((0..count).map(|_| self.value(kind, depth + 1)).collect::<Result<_, _>>()?)
            }
            10 => GgufValue::Unsigned(self.number()?),
            11 => GgufValue::Signed(i64::from_le_bytes(self.bytes()?)),
            12 => GgufValue::F64(f64::from_le_bytes(self.bytes()?)),
            other => return Err(format!("values of type {other} are not known")),
        })
    }
}
