//! The numbers that codes stand for, the nearest of them, and the scale that fits a group of values best.

use tensor::{DType, decode_float, encode_float};

/// Values that are summed side by side, so that the loops become vector instructions.
const LANES: usize = 16;

/// Adding and subtracting it rounds a number under `2^22` to the nearest integer, ties to even.
const TO_INTEGER: f32 = 12_582_912.0;

/// The numbers that codes stand for, before the scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Grid {
    /// Integers in a range.
    Integer { low: f32, high: f32, has_zero_points: bool },
    /// Floats of few bits.
    Float { mantissa_bits: u32, least_normal: f32, largest: f32 },
}

/// What a group of values shares: an element is `(code - zero_point) * scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GroupScale {
    pub(crate) scale: f32,
    pub(crate) zero_point: f32,
}

/// How scales are searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScaleSearch<R> {
    /// Parts of the largest value, the largest first.
    pub(crate) ratios: R,
    /// What scales are rounded to.
    pub(crate) scale_type: DType,
    /// What scales of `f8E4M3FN` are divided by.
    pub(crate) global: f32,
}

/// What a scale is rounded to.
#[derive(Clone, Copy)]
struct ScaleGrid {
    dtype: DType,
    global: f32,
}

impl Grid {
    /// The multiple of the scale that is nearest to a value, the zero point already subtracted.
    #[inline(always)]
    pub(crate) fn nearest(&self, value: f32, group: GroupScale) -> f32 {
        let scaled = value * inverse(group.scale);
        match *self {
            Grid::Integer { low, high, .. } => nearest_integer(scaled, low - group.zero_point, high - group.zero_point),
            Grid::Float { mantissa_bits, least_normal, largest } => {
                nearest_float(scaled, rounder(mantissa_bits), least_normal, largest)
            }
        }
    }

    /// Nearest multiples of the scale for all of a group.
    pub(crate) fn nearest_all(&self, values: &[f32], group: GroupScale, target: &mut [f32]) {
        for (target, value) in target.iter_mut().zip(values) {
            *target = self.nearest(*value, group);
        }
    }

    /// The largest magnitude that a code stands for.
    fn largest(&self) -> f32 {
        match *self {
            Grid::Integer { high, .. } => high,
            Grid::Float { largest, .. } => largest,
        }
    }

    /// The scale, and the zero point where the grid has them, with the least error for values, each weighted by its
    /// importance.
    pub(crate) fn fit<R: Iterator<Item = f32> + Clone>(
        &self,
        values: &[f32],
        importance: Option<&[f32]>,
        search: &ScaleSearch<R>,
    ) -> GroupScale {
        let (mut least, mut most, mut largest_at) = (0.0f32, 0.0f32, 0);
        for (n, value) in values.iter().enumerate() {
            if value.abs() > least.abs().max(most) {
                largest_at = n;
            }
            least = least.min(*value);
            most = most.max(*value);
        }
        let largest = most.max(-least);
        // A group of zeros: any scale gives zeros; 1 is one that every format takes.
        let scales = ScaleGrid { dtype: search.scale_type, global: search.global };
        let mut best = GroupScale { scale: self.rounded_scale(1.0, scales), zero_point: 0.0 };
        if largest == 0.0 {
            return best;
        }
        let weight_of_largest = importance.map_or(1.0, |importance| importance[largest_at]);
        let mut least_error = f32::INFINITY;
        for ratio in search.ratios.clone() {
            let group = self.scaled_to(least * ratio, most * ratio, scales);
            // Clipping costs at least this; a smaller ratio costs more.
            let reach = self.reach(group);
            let clipped = (largest - reach).max(0.0);
            if clipped * clipped * weight_of_largest > least_error {
                break;
            }
            let error = self.error(values, importance, group);
            if error < least_error {
                (best, least_error) = (group, error);
            }
        }
        best
    }

