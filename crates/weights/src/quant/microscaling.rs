//! Codes of 4 and 6 bits in bytes, and scales that are powers of two: what nvfp4 and the mx formats have in common.

use crate::quant::refusal::Refusal;

/// Codes of 4 bits, the low ones of a byte first.
pub(crate) fn nibbles(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]).collect()
}

/// Two codes of 4 bits in a byte, the first in its low bits.
pub(crate) fn in_nibbles(codes: &[u8]) -> Vec<u8> {
    codes.chunks(2).map(|pair| pair[0] & 15 | pair.get(1).map_or(0, |code| code << 4)).collect()
}

/// Codes of 6 bits, four in three bytes, the lowest bits first.
pub(crate) fn sixes(bytes: &[u8]) -> Vec<u8> {
    let four = |bytes: &[u8; 3]| {
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
        [0, 6, 12, 18].map(|shift| (word >> shift) as u8 & 63)
    };
    bytes.as_chunks::<3>().0.iter().flat_map(four).collect()
}

/// `2^(e - 127)` of each byte; 255 is NaN.
pub(crate) fn powers_of_two(exponents: &[u8]) -> Result<Vec<f32>, Refusal> {
    if let Some(place) = exponents.iter().position(|exponent| *exponent == 255) {
        return Err(Refusal::damaged(format!("its scale {place} is NaN (exponent 255)")));
    }
    Ok(exponents.iter().map(|exponent| power_of_two(*exponent)).collect())
}

/// `2^(e - 127)`, exact also where it is subnormal.
pub(crate) fn power_of_two(exponent: u8) -> f32 {
    if exponent == 0 { f32::from_bits(0x0040_0000) } else { f32::from_bits(u32::from(exponent) << 23) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_scales_are_as_the_formats_say() {
        assert_eq!(nibbles(&[0x21, 0xf0]), [1, 2, 0, 15]);
        assert_eq!(in_nibbles(&[1, 2, 0, 15]), [0x21, 0xf0]);
        assert_eq!(sixes(&[0x01 | 0x80, 0x30, 0xfc | 0x02]), [1, 2, 0x23, 63]);
        assert_eq!(powers_of_two(&[127, 128, 0]).unwrap(), [1.0, 2.0, 2f32.powi(-127)]);
        assert!(powers_of_two(&[255]).is_err());
    }
}
