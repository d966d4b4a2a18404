//! Tensors as the blocks of GGUF files: from codes with scales that fit, and from floats as ggml's reference rounds them.

use tensor::{DType, Literal, encode_float};

use crate::quant::format::QuantizedWeight;
use crate::quant::gguf::blocks::GgmlType;
use crate::quant::matrix::PackedMatrix;
use crate::quant::refusal::Refusal;

/// Elements of the blocks that are written.
const BLOCK: usize = 32;

/// The bytes of a weight in a type.
pub(crate) fn encode(weight: &QuantizedWeight, kind: GgmlType) -> Result<Vec<u8>, Refusal> {
    match weight {
        QuantizedWeight::Packed(matrix) if matches!(kind, GgmlType::Q4_0 | GgmlType::Q8_0) => {
            encode_codes(matrix, kind)
        }
        QuantizedWeight::Packed(matrix) => {
            let mut bytes = Vec::new();
            let mut row_values = vec![0.0; matrix.in_features()];
            for row in 0..matrix.out_features() {
                matrix.dequantize_row(row, &mut row_values).map_err(|error| Refusal::damaged(error.to_string()))?;
                bytes.extend(encode_floats(&row_values, kind)?);
            }
            Ok(bytes)
        }
        QuantizedWeight::Dense(literal) => {
            let unknown = || Refusal::new(format!("{} is no float", literal.dtype()), "give floats or a packed matrix");
            let floats = literal.cast(DType::F32).map_err(|_| unknown())?;
            encode_floats(&floats.to_vec::<f32>().map_err(|_| unknown())?, kind)
        }
        QuantizedWeight::Codebook(matrix) => encode_floats(&matrix.dequantize(), kind),
    }
}

/// Codes as they are, with scales rounded to 16 bits.
fn encode_codes(matrix: &PackedMatrix, kind: GgmlType) -> Result<Vec<u8>, Refusal> {
    let spec = matrix.spec();
    let fits = match kind {
        GgmlType::Q4_0 => spec.dtype == DType::I4,
        _ => spec.dtype.is_signed_integer(),
    };
    let is_plain = !(spec.has_levels || spec.has_zero_points || spec.has_minima || spec.has_input_groups);
    let (columns, size) = (matrix.in_features(), spec.block.in_features);
    if !(fits && is_plain && columns.is_multiple_of(BLOCK) && (size.is_multiple_of(BLOCK) || size >= columns)) {
        let message =
            format!("codes of {} by {size} inputs of {columns} do not fit into blocks of {}", spec.dtype, kind.name());
        let help = "quantize to signed integers without zero points, by channel or by groups of a multiple of 32";
        return Err(Refusal::new(message, help));
    }
    let (_, groups) = matrix.blocks();
    let mut bytes = Vec::new();
    for (row, codes) in matrix.codes().chunks_exact(columns).enumerate() {
        for (number, codes) in codes.chunks_exact(BLOCK).enumerate() {
            let group = row / spec.block.out_features * groups + number * BLOCK / size;
            bytes.extend(half(matrix.scales()[group])?);
            match kind {
                GgmlType::Q4_0 => put_nibbles(codes.iter().map(|code| code.wrapping_add(8)), &mut bytes),
                _ => bytes.extend(codes),
            }
        }
    }
    Ok(bytes)
}

/// Floats rounded to a type; their number is a multiple of its block.
fn encode_floats(values: &[f32], kind: GgmlType) -> Result<Vec<u8>, Refusal> {
    if let Some(place) = values.iter().position(|value| !value.is_finite()) {
        return Err(Refusal::new(
            format!("its value {place} is {}", values[place]),
            "repair the model before it is quantized",
        ));
    }
    if !values.len().is_multiple_of(kind.block_elements()) {
        return Err(Refusal::damaged(format!("{} values are no whole blocks of {}", values.len(), kind.name())));
    }
    let mut bytes = Vec::new();
    match kind {
        GgmlType::F32 => bytes.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        GgmlType::F16 | GgmlType::BF16 => {
            let dtype = kind.dense().unwrap_or(DType::F16);
            let literal = Literal::from_slice(values, [values.len()]).and_then(|literal| literal.cast(dtype));
            let literal = literal.map_err(|error| Refusal::damaged(error.to_string()))?;
            if dtype == DType::F16 && literal.bytes().as_chunks::<2>().0.iter().any(|bytes| bytes[1] & 0x7c == 0x7c) {
                return Err(Refusal::new("it has values beyond the range of f16", "write it as F32 or BF16"));
            }
            bytes.extend(literal.into_bytes());
        }
        GgmlType::Q8_0 => {
            for block in values.chunks_exact(BLOCK) {
                let largest = block.iter().fold(0f32, |largest, value| largest.max(value.abs()));
                let scale = largest / 127.0;
                let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
                bytes.extend(half(scale)?);
                // Halves are rounded away from zero.
                bytes.extend(block.iter().map(|value| (value * inverse).round() as i8 as u8));
            }
        }
        GgmlType::Q4_0 => {
            for block in values.chunks_exact(BLOCK) {
                let extreme = block
                    .iter()
                    .fold(0f32, |extreme, value| if value.abs() > extreme.abs() { *value } else { extreme });
                // The value that is furthest from zero becomes -8.
                let scale = extreme / -8.0;
                let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
                bytes.extend(half(scale)?);
                put_nibbles(block.iter().map(|value| ((value * inverse + 8.5) as u8).min(15)), &mut bytes);
            }
        }
        other => {
            let message = format!("tensors are not written as {}; F32, F16, BF16, Q4_0 and Q8_0 are", other.name());
            return Err(Refusal::new(message, "write Q8_0, and let llama-quantize make the rest of it"));
        }
    }
    Ok(bytes)
}

/// Codes of 32 values: the first 16 in the low halves of bytes.
fn put_nibbles(codes: impl Iterator<Item = u8>, bytes: &mut Vec<u8>) {
    let mut all = [0u8; BLOCK];
    all.iter_mut().zip(codes).for_each(|(place, code)| *place = code & 15);
    bytes.extend((0..BLOCK / 2).map(|place| all[place] | all[place + BLOCK / 2] << 4));
}

fn half(scale: f32) -> Result<[u8; 2], Refusal> {
    let bits = encode_float(DType::F16, scale.into()).unwrap_or(0x7c00) as u16;
    if bits & 0x7c00 == 0x7c00 {
        return Err(Refusal::new(format!("the scale {scale} is beyond the range of f16"), "write it as F32"));
    }
    Ok(bits.to_le_bytes())
}
