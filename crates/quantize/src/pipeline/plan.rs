//! What is done to a model.

use std::fmt;
use std::str::FromStr;

use nn::quant::{ActivationQuant, QuantScheme, ZeroPoints};
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

/// Formats of floats of 4 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fp4Format {
    /// Groups of 16 with scales of fp8, and a scale of the whole weight.
    Nvfp4,
    /// Groups of 32 with scales that are powers of two.
    Mxfp4,
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
    /// The scheme of the LM head, rounded to nearest; it stays dense if absent.
    pub lm_head: Option<QuantScheme>,
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

    /// The format that floats of 4 bits are written in.
    pub(crate) fn fp4_format(&self) -> Option<Fp4Format> {
        match (self.scheme.values, self.scheme.group) {
            (DType::F4E2M1FN, Some(16)) => Some(Fp4Format::Nvfp4),
            (DType::F4E2M1FN, Some(32)) => Some(Fp4Format::Mxfp4),
            _ => None,
        }
    }

    /// Refuses what no method makes, or no format keeps, with what would do.
    pub fn check(&self) -> Result<(), Error> {
        let (scheme, method) = (self.scheme, self.method_name());
        let is_fp4 = scheme.values == DType::F4E2M1FN;
        if self.method == Method::Codebook {
            self.codebooks()?;
        }
        if scheme.values.is_float() && scheme.zero_points != ZeroPoints::None {
            return Err(Error::setting(
                format!("{scheme}: floats have no zero points"),
                format!("leave -zp out, or take integers: --scheme w{}a16-g128-zp", scheme.bits()),
            ));
        }
        if is_fp4 && self.fp4_format().is_none() {
            let groups =
                scheme.group.map_or("a scale for each channel".to_string(), |size| format!("groups of {size}"));
            return Err(Error::setting(
                format!("floats of 4 bits with {groups} have no format in files"),
                "give --scheme nvfp4 (groups of 16, fp8 scales) or --scheme mxfp4 (groups of 32, powers of two)",
            ));
        }
        if is_fp4 && scheme.activations != ActivationQuant::None {
            return Err(Error::setting(
                format!("{scheme}: activations stay floats beside weights of fp4"),
                "give --scheme nvfp4 or --scheme mxfp4; with activations of 8 bits, --scheme w8a8-fp8 or w4a8",
            ));
        }
        if self.average_bits.is_some() && (self.method == Method::Codebook || scheme.values.is_float()) {
            return Err(Error::setting(
                format!("mixed precision is of integer codes, not of {scheme} by {method}"),
                "leave --average-bits out, or give --scheme w4a16 or w4a16-g128 with --method gptq or rotate-gptq",
            ));
        }
        if self.method == Method::SmoothQuant && scheme.activations == ActivationQuant::None {
            return Err(Error::setting(
                format!("smoothquant moves outliers of activations, which {scheme} leaves as they are"),
                "give --scheme w8a8 or w8a8-fp8 with it, or --method awq, which scales for weights alone",
            ));
        }
        if let Some(head) = self.lm_head {
            if self.method == Method::Codebook || head.activations == ActivationQuant::Static {
                return Err(Error::setting(
                    format!("an LM head of {head} is not made beside {scheme} by {method}"),
                    "give --lm-head w8a16 or w4a16-g128 with a method of scalar codes, or leave it out",
                ));
            }
            self.of_lm_head(head).check()?;
        }
        self.rounding().grid().map(|_| ())
    }

    /// What is done to the LM head.
    pub(crate) fn of_lm_head(&self, scheme: QuantScheme) -> QuantizePlan {
        QuantizePlan { scheme, bits: None, average_bits: None, lm_head: None, method: Method::Nearest, ..self.clone() }
    }

    /// The same with codes of other bits.
    pub(crate) fn with_bits(&self, bits: u32) -> QuantizePlan {
        let Some((values, bits)) = QuantizePlan::code_type(bits) else { return self.clone() };
        QuantizePlan { scheme: QuantScheme { values, ..self.scheme }, bits, ..self.clone() }
    }

    /// How codebooks are made: vectors of 4 with an index of 8 bits for every 2 bits of a weight.
    pub(crate) fn codebooks(&self) -> Result<CodebookOptions, Error> {
        let bits = self.code_bits();
        let scheme = QuantScheme::per_channel(self.scheme.values);
        if !matches!(bits, 2 | 4 | 6 | 8) || self.scheme != scheme || scheme.values.is_float() {
            return Err(Error::setting(
                format!("codebooks of {} with {bits} bits are not made", self.scheme),
                "give --bits 2, 4, 6 or 8 with --method codebook, without groups, zero points or activations",
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
