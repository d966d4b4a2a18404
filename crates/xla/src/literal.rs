//! Values of `constant` instructions, decoded on demand from the kept message.

use crate::module::Instruction;
use crate::opcode::Opcode;
use crate::proto;
use crate::shape::PrimitiveType;
use prost::Message as _;
use std::fmt::Write as _;

/// XLA's text prints larger arrays as `{...}`.
const MAX_PRINTED: u64 = 10;

fn decode(instruction: &Instruction) -> Option<proto::Literal> {
    if instruction.opcode != Opcode::Constant || instruction.shape.element_count() > MAX_PRINTED {
        return None;
    }
    proto::Literal::decode(&instruction.attributes().literal[..]).ok()
}

/// The value of a scalar integer or predicate constant.
pub(crate) fn scalar_integer(instruction: &Instruction) -> Option<i64> {
    if !instruction.shape.dimensions().is_empty() {
        return None;
    }
    let literal = decode(instruction)?;
    let two = |bytes: &[u8]| Some(u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?));
    match instruction.shape.element_type() {
        PrimitiveType::Pred => literal.preds.first().map(|&b| i64::from(b)),
        PrimitiveType::S8 => literal.s8s.first().map(|&b| i64::from(b as i8)),
        PrimitiveType::U8 => literal.u8s.first().map(|&b| i64::from(b)),
        PrimitiveType::S16 => two(&literal.s16s).map(|v| i64::from(v as i16)),
        PrimitiveType::U16 => two(&literal.u16s).map(i64::from),
        PrimitiveType::S32 => literal.s32s.first().map(|&v| i64::from(v)),
        PrimitiveType::U32 => literal.u32s.first().map(|&v| i64::from(v)),
        PrimitiveType::S64 => literal.s64s.first().copied(),
        PrimitiveType::U64 => literal.u64s.first().and_then(|&v| i64::try_from(v).ok()),
        _ => None,
    }
}

/// Largest constant that is read as a list of integers.
const MAX_INTEGERS: u64 = 1 << 20;

impl Instruction {
    /// The values of an integer or predicate constant; `None` for other instructions, types and large arrays.
    pub fn constant_integers(&self) -> Option<Vec<i64>> {
        if self.opcode != Opcode::Constant || self.shape.element_count() > MAX_INTEGERS {
            return None;
        }
        let literal = proto::Literal::decode(&self.attributes().literal[..]).ok()?;
        let values: Vec<i64> = match self.shape.element_type() {
            PrimitiveType::Pred => literal.preds.iter().map(|&b| i64::from(b)).collect(),
            PrimitiveType::S8 => literal.s8s.iter().map(|&b| i64::from(b as i8)).collect(),
            PrimitiveType::U8 => literal.u8s.iter().map(|&b| i64::from(b)).collect(),
            PrimitiveType::S32 => literal.s32s.iter().map(|&v| i64::from(v)).collect(),
            PrimitiveType::U32 => literal.u32s.iter().map(|&v| i64::from(v)).collect(),
            PrimitiveType::S64 => literal.s64s.clone(),
            _ => return None,
        };
        (values.len() as u64 == self.shape.element_count()).then_some(values)
    }
}

/// The argument of `constant(...)` as HLO text shows it; `{...}` for what is large or of a rare type.
pub(crate) fn text(instruction: &Instruction) -> String {
    const ELIDED: &str = "{...}";
    let Some(literal) = decode(instruction) else { return ELIDED.to_owned() };
    let pairs =
        |bytes: &[u8]| -> Vec<u16> { bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect() };
    let items: Vec<String> = match instruction.shape.element_type() {
        PrimitiveType::Pred => literal.preds.iter().map(bool::to_string).collect(),
        PrimitiveType::S8 => literal.s8s.iter().map(|&b| (b as i8).to_string()).collect(),
        PrimitiveType::U8 => literal.u8s.iter().map(u8::to_string).collect(),
        PrimitiveType::S16 => pairs(&literal.s16s).into_iter().map(|v| (v as i16).to_string()).collect(),
        PrimitiveType::U16 => pairs(&literal.u16s).into_iter().map(|v| v.to_string()).collect(),
        PrimitiveType::S32 => literal.s32s.iter().map(i32::to_string).collect(),
        PrimitiveType::U32 => literal.u32s.iter().map(u32::to_string).collect(),
        PrimitiveType::S64 => literal.s64s.iter().map(i64::to_string).collect(),
        PrimitiveType::U64 => literal.u64s.iter().map(u64::to_string).collect(),
        PrimitiveType::F32 => {
            literal.f32s.iter().map(|&v| float(f64::from(v), &v.to_string(), &format!("{v:e}"))).collect()
        }
        PrimitiveType::F64 => literal.f64s.iter().map(|&v| float(v, &v.to_string(), &format!("{v:e}"))).collect(),
        PrimitiveType::Bf16 => pairs(&literal.bf16s).into_iter().map(bf16).collect(),
        _ => return ELIDED.to_owned(),
    };
    if items.len() as u64 != instruction.shape.element_count() {
        return ELIDED.to_owned();
    }
    match instruction.shape.dimensions() {
        [] => items.into_iter().next().unwrap_or_default(),
        [_] => format!("{{{}}}", items.join(", ")),
        dims => {
            let Some(row) = dims.last().and_then(|&d| usize::try_from(d).ok()).filter(|&d| d > 0) else {
                return ELIDED.to_owned();
            };
            if dims.len() > 2 {
                return ELIDED.to_owned();
            }
            let mut out = String::from("{");
            for (i, line) in items.chunks(row).enumerate() {
                let _ = write!(out, "{} {{ {} }}", if i > 0 { "," } else { "" }, line.join(", "));
            }
            out.push_str(" }");
            out
        }
    }
}

fn float(value: f64, plain: &str, scientific: &str) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let exponent = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    if (-5.0..16.0).contains(&exponent) {
        return plain.to_owned();
    }
    // `1e-30` in Rust, `1e-30` in C; only a one-digit exponent differs: C writes `1e-06`, `1e+16`.
    match scientific.split_once('e') {
        Some((digits, power)) if power.starts_with('-') => format!("{digits}e-{:0>2}", &power[1..]),
        Some((digits, power)) => format!("{digits}e+{power:0>2}"),
        None => scientific.to_owned(),
    }
}

/// Four significant digits, as XLA prints 16-bit floats.
fn bf16(bits: u16) -> String {
    let value = f64::from(f32::from_bits(u32::from(bits) << 16));
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    float(rounded, &rounded.to_string(), &format!("{rounded:e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_xla_prints_them() {
        assert_eq!(bf16(0x3dcd), "0.1001");
        assert_eq!(bf16(0x3f80), "1");
        assert_eq!(bf16(0xff80), "-inf");
        assert_eq!(float(1e-6, "0.000001", "1e-6"), "1e-06");
        assert_eq!(float(0.5, "0.5", "5e-1"), "0.5");
    }
}
