//! GPTQ: columns are rounded one after the other, and those still to come make up for the error, as the inputs' Gram
//! matrix tells.

use weights::quant::PackedMatrix;

use crate::error::Error;
use crate::methods::grid::{Grid, GroupScale};
use crate::methods::linear_algebra::{Rows, add_product, cholesky, invert_lower};
use crate::methods::matrix::Matrix;
use crate::methods::packing::{code, pack};
use crate::methods::rounding::Rounding;
use crate::methods::statistics::InputStatistics;
use crate::methods::threads;

/// Columns after which the rest of a row is updated at once.
const BLOCK: usize = 128;

/// Rows that a thread rounds at a time.
const ROWS: usize = 64;

/// The largest damping that is tried, as a share of the mean square of the inputs.
const MAX_DAMPING: f64 = 1.0;

/// The order in which columns are rounded; the words are those of compressed-tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActOrder {
    /// As they are.
    #[default]
    None,
    /// Inputs with the largest mean square first; groups stay those of neighbours, with scales from the original weight.
    Weight,
    /// Inputs with the largest mean square first, and groups in that order too: the matrix names the group of each input.
    Group,
}

/// Options of GPTQ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GptqOptions {
    /// What is added to the diagonal of the Gram matrix, as a share of its mean. Ten times more is tried where that is
    /// too little, up to 1.
    pub damping: f64,
    /// The order of columns.
    pub act_order: ActOrder,
}

impl Default for GptqOptions {
    fn default() -> GptqOptions {
        GptqOptions { damping: 0.01, act_order: ActOrder::None }
    }
}

/// Rounds a weight so that the outputs for the inputs that calibration saw change least.
pub fn quantize(
    weight: &Matrix,
    rounding: &Rounding,
    statistics: &InputStatistics,
    options: &GptqOptions,
) -> Result<PackedMatrix, Error> {
    let (grid, rounding) = (rounding.grid()?, &rounding.for_weight(weight));
    statistics.check_for(weight.name(), weight.in_features())?;
    let order = order(&statistics.mean_square(), options.act_order);
    let factor = inverse_factor(weight.name(), statistics, &order, options.damping)?;
    let task = Task {
        grid,
        rounding,
        group: rounding.group(weight.in_features()),
        factor: &factor,
        order: &order,
        act_order: options.act_order,
    };
    let done = threads::map_chunks(weight.out_features(), ROWS, |rows| {
        task.quantize_rows(rows.map(|row| weight.row(row)).collect())
    });
    let (codes, groups): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    let input_groups = (options.act_order == ActOrder::Group && task.group < weight.in_features()).then(|| {
        let mut groups = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, input)| groups[*input] = (place / task.group) as u32);
        groups
    });
    pack(weight, rounding, codes.concat(), &groups.concat(), input_groups)
}

/// Inputs in the order in which their columns are rounded.
fn order(mean_square: &[f32], act_order: ActOrder) -> Vec<usize> {
    let mut order: Vec<usize> = (0..mean_square.len()).collect();
    if act_order != ActOrder::None {
        order.sort_by(|a, b| mean_square[*b].total_cmp(&mean_square[*a]));
    }
    order
}

