//! Rows of a quantized matrix as llama.cpp's files have them: blocks of codes with their scales beside them.

/// A format of blocks. Codes and scales of a block lie side by side, so that a matrix is read once, from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockFormat {
    /// 32 codes of 4 bits less 8, a scale.
    Q4_0,
    /// 32 codes of 8 bits, a scale.
    Q8_0,
    /// 256 codes of 4 bits; of each 32 a scale and a minimum of 6 bits each.
    Q4K,
    /// 256 codes of 6 bits less 32; of each 16 a scale of 8 bits.
    Q6K,
}

impl BlockFormat {
    /// All there are.
    pub const ALL: [BlockFormat; 4] = [BlockFormat::Q4_0, BlockFormat::Q8_0, BlockFormat::Q4K, BlockFormat::Q6K];

    /// The composite that multiplies `x [rows, in]` of a float type with blocks `u8 [out, bytes]`: `f32 [rows, out]`. Its attribute
    /// [`BlockFormat::ATTRIBUTE`] names the format.
    pub const MATMUL: &'static str = "tpubridge.block_matmul";

    /// The composite that makes blocks `u8 [out, bytes]` floats `[out, in]`, with the same attribute.
    pub const DECODE: &'static str = "tpubridge.block_decode";

    /// The attribute of both.
    pub const ATTRIBUTE: &'static str = "format";

    /// The name that ggml has for it.
    pub const fn name(self) -> &'static str {
        match self {
            BlockFormat::Q4_0 => "Q4_0",
            BlockFormat::Q8_0 => "Q8_0",
            BlockFormat::Q4K => "Q4_K",
            BlockFormat::Q6K => "Q6_K",
        }
    }

    /// The format of a name.
    pub fn from_name(name: &str) -> Option<BlockFormat> {
        BlockFormat::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Elements of a block.
    pub const fn elements(self) -> usize {
        match self {
            BlockFormat::Q4_0 | BlockFormat::Q8_0 => 32,
            BlockFormat::Q4K | BlockFormat::Q6K => 256,
        }
    }

    /// Bytes of a block.
    pub const fn bytes(self) -> usize {
        match self {
            BlockFormat::Q4_0 => 18,
            BlockFormat::Q8_0 => 34,
            BlockFormat::Q4K => 144,
            BlockFormat::Q6K => 210,
        }
    }

    /// Bytes of a row of so many elements; `None` where those are no whole blocks.
    pub fn row_bytes(self, elements: usize) -> Option<usize> {
        let is_whole = elements > 0 && elements.is_multiple_of(self.elements());
        is_whole.then(|| (elements / self.elements()).checked_mul(self.bytes())).flatten()
    }

    /// Elements of a row of so many bytes; `None` where those are no whole blocks.
    pub fn row_elements(self, bytes: usize) -> Option<usize> {
        let is_whole = bytes > 0 && bytes.is_multiple_of(self.bytes());
        is_whole.then(|| (bytes / self.bytes()).checked_mul(self.elements())).flatten()
    }

    /// Where a block has numbers of 16 bits that its elements are multiplied by.
    fn halves(self) -> &'static [usize] {
        match self {
            BlockFormat::Q4_0 | BlockFormat::Q8_0 => &[0],
            BlockFormat::Q4K => &[0, 2],
            BlockFormat::Q6K => &[208],
        }
    }

    /// The first block, counted from 0, with a scale that is no finite number.
    pub fn not_finite(self, blocks: &[u8]) -> Option<usize> {
        let is_finite =
            |block: &[u8]| self.halves().iter().all(|&at| block.get(at + 1).is_some_and(|high| high & 0x7c != 0x7c));
        blocks.chunks(self.bytes()).position(|block| !is_finite(block))
    }

    /// Makes whole blocks floats; what is left over on either side stays as it is.
    // Inlined, so that a caller compiled for wider vectors gets them.
    #[inline(always)]
    pub fn decode(self, blocks: &[u8], to: &mut [f32]) {
        let both = blocks.chunks_exact(self.bytes()).zip(to.chunks_exact_mut(self.elements()));
        for (block, to) in both {
            match self {
                BlockFormat::Q4_0 => decode_q4_0(block, to),
                BlockFormat::Q8_0 => decode_q8_0(block, to),
                BlockFormat::Q4K => decode_q4k(block, to),
                BlockFormat::Q6K => decode_q6k(block, to),
            }
        }
    }
}

#[inline(always)]
fn decode_q4_0(block: &[u8], to: &mut [f32]) {
    let (Some((scale, codes)), Some((low, high))) = (block.split_first_chunk(), to.split_at_mut_checked(16)) else {
        return;
    };
    let scale = half(*scale);
    for ((byte, low), high) in codes.iter().zip(low).zip(high) {
        *low = (f32::from(byte & 15) - 8.0) * scale;
        *high = (f32::from(byte >> 4) - 8.0) * scale;
    }
}

#[inline(always)]
fn decode_q8_0(block: &[u8], to: &mut [f32]) {
    let Some((scale, codes)) = block.split_first_chunk() else { return };
    let scale = half(*scale);
    for (code, to) in codes.iter().zip(to) {
        *to = f32::from(*code as i8) * scale;
    }
}

