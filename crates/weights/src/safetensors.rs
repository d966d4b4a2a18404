//! The safetensors format: a length, a JSON header, and the tensors' bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tensor::{DType, Literal};

use crate::error::Error;
use crate::pages::zeroed_bytes;
use crate::region::TensorRegion;
use crate::unfinished::unfinished_file;

/// Longest header that is read.
pub(crate) const MAX_HEADER_BYTES: u64 = 100 << 20;

/// Longest description of one tensor in a header.
const MAX_RECORD_BYTES: usize = 1 << 16;

/// Dimensions a tensor may have.
const MAX_RANK: usize = 64;

/// Key of the header that is no tensor.
const METADATA: &str = "__metadata__";

/// Tensors begin at a multiple of this.
const ALIGN: usize = 8;

/// Types by the names of the format.
const TYPES: &[(&str, DType)] = &[
    ("BOOL", DType::Bool),
    ("I8", DType::I8),
    ("I16", DType::I16),
    ("I32", DType::I32),
    ("I64", DType::I64),
    ("U8", DType::U8),
    ("U16", DType::U16),
    ("U32", DType::U32),
    ("U64", DType::U64),
    ("F8_E5M2", DType::F8E5M2),
    ("F8_E4M3", DType::F8E4M3FN),
    ("F8_E8M0", DType::F8E8M0FNU),
    ("BF16", DType::BF16),
    ("F16", DType::F16),
    ("F32", DType::F32),
    ("F64", DType::F64),
    ("C64", DType::C64),
];

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Element type.
    pub dtype: DType,
    /// Sizes, major to minor.
    pub dims: Vec<usize>,
    offset: u64,
    size_bytes: usize,
}

/// An open file. Tensors are read one by one when they are asked for.
#[derive(Debug)]
pub struct SafeTensors {
    path: PathBuf,
    file: File,
    entries: BTreeMap<String, Entry>,
    metadata: BTreeMap<String, String>,
}

