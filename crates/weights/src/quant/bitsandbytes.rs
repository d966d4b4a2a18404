//! bitsandbytes checkpoints: int8 by output, and nf4 or fp4 in blocks of the flat matrix, with scales quantized again or not.

use serde_json::{Map, Value};
use tensor::DType;

use crate::folder::SafeTensorsFolder;
use crate::quant::format::{Failure, Format, Module, Parts, QuantizedWeight, Storage, WeightSpec};
use crate::quant::matrix::{PackedMatrix, PackedSpec, ScaleBlock};
use crate::quant::refusal::Refusal;
use crate::quant::settings::Settings;

/// The state of a matrix of 4 bits, as JSON in bytes, by the type of its levels.
const STATES: [&str; 2] = ["weight.quant_state.bitsandbytes__nf4", "weight.quant_state.bitsandbytes__fp4"];

const PARTS_OF_4_BITS: &[&str] =
    &["weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight.nested_quant_map", STATES[0], STATES[1]];

/// Longest state that is read.
const MAX_STATE_BYTES: usize = 1 << 16;

/// Fewest inputs that may share a scale: with fewer, scales take more than codes.
const MIN_SHARED: usize = 8;

/// What each format of int8 weights but the plain one is for: kernels that are gone.
const PLAIN_ROWS: u8 = 0;

/// A model; each matrix says the rest itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitsAndBytes;

impl BitsAndBytes {
    pub(crate) fn parse(settings: &Settings<'_>) -> Result<BitsAndBytes, Refusal> {
        let has = |key: &str| Ok::<_, Refusal>(settings.flag(key)?.unwrap_or(false));
        if !(has("load_in_4bit")? || has("load_in_8bit")?) {
            let message = "neither `load_in_4bit` nor `load_in_8bit` is true";
            return Err(Refusal::new(message, "set the one that the weights were quantized with"));
        }
        Ok(BitsAndBytes)
    }
}

impl Format for BitsAndBytes {
    fn describe(&self) -> String {
        "bitsandbytes".into()
    }

    fn modules(&self, files: &SafeTensorsFolder) -> Result<Vec<Module>, Failure> {
        let mut modules = Vec::new();
        for state in STATES {
            let found = files.entries().filter_map(|(name, _)| name.strip_suffix(state)?.strip_suffix('.'));
            modules.extend(found.map(|module| Module::of(files, module, "weight", PARTS_OF_4_BITS)));
        }
        let of_bytes = files.entries().filter(|(_, entry)| entry.dtype == DType::I8);
        let found = of_bytes.filter_map(|(name, _)| name.strip_suffix(".weight"));
        modules.extend(found.map(|module| Module::of(files, module, "weight", &["SCB", "weight_format"])));
        Ok(modules)
    }

    fn spec(&self, parts: &Parts<'_>) -> Result<WeightSpec, Failure> {
        let (out_features, in_features, spec) = match State::of(parts)? {
            Some(state) => (state.out_features, state.in_features, state.spec()?),
            None => int8_shape(parts)?,
        };
        Ok(WeightSpec { dims: vec![out_features, in_features], storage: Storage::Packed(spec) })
    }

    fn read(&self, parts: &Parts<'_>) -> Result<QuantizedWeight, Failure> {
        let matrix = match State::of(parts)? {
            Some(state) => state.read(parts)?,
            None => read_int8(parts)?,
        };
        Ok(QuantizedWeight::Packed(matrix.checked()?))
    }
}

fn greatest_common_divisor(first: usize, second: usize) -> usize {
    if second == 0 { first } else { greatest_common_divisor(second, first % second) }
}

fn int8_shape(parts: &Parts<'_>) -> Result<(usize, usize, PackedSpec), Failure> {
    let (_, out_features, in_features) = parts.matrix("weight", &[DType::I8])?;
    let spec = PackedSpec {
        dtype: DType::I8,
        bits: 8,
        block: ScaleBlock { out_features: 1, in_features },
        has_levels: false,
        has_zero_points: false,
        has_minima: false,
        has_input_groups: false,
        dense: DType::F32,
    };
    Ok((out_features, in_features, spec))
}

fn read_int8(parts: &Parts<'_>) -> Result<PackedMatrix, Failure> {
    let (out_features, in_features, spec) = int8_shape(parts)?;
    if parts.has("weight_format") {
        let dims = parts.entry("weight_format")?.dims.clone();
        let format = parts.read("weight_format", &[DType::U8], &dims)?;
        if format.bytes() != [PLAIN_ROWS] {
            let message = format!("its `weight_format` is {:?}; {PLAIN_ROWS} (rows) is read", format.bytes());
            return Err(Refusal::new(message, "save the model again with bitsandbytes 0.45 or newer").into());
        }
    }
    let codes = parts.read("weight", &[DType::I8], &[out_features, in_features])?.into_bytes();
    // The largest value of each row, which 127 stands for. The tool multiplies by 1/127.
    let scales = parts.floats("SCB", out_features)?.into_iter().map(|largest| largest * (1.0 / 127.0)).collect();
    Ok(PackedMatrix::bare(out_features, in_features, spec.dtype, spec.bits, codes, spec.block, scales))
}

/// What describes a matrix of 4 bits.
struct State {
    out_features: usize,
    in_features: usize,
    /// Elements of the flat matrix that share a scale.
    block_size: usize,
    dense: DType,
    /// Of scales that are quantized again.
    nested: Option<Nested>,
}

struct Nested {
    block_size: usize,
    offset: f32,
}