    /// The largest magnitude that is not cut off.
    fn reach(&self, group: GroupScale) -> f32 {
        match *self {
            Grid::Integer { low, high, .. } => (group.zero_point - low).max(high - group.zero_point) * group.scale,
            Grid::Float { largest, .. } => largest * group.scale,
        }
    }

    /// The scale and zero point that map a range to all codes.
    fn scaled_to(&self, least: f32, most: f32, scales: ScaleGrid) -> GroupScale {
        match *self {
            Grid::Integer { low, high, has_zero_points: true } => {
                let scale = self.rounded_scale((most - least) / (high - low), scales);
                let zero_point = nearest_integer(low - least * inverse(scale), low, high);
                GroupScale { scale, zero_point }
            }
            _ => {
                let scale = self.rounded_scale(most.max(-least) / self.largest(), scales);
                GroupScale { scale, zero_point: 0.0 }
            }
        }
    }

    /// A scale in its type, finite and above zero.
    fn rounded_scale(&self, scale: f32, scales: ScaleGrid) -> f32 {
        // Smaller ones have an inverse that is not finite.
        let scale = scale.clamp(f32::MIN_POSITIVE, f32::MAX);
        let rounded = match scales.dtype {
            DType::F32 => scale,
            // As the microscaling formats do: the exponent of the largest value over that of the largest code.
            DType::F8E8M0FNU => {
                let exponent = |value: f64| value.log2().floor();
                let largest = f64::from(self.largest());
                2f64.powf(exponent(f64::from(scale) * largest) - exponent(largest))
                    .clamp(2f64.powi(-126), 2f64.powi(127)) as f32
            }
            // Zero is no scale, and what is too large is the largest.
            DType::F8E4M3FN => {
                let inside = (scale * scales.global).clamp(2f32.powi(-9), 448.0);
                let bits = encode_float(DType::F8E4M3FN, f64::from(inside)).unwrap_or(1);
                decode_float(DType::F8E4M3FN, bits).unwrap_or(1.0) as f32 / scales.global
            }
            other => {
                let bits = encode_float(other, f64::from(scale)).unwrap_or(0);
                decode_float(other, bits).unwrap_or(0.0) as f32
            }
        };
        if rounded.is_normal() { rounded } else { scale }
    }

    /// The squared error of a group, weighted.
    fn error(&self, values: &[f32], importance: Option<&[f32]>, group: GroupScale) -> f32 {
        let (scale, inverse) = (group.scale, inverse(group.scale));
        match *self {
            Grid::Integer { low, high, .. } => {
                let (low, high) = (low - group.zero_point, high - group.zero_point);
                sum_of_squares(values, importance, |value| value - nearest_integer(value * inverse, low, high) * scale)
            }
            Grid::Float { mantissa_bits, least_normal, largest } => {
                let rounder = rounder(mantissa_bits);
                sum_of_squares(values, importance, |value| {
                    value - nearest_float(value * inverse, rounder, least_normal, largest) * scale
                })
            }
        }
    }
}

fn inverse(scale: f32) -> f32 {
    // Of the smallest normal scale it is finite.
    1.0 / scale
}

#[inline(always)]
fn nearest_integer(value: f32, low: f32, high: f32) -> f32 {
    // Not `clamp`, which asks the bounds' order of every value; the maximum first makes NaN a number.
    #[allow(clippy::manual_clamp)]
    let inside = value.max(low).min(high);
    (inside + TO_INTEGER) - TO_INTEGER
}

/// Times a power of two, what rounds numbers of its binade to so many bits of mantissa.
fn rounder(mantissa_bits: u32) -> f32 {
    1.5 * (1u32 << (23 - mantissa_bits)) as f32
}

#[inline(always)]
fn nearest_float(value: f32, rounder: f32, least_normal: f32, largest: f32) -> f32 {
    #[allow(clippy::manual_clamp)]
    let inside = value.max(-largest).min(largest);
    // The power of two under it.
    let binade = f32::from_bits(inside.to_bits() & 0x7f80_0000).max(least_normal);
    let add = binade * rounder;
    (inside + add) - add
}

