//! Arrays of NumPy's archives (`.npz`) as examples: the first axis of every array is that of the examples.

use std::path::PathBuf;
use std::sync::Arc;

use tensor::{DType, Literal, Spec};

use super::Dataset;
use super::error::DataError;
use super::fingerprint::fingerprint_of_files;
use super::order::{Batching, Order, Shard, Shuffle, Split};
use super::tokens::wrong_size;

/// The arrays of some files, one after the other, in memory once for training and validation.
#[derive(Clone, Debug)]
pub struct ArrayFiles {
    paths: Vec<PathBuf>,
    arrays: Arc<Vec<NamedArray>>,
    examples: usize,
}

#[derive(Debug)]
struct NamedArray {
    name: String,
    dtype: DType,
    /// Sizes of an example.
    dims: Vec<usize>,
    bytes: Vec<u8>,
}

impl NamedArray {
    fn example_bytes(&self) -> usize {
        self.dims.iter().fold(self.dtype.size_bytes(), |bytes, size| bytes.saturating_mul(*size))
    }
}

impl ArrayFiles {
    /// Reads files. All of them have arrays of the same names, types and shapes but for the first axis.
    pub fn open(paths: &[PathBuf]) -> Result<ArrayFiles, DataError> {
        let mut arrays: Vec<NamedArray> = Vec::new();
        let mut examples = 0;
        for path in paths {
            let wrong = |message: String| DataError::format(path, message);
            let mut found = weights::read_npz(path).map_err(|error| match error {
                weights::Error::Io { doing, path, source } => DataError::Io { doing, path, source },
                weights::Error::Format { path, message } => DataError::Format { path, message },
                other => DataError::format(path, other.to_string()),
            })?;
            found.sort_by(|a, b| a.0.cmp(&b.0));
            let rows = found.first().and_then(|(_, array)| array.dims().first().copied());
            let rows = rows.ok_or_else(|| wrong("it has no arrays of examples".into()))?;
            if let Some((name, _)) = found.iter().find(|(_, array)| array.dims().first() != Some(&rows)) {
                return Err(wrong(format!("`{name}` has not {rows} examples along its first axis, as others have")));
            }
            if arrays.is_empty() {
                arrays = found
                    .iter()
                    .map(|(name, array)| NamedArray {
                        name: name.clone(),
                        dtype: array.dtype(),
                        dims: array.dims()[1..].to_vec(),
                        bytes: Vec::new(),
                    })
                    .collect();
            }
            let is_alike = arrays.len() == found.len()
                && arrays.iter().zip(&found).all(|(have, (name, array))| {
                    have.name == *name && have.dtype == array.dtype() && have.dims == array.dims()[1..]
                });
            if !is_alike {
                return Err(wrong(
                    "its arrays differ from those of the files before it in names, types or shapes".into(),
                ));
            }
            for (have, (_, array)) in arrays.iter_mut().zip(found) {
                have.bytes.extend_from_slice(array.bytes());
            }
            examples += rows;
        }
        if arrays.is_empty() {
            return Err(DataError::Options("no file of arrays is named".into()));
        }
        Ok(ArrayFiles { paths: paths.to_vec(), arrays: Arc::new(arrays), examples })
    }

    /// Names of the arrays, in the order of batches.
    pub fn names(&self) -> Vec<String> {
        self.arrays.iter().map(|array| array.name.clone()).collect()
    }

    /// Batches of a part of the examples.
    pub fn dataset(&self, split: Split, batching: Batching, shuffle: Shuffle) -> Result<ArrayDataset, DataError> {
        let row_bytes = self.arrays.iter().map(NamedArray::example_bytes).try_fold(0usize, usize::checked_add);
        let rows = batching.rows(row_bytes)?;
        let what = match self.paths.as_slice() {
            [one] => format!("examples in {}", one.display()),
            several => format!("examples in {} files", several.len()),
        };
        let order = Order::new(self.examples as u64, split, batching, &what)?.with_shuffle(shuffle);
        Ok(ArrayDataset { files: self.clone(), rows, batching, order })
    }
}

/// Batches of arrays, each `[batch, …]` in the type of its file.
#[derive(Debug)]
pub struct ArrayDataset {
    files: ArrayFiles,
    rows: usize,
    batching: Batching,
    order: Order,
}

impl Dataset for ArrayDataset {
    fn specs(&self) -> Vec<Spec> {
        let spec = |array: &NamedArray| Spec::new(array.dtype, [&[self.rows][..], &array.dims].concat());
        self.files.arrays.iter().map(spec).collect()
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        Some(self.order.batches_per_epoch())
    }

    fn batch(&self, step: u64) -> Result<Vec<Literal>, DataError> {
        self.rows(step, self.batching.shard)
    }

