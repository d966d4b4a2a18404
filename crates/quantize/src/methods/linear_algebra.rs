//! Products of matrices, Cholesky factors and their inverses: blocked, so that they stay in caches, and threaded.

use std::ops::{AddAssign, Mul};

use crate::methods::{threads, vectors};

/// Rows of a result that are computed side by side in registers.
const TILE_ROWS: usize = 4;

/// Terms of a sum whose factors stay in the cache.
const DEPTH: usize = 256;

/// Columns of a Cholesky factor that are computed at a time.
const PANEL: usize = 64;

/// Numbers that products are computed of.
pub(crate) trait Number: Copy + Default + AddAssign + Mul<Output = Self> + Send + Sync {
    /// As [`add_product`], for this type.
    fn add_product(c: &mut [Self], stride: usize, a: Rows<'_, Self>, b: Rows<'_, Self>, sizes: [usize; 3]);
}

impl Number for f32 {
    fn add_product(c: &mut [f32], stride: usize, a: Rows<'_, f32>, b: Rows<'_, f32>, sizes: [usize; 3]) {
        vectors::add_tiles_f32(c, stride, a, b, sizes);
    }
}

impl Number for f64 {
    fn add_product(c: &mut [f64], stride: usize, a: Rows<'_, f64>, b: Rows<'_, f64>, sizes: [usize; 3]) {
        vectors::add_tiles_f64(c, stride, a, b, sizes);
    }
}

/// Rows of numbers that lie `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    pub(crate) values: &'a [T],
    pub(crate) stride: usize,
}

impl<'a, T> Rows<'a, T> {
    fn row(&self, row: usize) -> &'a [T] {
        &self.values[row * self.stride..]
    }
}

/// `c += a b`, where `a` is `[rows, depth]`, `b` is `[depth, columns]`, and the rows of `c` lie `stride` apart.
pub(crate) fn add_product<T: Number>(
    c: &mut [T],
    stride: usize,
    a: Rows<'_, T>,
    b: Rows<'_, T>,
    [rows, depth, columns]: [usize; 3],
) {
    T::add_product(c, stride, a, b, [rows, depth, columns]);
}

/// [`add_product`] with so many columns of the result side by side. Every element is the same sum whatever their number.
#[inline(always)]
pub(super) fn add_tiles<T: Number, const WIDE: usize>(
    c: &mut [T],
    stride: usize,
    a: Rows<'_, T>,
    b: Rows<'_, T>,
    [rows, depth, columns]: [usize; 3],
) {
    let panels = columns.div_ceil(WIDE);
    let mut packed: Vec<[T; WIDE]> = Vec::with_capacity(panels * depth.min(DEPTH));
    let rest = [T::default(); DEPTH];
    for first in (0..depth).step_by(DEPTH) {
        let deep = DEPTH.min(depth - first);
        packed.clear();
        for start in (0..columns).step_by(WIDE) {
            let width = WIDE.min(columns - start);
            packed.extend((first..first + deep).map(|k| {
                let mut lane = [T::default(); WIDE];
                lane[..width].copy_from_slice(&b.row(k)[start..start + width]);
                lane
            }));
        }
        for top in (0..rows).step_by(TILE_ROWS) {
            let high = TILE_ROWS.min(rows - top);
            let a: [&[T]; TILE_ROWS] =
                std::array::from_fn(|r| if r < high { &a.row(top + r)[first..first + deep] } else { &rest[..deep] });
            for (panel, b) in packed.chunks_exact(deep).enumerate() {
                let tile = tile_product(a, b);
                let start = panel * WIDE;
                let width = WIDE.min(columns - start);
                for (r, sums) in tile.iter().enumerate().take(high) {
                    let c = &mut c[(top + r) * stride + start..][..width];
                    c.iter_mut().zip(sums).for_each(|(c, sum)| *c += *sum);
                }
            }
        }
    }
}