impl SafeTensors {
    /// Opens a file and reads its header.
    pub fn open(path: &Path) -> Result<SafeTensors, Error> {
        let mut file = File::open(path).map_err(Error::io("opening", path))?;
        let file_bytes = file.metadata().map_err(Error::io("reading", path))?.len();
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(|_| Error::format(path, "it is shorter than 8 bytes"))?;
        let header_bytes = u64::from_le_bytes(length);
        if header_bytes > MAX_HEADER_BYTES || header_bytes > file_bytes.saturating_sub(8) {
            return Err(Error::format(path, format!("its header would be {header_bytes} bytes long")));
        }
        let mut header = vec![0; header_bytes as usize];
        file.read_exact(&mut header).map_err(Error::io("reading", path))?;
        if header.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err(Error::format(path, "its header is no JSON object"));
        }
        // Descriptions are read one by one: as values in memory they take many times their text.
        let header: BTreeMap<String, Box<RawValue>> =
            serde_json::from_slice(&header).map_err(|error| Error::format(path, error.to_string()))?;
        let data_start = 8 + header_bytes;
        let mut entries = BTreeMap::new();
        let mut metadata = BTreeMap::new();
        for (name, record) in header {
            if name == METADATA {
                let notes = serde_json::from_str(record.get());
                metadata = notes.map_err(|_| Error::format(path, "its metadata is not text"))?;
            } else {
                let entry = entry(record.get(), data_start, file_bytes);
                let entry = entry.map_err(|message| Error::format(path, format!("tensor `{name}`: {message}")))?;
                entries.insert(name, entry);
            }
        }
        check_apart(&entries).map_err(|message| Error::format(path, message))?;
        Ok(SafeTensors { path: path.to_path_buf(), file, entries, metadata })
    }

    /// Tensors by name.
    pub fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// What the writer noted.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Reads a part of a tensor, and no more from the file than that part.
    pub fn read_region(&self, name: &str, region: &TensorRegion) -> Result<Literal, Error> {
        let entry = self.entry(name)?;
        self.check_region(name, entry, region)?;
        let wrong = || Error::format(&self.path, format!("tensor `{name}` has another size"));
        // No larger than the tensor, which the file was checked to have.
        let mut bytes = zeroed_bytes(region.size_bytes(entry.dtype.size_bytes()).ok_or_else(wrong)?);
        self.read_region_into(name, region, &mut bytes)?;
        Literal::new(entry.dtype, region.size.clone(), bytes).ok_or_else(wrong)
    }

    fn check_region(&self, name: &str, entry: &Entry, region: &TensorRegion) -> Result<(), Error> {
        if region.lies_in(&entry.dims) {
            return Ok(());
        }
        let message = format!("{region:?} does not lie in its shape {:?}", entry.dims);
        Err(Error::OutOfRange { name: name.to_string(), message })
    }

    /// Reads a part of a tensor into memory of as many bytes, and no more from the file than that part.
    pub fn read_region_into(&self, name: &str, region: &TensorRegion, bytes: &mut [u8]) -> Result<(), Error> {
        let entry = self.entry(name)?;
        self.check_region(name, entry, region)?;
        let element_bytes = entry.dtype.size_bytes();
        if region.size_bytes(element_bytes) != Some(bytes.len()) {
            return Err(Error::format(&self.path, format!("tensor `{name}` has another size")));
        }
        let whole = TensorRegion::whole(&entry.dims);
        TensorRegion::for_each_run(&whole, region, region, element_bytes, |run| {
            let target = &mut bytes[run.into_offset..run.into_offset + run.size_bytes];
            self.file.read_exact_at(target, entry.offset + run.from_offset as u64)
        })
        .map_err(Error::io("reading", &self.path))
    }

    fn entry(&self, name: &str) -> Result<&Entry, Error> {
        self.entries.get(name).ok_or_else(|| Error::Missing { path: self.path.clone(), name: name.to_string() })
    }

    /// Reads a tensor.
    pub fn read(&self, name: &str) -> Result<Literal, Error> {
        let entry = self.entry(name)?;
        // The header was checked against the file's length, so this is no more than there is.
        let mut bytes = zeroed_bytes(entry.size_bytes);
        self.file.read_exact_at(&mut bytes, entry.offset).map_err(Error::io("reading", &self.path))?;
        let literal = Literal::new(entry.dtype, entry.dims.clone(), bytes);
        literal.ok_or_else(|| Error::format(&self.path, format!("tensor `{name}` has another size")))
    }
}

/// Tensors share no bytes: else a small file could hold any number of large ones.
fn check_apart(entries: &BTreeMap<String, Entry>) -> Result<(), String> {
    let mut places: Vec<(u64, usize, &String)> = entries
        .iter()
        .filter(|(_, entry)| entry.size_bytes > 0)
        .map(|(name, entry)| (entry.offset, entry.size_bytes, name))
        .collect();
    places.sort_unstable();
    // Offsets and sizes lie within the file, as `entry` found.
    match places.windows(2).find(|pair| pair[0].0 + pair[0].1 as u64 > pair[1].0) {
        Some(pair) => Err(format!("tensors `{}` and `{}` share bytes", pair[0].2, pair[1].2)),
        None => Ok(()),
    }
}