#[inline(always)]
fn sum_of_squares(values: &[f32], importance: Option<&[f32]>, error: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut tail = 0.0;
    match importance {
        Some(importance) => {
            let (weights, rest_weights) = importance.as_chunks::<LANES>();
            for (values, weights) in chunks.iter().zip(weights) {
                for lane in 0..LANES {
                    let error = error(values[lane]);
                    sums[lane] += error * error * weights[lane];
                }
            }
            for (value, weight) in rest.iter().zip(rest_weights) {
                tail += error(*value).powi(2) * weight;
            }
        }
        None => {
            for values in chunks {
                for lane in 0..LANES {
                    let error = error(values[lane]);
                    sums[lane] += error * error;
                }
            }
            for value in rest {
                tail += error(*value).powi(2);
            }
        }
    }
    sums.iter().sum::<f32>() + tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_rounded_as_their_type_rounds() {
        for (dtype, mantissa_bits, least_normal, largest) in [
            (DType::F8E4M3FN, 3, 2f32.powi(-6), 448.0),
            (DType::F8E5M2, 2, 2f32.powi(-14), 57344.0),
            (DType::F4E2M1FN, 1, 1.0, 6.0),
        ] {
            let mut value = 1e-9f32;
            while value < largest * 1.5 {
                for value in [value, -value] {
                    let ours = nearest_float(value, rounder(mantissa_bits), least_normal, largest);
                    let inside = value.clamp(-largest, largest);
                    let exact = decode_float(dtype, encode_float(dtype, f64::from(inside)).unwrap()).unwrap() as f32;
                    assert_eq!(ours.abs(), exact.abs(), "{dtype} of {value}");
                }
                value *= 1.003;
            }
            for tie in 0..2000 {
                let value = tie as f32 * least_normal / 32.0;
                let ours = nearest_float(value, rounder(mantissa_bits), least_normal, largest);
                let exact = decode_float(dtype, encode_float(dtype, f64::from(value.min(largest))).unwrap()).unwrap();
                assert_eq!(ours, exact as f32, "{dtype} of {value}");
            }
        }
    }

    #[test]
    fn integers_are_rounded_to_the_nearest_and_nan_to_one_of_them() {
        for value in [-9.0f32, -8.4, -2.5, -0.4, 0.0, 0.5, 1.5, 6.7, 7.6, 1e30, -1e30] {
            assert_eq!(nearest_integer(value, -8.0, 7.0), value.round_ties_even().clamp(-8.0, 7.0));
        }
        assert!((-8.0..=7.0).contains(&nearest_integer(f32::NAN, -8.0, 7.0)));
    }

    #[test]
    fn the_search_finds_what_trying_every_ratio_finds() {
        let values: Vec<f32> =
            (0..77).map(|n| ((n * 7919 % 101) as f32 - 50.0) * if n == 5 { 0.3 } else { 0.01 }).collect();
        let importance: Vec<f32> = (0..77).map(|n| 1.0 + (n % 5) as f32).collect();
        for has_zero_points in [false, true] {
            let grid = Grid::Integer { low: -8.0, high: 7.0, has_zero_points };
            let ratios = crate::methods::Clip::MSE.ratios();
            let search = ScaleSearch { ratios: ratios.clone(), scale_type: DType::F32, global: 1.0 };
            let found = grid.error(&values, Some(&importance), grid.fit(&values, Some(&importance), &search));
            let (least, most) =
                values.iter().fold((0.0f32, 0.0f32), |(least, most), value| (least.min(*value), most.max(*value)));
            let brute = ratios
                .map(|ratio| {
                    let group =
                        grid.scaled_to(least * ratio, most * ratio, ScaleGrid { dtype: DType::F32, global: 1.0 });
                    grid.error(&values, Some(&importance), group)
                })
                .fold(f32::INFINITY, f32::min);
            assert_eq!(found, brute);
        }
    }
}
