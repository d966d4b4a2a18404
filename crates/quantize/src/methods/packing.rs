//! Rounded values and their scales as a packed matrix.

use tensor::{DType, encode_float};
use weights::quant::{PackedMatrix, ScaleBlock, ScaleEncoding};

use crate::error::Error;
use crate::methods::grid::{Grid, GroupScale};
use crate::methods::matrix::Matrix;
use crate::methods::rounding::Rounding;

/// The code of a number of the grid, the zero point not yet added.
#[inline]
pub(crate) fn code(grid: &Grid, rounding: &Rounding, multiple: f32, group: GroupScale) -> u8 {
    match grid {
        Grid::Integer { .. } => (multiple + group.zero_point) as i8 as u8,
        Grid::Float { .. } => encode_float(rounding.scheme.values, f64::from(multiple)).unwrap_or(0) as u8,
    }
}

/// A packed matrix of codes, one byte each, and of the scales of each row's groups.
pub(crate) fn pack(
    weight: &Matrix,
    rounding: &Rounding,
    codes: Vec<u8>,
    groups: &[GroupScale],
    input_groups: Option<Vec<u32>>,
) -> Result<PackedMatrix, Error> {
    let block = ScaleBlock { out_features: 1, in_features: rounding.group(weight.in_features()) };
    let scales = groups.iter().map(|group| group.scale).collect();
    let dtype = rounding.scheme.values;
    let mut packed = PackedMatrix::new(weight.out_features(), weight.in_features(), dtype, codes, block, scales)?;
    if let Some(bits) = rounding.bits {
        packed = packed.with_bits(bits)?;
    }
    if rounding.scheme.zero_points == nn::quant::ZeroPoints::PerGroup {
        packed = packed.with_zero_points(groups.iter().map(|group| group.zero_point as i8).collect())?;
    }
    packed = match (rounding.scale_type, rounding.global_scale) {
        (DType::F8E8M0FNU, _) => packed.with_scale_encoding(ScaleEncoding::PowersOfTwo)?.with_dense(DType::BF16)?,
        (DType::F8E4M3FN, global) => {
            let encoding = ScaleEncoding::Fp8Over(global.unwrap_or(1.0));
            packed.with_scale_encoding(encoding)?.with_dense(DType::BF16)?
        }
        _ => packed,
    };
    match input_groups {
        Some(groups) => Ok(packed.with_input_groups(groups)?),
        None => Ok(packed),
    }
}
