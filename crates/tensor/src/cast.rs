//! Conversion of whole tensors between floating-point types, rounding to nearest even.

use crate::{DType, Literal, ValueError, decode_float, encode_float};

impl Literal {
    /// The same values in another floating-point type, rounded to nearest even; an error unless the types are equal or both
    /// are real floats.
    ///
    /// ```
    /// use tensor::{DType, Literal};
    ///
    /// let weights = Literal::from([1.0f32, 0.1]).cast(DType::BF16)?;
    /// assert_eq!(weights.cast(DType::F32)?.to_vec::<f32>()?, [1.0, 0.100097656]);
    /// # Ok::<(), tensor::ValueError>(())
    /// ```
    pub fn cast(&self, dtype: DType) -> Result<Literal, ValueError> {
        cast(self, dtype).ok_or(ValueError::Cast { from: self.dtype(), to: dtype })
    }
}

fn cast(literal: &Literal, dtype: DType) -> Option<Literal> {
    let from = literal.dtype();
    if from == dtype {
        return Some(literal.clone());
    }
    if !from.is_float() || !dtype.is_float() {
        return None;
    }
    let bytes = literal.bytes();
    let converted = match (from, dtype) {
        (DType::BF16, DType::F32) => pairs(bytes).flat_map(|bits| (u32::from(bits) << 16).to_le_bytes()).collect(),
        (DType::F32, DType::BF16) => quads(bytes).flat_map(|bits| bf16_of(bits).to_le_bytes()).collect(),
        _ => convert(bytes, from, dtype)?,
    };
    Literal::new(dtype, literal.dims(), converted)
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.as_chunks::<2>().0.iter().map(|chunk| u16::from_le_bytes(*chunk))
}

fn quads(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|chunk| u32::from_le_bytes(*chunk))
}

fn bf16_of(bits: u32) -> u16 {
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        // A NaN whose payload is only in the lower half would become an infinity.
        return (bits >> 16) as u16 | 0x40;
    }
    let to_even = (bits >> 16) & 1;
    ((bits + 0x7fff + to_even) >> 16) as u16
}

/// Through `f64`, which holds every value of every float type: only the last step rounds.
fn convert(bytes: &[u8], from: DType, to: DType) -> Option<Vec<u8>> {
    let (width, to_width) = (from.size_bytes(), to.size_bytes());
    // A type of at most 16 bits has so few values that a table is quicker than the arithmetic.
    let one = |bits: u64| encode_float(to, decode_float(from, bits)?);
    let table: Option<Vec<u64>> =
        (width <= 2 && bytes.len() > 1 << 18).then(|| (0..1 << (8 * width)).map(one).collect()).flatten();
    let mut converted = Vec::with_capacity(bytes.len() / width * to_width);
    for element in bytes.chunks_exact(width) {
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(element);
        let bits = u64::from_le_bytes(wide);
        let bits = match &table {
            Some(table) => *table.get(bits as usize)?,
            None => one(bits)?,
        };
        converted.extend_from_slice(&bits.to_le_bytes()[..to_width]);
    }
    Some(converted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Literal {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Literal::new(DType::F32, [values.len()], bytes).unwrap()
    }

    #[test]
    fn every_half_pattern_survives_a_trip_through_a_wider_type() {
        for narrow in [DType::BF16, DType::F16, DType::F8E5M2, DType::F8E4M3FN] {
            let count = 1usize << narrow.bits();
            let bytes = (0..count as u64).flat_map(|n| n.to_le_bytes()[..narrow.size_bytes()].to_vec()).collect();
            let all = Literal::new(narrow, [count], bytes).unwrap();
            for wide in [DType::F32, DType::F64] {
                let back = cast(&cast(&all, wide).unwrap(), narrow).unwrap();
                for bits in 0..count {
                    let at = |literal: &Literal| {
                        let mut wide = [0; 8];
                        let width = narrow.size_bytes();
                        wide[..width].copy_from_slice(&literal.bytes()[bits * width..][..width]);
                        u64::from_le_bytes(wide)
                    };
                    let nan = decode_float(narrow, at(&all)).unwrap().is_nan();
                    let same = at(&all) == at(&back);
                    assert!(same || nan && decode_float(narrow, at(&back)).unwrap().is_nan(), "{narrow} {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn the_quick_ways_round_as_the_exact_way() {
        let mut state = 1u32;
        let mut values =
            vec![0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-45, 1.0 + 1.0 / 256.0];
        for _ in 0..50_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            values.push(f32::from_bits(state));
        }
        let literal = floats(&values);
        let quick = cast(&literal, DType::BF16).unwrap();
        let exact = convert(literal.bytes(), DType::F32, DType::BF16).unwrap();
        for (index, value) in values.iter().enumerate() {
            let at = |bytes: &[u8]| u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]);
            let (quick, exact) = (at(quick.bytes()), at(&exact));
            let nan = |bits: u16| decode_float(DType::BF16, bits.into()).unwrap().is_nan();
            assert!(quick == exact || value.is_nan() && nan(quick) && nan(exact), "{value} {quick:#x} {exact:#x}");
        }
    }

    #[test]
    fn only_floats_are_converted() {
        let integers = Literal::zeros(DType::I32, [3]).unwrap();
        assert!(cast(&integers, DType::F32).is_none());
        assert_eq!(cast(&integers, DType::I32).unwrap(), integers);
        assert!(cast(&floats(&[1.0]), DType::I32).is_none());
        assert!(cast(&floats(&[1.0]), DType::C64).is_none());
    }
}