    fn rows(&self, step: u64, shard: Shard) -> Result<Vec<Literal>, DataError> {
        let examples: Vec<u64> = self.order.examples(step, shard).collect();
        let rows_of = |array: &NamedArray| {
            let size = array.example_bytes();
            let mut bytes = Vec::with_capacity(size.saturating_mul(examples.len()));
            for example in &examples {
                let start = usize::try_from(*example).ok()?.checked_mul(size)?;
                bytes.extend_from_slice(array.bytes.get(start..start.checked_add(size)?)?);
            }
            Literal::new(array.dtype, [&[examples.len()][..], &array.dims].concat(), bytes)
        };
        self.files.arrays.iter().map(|array| rows_of(array).ok_or_else(wrong_size)).collect()
    }

    fn describe(&self) -> String {
        let names = self.files.paths.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy());
        let arrays = self.files.arrays.iter().map(|array| format!("{} {}{:?}", array.name, array.dtype, array.dims));
        let (names, arrays): (Vec<_>, Vec<_>) = (names.collect(), arrays.collect());
        format!("arrays [{}] of [{}], {}", arrays.join(", "), names.join(", "), self.order.describe())
    }

    fn fingerprint(&self) -> Result<Option<String>, DataError> {
        fingerprint_of_files(&self.files.paths).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn file(folder: &std::path::Path, name: &str, first: i32, rows: usize) -> PathBuf {
        let path = folder.join(name);
        let labels: Vec<i32> = (first..first + rows as i32).collect();
        let images: Vec<f32> = labels.iter().flat_map(|n| [*n as f32, *n as f32 + 0.5]).collect();
        let arrays = BTreeMap::from([
            ("labels".to_string(), Literal::from_slice(&labels, [rows]).unwrap()),
            ("images".to_string(), Literal::from_slice(&images, [rows, 2]).unwrap()),
        ]);
        weights::write_npz(&path, &arrays).unwrap();
        path
    }

    #[test]
    fn rows_of_all_arrays_belong_together() {
        let folder = tempfile::tempdir().unwrap();
        let files =
            ArrayFiles::open(&[file(folder.path(), "a.npz", 0, 5), file(folder.path(), "b.npz", 5, 7)]).unwrap();
        assert_eq!(files.names(), ["images", "labels"]);
        let dataset = files.dataset(Split::All, Batching::new(4, 1), Shuffle::EachEpoch).unwrap();
        assert_eq!(dataset.specs(), [Spec::new(DType::F32, [4, 2]), Spec::new(DType::I32, [4])]);
        let mut seen = Vec::new();
        for step in 0..3 {
            let batch = dataset.batch(step).unwrap();
            let (images, labels) = (batch[0].to_vec::<f32>().unwrap(), batch[1].to_vec::<i32>().unwrap());
            for (n, label) in labels.iter().enumerate() {
                assert_eq!(images[2 * n..2 * n + 2], [*label as f32, *label as f32 + 0.5]);
            }
            let half = dataset.rows(step, Shard { index: 1, count: 2 }).unwrap();
            assert_eq!(half[1].to_vec::<i32>().unwrap(), labels[2..]);
            seen.extend(labels);
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..12));
        let parts = [Split::Train { validation_fraction: 0.25 }, Split::Validation { validation_fraction: 0.25 }];
        let count = |split| files.dataset(split, Batching::new(1, 0), Shuffle::EachEpoch).unwrap().batches_per_epoch();
        assert_eq!(parts.map(count), [Some(9), Some(3)]);
        let as_they_are = files.dataset(Split::All, Batching::new(4, 1), Shuffle::Never).unwrap();
        for (step, first) in [(0, 0), (2, 8), (3, 0)] {
            assert!(as_they_are.batch(step).unwrap()[1].to_vec::<i32>().unwrap().into_iter().eq(first..first + 4));
        }
    }

    #[test]
    fn arrays_that_do_not_belong_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = |paths: &[PathBuf]| ArrayFiles::open(paths).unwrap_err().to_string();
        let whole = file(folder.path(), "a.npz", 0, 5);
        let other = folder.path().join("other.npz");
        let write = |arrays: &[(&str, Literal)]| {
            let arrays = arrays.iter().map(|(name, array)| (name.to_string(), array.clone())).collect();
            weights::write_npz(&other, &arrays).unwrap();
        };
        write(&[("images", Literal::from([[1.0f32]]))]);
        assert!(error(&[whole.clone(), other.clone()]).contains("differ"));
        write(&[("a", Literal::from([1.0f32])), ("b", Literal::from([1.0f32, 2.0]))]);
        assert!(error(std::slice::from_ref(&other)).contains("`b` has not 1 examples"));
        write(&[("a", Literal::from(1.0f32))]);
        assert!(error(std::slice::from_ref(&other)).contains("no arrays of examples"));
        std::fs::write(&other, b"PK nothing").unwrap();
        assert!(ArrayFiles::open(&[other]).is_err() && ArrayFiles::open(&[]).is_err());
        let few =
            ArrayFiles::open(&[whole]).unwrap().dataset(Split::All, Batching::new(8, 0), Shuffle::Never).unwrap_err();
        assert!(few.to_string().contains('8'), "{few}");
    }
}
