//! Rotations that spread outliers over all channels: a Hadamard matrix times random signs, for any width.
//!
//! Of a width `m * 2^k` with odd `m`, the matrix is `(C ⊗ H) D`: `H` is the Hadamard matrix of `2^k`, applied by the fast
//! transform, `C` the discrete Hartley transform of `m`, and `D` has random signs. `C` and `H` are orthogonal and their
//! own inverses.

use crate::error::Error;
use crate::methods::matrix::Matrix;
use crate::methods::random::Random;
use crate::methods::threads;

/// The widest vector that is rotated.
const MAX_WIDTH: usize = 1 << 24;

/// Values that a thread rotates at a time.
const CHUNK: usize = 1 << 16;

/// Columns that are rotated side by side.
const COLUMNS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Inverse,
}

/// An orthogonal matrix, known by its width and seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    width: usize,
    odd: usize,
    signs: Vec<f32>,
    /// `cos + sin` of each multiple of a turn over the odd part.
    turns: Vec<f32>,
    /// What makes the matrix orthogonal.
    norm: f32,
    direction: Direction,
}

impl Rotation {
    /// The rotation of vectors of a width; equal seeds give equal rotations.
    pub fn new(width: usize, seed: u64) -> Result<Rotation, Error> {
        if !(1..=MAX_WIDTH).contains(&width) {
            let message = format!("vectors of {width} values are not rotated");
            return Err(Error::setting(message, format!("rotate vectors of 1 to {MAX_WIDTH} values")));
        }
        let odd = width >> width.trailing_zeros();
        let mut random = Random::new(seed ^ 0x526f_7461_7465);
        let signs = (0..width).map(|_| if random.bits() >> 63 == 0 { 1.0 } else { -1.0 }).collect();
        let turns = (0..odd).map(|n| {
            let (sin, cos) = (std::f64::consts::TAU * n as f64 / odd as f64).sin_cos();
            (sin + cos) as f32
        });
        let turns = turns.collect();
        let norm = (1.0 / (width as f64).sqrt()) as f32;
        Ok(Rotation { width, odd, signs, turns, norm, direction: Direction::Forward })
    }

    /// Values of a vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The rotation back: its transpose.
    pub fn inverse(&self) -> Rotation {
        let direction = match self.direction {
            Direction::Forward => Direction::Inverse,
            Direction::Inverse => Direction::Forward,
        };
        Rotation { direction, ..self.clone() }
    }

    /// Rotates vectors that lie one after the other, heads for example.
    pub fn apply(&self, vectors: &mut [f32]) -> Result<(), Error> {
        if !vectors.len().is_multiple_of(self.width) {
            let message = format!("{} values are no vectors of {}", vectors.len(), self.width);
            return Err(Error::setting(message, "make the rotation as wide as the vectors"));
        }
        let per_chunk = (CHUNK / self.width).max(1) * self.width;
        threads::for_each_chunk(vectors, per_chunk, |_, vectors| {
            let mut scratch = Vec::new();
            for vector in vectors.chunks_exact_mut(self.width) {
                self.apply_to(vector, 1, &mut scratch);
            }
        });
        Ok(())
    }

    /// Rotates the inputs of a weight: `W` becomes `W Qᵀ`, which takes `Q x` where `W` took `x`. Where the weight is wider
    /// than the rotation, each part of its inputs is rotated, a head for example. Embeddings are rotated so too.
    pub fn rotate_inputs(&self, weight: &mut Matrix) -> Result<(), Error> {
        self.check(weight, weight.in_features(), "inputs")?;
        weight.change(|values| self.apply(values))
    }

    /// Rotates the outputs of a weight: `W` becomes `Q W`, which gives `Q y` where `W` gave `y`. Where the weight is higher
    /// than the rotation, each part of its outputs is rotated, a head for example.
    pub fn rotate_outputs(&self, weight: &mut Matrix) -> Result<(), Error> {
        self.check(weight, weight.out_features(), "outputs")?;
        let columns = weight.in_features();
        weight.change(|values| {
            // Each part with all of its columns; a few columns side by side are vectors of neighbours.
            for part in values.chunks_exact_mut(self.width * columns) {
                let source: &[f32] = part;
                let rotated = threads::map_chunks(columns, COLUMNS, |range| {
                    let wide = range.len();
                    let rows = source.chunks_exact(columns).flat_map(|row| &row[range.clone()]);
                    let mut turned: Vec<f32> = rows.copied().collect();
                    self.apply_to(&mut turned, wide, &mut Vec::new());
                    turned
                });
                for (row, target) in part.chunks_exact_mut(columns).enumerate() {
                    for (target, rotated) in target.chunks_mut(COLUMNS).zip(&rotated) {
                        let wide = target.len();
                        target.copy_from_slice(&rotated[row * wide..][..wide]);
                    }
                }
            }
            Ok(())
        })
    }

    fn check(&self, weight: &Matrix, features: usize, what: &str) -> Result<(), Error> {
        if features.is_multiple_of(self.width) {
            return Ok(());
        }
        let message = format!("its {features} {what} are no vectors of {}", self.width);
        Err(Error::layer(weight.name(), message, "make the rotation as wide as the layer, or as its heads"))
    }