#[inline(always)]
fn decode_q4k(block: &[u8], to: &mut [f32]) {
    let Some((scale, rest)) = block.split_first_chunk() else { return };
    let Some((minimum, rest)) = rest.split_first_chunk() else { return };
    let Some((packed, codes)) = rest.split_first_chunk::<12>() else { return };
    let (scale, minimum) = (half(*scale), half(*minimum));
    for (pair, (codes, to)) in codes.chunks_exact(32).zip(to.chunks_exact_mut(64)).enumerate() {
        let (low, high) = to.split_at_mut(32);
        let (of_low, of_high) = (six_bits(packed, 2 * pair), six_bits(packed, 2 * pair + 1));
        let (low_scale, low_minimum) = (scale * f32::from(of_low.0), minimum * f32::from(of_low.1));
        let (high_scale, high_minimum) = (scale * f32::from(of_high.0), minimum * f32::from(of_high.1));
        for ((byte, low), high) in codes.iter().zip(low).zip(high) {
            *low = f32::from(byte & 15) * low_scale - low_minimum;
            *high = f32::from(byte >> 4) * high_scale - high_minimum;
        }
    }
}

/// The scale and the minimum of one of eight groups.
#[inline(always)]
fn six_bits(packed: &[u8; 12], group: usize) -> (u8, u8) {
    if group < 4 {
        return (packed[group] & 63, packed[group + 4] & 63);
    }
    let both = packed[group + 4];
    (both & 15 | packed[group - 4] >> 6 << 4, both >> 4 | packed[group] >> 6 << 4)
}

#[inline(always)]
fn decode_q6k(block: &[u8], to: &mut [f32]) {
    let Some((low, rest)) = block.split_first_chunk::<128>() else { return };
    let Some((high, rest)) = rest.split_first_chunk::<64>() else { return };
    let Some((scales, rest)) = rest.split_first_chunk::<16>() else { return };
    let Some(scale) = rest.first_chunk() else { return };
    let scale = half(*scale);
    for (n, to) in to.chunks_exact_mut(32).enumerate().take(8) {
        let (part, quarter) = (n / 4, n % 4);
        let (low, high) = (&low[64 * part + 32 * (quarter % 2)..][..32], &high[32 * part..][..32]);
        for (sixteen, to) in to.chunks_exact_mut(16).enumerate() {
            let own = scale * f32::from(scales[2 * n + sixteen] as i8);
            let codes = low[16 * sixteen..][..16].iter().zip(&high[16 * sixteen..][..16]);
            for ((low, high), to) in codes.zip(to) {
                let code = low >> (quarter / 2 * 4) & 15 | (high >> (2 * quarter) & 3) << 4;
                *to = (f32::from(code) - 32.0) * own;
            }
        }
    }
}

/// A number of 16 bits. Without a branch, and without an f32 that is denormal: devices take those for zeros.
#[inline(always)]
fn half(bytes: [u8; 2]) -> f32 {
    /// What exponents of an f32 have more than those of an f16, in place.
    const MORE: u32 = 112 << 23;
    /// 2⁻¹⁴, the smallest number of 16 bits that is not denormal.
    const LEAST: u32 = 113 << 23;
    let bits = u32::from(u16::from_le_bytes(bytes));
    let magnitude = (bits & 0x7fff) << 13;
    let denormal = f32::from_bits(magnitude + LEAST) - f32::from_bits(LEAST);
    let magnitude = match bits & 0x7c00 {
        0 => denormal.to_bits(),
        0x7c00 => magnitude + 2 * MORE,
        _ => magnitude + MORE,
    };
    f32::from_bits(magnitude | (bits & 0x8000) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, decode_float};

    #[test]
    fn halves_are_numbers_of_sixteen_bits() {
        for bits in 0..=u16::MAX {
            let expected = decode_float(DType::F16, bits.into()).unwrap() as f32;
            let actual = half(bits.to_le_bytes());
            assert!(
                actual == expected || actual.is_nan() && expected.is_nan(),
                "{bits:#06x}: {actual} is not {expected}"
            );
            assert_eq!(actual.is_sign_negative(), bits & 0x8000 != 0);
        }
    }

    #[test]
    fn rows_are_whole_blocks() {
        for format in BlockFormat::ALL {
            assert_eq!(BlockFormat::from_name(format.name()), Some(format));
            let (elements, bytes) = (format.elements(), format.bytes());
            assert_eq!(format.row_bytes(3 * elements), Some(3 * bytes));
            assert_eq!(format.row_elements(3 * bytes), Some(3 * elements));
            for wrong in [0, elements - 1, elements + 16] {
                assert_eq!(format.row_bytes(wrong), None);
            }
            assert_eq!(format.row_bytes(usize::MAX / elements * elements).is_some(), bytes <= elements);
            for wrong in [0, bytes - 1, bytes + 1] {
                assert_eq!(format.row_elements(wrong), None);
            }
        }
        assert_eq!(BlockFormat::from_name("Q3_K"), None);
    }

    #[test]
    fn scales_that_are_no_numbers_are_found() {
        for format in BlockFormat::ALL {
            let mut blocks = vec![0; 3 * format.bytes()];
            assert_eq!(format.not_finite(&blocks), None);
            let at = format.halves()[format.halves().len() - 1];
            blocks[2 * format.bytes() + at + 1] = 0xfc;
            assert_eq!(format.not_finite(&blocks), Some(2));
            assert_eq!(format.not_finite(&[0; 3]).is_some(), format.halves().iter().any(|&at| at + 1 >= 3));
        }
    }
}
