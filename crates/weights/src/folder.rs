//! A model in a folder as Hugging Face lays it out: one `model.safetensors`, or several files and an index of their tensors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tensor::{DType, Literal};

use crate::error::Error;
use crate::region::TensorRegion;
use crate::safetensors::{Entry, SafeTensors};
use crate::store::is_plain_name;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Longest index that is read.
const MAX_INDEX_BYTES: u64 = 100 << 20;

/// A model in one or several safetensors files, read as one. Tensors are read one by one when they are asked for.
#[derive(Debug)]
pub struct SafeTensorsFolder {
    path: PathBuf,
    files: Vec<SafeTensors>,
    /// Tensors by name, with the number of their file.
    tensors: BTreeMap<String, usize>,
}

impl SafeTensorsFolder {
    /// Opens a folder, an index, or a single safetensors file, and reads the headers.
    pub fn open(path: &Path) -> Result<SafeTensorsFolder, Error> {
        if path.is_dir() {
            let index = path.join(INDEX);
            return if index.exists() { Self::indexed(&index) } else { Self::single(&path.join(SINGLE)) };
        }
        if path.extension().is_some_and(|ending| ending == "json") { Self::indexed(path) } else { Self::single(path) }
    }

    fn single(path: &Path) -> Result<SafeTensorsFolder, Error> {
        let file = SafeTensors::open(path)?;
        let tensors = file.entries().keys().map(|name| (name.clone(), 0)).collect();
        Ok(SafeTensorsFolder { path: path.to_path_buf(), files: vec![file], tensors })
    }

    fn indexed(index: &Path) -> Result<SafeTensorsFolder, Error> {
        let wrong = |message: String| Error::format(index, message);
        let size_bytes = std::fs::metadata(index).map_err(Error::io("opening", index))?.len();
        if size_bytes > MAX_INDEX_BYTES {
            return Err(wrong(format!("an index of {size_bytes} bytes is not read")));
        }
        let text = std::fs::read(index).map_err(Error::io("reading", index))?;
        let contents: Value = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let map = contents.get("weight_map").and_then(Value::as_object);
        let map = map.ok_or_else(|| wrong("it has no `weight_map`".into()))?;
        let folder = index.parent().unwrap_or(Path::new("."));
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut files: Vec<SafeTensors> = Vec::new();
        let mut tensors = BTreeMap::new();
        for (name, file) in map {
            let file = file.as_str().ok_or_else(|| wrong(format!("tensor `{name}` is in no file")))?;
            // Files lie beside their index; anything else is an attempt to read another file.
            if !is_plain_name(file) || file.contains('/') {
                return Err(wrong(format!("tensor `{name}` would be in `{file}`, which is no file of this folder")));
            }
            let number = match numbers.get(file) {
                Some(number) => *number,
                None => {
                    files.push(SafeTensors::open(&folder.join(file))?);
                    numbers.insert(file, files.len() - 1);
                    files.len() - 1
                }
            };
            if !files[number].entries().contains_key(name) {
                return Err(wrong(format!("tensor `{name}` would be in `{file}`, which does not have it")));
            }
            tensors.insert(name.clone(), number);
        }
        Ok(SafeTensorsFolder { path: index.to_path_buf(), files, tensors })
    }