    /// Rotates `wide` vectors whose values lie side by side.
    fn apply_to(&self, values: &mut [f32], wide: usize, scratch: &mut Vec<f32>) {
        let sign = |values: &mut [f32]| {
            for (values, sign) in values.chunks_exact_mut(wide).zip(&self.signs) {
                values.iter_mut().for_each(|value| *value *= sign * self.norm);
            }
        };
        if self.direction == Direction::Forward {
            sign(values);
        }
        let even = self.width / self.odd * wide;
        for part in values.chunks_exact_mut(even) {
            hadamard(part, wide);
        }
        if self.odd > 1 {
            scratch.clear();
            scratch.extend_from_slice(values);
            for (row, target) in values.chunks_exact_mut(even).enumerate() {
                target.fill(0.0);
                for (column, source) in scratch.chunks_exact(even).enumerate() {
                    let factor = self.turns[row * column % self.odd];
                    target.iter_mut().zip(source).for_each(|(target, source)| *target += source * factor);
                }
            }
        }
        if self.direction == Direction::Inverse {
            sign(values);
        }
    }
}

/// The Hadamard transform of vectors whose length is a power of two, `wide` of them side by side.
fn hadamard(values: &mut [f32], wide: usize) {
    let mut half = wide;
    while half < values.len() {
        for pair in values.chunks_exact_mut(2 * half) {
            let (a, b) = pair.split_at_mut(half);
            for (a, b) in a.iter_mut().zip(b) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::examples::gaussian;

    /// The matrix of a rotation, column by column.
    fn columns(rotation: &Rotation) -> Vec<f32> {
        let n = rotation.width();
        let mut columns = vec![0.0; n * n];
        columns.iter_mut().step_by(n + 1).for_each(|value| *value = 1.0);
        rotation.apply(&mut columns).unwrap();
        columns
    }

    #[test]
    fn rotations_are_orthogonal_and_spread_every_input() {
        for width in [1, 2, 3, 5, 7, 12, 64, 43 * 4, 96, 101] {
            let rotation = Rotation::new(width, 11).unwrap();
            let matrix = columns(&rotation);
            for i in 0..width {
                for j in 0..width {
                    let column = |n: usize| &matrix[n * width..][..width];
                    let dot: f64 = column(i).iter().zip(column(j)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    assert!((dot - if i == j { 1.0 } else { 0.0 }).abs() < 1e-6, "{width}: [{i}, {j}] {dot}");
                }
            }
            let most = matrix.iter().fold(0.0f32, |most, value| most.max(value.abs()));
            assert!(most <= (2.0 / width as f32).sqrt() + 1e-6 || width == 1, "{width}: {most}");
        }
    }

    #[test]
    fn the_even_part_is_the_hadamard_matrix_with_signs() {
        let rotation = Rotation::new(8, 3).unwrap();
        let matrix = columns(&rotation);
        for (column, values) in matrix.chunks(8).enumerate() {
            for (row, value) in values.iter().enumerate() {
                let sign = if (row & column).count_ones() % 2 == 0 { 1.0 } else { -1.0 };
                assert!((value - sign * rotation.signs[column] / 8f32.sqrt()).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn the_inverse_undoes_and_outputs_stay_the_same() {
        for (width, outputs) in [(48, 20), (20, 48), (64, 64)] {
            let weight = gaussian(outputs, width, 5);
            let (inputs, heads) = (Rotation::new(width, 1).unwrap(), Rotation::new(outputs / 4, 2).unwrap());
            let mut turned = weight.clone();
            inputs.rotate_inputs(&mut turned).unwrap();
            heads.rotate_outputs(&mut turned).unwrap();
            let product = |weight: &Matrix, x: &[f32]| -> Vec<f32> {
                (0..outputs).map(|row| weight.row(row).iter().zip(x).map(|(a, b)| a * b).sum()).collect()
            };
            let x = gaussian(1, width, 6).into_values();
            let mut turned_x = x.clone();
            inputs.apply(&mut turned_x).unwrap();
            let mut y = product(&turned, &turned_x);
            heads.inverse().apply(&mut y).unwrap();
            for (a, b) in y.iter().zip(product(&weight, &x)) {
                assert!((a - b).abs() < 1e-4, "{a} {b}");
            }
            inputs.inverse().rotate_inputs(&mut turned).unwrap();
            heads.inverse().rotate_outputs(&mut turned).unwrap();
            for (a, b) in turned.values().iter().zip(weight.values()) {
                assert!((a - b).abs() < 1e-5);
            }
            assert_eq!(inputs.inverse().inverse(), inputs);
        }
    }

    #[test]
    fn seeds_decide_and_widths_that_do_not_fit_are_refused() {
        assert_eq!(Rotation::new(64, 1).unwrap(), Rotation::new(64, 1).unwrap());
        assert_ne!(Rotation::new(64, 1).unwrap(), Rotation::new(64, 2).unwrap());
        assert!(Rotation::new(0, 1).is_err() && Rotation::new(usize::MAX, 1).is_err());
        let rotation = Rotation::new(6, 1).unwrap();
        assert!(rotation.apply(&mut [0.0; 7]).is_err());
        let refused = rotation.rotate_inputs(&mut gaussian(6, 8, 1)).unwrap_err().to_string();
        assert_eq!(refused, "layer `gaussian`: its 8 inputs are no vectors of 6");
        let mut huge = Matrix::new("huge", 1, 6, vec![f32::MAX; 6]).unwrap();
        assert!(rotation.rotate_inputs(&mut huge).is_err() || huge.values().iter().all(|value| value.is_finite()));
    }
}
