//! What every quantized format of safetensors files does: find its matrices, say how they are quantized, read one.

use std::fmt::Debug;
use std::path::Path;

use tensor::{DType, Literal};

use crate::error::Error;
use crate::folder::SafeTensorsFolder;
use crate::quant::codebook::CodebookMatrix;
use crate::quant::matrix::{PackedMatrix, PackedSpec, ScaleBlock};
use crate::quant::refusal::Refusal;
use crate::safetensors::Entry;

/// Most bytes of a tensor that only describes another.
const MAX_DESCRIPTION_BYTES: usize = 64 << 20;

/// A format with the settings of one model.
pub(crate) trait Format: Debug + Send + Sync {
    /// In words, with the settings: `GPTQ, 4 bits, groups of 128`.
    fn describe(&self) -> String;

    /// The quantized matrices of a model.
    fn modules(&self, files: &SafeTensorsFolder) -> Result<Vec<Module>, Failure>;

    /// The shape of a matrix and how it is quantized, with its values left in the file.
    fn spec(&self, parts: &Parts<'_>) -> Result<WeightSpec, Failure>;

    /// A matrix.
    fn read(&self, parts: &Parts<'_>) -> Result<QuantizedWeight, Failure>;
}

/// A quantized matrix of a model, by names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// The parameter of the dense model: `model.layers.0.mlp.up_proj.weight`.
    pub(crate) dense: String,
    /// What the names of its tensors begin with: `model.layers.0.mlp.up_proj`.
    pub(crate) module: String,
    /// The tensors it is made of.
    pub(crate) tensors: Vec<String>,
}

impl Module {
    /// The matrices whose codes have names that end in a suffix; of the parts those count that are there.
    pub(crate) fn all_with(files: &SafeTensorsFolder, codes: &str, parts: &[&str]) -> Vec<Module> {
        let modules = files.entries().filter_map(|(name, _)| name.strip_suffix(codes)?.strip_suffix('.'));
        modules.map(|module| Module::of(files, module, codes, parts)).collect()
    }

    /// A matrix with the parts that are there.
    pub(crate) fn of(files: &SafeTensorsFolder, module: &str, codes: &str, parts: &[&str]) -> Module {
        let named = [codes].into_iter().chain(parts.iter().copied()).map(|part| format!("{module}.{part}"));
        let tensors = named.filter(|name| files.entry(name).is_some()).collect();
        Module { dense: format!("{module}.weight"), module: module.to_string(), tensors }
    }
}

/// The shape of a weight and how it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightSpec {
    /// Sizes of the dense weight; a matrix is `[out_features, in_features]`.
    pub dims: Vec<usize>,
    /// How it is kept.
    pub storage: Storage,
}

/// How a weight is kept in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// As it is.
    Dense(DType),
    /// As codes with scales.
    Packed(PackedSpec),
    /// As indices of vectors.
    Codebook {
        /// Elements of a vector.
        vector: usize,
        /// Entries of each codebook.
        entries: usize,
        /// Codebooks whose vectors are added.
        codebooks: usize,
    },
}

/// A weight as its file keeps it.
#[derive(Clone, Debug, PartialEq)]
pub enum QuantizedWeight {
    /// As it is.
    Dense(Literal),
    /// As codes with scales.
    Packed(PackedMatrix),
    /// As indices of vectors.
    Codebook(CodebookMatrix),
}

impl QuantizedWeight {
    /// All elements in a float type: a dense weight in its own type, others rounded once to the type asked for.
    pub fn into_literal(self, dtype: DType) -> Result<Literal, Error> {
        match self {
            QuantizedWeight::Dense(literal) => Ok(literal),
            QuantizedWeight::Packed(matrix) => matrix.to_literal(dtype),
            QuantizedWeight::Codebook(matrix) => matrix.to_literal(dtype),
        }
    }
}

/// Why a matrix cannot be read.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It is not what its format says.
    Refused(Refusal),
    /// The file.
    File(Error),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::Refused(refusal)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::File(error)
    }
}

impl Failure {
    pub(crate) fn of_tensor(self, path: &Path, name: &str) -> Error {
        match self {
            Failure::Refused(refusal) => refusal.of_tensor(path, name),
            Failure::File(error) => error,
        }
    }
}

/// The tensors of one matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) files: &'a SafeTensorsFolder,
    pub(crate) module: &'a Module,
}

