//! AQLM checkpoints: blocks of a matrix as sums of vectors out of additive codebooks.

use tensor::DType;

use crate::folder::SafeTensorsFolder;
use crate::quant::codebook::{Codebook, CodebookMatrix};
use crate::quant::format::{Failure, Format, Module, Parts, QuantizedWeight, Storage, WeightSpec};
use crate::quant::refusal::Refusal;
use crate::quant::settings::Settings;

const FLOATS: &[DType] = &[DType::F16, DType::BF16, DType::F32];

/// The settings of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aqlm {
    vector: (usize, usize),
    codebooks: usize,
    bits: u32,
}

struct Shape {
    row_blocks: usize,
    column_blocks: usize,
    out_features: usize,
    in_features: usize,
    dense: DType,
}

impl Aqlm {
    pub(crate) fn parse(settings: &Settings<'_>) -> Result<Aqlm, Refusal> {
        let count = |key: &str| {
            let missing = || Refusal::new(format!("`{key}` is missing"), "take the configuration that AQLM wrote");
            settings.count(key)?.ok_or_else(missing)
        };
        let bits = settings.bits("nbits_per_codebook", &(1..=16).collect::<Vec<_>>())?;
        Ok(Aqlm {
            vector: (count("out_group_size")?, count("in_group_size")?),
            codebooks: count("num_codebooks")?,
            bits,
        })
    }

    fn shape(&self, parts: &Parts<'_>) -> Result<Shape, Refusal> {
        let entry = parts.entry("codes")?;
        let [row_blocks, column_blocks, count] = entry.dims[..] else {
            return Err(Refusal::damaged(format!("its `codes` have the shape {:?}", entry.dims)));
        };
        let kind = if self.bits <= 8 { DType::I8 } else { DType::I16 };
        if count != self.codebooks || entry.dtype != kind {
            let message =
                format!("its `codes` are {} with {count} codebooks, not {kind} with {}", entry.dtype, self.codebooks);
            return Err(Refusal::damaged(message));
        }
        let size = |blocks: usize, of: usize| blocks.checked_mul(of).filter(|size| *size > 0);
        let sizes = size(row_blocks, self.vector.0).zip(size(column_blocks, self.vector.1));
        let (out_features, in_features) = sizes.ok_or_else(|| Refusal::damaged("it has no elements"))?;
        let books = parts.entry("codebooks")?;
        let expected = [self.codebooks, 1 << self.bits, self.vector.0, self.vector.1];
        if books.dims != expected || !FLOATS.contains(&books.dtype) {
            let message =
                format!("its `codebooks` are {} of the shape {:?}, not {expected:?}", books.dtype, books.dims);
            return Err(Refusal::damaged(message));
        }
        Ok(Shape { row_blocks, column_blocks, out_features, in_features, dense: books.dtype })
    }
}

impl Format for Aqlm {
    fn describe(&self) -> String {
        format!(
            "AQLM, {} codebooks of {} bits, vectors of {}x{}",
            self.codebooks, self.bits, self.vector.0, self.vector.1
        )
    }

    fn modules(&self, files: &SafeTensorsFolder) -> Result<Vec<Module>, Failure> {
        Ok(Module::all_with(files, "codes", &["codebooks", "scales"]))
    }

    fn spec(&self, parts: &Parts<'_>) -> Result<WeightSpec, Failure> {
        let shape = self.shape(parts)?;
        let (vector, entries) = (self.vector.0 * self.vector.1, 1 << self.bits);
        let storage = Storage::Codebook { vector, entries, codebooks: self.codebooks };
        Ok(WeightSpec { dims: vec![shape.out_features, shape.in_features], storage })
    }

    fn read(&self, parts: &Parts<'_>) -> Result<QuantizedWeight, Failure> {
        let shape = self.shape(parts)?;
        let dims = [shape.row_blocks, shape.column_blocks, self.codebooks];
        let codes = parts.read("codes", &[DType::I8, DType::I16], &dims)?;
        // Unsigned, kept in signed types.
        let mask = ((1u32 << self.bits) - 1) as u16;
        let indices = match codes.dtype() {
            DType::I8 => codes.bytes().iter().map(|code| u16::from(*code) & mask).collect(),
            _ => codes.bytes().as_chunks::<2>().0.iter().map(|code| u16::from_le_bytes(*code) & mask).collect(),
        };
        let entries = 1usize << self.bits;
        let size = entries * self.vector.0 * self.vector.1;
        let values = parts.floats("codebooks", self.codebooks * size)?;
        let codebooks = values.chunks_exact(size).map(|values| Codebook { entries, values: values.to_vec() }).collect();
        let matrix = CodebookMatrix {
            out_features: shape.out_features,
            in_features: shape.in_features,
            vector: self.vector,
            codebooks,
            indices,
            output_scales: Some(parts.floats("scales", shape.row_blocks)?),
            input_scales: None,
            input_order: None,
            dense: shape.dense,
        };
        Ok(QuantizedWeight::Codebook(matrix.checked()?))
    }
}