/// The upper triangular `U` with `H⁻¹ = Uᵀ U`, where `H` is the Gram matrix in an order of inputs, damped.
///
/// The Cholesky factor of `H` with rows and columns in reverse order is `L`; its inverse in reverse order is `U`: one
/// factorization instead of two, and `H⁻¹` is never formed.
fn inverse_factor(name: &str, statistics: &InputStatistics, order: &[usize], damping: f64) -> Result<Vec<f32>, Error> {
    let (n, gram) = (order.len(), statistics.gram());
    let squares = statistics.mean_square();
    let mean = squares.iter().map(|square| f64::from(*square)).sum::<f64>() / n as f64;
    let mean = if mean > 0.0 { mean } else { 1.0 };
    let mut share = if damping.is_finite() { damping.clamp(1e-8, MAX_DAMPING) } else { MAX_DAMPING };
    let mut matrix = vec![0.0f64; n * n];
    loop {
        threads::for_each_chunk(&mut matrix, n, |row, target| {
            let from = order[n - 1 - row];
            for (column, target) in target[..=row].iter_mut().enumerate() {
                *target = f64::from(gram[from * n + order[n - 1 - column]]);
            }
            // An input that was always zero: its column is rounded by itself.
            if squares[from] == 0.0 {
                target[row] = mean;
            }
            target[row] += share * mean;
        });
        match cholesky(&mut matrix, n) {
            Ok(()) => break,
            Err(_) if share < MAX_DAMPING => share = (share * 10.0).min(MAX_DAMPING),
            Err(row) => {
                let input = order[n - 1 - row];
                let message = format!(
                    "the Gram matrix of its inputs is not positive definite at input {input}, with a damping of {share} too"
                );
                return Err(Error::layer(name, message, "calibrate with more text, or round this layer to nearest"));
            }
        }
    }
    invert_lower(&mut matrix, n);
    let mut factor = vec![0.0f32; n * n];
    threads::for_each_chunk(&mut factor, n, |row, target| {
        let source = &matrix[(n - 1 - row) * n..][..n - row];
        target[row..].iter_mut().zip(source.iter().rev()).for_each(|(target, value)| *target = *value as f32);
    });
    match factor.iter().position(|value| !value.is_finite()) {
        None => Ok(factor),
        Some(place) => {
            let message = format!("the inverse of its Gram matrix is not finite at input {}", order[place / n]);
            Err(Error::layer(name, message, "calibrate with more text, or round this layer to nearest"))
        }
    }
}

/// What all rows of a weight are rounded with.
struct Task<'a> {
    grid: Grid,
    rounding: &'a Rounding,
    group: usize,
    factor: &'a [f32],
    order: &'a [usize],
    act_order: ActOrder,
}

