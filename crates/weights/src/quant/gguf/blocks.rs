//! The tensor types of GGUF files: sizes of their blocks, and blocks as codes, scales and minima.

use tensor::{BlockFormat, DType, Literal, decode_float};

use crate::quant::format::QuantizedWeight;
use crate::quant::matrix::{PackedMatrix, PackedSpec, ScaleBlock};
use crate::quant::microscaling::power_of_two;
use crate::quant::refusal::Refusal;

/// A type of tensors that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of ggml")]
#[allow(non_camel_case_types, reason = "the names are those of ggml")]
pub enum GgmlType {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4_K,
    Q5_K,
    Q6_K,
    MXFP4,
}

/// Number, name, elements of a block and its bytes.
const TYPES: &[(u32, GgmlType, &str, usize, usize)] = &[
    (0, GgmlType::F32, "F32", 1, 4),
    (1, GgmlType::F16, "F16", 1, 2),
    (30, GgmlType::BF16, "BF16", 1, 2),
    (2, GgmlType::Q4_0, "Q4_0", 32, 18),
    (3, GgmlType::Q4_1, "Q4_1", 32, 20),
    (6, GgmlType::Q5_0, "Q5_0", 32, 22),
    (7, GgmlType::Q5_1, "Q5_1", 32, 24),
    (8, GgmlType::Q8_0, "Q8_0", 32, 34),
    (12, GgmlType::Q4_K, "Q4_K", 256, 144),
    (13, GgmlType::Q5_K, "Q5_K", 256, 176),
    (14, GgmlType::Q6_K, "Q6_K", 256, 210),
    (39, GgmlType::MXFP4, "MXFP4", 32, 17),
];

/// Names of types that are not read, so that a refusal can say which it is.
const OTHERS: &[(u32, &str)] = &[
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (40, "NVFP4"),
];

impl GgmlType {
    pub(crate) fn from_number(number: u32) -> Result<GgmlType, Refusal> {
        if let Some(known) = TYPES.iter().find(|known| known.0 == number) {
            return Ok(known.1);
        }
        let name = OTHERS.iter().find(|other| other.0 == number).map_or("unknown", |other| other.1);
        let known: Vec<&str> = TYPES.iter().map(|known| known.2).collect();
        Err(Refusal::new(
            format!("its type is {name} ({number}); {} are read", known.join(", ")),
            "quantize the model again with llama-quantize, for example to Q4_K_M or Q8_0",
        ))
    }

    fn row(self) -> (u32, GgmlType, &'static str, usize, usize) {
        // Every type is in the table, as a test holds.
        TYPES.iter().copied().find(|known| known.1 == self).unwrap_or(TYPES[0])
    }

    /// The number in files.
    pub(crate) fn number(self) -> u32 {
        self.row().0
    }

    /// The name that ggml has for it.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Elements of a block.
    pub(crate) fn block_elements(self) -> usize {
        self.row().3
    }

    /// Bytes of a block.
    pub(crate) fn block_bytes(self) -> usize {
        self.row().4
    }

    /// The float type of tensors that are not quantized.
    pub(crate) fn dense(self) -> Option<DType> {
        match self {
            GgmlType::F32 => Some(DType::F32),
            GgmlType::F16 => Some(DType::F16),
            GgmlType::BF16 => Some(DType::BF16),
            _ => None,
        }
    }

    /// The format in which a device may keep its blocks as they are.
    pub(crate) fn block_format(self) -> Option<BlockFormat> {
        BlockFormat::from_name(self.name())
    }

    /// How matrices of a quantized type are quantized.
    pub(crate) fn spec(self) -> Option<PackedSpec> {
        let (dtype, bits, in_features, has_minima) = match self {
            GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => return None,
            GgmlType::Q4_0 => (DType::I4, 4, 32, false),
            GgmlType::Q4_1 => (DType::U4, 4, 32, true),
            GgmlType::Q5_0 => (DType::I8, 5, 32, false),
            GgmlType::Q5_1 => (DType::U8, 5, 32, true),
            GgmlType::Q8_0 => (DType::I8, 8, 32, false),
            GgmlType::Q4_K => (DType::U4, 4, 32, true),
            GgmlType::Q5_K => (DType::U8, 5, 32, true),
            GgmlType::Q6_K => (DType::I8, 6, 16, false),
            GgmlType::MXFP4 => (DType::F4E2M1FN, 4, 32, false),
        };
        Some(PackedSpec {
            dtype,
            bits,
            block: ScaleBlock { out_features: 1, in_features },
            has_levels: false,
            has_zero_points: false,
            has_minima,
            has_input_groups: false,
            dense: DType::F32,
        })
    }

