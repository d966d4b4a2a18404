//! Real numbers as MLIR prints them: six digits when they say it all, more when they do not, bit patterns otherwise.

use std::fmt::Write;

use tensor::DType;

/// Appends a real number of a type, given its bits.
pub(crate) fn write_float(out: &mut String, dtype: DType, bits: u64) {
    let value = tensor::decode_float(dtype, bits).unwrap_or(f64::NAN);
    if value.is_finite() {
        let short = scientific(value, 6, Zeros::Keep);
        if reads_back(dtype, &short, bits) {
            out.push_str(&short);
            return;
        }
        if let Some(long) = shortest_plain(dtype, value)
            && reads_back(dtype, &long, bits)
        {
            out.push_str(&long);
            return;
        }
    }
    let _ = write!(out, "0x{bits:X}");
}

fn reads_back(dtype: DType, text: &str, bits: u64) -> bool {
    let Ok(value) = text.parse::<f64>() else { return false };
    tensor::encode_float(dtype, value) == Some(bits)
}

enum Zeros {
    /// Pad with zeros to the full precision, lower-case exponent of two digits.
    Keep,
    /// Drop trailing zeros, upper-case exponent.
    Drop,
}

/// The decimal digits of a finite number to a precision, without trailing zeros, and the power of ten of the first one.
///
/// As in LLVM, whose printed form programs and golden files carry: the exact digits are first cut, not rounded, to about
/// the precision as estimated from the number of bits, and what is then still too long is rounded half up.
fn digits(value: f64, precision: usize) -> (Vec<u8>, i32) {
    if value == 0.0 {
        return (vec![b'0'], 0);
    }
    // value = odd * 2^exponent
    let bits = value.abs().to_bits();
    let (mantissa, biased) = (bits & ((1 << 52) - 1), (bits >> 52) as i32);
    let (mantissa, exponent) = if biased == 0 { (mantissa, -1074) } else { (mantissa | 1 << 52, biased - 1075) };
    let odd = mantissa >> mantissa.trailing_zeros();
    let exponent = exponent + mantissa.trailing_zeros() as i32;
    // value = whole * 10^min(exponent, 0), where whole = odd * 2^exponent or odd * 5^-exponent is an integer.
    let whole_bits = if exponent >= 0 {
        64 - odd.leading_zeros() as i32 + exponent
    } else {
        ((odd as f64).log2() - f64::from(exponent) * 5f64.log2()).floor() as i32 + 1
    };
    // The shortest text may round up to a power of ten, so the exact one says which digit comes first.
    let power_in = |text: &str| text.split_once('e').and_then(|(_, e)| e.parse::<i32>().ok()).unwrap_or(0);
    let count_from = |first_power: i32| (first_power - exponent.min(0) + 1).max(1) as usize;
    let shortest_power = power_in(&format!("{:e}", value.abs()));
    let text = format!("{:.*e}", count_from(shortest_power) - 1, value.abs());
    let first_power = power_in(&text);
    let mut digits: Vec<u8> = text.bytes().take_while(|&b| b != b'e').filter(u8::is_ascii_digit).collect();
    digits.truncate(count_from(first_power));
    // 59/196 is just below the decimal digits in a bit.
    let needed_bits = (precision as i32 * 196 + 58) / 59;
    let cut = ((whole_bits - needed_bits).max(0) * 59 / 196) as usize;
    digits.truncate(digits.len().saturating_sub(cut).max(1));
    while digits.len() > 1 && digits.last() == Some(&b'0') {
        digits.pop();
    }
    let mut power = first_power;
    if digits.len() > precision {
        let round_up = digits[precision] >= b'5';
        digits.truncate(precision);
        if round_up {
            while digits.last() == Some(&b'9') {
                digits.pop();
            }
            match digits.last_mut() {
                Some(last) => *last += 1,
                None => {
                    digits.push(b'1');
                    power += 1;
                }
            }
        }
        while digits.len() > 1 && digits.last() == Some(&b'0') {
            digits.pop();
        }
    }
    (digits, power)
}

