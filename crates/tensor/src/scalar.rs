//! Conversion between `f64` and the bit patterns of every floating-point element type.

use crate::DType;

/// How a small float treats its largest exponent and negative zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// Infinities and NaNs as in IEEE 754.
    Ieee,
    /// No infinities; NaN is all ones (sign kept).
    FiniteNan,
    /// No infinities; NaN is the pattern of negative zero.
    NoNegativeZero,
    /// No infinities and no NaN: every pattern is a number.
    FiniteOnly,
}

struct Layout {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    specials: Specials,
}

fn layout(dtype: DType) -> Option<Layout> {
    let (exponent, mantissa, bias, specials) = match dtype {
        DType::F4E2M1FN => (2, 1, 1, Specials::FiniteOnly),
        DType::F6E2M3FN => (2, 3, 1, Specials::FiniteOnly),
        DType::F6E3M2FN => (3, 2, 3, Specials::FiniteOnly),
        DType::F8E3M4 => (3, 4, 3, Specials::Ieee),
        DType::F8E4M3 => (4, 3, 7, Specials::Ieee),
        DType::F8E4M3B11FNUZ => (4, 3, 11, Specials::NoNegativeZero),
        DType::F8E4M3FN => (4, 3, 7, Specials::FiniteNan),
        DType::F8E4M3FNUZ => (4, 3, 8, Specials::NoNegativeZero),
        DType::F8E5M2 => (5, 2, 15, Specials::Ieee),
        DType::F8E5M2FNUZ => (5, 2, 16, Specials::NoNegativeZero),
        DType::BF16 => (8, 7, 127, Specials::Ieee),
        DType::F16 => (5, 10, 15, Specials::Ieee),
        _ => return None,
    };
    Some(Layout { exponent, mantissa, bias, specials })
}

/// The bit pattern of `value` rounded to nearest even in `dtype`, or `None` if `dtype` is not a real float.
pub fn encode_float(dtype: DType, value: f64) -> Option<u64> {
    match dtype {
        DType::F64 => Some(value.to_bits()),
        DType::F32 => Some(u64::from((value as f32).to_bits())),
        DType::F8E8M0FNU => Some(encode_power_of_two(value)),
        _ => layout(dtype).map(|layout| encode_small(&layout, value)),
    }
}

/// The value of a bit pattern of `dtype`, exact in `f64`, or `None` if `dtype` is not a real float.
pub fn decode_float(dtype: DType, bits: u64) -> Option<f64> {
    match dtype {
        DType::F64 => Some(f64::from_bits(bits)),
        DType::F32 => Some(f64::from(f32::from_bits(bits as u32))),
        DType::F8E8M0FNU => Some(if bits == 0xff { f64::NAN } else { 2f64.powi(bits as i32 - 127) }),
        _ => layout(dtype).map(|layout| decode_small(&layout, bits)),
    }
}

fn encode_power_of_two(value: f64) -> u64 {
    // The type has no sign and no zero; what it cannot hold becomes NaN.
    if value.is_nan() || value <= 0.0 || value.is_infinite() {
        return 0xff;
    }
    let exponent = value.log2().round_ties_even();
    (exponent + 127.0).clamp(0.0, 254.0) as u64
}

fn encode_small(layout: &Layout, value: f64) -> u64 {
    let sign_bit = 1u64 << (layout.exponent + layout.mantissa);
    let exponent_mask = (1u64 << layout.exponent) - 1;
    let mantissa_mask = (1u64 << layout.mantissa) - 1;
    let sign = if value.is_sign_negative() { sign_bit } else { 0 };
    if value.is_nan() {
        return match layout.specials {
            Specials::Ieee => sign | (exponent_mask << layout.mantissa) | (1 << (layout.mantissa - 1)),
            Specials::FiniteNan => sign | (exponent_mask << layout.mantissa) | mantissa_mask,
            Specials::NoNegativeZero => sign_bit,
            Specials::FiniteOnly => sign,
        };
    }
    let overflow = match layout.specials {
        Specials::Ieee => sign | (exponent_mask << layout.mantissa),
        Specials::FiniteNan => sign | (exponent_mask << layout.mantissa) | mantissa_mask,
        Specials::NoNegativeZero => sign_bit,
        Specials::FiniteOnly => sign | (exponent_mask << layout.mantissa) | mantissa_mask,
    };
    if value.is_infinite() {
        return overflow;
    }
    if value == 0.0 {
        return if layout.specials == Specials::NoNegativeZero { 0 } else { sign };
    }
    // value = significand * 2^(exponent - 52) with a 53-bit significand.
    let bits = value.abs().to_bits();
    let (mut significand, mut exponent) = (bits & ((1 << 52) - 1), (bits >> 52) as i32 - 1023);
    if exponent == -1023 {
        exponent = -1022;
    } else {
        significand |= 1 << 52;
    }
    // Subnormals of the target keep the exponent 1 - bias and drop more bits.
    let target_exponent = exponent.max(1 - layout.bias);
    let drop = 52 - layout.mantissa as i32 + (target_exponent - exponent);
    let rounded = if drop > 63 { 0 } else { round_shift(significand, drop as u32) };
    // A rounded significand with its hidden bit set belongs to the normal range; carry moves the exponent up by itself.
    let biased = (target_exponent + layout.bias - 1) as u64;
    let magnitude = (biased << layout.mantissa) + rounded;
    let limit = match layout.specials {
        Specials::Ieee => exponent_mask << layout.mantissa,
        Specials::FiniteNan => (exponent_mask << layout.mantissa) | mantissa_mask,
        Specials::NoNegativeZero | Specials::FiniteOnly => sign_bit,
    };
    if magnitude >= limit {
        return overflow;
    }
    if magnitude == 0 && layout.specials == Specials::NoNegativeZero {
        return 0;
    }
    sign | magnitude
}

