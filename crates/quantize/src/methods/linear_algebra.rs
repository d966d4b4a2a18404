//! Matrices of numbers: Gram matrices, products, Cholesky factors and triangular inverses, blocked and threaded.

use crate::methods::threads;

/// Rows of a result that a thread computes at a time.
const ROWS: usize = 16;

/// The mean of `x xᵀ` over rows of `columns` values each.
pub(crate) fn gram_of_rows(rows: &[f32], columns: usize) -> Vec<f32> {
    let count = rows.len() / columns.max(1);
    let mut gram = vec![0.0f32; columns * columns];
    threads::for_each_chunk(&mut gram, ROWS * columns, |chunk, target| {
        let first = chunk * ROWS;
        for row in rows.chunks_exact(columns) {
            for (n, sums) in target.chunks_exact_mut(columns).enumerate() {
                let factor = row[first + n];
                // Inputs after a gate are often zero.
                if factor != 0.0 {
                    add_multiple(sums, row, factor);
                }
            }
        }
        let count = count.max(1) as f32;
        target.iter_mut().for_each(|sum| *sum /= count);
    });
    gram
}

/// `to += from * factor`.
pub(crate) fn add_multiple(to: &mut [f32], from: &[f32], factor: f32) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from * factor;
    }
}

/// `v H vᵀ` of each row `v` of `values`, where `H` is symmetric, row by row.
pub(crate) fn quadratic_forms(values: &[f32], symmetric: &[f32], columns: usize) -> Vec<f64> {
    let rows = values.len() / columns.max(1);
    let done = threads::map_chunks(rows, ROWS, |rows| {
        let mut products = vec![0.0f32; rows.len() * columns];
        for (n, source) in symmetric.chunks_exact(columns).enumerate() {
            for (row, products) in rows.clone().zip(products.chunks_exact_mut(columns)) {
                add_multiple(products, source, values[row * columns + n]);
            }
        }
        let forms = rows.clone().zip(products.chunks_exact(columns)).map(|(row, products)| {
            let row = &values[row * columns..][..columns];
            row.iter().zip(products).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
        });
        forms.collect::<Vec<_>>()
    });
    done.concat()
}