fn entry(record: &str, data_start: u64, file_bytes: u64) -> Result<Entry, String> {
    if record.len() > MAX_RECORD_BYTES {
        return Err(format!("its description has {} bytes", record.len()));
    }
    let value: Value = serde_json::from_str(record).map_err(|error| error.to_string())?;
    let name = value.get("dtype").and_then(Value::as_str).ok_or("it has no dtype")?;
    let known = TYPES.iter().find(|(known, _)| *known == name);
    let (_, dtype) = known.ok_or_else(|| format!("its type {name} is not known"))?;
    let size = |value: &Value| usize::try_from(value.as_u64()?).ok();
    let list = |key: &str| value.get(key).and_then(Value::as_array);
    let dims: Option<Vec<usize>> = list("shape").ok_or("it has no shape")?.iter().map(size).collect();
    let dims = dims.ok_or("its shape is no list of sizes")?;
    if dims.len() > MAX_RANK {
        return Err(format!("it has {} dimensions; up to {MAX_RANK} are read", dims.len()));
    }
    let [start, end] = list("data_offsets").map(Vec::as_slice).ok_or("it has no offsets")? else {
        return Err("it needs two offsets".into());
    };
    let (start, end) = start.as_u64().zip(end.as_u64()).ok_or("its offsets are no numbers")?;
    let size_bytes = dims.iter().try_fold(dtype.size_bytes(), |bytes, &size| bytes.checked_mul(size));
    let size_bytes = size_bytes.ok_or("its shape is too large")?;
    if start > end || end - start != size_bytes as u64 {
        return Err(format!("its shape takes {size_bytes} bytes, its offsets are {start} and {end}"));
    }
    let offset = data_start.checked_add(start).ok_or("its offset is too large")?;
    if data_start.checked_add(end).is_none_or(|end| end > file_bytes) {
        return Err("the file ends before it".into());
    }
    Ok(Entry { dtype: *dtype, dims, offset, size_bytes })
}

/// A tensor as a header describes it. The tensors' bytes follow the header in this order, without gaps.
pub(crate) struct HeaderEntry<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: DType,
    pub(crate) dims: &'a [usize],
    pub(crate) size_bytes: u64,
}

/// Whether the format has this type.
pub(crate) fn has_type(dtype: DType) -> bool {
    TYPES.iter().any(|(_, known)| *known == dtype)
}

/// The beginning of a file: the length, and the header padded so that the tensors' bytes are aligned.
pub(crate) fn header<'a>(
    entries: impl IntoIterator<Item = HeaderEntry<'a>>,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, Error> {
    let mut header = Map::new();
    if !metadata.is_empty() {
        let notes: Map<String, Value> =
            metadata.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        header.insert(METADATA.into(), Value::Object(notes));
    }
    let mut offset = 0u64;
    for HeaderEntry { name, dtype, dims, size_bytes } in entries {
        let wrong = |message: String| Error::Tensor { name: name.to_string(), message };
        if name == METADATA {
            return Err(wrong("the name is taken by the format".into()));
        }
        let known = TYPES.iter().find(|(_, known)| *known == dtype);
        let (dtype, _) = known.ok_or_else(|| wrong(format!("the format has no type {dtype}")))?;
        let end = offset + size_bytes;
        let record = serde_json::json!({ "dtype": dtype, "shape": dims, "data_offsets": [offset, end] });
        header.insert(name.to_string(), record);
        offset = end;
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(ALIGN), b' ');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    Ok(bytes)
}

