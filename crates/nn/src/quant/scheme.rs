//! Quantization schemes: types of values, groups that share a scale, and what happens to activations.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tensor::DType;

/// Whether values have a zero point beside their scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ZeroPoints {
    /// Symmetric: zero is zero.
    #[default]
    None,
    /// Each group has one.
    PerGroup,
}

/// How activations enter a matmul with a quantized weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ActivationQuant {
    /// As they are.
    #[default]
    None,
    /// In the type of the weight, with a scale for each row, found as the program runs.
    Dynamic,
    /// In the type of the weight, with one scale that was calibrated.
    Static,
}

/// How a weight is quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantScheme {
    /// Type of the values: `i8`, `i4`, `i2`, `u4`, `f8E4M3FN`, `f4E2M1FN`, ….
    pub values: DType,
    /// Input features that share a scale; all of an output channel if absent.
    pub group: Option<usize>,
    /// Zero points.
    pub zero_points: ZeroPoints,
    /// Activations.
    pub activations: ActivationQuant,
}

/// The words of schemes: vLLM's, with the type where it is not an integer.
const NAMES: [(&str, DType, ActivationQuant); 8] = [
    ("w8a16", DType::I8, ActivationQuant::None),
    ("w4a16", DType::I4, ActivationQuant::None),
    ("w2a16", DType::I2, ActivationQuant::None),
    ("w8a8", DType::I8, ActivationQuant::Dynamic),
    ("w4a8", DType::I4, ActivationQuant::Dynamic),
    ("w8a16-fp8", DType::F8E4M3FN, ActivationQuant::None),
    ("w8a8-fp8", DType::F8E4M3FN, ActivationQuant::Dynamic),
    ("w4a16-fp4", DType::F4E2M1FN, ActivationQuant::None),
];

/// Other words for schemes: formats of files.
const FORMATS: [(&str, DType, usize); 2] = [("nvfp4", DType::F4E2M1FN, 16), ("mxfp4", DType::F4E2M1FN, 32)];

impl QuantScheme {
    /// Symmetric values of a type, a scale for each output channel, activations as they are.
    pub const fn per_channel(values: DType) -> QuantScheme {
        QuantScheme { values, group: None, zero_points: ZeroPoints::None, activations: ActivationQuant::None }
    }

    /// Bits of a weight, scales not counted.
    pub fn bits(&self) -> u32 {
        self.values.bits()
    }

    /// Type of quantized activations: integers are of 8 bits.
    pub(crate) fn activation_dtype(&self) -> DType {
        if self.values.is_float() { DType::F8E4M3FN } else { DType::I8 }
    }

    /// The type of codes in which rows of activations enter, where each has a scale that is found as the program runs.
    pub(crate) fn row_codes(&self) -> Option<DType> {
        (self.activations == ActivationQuant::Dynamic).then(|| self.activation_dtype())
    }

    /// Groups along so many input features.
    pub fn groups(&self, inputs: usize) -> usize {
        self.group.map_or(1, |group| inputs.div_ceil(group.max(1)))
    }
}

/// The largest code of a type, whose magnitude a scale maps the largest value to.
pub fn largest_code(dtype: DType) -> f64 {
    match dtype {
        DType::I2 => 1.0,
        DType::I4 => 7.0,
        DType::I8 => 127.0,
        DType::U2 => 3.0,
        DType::U4 => 15.0,
        DType::U8 => 255.0,
        DType::F4E2M1FN => 6.0,
        DType::F8E5M2 => 57_344.0,
        _ => 448.0,
    }
}

impl fmt::Display for QuantScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let activations = match self.activations {
            ActivationQuant::Static => ActivationQuant::Dynamic,
            other => other,
        };
        match NAMES.iter().find(|(_, values, a)| (*values, *a) == (self.values, activations)) {
            Some((name, ..)) => f.write_str(name)?,
            None => write!(f, "{}", self.values)?,
        }
        if let Some(group) = self.group {
            write!(f, "-g{group}")?;
        }
        if self.activations == ActivationQuant::Static {
            f.write_str("-static")?;
        }
        if self.zero_points == ZeroPoints::PerGroup {
            f.write_str("-zp")?;
        }
        Ok(())
    }
}

/// A word that names no [`QuantScheme`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseQuantSchemeError {
    word: String,
}

impl fmt::Display for ParseQuantSchemeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = NAMES.map(|(name, ..)| name).into_iter().chain(FORMATS.map(|(name, ..)| name));
        let known = known.collect::<Vec<_>>().join(", ");
        write!(
            f,
            "`{}` is not a quantization scheme; schemes are {known}; groups are written as in w4a16-g128",
            self.word
        )
    }
}

impl std::error::Error for ParseQuantSchemeError {}

impl FromStr for QuantScheme {
    type Err = ParseQuantSchemeError;

    fn from_str(text: &str) -> Result<QuantScheme, ParseQuantSchemeError> {
        let wrong = || ParseQuantSchemeError { word: text.to_string() };
        if let Some((_, values, group)) = FORMATS.into_iter().find(|(name, ..)| *name == text) {
            return Ok(QuantScheme { group: Some(group), ..QuantScheme::per_channel(values) });
        }
        let (mut rest, mut group, mut zero_points, mut is_static) = (text, None, ZeroPoints::None, false);
        loop {
            if let Some(before) = rest.strip_suffix("-zp") {
                (rest, zero_points) = (before, ZeroPoints::PerGroup);
            } else if let Some(before) = rest.strip_suffix("-static") {
                (rest, is_static) = (before, true);
            } else if let Some((before, size)) = rest.rsplit_once("-g") {
                let size: usize = size.parse().map_err(|_| wrong())?;
                (rest, group) = (before, Some(size).filter(|size| *size > 0));
                group.ok_or_else(wrong)?;
            } else {
                break;
            }
        }
        let (_, values, activations) = NAMES.into_iter().find(|(name, ..)| *name == rest).ok_or_else(wrong)?;
        let activations = match (is_static, activations) {
            (false, activations) => activations,
            (true, ActivationQuant::Dynamic) => ActivationQuant::Static,
            (true, _) => return Err(wrong()),
        };
        Ok(QuantScheme { values, group, zero_points, activations })
    }
}

impl Serialize for QuantScheme {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for QuantScheme {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<QuantScheme, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_written_as_they_are_read() {
        for (name, ..) in NAMES {
            for end in ["", "-g128", "-g64-zp"] {
                let text = format!("{name}{end}");
                assert_eq!(text.parse::<QuantScheme>().unwrap().to_string(), text);
            }
        }
        assert_eq!("nvfp4".parse::<QuantScheme>().unwrap().to_string(), "w4a16-fp4-g16");
        assert_eq!("mxfp4".parse::<QuantScheme>().unwrap().to_string(), "w4a16-fp4-g32");
        assert_eq!("w8a8-g32-static".parse::<QuantScheme>().unwrap().to_string(), "w8a8-g32-static");
        for wrong in ["", "w3a16", "w4a16-g0", "w4a16-g", "w4a16-static", "int4"] {
            let refused = wrong.parse::<QuantScheme>().unwrap_err().to_string();
            assert!(refused.contains(&format!("`{wrong}` is not a quantization scheme")), "{refused}");
        }
    }
}