    /// A tensor of this type out of its bytes.
    pub(crate) fn read(self, dims: &[usize], bytes: Vec<u8>) -> Result<QuantizedWeight, Refusal> {
        let other_size = || Refusal::damaged(format!("the shape {dims:?} has another size than its bytes"));
        let Some(spec) = self.spec() else {
            let literal = self.dense().and_then(|dtype| Literal::new(dtype, dims, bytes));
            return literal.map(QuantizedWeight::Dense).ok_or_else(other_size);
        };
        let (out_features, in_features) = match dims {
            [columns] => (1, *columns),
            [rows, columns] => (*rows, *columns),
            _ => return Err(Refusal::damaged(format!("a quantized tensor has the shape {dims:?}"))),
        };
        let mut unpacked = Unpacked::default();
        let blocks = bytes.chunks_exact(self.block_bytes());
        unpacked.codes.reserve(blocks.len() * self.block_elements());
        for block in blocks {
            self.unpack(block, &mut unpacked)?;
        }
        let Unpacked { codes, scales, minima } = unpacked;
        let bare = PackedMatrix::bare(out_features, in_features, spec.dtype, spec.bits, codes, spec.block, scales);
        let minima = spec.has_minima.then_some(minima);
        let matrix = PackedMatrix { minima, dense: spec.dense, ..bare }.checked()?;
        if dims.len() == 1 {
            // What is no matrix is not multiplied with: norms and biases.
            let values = Literal::from_slice(&matrix.dequantize(), dims);
            return values.map(QuantizedWeight::Dense).map_err(|_| other_size());
        }
        Ok(QuantizedWeight::Packed(matrix))
    }

    /// One block; it has the bytes of its type.
    fn unpack(self, block: &[u8], into: &mut Unpacked) -> Result<(), Refusal> {
        let short = || Refusal::damaged("a block is too short");
        match self {
            GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => {}
            GgmlType::Q4_0 => {
                let (scale, codes) = block.split_first_chunk().ok_or_else(short)?;
                into.scales.push(half(*scale));
                into.codes.extend(nibbles_low_high(codes).map(|code| code.wrapping_sub(8)));
            }
            GgmlType::Q4_1 => {
                let (scale, rest) = block.split_first_chunk().ok_or_else(short)?;
                let (minimum, codes) = rest.split_first_chunk().ok_or_else(short)?;
                into.scales.push(half(*scale));
                // This type adds its minimum.
                into.minima.push(-half(*minimum));
                into.codes.extend(nibbles_low_high(codes));
            }
            GgmlType::Q5_0 => {
                let (scale, rest) = block.split_first_chunk().ok_or_else(short)?;
                let (high, codes) = rest.split_first_chunk().ok_or_else(short)?;
                into.scales.push(half(*scale));
                into.codes.extend(with_fifth_bits(codes, *high).map(|code| code.wrapping_sub(16)));
            }
            GgmlType::Q5_1 => {
                let (scale, rest) = block.split_first_chunk().ok_or_else(short)?;
                let (minimum, rest) = rest.split_first_chunk().ok_or_else(short)?;
                let (high, codes) = rest.split_first_chunk().ok_or_else(short)?;
                into.scales.push(half(*scale));
                into.minima.push(-half(*minimum));
                into.codes.extend(with_fifth_bits(codes, *high));
            }
            GgmlType::Q8_0 => {
                let (scale, codes) = block.split_first_chunk().ok_or_else(short)?;
                into.scales.push(half(*scale));
                into.codes.extend_from_slice(codes);
            }
            GgmlType::Q4_K => {
                let codes = into.super_block(block).ok_or_else(short)?;
                into.codes.extend(codes.chunks_exact(32).flat_map(nibbles_low_high));
            }
            GgmlType::Q5_K => {
                let rest = into.super_block(block).ok_or_else(short)?;
                let (high, codes) = rest.split_first_chunk::<32>().ok_or_else(short)?;
                for (pair, codes) in codes.chunks_exact(32).enumerate() {
                    for (place, low) in nibbles_low_high(codes).enumerate() {
                        let bit = 2 * pair + place / 32;
                        into.codes.push(low | (high[place % 32] >> bit & 1) << 4);
                    }
                }
            }
            GgmlType::Q6_K => {
                let (low, rest) = block.split_first_chunk::<128>().ok_or_else(short)?;
                let (high, rest) = rest.split_first_chunk::<64>().ok_or_else(short)?;
                let (scales, rest) = rest.split_first_chunk::<16>().ok_or_else(short)?;
                let scale = half(*rest.first_chunk().ok_or_else(short)?);
                into.scales.extend(scales.iter().map(|own| scale * f32::from(*own as i8)));
                for part in 0..2 {
                    for quarter in 0..4 {
                        for place in 0..32 {
                            let byte = low[64 * part + 32 * (quarter % 2) + place];
                            let nibble = if quarter < 2 { byte & 15 } else { byte >> 4 };
                            let top = high[32 * part + place] >> (2 * quarter) & 3;
                            into.codes.push((nibble | top << 4).wrapping_sub(32));
                        }
                    }
                }
            }
            GgmlType::MXFP4 => {
                let (exponent, codes) = block.split_first().ok_or_else(short)?;
                if *exponent == 255 {
                    return Err(Refusal::damaged("a scale is NaN (exponent 255)"));
                }
                into.scales.push(power_of_two(*exponent));
                // The type has no negative zero.
                into.codes.extend(nibbles_low_high(codes).map(|code| if code == 8 { 0 } else { code }));
            }
        }
        Ok(())
    }
}