/// Written so that all sums stay in registers.
#[inline(always)]
fn tile_product<T: Number, const WIDE: usize>(a: [&[T]; TILE_ROWS], b: &[[T; WIDE]]) -> [[T; WIDE]; TILE_ROWS] {
    #[inline(always)]
    fn add<T: Number, const WIDE: usize>(sums: &mut [T; WIDE], a: T, b: &[T; WIDE]) {
        for n in 0..WIDE {
            sums[n] += a * b[n];
        }
    }
    let mut sums0 = [T::default(); WIDE];
    let (mut sums1, mut sums2, mut sums3) = (sums0, sums0, sums0);
    let [a0, a1, a2, a3] = a.map(|a| &a[..b.len()]);
    for (k, b) in b.iter().enumerate() {
        add(&mut sums0, a0[k], b);
        add(&mut sums1, a1[k], b);
        add(&mut sums2, a2[k], b);
        add(&mut sums3, a3[k], b);
    }
    [sums0, sums1, sums2, sums3]
}

/// The mean of `x xᵀ` over rows of `columns` values each.
pub(crate) fn gram_of_rows(rows: &[f32], columns: usize) -> Vec<f32> {
    const CHUNK: usize = 64;
    let count = rows.len() / columns.max(1);
    let mut gram = vec![0.0f32; columns * columns];
    threads::for_each_chunk(&mut gram, CHUNK * columns, |chunk, target| {
        let first = chunk * CHUNK;
        let high = target.len() / columns;
        let turned: Vec<f32> =
            (first..first + high).flat_map(|n| rows.chunks_exact(columns).map(move |row| row[n])).collect();
        let (a, b) = (Rows { values: &turned, stride: count }, Rows { values: rows, stride: columns });
        add_product(target, columns, a, b, [high, count, columns]);
        let count = count.max(1) as f32;
        target.iter_mut().for_each(|sum| *sum /= count);
    });
    gram
}

/// `v H vᵀ` of each row `v` of `values`, where `H` is symmetric, row by row; only what is right of its diagonal blocks is
/// read.
pub(crate) fn quadratic_forms(values: &[f32], symmetric: &[f32], columns: usize) -> Vec<f64> {
    let rows = values.len() / columns.max(1);
    let done = threads::map_chunks(rows, 64, |rows| {
        let values = &values[rows.start * columns..rows.end * columns];
        let mut forms = vec![0.0; rows.len()];
        for first in (0..columns).step_by(DEPTH) {
            let (deep, wide) = (DEPTH.min(columns - first), columns - first);
            let mut products = vec![0.0f32; rows.len() * wide];
            let a = Rows { values: &values[first..], stride: columns };
            let b = Rows { values: &symmetric[first * columns + first..], stride: columns };
            add_product(&mut products, wide, a, b, [rows.len(), deep, wide]);
            for ((row, products), form) in values.chunks_exact(columns).zip(products.chunks_exact(wide)).zip(&mut forms)
            {
                let dot = |range: std::ops::Range<usize>| {
                    let pairs = row[first..][range.clone()].iter().zip(&products[range]);
                    pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
                };
                *form += dot(0..deep) + 2.0 * dot(deep..wide);
            }
        }
        forms
    });
    done.concat()
}

