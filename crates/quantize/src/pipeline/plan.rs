//! What is done to a model.

use std::fmt;
use std::str::FromStr;

use nn::quant::QuantScheme;
use tensor::DType;

use crate::error::Error;
use crate::methods::codebook::CodebookOptions;

/// How the codes of a weight are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Round to nearest, with a search for the best clip.
    Nearest,
    /// GPTQ: later columns make up for the error of earlier ones.
    Gptq,
    /// AWQ: inputs with large activations are scaled up before rounding; the norm before undoes it.
    Awq,
    /// SmoothQuant: outliers of activations are moved into weights; the norm before undoes it.
    SmoothQuant,
    /// Vector quantization: neighbouring weights become an index into a codebook.
    Codebook,
}

/// Everything that decides what a quantized model is.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizePlan {
    /// Types, groups and activations.
    pub scheme: QuantScheme,
    /// Bits of a code, where they are fewer than the type has.
    pub bits: Option<u32>,
    /// Mixed precision: bits of a weight in the mean, scales among them. Layers that lose most get more than others.
    pub average_bits: Option<f64>,
    /// How codes are found.
    pub method: Method,
    /// Whether the residual stream and heads are rotated first, so that no weight has outliers.
    pub is_rotated: bool,
    /// Sequences of the calibration text.
    pub samples: usize,
    /// Tokens of each.
    pub sequence: usize,
    /// Where random numbers begin.
    pub seed: u64,
}

const NAMES: [(&str, Method, bool); 7] = [
    ("rtn", Method::Nearest, false),
    ("gptq", Method::Gptq, false),
    ("rotate", Method::Nearest, true),
    ("rotate-gptq", Method::Gptq, true),
    ("awq", Method::Awq, false),
    ("smoothquant", Method::SmoothQuant, false),
    ("codebook", Method::Codebook, false),
];

/// A method and whether the model is rotated first, as `--method` names both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodName {
    /// The method.
    pub method: Method,
    /// Whether the model is rotated first.
    pub is_rotated: bool,
}

/// A word that names no method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseMethodError {
    word: String,
}

impl fmt::Display for ParseMethodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = NAMES.iter().map(|(name, ..)| *name).collect();
        write!(f, "`{}` is not a method of quantization; methods are {}", self.word, known.join(", "))
    }
}

impl std::error::Error for ParseMethodError {}

impl FromStr for MethodName {
    type Err = ParseMethodError;

    fn from_str(text: &str) -> Result<MethodName, ParseMethodError> {
        let found = NAMES.into_iter().find(|(name, ..)| *name == text);
        let (_, method, is_rotated) = found.ok_or_else(|| ParseMethodError { word: text.to_string() })?;
        Ok(MethodName { method, is_rotated })
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(_, method, rotated)| (*method, *rotated) == (self.method, self.is_rotated));
        f.write_str(found.map_or("rtn", |(name, ..)| name))
    }
}

impl QuantizePlan {
    /// Bits of a code.
    pub fn code_bits(&self) -> u32 {
        self.bits.unwrap_or(self.scheme.bits())
    }

    /// The type that holds integer codes of so many bits, and their bits where the type has more.
    pub fn code_type(bits: u32) -> Option<(DType, Option<u32>)> {
        match bits {
            8 => Some((DType::I8, None)),
            5..=7 => Some((DType::I8, Some(bits))),
            4 => Some((DType::I4, None)),
            3 => Some((DType::I4, Some(3))),
            2 => Some((DType::I2, None)),
            _ => None,
        }
    }

    /// The same with codes of other bits.
    pub(crate) fn with_bits(&self, bits: u32) -> QuantizePlan {
        let Some((values, bits)) = QuantizePlan::code_type(bits) else { return self.clone() };
        QuantizePlan { scheme: QuantScheme { values, ..self.scheme }, bits, ..self.clone() }
    }

    /// How codebooks are made: vectors of 4 with an index of 8 bits for every 2 bits of a weight.
    pub(crate) fn codebooks(&self) -> Result<CodebookOptions, Error> {
        let bits = self.code_bits();
        if !matches!(bits, 2 | 4 | 6 | 8) || self.scheme.group.is_some() {
            return Err(Error::setting(
                format!("codebooks of {} are not made", self.scheme),
                "give --bits 2 or --bits 4 with --method codebook",
            ));
        }
        let stages = bits as usize / 2;
        Ok(CodebookOptions {
            vector: 4,
            entries: 256,
            stages,
            group: None,
            seed: self.seed,
            ..CodebookOptions::default()
        })
    }

    /// Its method by name.
    pub fn method_name(&self) -> MethodName {
        MethodName { method: self.method, is_rotated: self.is_rotated }
    }
}