impl State {
    /// The state of a matrix; `None` where it has none: int8.
    fn of(parts: &Parts<'_>) -> Result<Option<State>, Failure> {
        let Some(part) = STATES.into_iter().find(|state| parts.has(state)) else { return Ok(None) };
        let dims = parts.entry(part)?.dims.clone();
        if dims.iter().try_fold(1usize, |all, size| all.checked_mul(*size)).is_none_or(|size| size > MAX_STATE_BYTES) {
            return Err(Refusal::damaged(format!("its state has the shape {dims:?}")).into());
        }
        let text = parts.read(part, &[DType::U8], &dims)?;
        let state: Map<String, Value> = serde_json::from_slice(text.bytes())
            .map_err(|error| Refusal::damaged(format!("its state is malformed: {error}")))?;
        Ok(Some(State::parse(&Settings(&state), parts)?))
    }

    fn parse(state: &Settings<'_>, parts: &Parts<'_>) -> Result<State, Refusal> {
        let missing = |key: &str| Refusal::damaged(format!("its state has no `{key}`"));
        let shape = state.get("shape").and_then(Value::as_array).ok_or_else(|| missing("shape"))?;
        let sizes: Vec<usize> = shape.iter().filter_map(|size| usize::try_from(size.as_u64()?).ok()).collect();
        let [out_features, in_features] = sizes[..] else {
            return Err(Refusal::damaged(format!("its state has the shape {shape:?}, which is no matrix")));
        };
        let dense = match state.text("dtype")?.ok_or_else(|| missing("dtype"))? {
            "float16" => DType::F16,
            "bfloat16" => DType::BF16,
            "float32" => DType::F32,
            other => return Err(Refusal::damaged(format!("its state has the type `{other}`"))),
        };
        let nested = match state.get("nested_offset") {
            None if parts.has("weight.nested_absmax") => return Err(missing("nested_offset")),
            None => None,
            Some(offset) => {
                let offset = offset.as_f64().map(|offset| offset as f32).filter(|offset| offset.is_finite());
                let offset = offset.ok_or_else(|| missing("nested_offset"))?;
                let block_size = state.count("nested_blocksize")?.ok_or_else(|| missing("nested_blocksize"))?;
                Some(Nested { block_size, offset })
            }
        };
        let block_size = state.count("blocksize")?.ok_or_else(|| missing("blocksize"))?;
        let state = State { out_features, in_features, block_size, dense, nested };
        let count = state.count()?;
        let entry = parts.entry("weight")?;
        let size_bytes = entry.dims.iter().try_fold(entry.dtype.size_bytes(), |bytes, size| bytes.checked_mul(*size));
        if size_bytes != Some(count.div_ceil(2)) {
            let message =
                format!("{count} values of 4 bits are in a tensor {} of the shape {:?}", entry.dtype, entry.dims);
            return Err(Refusal::damaged(message));
        }
        Ok(state)
    }

    fn count(&self) -> Result<usize, Refusal> {
        let count = self.out_features.checked_mul(self.in_features).filter(|count| *count > 0);
        count.ok_or_else(|| {
            Refusal::damaged(format!("its state has the shape [{}, {}]", self.out_features, self.in_features))
        })
    }

    fn spec(&self) -> Result<PackedSpec, Refusal> {
        let (size, columns) = (self.block_size, self.in_features);
        // Blocks run over the flat matrix: what divides both a block and a row has one scale.
        let shared = greatest_common_divisor(size, columns);
        if shared < MIN_SHARED {
            return Err(Refusal::new(
                format!("blocks of {size} run across rows of {columns} inputs"),
                "quantize with a blocksize that divides the inputs",
            ));
        }
        let block = ScaleBlock { out_features: 1, in_features: shared };
        Ok(PackedSpec {
            dtype: DType::U4,
            bits: 4,
            block,
            has_levels: true,
            has_zero_points: false,
            has_minima: false,
            has_input_groups: false,
            dense: self.dense,
        })
    }

    fn read(&self, parts: &Parts<'_>) -> Result<PackedMatrix, Failure> {
        let (spec, count) = (self.spec()?, self.count()?);
        let entry = parts.entry("weight")?.clone();
        // Whatever type the bytes are stored as.
        let packed = parts.read("weight", &[entry.dtype], &entry.dims)?.into_bytes();
        let mut codes: Vec<u8> = packed.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
        codes.truncate(count);
        drop(packed);
        let levels: [f32; 16] = parts
            .floats("weight.quant_map", 16)?
            .try_into()
            .map_err(|_| Refusal::damaged("its `weight.quant_map` has another number of levels than 16"))?;
        let by_block = self.scales(parts, count.div_ceil(self.block_size))?;
        let shared = spec.block.in_features;
        let scales = (0..count / shared).map(|place| by_block[place * shared / self.block_size]).collect();
        let bare =
            PackedMatrix::bare(self.out_features, self.in_features, spec.dtype, spec.bits, codes, spec.block, scales);
        Ok(PackedMatrix { levels: Some(levels), dense: self.dense, ..bare })
    }

    fn scales(&self, parts: &Parts<'_>, count: usize) -> Result<Vec<f32>, Failure> {
        let Some(nested) = &self.nested else { return parts.floats("weight.absmax", count) };
        let codes = parts.read("weight.absmax", &[DType::U8], &[count])?;
        let table = parts.floats("weight.nested_quant_map", 256)?;
        let largest = parts.floats("weight.nested_absmax", count.div_ceil(nested.block_size))?;
        let one = |(place, code): (usize, &u8)| {
            table[usize::from(*code)] * largest[place / nested.block_size] + nested.offset
        };
        Ok(codes.bytes().iter().enumerate().map(one).collect())
    }
}