fn scientific(value: f64, precision: usize, zeros: Zeros) -> String {
    let (digits, exponent) = digits(value, precision);
    let mut out = String::with_capacity(16);
    if value.is_sign_negative() {
        out.push('-');
    }
    out.push(char::from(digits[0]));
    out.push('.');
    out.extend(digits[1..].iter().map(|&d| char::from(d)));
    let sign = if exponent < 0 { '-' } else { '+' };
    match zeros {
        Zeros::Keep => {
            for _ in digits.len()..=precision {
                out.push('0');
            }
            let _ = write!(out, "e{sign}{:02}", exponent.unsigned_abs());
        }
        Zeros::Drop => {
            if digits.len() == 1 {
                out.push('0');
            }
            let _ = write!(out, "E{sign}{}", exponent.unsigned_abs());
        }
    }
    out
}

/// The number with as many digits as its type may need; `None` when it would come out without a decimal point, which
/// cannot be read as a real number.
fn shortest_plain(dtype: DType, value: f64) -> Option<String> {
    const MAX_PADDING: i32 = 3;
    let precision = match dtype {
        DType::F64 => 17,
        DType::F32 => 9,
        DType::F16 => 5,
        DType::BF16 => 4,
        _ => 3,
    };
    let (digits, first_power) = digits(value, precision);
    let count = digits.len() as i32;
    // value = digits * 10^exponent, with the digits taken as one integer.
    let exponent = first_power - (count - 1);
    let is_scientific = if exponent >= 0 {
        exponent > MAX_PADDING || count + exponent > precision as i32
    } else {
        first_power < 0 && -first_power > MAX_PADDING
    };
    if is_scientific {
        return Some(scientific(value, precision, Zeros::Drop));
    }
    if exponent >= 0 {
        return None;
    }
    let mut out = String::new();
    if value.is_sign_negative() {
        out.push('-');
    }
    let text = std::str::from_utf8(&digits).unwrap_or("0");
    if first_power >= 0 {
        let (whole, fraction) = text.split_at(first_power as usize + 1);
        let _ = write!(out, "{whole}.{fraction}");
    } else {
        let _ = write!(out, "0.{}{text}", "0".repeat((-first_power - 1) as usize));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dtype: DType, value: f64, expected: &str) {
        let mut out = String::new();
        write_float(&mut out, dtype, tensor::encode_float(dtype, value).unwrap());
        assert_eq!(out, expected, "{dtype} {value}");
    }

    #[test]
    fn numbers_look_as_in_mlir() {
        check(DType::F32, 0.0, "0.000000e+00");
        check(DType::F32, -0.0, "-0.000000e+00");
        check(DType::F32, 1.0, "1.000000e+00");
        check(DType::F32, 0.1, "1.000000e-01");
        check(DType::F32, 1.0 / 3.0, "0.333333343");
        check(DType::F32, std::f64::consts::PI, "3.14159274");
        check(DType::F32, 1e-10, "1.000000e-10");
        check(DType::F32, 1.2345678e10, "1.23456778E+10");
        check(DType::F32, 16777216.0, "0x4B800000");
        check(DType::F32, 131072.0625, "131072.063");
        check(DType::F32, 0.9, "0.899999976");
        check(DType::F32, 1e-5, "9.99999974E-6");
        check(DType::F32, -8.010193705558777e-4, "-8.0101937E-4");
        check(DType::F16, -0.836_425_781_25, "-8.364250e-01");
        check(DType::F64, 9.675_809_035_373_237e-11, "9.6758090353732369E-11");
        check(DType::F32, f64::from(f32::MAX), "3.40282347E+38");
        check(DType::F32, f64::INFINITY, "0x7F800000");
        check(DType::F32, f64::NAN, "0x7FC00000");
        check(DType::F64, 0.1, "1.000000e-01");
        check(DType::F64, 1e-310, "1.000000e-310");
        check(DType::F64, 1.0 / 3.0, "0.33333333333333331");
        check(DType::BF16, 1.0078125, "1.007810e+00");
        check(DType::BF16, f64::NEG_INFINITY, "0xFF80");
    }
}