/// Replaces the lower triangle of a symmetric `n` by `n` matrix by its Cholesky factor `L`, `A = L Lᵀ`. What is above
/// the diagonal is neither read nor kept. `Err` has the row whose pivot is not above zero.
pub(crate) fn cholesky(matrix: &mut [f64], n: usize) -> Result<(), usize> {
    for first in (0..n).step_by(PANEL) {
        let width = PANEL.min(n - first);
        let end = first + width;
        let mut corner = vec![0.0; width * width];
        for (row, corner) in corner.chunks_exact_mut(width).enumerate() {
            corner.copy_from_slice(&matrix[(first + row) * n + first..][..width]);
        }
        small_cholesky(&mut corner, width).map_err(|row| first + row)?;
        for (row, corner) in corner.chunks_exact(width).enumerate() {
            matrix[(first + row) * n + first..][..=row].copy_from_slice(&corner[..=row]);
        }
        let below = &mut matrix[end * n..];
        // The panel under the corner: X cornerᵀ = A.
        threads::for_each_chunk(below, 16 * n, |_, rows| {
            for row in rows.chunks_exact_mut(n) {
                let row = &mut row[first..end];
                for j in 0..width {
                    let (done, rest) = row.split_at_mut(j);
                    let corner = &corner[j * width..][..width];
                    let sum: f64 = done.iter().zip(corner).map(|(a, b)| a * b).sum();
                    rest[0] = (rest[0] - sum) / corner[j];
                }
            }
        });
        // What is left: A -= panel panelᵀ.
        let height = n - end;
        let mut negative = Vec::with_capacity(height * width);
        let mut turned = vec![0.0; height * width];
        for (n, row) in below.chunks_exact(n).enumerate() {
            for (k, value) in row[first..end].iter().enumerate() {
                negative.push(-value);
                turned[k * height + n] = *value;
            }
        }
        threads::for_each_chunk(below, PANEL * n, |chunk, rows| {
            let (top, high) = (chunk * PANEL, rows.len() / n);
            let a = Rows { values: &negative[top * width..], stride: width };
            let b = Rows { values: &turned, stride: height };
            add_product(&mut rows[end..], n, a, b, [high, width, top + high]);
        });
    }
    Ok(())
}

fn small_cholesky(matrix: &mut [f64], n: usize) -> Result<(), usize> {
    for i in 0..n {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| matrix[i * n + k] * matrix[j * n + k]).sum();
            let rest = matrix[i * n + j] - sum;
            if i == j {
                // Also false for NaN.
                if !(rest > 0.0 && rest.is_finite()) {
                    return Err(i);
                }
                matrix[i * n + i] = rest.sqrt();
            } else {
                matrix[i * n + j] = rest / matrix[j * n + j];
            }
        }
    }
    Ok(())
}