impl Task<'_> {
    /// Codes, and the scales of groups, of rows.
    fn quantize_rows(&self, rows: Vec<&[f32]>) -> (Vec<u8>, Vec<GroupScale>) {
        let n = self.order.len();
        let groups_per_row = n.div_ceil(self.group);
        let search = self.rounding.search();
        let mut groups = vec![GroupScale { scale: 1.0, zero_point: 0.0 }; rows.len() * groups_per_row];
        if self.act_order == ActOrder::Weight {
            for (row, groups) in rows.iter().zip(groups.chunks_exact_mut(groups_per_row)) {
                for (values, group) in row.chunks(self.group).zip(groups) {
                    *group = self.grid.fit(values, None, &search);
                }
            }
        }
        let mut values: Vec<f32> =
            rows.iter().flat_map(|row| self.order.iter().map(move |input| row[*input])).collect();
        let mut codes = vec![0; values.len()];
        let mut errors = vec![0.0f32; rows.len() * BLOCK];
        let mut first = 0;
        while first < n {
            let end = self.block_end(first);
            let width = end - first;
            for (row, (values, errors)) in values.chunks_exact_mut(n).zip(errors.chunks_exact_mut(BLOCK)).enumerate() {
                let groups = &mut groups[row * groups_per_row..][..groups_per_row];
                let codes = &mut codes[row * n..][..n];
                for column in first..end {
                    let input = self.order[column];
                    let place = if self.act_order == ActOrder::Weight { input } else { column };
                    if self.act_order != ActOrder::Weight && column.is_multiple_of(self.group) {
                        let end = (column + self.group).min(n);
                        groups[column / self.group] = self.grid.fit(&values[column..end], None, &search);
                    }
                    let group = groups[place / self.group];
                    let multiple = self.grid.nearest(values[column], group);
                    codes[input] = code(&self.grid, self.rounding, multiple, group);
                    let factor = &self.factor[column * n..][..n];
                    let error = (values[column] - multiple * group.scale) / factor[column];
                    errors[column - first] = -error;
                    for (value, factor) in values[column + 1..end].iter_mut().zip(&factor[column + 1..end]) {
                        *value -= error * factor;
                    }
                }
            }
            if end < n {
                let a = Rows { values: &errors, stride: BLOCK };
                let b = Rows { values: &self.factor[first * n + end..], stride: n };
                add_product(&mut values[end..], n, a, b, [rows.len(), width, n - end]);
            }
            first = end;
        }
        (codes, groups)
    }

    /// Where the block of columns ends that begins at `first`: no group begins in one and ends in another, so that its
    /// scale is of values that are up to date, unless one is longer than a block.
    fn block_end(&self, first: usize) -> usize {
        let n = self.order.len();
        let end = if self.act_order == ActOrder::Weight || self.group >= n {
            first + BLOCK
        } else if self.group <= BLOCK {
            first + BLOCK / self.group * self.group
        } else {
            (first + BLOCK).min((first / self.group + 1) * self.group)
        };
        end.min(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::examples::{correlated, gaussian};
    use crate::methods::{Clip, metrics, nearest};

    const ORDERS: [ActOrder; 3] = [ActOrder::None, ActOrder::Weight, ActOrder::Group];

    /// GPTQ as it is told: one column after the other, with the inverse of the Gram matrix of the columns that are left.
    fn reference(weight: &Matrix, rounding: &Rounding, statistics: &InputStatistics, act_order: ActOrder) -> Vec<f32> {
        let n = weight.in_features();
        let squares = statistics.mean_square();
        let order = order(&squares, act_order);
        let mean = squares.iter().map(|square| f64::from(*square)).sum::<f64>() / n as f64;
        let mut gram = vec![vec![0.0f64; n]; n];
        for i in 0..n {
            for j in 0..n {
                gram[i][j] = f64::from(statistics.gram()[order[i] * n + order[j]]);
            }
            if gram[i][i] == 0.0 {
                gram[i][i] = mean;
            }
            gram[i][i] += 0.01 * mean;
        }
        let mut inverse = inverse_of(gram);
        let (grid, group_size) = (rounding.grid().unwrap(), rounding.group(n));
        let search = rounding.search();
        let mut rows: Vec<Vec<f64>> = (0..weight.out_features())
            .map(|row| order.iter().map(|input| f64::from(weight.row(row)[*input])).collect())
            .collect();
        let mut result = vec![0.0; weight.values().len()];
        let mut groups = vec![vec![GroupScale { scale: 1.0, zero_point: 0.0 }; n.div_ceil(group_size)]; rows.len()];
        for column in 0..n {
            for (row, values) in rows.iter_mut().enumerate() {
                let number =
                    if act_order == ActOrder::Weight { order[column] / group_size } else { column / group_size };
                if act_order == ActOrder::Weight {
                    let original = weight.row(row).chunks(group_size).nth(number).unwrap();
                    groups[row][number] = grid.fit(original, None, &search);
                } else if column % group_size == 0 {
                    let now: Vec<f32> =
                        values[column..(column + group_size).min(n)].iter().map(|value| *value as f32).collect();
                    groups[row][number] = grid.fit(&now, None, &search);
                }
                let group = groups[row][number];
                let rounded = grid.nearest(values[column] as f32, group) * group.scale;
                result[row * n + order[column]] = rounded;
                let error = (values[column] - f64::from(rounded)) / inverse[column][column];
                for other in column..n {
                    values[other] -= error * inverse[column][other];
                }
            }
            // The inverse without this column.
            let pivot = inverse[column].clone();
            for row in inverse.iter_mut().skip(column + 1) {
                let factor = row[column] / pivot[column];
                row.iter_mut().zip(&pivot).for_each(|(value, pivot)| *value -= factor * pivot);
            }
        }
        result
    }

    /// By Gauss and Jordan.
    fn inverse_of(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        let n = matrix.len();
        for (row, values) in matrix.iter_mut().enumerate() {
            values.extend((0..n).map(|column| if row == column { 1.0 } else { 0.0 }));
        }
        for column in 0..n {
            let pivot = matrix[column][column];
            matrix[column].iter_mut().for_each(|value| *value /= pivot);
            let source = matrix[column].clone();
            for (row, values) in matrix.iter_mut().enumerate() {
                if row != column {
                    let factor = values[column];
                    values.iter_mut().zip(&source).for_each(|(value, source)| *value -= factor * source);
                }
            }
        }
        matrix.into_iter().map(|row| row[n..].to_vec()).collect()
    }

    #[test]
    fn blocks_give_what_one_column_after_the_other_gives() {
        let (weight, statistics) = (gaussian(6, 300, 1), correlated(900, 300, 2));
        for name in ["w4a16", "w4a16-g32", "w4a16-g100-zp", "w4a16-g200", "w2a16-g128", "w4a16-fp4-g64"] {
            for act_order in ORDERS {
                let rounding = Rounding::new(name.parse().unwrap());
                let options = GptqOptions { act_order, ..GptqOptions::default() };
                let ours = quantize(&weight, &rounding, &statistics, &options).unwrap().dequantize();
                let reference = reference(&weight, &rounding, &statistics, act_order);
                let differ = ours.iter().zip(&reference).filter(|(a, b)| (*a - *b).abs() > 1e-3).count();
                // A tie that f32 breaks otherwise changes what comes after it in that row.
                assert!(differ <= 8, "{name} {act_order:?}: {differ} of {} differ", ours.len());
            }
        }
    }

    #[test]
    fn outputs_change_less_than_after_rounding_to_nearest() {
        let (weight, statistics) = (gaussian(32, 256, 3), correlated(1024, 256, 4));
        let error =
            |packed: &PackedMatrix| metrics::relative_output_error(&weight, &packed.dequantize(), &statistics).unwrap();
        for name in ["w4a16", "w4a16-g64", "w2a16-g64", "w8a16", "w8a16-fp8", "w4a16-fp4"] {
            let rounding = Rounding::new(name.parse().unwrap());
            let nearest = error(&nearest::quantize(&weight, &rounding, None).unwrap());
            for act_order in ORDERS {
                let options = GptqOptions { act_order, ..GptqOptions::default() };
                let packed = quantize(&weight, &rounding, &statistics, &options).unwrap();
                assert!(error(&packed) < nearest * 0.6, "{name} {act_order:?}: {} of {nearest}", error(&packed));
                assert_eq!(packed, quantize(&weight, &rounding, &statistics, &options).unwrap());
            }
        }
    }

    #[test]
    fn inputs_without_correlation_are_rounded_to_nearest() {
        let weight = gaussian(4, 64, 5);
        let gram = (0..64 * 64).map(|n| if n % 65 == 0 { 1.0 } else { 0.0 }).collect();
        let statistics = InputStatistics::from_parts("x", 10, gram, vec![1.0; 64], vec![1.0; 64]).unwrap();
        let rounding = Rounding::new("w4a16-g16".parse().unwrap()).clip(Clip::None);
        let ours = quantize(&weight, &rounding, &statistics, &GptqOptions::default()).unwrap();
        assert_eq!(ours, nearest::quantize(&weight, &rounding, None).unwrap());
    }

    #[test]
    fn grams_that_are_none_are_refused_and_degenerate_ones_damped() {
        let weight = gaussian(2, 2, 1);
        let rounding = Rounding::new("w4a16".parse().unwrap());
        let quantized = |gram: [f32; 4]| {
            let statistics = InputStatistics::from_parts("x", 3, gram.to_vec(), vec![1.0; 2], vec![1.0; 2]).unwrap();
            quantize(&weight, &rounding, &statistics, &GptqOptions::default())
        };
        // Equal inputs, and none at all.
        assert!(quantized([1.0; 4]).is_ok() && quantized([0.0; 4]).is_ok());
        let refused = quantized([1.0, 5.0, 5.0, 1.0]).unwrap_err().to_string();
        assert_eq!(
            refused,
            "layer `gaussian`: the Gram matrix of its inputs is not positive definite at input 0, with a damping of 1 too"
        );
        let empty = InputStatistics::new("x", 2).unwrap();
        assert!(quantize(&weight, &rounding, &empty, &GptqOptions::default()).is_err());
        let options = GptqOptions { damping: f64::NAN, ..GptqOptions::default() };
        assert!(quantize(&weight, &rounding, &correlated(9, 2, 1), &options).is_ok());
    }
}