impl Parts<'_> {
    fn name(&self, part: &str) -> String {
        format!("{}.{part}", self.module.module)
    }

    pub(crate) fn has(&self, part: &str) -> bool {
        self.files.entry(&self.name(part)).is_some()
    }

    /// Type and shape of a part.
    pub(crate) fn entry(&self, part: &str) -> Result<&Entry, Refusal> {
        self.files.entry(&self.name(part)).ok_or_else(|| {
            Refusal::new(
                format!("its `{part}` is missing"),
                "copy all files of the model; where the tool left it out, quantize the model again",
            )
        })
    }

    /// Type and shape of a part that is a matrix.
    pub(crate) fn matrix(&self, part: &str, types: &[DType]) -> Result<(DType, usize, usize), Refusal> {
        let entry = self.entry(part)?;
        match entry.dims.as_slice() {
            _ if !types.contains(&entry.dtype) => Err(wrong_type(part, entry, types)),
            [rows, columns] => Ok((entry.dtype, *rows, *columns)),
            dims => Err(Refusal::damaged(format!("its `{part}` has the shape {dims:?}, which is no matrix"))),
        }
    }

    /// A part, of one of some types and of a shape.
    pub(crate) fn read(&self, part: &str, types: &[DType], dims: &[usize]) -> Result<Literal, Failure> {
        let entry = self.entry(part)?;
        if !types.contains(&entry.dtype) {
            return Err(wrong_type(part, entry, types).into());
        }
        if entry.dims != dims {
            return Err(wrong_shape(part, &entry.dims, dims).into());
        }
        Ok(self.files.read(&self.name(part))?)
    }

    /// A part as `f32`, whatever float it is; its shape is not looked at, only its size.
    pub(crate) fn floats(&self, part: &str, count: usize) -> Result<Vec<f32>, Failure> {
        let entry = self.entry(part)?;
        if !entry.dtype.is_float() {
            return Err(wrong_type(part, entry, &[DType::F32, DType::F16, DType::BF16]).into());
        }
        if entry.dims.iter().try_fold(1usize, |all, size| all.checked_mul(*size)) != Some(count) {
            let message = format!("its `{part}` has the shape {:?}, not {count} values", entry.dims);
            return Err(Refusal::damaged(message).into());
        }
        floats(self.files.read(&self.name(part))?)
    }

    /// A part of integers of 32 or 64 bits that describes another.
    pub(crate) fn integers(&self, part: &str) -> Result<Vec<i64>, Failure> {
        let entry = self.entry(part)?;
        let size_bytes = entry.dims.iter().try_fold(8usize, |bytes, size| bytes.checked_mul(*size));
        if size_bytes.is_none_or(|bytes| bytes > MAX_DESCRIPTION_BYTES) {
            return Err(Refusal::damaged(format!("its `{part}` has the shape {:?}", entry.dims)).into());
        }
        let bytes = match entry.dtype {
            DType::I32 | DType::I64 => self.files.read(&self.name(part))?,
            _ => return Err(wrong_type(part, entry, &[DType::I32, DType::I64]).into()),
        };
        Ok(match bytes.dtype() {
            DType::I32 => {
                bytes.bytes().as_chunks::<4>().0.iter().map(|chunk| i32::from_le_bytes(*chunk).into()).collect()
            }
            _ => bytes.bytes().as_chunks::<8>().0.iter().map(|chunk| i64::from_le_bytes(*chunk)).collect(),
        })
    }

    /// The group of each input by a part, where the position does not tell it; `None` where it does.
    pub(crate) fn input_groups(
        &self,
        part: &str,
        in_features: usize,
        size: usize,
    ) -> Result<Option<Vec<u32>>, Failure> {
        if !self.has(part) {
            return Ok(None);
        }
        let numbers = self.integers(part)?;
        if numbers.len() != in_features {
            return Err(wrong_shape(part, &[numbers.len()], &[in_features]).into());
        }
        // A part of -1 says that there is none.
        if numbers.iter().all(|number| *number == -1) {
            return Ok(None);
        }
        let groups = in_features.div_ceil(size);
        let mut group_of = Vec::with_capacity(in_features);
        for (input, number) in numbers.into_iter().enumerate() {
            match u32::try_from(number) {
                Ok(group) if (group as usize) < groups => group_of.push(group),
                _ => {
                    let message = format!("its `{part}` puts input {input} into group {number}; there are {groups}");
                    return Err(Refusal::damaged(message).into());
                }
            }
        }
        let is_plain = group_of.iter().enumerate().all(|(input, group)| input / size == *group as usize);
        Ok((!is_plain).then_some(group_of))
    }
}

/// The values of a float tensor.
pub(crate) fn floats(literal: Literal) -> Result<Vec<f32>, Failure> {
    let values = literal.cast(DType::F32).and_then(|literal| literal.to_vec::<f32>());
    values.map_err(|error| Refusal::damaged(error.to_string()).into())
}

fn wrong_type(part: &str, entry: &Entry, types: &[DType]) -> Refusal {
    let known: Vec<String> = types.iter().map(ToString::to_string).collect();
    Refusal::damaged(format!("its `{part}` has the type {}, not {}", entry.dtype, known.join(" or ")))
}

pub(crate) fn wrong_shape(part: &str, found: &[usize], expected: &[usize]) -> Refusal {
    Refusal::damaged(format!("its `{part}` has the shape {found:?}, not {expected:?}"))
}

/// Groups of a size along the inputs; all inputs where the size is -1.
pub(crate) fn group_block(group_size: Option<usize>, in_features: usize) -> Result<ScaleBlock, Refusal> {
    let size = group_size.unwrap_or(in_features);
    if size == 0 || !in_features.is_multiple_of(size) {
        return Err(Refusal::new(
            format!("{in_features} inputs are not divided by groups of {size}"),
            "quantize the model with a group size that divides its inputs",
        ));
    }
    Ok(ScaleBlock { out_features: 1, in_features: size })
}
