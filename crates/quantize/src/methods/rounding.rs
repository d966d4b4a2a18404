//! How weights are rounded: the scheme, the bits of a code, the search for a clip, and the type of the scales.

use nn::quant::{QuantScheme, ZeroPoints};
use tensor::DType;

use crate::error::Error;
use crate::methods::grid::{Grid, ScaleSearch};
use crate::methods::matrix::Matrix;

/// Whether the largest values of a group may be cut off, so that the others are rounded finer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clip {
    /// The largest value sets the scale.
    None,
    /// The scale with the least squared error, of those for `steps` equal parts of the largest value, down to `smallest`
    /// of it.
    Mse {
        /// Parts of the largest value.
        steps: usize,
        /// The smallest part that is tried.
        smallest: f32,
    },
}

impl Clip {
    /// The search that is fine enough for codes of 2 to 8 bits.
    pub const MSE: Clip = Clip::Mse { steps: 50, smallest: 0.1 };

    /// Parts of the largest value to try, the largest first.
    pub(crate) fn ratios(self) -> impl Iterator<Item = f32> + Clone + use<> {
        let (steps, smallest) = match self {
            Clip::None => (1, 1.0),
            Clip::Mse { steps, smallest } => (steps.clamp(1, 1000), smallest.clamp(0.0, 1.0)),
        };
        (1..=steps).rev().map(move |step| step as f32 / steps as f32).filter(move |ratio| *ratio >= smallest)
    }
}

/// The largest number of `f8E4M3FN`.
const FP8_MAX: f32 = 448.0;

/// Bounds of global scales, between which scales are normal numbers.
const MIN_GLOBAL_SCALE: f32 = 1e-12;
const MAX_GLOBAL_SCALE: f32 = 1e30;

/// How weights become codes and scales.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounding {
    /// Type of the codes, groups and zero points.
    pub scheme: QuantScheme,
    /// Bits of a code, where they are fewer than the type has: 3 bits are kept as `i4`.
    pub bits: Option<u32>,
    /// The search for scales.
    pub clip: Clip,
    /// The type that scales are rounded to before codes are found: `f32`, `bf16`, `f16`, `f8E8M0FNU` for powers of two, or
    /// `f8E4M3FN` beside a scale of the whole weight.
    pub scale_type: DType,
    /// What scales of `f8E4M3FN` are divided by; that of the weight's largest value if absent.
    pub global_scale: Option<f32>,
}

impl Rounding {
    /// Rounding to a scheme, with the search for the best clip and scales in `f32`.
    pub const fn new(scheme: QuantScheme) -> Rounding {
        Rounding { scheme, bits: None, clip: Clip::MSE, scale_type: DType::F32, global_scale: None }
    }

    /// With codes of fewer bits than their type has.
    pub const fn bits(self, bits: u32) -> Rounding {
        Rounding { bits: Some(bits), ..self }
    }

    /// With another search for scales.
    pub const fn clip(self, clip: Clip) -> Rounding {
        Rounding { clip, ..self }
    }

    /// With scales rounded to a type.
    pub const fn scale_type(self, scale_type: DType) -> Rounding {
        Rounding { scale_type, ..self }
    }

    /// With scales of `f8E4M3FN` divided by one that several weights share.
    pub const fn global_scale(self, global_scale: f32) -> Rounding {
        Rounding { global_scale: Some(global_scale), ..self }
    }

    /// What scales of `f8E4M3FN` are divided by for values up to a magnitude: the largest has the largest code and scale.
    pub fn global_scale_of(&self, largest: f32) -> f32 {
        let code = nn::quant::largest_code(self.scheme.values) as f32;
        let global = FP8_MAX * code / largest;
        if global.is_finite() { global.clamp(MIN_GLOBAL_SCALE, MAX_GLOBAL_SCALE) } else { 1.0 }
    }

    /// The same for one weight: with its own global scale where it has none yet.
    pub(crate) fn for_weight(&self, weight: &Matrix) -> Rounding {
        match (self.scale_type, self.global_scale) {
            (DType::F8E4M3FN, None) => self.global_scale(self.global_scale_of(weight.largest())),
            _ => *self,
        }
    }

    /// How scales are searched.
    pub(crate) fn search(&self) -> ScaleSearch<impl Iterator<Item = f32> + Clone + use<>> {
        let global = self.global_scale.unwrap_or(1.0);
        ScaleSearch { ratios: self.clip.ratios(), scale_type: self.scale_type, global }
    }

    /// Bits of a code.
    pub fn code_bits(&self) -> u32 {
        self.bits.unwrap_or(self.scheme.bits())
    }

    /// Inputs that share a scale, of so many.
    pub(crate) fn group(&self, in_features: usize) -> usize {
        self.scheme.group.unwrap_or(in_features).clamp(1, in_features.max(1))
    }

    /// The numbers that codes stand for, or why there are none.
    pub(crate) fn grid(&self) -> Result<Grid, Error> {
        if !matches!(self.scale_type, DType::F32 | DType::BF16 | DType::F16 | DType::F8E8M0FNU | DType::F8E4M3FN) {
            let message = format!("scales of type {} are not made", self.scale_type);
            return Err(Error::setting(message, "use f32, bf16, f16, f8E8M0FNU or f8E4M3FN"));
        }
        let (dtype, bits) = (self.scheme.values, self.code_bits());
        let has_zero_points = self.scheme.zero_points == ZeroPoints::PerGroup;
        match dtype {
            DType::I2 | DType::I4 | DType::I8 if (2..=dtype.bits()).contains(&bits) => {
                let half = (1u32 << (bits - 1)) as f32;
                Ok(Grid::Integer { low: -half, high: half - 1.0, has_zero_points })
            }
            DType::F8E4M3FN | DType::F8E5M2 | DType::F4E2M1FN if bits == dtype.bits() && !has_zero_points => {
                let (mantissa_bits, least_normal) = match dtype {
                    DType::F8E4M3FN => (3, 2f32.powi(-6)),
                    DType::F8E5M2 => (2, 2f32.powi(-14)),
                    _ => (1, 1.0),
                };
                Ok(Grid::Float { mantissa_bits, least_normal, largest: nn::quant::largest_code(dtype) as f32 })
            }
            _ => {
                let zero_points = if has_zero_points { " with zero points" } else { "" };
                let message = format!("weights are not rounded to codes of {dtype} with {bits} bits{zero_points}");
                let remedy =
                    "use i2, i4 or i8 with 2 to as many bits, or f8E4M3FN, f8E5M2 or f4E2M1FN without zero points";
                Err(Error::setting(message, remedy))
            }
        }
    }
}