/// Replaces a lower triangular `n` by `n` matrix by its inverse. What is above the diagonal is neither read nor kept.
pub(crate) fn invert_lower(matrix: &mut [f64], n: usize) {
    for first in (0..n).step_by(PANEL) {
        let width = PANEL.min(n - first);
        let (done, rest) = matrix.split_at_mut(first * n);
        let rows = &mut rest[..width * n];
        let mut corner = vec![0.0; width * width];
        for i in 0..width {
            for j in 0..=i {
                let sum: f64 = (j..i).map(|k| rows[i * n + first + k] * corner[k * width + j]).sum();
                let one = if i == j { 1.0 } else { 0.0 };
                corner[i * width + j] = (one - sum) / rows[i * n + first + i];
            }
        }
        // Left of the corner: -corner⁻¹ (rows · what is above, already inverted).
        let negative: Vec<f64> = corner.iter().map(|value| -value).collect();
        let source: &[f64] = rows;
        let columns = threads::map_chunks(first, PANEL, |columns| {
            let wide = columns.len();
            let mut product = vec![0.0; width * wide];
            // Columns are zero above their own rows.
            let a = Rows { values: &source[columns.start..], stride: n };
            let b = Rows { values: &done[columns.start * n + columns.start..], stride: n };
            let mut lower = Vec::new();
            let corner_rows = wide.min(first - columns.start);
            // The first square of the column is triangular: what lies above its diagonal is not zero in memory.
            for (row, values) in b.values.chunks(n).take(corner_rows).enumerate() {
                lower.extend((0..wide).map(|column| if column <= row { values[column] } else { 0.0 }));
            }
            let square = Rows { values: &lower, stride: wide };
            add_product(&mut product, wide, a, square, [width, corner_rows, wide]);
            let below = first - columns.start - corner_rows;
            if below > 0 {
                let a = Rows { values: &a.values[corner_rows..], stride: n };
                let b = Rows { values: &b.values[corner_rows * n..], stride: n };
                add_product(&mut product, wide, a, b, [width, below, wide]);
            }
            let mut result = vec![0.0; width * wide];
            let (a, b) = (Rows { values: &negative, stride: width }, Rows { values: &product, stride: wide });
            add_product(&mut result, wide, a, b, [width, width, wide]);
            result
        });
        for (chunk, values) in columns.iter().enumerate() {
            let wide = values.len() / width;
            for (row, values) in rows.chunks_exact_mut(n).zip(values.chunks_exact(wide)) {
                row[chunk * PANEL..][..wide].copy_from_slice(values);
            }
        }
        for (row, corner) in rows.chunks_exact_mut(n).zip(corner.chunks_exact(width)) {
            row[first..first + width].copy_from_slice(corner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::random::Random;

    #[test]
    fn products_equal_their_definition() {
        let mut random = Random::new(1);
        for [rows, depth, columns] in [[1, 1, 1], [4, 8, 8], [5, 300, 13], [9, 3, 17], [3, 0, 2]] {
            let a: Vec<f64> = (0..rows * depth).map(|_| random.gaussian()).collect();
            let b: Vec<f64> = (0..depth * columns).map(|_| random.gaussian()).collect();
            let mut c = vec![1.0; rows * columns];
            add_product(
                &mut c,
                columns,
                Rows { values: &a, stride: depth },
                Rows { values: &b, stride: columns },
                [rows, depth, columns],
            );
            for i in 0..rows {
                for j in 0..columns {
                    let sum: f64 = (0..depth).map(|k| a[i * depth + k] * b[k * columns + j]).sum();
                    assert!((c[i * columns + j] - 1.0 - sum).abs() < 1e-10);
                }
            }
        }
    }

    #[test]
    fn quadratic_forms_equal_their_definition() {
        let mut random = Random::new(3);
        let n = 300;
        let gram = gram_of_rows(&(0..n * 9).map(|_| random.gaussian() as f32).collect::<Vec<_>>(), n);
        let values: Vec<f32> = (0..n * 70).map(|_| random.gaussian() as f32).collect();
        for (row, form) in values.chunks(n).zip(quadratic_forms(&values, &gram, n)) {
            let term = |i: usize, j: usize| f64::from(row[i]) * f64::from(gram[i * n + j]) * f64::from(row[j]);
            let exact: f64 = (0..n).map(|i| (0..n).map(|j| term(i, j)).sum::<f64>()).sum();
            assert!((form - exact).abs() < 1e-4 * exact.abs());
        }
    }

    #[test]
    fn factors_and_their_inverses_give_the_matrix_back() {
        let mut random = Random::new(2);
        for n in [1, 7, 64, 65, 200] {
            let x: Vec<f32> = (0..2 * n * n).map(|_| random.gaussian() as f32).collect();
            let gram: Vec<f64> = gram_of_rows(&x, n).iter().map(|value| f64::from(*value)).collect();
            for i in 0..n {
                let moment: f64 = x.chunks(n).map(|row| f64::from(row[i] * row[n - 1])).sum::<f64>() / (2 * n) as f64;
                assert!((gram[i * n + n - 1] - moment).abs() < 1e-4);
            }
            let mut factor = gram.clone();
            cholesky(&mut factor, n).unwrap();
            let lower = |m: &[f64], i: usize, j: usize| if j <= i { m[i * n + j] } else { 0.0 };
            let mut inverse = factor.clone();
            invert_lower(&mut inverse, n);
            for i in 0..n {
                for j in 0..n {
                    let product: f64 = (0..n).map(|k| lower(&factor, i, k) * lower(&factor, j, k)).sum();
                    assert!((product - gram[i * n + j]).abs() < 1e-5, "{n}: [{i}, {j}]");
                    let one: f64 = (0..n).map(|k| lower(&factor, i, k) * lower(&inverse, k, j)).sum();
                    assert!((one - if i == j { 1.0 } else { 0.0 }).abs() < 1e-8, "{n}: [{i}, {j}]");
                }
            }
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_names_its_row() {
        assert_eq!(cholesky(&mut [1.0, 0.0, 2.0, 1.0], 2), Err(1));
        assert_eq!(cholesky(&mut [f64::NAN], 1), Err(0));
        assert_eq!(cholesky(&mut [0.0], 1), Err(0));
        assert_eq!(cholesky(&mut [], 0), Ok(()));
    }
}