/// Writes tensors to a file: whole, or not at all.
pub fn write<'a>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a str, &'a Literal)>,
    metadata: &BTreeMap<String, String>,
) -> Result<(), Error> {
    // By name, so that equal contents give equal files.
    let tensors: BTreeMap<&str, &Literal> = tensors.into_iter().collect();
    let entries = tensors.iter().map(|(name, literal)| {
        let size_bytes = literal.bytes().len() as u64;
        HeaderEntry { name, dtype: literal.dtype(), dims: literal.dims(), size_bytes }
    });
    let header = header(entries, metadata)?;

    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let writing = || Error::io("writing", path);
    let mut file = unfinished_file(folder, ".tmp").map_err(writing())?;
    let mut put = |bytes: &[u8]| file.write_all(bytes);
    put(&header).map_err(writing())?;
    for literal in tensors.values() {
        put(literal.bytes()).map_err(writing())?;
    }
    file.as_file().sync_all().map_err(writing())?;
    file.persist(path).map_err(|error| Error::io("writing", path)(error.error))?;
    // The name is safe only when the folder is.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(writing())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(dtype: DType, dims: &[usize]) -> Literal {
        let mut literal = Literal::zeros(dtype, dims).unwrap();
        literal.bytes_mut().iter_mut().enumerate().for_each(|(n, byte)| *byte = n as u8 & 1);
        literal
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let tensors: Vec<(String, Literal)> =
            TYPES.iter().map(|(name, dtype)| (format!("t.{name}"), literal(*dtype, &[3, 2]))).collect();
        let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
        write(&path, tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)), &metadata).unwrap();
        let file = SafeTensors::open(&path).unwrap();
        assert_eq!(file.metadata(), &metadata);
        assert_eq!(file.entries().len(), tensors.len());
        for (name, tensor) in &tensors {
            assert_eq!(&file.read(name).unwrap(), tensor, "{name}");
        }
        assert!(matches!(file.read("none"), Err(Error::Missing { .. })));
        // Nothing else is left in the folder.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn damaged_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let check = |header: &str, data: &[u8], expected: &str| {
            let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
            bytes.extend(header.as_bytes());
            bytes.extend(data);
            std::fs::write(&path, bytes).unwrap();
            let error = SafeTensors::open(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{header}: {error}");
        };
        let tensor = |shape: &str, offsets: &str| {
            format!(r#"{{"t":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#)
        };
        check("[]", b"", "no JSON object");
        check("{", b"", "EOF");
        check(&tensor("[2]", "[0,8]"), b"1234", "ends before");
        check(&tensor("[2]", "[0,4]"), b"12345678", "takes 8 bytes");
        check(&tensor("[-1]", "[0,4]"), b"", "no list of sizes");
        check(&tensor("[18446744073709551615,8]", "[0,4]"), b"", "too large");
        check(&tensor("[0]", "[18446744073709551615,18446744073709551615]"), b"", "too large");
        check(&tensor(&format!("[{}1]", "1,".repeat(64)), "[0,4]"), b"1234", "65 dimensions");
        check(&tensor(&format!("[{}1]", "1,".repeat(40_000)), "[0,4]"), b"1234", "description has");
        check(&"{\"a\":".repeat(100_000), b"", "EOF");
        check(&format!(r#"{{"t":{}{}}}"#, "[".repeat(30_000), "]".repeat(30_000)), b"", "recursion limit");
        check(&format!(r#"{{"t":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000)), b"", "description has");
        check(r#"{"__metadata__":{"a":{}}}"#, b"", "not text");
        let two = |second: &str| {
            format!(
                r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}},"b":{{"dtype":"U8","shape":[4],"data_offsets":{second}}}}}"#
            )
        };
        check(&two("[0,4]"), b"12345678", "`a` and `b` share bytes");
        check(&two("[3,7]"), b"12345678", "`a` and `b` share bytes");
        check(r#"{"t":{"dtype":"F99","shape":[],"data_offsets":[0,4]}}"#, b"", "not known");
        for length in [u64::MAX, 1 << 63, i64::MAX as u64, MAX_HEADER_BYTES + 1, 9] {
            std::fs::write(&path, [length.to_le_bytes(), *b"{}      "].concat()).unwrap();
            assert!(SafeTensors::open(&path).unwrap_err().to_string().contains("header would be"));
        }
        std::fs::write(&path, b"abc").unwrap();
        assert!(SafeTensors::open(&path).unwrap_err().to_string().contains("shorter"));
    }

    #[test]
    fn a_failed_write_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        write(&path, [("a", &literal(DType::F32, &[2]))], &BTreeMap::new()).unwrap();
        let before = std::fs::read(&path).unwrap();
        let packed = literal(DType::I4, &[2]);
        assert!(matches!(write(&path, [("a", &packed)], &BTreeMap::new()), Err(Error::Tensor { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert!(matches!(write(&folder.path().join("none/m"), [], &BTreeMap::new()), Err(Error::Io { .. })));
    }
}