    /// Tensors by name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.tensors
            .iter()
            .filter_map(|(name, file)| Some((name.as_str(), self.files.get(*file)?.entries().get(name)?)))
    }

    /// Type and shape of a tensor.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.files.get(*self.tensors.get(name)?)?.entries().get(name)
    }

    /// Reads a tensor.
    pub fn read(&self, name: &str) -> Result<Literal, Error> {
        self.file(name)?.read(name)
    }

    /// Reads a part of a tensor, and no more from the file than that part.
    pub fn read_region(&self, name: &str, region: &TensorRegion) -> Result<Literal, Error> {
        self.file(name)?.read_region(name, region)
    }

    /// Reads a part of a tensor into memory of as many bytes.
    pub fn read_region_into(&self, name: &str, region: &TensorRegion, bytes: &mut [u8]) -> Result<(), Error> {
        self.file(name)?.read_region_into(name, region, bytes)
    }

    /// Reads a tensor, converted when it is a float of another type.
    pub fn read_as(&self, name: &str, dtype: DType) -> Result<Literal, Error> {
        let literal = self.read(name)?;
        let from = literal.dtype();
        literal.cast(dtype).map_err(|_| Error::Cast { name: name.to_string(), from, to: dtype })
    }

    fn file(&self, name: &str) -> Result<&SafeTensors, Error> {
        let file = self.tensors.get(name).and_then(|file| self.files.get(*file));
        file.ok_or_else(|| Error::Missing { path: self.path.clone(), name: name.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safetensors::write;

    fn counting(dims: &[usize]) -> Literal {
        let count = dims.iter().product::<usize>();
        let bytes = (0..count).flat_map(|n| (n as f32).to_le_bytes()).collect();
        Literal::new(DType::F32, dims, bytes).unwrap()
    }

    fn folder_with_index(index: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, name) in
            [("model-00001-of-00002.safetensors", "a.weight"), ("model-00002-of-00002.safetensors", "b.weight")]
        {
            write(&folder.path().join(file), [(name, &counting(&[4, 3]))], &BTreeMap::new()).unwrap();
        }
        std::fs::write(folder.path().join(INDEX), index).unwrap();
        folder
    }

    #[test]
    fn several_files_are_read_as_one() {
        let index = r#"{"metadata":{"total_size":96},"weight_map":{"a.weight":"model-00001-of-00002.safetensors","b.weight":"model-00002-of-00002.safetensors"}}"#;
        let folder = folder_with_index(index);
        for path in [folder.path().to_path_buf(), folder.path().join(INDEX)] {
            let model = SafeTensorsFolder::open(&path).unwrap();
            let names: Vec<&str> = model.entries().map(|(name, _)| name).collect();
            assert_eq!(names, ["a.weight", "b.weight"]);
            assert_eq!(model.read("b.weight").unwrap(), counting(&[4, 3]));
            let part = TensorRegion { start: vec![1, 1], size: vec![2, 2] };
            let values: Vec<u8> = [4f32, 5., 7., 8.].iter().flat_map(|value| value.to_le_bytes()).collect();
            assert_eq!(model.read_region("a.weight", &part).unwrap().bytes(), values);
            let outside = TensorRegion { start: vec![3, 0], size: vec![2, 3] };
            assert!(matches!(model.read_region("a.weight", &outside), Err(Error::OutOfRange { .. })));
            assert_eq!(model.read_as("a.weight", DType::BF16).unwrap().dtype(), DType::BF16);
            assert!(matches!(model.read_as("a.weight", DType::I32), Err(Error::Cast { .. })));
            assert!(matches!(model.read("c"), Err(Error::Missing { .. })));
        }
        let single = SafeTensorsFolder::open(&folder.path().join("model-00001-of-00002.safetensors")).unwrap();
        assert_eq!(single.entries().count(), 1);
    }

    #[test]
    fn hostile_indexes_are_refused() {
        let check = |index: &str, expected: &str| {
            let folder = folder_with_index(index);
            let error = SafeTensorsFolder::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{index}: {error}");
        };
        check("{", "EOF");
        check("{}", "weight_map");
        check(r#"{"weight_map":{"a.weight":7}}"#, "in no file");
        check(r#"{"weight_map":{"a.weight":"../../etc/passwd"}}"#, "no file of this folder");
        check(r#"{"weight_map":{"a.weight":"/etc/passwd"}}"#, "no file of this folder");
        check(r#"{"weight_map":{"a.weight":"sub/x.safetensors"}}"#, "no file of this folder");
        check(r#"{"weight_map":{"c":"model-00001-of-00002.safetensors"}}"#, "does not have it");
        check(r#"{"weight_map":{"c":"none.safetensors"}}"#, "opening");
    }
}