/// Codes, scales and minima of blocks.
#[derive(Default)]
struct Unpacked {
    codes: Vec<u8>,
    scales: Vec<f32>,
    minima: Vec<f32>,
}

impl Unpacked {
    /// Scales and minima of a block of 256 with eight of each in 6 bits; the rest of the block.
    fn super_block<'a>(&mut self, block: &'a [u8]) -> Option<&'a [u8]> {
        let (scale, rest) = block.split_first_chunk()?;
        let (minimum, rest) = rest.split_first_chunk()?;
        let (packed, rest) = rest.split_first_chunk::<12>()?;
        let (scale, minimum) = (half(*scale), half(*minimum));
        for place in 0..8 {
            let (own_scale, own_minimum) = if place < 4 {
                (packed[place] & 63, packed[place + 4] & 63)
            } else {
                let both = packed[place + 4];
                (both & 15 | packed[place - 4] >> 6 << 4, both >> 4 | packed[place] >> 6 << 4)
            };
            self.scales.push(scale * f32::from(own_scale));
            self.minima.push(minimum * f32::from(own_minimum));
        }
        Some(rest)
    }
}

/// Codes of 4 bits: the low halves of all bytes, then the high ones.
fn nibbles_low_high(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().map(|byte| byte & 15).chain(bytes.iter().map(|byte| byte >> 4))
}

fn half(bytes: [u8; 2]) -> f32 {
    decode_float(DType::F16, u16::from_le_bytes(bytes).into()).map_or(f32::NAN, |value| value as f32)
}

/// Codes of 32 values whose fifth bits are in a word.
fn with_fifth_bits(codes: &[u8], high: [u8; 4]) -> impl Iterator<Item = u8> {
    let high = u32::from_le_bytes(high);
    nibbles_low_high(codes).enumerate().map(move |(place, low)| low | ((high >> (place % 32) & 1) as u8) << 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_kept_are_what_they_are_unpacked_to() {
        for kind in TYPES.iter().map(|known| known.1) {
            let Some(format) = kind.block_format() else { continue };
            assert_eq!((format.elements(), format.bytes()), (kind.block_elements(), kind.block_bytes()));
            let (rows, row_bytes) = (3, 2 * format.bytes());
            let mut bytes: Vec<u8> = (0..rows * row_bytes).map(|n| (n * 37 + n / 7) as u8).collect();
            // Small scales, of both signs.
            for block in bytes.chunks_mut(format.bytes()) {
                let scale = if format == BlockFormat::Q6K { 208 } else { 0 };
                block[scale + 1] = 0x20 | block[scale + 1] & 0x80;
                if format == BlockFormat::Q4K {
                    block[3] = 0x24;
                }
            }
            let columns = 2 * format.elements();
            let QuantizedWeight::Packed(matrix) = kind.read(&[rows, columns], bytes.clone()).unwrap() else { panic!() };
            let mut decoded = vec![0.0; rows * columns];
            format.decode(&bytes, &mut decoded);
            assert_eq!(decoded, matrix.dequantize(), "{}", kind.name());
        }
    }

    #[test]
    fn every_type_is_in_the_table() {
        for (number, kind, name, elements, bytes) in TYPES.iter().copied() {
            assert_eq!(GgmlType::from_number(number).unwrap(), kind);
            assert_eq!((kind.number(), kind.name()), (number, name));
            assert_eq!((kind.block_elements(), kind.block_bytes()), (elements, bytes));
            assert_eq!(kind.spec().is_none(), kind.dense().is_some());
        }
        assert!(GgmlType::from_number(16).unwrap_err().message.contains("IQ2_XXS"));
        assert!(GgmlType::from_number(99).unwrap_err().message.contains("unknown"));
    }
}
