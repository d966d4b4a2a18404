//! Where the tensors of a model come from: files, or values in memory in front of them.

use std::collections::BTreeMap;

use tensor::{DType, Literal};
use weights::TensorRegion;
use weights::quant::QuantizedFolder;

use crate::error::Error;

/// Dense tensors by the names of Hugging Face files.
pub trait TensorSource: Sync {
    /// The names.
    fn names(&self) -> Vec<String>;

    /// Whether there is a tensor of a name.
    fn contains(&self, name: &str) -> bool;

    /// The axes of a tensor.
    fn dims(&self, name: &str) -> Result<Vec<usize>, Error>;

    /// A tensor; one that is quantized comes in the type asked for, others in their own.
    fn read(&self, name: &str, dtype: DType) -> Result<Literal, Error>;

    /// The type of a tensor of which parts can be read at no more than their cost; `None` where all of it is read for any part.
    fn dtype_of_parts(&self, _: &str) -> Option<DType> {
        None
    }

    /// The part of a tensor of which parts can be read (see [`dtype_of_parts`](Self::dtype_of_parts)), into memory of as many bytes.
    fn read_region_into(&self, name: &str, region: &TensorRegion, dtype: DType, bytes: &mut [u8]) -> Result<(), Error> {
        let part = self.read_region(name, region, dtype)?;
        if part.bytes().len() != bytes.len() {
            return Err(Error::config(format!("`{name}` has no part {region:?} of {} bytes", bytes.len())));
        }
        bytes.copy_from_slice(part.bytes());
        Ok(())
    }

    /// The part of a tensor that lies in a region, in the type that [`read`](Self::read) gives.
    fn read_region(&self, name: &str, region: &TensorRegion, dtype: DType) -> Result<Literal, Error> {
        cut(name, self.read(name, dtype)?, region)
    }
}

fn cut(name: &str, whole: Literal, region: &TensorRegion) -> Result<Literal, Error> {
    if whole.dims() == region.size {
        return Ok(whole);
    }
    region.cut(&whole).ok_or_else(|| Error::config(format!("`{name}` has no part {region:?}")))
}

impl TensorSource for QuantizedFolder {
    fn names(&self) -> Vec<String> {
        QuantizedFolder::names(self).map(str::to_string).collect()
    }

    fn contains(&self, name: &str) -> bool {
        QuantizedFolder::contains(self, name)
    }

    fn dims(&self, name: &str) -> Result<Vec<usize>, Error> {
        Ok(self.spec(name)?.dims)
    }

    fn read(&self, name: &str, dtype: DType) -> Result<Literal, Error> {
        Ok(QuantizedFolder::read(self, name)?.into_literal(dtype)?)
    }

    fn dtype_of_parts(&self, name: &str) -> Option<DType> {
        self.dense_dtype(name)
    }

    fn read_region(&self, name: &str, region: &TensorRegion, dtype: DType) -> Result<Literal, Error> {
        match self.read_dense_region(name, region)? {
            Some(part) => Ok(part),
            None => cut(name, TensorSource::read(self, name, dtype)?, region),
        }
    }

    fn read_region_into(&self, name: &str, region: &TensorRegion, _: DType, bytes: &mut [u8]) -> Result<(), Error> {
        Ok(self.read_dense_region_into(name, region, bytes)?)
    }
}

impl TensorSource for BTreeMap<String, Literal> {
    fn names(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }

    fn contains(&self, name: &str) -> bool {
        self.contains_key(name)
    }

    fn dims(&self, name: &str) -> Result<Vec<usize>, Error> {
        self.get(name).map(|literal| literal.dims().to_vec()).ok_or_else(|| missing(name))
    }

    fn read(&self, name: &str, _: DType) -> Result<Literal, Error> {
        self.get(name).cloned().ok_or_else(|| missing(name))
    }
}

fn missing(name: &str) -> Error {
    Error::Tensors { missing: vec![name.to_string()], unexpected: Vec::new(), mismatched: Vec::new() }
}