fn round_shift(value: u64, drop: u32) -> u64 {
    if drop == 0 {
        return value;
    }
    let kept = value >> drop;
    let rest = value & ((1 << drop) - 1);
    let half = 1u64 << (drop - 1);
    kept + u64::from(rest > half || (rest == half && kept & 1 == 1))
}

fn decode_small(layout: &Layout, bits: u64) -> f64 {
    let sign_bit = 1u64 << (layout.exponent + layout.mantissa);
    let exponent_mask = (1u64 << layout.exponent) - 1;
    let mantissa_mask = (1u64 << layout.mantissa) - 1;
    let sign = if bits & sign_bit != 0 { -1.0 } else { 1.0 };
    let exponent = (bits >> layout.mantissa) & exponent_mask;
    let mantissa = bits & mantissa_mask;
    match layout.specials {
        Specials::Ieee if exponent == exponent_mask => {
            return if mantissa == 0 { sign * f64::INFINITY } else { f64::NAN.copysign(sign) };
        }
        Specials::FiniteNan if exponent == exponent_mask && mantissa == mantissa_mask => {
            return f64::NAN.copysign(sign);
        }
        Specials::NoNegativeZero if bits == sign_bit => return f64::NAN,
        _ => {}
    }
    let scale = 2f64.powi(-(layout.mantissa as i32));
    let fraction = mantissa as f64 * scale;
    if exponent == 0 {
        sign * fraction * 2f64.powi(1 - layout.bias)
    } else {
        sign * (1.0 + fraction) * 2f64.powi(exponent as i32 - layout.bias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_pattern_survives_decode_then_encode() {
        for &dtype in DType::ALL.iter().filter(|d| d.is_float() && d.bits() <= 16) {
            for bits in 0..1u64 << dtype.bits() {
                let value = decode_float(dtype, bits).unwrap();
                if value.is_nan() {
                    let again = decode_float(dtype, encode_float(dtype, value).unwrap()).unwrap();
                    assert!(again.is_nan(), "{dtype} {bits:#x}");
                    assert_eq!(again.is_sign_negative(), value.is_sign_negative(), "{dtype} {bits:#x}");
                } else {
                    assert_eq!(encode_float(dtype, value), Some(bits), "{dtype} {bits:#x} = {value}");
                }
            }
        }
    }

    #[test]
    fn rounds_to_nearest_even_and_overflows_as_the_type_does() {
        let check = |dtype, value, bits| assert_eq!(encode_float(dtype, value), Some(bits), "{dtype} {value}");
        check(DType::BF16, 1.0 + 1.0 / 256.0, 0x3f80);
        check(DType::BF16, 1.0 + 3.0 / 256.0, 0x3f82);
        check(DType::F16, 65520.0, 0x7c00);
        check(DType::F16, 65519.0, 0x7bff);
        check(DType::F8E4M3FN, 448.0, 0x7e);
        check(DType::F8E4M3FN, 1e9, 0x7f);
        check(DType::F8E5M2, 1e9, 0x7c);
        check(DType::F8E4M3FNUZ, -0.0, 0);
        check(DType::F4E2M1FN, 100.0, 0x7);
        check(DType::F8E8M0FNU, 1.0, 127);
    }
}
